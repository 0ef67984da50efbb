//! Entries that have something to do: at once, or at a time.

use std::collections::{BTreeSet, HashMap, HashSet, VecDeque};

use weftway_path::Instant;

/// Entries that have something to do now, each once, in the order in which they came.
#[derive(Debug, Default)]
pub struct RunQueue {
    order: VecDeque<usize>,
    members: HashSet<usize>,
}

impl RunQueue {
    /// `key` has something to do.
    pub fn push(&mut self, key: usize) {
        if self.members.insert(key) {
            self.order.push_back(key);
        }
    }

    /// The next one.
    pub fn pop(&mut self) -> Option<usize> {
        let key = self.order.pop_front()?;
        self.members.remove(&key);
        Some(key)
    }

    /// There is no `key` any more.
    pub fn remove(&mut self, key: usize) {
        if self.members.remove(&key) {
            self.order.retain(|&other| other != key);
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.order.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.order.is_empty()
    }
}

/// Entries that have something to do at a time, each at one.
#[derive(Debug, Default)]
pub struct Timers {
    by_time: BTreeSet<(Instant, usize)>,
    by_key: HashMap<usize, Instant>,
}

impl Timers {
    /// `key` has something to do at `at` and no other time.
    pub fn set(&mut self, key: usize, at: Instant) {
        let before = if at.is_never() { self.by_key.remove(&key) } else { self.by_key.insert(key, at) };
        if before == Some(at) {
            return;
        }
        before.map(|before| self.by_time.remove(&(before, key)));
        if !at.is_never() {
            self.by_time.insert((at, key));
        }
    }

    /// Instant of the first of them.
    pub fn next(&self) -> Instant {
        self.by_time.first().map_or(Instant::NEVER, |&(at, _)| at)
    }

    /// The first one whose time has come: it has none any more.
    pub fn pop(&mut self, now: Instant) -> Option<usize> {
        let &(_, key) = self.by_time.first().filter(|&&(at, _)| at <= now)?;
        self.set(key, Instant::NEVER);
        Some(key)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_is_in_the_queue_once_and_gone_when_it_is_removed() {
        let mut queue = RunQueue::default();
        [3, 1, 3, 2].into_iter().for_each(|key| queue.push(key));
        queue.remove(1);
        assert_eq!(queue.len(), 2);
        assert_eq!([queue.pop(), queue.pop(), queue.pop()], [Some(3), Some(2), None]);
        queue.push(3);
        assert_eq!(queue.pop(), Some(3));
    }

    #[test]
    fn each_has_one_time() {
        let mut timers = Timers::default();
        let at = Instant::from_millis;
        for (key, ms) in [(1, 5), (2, 3), (1, 4), (3, 9), (2, 3)] {
            timers.set(key, at(ms));
        }
        timers.set(3, Instant::NEVER);
        assert_eq!(timers.next(), at(3));
        assert_eq!((timers.pop(at(2)), timers.pop(at(4)), timers.pop(at(4))), (None, Some(2), Some(1)));
        assert!(timers.next().is_never() && timers.pop(Instant::NEVER).is_none());
    }
}
