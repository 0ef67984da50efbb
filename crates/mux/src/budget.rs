//! What this end has promised to keep for the peer, over all streams: bytes, and gaps between what has arrived.

use crate::limits::MOST_FRAMES;

/// What is left to promise.
#[derive(Clone, Debug)]
pub struct Budget {
    free: u64,
    gaps: usize,
}

impl Budget {
    /// With so many bytes to promise.
    pub fn new(free: u64) -> Self {
        Self { free, gaps: 0 }
    }

    /// What a stream that holds `held` may hold: half of what the others leave. So there is always something for the next.
    pub fn offer(&self, held: u64) -> u64 {
        (self.free + held) / 2
    }

    /// Promises so many bytes, if they are free.
    #[must_use]
    pub fn take(&mut self, bytes: u64) -> bool {
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
        let mut budget = Budget::new(100);
        assert!(!budget.take(101));
        assert!(budget.take(60) && !budget.take(41));
        assert_eq!((budget.offer(0), budget.offer(60)), (20, 50));
        budget.give(60);
        assert_eq!(budget.free(), 100);
    }

    #[test]
    fn gaps_are_counted_over_all_streams() {
        let mut budget = Budget::new(0);
        assert!(budget.count_gaps(0, MOST_FRAMES) && !budget.count_gaps(0, 1));
        assert!(budget.count_gaps(2, 0));
    }
}
