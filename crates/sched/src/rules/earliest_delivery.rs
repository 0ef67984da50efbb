//! Earliest delivery: a packet goes where it should be delivered in order first; what comes too late is repeated.
//!
//! Rule: path p has B bytes in flight and queued, the rate
//! `r = max(peak, min(cwnd/srtt, pacing, max(4·peak, 10·mss/srtt), busy))` with the peak of its delivery rate over the last 2
//! to 4 srtt, and the loss rate l = lost/sent. `busy` is the largest delivery rate of the last 64 srtt among samples that span
//! no idle time, and whose round trip told of a queue, `rtt − min_rtt > max(¼·min_rtt, 4·mss/rate)`, if there are any. Where a
//! queue stands, `srtt − min_rtt > max(¼·min_rtt, 4·mss/peak)`, r is the peak. Where it has held nothing for an srtt, though
//! more than its window waited to be sent, that queue is gone: srtt counts as min_rtt until there are new samples. A packet
//! given to it now should take
//!   `rtt     = ½·srtt + ½·(max(min_rtt, B/r) + (srtt − min_rtt)/2)`
//!   `arrival = rtt − min_rtt/2 + 4·overdue + hold`, `expected = arrival + 1.5·rtt·l`.
//! Where the last 100 ms of busy time brought the rate b, with what is overdue now, so that a queue stands, `(B + mss)/b − w >
//! min_rtt` (w: for how long the bottleneck has worked on the oldest packet), the arrival is the geometric mean of the one above
//! and of `(B + mss)/b − w − min_rtt/2`, and the round trip follows it (`shared/present.rs`).
//! `overdue` counts from 1.5·rtt + 10 ms after the oldest packet that nothing has been heard of since left, or after
//! the path was last heard; `hold` is what the pacer still keeps it. s: the open path with the least `expected`.
//! - Fresh: s is the open path with the least `expected`. x is what the full faster paths f let go in `expected_s −
//!   expected_f`. A pacer: at `min(r_f, cwnd_f/min_rtt_f)`, doubling each rtt_f in slow start, until the first loss;
//!   r_f ignores `busy`, and takes no queue for standing if f has held less than two packets since, and had a shorter
//!   round trip. A window: the bytes whose acknowledgements should come (eta + ½·min_rtt_f) and are late by no more
//!   than ⅛·rtt_f, twice that in slow start, less those in flight above the window; then as a pacer.
//!   `x < mss`: send. `x ≥ unsent`: nothing, waiting is better. Else s sends ahead what has x unsent bytes before it, or the
//!   last unsent packet below the peer's edge; nothing if `x − position + B_s > window`: that would shut the window.
//!   Nothing goes beyond the edge that the peer has announced, though Linux v1 would: out of order it is dropped there.
//! - Lost, handed back: the path with the least `expected`. While that one is full: s if x is less than what was lost and
//!   waits to be sent again; else s sends fresh data ahead.
//! - A packet in flight on q with F bytes up to its end arrives in `eta = max(predicted − now, F/peak_q − min_rtt_q/2)`.
//! - Before fresh data go copies of what blocks the message at hand: with n packets on q that s would bring sooner,
//!   `gain > n·airtime/(1 − ρ) + rest`, `airtime = mss/r_s`, ρ = what was sent in the last 250 ms over Σr, `rest` = what is
//!   unsent of the message over r_s. If q is overdue by more than its rtt, n is all that q holds.
//! - When nothing fresh goes, each open path s may copy from q what is overdue or lost there, else the first packet that
//!   should come an airtime later than by s, else, and where all that is under way is one message, the newest. With
//!   p = max((lost + late)/sent of q, 2 %), late: acknowledged more than 1.5·rtt + 10 ms after it left, so that what TCP has
//!   repaired counts as lost and as late (overdue now: ½, and `eta = max(arrival, overdue)`),
//!   `gain = (1 − p)·(eta − expected_s)⁺ + p·(eta + 2.5·rtt_q − expected_s)⁺ > airtime`;
//!   if `eta − expected_s ≤ airtime + ¼·rtt_s` it is only insurance: `> 4·airtime·ρ/(1 − ρ)²`, s holds less than
//!   r_s·min_rtt_s, and copies ≤ fresh + 30 kB (thrifty: 16, and fresh/8 + 30 kB). If nothing new fits into the send buffer,
//!   though the peer has room: also what has arrived on an overdue q, and is not acknowledged.
//!
//! Where the host shows no data (`earliest-arrival`): the path of the packet before while `expected` exceeds the least by
//!   no more than `min(16·airtime, rtt/8)` of that one, so that packets leave in batches; else the least.
//!
//! Reference: Weftway, docs/explanation/earliest-delivery.md: the model, what each term is worth, and where it loses.
//! Ancestors: EDPF (`edpf`), which sends where a packet arrives first, and S-EDPF (`s-edpf`), where it is delivered in
//!   order first.
//! State: per path what it showed in the last round trips and in its last busy time; the packets in flight with what was
//!   predicted for them; what was sent ahead; the load.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Flow, Instant, Offset, Path, PathId, PathSet, SendKind,
};

