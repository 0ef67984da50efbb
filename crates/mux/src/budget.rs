//! What this end has promised to keep for the peer, over all streams: bytes, and gaps between what has arrived.
//!
//! An eighth is for streams that begin, and is promised to none that is open. Else some fifty readers that were fast and stopped would
//! hold everything, and neither a connection nor datagrams could begin.

use crate::limits::MOST_FRAMES;

/// What is left to promise.
#[derive(Clone, Debug)]
pub struct Budget {
    free: u64,
    /// How much of it is for streams that begin.
    kept: u64,
    gaps: usize,
}

impl Budget {
    /// With so many bytes to promise.
    pub fn new(free: u64) -> Self {
        Self { free, kept: free / 8, gaps: 0 }
    }

    /// What a stream that holds `held` may hold: half of what the others leave. So there is always something for the next.
    pub fn offer(&self, held: u64) -> u64 {
        (self.free.saturating_sub(self.kept) + held) / 2
    }

    /// Promises so many bytes to a stream that is open, if they are free.
    #[must_use]
    pub fn take(&mut self, bytes: u64) -> bool {
        bytes == 0 || self.free.saturating_sub(self.kept) >= bytes && self.take_slot(bytes)
    }

    /// The same to a stream that begins.
    #[must_use]
    pub fn take_slot(&mut self, bytes: u64) -> bool {
        let rest = self.free.checked_sub(bytes);
        self.free = rest.unwrap_or(self.free);
        rest.is_some()
    }

    /// A promise of so many bytes is over.
    pub fn give(&mut self, bytes: u64) {
        self.free += bytes;
    }

    /// A stream that had `before` gaps has `now`: whether so many are kept.
    #[must_use]
    pub fn count_gaps(&mut self, before: usize, now: usize) -> bool {
        self.gaps = self.gaps - before + now;
        self.gaps <= MOST_FRAMES
    }

    /// How many bytes are not promised.
    pub fn free(&self) -> u64 {
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_more_is_promised_than_there_is() {
        let mut budget = Budget::new(160);
        // 20 are for streams that begin.
        assert!(!budget.take(141));
        assert!(budget.take(100) && !budget.take(41));
        assert_eq!((budget.offer(0), budget.offer(100)), (20, 70));
        assert!(budget.take(40) && !budget.take(1) && budget.take(0) && budget.take_slot(20) && !budget.take_slot(1));
        assert_eq!((budget.offer(0), budget.offer(40)), (0, 20));
        budget.give(160);
        assert_eq!(budget.free(), 160);
    }

    #[test]
    fn gaps_are_counted_over_all_streams() {
        let mut budget = Budget::new(0);
        assert!(budget.count_gaps(0, MOST_FRAMES) && !budget.count_gaps(0, 1));
        assert!(budget.count_gaps(2, 0));
    }
}
