//! Datagrams that wait until their time has come, or until those before them are here, in the order in which they came at
//! the other end.

use std::collections::BTreeMap;

use bytes::Bytes;
use weftway_path::Offset;

/// The most bytes that wait; a few more than 300 Mbit/s bring in 200 ms. Then the oldest are given before their time.
pub const MOST: usize = 8 << 20;
/// Place of a datagram that waits for its time only.
pub const NEVER: Offset = Offset::new(u64::MAX);
/// Memory that a datagram takes beside its bytes.
const COST: usize = 96;

/// A datagram that waits.
#[derive(Debug)]
struct Held {
    /// It is given once everything before this place of the other end's sequence has arrived, or will never.
    place: Offset,
    /// It is given when the other end's clock shows this at the latest.
    due: u64,
    source: u16,
    data: Bytes,
}

/// Datagrams that wait.
#[derive(Debug, Default)]
pub struct Hold {
    /// By the clock of their arrival at the other end, and those of the same by their arrival here. None is due after the
    /// next one.
    waiting: BTreeMap<(u64, u64), Held>,
    memory: usize,
    next: u64,
}

impl Hold {
    /// Adds a datagram of `source`, which came at the other end when its clock showed `came`. It waits until that shows
    /// `due`, or everything before `place` is here.
    pub fn push(&mut self, came: u64, (due, place): (u64, Offset), source: u16, data: Bytes) {
        self.memory += data.len() + COST;
        let key = (came, self.next);
        let due = self.waiting.range(key..).next().map_or(due, |(_, next)| due.min(next.due));
        for (_, earlier) in self.waiting.range_mut(..key).rev().take_while(|(_, earlier)| earlier.due > due) {
            earlier.due = due;
        }
        self.waiting.insert(key, Held { place, due, source, data });
        self.next += 1;
    }

    /// The next one whose time has come when the other end's clock shows `theirs`, or before which everything to
    /// `arrived` is here, or for which there is no room.
    pub fn pop(&mut self, theirs: u64, arrived: Offset) -> Option<(u16, Bytes)> {
        let may_go = |held: &Held| held.due <= theirs || held.place < arrived;
        let first = self.waiting.first_entry().filter(|first| may_go(first.get()) || self.memory > MOST)?;
        let Held { source, data, .. } = first.remove();
        self.memory -= data.len() + COST;
        Some((source, data))
    }

    /// Tells whether more wait than may.
    pub fn is_full(&self) -> bool {
        self.memory > MOST
    }

    /// Returns true if none waits.
    pub fn is_empty(&self) -> bool {
        self.waiting.is_empty()
    }

    /// Time at which the first of them is due, by the other end's clock.
    pub fn due(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(_, held)| held.due)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn one(number: usize) -> Bytes {
        Bytes::from(vec![number as u8; 3])
    }

    #[test]
    fn no_more_wait_than_may() {
        let mut hold = Hold::default();
        let count = MOST / (1000 + COST) + 10;
        for number in 0..count {
            hold.push(number as u64, (number as u64 + 1, NEVER), 0, vec![0; 1000].into());
        }
        assert!(hold.is_full());
        let given: Vec<_> = std::iter::from_fn(|| hold.pop(0, Offset::ZERO)).collect();
        assert!(!hold.is_full() && (10..12).contains(&given.len()), "{}", given.len());
        assert_eq!(hold.due(), Some(given.len() as u64 + 1));
    }

    /// The datagrams at 10 and 30 are missing: those at 20 and 40 wait for them, each for its time.
    #[test]
    fn what_overtook_others_waits_for_them() {
        let mut hold = Hold::default();
        hold.push(2, (100, Offset::new(20)), 2, one(2));
        hold.push(4, (110, Offset::new(40)), 4, one(4));
        let mut pop = |theirs, arrived| hold.pop(theirs, Offset::new(arrived)).map(|(source, _)| source);
        assert_eq!([pop(99, 10), pop(99, 20)], [None; 2]);
        assert_eq!([pop(99, 30), pop(99, 30)], [Some(2), None], "the first has come");
        assert_eq!([pop(109, 30), pop(110, 30)], [None, Some(4)]);
    }

    /// A datagram that comes late holds none up that waits already.
    #[test]
    fn none_waits_longer_for_one_that_came_before_it() {
        let mut hold = Hold::default();
        hold.push(4, (110, Offset::new(40)), 4, one(4));
        hold.push(2, (150, Offset::new(20)), 2, one(2));
        hold.push(1, (140, Offset::new(10)), 1, one(1));
        assert_eq!(hold.due(), Some(110));
        let given: Vec<_> = std::iter::from_fn(|| hold.pop(110, Offset::ZERO)).map(|(source, _)| source).collect();
        assert_eq!(given, [1, 2, 4]);
    }

    proptest! {
        #[test]
        fn they_are_given_in_order_and_not_before_their_time(
            came in prop::collection::vec(0..100u64, 0..60), steps in prop::collection::vec(0..30u64, 0..10)
        ) {
            let (mut hold, mut until, mut given) = (Hold::default(), 0, Vec::new());
            for (number, &at) in (0u16..).zip(&came) {
                hold.push(at, (at, NEVER), number, one(at as usize));
            }
            for step in steps.into_iter().chain([100]) {
                until += step;
                while let Some((number, data)) = hold.pop(until, Offset::ZERO) {
                    prop_assert!(u64::from(data[0]) <= until && came[usize::from(number)] == u64::from(data[0]));
                    given.push((u64::from(data[0]), number));
                }
                prop_assert!(hold.due().is_none_or(|due| due > until));
            }
            prop_assert!(given.is_sorted() && given.len() == came.len() && hold.memory == 0);
        }
    }
}
