//! A queue whose entries keep their number: what a sender, a receiver or a link has under way.

use core::ops::{Index, IndexMut};

/// Entries with consecutive numbers: new ones come at the end, the oldest leave first. An entry is found by its number
/// with one mask, where a `VecDeque` needs the position of its head and a test whether that wraps.
#[derive(Clone, Debug)]
pub struct Ring<T> {
    /// Entry `n` is at `n` modulo the length, which is a power of two.
    slots: Vec<T>,
    base: u64,
    end: u64,
}

const FIRST_SLOTS: usize = 8;

impl<T> Default for Ring<T> {
    fn default() -> Self {
        Self { slots: Vec::new(), base: 0, end: 0 }
    }
}

impl<T> Ring<T> {
    /// The number of the oldest entry; without one, of the next.
    #[inline]
    pub fn base(&self) -> u64 {
        self.base
    }

    /// The number of the next entry.
    #[inline]
    pub fn end(&self) -> u64 {
        self.end
    }

    /// Number of entries.
    #[inline]
    pub fn len(&self) -> usize {
        (self.end - self.base) as usize
    }

    /// Tells whether there is no entry.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.base == self.end
    }

    #[inline]
    fn holds(&self, number: u64) -> bool {
        number.wrapping_sub(self.base) < self.end - self.base
    }

    #[inline]
    fn slot(&self, number: u64) -> usize {
        number as usize & self.slots.len().wrapping_sub(1)
    }

    /// Entry `number`, if it is there.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&T> {
        if self.holds(number) { self.slots.get(self.slot(number)) } else { None }
    }

    /// Entry `number`, if it is there.
    #[inline]
    pub fn get_mut(&mut self, number: u64) -> Option<&mut T> {
        let slot = self.slot(number);
        if self.holds(number) { self.slots.get_mut(slot) } else { None }
    }

    /// The oldest entry.
    #[inline]
    pub fn front(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.slots.get(self.slot(self.base)) }
    }

    /// The newest entry.
    #[inline]
    pub fn back(&self) -> Option<&T> {
        if self.is_empty() { None } else { self.slots.get(self.slot(self.end - 1)) }
    }

    /// The oldest entry leaves. It can be read until the next one comes.
    #[inline]
    pub fn pop(&mut self) -> Option<&T> {
        if self.is_empty() {
            return None;
        }
        let slot = self.slot(self.base);
        self.base += 1;
        self.slots.get(slot)
    }

    /// The newest entry leaves. The next one has its number.
    #[inline]
    pub fn pop_back(&mut self) {
        self.end -= u64::from(!self.is_empty());
    }

    /// The oldest entry leaves, and can be read until the next one comes; beside it the one behind it, if there is one.
    #[inline]
    pub fn pop_with_next(&mut self) -> Option<(&T, Option<&T>)> {
        if self.is_empty() {
            return None;
        }
        let (first, second) = (self.slot(self.base), self.slot(self.base + 1));
        self.base += 1;
        // An entry is there, and so are slots.
        let entry = &self.slots[first];
        Some((entry, if self.is_empty() { None } else { Some(&self.slots[second]) }))
    }

    /// The entries below number `end`, which are all there, leave.
    #[inline]
    pub fn forget_below(&mut self, end: u64) {
        debug_assert!(self.base <= end && end <= self.end, "entries up to {end} of {}..{}", self.base, self.end);
        self.base = end;
    }

    /// Forgets everything; numbers go on.
    pub fn clear(&mut self) {
        self.base = self.end;
    }

    /// Empties the ring: the next entry is number `next`, if none was as high.
    pub fn skip_to(&mut self, next: u64) {
        if self.is_empty() && next > self.end {
            (self.base, self.end) = (next, next);
        }
    }

    /// The entries, oldest first.
    pub fn iter(&self) -> impl DoubleEndedIterator<Item = &T> + ExactSizeIterator {
        (0..self.len()).map(|at| &self[self.base + at as u64])
    }

    /// The entries, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut T> {
        let count = self.len();
        let first = if count == 0 { 0 } else { self.slot(self.base) };
        let (wrapped, straight) = self.slots.split_at_mut(first);
        straight.iter_mut().chain(wrapped).take(count)
    }

    /// The number of the first entry that is not `before`, if all that are come first.
    #[inline(always)]
    pub fn partition_point(&self, mut before: impl FnMut(&T) -> bool) -> u64 {
        let (mut low, mut high) = (self.base, self.end);
        while low < high {
            let middle = low + (high - low) / 2;
            if before(&self[middle]) { low = middle + 1 } else { high = middle }
        }
        low
    }
}

impl<T: Copy> Ring<T> {
    /// Adds an entry, whose number is what [`Ring::end`] was.
    #[inline]
    pub fn push(&mut self, entry: T) {
        self.push_with(|| entry);
    }

