//! Deadline: each datagram where it should come in time, and a copy on another path where that is not sure enough.
//!
//! Rule: of each path, `way` is the time that a packet takes to the other end, and `fails` the chance that it is lost
//! or under way for longer than is left until the deadline. Where there is time to see that a datagram is not
//! acknowledged and to send a copy, and `fails` is at most a tenth, the chance is that both fail. A datagram goes on
//! the path where this is least; of those that reach `target` on that of the datagram before, or on another that takes
//! clearly less or where that one is overdue: what overtakes others makes a controller inside see losses. For that path,
//! and for one that is much surer, it waits an eighth of its time if it is full. It gets a copy on the path that then
//! fails least: at once where `target` is not reached otherwise, or where it will be late at the rate at which its path
//! now carries what is in front of it; else when it is not acknowledged though that is overdue, or though a later copy
//! would be late. A second copy goes where the target is still not reached. All copies keep within `redundancy`, and
//! none goes while datagrams wait for room, but of data that hold the peer's window up. A path that is idle gets a copy
//! now and then, of a datagram whose acknowledgement comes next, to tell whether it works; and a row of them, while its
//! window or its pacer is small beside what is sent. Lost data go where they arrive soonest; data without a deadline by
//! min-RTT.
//! Reference: Weftway, docs/how-to/pipe.md: pipes for datagrams. Ancestors: min-RTT; XLINK (Zheng et al.,
//! SIGCOMM 2021), which copies what is in flight as the time left runs short; STMS, which compares arrivals.
//! State: per path the round trips, times until acknowledgements, failures so far, the bottleneck's rate, and the packets
//! in flight; what was sent and copied in the last second.
//! Departs from its ancestors: chances decide instead of mean times, and copies have a budget.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{
    BitRate, BlockedReason, Bytes, Context, Decision, Event, Instant, Offset, Path, PathId, PathSet, Receipt, SendKind,
    Span,
};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, permille};
use crate::shared::choose;
use crate::shared::per_path::PerPath;
use crate::shared::recent_rate::{Queue, RecentRate};

mod budget;
mod estimate;
mod flights;

use budget::Budget;
use estimate::{Estimate, SURE, Times, both};
use flights::{Flights, Watched};

// Chosen on the training half of `datagrams` and `datagram-fades`.

/// A path that fails more often than this is none for the first copy, whatever a second one would do.
const MOST_FAILING: u64 = SURE / 10;
/// An idle path is asked so often whether it works, and one that was slow so often.
const ASK_IDLE: Span = Span::from_millis(500);
const ASK_SLOW: Span = Span::from_millis(100);
/// For so long copies go on after such a question to a path that may carry less than this many times what is sent.
const ROW: Span = Span::from_millis(300);
const ENOUGH: u64 = 2;
/// A datagram waits for a full path if it fails there so many times less.
const SURER: u64 = 4;
/// A datagram leaves the path of the one before for a sooner path only if that takes this part of its time less.
const SOONER: u64 = 2;
/// A datagram that has waited for this part of its time shows that there is no room for copies.
const PARTS: u64 = 8;
/// A datagram was to come in time if its chance to be late was below this when it left: one in a hundred.
const HOPED: u64 = SURE / 100;

