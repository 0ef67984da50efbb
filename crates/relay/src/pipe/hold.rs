//! Datagrams that wait until their time has come, in the order in which they came at the other end.

use std::collections::BTreeMap;

use bytes::Bytes;

/// The most bytes that wait; a few more than 300 Mbit/s bring in 200 ms. Then the oldest are given before their time.
pub const MOST: usize = 8 << 20;
/// Memory that a datagram takes beside its bytes.
const COST: usize = 96;

/// Datagrams that wait.
#[derive(Debug, Default)]
pub struct Hold {
    /// By the clock of their arrival at the other end, and those of the same by their arrival here.
    waiting: BTreeMap<(u64, u64), (u16, Bytes)>,
    memory: usize,
    next: u64,
}

impl Hold {
    /// Adds a datagram of `source`, which came at the other end when its clock showed `came`.
    pub fn push(&mut self, came: u64, source: u16, data: Bytes) {
        self.memory += data.len() + COST;
        self.waiting.insert((came, self.next), (source, data));
        self.next += 1;
    }

    /// The next of those that came until the other end's clock showed `until`, or for which there is no room.
    pub fn pop(&mut self, until: u64) -> Option<(u16, Bytes)> {
        let first = self.waiting.first_entry().filter(|first| first.key().0 <= until || self.memory > MOST)?;
        let (source, data) = first.remove();
        self.memory -= data.len() + COST;
        Some((source, data))
    }

    /// Tells whether more wait than may.
    pub fn is_full(&self) -> bool {
        self.memory > MOST
    }

    /// Time at which the first of them came, by the other end's clock.
    pub fn first(&self) -> Option<u64> {
        self.waiting.first_key_value().map(|(&(came, _), _)| came)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn no_more_wait_than_may() {
        let mut hold = Hold::default();
        let count = MOST / (1000 + COST) + 10;
        for number in 0..count {
            hold.push(number as u64, 0, vec![0; 1000].into());
        }
        assert!(hold.is_full());
        let given: Vec<_> = std::iter::from_fn(|| hold.pop(0)).collect();
        assert!(!hold.is_full() && (10..12).contains(&given.len()), "{}", given.len());
        assert_eq!(hold.first(), Some(given.len() as u64));
    }

    proptest! {
        #[test]
        fn they_are_given_in_order_and_not_before_their_time(
            came in prop::collection::vec(0..100u64, 0..60), steps in prop::collection::vec(0..30u64, 0..10)
        ) {
            let (mut hold, mut until, mut given) = (Hold::default(), 0, Vec::new());
            for (number, &at) in (0u16..).zip(&came) {
                hold.push(at, number, Bytes::from(vec![at as u8; 3]));
            }
            for step in steps.into_iter().chain([100]) {
                until += step;
                while let Some((number, data)) = hold.pop(until) {
                    prop_assert!(u64::from(data[0]) <= until && came[usize::from(number)] == u64::from(data[0]));
                    given.push((u64::from(data[0]), number));
                }
                prop_assert!(hold.first().is_none_or(|first| first > until));
            }
            prop_assert!(given.is_sorted() && given.len() == came.len() && hold.memory == 0);
        }
    }
}