    /// Appends an entry that is made where it is kept.
    #[inline(always)]
    pub fn push_with(&mut self, entry: impl FnOnce() -> T) {
        // Never above: so it shows that there are slots.
        if self.len() >= self.slots.len() {
            return self.push_growing(entry());
        }
        let slot = self.slot(self.end);
        self.slots[slot] = entry();
        self.end += 1;
    }

    #[cold]
    fn push_growing(&mut self, entry: T) {
        self.grow(entry);
        self.push_with(|| entry);
    }

    fn grow(&mut self, filler: T) {
        let mut slots = vec![filler; (2 * self.slots.len()).max(FIRST_SLOTS)];
        let mask = slots.len() - 1;
        (self.base..self.end).for_each(|number| slots[number as usize & mask] = self[number]);
        self.slots = slots;
    }

    /// Adds an entry as number `number`; those from there on move up by one.
    pub fn insert(&mut self, number: u64, entry: T) {
        self.push(entry);
        let (slot, end) = (self.slot(number), self.slot(self.end - 1));
        if slot <= end {
            self.slots.copy_within(slot..end, slot + 1);
        } else {
            let last = self.slots.len() - 1;
            self.slots.copy_within(..end, 1);
            self.slots[0] = self.slots[last];
            self.slots.copy_within(slot..last, slot + 1);
        }
        self.slots[slot] = entry;
    }

    /// Keeps the entries of which `keep` is true, in their order, under new numbers.
    pub fn retain(&mut self, keep: impl Fn(&T) -> bool) {
        let mut end = self.base;
        for number in self.base..self.end {
            let entry = self[number];
            if keep(&entry) {
                self[end] = entry;
                end += 1;
            }
        }
        self.end = end;
    }
}

impl<T> Index<u64> for Ring<T> {
    type Output = T;

    /// Entry `number`, which is there.
    #[inline]
    fn index(&self, number: u64) -> &T {
        debug_assert!(self.holds(number), "entry {number} of {}..{}", self.base, self.end);
        &self.slots[self.slot(number)]
    }
}

impl<T> IndexMut<u64> for Ring<T> {
    #[inline]
    fn index_mut(&mut self, number: u64) -> &mut T {
        debug_assert!(self.holds(number), "entry {number} of {}..{}", self.base, self.end);
        let slot = self.slot(number);
        &mut self.slots[slot]
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    /// The next number of a fixed sequence below `below` (a linear congruential generator).
    fn draw(state: &mut u64, below: u64) -> u64 {
        *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (*state >> 33) % below
    }

    #[test]
    fn it_agrees_with_a_plain_queue_and_numbers_go_on() {
        let (mut ring, mut plain, mut base, mut state) = (Ring::default(), VecDeque::new(), 0u64, 7u64);
        for step in 0..20_000u64 {
            match draw(&mut state, 100) {
                0..10 => {
                    let at = draw(&mut state, 1 + plain.len() as u64);
                    ring.insert(base + at, step);
                    plain.insert(at as usize, step);
                }
                10..50 => {
                    ring.push(step);
                    plain.push_back(step);
                }
                50..55 => {
                    ring.pop_back();
                    plain.pop_back();
                }
                55..95 => {
                    base += u64::from(!plain.is_empty());
                    if step.is_multiple_of(2) {
                        assert_eq!(ring.pop().copied(), plain.pop_front());
                    } else {
                        let popped = ring.pop_with_next().map(|(entry, next)| (*entry, next.copied()));
                        assert_eq!(popped, plain.pop_front().map(|entry| (entry, plain.front().copied())));
                    }
                }
                95..97 => {
                    ring.retain(|entry| entry % 3 != 0);
                    plain.retain(|entry| entry % 3 != 0);
                }
                97 => {
                    let count = draw(&mut state, 1 + plain.len() as u64);
                    base += count;
                    ring.forget_below(base);
                    plain.drain(..count as usize);
                }
                98 => ring.iter_mut().zip(&mut plain).for_each(|(a, b)| (*a, *b) = (*a + 1, *b + 1)),
                _ => {
                    base += plain.len() as u64;
                    ring.clear();
                    plain.clear();
                }
            }
            assert_eq!((ring.base(), ring.len()), (base, plain.len()));
            assert_eq!((ring.front(), ring.back()), (plain.front(), plain.back()));
            let at = draw(&mut state, 2 + plain.len() as u64);
            assert_eq!(ring.get(base + at), plain.get(at as usize));
            assert!(base == 0 || ring.get(base - 1).is_none());
            if step % 64 == 0 {
                assert!(ring.iter().eq(plain.iter()) && ring.iter().rev().eq(plain.iter().rev()));
            }
        }
    }

    #[test]
    fn the_first_that_is_not_before() {
        let mut ring = Ring::default();
        [1, 1, 2, 2, 5].into_iter().for_each(|entry| ring.push(entry));
        ring.pop();
        assert_eq!([0, 1, 2, 3, 9].map(|key| ring.partition_point(|&entry| entry <= key)), [1, 2, 4, 4, 5]);
    }
}
