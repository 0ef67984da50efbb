//! Changes while packets wait: rate, delay, loss, failure. Departures that have passed stand;
//! those still to come are planned again.
//!
//! Scheduled changes are applied when the link is next touched, in order of time and as of their own
//! time. A link with nothing on the wire therefore needs no event for them, and none is reported.

use weftway_path::{Bytes, Instant, Span};

use super::Link;
use crate::wire::Wire;
use crate::{Rate, Set};

/// The rest of a packet that was in transmission when the rate changed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Resumed {
    serial: u64,
    since: Instant,
    rest: Work,
}

/// Bits times 10⁹: what a rate in bits per second does in nanoseconds.
type Work = u64;

impl<T: Copy> Link<T> {
    /// Fails the link: what waits is dropped, what has departed still arrives.
    pub fn fail(&mut self, now: Instant) {
        self.set(now, &Set::Down);
    }

    /// Brings the link back, empty.
    pub fn heal(&mut self, now: Instant) {
        self.set(now, &Set::Up);
    }

    /// Changes anything.
    pub fn set(&mut self, now: Instant, set: &Set) {
        self.leave_plain();
        self.settle(now);
        self.apply(now, set);
        self.internal = self.timetable.next().min(self.dequeue_at);
        self.refresh();
    }

    /// Lets happen, in order, what was to happen inside by `now`.
    #[inline(never)]
    pub(crate) fn settle(&mut self, now: Instant) {
        loop {
            let change = self.timetable.next();
            self.internal = change.min(self.dequeue_at);
            if self.internal > now || self.internal.is_never() {
                break;
            }
            if change <= self.dequeue_at {
                self.change(change, now);
            } else {
                self.dequeue(self.dequeue_at);
            }
        }
        self.refresh();
    }

    /// The next internal event that makes a difference to a packet inside.
    pub(crate) fn next_internal(&self) -> Instant {
        let change = self.timetable.next();
        let matters = self.free_at > change || self.held().0 > 0;
        if matters { change.min(self.dequeue_at) } else { self.dequeue_at }
    }

    fn change(&mut self, at: Instant, now: Instant) {
        if self.free_at <= at && self.held().0 == 0 {
            self.timetable.skip(now);
        }
        let at = self.timetable.next();
        for set in self.timetable.take() {
            self.apply(at, &set);
        }
    }

    fn apply(&mut self, at: Instant, set: &Set) {
        self.retire(at);
        match set {
            Set::Rate(rate) => self.change_rate(at, rate),
            Set::Delay(delay) => {
                self.delay = *delay;
                self.replan_arrivals();
            }
            Set::Loss(loss) => {
                self.noise.losses.set(loss);
                self.noise.look(loss);
            }
            Set::Down => self.drop_all(at),
            Set::Up => self.up = true,
        }
    }

    fn drop_all(&mut self, at: Instant) {
        self.up = false;
        let first = self.first_waiting();
        let before = self.flight.len();
        self.flight.retain(|flight| flight.serial < first);
        let held = self.codel.as_mut().map_or(0, |codel| codel.clear());
        self.counts.dropped_down += (before - self.flight.len()) as u64 + held;
        if !self.waiting.is_empty() {
            self.waiting.clear();
            self.waiting_bytes = 0;
            self.wire.rewind(at);
            self.free_at = at;
        }
        self.dequeue_at = Instant::NEVER;
    }

    fn change_rate(&mut self, at: Instant, rate: &Rate) {
        let rest = self.rest_of_head(at);
        self.wire = Wire::new(rate, at);
        self.replan_departures(at, rest);
        if self.held().0 > 0 {
            self.dequeue_at = self.wire.opening(self.free_at.max(at));
        }
    }

    /// Rest at `at` of the packet in transmission, under a constant rate.
    fn rest_of_head(&mut self, at: Instant) -> Option<Work> {
        let head = *self.waiting.front()?;
        let serial = self.first_waiting();
        let Wire::Constant(constant) = &mut self.wire else { return None };
        let (since, work) = match self.resumed {
            Some(resumed) if resumed.serial == serial => (resumed.since, resumed.rest),
            // Without a rate it has not begun; otherwise it began one transmission time earlier.
            _ if head.departure.is_never() => (at, work(head.bytes)),
            _ => (head.departure - constant.time(Bytes::new(head.bytes.into())), work(head.bytes)),
        };
        let done = u128::from(constant.rate.as_bps()) * u128::from(at.since(since).as_nanos());
        Some(u128::from(work).saturating_sub(done) as Work)
    }

    fn replan_departures(&mut self, at: Instant, rest: Option<Work>) {
        let first = self.first_waiting();
        let mut free = at.min(self.free_at);
        for (index, entry) in self.waiting.iter_mut().enumerate() {
            let resumed = if index == 0 { rest } else { None };
            entry.departure = match (resumed, &self.wire) {
                (Some(rest), Wire::Constant(constant)) => {
                    self.resumed = Some(Resumed { serial: first, since: at, rest });
                    at + time(rest, constant.rate.as_bps())
                }
                _ => self.wire.depart(free.max(at), Bytes::new(entry.bytes.into())),
            };
            free = entry.departure;
        }
        self.free_at = free;
        self.replan_arrivals();
    }

    /// Moves the arrivals of what has not departed.
    fn replan_arrivals(&mut self) {
        let first = self.first_waiting();
        let mut flights = std::mem::take(&mut self.flight);
        let mut latest = Instant::ZERO;
        for flight in flights.iter_mut() {
            if flight.serial >= first {
                let entry = self.waiting[self.waiting.base() + (flight.serial - first)];
                flight.arrival = self.arrival(entry.departure, entry.extra);
                if !self.noise.reorders {
                    flight.arrival = flight.arrival.max(latest);
                }
            }
            latest = flight.arrival;
        }
        if self.noise.reorders {
            let mut sorted: Vec<_> = flights.iter().copied().collect();
            sorted.sort_unstable_by_key(|flight| (flight.arrival, flight.serial));
            flights.iter_mut().zip(sorted).for_each(|(flight, other)| *flight = other);
        }
        self.flight = flights;
    }

    /// Number of the first packet that waits.
    fn first_waiting(&self) -> u64 {
        self.serial - self.waiting.len() as u64
    }
}

fn work(bytes: u32) -> Work {
    u64::from(bytes) * 8_000_000_000
}

fn time(work: Work, bps: u64) -> Span {
    if bps == 0 { Span::MAX } else { Span::from_nanos(work.div_ceil(bps)) }
}
