//! The half of a stream that arrives: puts pieces in order, and decides how far the peer may send.
//!
//! Credit follows what the reader takes, not what arrives. The window, which is how far the credit is ahead of the
//! reader, is five halves of what the reader takes in a round trip: one is on the way, one more while a lost piece is
//! sent again on the slowest path, and credit is told when an eighth of the window is used. The round trip includes the
//! time that pieces wait for those before them: the queue of a slow path delays them, and this end's own packets, which
//! go the other way, hardly show it. A window shrinks by no more than an eighth in each round trip, for a reader that
//! waits for a lost piece takes nothing either; never below the first credit. [`Budget::offer`] says how large it may
//! be.
//!
//! A reader that stops holds up its own stream and nothing else: the memory that it was promised stays its own. So a
//! window is never larger than what was read in a round trip allows, and once the reader has taken nothing for
//! [`STOPPED`] it falls.

use weftway_host::sending::RangeSet;
use weftway_path::{Bytes, Instant, Span};

use crate::budget::{Budget, SMALL};
use crate::error::ProtocolError;
use crate::id::{MAX, StreamId};
use crate::pages::Pages;

/// Distance of the credit from the reader, in halves of what the reader takes in a round trip.
const HALVES_AHEAD: u64 = 5;
/// Credit is not told for less than this, unless it is half of the window: each time costs a frame, and may cost a
/// packet.
const LEAST_TOLD: u64 = 16 << 10;
/// A reader that leaves what is there for so long has stopped.
pub const STOPPED: Span = Span::from_secs(1);
/// Longest wait that counts: a longer one is for a path that was cut, and says nothing of the time after.
const MOST_WAITED: Span = Span::from_secs(1);

/// Receiving side of a stream.
#[derive(Clone, Debug)]
pub struct Incoming {
    pages: Pages,
    /// Bytes that have arrived beyond `next`.
    held: RangeSet,
    /// Everything before it is taken by the reader.
    taken: u64,
    /// Everything before it has arrived.
    next: u64,
    /// The credit that the peer knows of, or will when a frame that was made arrives.
    edge: u64,
    /// Bytes by which the credit is to be ahead of the reader.
    window: u64,
    /// Distance that it may have: as the peer was told, and the window if the peer is to be told.
    promised: u64,
    /// Credit that is promised to each stream.
    first: u64,
    /// End of the stream, once that is known.
    size: Option<u64>,
    /// Begin of this round trip, and the offset from which on taken bytes count.
    measured: (Instant, u64),
    /// Time since which the reader has taken nothing, although there is something.
    left_since: Option<Instant>,
    /// Time at which a piece arrived that waits for another one, and its end.
    waiting: Option<(Instant, u64)>,
    /// The longest that such a piece waited, lately.
    waited: Span,
}

impl Incoming {
    /// Makes the receiving side of a stream that begins now with a credit of `first`, which both ends know.
    pub fn new(now: Instant, first: u64) -> Self {
        Self {
            pages: Pages::default(),
            held: RangeSet::default(),
            taken: 0,
            next: 0,
            edge: first,
            window: first,
            promised: first,
            first,
            size: None,
            measured: (now, 0),
            left_since: None,
            waiting: None,
            waited: Span::ZERO,
        }
    }

    /// A piece arrives, which is `fin` if the stream ends with it: whether the reader has more to read or to learn.
    pub fn arrive(
        &mut self,
        now: Instant,
        id: StreamId,
        (at, bytes, fin): (u64, &[u8], bool),
        budget: &mut Budget,
    ) -> Result<bool, ProtocolError> {
        let end = at + bytes.len() as u64;
        if end > self.edge {
            return Err(ProtocolError::Credit { id, end, edge: self.edge });
        }
        if let Some(size) = self.size.filter(|&size| end > size || fin && end != size) {
            return Err(ProtocolError::Size { id, size, other: end });
        }
        let learnt = fin && self.size.is_none();
        if fin {
            let highest = self.held.last().map_or(self.next, |(_, highest)| highest);
            if end < highest {
                return Err(ProtocolError::Size { id, size: end, other: highest });
            }
            self.size = Some(end);
        }
        let (before, gaps) = (self.next, self.held.iter().len());
        let pages = &mut self.pages;
        self.held.insert(at.max(self.next), end, |from, to| {
            pages.write(from, &bytes[(from - at) as usize..(to - at) as usize]);
        });
        if let Some((_, end)) = self.held.take_from(self.next) {
            self.next = end;
        }
        if self.next > self.taken {
            self.left_since.get_or_insert(now);
        }
        self.measure_wait(now, end);
        if !budget.count_gaps(gaps, self.held.iter().len()) {
            return Err(ProtocolError::Gaps);
        }
        if learnt {
            self.set_window(budget);
        }
        Ok(self.next > before || learnt && self.has_ended())
    }

