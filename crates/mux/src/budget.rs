//! Promises of this end to keep for the peer, over all streams: bytes, and gaps between those that have arrived.
//!
//! Credit cannot be taken back (RFC 9000, section 4.1): the promise to a reader that was fast and stops stays. So each
//! size of promise has a part of the memory that larger ones leave alone:
//!
//! | part | for |
//! |---|---|
//! | an eighth of all | streams that begin: else neither a connection nor datagrams could begin |
//! | of the rest, a half | promises up to [`SMALL`] |
//! | a quarter | those up to [`MEDIUM`], which fill most links |
//! | a quarter | larger ones, as a fast link over a long way needs |
//!
//! Of each part a stream may have two thirds of what the others leave, so there is always something for the next.

use crate::limits::MOST_FRAMES;

/// Beside their first credits, some 400 streams may have as much in 256 MiB.
pub const SMALL: u64 = 256 << 10;
/// 76 Mbit/s over 100 ms, or 300 Mbit/s over 25 ms.
const MEDIUM: u64 = 1 << 20;

/// Bytes that are left to promise.
#[derive(Clone, Debug)]
pub struct Budget {
    free: u64,
    /// Bytes of them for streams that begin.
    kept: u64,
    /// Bytes for those that are open.
    shared: u64,
    gaps: usize,
}

impl Budget {
    /// With so many bytes to promise.
    pub fn new(free: u64) -> Self {
        let kept = free / 8;
        Self { free, kept, shared: free - kept, gaps: 0 }
    }

    /// Bytes that a stream may hold which holds `held` now.
    pub fn offer(&self, held: u64) -> u64 {
        let rest = self.free.saturating_sub(self.kept) + held;
        let of_part = |above: u64| rest.saturating_sub(above) / 3 * 2;
        let small = of_part(0).min(SMALL);
        let medium = of_part(self.shared / 2).min(MEDIUM);
        let large = of_part(self.shared - self.shared / 4);
        small.max(medium).max(large)
    }

    /// Promises so many bytes to a stream that is open, if they are free.
    #[must_use]
    pub fn take(&mut self, bytes: u64) -> bool {
        bytes == 0 || self.free.saturating_sub(self.kept) >= bytes && self.take_slot(bytes)
    }

    /// Promises so many bytes to a stream that begins, if they are free.
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

    /// Bytes that are not promised.
    pub fn free(&self) -> u64 {
        self.free
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    #[test]
    fn no_more_is_promised_than_there_is() {
        let mut budget = Budget::new(160);
        // 20 are for streams that begin.
        assert!(!budget.take(141));
        assert!(budget.take(100) && !budget.take(41));
        assert_eq!((budget.offer(0), budget.offer(100)), (26, 92)); // of 40, and of 140
        assert!(budget.take(40) && !budget.take(1) && budget.take(0) && budget.take_slot(20) && !budget.take_slot(1));
        assert_eq!((budget.offer(0), budget.offer(40)), (0, 26));
        budget.give(160);
        assert_eq!(budget.free(), 160);
    }

    /// 864 MiB: 108 are for streams that begin; of the rest 378 for small promises, 189 for medium ones, 189 for large
    /// ones.
    #[test]
    fn large_promises_leave_what_smaller_ones_need() {
        let mut budget = Budget::new(864 * MIB);
        let offers: Vec<u64> = std::iter::from_fn(|| {
            let offer = budget.offer(0);
            assert!(budget.take(offer));
            (offer >= SMALL).then_some(offer)
        })
        .collect();
        // Two thirds of 189, 63 and 21. Of 7 two thirds are left, and of what is then left.
        assert_eq!(offers[..3], [126 * MIB, 42 * MIB, 14 * MIB]);
        let of_size = |size| offers.iter().filter(|&&offer| offer == size).count();
        assert_eq!((of_size(MEDIUM), of_size(SMALL)), (189, 378 * 4));
        assert!(budget.free() >= 108 * MIB && budget.take_slot(108 * MIB));
    }

    #[test]
    fn gaps_are_counted_over_all_streams() {
        let mut budget = Budget::new(0);
        assert!(budget.count_gaps(0, MOST_FRAMES) && !budget.count_gaps(0, 1));
        assert!(budget.count_gaps(2, 0));
    }
}
