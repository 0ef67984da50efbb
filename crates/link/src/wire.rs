//! Departures of packets: the rate of a link, at work. All times are exact or rounded up, so the rate
//! is never exceeded.

use std::sync::Arc;

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::{OPPORTUNITY, Rate, Trace};

/// The wire behind a queue. Packets are given to it in the order in which they depart.
#[derive(Clone, Debug)]
pub(crate) enum Wire {
    Constant(Constant),
    Trace(Cursor),
}

impl Wire {
    /// A wire on which nothing departs before `from`.
    pub(crate) fn new(rate: &Rate, from: Instant) -> Self {
        match rate {
            Rate::Constant(rate) => Self::Constant(Constant::new(*rate)),
            Rate::Trace(trace) => Self::Trace(Cursor::new(trace.clone(), from)),
        }
    }

    /// Departure of a packet that is first in the queue from `ready` on.
    #[inline]
    pub(crate) fn depart(&mut self, ready: Instant, bytes: Bytes) -> Instant {
        match self {
            Self::Constant(constant) => ready + constant.time(bytes),
            Self::Trace(cursor) => cursor.depart(ready, bytes),
        }
    }

    /// The first time from `ready` on at which a packet can begin to depart.
    pub(crate) fn opening(&mut self, ready: Instant) -> Instant {
        match self {
            Self::Constant(constant) if constant.rate == BitRate::ZERO => Instant::NEVER,
            Self::Constant(_) => ready,
            Self::Trace(cursor) => cursor.open_at_or_after(ready),
        }
    }

    /// Rate at `now`.
    pub(crate) fn rate(&self, now: Instant) -> BitRate {
        match self {
            Self::Constant(constant) => constant.rate,
            Self::Trace(cursor) => cursor.trace.rate_soon(now),
        }
    }

    /// Forgets what was planned for later than `at`.
    pub(crate) fn rewind(&mut self, at: Instant) {
        if let Self::Trace(cursor) = self {
            *cursor = Cursor::new(cursor.trace.clone(), at + Span::from_nanos(1));
        }
    }
}

/// A constant rate. It remembers the last transmission time, because most packets are of one size
/// and a division costs more than the rest of a push.
#[derive(Clone, Debug)]
pub(crate) struct Constant {
    pub(crate) rate: BitRate,
    bytes: Bytes,
    time: Span,
}

impl Constant {
    fn new(rate: BitRate) -> Self {
        Self { rate, bytes: Bytes::ZERO, time: Span::ZERO }
    }

    #[inline]
    pub(crate) fn time(&mut self, bytes: Bytes) -> Span {
        if bytes != self.bytes {
            self.bytes = bytes;
            self.time = self.rate.transmission_time(bytes);
        }
        self.time
    }
}

/// A place in a trace. Moving it forward packet by packet costs one step for each opportunity used;
/// idle stretches are skipped by bisection.
#[derive(Clone, Debug)]
pub(crate) struct Cursor {
    trace: Arc<Trace>,
    /// Index of the first opportunity not yet opened.
    next: usize,
    /// Beginning of the repetition that it belongs to.
    base: Instant,
    /// Time of the opportunity that is open.
    at: Instant,
    /// Rest of it.
    left: u32,
}

impl Cursor {
    /// A cursor before the first opportunity at or after `from`.
    fn new(trace: Arc<Trace>, from: Instant) -> Self {
        let mut cursor = Self { trace, next: 0, base: Instant::ZERO, at: Instant::ZERO, left: 0 };
        cursor.seek(from);
        cursor
    }

    fn depart(&mut self, ready: Instant, bytes: Bytes) -> Instant {
        if self.open_at_or_after(ready).is_never() {
            return Instant::NEVER;
        }
        let mut rest = bytes.get();
        while rest > u64::from(self.left) {
            rest -= u64::from(self.left);
            self.open();
        }
        self.left -= rest as u32;
        self.at
    }

    /// Makes sure that something is left of an opportunity at or after `ready`, and says when it is.
    fn open_at_or_after(&mut self, ready: Instant) -> Instant {
        if ready.is_never() {
            return Instant::NEVER;
        }
        if self.left == 0 || self.at < ready {
            if self.upcoming() < ready {
                self.seek(ready);
            }
            self.open();
        }
        self.at
    }

    /// Time of the first opportunity not yet opened.
    fn upcoming(&self) -> Instant {
        self.base + Span::from_millis(u64::from(self.trace.times()[self.next]))
    }

    fn open(&mut self) {
        self.at = self.upcoming();
        self.left = OPPORTUNITY.get() as u32;
        self.next += 1;
        if self.next == self.trace.times().len() {
            self.next = 0;
            self.base += self.trace.duration();
        }
    }

    fn seek(&mut self, from: Instant) {
        let lines = self.trace.times().len() as u64;
        let number = self.trace.opportunities_before(from);
        self.next = (number % lines) as usize;
        self.base = Instant::ZERO + self.trace.duration() * (number / lines);
    }
}
