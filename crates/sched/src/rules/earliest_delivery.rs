//! Earliest delivery: a packet goes where it should be delivered in order first; what comes too late is repeated.
//!
//! Rule: for each path, `expected` is when a packet given to it now should arrive, by its round trip, its rate, what it
//! holds, its losses and its silence. Fresh data go to the open path s with the least `expected`, ahead of what the
//! faster full paths let go until then; if that is all there is, s waits. Lost data go where they arrive first. Data
//! that block the message at hand are copied before fresh ones, others when nothing fresh goes: where the expected gain
//! exceeds the airtime of the copy, and at a light load wherever there is a gain, on up to four paths. And a copy asks
//! a path that is not used whether its queue is gone.
//! Reference: Weftway, docs/explanation/earliest-delivery.md: the formulas, the results, and where it loses. Ancestors:
//! EDPF (`edpf`), which sends where a packet arrives first; S-EDPF (`s-edpf`), where it is delivered in order first.
//! State: per path what it showed in the last round trips, in its last busy time and in the last minutes; the packets
//! in flight with what was predicted for them; what was sent ahead; the load, and what copies may add to it.
//! Departs from its ancestors: estimates follow acknowledgements and silence, a path may wait, and data are copied.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{
    BlockedReason, Context, Decision, Event, Flow, Instant, Offset, Path, PathId, PathSet, SendKind, Span,
};

use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose::{self, Tier};
use crate::shared::per_path::PerPath;
use crate::{Report, Scheduler};

mod ack_history;
mod arrival;
mod capacity;
mod copies;
pub(crate) mod correction;
mod estimate;
mod faster_paths;
mod forecast;
mod in_flight;
mod insurance;
mod load;
mod options;
mod outlook;
mod peak;
mod placement;
mod rates;
mod sent_ahead;

use copies::{Copy, Cost};
use correction::{ArrivalEstimator, Corrections};
use estimate::Estimate;
use forecast::Forecast;
use in_flight::{InFlight, Prediction};
use load::Load;
use options::{EARLIEST_ARRIVAL, Options, PARAMS};
use outlook::Outlook;
use sent_ahead::SentAhead;

pub(crate) static ENTRY: Entry = Entry {
    name: "earliest-delivery",
    aliases: &["weft"],
    version: 5,
    summary: "each packet where it should be delivered in order first; what comes too late is repeated",
    reference: "Weftway, docs/explanation/earliest-delivery.md",
    provenance: Provenance::Code,
    goal: "delivery in order, whatever the controller",
    application: "general",
    inputs: &[
        Input::Rtt,
        Input::MinRtt,
        Input::Cwnd,
        Input::InFlight,
        Input::Mss,
        Input::Loss,
        Input::Rate,
        Input::Queue,
        Input::Window,
        Input::Size,
    ],
    needs: Options::DEFAULT.needs(),
    waits: true,
    presets: &[Preset {
        name: EARLIEST_ARRIVAL,
        switches: "ahead=false:waiting=false:copies=false",
        doc: "each packet on the open path where it should arrive first, and nothing else: for hosts that only send",
    }],
    params: PARAMS,
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(EarliestDelivery { options: Options::read(params)?, ..EarliestDelivery::default() }))
}

#[derive(Clone, Default)]
pub(crate) struct EarliestDelivery {
    options: Options,
    estimates: PerPath<Estimate>,
    /// Corrections of the predicted arrivals, if a learned estimate makes them.
    corrections: Option<Box<Corrections>>,
    flights: InFlight,
    ahead: SentAhead,
    load: Load,
    outlook: Outlook,
    /// Paths that new data may use, blocked or not, at this question.
    serving: PathSet,
    /// Open one of them that delivers first.
    first: Option<PathId>,
    /// First byte of the message that was sent last.
    message_start: Offset,
    /// Path of the packet before, where there is no view of the data.
    last_path: Option<PathId>,
    /// Packet of which the last answer asked a copy, and the cost of that.
    asked_copy: Option<(u64, Cost)>,
    /// Time of the last question or event.
    now: Instant,
}

/// A path and its forecast.
type Predicted<'a, 'b> = (&'a Path, &'b Forecast);

/// Returns the one of two that delivers first; of equals the first.
fn sooner<'a, 'b>(best: Predicted<'a, 'b>, next: Predicted<'a, 'b>) -> Predicted<'a, 'b> {
    if next.1.expected < best.1.expected { next } else { best }
}

impl EarliestDelivery {
    /// The rule with an estimate that corrects predicted arrivals.
    pub(crate) fn corrected(by: Box<dyn ArrivalEstimator>) -> Self {
        Self { corrections: Some(Box::new(Corrections::new(by))), ..Self::default() }
    }

    /// The rule for an oracle that tells it when packets arrive ([`hear_arrival`](Self::hear_arrival)).
    pub(crate) fn listening() -> Self {
        Self::default()
    }