use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::in_flight::{InFlight, Prediction};
use crate::shared::per_path::PerPath;
use crate::shared::present::Present;
use crate::shared::sent_ahead::SentAhead;
use crate::{Report, Scheduler};

mod arrival;
mod before;
mod capacity;
mod copies;
mod estimate;
mod insurance;
mod place;
pub(crate) mod sight;
mod terms;

use estimate::{Forecast, Load, Peak};
use sight::{Estimate, Sight};
use terms::{EARLIEST_ARRIVAL, PARAMS, Terms};

pub(crate) static ENTRY: Entry = Entry {
    name: "earliest-delivery",
    aliases: &["weft"],
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
    needs: Terms::ALL.needs(),
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
    let mut terms = Terms::read(params)?;
    terms.urgent &= terms.copies;
    Ok(Box::new(EarliestDelivery { terms, ..EarliestDelivery::default() }))
}

#[derive(Clone, Default)]
pub(crate) struct EarliestDelivery {
    terms: Terms,
    peaks: PerPath<Peak>,
    presents: PerPath<Present>,
    /// What corrects the predicted arrivals, if anything, and what is kept of each path for it.
    estimate: Option<Box<dyn Estimate>>,
    sights: PerPath<Sight>,
    flights: InFlight,
    ahead: SentAhead,
    load: Load,
    /// What is predicted for each path at this question, in the order of the paths.
    outlook: Vec<Forecast>,
    /// The first byte of the message that was sent last.
    message: Offset,
    /// The path of the packet before, where there is no view of the data.
    last: Option<PathId>,
    /// The packet of which the last answer asked a copy.
    asked: Option<u64>,
    /// When it was last asked or told something.
    now: Instant,
}

/// A path with what is predicted for it.
type Predicted<'a, 'b> = (&'a Path, &'b Forecast);

/// The one of two that delivers first; of equals the first.
fn sooner<'a, 'b>(best: Predicted<'a, 'b>, next: Predicted<'a, 'b>) -> Predicted<'a, 'b> {
    if next.1.expected < best.1.expected { next } else { best }
}

impl EarliestDelivery {
    /// The rule with all its terms, and an estimate that corrects predicted arrivals.
    pub(crate) fn corrected(estimate: Box<dyn Estimate>) -> Self {
        Self { terms: Terms::ALL, estimate: Some(estimate), ..Self::default() }
    }

    fn forecast(&self, now: Instant, path: &Path) -> Forecast {
        let holds = self.estimate.is_some() && path.unacked() > Bytes::ZERO;
        self.forecast_by(now, path, self.sights.get(path.id).filter(|_| holds))
    }

    /// What the rule predicts by itself.
    fn own_forecast(&self, now: Instant, path: &Path) -> Forecast {
        self.forecast_by(now, path, None)
    }

    fn forecast_by(&self, now: Instant, path: &Path, sight: Option<&Sight>) -> Forecast {
        let peak = self.peaks.get(path.id).copied().unwrap_or_default();
        let waits = self.terms.stall && path.unacked() > Bytes::ZERO;
        let due = if waits { self.flights.due(path.id) } else { None };
        let present = if self.terms.present { self.presents.get(path.id) } else { None };
        let present = present.and_then(|present| present.round_trip(now, path, self.flights.oldest(path.id)));
        peak.forecast(now, path, due, self.flights.late(path.id), present, sight, &self.terms)
    }

