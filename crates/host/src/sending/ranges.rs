//! A set of numbers as ascending half-open ranges: what a receiver holds out of order, what a
//! sender knows to have arrived above its cumulative acknowledgement.

use std::collections::VecDeque;

/// A set of `u64`. Ranges neither touch nor overlap.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RangeSet {
    ranges: VecDeque<(u64, u64)>,
    total: u64,
}

impl RangeSet {
    /// Whether nothing is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ranges.is_empty()
    }

    /// How many numbers are in the set.
    #[inline]
    pub fn total(&self) -> u64 {
        self.total
    }

    /// The lowest range.
    #[inline]
    pub fn first(&self) -> Option<(u64, u64)> {
        self.ranges.front().copied()
    }

    /// The highest range.
    #[inline]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.ranges.back().copied()
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator {
        self.ranges.iter().copied()
    }

    /// The range that holds `n`.
    pub fn range_of(&self, n: u64) -> Option<(u64, u64)> {
        let at = self.first_to_end_at(n + 1);
        self.ranges.get(at).copied().filter(|&(lo, _)| lo <= n)
    }

    /// Where the first range is that ends at `n` or after it. What is asked for is mostly high: the search begins at the
    /// highest range and doubles its step.
    #[inline]
    fn first_to_end_at(&self, n: u64) -> usize {
        let count = self.ranges.len();
        let (mut low, mut high, mut step) = (0, count, 1);
        while step <= count {
            if self.ranges[count - step].1 < n {
                low = count - step + 1;
                break;
            }
            high = count - step;
            step *= 2;
        }
        while low < high {
            let middle = low + (high - low) / 2;
            if self.ranges[middle].1 < n { low = middle + 1 } else { high = middle }
        }
        low
    }

    /// Whether one range holds all of `[lo, hi)`, looking from the `passed`-th highest range downwards. A caller with
    /// several parts of descending order keeps `passed` between them, and looks at each range once.
    #[inline]
    pub fn holds(&self, lo: u64, hi: u64, passed: &mut usize) -> bool {
        let count = self.ranges.len();
        while *passed < count {
            let range = self.ranges[count - 1 - *passed];
            if range.0 <= lo {
                return hi <= range.1;
            }
            *passed += 1;
        }
        false
    }

    /// Adds `[lo, hi)` and calls `fresh` with each part that was not there, ascending.
    #[inline]
    pub fn insert(&mut self, lo: u64, hi: u64, mut fresh: impl FnMut(u64, u64)) {
        if lo >= hi {
            return;
        }
        match self.ranges.back_mut() {
            // Nearly always the highest range grows.
            Some(last) if last.0 <= lo && lo <= last.1 => {
                if last.1 < hi {
                    let from = core::mem::replace(&mut last.1, hi);
                    self.total += hi - from;
                    fresh(from, hi);
                }
            }
            Some(last) if lo < last.0 => self.merge(lo, hi, fresh),
            _ => {
                self.ranges.push_back((lo, hi));
                self.total += hi - lo;
                fresh(lo, hi);
            }
        }
    }

    /// Adds a range that touches or precedes ranges that are there.
    #[inline(never)]
    fn merge(&mut self, lo: u64, hi: u64, mut fresh: impl FnMut(u64, u64)) {
        let first = self.first_to_end_at(lo);
        if self.ranges.get(first).is_some_and(|range| range.0 <= lo && hi <= range.1) {
            return;
        }
        let mut beyond = first;
        let mut from = lo;
        while let Some(&(start, end)) = self.ranges.get(beyond).filter(|range| range.0 <= hi) {
            if from < start {
                self.total += start - from;
                fresh(from, start);
            }
            from = from.max(end);
            beyond += 1;
        }
        if from < hi {
            self.total += hi - from;
            fresh(from, hi);
        }
        match beyond - first {
            0 => self.ranges.insert(first, (lo, hi)),
            joined => {
                let last = self.ranges[beyond - 1].1;
                let range = &mut self.ranges[first];
                *range = (lo.min(range.0), hi.max(last));
                if joined == 2 {
                    self.ranges.remove(first + 1);
                } else if joined > 2 {
                    self.ranges.drain(first + 1..beyond);
                }
            }
        }
    }

    /// Removes everything below `n`.
    #[inline]
    pub fn remove_below(&mut self, n: u64) {
        while let Some(first) = self.ranges.front_mut() {
            if first.1 <= n {
                self.total -= first.1 - first.0;
                self.ranges.pop_front();
            } else {
                let cut = n.saturating_sub(first.0);
                self.total -= cut;
                first.0 += cut;
                return;
            }
        }
    }

    /// Removes and returns the lowest range if it starts at or below `n`.
    #[inline]
    pub fn take_from(&mut self, n: u64) -> Option<(u64, u64)> {
        let first = self.first().filter(|range| range.0 <= n)?;
        self.total -= first.1 - first.0;
        self.ranges.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn new_parts_are_reported_once() {
        let mut set = RangeSet::default();
        for (lo, hi) in [(10, 20), (30, 40), (50, 60)] {
            set.insert(lo, hi, |_, _| ());
        }
        let mut fresh = Vec::new();
        set.insert(15, 55, |lo, hi| fresh.push((lo, hi)));
        assert_eq!(fresh, [(20, 30), (40, 50)]);
        assert_eq!(set.iter().collect::<Vec<_>>(), [(10, 60)]);
    }

    proptest! {
        #[test]
        fn agrees_with_a_plain_set(ops in prop::collection::vec((0u64..64, 1u64..8, any::<bool>()), 1..60)) {
            let mut set = RangeSet::default();
            let mut plain = std::collections::BTreeSet::new();
            for (lo, len, remove) in ops {
                if remove {
                    set.remove_below(lo);
                    plain.retain(|&n| n >= lo);
                } else {
                    let mut fresh = 0;
                    let held = set.holds(lo, lo + len, &mut 0);
                    prop_assert_eq!(held, (lo..lo + len).all(|n| plain.contains(&n)));
                    set.insert(lo, lo + len, |a, b| fresh += b - a);
                    let added = (lo..lo + len).filter(|&n| plain.insert(n)).count() as u64;
                    prop_assert_eq!(fresh, added);
                }
                prop_assert_eq!(set.total(), plain.len() as u64);
                prop_assert!((0..80).all(|n| set.range_of(n).is_some() == plain.contains(&n)));
                prop_assert!(set.iter().zip(set.iter().skip(1)).all(|(a, b)| a.1 < b.0));
            }
        }
    }
}
