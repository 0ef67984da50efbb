//! Rate of the bottleneck, by packets that waited for one another there.
//!
//! ```text
//! train    acknowledgements one after another, from one whose packet did not wait: at least 8 packets, and as long as
//!          round trips vary
//! waited   the train was acknowledged in twice the time in which it was sent; or there was a queue throughout, and
//!          the window was the limit
//! rate     bytes / time of the trains that waited, over the last 100 ms of such time
//! more     a delivery-rate sample above the rate counts, whether its packets waited or not
//! ```
//!
//! The time of a train is never less than the time in which it was sent, so that acknowledgements that come in a bunch
//! are no rate.

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::Acked;
use crate::window::LARGEST;

/// Least packets of a train: an initial window of ten, of which the first acknowledgement begins the train.
const TRAIN: u64 = 8;

/// What an acknowledgement says of the queue.
#[derive(Clone, Copy, Debug)]
pub(super) struct Seen {
    /// Its round trip is longer than one without a queue.
    pub(super) has_queue: bool,
    /// It may have been delayed by the receiver: it says nothing.
    pub(super) is_late: bool,
    /// The window was full.
    pub(super) is_limited: bool,
}

#[derive(Clone, Copy, Debug, Default)]
struct Train {
    bytes: u64,
    /// Time over which it was acknowledged, and sent, in ns.
    acked: u64,
    sent: u64,
    /// A queue was seen with each acknowledgement, and the window was the limit.
    is_queued: bool,
}

impl Train {
    const NEW: Self = Self { bytes: 0, acked: 0, sent: 0, is_queued: true };
}

#[derive(Clone, Debug)]
pub(super) struct Rate {
    least: u64,
    first: u64,
    /// In ns.
    memory: u64,
    /// Sums over trains that waited, of which the older ones fade.
    bytes: u64,
    time: u64,
    rate: BitRate,
    /// The highest rate, of which a part fades with each round trip.
    open: BitRate,
    /// Time that the bottleneck takes for two packets.
    pair: Span,
    /// Time by which acknowledgements are ahead of the rate, since they were last behind it; and its longest, of which a
    /// part fades with each round trip.
    ahead: Span,
    spread: Span,
    /// A train has waited since the path was silent.
    is_fresh: bool,
    train: Train,
    /// Time of the last acknowledgement, and of the departure of its packet.
    last: Option<(Instant, Instant)>,
}

impl Rate {
    pub(super) fn new(mss: u64, memory: Span, first: u64) -> Self {
        Self {
            least: TRAIN * mss,
            first: first * mss,
            memory: memory.as_nanos(),
            bytes: 0,
            time: 0,
            rate: BitRate::ZERO,
            open: BitRate::ZERO,
            pair: Span::ZERO,
            ahead: Span::ZERO,
            spread: Span::ZERO,
            is_fresh: false,
            train: Train::NEW,
            last: None,
        }
    }

    /// The rate; zero before the first train.
    pub(super) fn get(&self) -> BitRate {
        self.rate
    }

    /// The highest rate of late.
    pub(super) fn open(&self) -> BitRate {
        self.open
    }

    /// Time that the bottleneck takes for two packets; zero before the first train.
    pub(super) fn pair(&self) -> Span {
        self.pair
    }

    /// How much round trips vary: bunched acknowledgements were delayed by so much.
    pub(super) fn spread(&self) -> Span {
        self.spread
    }

    /// A round trip is over.
    pub(super) fn end_round(&mut self) {
        self.spread = self.spread.mul_div(15, 16);
        self.open = self.open.mul_div(63, 64).max(self.rate);
    }

    /// Returns true if a train has waited since the path was silent.
    pub(super) fn is_fresh(&self) -> bool {
        self.is_fresh
    }

    /// Bytes that the bottleneck lets through in `span`; `None` before the first train.
    pub(super) fn product(&self, span: Span) -> Option<u64> {
        (self.time > 0).then(|| self.rate.bytes_in(span).get().min(LARGEST))
    }

    /// Forgets the train in the making.
    pub(super) fn pause(&mut self) {
        self.last = None;
    }

    /// Makes what is known count for little beside the next train.
    pub(super) fn doubt(&mut self) {
        (self.bytes, self.time) = (self.bytes / 8, (self.time / 8).max(u64::from(self.time > 0)));
        self.is_fresh = false;
        self.pause();
    }

    /// Takes an acknowledgement; returns true if a train that waited ended with it.
    pub(super) fn on_acked(&mut self, acked: &Acked, seen: Seen) -> bool {
        if let Some(rate) = acked.rate.filter(|rate| self.time > 0 && *rate > self.rate) {
            self.add(acked.bytes.get().min(LARGEST), rate.transmission_time(acked.bytes).as_nanos());
        }
        if seen.is_late {
            self.pause();
            return false;
        }
        let Some((last, sent)) = self.last.replace((acked.now, acked.newest_sent)) else {
            self.train = Train::NEW;
            return false;
        };
        if acked.newest_sent < sent {
            // Of an older packet, by another way: the train has lost its order.
            self.last = Some((acked.now, sent));
            self.train.bytes = self.train.bytes.saturating_add(acked.bytes.get());
            self.train.acked = self.train.acked.saturating_add(acked.now.since(last).as_nanos());
            return false;
        }
        if self.time > 0 {
            let time = self.open.transmission_time(acked.bytes);
            self.ahead = (self.ahead + time).saturating_sub(acked.now.since(last));
            self.spread = self.spread.max(self.ahead.saturating_sub(time));
        }
        let (gap, sent_gap) = (acked.now.since(last).as_nanos(), acked.newest_sent.since(sent).as_nanos());
        if !seen.has_queue && sent_gap.saturating_mul(2) > gap {
            self.train = Train::NEW;
            return false;
        }
        let train = &mut self.train;
        train.bytes = train.bytes.saturating_add(acked.bytes.get());
        train.acked = train.acked.saturating_add(gap);
        train.sent = train.sent.saturating_add(sent_gap);
        train.is_queued &= seen.has_queue && seen.is_limited;
        let least = if self.time == 0 { self.first } else { self.least };
        if train.bytes < least || train.acked <= self.spread.as_nanos() {
            return false;
        }
        let train = core::mem::replace(train, Train::NEW);
        let waited = train.is_queued || train.acked >= train.sent.saturating_mul(2);
        if waited {
            self.is_fresh = true;
            self.add(train.bytes.min(LARGEST), train.acked.max(train.sent));
        }
        waited
    }

    fn add(&mut self, bytes: u64, time: u64) {
        self.bytes = self.bytes.saturating_add(bytes).min(LARGEST);
        self.time = self.time.saturating_add(time).max(1);
        if self.time > self.memory {
            self.bytes = Bytes::new(self.bytes).mul_div(self.memory, self.time).get();
            self.time = self.memory;
        }
        self.rate = BitRate::of(Bytes::new(self.bytes), Span::from_nanos(self.time));
        self.open = self.open.max(self.rate);
        self.pair = self.rate.transmission_time(Bytes::new(self.least / TRAIN * 2));
    }
}
