//! A set of numbers as ascending half-open ranges: what a receiver holds out of order, what a
//! sender knows to have arrived above its cumulative acknowledgement.

/// A set of `u64`. Ranges neither touch nor overlap.
#[derive(Clone, Debug, Default)]
pub struct RangeSet {
    /// The ranges, after those that are gone.
    ranges: Vec<(u64, u64)>,
    /// Number of ranges that are gone. They are cleared away when they are half of all.
    gone: usize,
    total: u64,
}

impl RangeSet {
    /// Returns true if nothing is in the set.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.gone == self.ranges.len()
    }

    /// Count of the numbers in the set.
    #[inline]
    pub fn total(&self) -> u64 {
        self.total
    }

    #[inline]
    fn ranges(&self) -> &[(u64, u64)] {
        &self.ranges[self.gone..]
    }

    /// The lowest range.
    #[inline]
    pub fn first(&self) -> Option<(u64, u64)> {
        self.ranges.get(self.gone).copied()
    }

    /// The highest range.
    #[inline]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.ranges().last().copied()
    }

    /// The ranges, ascending.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = (u64, u64)> + ExactSizeIterator {
        self.ranges().iter().copied()
    }

    /// The range that holds `n`.
    pub fn range_of(&self, n: u64) -> Option<(u64, u64)> {
        self.ranges.get(self.first_to_end_at(n + 1)).copied().filter(|&(lo, _)| lo <= n)
    }

    /// Place of the first range that ends at `n` or after it. What is asked for is mostly high: the search begins at
    /// the highest range, and takes steps four times as long each.
    #[inline]
    fn first_to_end_at(&self, n: u64) -> usize {
        let ranges = self.ranges();
        let (mut low, mut high, mut step) = (0, ranges.len(), 1);
        while step <= ranges.len() {
            let at = ranges.len() - step;
            if ranges[at].1 < n {
                low = at + 1;
                break;
            }
            high = at;
            step *= 4;
        }
        self.gone + low + ranges[low..high].partition_point(|range| range.1 < n)
    }

    /// The lowest range is gone.
    #[inline]
    fn forget_first(&mut self) {
        self.gone += 1;
        if self.gone * 2 >= self.ranges.len() {
            self.ranges.drain(..self.gone);
            self.gone = 0;
        }
    }

    /// Returns true if one range holds all of `[lo, hi)`, looking from the `passed`-th highest range downwards. A
    /// caller with several parts of descending order keeps `passed` between them, and looks at each range once.
    #[inline]
    pub fn holds(&self, lo: u64, hi: u64, passed: &mut usize) -> bool {
        let ranges = self.ranges();
        while *passed < ranges.len() {
            let range = ranges[ranges.len() - 1 - *passed];
            if range.0 <= lo {
                return hi <= range.1;
            }
            *passed += 1;
        }
        false
    }

    /// Adds `[lo, hi)`, which is not empty, if the highest range ends where it begins: whether it does.
    #[inline]
    pub fn extend(&mut self, lo: u64, hi: u64) -> bool {
        let count = self.ranges.len();
        let Some(last) = self.ranges.last_mut().filter(|last| last.1 == lo && self.gone < count) else { return false };
        last.1 = hi;
        self.total += hi - lo;
        true
    }

    /// Adds `[lo, hi)` and calls `fresh` with each part that was not there, ascending.
    #[inline]
    pub fn insert(&mut self, lo: u64, hi: u64, mut fresh: impl FnMut(u64, u64)) {
        if lo >= hi {
            return;
        }
        let count = self.ranges.len();
        match self.ranges.last_mut().filter(|_| self.gone < count) {
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
                self.ranges.push((lo, hi));
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
        while let Some(first) = self.ranges.get_mut(self.gone) {
            if first.1 <= n {
                self.total -= first.1 - first.0;
                self.forget_first();
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
        self.forget_first();
        Some(first)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn the_highest_range_grows_where_it_ends() {
        let mut set = RangeSet::default();
        assert!(!set.extend(0, 5), "there is none");
        set.insert(10, 20, |_, _| ());
        set.insert(30, 40, |_, _| ());
        let grown = [(20, 25), (39, 41), (41, 45), (40, 45)].map(|(lo, hi)| set.extend(lo, hi));
        assert_eq!(grown, [false, false, false, true]);
        assert_eq!((set.iter().collect::<Vec<_>>(), set.total()), (vec![(10, 20), (30, 45)], 25));
    }

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
