//! Which bytes of a connection's data are meant, as disjoint ranges in order. Few at a time: the
//! memory of the most there were is kept.

use weftway_path::{Bytes, Offset};

/// Room for so many ranges from the beginning.
const ROOM: usize = 256;

/// A set of bytes.
#[derive(Clone)]
pub(crate) struct Ranges(Vec<(Offset, Offset)>);

impl Ranges {
    /// No byte.
    pub(crate) fn new() -> Self {
        Self(Vec::with_capacity(ROOM))
    }

    /// Adds the bytes from `start` to before `end`.
    pub(crate) fn add(&mut self, start: Offset, end: Offset) {
        let first = self.0.partition_point(|range| range.1 < start);
        let after = self.0.partition_point(|range| range.0 <= end);
        if first == after {
            self.0.insert(first, (start, end));
            return;
        }
        self.0[first] = (start.min(self.0[first].0), end.max(self.0[after - 1].1));
        self.0.drain(first + 1..after);
    }

    /// Drops everything before `at`.
    pub(crate) fn drop_before(&mut self, at: Offset) {
        let gone = self.0.partition_point(|range| range.1 <= at);
        self.0.drain(..gone);
        if let Some(first) = self.0.first_mut() {
            first.0 = first.0.max(at);
        }
    }

    /// The end of the range that begins at `at` or before; `at` without one.
    pub(crate) fn reaches(&self, at: Offset) -> Offset {
        self.0.first().filter(|first| first.0 <= at).map_or(at, |first| first.1.max(at))
    }

    /// Returns the number of bytes.
    pub(crate) fn total(&self) -> Bytes {
        self.0.iter().fold(Bytes::ZERO, |sum, range| sum + range.1.since(range.0))
    }

    /// The place with `gap` bytes between it and `from` that are not in the set.
    pub(crate) fn beyond(&self, from: Offset, gap: Bytes) -> Offset {
        let mut place = from + gap;
        for (start, end) in self.0.iter().filter(|range| range.1 > from) {
            if *start > place {
                break;
            }
            place += end.since((*start).max(from));
        }
        place
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ranges(pairs: &[(u64, u64)]) -> Ranges {
        let mut ranges = Ranges::new();
        pairs.iter().for_each(|(start, end)| ranges.add(Offset::new(*start), Offset::new(*end)));
        ranges
    }

    #[test]
    fn ranges_grow_together_and_are_counted_once() {
        let mut set = ranges(&[(10, 20), (40, 50), (15, 25), (30, 40), (25, 30)]);
        assert_eq!(set.total(), Bytes::new(40));
        set.drop_before(Offset::new(35));
        assert_eq!((set.total(), set.reaches(Offset::new(35))), (Bytes::new(15), Offset::new(50)));
        assert_eq!(ranges(&[(10, 20)]).reaches(Offset::new(5)), Offset::new(5));
    }

    #[test]
    fn what_is_in_the_set_is_no_part_of_a_gap() {
        let set = ranges(&[(10, 20), (30, 40), (90, 99)]);
        // 10 bytes before 10, 10 between 20 and 30: the next free byte is 40.
        assert_eq!(set.beyond(Offset::ZERO, Bytes::new(20)), Offset::new(40));
        assert_eq!(set.beyond(Offset::new(15), Bytes::new(5)), Offset::new(25));
        assert_eq!(set.beyond(Offset::ZERO, Bytes::new(9)), Offset::new(9));
    }

    #[test]
    fn ranges_that_touch_are_one_and_one_that_ends_where_it_is_dropped_is_gone() {
        // 10 to 20, 20 to 30 from behind, 0 to 10 from before.
        let mut set = ranges(&[(10, 20), (20, 30), (0, 10)]);
        assert_eq!((set.0.len(), set.total(), set.reaches(Offset::ZERO)), (1, Bytes::new(30), Offset::new(30)));
        set.drop_before(Offset::new(30));
        assert_eq!((set.0.len(), set.total()), (0, Bytes::ZERO));
        // What lies before the place is no part of the gap either way.
        assert_eq!(ranges(&[(10, 20)]).beyond(Offset::new(20), Bytes::new(5)), Offset::new(25));
    }
}