    /// Takes from an oracle that a packet given to `path` now arrives in `time`, if the path holds data: until the next
    /// word on it, the rule's own estimate is corrected by as much, within the range of a learned one.
    pub(crate) fn hear_arrival(&mut self, now: Instant, path: &Path, time: Span) {
        let oldest = self.flights.oldest(path.id);
        let estimate = self.estimates.at(path.id);
        let own = estimate.forecast(now, path, oldest).own;
        estimate.correct(Some(correction::factor_of(time, own)));
        self.outlook.changed = self.outlook.changed.with(path.id);
    }

    /// Features that a learned estimate sees of a path now, and the rule's own time until a packet arrives.
    pub(crate) fn correction_inputs(&self, now: Instant, path: &Path) -> Option<(correction::Inputs, Span)> {
        let mut estimate = self.estimates.get(path.id).cloned().unwrap_or_default();
        let oldest = self.flights.oldest(path.id);
        estimate.forecast(now, path, oldest);
        let flight = (oldest, self.flights.late(path.id));
        Some((self.corrections.as_ref()?.inputs(now, path, &estimate, flight), estimate.predicted().own))
    }

    /// Predicts for each path when a packet given to it now arrives, and which open one delivers first.
    #[inline(always)]
    fn predict(&mut self, cx: &Context<'_>) {
        let (mut all, mut active) = (PathSet::EMPTY, PathSet::EMPTY);
        for path in cx.paths {
            all = all.with(path.id);
            active = active.put(path.id, choose::tier(path) == Some(Tier::Active));
        }
        self.serving = if active.is_empty() { choose::standing_set(cx) } else { active };
        self.outlook.changed = self.outlook.changed.or(self.flights.take_renewed());
        let due = self.outlook.due(cx.now, all, cx.open, self.corrections.is_some());
        for path in due.iter().filter_map(|path| cx.path(path)) {
            if !self.forecast(cx, path) && !self.outlook.known.contains(path.id) {
                self.outlook.note(cx.now, path.id, self.estimates.at(path.id));
            }
        }
        self.first = self.find_first(cx);
        // Of the others it is enough to know that nothing was told.
        while self.corrections.is_none()
            && let Some(path) = self.first.and_then(|first| cx.path(first))
            && self.forecast(cx, path)
        {
            self.first = self.find_first(cx);
        }
    }

    /// The open path that delivers first.
    #[inline(always)]
    fn find_first(&self, cx: &Context<'_>) -> Option<PathId> {
        let (mut first, mut least) = (None, Span::MAX);
        for path in self.serving.and(cx.open).iter() {
            let Some(estimate) = self.estimates.get(path) else { continue };
            let expected = estimate.predicted().expected;
            if first.is_none() || expected < least {
                (first, least) = (Some(path), expected);
            }
        }
        first
    }

    /// Makes the forecast of `path` anew, unless nothing has changed that it follows from. Whether it is another.
    #[inline(always)]
    fn forecast(&mut self, cx: &Context<'_>, path: &Path) -> bool {
        let Self { estimates, corrections, flights, outlook, .. } = self;
        let estimate = estimates.at(path.id);
        if corrections.is_none() && !outlook.changed.contains(path.id) && estimate.holds(cx.now, path) {
            return false;
        }
        let oldest = flights.oldest(path.id);
        estimate.forecast(cx.now, path, oldest);
        if let Some(corrections) = corrections
            && corrections.correct(cx.now, path, estimate, (oldest, flights.late(path.id)))
        {
            estimate.forecast(cx.now, path, oldest);
        }
        estimate.note_held(flights.held(path.id));
        outlook.note(cx.now, path.id, estimate);
        true
    }

    /// Finds a path and its forecast.
    fn predicted<'a>(&self, cx: &Context<'a>, path: PathId) -> Option<Predicted<'a, '_>> {
        Some((cx.path(path)?, self.estimates.get(path)?.predicted()))
    }

    /// Each path and its forecast.
    fn predictions<'a>(&self, cx: &Context<'a>) -> impl Iterator<Item = Predicted<'a, '_>> {
        cx.paths.iter().filter_map(|path| Some((path, self.estimates.get(path.id)?.predicted())))
    }

    /// Each path that new data may use, and its forecast.
    fn serving_paths<'a>(&self, cx: &Context<'a>) -> impl Iterator<Item = Predicted<'a, '_>> {
        self.predictions(cx).filter(|(path, _)| self.serving.contains(path.id))
    }

    /// The open path that delivers first.
    fn first_open<'a>(&self, cx: &Context<'a>) -> Option<Predicted<'a, '_>> {
        self.predicted(cx, self.first?)
    }

    /// The path that delivers first, full or not, none of those to avoid where there is another.
    fn first_usable<'a>(&self, cx: &Context<'a>, avoid: PathSet) -> Option<Predicted<'a, '_>> {
        let usable = || self.serving_paths(cx).filter(|(path, _)| path.blocked != BlockedReason::Transport);
        let others = usable().filter(|(path, _)| !avoid.contains(path.id)).reduce(sooner);
        others.or_else(|| usable().reduce(sooner))
    }

    fn decide(&mut self, cx: &Context<'_>, flow: &Flow) -> Decision {
        match cx.packet {
            Some(packet) if packet.reinjection => {
                if let Some(decision) = self.place_lost(cx, flow) {
                    return decision;
                }
            }
            Some(_) => {
                self.message_start = flow.message_start;
                if let Some(first) = self.first_open(cx) {
                    if let Some(copy) = self.urgent(cx, flow, first) {
                        return self.repeat(&copy);
                    }
                    if let Some(decision) = self.place_fresh(cx, flow, first, false) {
                        return decision;
                    }
                }
            }
            None => {}
        }
        match self.copy(cx, flow) {
            Some(copy) => self.repeat(&copy),
            None => choose::wait(cx),
        }
    }

    fn repeat(&mut self, copy: &Copy) -> Decision {
        self.asked_copy = Some((copy.serial, copy.cost));
        Decision::Repeat(copy.path, copy.offset)
    }
}

