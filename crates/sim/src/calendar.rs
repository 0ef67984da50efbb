//! When the next thing happens.
//!
//! Packets in flight wait in their link's ring, so the calendar knows only one time for each
//! *source*: the head of each ring, and the earliest timer of each path and connection. With a
//! dozen sources a linear minimum beats any heap; above that, blocks of eight keep their own.

use weftway_path::Instant;

const BLOCK: usize = 8;

/// The next time of every source. Among equal times the lowest source comes first.
#[derive(Clone, Debug, Default)]
pub struct Calendar {
    times: Vec<u64>,
    /// The minimum of each block of eight sources.
    blocks: Vec<u64>,
}

impl Calendar {
    /// A calendar of `sources` sources, none of which has anything to do.
    pub fn new(sources: usize) -> Self {
        let blocks = sources.div_ceil(BLOCK).max(1);
        Self { times: vec![u64::MAX; blocks * BLOCK], blocks: vec![u64::MAX; blocks] }
    }

    /// `source` has something to do at `at`, and nothing before.
    #[inline]
    pub fn set(&mut self, source: usize, at: Instant) {
        let at = at.as_nanos();
        let before = core::mem::replace(&mut self.times[source], at);
        if before == at {
            // A packet that joins others on its link: the head stays.
            return;
        }
        let block = source / BLOCK;
        if at <= self.blocks[block] {
            self.blocks[block] = at;
        } else if before == self.blocks[block] {
            let times = &self.times[block * BLOCK..(block + 1) * BLOCK];
            self.blocks[block] = times.iter().copied().fold(u64::MAX, u64::min);
        }
    }

    /// `source` has something to do at `at` or earlier.
    #[inline]
    pub fn lower(&mut self, source: usize, at: Instant) {
        if at.as_nanos() < self.times[source] {
            self.set(source, at);
        }
    }

    /// The earliest source and its time; [`Instant::NEVER`] when no source has anything to do.
    #[inline]
    pub fn next(&self) -> (Instant, usize) {
        let mut block = 0;
        for (at, &time) in self.blocks.iter().enumerate().skip(1) {
            if time < self.blocks[block] {
                block = at;
            }
        }
        let time = self.blocks[block];
        let times = &self.times[block * BLOCK..(block + 1) * BLOCK];
        let within = times.iter().position(|&t| t == time).unwrap_or(0);
        (Instant::from_nanos(time), block * BLOCK + within)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_ties_go_to_the_lowest_source() {
        let mut calendar = Calendar::new(40);
        assert!(calendar.next().0.is_never());
        calendar.set(39, Instant::from_nanos(5));
        calendar.set(17, Instant::from_nanos(5));
        assert_eq!(calendar.next(), (Instant::from_nanos(5), 17));
        calendar.set(17, Instant::from_nanos(9));
        assert_eq!(calendar.next(), (Instant::from_nanos(5), 39));
        calendar.set(39, Instant::NEVER);
        calendar.lower(17, Instant::from_nanos(20));
        assert_eq!(calendar.next(), (Instant::from_nanos(9), 17));
    }
}
