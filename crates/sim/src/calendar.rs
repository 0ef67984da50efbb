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
    blocks: Vec<Block>,
}

/// Eight sources. An event changes several of their times, so the earliest is looked for when it is asked for.
#[derive(Clone, Debug)]
struct Block {
    times: [u64; BLOCK],
    /// The earliest time and the source that has it, unless `changed` since.
    earliest: (u64, usize),
    changed: bool,
}

impl Calendar {
    /// A calendar of `sources` sources, none of which has anything to do.
    pub fn new(sources: usize) -> Self {
        let empty = Block { times: [u64::MAX; BLOCK], earliest: (u64::MAX, 0), changed: true };
        Self { blocks: vec![empty; sources.div_ceil(BLOCK).max(1)] }
    }

    /// `source` has something to do at `at`, and nothing before.
    #[inline]
    pub fn set(&mut self, source: usize, at: Instant) {
        let block = &mut self.blocks[source / BLOCK];
        block.times[source % BLOCK] = at.as_nanos();
        block.changed = true;
    }

    /// `source` has something to do at `at` or earlier.
    #[inline]
    pub fn lower(&mut self, source: usize, at: Instant) {
        let block = &mut self.blocks[source / BLOCK];
        let time = &mut block.times[source % BLOCK];
        if at.as_nanos() < *time {
            *time = at.as_nanos();
            block.changed = true;
        }
    }

    /// The earliest source and its time; [`Instant::NEVER`] when no source has anything to do.
    #[inline]
    pub fn next(&mut self) -> (Instant, usize) {
        let mut earliest = (u64::MAX, 0);
        for (number, block) in self.blocks.iter_mut().enumerate() {
            if block.changed {
                let (time, within) = earliest_of(&block.times);
                block.earliest = (time, number * BLOCK + within);
                block.changed = false;
            }
            if block.earliest.0 < earliest.0 {
                earliest = block.earliest;
            }
        }
        (Instant::from_nanos(earliest.0), earliest.1)
    }
}

/// The earliest time and where it is; of equals the first. A tournament: no step waits for all before it.
#[inline]
fn earliest_of(times: &[u64; BLOCK]) -> (u64, usize) {
    let earlier = |a: (u64, usize), b: (u64, usize)| if b.0 < a.0 { b } else { a };
    let pair = |at: usize| earlier((times[at], at), (times[at + 1], at + 1));
    earlier(earlier(pair(0), pair(2)), earlier(pair(4), pair(6)))
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