impl Scheduler for EarliestDelivery {
    fn needs(&self) -> Needs {
        self.options.needs()
    }

    fn report(&self) -> Report {
        Report { sending_part: Some((EARLIEST_ARRIVAL, Box::new(self.arrival_only()))), ..Report::default() }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        (self.asked_copy, self.now) = (None, cx.now);
        self.flights.at_hand(cx.packet);
        self.predict(cx);
        let Some(flow) = cx.flow.filter(|_| self.options.reads_flow()) else { return self.earliest_arrival(cx) };
        let announced;
        let flow = if flow.announced != Offset::ZERO {
            announced = Flow { edge: flow.announced_edge(), ..*flow };
            &announced
        } else {
            flow
        };
        self.decide(cx, flow)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.now = cx.now;
        let una = cx.flow.map(|flow| flow.una).unwrap_or_default();
        self.flights.keeps_arrived = cx.flow.is_some_and(|flow| flow.acked.is_some());
        let asked_copy = self.asked_copy.take();
        if let Some((serial, ..)) = asked_copy.filter(|_| !matches!(event, Event::Sent(..))) {
            self.flights.close(serial);
        }
        match *event {
            Event::Sent(sent, kind) => {
                if let (SendKind::Ahead | SendKind::Fresh, Some(flow)) = (kind, cx.flow) {
                    self.ahead.add(flow, sent.offset, sent.offset.plus(sent.bytes));
                }
                let cost = asked_copy.map_or(Cost::Due, |(_, cost)| cost);
                match kind {
                    SendKind::Duplicate if cost == Cost::Paid => self.load.copied(sent.bytes),
                    SendKind::Duplicate => {}
                    _ => self.load.sent_once(cx.now, sent.bytes),
                }
                if let Some(corrections) = &mut self.corrections {
                    corrections.at(sent.path).sent(cx.now);
                }
                if let Some(path) = cx.path(sent.path) {
                    let oldest = self.flights.oldest(path.id);
                    let estimate = self.estimates.at(path.id);
                    let forecast = estimate.forecast(cx.now, path, oldest);
                    let predicted = Prediction { eta: cx.now + forecast.arrival, due: cx.now + forecast.patience() };
                    let others = if cost == Cost::Free { self.serving } else { PathSet::EMPTY };
                    self.flights.sent(cx.now, &sent, kind, predicted, una, others);
                    estimate.note_held(self.flights.held(path.id));
                    self.outlook.note(cx.now, path.id, estimate);
                }
            }
            Event::Acked(acked) => {
                let times = self.flights.acked(cx.now, &acked, una);
                let more = self.flights.oldest(acked.path).is_some();
                if let Some(path) = cx.path(acked.path) {
                    self.estimates.at(path.id).acked(cx.now, times.map(|(sent, _)| sent), acked.bytes, more, path);
                    if let (Some(corrections), Some(times)) = (&mut self.corrections, times) {
                        corrections.at(path.id).acked(cx.now, times, acked.bytes, more, path);
                    }
                }
            }
            Event::Lost(lost) => {
                self.outlook.changed = self.outlook.changed.with(lost.path);
                self.flights.lost(&lost, cx.flow.map(|flow| flow.una));
                if let Some(corrections) = &mut self.corrections {
                    corrections.at(lost.path).lost(cx.now);
                }
            }
            Event::PathUp(path) | Event::PathDown(path) => {
                self.estimates.reset(path);
                if let Some(corrections) = &mut self.corrections {
                    corrections.forget(path);
                }
                self.flights.forget(path);
            }
            Event::Congestion(path) => self.outlook.changed = self.outlook.changed.with(path),
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.flights.next_due(self.now)
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let predicted = cx.paths.iter().map(|path| {
            let mut estimate = self.estimates.get(path.id).cloned().unwrap_or_default();
            let oldest = self.flights.oldest(path.id);
            let Forecast { expected, overdue, .. } = estimate.forecast(cx.now, path, oldest);
            format!("{:?} in {expected}{}", path.id, if overdue.is_zero() { "" } else { " (overdue)" })
        });
        Some(format!("expected {}", predicted.collect::<Vec<_>>().join(", ")))
    }
}
