//! The end that receives the data: what has arrived, and how far the sender may go.
//!
//! The limit is raised when half of the window is used, as QUIC implementations raise MAX_DATA. It travels in a record
//! of its own, on the path that brought the data; a later limit replaces a lost one, and a sender that waits asks for
//! it. An application that reads slowly holds the limit back ([`Receiver::took`]).

use weftway_host::sending::RangeSet;
use weftway_path::{Bytes, Instant, Offset, PathId, Span};

/// Most gaps that what arrived may have, unless more full packets fit into the window. A sender whose records are of 1
/// KiB or more leaves a quarter of them in a window of 32 MiB at most; one that leaves more means harm, and what would
/// be another gap is dropped.
const MOST_GAPS: usize = 1 << 16;

/// Data that arrived.
#[derive(Clone, Debug)]
pub struct Receiver {
    next: u64,
    /// Bytes that the application took out; `None` if it takes everything at once.
    taken: Option<u64>,
    held: RangeSet,
    edge: u64,
    window: u64,
    /// The largest payload of a record.
    packet: u64,
    most_gaps: usize,
    /// Bytes that were missing and do not come.
    skipped: u64,
    held_ns: u128,
    held_since: Instant,
    /// Time at which the data grew in order last.
    grew_at: Option<Instant>,
    /// Counters of the receiver.
    pub tally: Tally,
    /// Bytes that each path brought first.
    pub delivered: Vec<u64>,
}

/// Counters of a receiver.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Records of data.
    pub arrived: u64,
    /// Records that did not continue what had arrived.
    pub out_of_order: u64,
    /// Records that brought nothing new.
    pub duplicates: u64,
    /// Records that reached beyond the limit, or were a gap too many, and were dropped.
    pub beyond: u64,
    /// The most bytes that were held out of order.
    pub held_max: u64,
    /// The longest time without a byte in order, between the first and the last.
    pub longest_stall: Span,
}

impl Receiver {
    /// A receiver with room for `window`, over so many paths.
    pub fn new(window: Bytes, packet: Bytes, paths: usize) -> Self {
        let (packet, window) = (packet.get(), window.get().max(packet.get()));
        let most_gaps = MOST_GAPS.max((window / packet.max(1)) as usize);
        Self {
            most_gaps,
            next: 0,
            taken: None,
            held: RangeSet::default(),
            edge: window,
            window,
            packet,
            skipped: 0,
            held_ns: 0,
            held_since: Instant::ZERO,
            grew_at: None,
            tally: Tally::default(),
            delivered: vec![0; paths],
        }
    }

    /// Everything before it has arrived.
    #[inline]
    pub fn next(&self) -> Offset {
        Offset::new(self.next)
    }

    /// Bytes that have arrived in order; of those before [`Receiver::next`], not what was skipped.
    pub fn delivered(&self) -> Bytes {
        Bytes::new(self.next - self.skipped)
    }

    /// The right edge.
    #[inline]
    pub fn edge(&self) -> Offset {
        Offset::new(self.edge)
    }

    /// Data arrive on `path`. Whether the sender is to be told of a new limit.
    pub fn arrive(&mut self, now: Instant, path: PathId, offset: Offset, bytes: usize) -> bool {
        let (lo, hi) = (offset.get(), offset.get().saturating_add(bytes as u64));
        self.tally.arrived += 1;
        if hi > self.edge || lo > self.next && self.held.iter().len() >= self.most_gaps {
            self.tally.beyond += 1;
            return false;
        }
        if hi <= self.next {
            self.tally.duplicates += 1;
            return false;
        }
        self.account(now);
        let before = self.next;
        let mut fresh = 0;
        self.held.insert(lo.max(self.next), hi, |from, to| fresh += to - from);
        if let Some((_, end)) = self.held.take_from(self.next) {
            self.next = end;
            let grew_at = self.grew_at.replace(now).unwrap_or(now);
            self.tally.longest_stall = self.tally.longest_stall.max(now.since(grew_at));
        }
        self.tally.held_max = self.tally.held_max.max(self.held.total());
        self.tally.duplicates += u64::from(fresh == 0);
        self.tally.out_of_order += u64::from(fresh > 0 && self.next == before);
        self.delivered[path.index()] += fresh;
        self.next > before && self.open()
    }