    /// Each path that new data may use, with what is predicted for it.
    fn standing<'a>(&self, cx: &Context<'a>) -> impl Iterator<Item = Predicted<'a, '_>> {
        let live = choose::live_tier(cx);
        cx.paths.iter().zip(&self.outlook).filter(move |(path, _)| live.is_some() && choose::tier(path) == live)
    }

    /// The open path that delivers first.
    fn first_open<'a>(&self, cx: &Context<'a>) -> Option<Predicted<'a, '_>> {
        let open = self.standing(cx).filter(|(path, _)| path.is_open());
        open.reduce(sooner)
    }

    /// The path that delivers first, full or not, and off those to avoid where there is another.
    fn first_usable<'a>(&self, cx: &Context<'a>, avoid: PathSet) -> Option<Predicted<'a, '_>> {
        let usable = || self.standing(cx).filter(|(path, _)| path.blocked != BlockedReason::Transport);
        let others = usable().filter(|(path, _)| !avoid.contains(path.id)).reduce(sooner);
        others.or_else(|| usable().reduce(sooner))
    }

    fn decide(&mut self, cx: &Context<'_>, flow: &Flow) -> Decision {
        let urgent = match cx.packet {
            Some(packet) if !packet.reinjection => {
                self.message = flow.message_start;
                self.urgent(cx, flow)
            }
            _ => None,
        };
        let new = || match cx.packet {
            Some(packet) if packet.reinjection => self.again(cx, flow),
            Some(_) => self.fresh(cx, flow, false),
            None => None,
        };
        let copied = urgent.map(Err).or_else(|| new().map(Ok)).or_else(|| self.copy(cx, flow).map(Err));
        match copied {
            Some(Ok(decision)) => decision,
            Some(Err(copy)) => {
                self.asked = Some(copy.serial);
                Decision::Repeat(copy.path, copy.offset)
            }
            None => choose::wait(cx),
        }
    }
}

impl Scheduler for EarliestDelivery {
    fn needs(&self) -> Needs {
        self.terms.needs()
    }

    fn report(&self) -> Report {
        Report { sending_part: Some((EARLIEST_ARRIVAL, Box::new(self.arrival_only()))), ..Report::default() }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        (self.asked, self.now) = (None, cx.now);
        self.flights.at_hand(cx.packet);
        for path in cx.paths {
            let plenty = cx.packet.is_some() && cx.flow.is_none_or(|flow| flow.unsent > path.cwnd);
            let unused = plenty && path.is_open() && path.unacked() == Bytes::ZERO;
            self.peaks.at(path.id).asked(cx.now, path, unused);
        }
        self.look(cx.now, cx.paths);
        let mut outlook = core::mem::take(&mut self.outlook);
        outlook.clear();
        outlook.extend(cx.paths.iter().map(|path| self.forecast(cx.now, path)));
        self.outlook = outlook;
        match cx.flow.filter(|_| self.terms.reads_flow()) {
            Some(flow) if self.terms.announced => self.decide(cx, &Flow { edge: flow.announced_edge(), ..*flow }),
            Some(flow) => self.decide(cx, flow),
            None => self.earliest_arrival(cx),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.now = cx.now;
        let una = cx.flow.map(|flow| flow.una).unwrap_or_default();
        if let Some(serial) = self.asked.take().filter(|_| !matches!(event, Event::Sent(..))) {
            self.flights.close(serial);
        }
        match *event {
            Event::Sent(sent, kind) => {
                if let (SendKind::Ahead | SendKind::Fresh, Some(flow)) = (kind, cx.flow) {
                    self.ahead.add(flow, sent.offset, sent.offset + sent.bytes);
                }
                self.load.note(cx.now, sent.bytes, kind == SendKind::Duplicate);
                if self.estimate.is_some() {
                    self.sights.at(sent.path).sent(cx.now);
                }
                if let Some(path) = cx.path(sent.path) {
                    let forecast = self.forecast(cx.now, path);
                    let predicted = Prediction { eta: cx.now + forecast.arrival, due: cx.now + forecast.patience() };
                    self.flights.sent(cx.now, &sent, kind, predicted, una);
                }
            }
            Event::Acked(acked) => {
                let times = self.flights.times(acked.serial);
                self.flights.acked(cx.now, &acked, una);
                if let (Some((sent, eta)), Some(path)) = (times, cx.path(acked.path)) {
                    let more = self.flights.oldest(acked.path).is_some();
                    self.presents.at(acked.path).acked(cx.now, sent, acked.bytes, more, path);
                    if self.estimate.is_some() {
                        self.sights.at(acked.path).acked(cx.now, (sent, eta), acked.bytes, more, path);
                    }
                }
                if let Some(path) = cx.path(acked.path) {
                    self.peaks.at(path.id).note(cx.now, path);
                }
            }
            Event::Lost(lost) => {
                self.flights.lost(&lost, una);
                if self.estimate.is_some() {
                    self.sights.at(lost.path).lost(cx.now);
                }
            }
            Event::PathUp(path) | Event::PathDown(path) => {
                self.peaks.reset(path);
                self.presents.reset(path);
                self.sights.reset(path);
                self.flights.forget(path);
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.flights.next_due(self.now)
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let predicted = cx.paths.iter().map(|path| {
            let Forecast { expected, overdue, .. } = self.forecast(cx.now, path);
            format!("{:?} in {expected}{}", path.id, if overdue.is_zero() { "" } else { " (overdue)" })
        });
        Some(format!("expected {}", predicted.collect::<Vec<_>>().join(", ")))
    }
}
