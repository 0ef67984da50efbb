//! The half of a stream that arrives: puts pieces in order, and decides how far the peer may send.
//!
//! Credit follows what the reader takes, not what arrives: a reader that stops holds up its own stream and nothing else. The
//! window, which is how far the credit is ahead of the reader, is four times what the reader takes in a round trip: one is on
//! the way, one more while a lost piece is sent again on the slowest path, and credit is told when half of the window is
//! used. To the round trip counts how long pieces wait for those before them: the queue of a slow path delays them, of which
//! this end's own packets, which go the other way, know little. A window shrinks by no more than an eighth in each round trip,
//! for a reader that waits for a lost piece takes nothing either; never below the first credit; and no stream has more than
//! half of what the others leave.

use weftway_host::sending::RangeSet;
use weftway_path::{Bytes, Instant, Span};

use crate::budget::Budget;
use crate::error::ProtocolError;
use crate::id::{MAX, StreamId};
use crate::pages::Pages;

/// How many times what the reader takes in a round trip the credit is ahead of it.
const AHEAD: u64 = 4;
/// What waits longer waits for a path that was cut, and says nothing of the time after.
const MOST_WAITED: Span = Span::from_secs(1);

/// What arrives of a stream.
#[derive(Clone, Debug)]
pub struct Incoming {
    pages: Pages,
    /// What has arrived beyond `next`.
    held: RangeSet,
    /// Everything before it is taken by the reader.
    taken: u64,
    /// Everything before it has arrived.
    next: u64,
    /// The credit that the peer knows of, or will when a frame that was made arrives.
    edge: u64,
    /// How far the credit is to be ahead of the reader.
    window: u64,
    /// How far it may be: at least `window`, and whatever the peer was allowed before.
    promised: u64,
    /// What is promised to each stream.
    first: u64,
    /// Where the stream ends, once that is known.
    size: Option<u64>,
    /// When this round trip began, and what the reader had taken then.
    measured: (Instant, u64),
    /// When a piece arrived that waits for another one, and where it ends.
    waiting: Option<(Instant, u64)>,
    /// The longest that such a piece waited, lately.
    waited: Span,
}

impl Incoming {
    /// Of a stream that begins now with a credit of `first`, which both ends know.
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
        self.measure_wait(now, end);
        if !budget.count_gaps(gaps, self.held.iter().len()) {
            return Err(ProtocolError::Gaps);
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

    /// Whether the reader has taken everything that there will ever be.
    pub fn has_ended(&self) -> bool {
        self.size == Some(self.taken)
    }

    /// The reader takes so many bytes, of those that [`Incoming::parts`] shows: whether the peer is to get credit.
    pub fn take(&mut self, now: Instant, rtt: Span, bytes: usize, budget: &mut Budget) -> bool {
        let (since, before) = self.measured;
        let (span, rtt) = (now.since(since), rtt + self.waited);
        if span >= rtt && !span.is_zero() {
            let in_rtt = Bytes::new(self.taken - before).mul_div(rtt.as_nanos(), span.as_nanos()).get();
            self.window = in_rtt.saturating_mul(AHEAD).max(self.window - self.window / 8);
            self.measured = (now, self.taken);
            self.waited -= self.waited / 8;
        }
        self.taken += (bytes as u64).min(self.next - self.taken);
        self.pages.forget_below(self.taken, self.taken == self.next && self.held.is_empty());
        self.set_window(budget);
        self.is_credit_due()
    }

    /// The window is at least [`AHEAD`] times what was taken in this round trip so far, and as much of that as memory allows.
    fn set_window(&mut self, budget: &mut Budget) {
        let most = self.first + budget.offer(self.promised - self.first);
        self.window = self.window.max(AHEAD * (self.taken - self.measured.1)).min(most).max(self.first);
        // What was promised stays so until the reader is past it.
        let needed = self.window.max(self.edge - self.taken);
        if needed < self.promised {
            budget.give(self.promised - needed);
            self.promised = needed;
        } else if budget.take(needed - self.promised) {
            self.promised = needed;
        }
    }

    /// Where the credit could end.
    pub fn next_edge(&self) -> u64 {
        (self.taken + self.window.min(self.promised)).min(MAX).max(self.edge)
    }

    /// Whether half of the window would be new.
    fn is_credit_due(&self) -> bool {
        self.size.is_none() && self.next_edge() - self.edge >= self.window / 2
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
    }

    /// How many bytes of memory it takes.
    pub fn memory(&self) -> usize {
        self.pages.memory()
    }
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
        stream.arrive(Instant::ZERO, ID(), (stream.next, &bytes, false), budget).unwrap();
        while !stream.front().is_empty() {
            let _ = stream.take(now, RTT, stream.front().len(), budget);
        }
        stream.credit();
        bytes.len() as u64
    }

    #[test]
    fn the_window_grows_while_it_is_what_limits_and_half_of_the_memory_is_its_end() {
        let (mut stream, mut budget) = stream();
        let rounds: Vec<u64> = (0..12).map(|n| round(&mut stream, &mut budget, Instant::ZERO + RTT * n)).collect();
        assert_eq!(rounds[..3], [1000, 4000, 16_000]);
        // Half of the 100 000 but for an eighth, beside the first 1000.
        assert_eq!((stream.window, budget.free()), (44_750, 56_250));
        // A reader that takes little gives it back.
        for n in 12..60 {
            let bytes = 100.min(stream.edge - stream.next);
            stream.arrive(Instant::ZERO, ID(), (stream.next, &vec![0; bytes as usize], false), &mut budget).unwrap();
            let _ = stream.take(Instant::ZERO + RTT * n, RTT, stream.front().len(), &mut budget);
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
        assert_eq!(stream.credit(), FIRST + 4 * FIRST);
        for n in 1..5 {
            stream.arrive(at(400 + 100 * n), ID(), (n * FIRST, &[0; FIRST as usize], false), &mut budget).unwrap();
            let _ = stream.take(at(400 + 100 * n), RTT, FIRST as usize, &mut budget);
        }
        // An eighth of the 300 ms is forgotten: 4000 bytes in 400 ms are 3625 in 362.5 ms, and the window has four times as many.
        assert_eq!(stream.window, 14_500);
    }

    #[test]
    fn a_reader_that_takes_nothing_gets_no_credit() {
        let (mut stream, mut budget) = stream();
        stream.arrive(Instant::ZERO, ID(), (0, &[0; FIRST as usize], false), &mut budget).unwrap();
        assert!(!stream.take(Instant::from_millis(500), RTT, 0, &mut budget));
        assert_eq!(stream.credit(), FIRST);
        assert!(stream.take(Instant::from_millis(500), RTT, 500, &mut budget), "half of the window");
        // Four times 500 ahead of the 500 that are taken.
        assert_eq!(stream.credit(), 500 + 4 * 500);
    }
}