    /// Notes that what is missing before `to` does not come: nothing waits for it. Whether the sender is to be told of a
    /// new limit.
    pub fn skip(&mut self, now: Instant, to: Offset) -> bool {
        if to.get() <= self.next {
            return false;
        }
        self.account(now);
        let held = self.held.total();
        self.held.remove_below(to.get());
        self.skipped += to.get() - self.next - (held - self.held.total());
        self.next = self.held.take_from(to.get()).map_or(to.get(), |(_, end)| end);
        self.open()
    }

    /// Raises the limit if half of the window is used, or less than a packet is left.
    fn open(&mut self) -> bool {
        let edge = self.taken.unwrap_or(self.next) + self.window;
        let scarce = edge > self.edge && self.edge < self.next + self.packet;
        let due = edge.saturating_sub(self.edge) >= self.window / 2 || scarce;
        if due {
            self.edge = edge;
        }
        due
    }

    /// The sender asks: everything that was read counts.
    pub fn asked(&mut self) {
        self.edge = self.edge.max(self.taken.unwrap_or(self.next) + self.window);
    }

    /// The application took out everything before `offset`; from the first call on, the limit follows what it takes.
    /// Whether the sender is to be told of a new limit.
    pub fn took(&mut self, offset: Offset) -> bool {
        self.taken = Some(offset.get().min(self.next));
        self.open()
    }

    fn account(&mut self, now: Instant) {
        self.held_ns += u128::from(self.held.total()) * u128::from(now.since(self.held_since).as_nanos());
        self.held_since = now;
    }

    /// Time that a byte waited for what was missing before it, in milliseconds, on the mean over all bytes.
    pub fn mean_wait_ms(&self) -> f64 {
        let delivered = self.delivered().get();
        if delivered == 0 { 0.0 } else { self.held_ns as f64 / delivered as f64 / 1e6 }
    }

