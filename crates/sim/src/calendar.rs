//! Times of the next events.
//!
//! Packets in flight wait in their link's ring, so the calendar knows only one time for each *source*: the head of each
//! ring, and the earliest timer of each path and connection. Sources are compared in groups of sixteen, and the
//! earliest times of sixteen groups in a group above them: a time that changes is compared again in its own group, and
//! above it only if the earliest time of the group has changed. Four paths need one group, two paths half of it. It is
//! compared when the next event is asked for: several of its times change between two events.

use weftway_path::Instant;

/// Number of times in a group, and of the bits that their place takes.
const GROUP: usize = 16;
const PLACE_BITS: u32 = 4;
/// Never: the largest time that leaves room for a place. It is 36 years after the start.
const NEVER: u64 = u64::MAX >> PLACE_BITS;
/// No source has anything to do after this time.
pub const END: Instant = Instant::from_nanos(NEVER - 1);

/// The next time of every source. Among equal times the lowest source comes first.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// The times of the sources, if they are one group; else the earliest times of the next sixteen groups.
    top: Group,
    /// True if the sources are half a group, or fewer.
    is_half: bool,
    /// The other groups, numbered from 1. The earliest times of groups `16n + 1` to `16n + 16` are in group `n`, where
    /// 0 is the top; those of the sources are in the last groups.
    below: Vec<Group>,
    /// The first of the groups with times of sources.
    first: usize,
}

/// Sixteen times. A time and, in the lowest bits, its place in the group are one number: the least number is the
/// earliest time, and among equal times the first.
#[derive(Clone, Copy, Debug)]
struct Group {
    times: [u64; GROUP],
    /// The least of each pair of them.
    pairs: [u64; GROUP / 2],
    /// The least of all, but for a group that is alone.
    least: u64,
}

impl Group {
    /// A group with nothing to do.
    const IDLE: Self = {
        let mut times = [NEVER << PLACE_BITS; GROUP];
        let mut place = 1;
        while place < GROUP {
            times[place] += place as u64;
            place += 1;
        }
        let mut pairs = [times[0]; GROUP / 2];
        let mut pair = 1;
        while pair < GROUP / 2 {
            pairs[pair] = times[2 * pair];
            pair += 1;
        }
        Self { times, pairs, least: times[0] }
    };

    /// The least, written out: a loop over either half or all would stay a loop.
    #[inline]
    fn find_least(&self) -> u64 {
        let [.., a, b, c, d] = self.pairs;
        self.find_least_of_half().min(a.min(b).min(c.min(d)))
    }

    /// Least of the group, where only the first half has anything to do.
    #[inline(always)]
    fn find_least_of_half(&self) -> u64 {
        let [a, b, c, d, ..] = self.pairs;
        a.min(b).min(c.min(d))
    }

    /// The time at `place` becomes `at`; what it was, and what it is, place and all.
    #[inline]
    fn replace(&mut self, place: usize, at: u64) -> (u64, u64) {
        let time = at << PLACE_BITS | place as u64;
        let before = core::mem::replace(&mut self.times[place], time);
        self.pairs[place / 2] = time.min(self.times[place ^ 1]);
        (before, time)
    }
}

impl Calendar {
    /// A calendar of `sources` sources, none of which has anything to do.
    pub fn new(sources: usize) -> Self {
        // A layer of groups has sixteen times as many as the one above.
        let (mut first, mut layer) = (0, 1);
        while layer * GROUP < sources {
            first += layer;
            layer *= GROUP;
        }
        let is_half = sources <= GROUP / 2;
        Self { top: Group::IDLE, is_half, below: vec![Group::IDLE; first + layer - 1], first }
    }

    /// `source` has something to do at `at`, and nothing before.
    #[inline]
    pub fn set(&mut self, source: usize, at: Instant) {
        let at = at.as_nanos().min(NEVER);
        if self.below.is_empty() {
            debug_assert!(source < GROUP, "source {source} of one group");
            self.top.replace(source % GROUP, at);
        } else {
            self.change(source, at);
        }
    }