    /// Once a piece is there that ends at `end`: one at a time is followed until all before it has arrived.
    fn measure_wait(&mut self, now: Instant, end: u64) {
        match self.waiting {
            Some((since, until)) if self.next >= until => {
                self.waited = self.waited.max(now.since(since)).min(MOST_WAITED);
                self.waiting = None;
            }
            None if end > self.next => self.waiting = Some((now, end)),
            _ => {}
        }
    }

    /// The next bytes for the reader, as far as they lie together: none if it has to wait, or has everything.
    pub fn front(&self) -> &[u8] {
        self.pages.front(self.taken, self.next)
    }

    /// All bytes for the reader, in parts that each lie together.
    pub fn parts(&self) -> impl Iterator<Item = &[u8]> {
        self.pages.parts(self.taken, self.next)
    }

    /// Tells whether the reader has taken everything that there will ever be.
    pub fn has_ended(&self) -> bool {
        self.size == Some(self.taken)
    }

    /// The reader takes so many bytes, of those that [`Incoming::parts`] shows: whether the peer is to get credit.
    pub fn take(&mut self, now: Instant, rtt: Span, bytes: usize, budget: &mut Budget) -> bool {
        if self.has_stopped(now) {
            // It goes on. How fast it takes what has lain there says nothing of what can arrive.
            (self.window, self.measured) = (self.window.min(SMALL), (now, self.next));
        }
        let (since, before) = self.measured;
        let (span, rtt) = (now.since(since), rtt + self.waited);
        if span >= rtt && !span.is_zero() {
            let in_rtt = Bytes::new(self.taken.saturating_sub(before)).mul_div(rtt.as_nanos(), span.as_nanos());
            self.window = ahead_of(in_rtt.get()).max(self.window - self.window / 8);
            self.measured = (now, self.taken.max(before));
            self.waited -= self.waited / 8;
        }
        self.taken += (bytes as u64).min(self.next - self.taken);
        self.pages.forget_below(self.taken, self.taken == self.next && self.held.is_empty());
        if bytes > 0 {
            self.left_since = (self.taken < self.next).then_some(now);
        }
        self.set_window(budget);
        self.is_credit_due()
    }

    /// The window is at least what is ahead of the bytes that were taken in this round trip so far, and as much of that
    /// as memory allows.
    fn set_window(&mut self, budget: &mut Budget) {
        let most = self.first + budget.offer(self.promised - self.first);
        let in_rtt = self.taken.saturating_sub(self.measured.1);
        self.window = self.window.max(ahead_of(in_rtt)).min(most).max(self.first);
        // What the peer was told stays promised until the reader is past it, but for what lies behind the end.
        let end = self.size.map_or(self.edge, |size| size.min(self.edge));
        let told = end - self.taken;
        let is_due = self.size.is_none() && told + self.step() <= self.window;
        let needed = if is_due { self.window } else { told.max(self.first) };
        if needed < self.promised {
            budget.give(self.promised - needed);
            self.promised = needed;
        } else if budget.take(needed - self.promised) {
            self.promised = needed;
        }
    }

    /// Least addition to the credit of which the peer is told.
    fn step(&self) -> u64 {
        (self.window / 8).max(LEAST_TOLD.min(self.window / 2))
    }

    /// Largest offset at which the credit could end.
    pub fn next_edge(&self) -> u64 {
        (self.taken + self.promised).min(MAX).max(self.edge)
    }

    fn is_credit_due(&self) -> bool {
        self.size.is_none() && self.next_edge() - self.edge >= self.step()
    }

    /// Bytes that have arrived and are not taken.
    pub fn unread(&self) -> u64 {
        self.next - self.taken
    }

    /// Returns true if the reader leaves what is there, and has for [`STOPPED`].
    pub fn has_stopped(&self, now: Instant) -> bool {
        self.left_since.is_some_and(|since| now.since(since) >= STOPPED)
    }

    /// The credit as it stands, which the peer is told.
    pub fn credit(&mut self) -> u64 {
        self.edge = self.next_edge();
        self.edge
    }

    /// The credit that the peer was told.
    pub fn told(&self) -> u64 {
        self.edge
    }