    /// The bytes held out of order, on the mean over `span` from the start.
    pub fn held_mean(&self, now: Instant, span: Span) -> f64 {
        let since = u128::from(now.since(self.held_since).as_nanos());
        let ns = self.held_ns + u128::from(self.held.total()) * since;
        if span.is_zero() { 0.0 } else { ns as f64 / span.as_nanos() as f64 }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const P: PathId = PathId::new(0);

    #[test]
    fn each_byte_counts_once_and_the_limit_rises_by_half_windows() {
        let mut receiver = Receiver::new(Bytes::new(1000), Bytes::new(100), 2);
        let mut take = |at: u64, ms: u64, path: u8| {
            receiver.arrive(Instant::from_millis(ms), PathId::new(path), Offset::new(at), 100)
        };
        assert!(!take(100, 0, 1));
        assert!(!take(100, 1, 0), "twice the same");
        assert!(!take(0, 10, 0));
        for at in 2..4 {
            assert!(!take(100 * at, 10, 0));
        }
        assert!(take(400, 10, 0), "500 of 1000 bytes are read");
        assert!(!take(1500, 10, 0), "beyond the limit");
        // In order: 200 bytes at 10 ms, and the rest at once.
        let tally = Tally { arrived: 7, out_of_order: 1, duplicates: 1, beyond: 1, ..Tally::default() };
        assert_eq!(receiver.tally, Tally { held_max: 100, ..tally });
        assert_eq!((receiver.next(), receiver.edge()), (Offset::new(500), Offset::new(1500)));
        assert_eq!(receiver.delivered, [400, 100]);
        // 100 bytes were held for 10 ms: 2 ms for each of the 500.
        assert_eq!(receiver.mean_wait_ms(), 2.0);
    }

    /// In order at 5, 7 and 30 ms: 23 ms pass between the last two, in which a packet arrives that does not continue
    /// them.
    #[test]
    fn a_stall_lasts_until_what_is_missing_arrives() {
        let mut receiver = Receiver::new(Bytes::new(1000), Bytes::new(100), 1);
        for (ms, at) in [(5, 0), (7, 100), (20, 300), (30, 200)] {
            receiver.arrive(Instant::from_millis(ms), P, Offset::new(at), 100);
        }
        assert_eq!((receiver.next(), receiver.tally.longest_stall), (Offset::new(400), Span::from_millis(23)));
    }

    #[test]
    fn what_is_skipped_is_not_delivered_and_the_limit_rises() {
        let mut receiver = Receiver::new(Bytes::new(1000), Bytes::new(100), 1);
        for at in [0, 2, 4, 6] {
            receiver.arrive(Instant::ZERO, P, Offset::new(100 * at), 100);
        }
        assert_eq!((receiver.next().get(), receiver.delivered().get()), (100, 100));
        assert!(receiver.skip(Instant::ZERO, Offset::new(400)), "500 of 1000 bytes are used");
        assert_eq!((receiver.next().get(), receiver.delivered().get(), receiver.edge().get()), (500, 300, 1500));
        assert!(!receiver.skip(Instant::ZERO, Offset::new(610)));
        assert_eq!((receiver.next().get(), receiver.delivered().get()), (700, 400));
    }

    #[test]
    fn a_slow_reader_holds_the_limit_back() {
        let mut receiver = Receiver::new(Bytes::new(1000), Bytes::new(100), 1);
        assert!(!receiver.took(Offset::ZERO));
        for at in 0..10 {
            assert!(!receiver.arrive(Instant::ZERO, P, Offset::new(100 * at), 100), "nothing is taken out");
        }
        assert!(!receiver.arrive(Instant::ZERO, P, Offset::new(1000), 100), "beyond the limit");
        receiver.asked();
        assert_eq!(receiver.edge(), Offset::new(1000));
        assert!(receiver.took(Offset::new(50)), "less than a packet is left: any room is told");
        assert_eq!(receiver.edge(), Offset::new(1050));
        assert!(receiver.took(Offset::new(2000)), "no more than has arrived");
        assert_eq!(receiver.edge(), Offset::new(2000));
    }

    /// Every second byte, and then what is missing at the beginning.
    #[test]
    fn gaps_have_an_end() {
        let most = MOST_GAPS as u64;
        let mut receiver = Receiver::new(Bytes::new(4 * most), Bytes::new(100), 1);
        for at in 1..=most + 10 {
            receiver.arrive(Instant::ZERO, P, Offset::new(2 * at), 1);
        }
        assert_eq!((receiver.held.iter().len() as u64, receiver.tally.beyond), (most, 10));
        receiver.arrive(Instant::ZERO, P, Offset::ZERO, 2);
        assert_eq!(receiver.next(), Offset::new(3));
        receiver.arrive(Instant::ZERO, P, Offset::new(2 * most + 2), 1);
        assert_eq!(
            (receiver.held.iter().len() as u64, receiver.tally.beyond),
            (most, 10),
            "there is room for one again"
        );
        // Where the window is of more packets, each of them may be one.
        let mut wide = Receiver::new(Bytes::new(4 * most), Bytes::new(1), 1);
        for at in 1..=most + 10 {
            wide.arrive(Instant::ZERO, P, Offset::new(2 * at), 1);
        }
        assert_eq!((wide.held.iter().len() as u64, wide.tally.beyond), (most + 10, 0));
    }

    #[test]
    fn a_record_at_the_end_of_all_numbers_is_dropped() {
        let mut receiver = Receiver::new(Bytes::new(1000), Bytes::new(100), 1);
        assert!(!receiver.arrive(Instant::ZERO, P, Offset::new(u64::MAX - 1), 100));
        assert_eq!(receiver.tally.beyond, 1);
    }
}