    /// `source` has something to do at `at` or earlier.
    #[inline]
    pub fn lower(&mut self, source: usize, at: Instant) {
        let group = if self.below.is_empty() { &self.top } else { &self.below[self.first + source / GROUP - 1] };
        if at.as_nanos() < group.times[source % GROUP] >> PLACE_BITS {
            self.set(source, at);
        }
    }

    /// Group `number`.
    #[inline]
    fn group_mut(&mut self, number: usize) -> &mut Group {
        if number == 0 { &mut self.top } else { &mut self.below[number - 1] }
    }

    /// The time of `source` becomes `at`, where sources are in several groups.
    #[inline(never)]
    fn change(&mut self, source: usize, at: u64) {
        let (mut number, mut place, mut at) = (self.first + source / GROUP, source % GROUP, at);
        loop {
            let group = self.group_mut(number);
            let (before, time) = group.replace(place, at);
            // Only where the least grows another may be the least.
            let grows = before == group.least && time > before;
            let least = if grows { group.find_least() } else { group.least.min(time) };
            let same = least >> PLACE_BITS == group.least >> PLACE_BITS;
            group.least = least;
            if same || number == 0 {
                return;
            }
            (number, place, at) = ((number - 1) / GROUP, (number - 1) % GROUP, least >> PLACE_BITS);
        }
    }

    /// The earliest source and its time; a time after [`END`] when no source has anything to do.
    #[inline]
    pub fn next(&self) -> (Instant, usize) {
        if !self.is_half {
            return self.next_of_more();
        }
        let least = self.top.find_least_of_half();
        (Instant::from_nanos(least >> PLACE_BITS), place(least))
    }

    /// Next event, where there are more sources.
    #[inline(never)]
    fn next_of_more(&self) -> (Instant, usize) {
        if self.below.is_empty() {
            let least = self.top.find_least();
            return (Instant::from_nanos(least >> PLACE_BITS), place(least));
        }
        let (mut number, mut least) = (0, self.top.least);
        while number < self.first {
            number = number * GROUP + 1 + place(least);
            least = self.below[number - 1].least;
        }
        (Instant::from_nanos(least >> PLACE_BITS), (number - self.first) * GROUP + place(least))
    }
}

/// The place in its group of a time.
#[inline]
fn place(time: u64) -> usize {
    time as usize % GROUP
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_earliest_comes_first_and_ties_go_to_the_lowest_source() {
        let mut calendar = Calendar::new(40);
        assert!(calendar.next().0 > END);
        calendar.set(39, Instant::from_nanos(5));
        calendar.set(17, Instant::from_nanos(5));
        assert_eq!(calendar.next(), (Instant::from_nanos(5), 17));
        calendar.set(17, Instant::from_nanos(9));
        assert_eq!(calendar.next(), (Instant::from_nanos(5), 39));
        calendar.set(39, Instant::NEVER);
        calendar.lower(17, Instant::from_nanos(20));
        assert_eq!(calendar.next(), (Instant::from_nanos(9), 17));
    }

    /// Against a plain search, for numbers of sources that fill the last match and that do not.
    #[test]
    fn it_agrees_with_a_search() {
        let mut state = 3_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for sources in [1, 2, 3, 8, 9, 13, 16, 17, 64, 256, 257, 600] {
            let (mut calendar, mut times) = (Calendar::new(sources), vec![NEVER; sources]);
            for _ in 0..2_000 {
                let (source, at) = (draw(sources as u64) as usize, draw(50));
                match draw(4) {
                    0 => {
                        calendar.lower(source, Instant::from_nanos(at));
                        times[source] = times[source].min(at);
                    }
                    1 => {
                        calendar.set(source, Instant::NEVER);
                        times[source] = NEVER;
                    }
                    _ => {
                        calendar.set(source, Instant::from_nanos(at));
                        times[source] = at;
                    }
                }
                let first = (0..sources).min_by_key(|&source| times[source]).unwrap_or(0);
                assert_eq!(calendar.next().0.as_nanos(), times[first]);
                assert!(times[first] == NEVER || calendar.next().1 == first, "{sources} sources");
            }
        }
    }
}
