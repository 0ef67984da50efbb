//! Rate of the bottleneck, by packets that waited for one another there.
//!
//! ```text
//! train    acknowledgements one after another, since one whose packet had not waited: 8 packets or more, the first
//!          time 4, and longer than round trips vary
//! waited   it was acknowledged in twice the time in which it was sent; or a queue was seen throughout, and the window
//!          was full
//! rate     bytes / time of the trains that waited, over the last 100 ms of such time
//! more     a delivery-rate sample above the rate counts, whether its packets waited or not
//! spread   by how much acknowledgements run ahead of the highest rate of late: so much longer had they been kept
//! ```
//!
//! The time of a train is never less than that in which it was sent, and a train is longer than the spread: a bunch of
//! acknowledgements is no rate (draft-ietf-ccwg-bbr §4.1).

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::Acked;
use crate::window::LARGEST;

/// Least packets of a train, and of the first: an initial window of ten shows two of these.
const TRAIN: u64 = 8;
const FIRST: u64 = 4;

/// Conditions of an acknowledgement: a queue, a full window.
#[derive(Clone, Copy, Debug)]
pub(super) struct Conditions {
    pub(super) has_queue: bool,
    pub(super) is_full: bool,
}

#[derive(Clone, Copy, Debug)]
struct Train {
    bytes: u64,
    /// Time over which it was acknowledged, and sent, in ns.
    acked: u64,
    sent: u64,
    is_queued: bool,
}

impl Train {
    const NEW: Self = Self { bytes: 0, acked: 0, sent: 0, is_queued: true };
}

#[derive(Clone, Debug)]
pub(super) struct Rate {
    mss: u64,
    /// Length of the memory, in ns.
    memory: u64,
    /// Sums over trains that waited, of which the older ones fade.
    bytes: u64,
    time: u64,
    rate: BitRate,
    /// The highest rate, of which a part fades with each round trip.
    pub(super) highest: BitRate,
    /// Time that the bottleneck takes for two packets.
    pub(super) pair: Span,
    /// Time by which acknowledgements are ahead, since they were last behind; the longest fades with each round trip.
    ahead: Span,
    pub(super) spread: Span,
    /// A train has waited since the path was silent.
    pub(super) is_fresh: bool,
    train: Train,
    /// Time of the last acknowledgement, and of the departure of its packet.
    last: Option<(Instant, Instant)>,
}

impl Rate {
    pub(super) fn new(mss: u64, memory: Span) -> Self {
        let (memory, train, last) = (memory.as_nanos(), Train::NEW, None);
        let (rate, highest) = (BitRate::ZERO, BitRate::ZERO);
        let (pair, ahead, spread) = (Span::ZERO, Span::ZERO, Span::ZERO);
        Self { mss, memory, bytes: 0, time: 0, rate, highest, pair, ahead, spread, is_fresh: false, train, last }
    }

    /// The rate; zero before the first train.
    pub(super) fn get(&self) -> BitRate {
        self.rate
    }

    /// Bytes that the bottleneck lets through in `span`; `None` before the first train.
    pub(super) fn product(&self, span: Span) -> Option<u64> {
        (self.time > 0).then(|| self.rate.bytes_in(span).get().min(LARGEST))
    }

    /// Ends a round trip.
    pub(super) fn end_round(&mut self) {
        self.spread = self.spread.mul_div(15, 16);
        self.highest = self.highest.mul_div(63, 64).max(self.rate);
    }

    /// Forgets the train in the making: an acknowledgement was kept by the receiver.
    pub(super) fn pause(&mut self) {
        self.last = None;
    }

    /// Makes what is known count for little beside the next train.
    pub(super) fn doubt(&mut self) {
        (self.bytes, self.time) = (self.bytes / 8, (self.time / 8).max(u64::from(self.time > 0)));
        self.is_fresh = false;
        self.pause();
    }

    /// Takes a delivery-rate sample, which is at most the bottleneck's rate.
    pub(super) fn raise(&mut self, acked: &Acked) {
        if let Some(rate) = acked.rate.filter(|rate| self.time > 0 && *rate > self.rate) {
            self.add(acked.bytes.get(), rate.transmission_time(acked.bytes).as_nanos());
        }
    }

    pub(super) fn on_acked(&mut self, acked: &Acked, conditions: Conditions) {
        let bytes = acked.bytes.get().min(LARGEST);
        let Some((last, sent)) = self.last.replace((acked.now, acked.newest_sent)) else {
            self.train = Train::NEW;
            return;
        };
        let gap = acked.now.since(last);
        let (gap_ns, sent_ns) = (gap.as_nanos(), acked.newest_sent.since(sent).as_nanos());
        if acked.newest_sent < sent {
            self.last = Some((acked.now, sent));
        } else if self.time > 0 {
            let time = self.highest.transmission_time(acked.bytes);
            self.ahead = (self.ahead + time).saturating_sub(gap);
            self.spread = self.spread.max(self.ahead.saturating_sub(time));
        }
        if !conditions.has_queue && sent_ns.saturating_mul(2) > gap_ns {
            self.train = Train::NEW;
            return;
        }
        let train = &mut self.train;
        train.bytes += bytes;
        train.acked = train.acked.saturating_add(gap_ns);
        train.sent = train.sent.saturating_add(sent_ns);
        train.is_queued &= conditions.has_queue && conditions.is_full;
        let least = if self.time == 0 { FIRST } else { TRAIN };
        if train.bytes < least * self.mss || train.acked <= self.spread.as_nanos() {
            return;
        }
        let train = core::mem::replace(train, Train::NEW);
        if train.is_queued || train.acked >= train.sent.saturating_mul(2) {
            self.is_fresh = true;
            self.add(train.bytes, train.acked.max(train.sent));
        }
    }

    fn add(&mut self, bytes: u64, time: u64) {
        self.bytes = self.bytes.saturating_add(bytes).min(LARGEST);
        self.time = self.time.saturating_add(time).max(1);
        if self.time > self.memory {
            self.bytes = Bytes::new(self.bytes).mul_div(self.memory, self.time).get();
            self.time = self.memory;
        }
        self.rate = BitRate::of(Bytes::new(self.bytes), Span::from_nanos(self.time));
        self.highest = self.highest.max(self.rate);
        self.pair = self.rate.transmission_time(Bytes::new(2 * self.mss));
    }
}