    /// Forgets everything, since the stream is over: what was promised is free.
    pub fn clear(&mut self, budget: &mut Budget) {
        let _ = budget.count_gaps(self.held.iter().len(), 0);
        budget.give(self.promised - self.first);
        (self.pages, self.held, self.promised) = (Pages::default(), RangeSet::default(), self.first);
        (self.next, self.left_since) = (self.taken, None);
    }

    /// Bytes of memory that it takes.
    pub fn memory(&self) -> usize {
        self.pages.memory()
    }
}

/// Distance of the credit from a reader that takes `in_rtt` bytes in a round trip.
fn ahead_of(in_rtt: u64) -> u64 {
    in_rtt.saturating_mul(HALVES_AHEAD) / 2
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: fn() -> StreamId = || StreamId::from_wire(4);
    const RTT: Span = Span::from_millis(100);
    const FIRST: u64 = 1000;

    fn stream() -> (Incoming, Budget) {
        (Incoming::new(Instant::ZERO, FIRST), Budget::new(100_000))
    }

    #[test]
    fn a_piece_may_come_again_cut_otherwise() {
        let (mut stream, mut budget) = stream();
        for (at, bytes, fin, news) in [
            (3, &b"def"[..], false, false),
            (5, b"fgh", true, false),
            (0, b"abcd", false, true),
            (2, b"cdef", false, false),
        ] {
            assert_eq!(stream.arrive(Instant::ZERO, ID(), (at, bytes, fin), &mut budget), Ok(news));
        }
        assert_eq!(stream.front(), b"abcdefgh");
        assert!(!stream.take(Instant::ZERO, RTT, 8, &mut budget), "an end needs no credit");
        assert!(stream.has_ended());
        assert_eq!(stream.memory(), 0);
    }

    #[test]
    fn what_contradicts_the_end_is_refused() {
        let size = |size, other| Err(ProtocolError::Size { id: ID(), size, other });
        let (mut stream, mut budget) = stream();
        assert_eq!(stream.arrive(Instant::ZERO, ID(), (4, b"ef", false), &mut budget), Ok(false));
        assert_eq!(stream.arrive(Instant::ZERO, ID(), (4, b"e", true), &mut budget), size(5, 6));
        assert_eq!(stream.arrive(Instant::ZERO, ID(), (6, b"", true), &mut budget), Ok(false));
        assert_eq!(stream.arrive(Instant::ZERO, ID(), (6, b"g", false), &mut budget), size(6, 7));
        assert_eq!(stream.arrive(Instant::ZERO, ID(), (0, b"a", true), &mut budget), size(6, 1));
        assert_eq!(stream.arrive(Instant::ZERO, ID(), (0, b"abcd", false), &mut budget), Ok(true));
    }

    #[test]
    fn bytes_beyond_the_credit_are_refused() {
        let (mut stream, mut budget) = stream();
        assert_eq!(stream.arrive(Instant::ZERO, ID(), (FIRST - 1, b"a", false), &mut budget), Ok(false));
        for (at, end) in [(FIRST, FIRST + 1), (MAX - 1, MAX)] {
            let error = ProtocolError::Credit { id: ID(), end, edge: FIRST };
            assert_eq!(stream.arrive(Instant::ZERO, ID(), (at, b"a", false), &mut budget), Err(error));
        }
    }

    /// Fills the credit, and has a reader take all of it, in one round trip.
    fn round(stream: &mut Incoming, budget: &mut Budget, now: Instant) -> u64 {
        let bytes = vec![0; (stream.edge - stream.next) as usize];
        stream.arrive(now, ID(), (stream.next, &bytes, false), budget).unwrap();
        while !stream.front().is_empty() {
            let _ = stream.take(now, RTT, stream.front().len(), budget);
        }
        stream.credit();
        bytes.len() as u64
    }

    #[test]
    fn the_window_grows_while_it_is_what_limits_and_two_thirds_of_the_memory_are_its_end() {
        let (mut stream, mut budget) = stream();
        let rounds: Vec<u64> = (0..12).map(|n| round(&mut stream, &mut budget, Instant::ZERO + RTT * n)).collect();
        assert_eq!(rounds[..3], [1000, 2500, 6250]);
        // Two thirds of the 100 000 but for an eighth, 2 · 29 166, beside the first 1000.
        assert_eq!((stream.window, budget.free()), (59_332, 41_668));
        // A reader that takes little gives it back.
        for n in 12..60 {
            let bytes = 100.min(stream.edge - stream.next);
            let now = Instant::ZERO + RTT * n;
            stream.arrive(now, ID(), (stream.next, &vec![0; bytes as usize], false), &mut budget).unwrap();
            let _ = stream.take(now, RTT, stream.front().len(), &mut budget);
        }
        assert_eq!(stream.window, FIRST);
        stream.clear(&mut budget);
        assert_eq!(budget.free(), 100_000);
    }

    /// A piece waits 300 ms for the one before, as where a path has a long queue; then 1000 bytes come every 100 ms.
    #[test]
    fn what_waits_for_what_is_before_it_makes_the_round_trip_longer() {
        let (mut stream, mut budget) = stream();
        let at = Instant::from_millis;
        let half = [0; FIRST as usize / 2];
        stream.arrive(at(0), ID(), (FIRST / 2, &half, false), &mut budget).unwrap();
        stream.arrive(at(300), ID(), (0, &half, false), &mut budget).unwrap();
        let _ = stream.take(at(400), RTT, FIRST as usize, &mut budget);
        assert_eq!(stream.credit(), FIRST + 5 * FIRST / 2);
        for n in 1..5 {
            stream.arrive(at(400 + 100 * n), ID(), (n * FIRST, &[0; FIRST as usize], false), &mut budget).unwrap();
            let _ = stream.take(at(400 + 100 * n), RTT, FIRST as usize, &mut budget);
            stream.credit();
        }
        // An eighth of the 300 ms is forgotten: 4000 bytes in 400 ms are 3625 in 362.5 ms; five halves of them.
        assert_eq!(stream.window, 9062);
    }

    #[test]
    fn a_reader_that_takes_nothing_gets_no_credit() {
        let (mut stream, mut budget) = stream();
        stream.arrive(Instant::ZERO, ID(), (0, &[0; FIRST as usize], false), &mut budget).unwrap();
        assert!(!stream.take(Instant::from_millis(500), RTT, 0, &mut budget));
        assert_eq!(stream.credit(), FIRST);
        assert!(stream.take(Instant::from_millis(500), RTT, 500, &mut budget), "half of the window");
        // Five halves of 500 ahead of the 500 that are taken.
        assert_eq!(stream.credit(), 500 + 5 * 500 / 2);
    }

    /// Half of the first credit is there and is left. It is taken with what came later, which is all that counts.
    #[test]
    fn what_has_lain_there_for_a_second_does_not_widen_the_window() {
        let at = Instant::from_millis;
        for (pause, window) in [(999, FIRST * 5 / 2), (1000, FIRST)] {
            let (mut stream, mut budget) = stream();
            stream.arrive(at(0), ID(), (0, &[0; FIRST as usize], false), &mut budget).unwrap();
            assert!(!stream.has_stopped(at(999)) && stream.has_stopped(at(1000)));
            assert_eq!(stream.unread(), FIRST);
            let _ = stream.take(at(pause), RTT, FIRST as usize, &mut budget);
            assert_eq!(stream.window, window, "after {pause} ms");
            assert!(!stream.has_stopped(at(9000)), "it waits for more");
        }
    }

    /// The peer was told of 2500 more, and ends after 600 of them.
    #[test]
    fn what_lies_behind_the_end_is_promised_no_more() {
        let (mut stream, mut budget) = stream();
        round(&mut stream, &mut budget, Instant::ZERO);
        assert_eq!((stream.told(), budget.free()), (FIRST + 2500, 100_000 - 1500));
        stream.arrive(Instant::ZERO, ID(), (FIRST, &[0; 600], true), &mut budget).unwrap();
        assert_eq!(budget.free(), 100_000, "the first credit is kept for each stream anyway");
    }

    /// An eighth of a window of 80 kB is 10 kB: less than what a frame is worth.
    #[test]
    fn credit_is_told_in_steps() {
        let (mut stream, mut budget) = (Incoming::new(Instant::ZERO, 80_000), Budget::new(1 << 20));
        stream.arrive(Instant::ZERO, ID(), (0, &[0; 17_000], false), &mut budget).unwrap();
        assert!(!stream.take(Instant::ZERO, RTT, LEAST_TOLD as usize - 1, &mut budget));
        assert!(stream.take(Instant::ZERO, RTT, 1, &mut budget));
        assert_eq!(stream.credit(), LEAST_TOLD + 80_000);
        let (mut wide, mut budget) = (Incoming::new(Instant::ZERO, 160_000), Budget::new(1 << 20));
        wide.arrive(Instant::ZERO, ID(), (0, &[0; 20_000], false), &mut budget).unwrap();
        assert!(!wide.take(Instant::ZERO, RTT, 19_999, &mut budget) && wide.take(Instant::ZERO, RTT, 1, &mut budget));
    }
}