pub(crate) static ENTRY: Entry = Entry {
    name: "deadline",
    version: 3,
    summary: "each datagram where it should come in time, and a copy where that is not sure enough",
    reference: "Weftway, docs/how-to/pipe.md",
    provenance: Provenance::Code,
    goal: "datagrams in time, with few copies",
    application: "live video, voice, games",
    inputs: &[
        Input::Rtt,
        Input::MinRtt,
        Input::Cwnd,
        Input::InFlight,
        Input::Mss,
        Input::Loss,
        Input::Rate,
        Input::Window,
    ],
    needs: Needs { flow: true, copies: true, events: true, wake: true, ..Needs::NONE },
    waits: true,
    params: &[
        Param {
            name: "target",
            default: "99.9",
            values: "%, 0 to 99.999",
            doc: "the share of datagrams that should come in time: a copy goes where one alone does not reach it",
        },
        Param {
            name: "redundancy",
            default: "30",
            values: "%, 0 to 300",
            doc: "how many bytes copies may take, of those sent once in the last second",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let target = permille(params, "target", 0.0..=99.999)? * 10;
    let redundancy = permille(params, "redundancy", 0.0..=300.0)? / 100;
    Ok(Box::new(Deadline { allowed: SURE - target, redundancy, ..Deadline::default() }))
}

#[derive(Clone, Default)]
struct Deadline {
    /// Chance to fail that is good enough.
    allowed: u64,
    /// Bytes of copies, in thousandths of those sent once.
    redundancy: u64,
    estimates: PerPath<Estimate>,
    flights: PerPath<Flights>,
    rates: PerPath<RecentRate>,
    budget: Budget,
    /// Forecasts of the paths at this question.
    forecasts: PerPath<Forecast>,
    /// The two paths with the least time that nearly nothing exceeds: where a copy would go.
    soonest: [Option<PathId>; 2],
    /// Data up to here do not hold the peer's window up: they were copied for it.
    relieved: Offset,
    /// The last answer asked for such a copy.
    asked_relief: bool,
    /// Deadline of the packet at hand.
    at_hand: Option<Instant>,
    /// Path of the last datagram.
    last: Option<PathId>,
    /// Path and number of the packet of which the last answer asked a copy, and the chance that both fail.
    asked: Option<(PathId, u64, u64)>,
    now: Instant,
}

/// Forecast of a path: nothing of it changes within a question.
#[derive(Clone, Copy, Default)]
struct Forecast {
    way: Times,
    /// Time until it takes a packet.
    ready: Span,
    /// Time within which nearly all packets are acknowledged.
    expected: Span,
    /// Its oldest packet is not acknowledged in that time.
    is_overdue: bool,
    /// Rate of its bottleneck, if it was busy in the last second.
    rate: Option<BitRate>,
    /// Time that an acknowledgement takes back.
    back: Span,
    /// New data may use it.
    serves: bool,
}

/// Returns true if the datagram at hand has waited for an eighth of its time: the paths have no room for more.
fn lacks_room(cx: &Context<'_>) -> bool {
    let flow = cx.packet.and(cx.flow);
    flow.is_some_and(|flow| {
        let left = flow.deadline.map_or(Span::MAX, |deadline| deadline.since(cx.now));
        flow.message_age * (PARTS - 1) >= left && !flow.message_age.is_zero()
    })
}

impl Deadline {
    /// Looks ahead for each path.
    fn look_ahead(&mut self, cx: &Context<'_>) {
        self.now = cx.now;
        let live = choose::live_tier(cx);
        let mut soonest: [Option<(Span, PathId)>; 2] = [None; 2];
        for path in cx.paths {
            let estimate = *self.estimates.at(path.id);
            let expected = estimate.expected(path);
            let oldest = self.flights.at(path.id).oldest(expected);
            let held = path.bytes_in_flight + path.queued;
            let queue = Queue { bytes: held, oldest: oldest.as_ref(), min_rtt: path.min_rtt, rttvar: path.rttvar };
            let rate = self.rates.at(path.id).rate(cx.now, &queue).map(|(rate, _)| rate);
            let way = estimate.way(cx.now, path, oldest.map(|oldest| oldest.sent));
            let serves = live.is_some() && choose::tier(path) == live && path.blocked != BlockedReason::Transport;
            let ready = match path.blocked {
                BlockedReason::None => Span::ZERO,
                BlockedReason::Pacing => path.release.since(cx.now),
                _ => way.mean.mul_div(path.mss.get(), path.cwnd.get().max(path.mss.get())),
            };
            let is_overdue = oldest.is_some_and(|oldest| cx.now > oldest.due);
            let back = path.min_rtt / 2;
            *self.forecasts.at(path.id) = Forecast { way, ready, expected, is_overdue, rate, back, serves };
            if serves {
                let most = ready + way.most();
                if soonest[0].is_none_or(|(least, _)| most < least) {
                    soonest = [Some((most, path.id)), soonest[0]];
                } else if soonest[1].is_none_or(|(least, _)| most < least) {
                    soonest[1] = Some((most, path.id));
                }
            }
        }
        self.soonest = soonest.map(|path| path.map(|(_, id)| id));
    }

    fn forecast(&self, path: PathId) -> Forecast {
        self.forecasts.get(path).copied().unwrap_or_default()
    }

    /// Chance that a packet given to `path` now does not come by `deadline`.
    fn fails(&self, path: PathId, deadline: Instant) -> u64 {
        let forecast = self.forecast(path);
        let left = deadline.since(self.now).saturating_sub(forecast.ready);
        self.estimates.get(path).copied().unwrap_or_default().fails(&forecast.way, left)
    }

    /// Path on which a copy of what `path` carries would arrive soonest: itself, if there is no other.
    fn other(&self, path: PathId) -> PathId {
        let [first, second] = self.soonest;
        if first == Some(path) { second.unwrap_or(path) } else { first.unwrap_or(path) }
    }

    /// The same chance, where a copy goes if it is not acknowledged in time.
    fn fails_in_the_end(&self, path: PathId, deadline: Instant) -> u64 {
        let known = self.forecast(path).ready + self.forecast(path).expected;
        let fails = self.fails(path, deadline);
        if self.now + known >= deadline {
            return fails;
        }
        let earlier = deadline - known;
        both(fails, self.fails(self.other(path), earlier))
    }

    /// Places the packet at hand, which should come by `deadline`.
    fn place(&self, cx: &Context<'_>, deadline: Instant) -> Decision {
        let key = |path: &Path| {
            let forecast = self.forecast(path.id);
            let (alone, in_the_end) = (self.fails(path.id, deadline), self.fails_in_the_end(path.id, deadline));
            let fails = if alone <= MOST_FAILING { in_the_end } else { alone };
            (fails.max(self.allowed), forecast.ready + forecast.way.mean)
        };
        let avoided = cx.packet.map_or(PathSet::EMPTY, |packet| packet.avoid);
        let may = |path: &&Path| self.forecast(path.id).serves && !avoided.contains(path.id);
        let open = choose::least(choose::candidates(cx).filter(may), key);
        let Some(open) = open else { return choose::send_or_wait(cx, choose::min_rtt(cx)) };
        let stays = |path: &&Path| {
            let (here, there) = (self.forecast(path.id), self.forecast(open.id));
            let clearly = there.ready + there.way.most() + there.way.mean / SOONER;
            key(path).0 <= self.allowed && !here.is_overdue && here.ready + here.way.mean <= clearly
        };
        if let Some(last) = self.last.and_then(|last| cx.path(last)).filter(may).filter(stays) {
            if last.is_open() {
                return Decision::Send(last.id);
            }
            if !lacks_room(cx) {
                return choose::wait(cx);
            }
        }
        let full = choose::least(cx.paths.iter().filter(|path| !path.is_open()).filter(may), key);
        let waits = !lacks_room(cx) || key(open).0 > SURE / 2;
        if waits && full.is_some_and(|full| key(full).0.saturating_mul(SURER) < key(open).0) {
            return choose::wait(cx);
        }
        Decision::Send(open.id)
    }

    /// Places data that were lost: where they arrive soonest.
    fn place_lost(&self, cx: &Context<'_>) -> Decision {
        let soonest = choose::pick_least(cx, |path| self.forecast(path.id).way.most());
        choose::send_or_wait(cx, soonest)
    }

    /// Time until a datagram on `path` comes, by the rate at which the path now carries what is in front of it.
    fn comes_in(&self, path: PathId, datagram: &Watched) -> Option<Span> {
        let forecast = self.forecast(path);
        let before = self.flights.get(path)?.up_to(datagram);
        Some(forecast.rate?.transmission_time(before).saturating_sub(forecast.back))
    }

    /// Returns true if a datagram on `path` comes in time by that rate, or if the rate is not known.
    fn is_carried_in_time(&self, path: PathId, datagram: &Watched) -> bool {
        self.comes_in(path, datagram).is_none_or(|time| self.now + time <= datagram.deadline)
    }

    /// Chance that a datagram on `path` does not come in time, now that it is not acknowledged yet.
    fn fails_by_now(&self, path: PathId, datagram: &Watched) -> u64 {
        let estimate = self.estimates.get(path).copied().unwrap_or_default();
        if !self.is_carried_in_time(path, datagram) {
            return SURE;
        }
        let failing = estimate.failing().max(1);
        let late =
            if estimate.answer.mean.is_zero() { SURE } else { estimate.answer.beyond(self.now.since(datagram.sent)) };
        datagram.fails.max(failing * SURE / (failing + late))
    }

    /// The copy that is needed most: of what is due, the oldest.
    fn copy(&mut self, cx: &Context<'_>) -> Option<Decision> {
        let now = cx.now;
        for path in cx.paths {
            self.flights.at(path.id).expire(now);
        }
        choose::candidates(cx).next()?;
        if let Some(relief) = self.relief(cx) {
            return Some(relief);
        }
        if lacks_room(cx) {
            return None;
        }
        let due = cx.paths.iter().filter_map(|path| {
            let flights = self.flights.get(path.id)?;
            let overdue = flights.watched().filter(|datagram| datagram.due <= now);
            let late = flights.watched_from(|datagram| self.is_carried_in_time(path.id, datagram));
            let mut due = overdue.chain(late);
            due.find_map(|datagram| Some((*datagram, path.id, self.target_of(cx, path.id, datagram)?)))
        });
        let oldest = due.min_by_key(|(datagram, ..)| datagram.serial);
        if let Some((datagram, path, (to, fails))) = oldest
            && self.budget.allows(now, datagram.bytes, self.redundancy)
        {
            self.asked = Some((path, datagram.serial, fails));
            return Some(Decision::Repeat(to, datagram.offset));
        }
        self.question(cx)
    }

    /// A copy of the oldest data that the peer waits for, where these are so far back that its window may become full,
    /// and are overdue or come later than the copy would. Once the window is full no budget counts: nothing else can be
    /// sent.
    fn relief(&mut self, cx: &Context<'_>) -> Option<Decision> {
        let flow = cx.flow?;
        let from = flow.una.max(self.relieved);
        let held = flow.next.since(from);
        if held <= flow.window().mul_div(1, 2) {
            return None;
        }
        let oldest = cx.paths.iter().filter_map(|path| {
            let expected = self.forecast(path.id).expected;
            Some((self.flights.get(path.id)?.oldest(expected)?, path.id))
        });
        let (oldest, stuck) = oldest.min_by_key(|(oldest, _)| oldest.sent)?;
        let others = choose::candidates(cx).filter(|path| path.id != stuck);
        let to = choose::least(others, |path| self.forecast(path.id).way.most())?;
        let is_sooner = cx.now + self.forecast(to.id).way.most() < oldest.due;
        let is_full = held + to.mss > flow.window();
        self.asked_relief = (is_sooner || self.forecast(stuck).is_overdue)
            && (is_full || self.budget.allows(cx.now, to.mss, self.redundancy));
        self.asked_relief.then_some(Decision::Repeat(to.id, from))
    }

    /// Path on which a copy raises the chance most, and the chance to fail that is left.
    fn target_of(&self, cx: &Context<'_>, path: PathId, datagram: &Watched) -> Option<(PathId, u64)> {
        let fails = self.fails_by_now(path, datagram);
        if fails <= self.allowed {
            return None;
        }
        let others = choose::candidates(cx).filter(|path| !datagram.carried.contains(path.id));
        let to = choose::least(others, |path| self.fails(path.id, datagram.deadline))?;
        let left = self.fails(to.id, datagram.deadline);
        (left < SURE / 2).then(|| (to.id, both(fails, left)))
    }

    /// A copy that asks an idle path whether it works, or how much it carries: of the oldest datagram that should not be
    /// acknowledged yet. It overtakes few. An older one may be lost, and is not sent again while a copy is under way,
    /// however slow the idle path is.
    fn question(&mut self, cx: &Context<'_>) -> Option<Decision> {
        let needed = self.budget.once(cx.now).mul_div(ENOUGH, 1);
        let is_asked = |path: &&Path| {
            let estimate = self.estimates.get(path.id).copied().unwrap_or_default();
            let is_slow = estimate.answer.mean > path.min_rtt * 3;
            let pause = if is_slow { ASK_SLOW } else { ASK_IDLE };
            let may_carry = path.pacing_rate.max(BitRate::of(path.cwnd, path.srtt)).bytes_in(Span::from_secs(1));
            let in_a_row = estimate.asked.is_some_and(|asked| cx.now.since(asked) < ROW) && may_carry < needed;
            in_a_row || path.bytes_in_flight == Bytes::ZERO && cx.now.since(estimate.sent) >= pause
        };
        let oldest_elsewhere = |idle: &Path| {
            let others = cx.paths.iter().filter(|path| path.id != idle.id);
            let oldest = others.filter_map(|path| {
                let answer = self.estimates.get(path.id).map_or(Span::ZERO, |estimate| estimate.answer.mean);
                let within = if answer.is_zero() { Span::MAX } else { answer };
                let mut watched = self.flights.get(path.id)?.watched_within(cx.now, within);
                Some((path.id, *watched.find(|datagram| !datagram.carried.contains(idle.id))?))
            });
            oldest.min_by_key(|(_, datagram)| datagram.serial)
        };
        let (idle, path, datagram) = choose::candidates(cx).filter(is_asked).find_map(|idle| {
            let (path, datagram) = oldest_elsewhere(idle)?;
            Some((idle, path, datagram))
        })?;
        if !self.budget.allows(cx.now, datagram.bytes, self.redundancy) {
            return None;
        }
        let fails = both(datagram.fails, self.fails(idle.id, datagram.deadline));
        self.asked = Some((path, datagram.serial, fails));
        Some(Decision::Repeat(idle.id, datagram.offset))
    }

    /// A datagram has left.
    fn sent(&mut self, sent: &Receipt, deadline: Instant, given: Bytes) {
        let fails = self.fails(sent.path, deadline);
        let forecast = self.forecast(sent.path);
        let in_the_end = self.fails_in_the_end(sent.path, deadline);
        let copy = self.forecast(self.other(sent.path)).way.most();
        let due = if in_the_end > self.allowed {
            self.now
        } else {
            (self.now + forecast.expected).min(deadline - copy).max(self.now + Span::from_nanos(1))
        };
        self.flights.at(sent.path).watch(Watched {
            serial: sent.serial,
            offset: sent.offset,
            bytes: sent.bytes,
            given,
            sent: self.now,
            deadline,
            due,
            fails,
            carried: PathSet::of(sent.path),
        });
    }

    /// A copy has left, or what was asked for did not go. The datagram may need another copy while a third path could
    /// carry that.
    fn copied(&mut self, cx: &Context<'_>, asked: (PathId, u64, u64), to: Option<PathId>) {
        let (path, serial, fails) = asked;
        let flights = self.flights.at(path);
        let has_third = cx.paths.iter().any(|third| third.id != path && Some(third.id) != to);
        match (flights.watched_mut(serial), to) {
            (Some(datagram), Some(to)) if fails > self.allowed && has_third && datagram.carried.is_single() => {
                (datagram.carried, datagram.fails) = (datagram.carried.with(to), fails);
            }
            _ => flights.forget(serial),
        }
    }
}

impl Scheduler for Deadline {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        (self.asked, self.asked_relief) = (None, false);
        self.at_hand = cx.flow.and_then(|flow| flow.deadline);
        self.look_ahead(cx);
        let is_lost = cx.packet.is_some_and(|packet| packet.reinjection);
        if !is_lost && let Some(copy) = self.copy(cx) {
            return copy;
        }
        match self.at_hand {
            _ if is_lost => self.place_lost(cx),
            Some(deadline) if cx.packet.is_some() => self.place(cx, deadline),
            _ => choose::send_or_wait(cx, choose::min_rtt(cx)),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.now = cx.now;
        if core::mem::take(&mut self.asked_relief) {
            self.relieved = match *event {
                Event::Sent(sent, SendKind::Duplicate) => sent.offset + sent.bytes,
                _ => cx.flow.map_or(self.relieved, |flow| flow.next),
            };
        }
        let asked = self.asked.take();
        if let Some(asked) = asked {
            match *event {
                Event::Sent(sent, SendKind::Duplicate) => self.copied(cx, asked, Some(sent.path)),
                Event::Sent(..) => {}
                _ => self.copied(cx, asked, None),
            }
        }
        match *event {
            Event::Sent(sent, kind) => {
                let deadline = self.at_hand.filter(|_| matches!(kind, SendKind::Fresh | SendKind::Ahead));
                let hoped = deadline.filter(|&deadline| {
                    let left = deadline.since(cx.now);
                    self.forecast(sent.path).way.beyond(left) < HOPED
                });
                let given = self.flights.at(sent.path).push(sent.serial, sent.bytes, cx.now, hoped);
                if let Some(deadline) = deadline {
                    self.last = Some(sent.path);
                    self.sent(&sent, deadline, given);
                }
                self.estimates.at(sent.path).sent(cx.now, ASK_IDLE);
                match kind {
                    SendKind::Duplicate => self.budget.copied(cx.now, sent.bytes),
                    _ => self.budget.sent_once(cx.now, sent.bytes),
                }
            }
            Event::Acked(acked) => {
                let known = self.flights.at(acked.path).acked(acked.serial);
                if let (Some((flight, more)), Some(path)) = (known, cx.path(acked.path)) {
                    self.rates.at(acked.path).acked(cx.now, flight.sent, flight.bytes, more, path);
                    let estimate = self.estimates.at(acked.path);
                    estimate.acked(path, cx.now.since(flight.sent));
                    if let Some(hoped) = flight.hoped {
                        estimate.ended(cx.now > hoped + path.min_rtt / 2);
                    }
                }
            }
            Event::Lost(lost) => {
                let flight = self.flights.at(lost.path).take(lost.serial);
                if flight.is_some_and(|flight| flight.hoped.is_some()) {
                    self.estimates.at(lost.path).ended(true);
                }
            }
            Event::Recalled(recalled) => {
                self.flights.at(recalled.path).take(recalled.serial);
            }
            Event::PathUp(path) | Event::PathDown(path) => {
                self.estimates.reset(path);
                self.flights.reset(path);
                self.rates.reset(path);
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        let due = self.flights.iter().flat_map(|flights| flights.watched()).map(|datagram| datagram.due);
        due.filter(|&due| due > self.now).min()
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let Some(deadline) = cx.flow.and_then(|flow| flow.deadline) else {
            let path = choose::min_rtt(cx)?;
            return Some(format!("{:?} has the least srtt, {}", path.id, path.srtt));
        };
        let mut ahead = self.clone();
        ahead.look_ahead(cx);
        let forecasts = cx.paths.iter().filter(|path| ahead.forecast(path.id).serves).map(|path| {
            let (fails, way) = (ahead.fails(path.id, deadline), ahead.forecast(path.id).way.mean);
            format!("{:?} in {way}, fails {fails} ppm", path.id)
        });
        Some(forecasts.collect::<Vec<_>>().join("; "))
    }
}
