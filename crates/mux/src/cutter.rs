//! Whose bytes are cut next: by class, and within a class by deficit round robin.
//!
//! Nothing that waits has a place in the sequence, so what is written to a more urgent stream is cut before all that
//! waits in less urgent ones. But no class starves those below it: one that has cut [`LEAD`] bytes more than they have,
//! while they waited, steps back until they have caught up. So a class that always has more gets half of what the
//! classes above it leave, and one that needs little never waits.
//!
//! Within a class each stream may cut [`QUANTUM`] bytes when its turn comes (Shreedhar and Varghese,
//! 1995). A record is filled by as few streams as possible, since its loss holds up each of them: a stream may exceed
//! its quantum to fill it, and then has as much less in its next turns.
//!
//! The datagrams of a class take turns with its streams as if they were one of them.

use std::collections::VecDeque;

use crate::id::StreamId;
use crate::limits::CLASSES;

/// The bytes that a stream may cut in a turn: a full packet of Ethernet, and some. The smaller, the fairer at short
/// times; the larger, the fewer streams share a record.
pub const QUANTUM: i64 = 2048;

/// Bytes that a class may cut before the less urgent ones that wait have as many: a frame of video or the answer to a
/// keystroke goes first as a whole, and a flood takes half of the rate.
pub const LEAD: i64 = 32 << 10;

/// Party that takes turns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Party {
    /// A stream.
    Stream(StreamId),
    /// The datagrams of the class.
    Datagrams,
}

#[derive(Clone, Copy, Debug)]
struct Turn {
    party: Party,
    /// Bytes left of this turn; zero or less only for a party that had more than its turn and is not first.
    left: i64,
}

/// Parties that have something to cut.
#[derive(Clone, Debug, Default)]
pub struct Cutter {
    turns: [VecDeque<Turn>; CLASSES],
    /// Bytes that each class has cut more than the less urgent ones, while these waited.
    leads: [i64; CLASSES],
}

impl Cutter {
    /// `party` has something to cut from now on; it has its turn after those that wait already.
    pub fn join(&mut self, class: u8, party: Party) {
        self.turns[usize::from(class)].push_back(Turn { party, left: QUANTUM });
    }

    /// `party` has nothing to cut any more.
    pub fn leave(&mut self, class: u8, party: Party) {
        let turns = &mut self.turns[usize::from(class)];
        if let Some(at) = turns.iter().position(|turn| turn.party == party) {
            turns.remove(at);
            self.settle(class);
        }
    }

    /// The parties that are next, with their classes.
    pub fn parties(&self) -> impl Iterator<Item = (u8, Party)> {
        let classes = |steps_back| (0..CLASSES).filter(move |&class| self.steps_back(class) == steps_back);
        let ordered = classes(false).chain(classes(true));
        ordered.flat_map(|class| self.turns[class].iter().map(move |turn| (class as u8, turn.party)))
    }

    /// Tells whether the less urgent classes come before `class`, since it has cut so much more.
    fn steps_back(&self, class: usize) -> bool {
        self.leads[class] >= LEAD && self.turns[class + 1..].iter().any(|turns| !turns.is_empty())
    }

    /// Counts what `class` has cut for the classes above it, and against it if others wait below.
    fn count(&mut self, class: usize, bytes: i64) {
        self.leads[..class].iter_mut().for_each(|lead| *lead = (*lead - bytes).max(0));
        if self.turns[class + 1..].iter().any(|turns| !turns.is_empty()) {
            self.leads[class] += bytes;
        }
    }

    /// `party` has cut so many bytes, and has more or not.
    pub fn served(&mut self, class: u8, party: Party, bytes: usize, has_more: bool) {
        self.count(class.into(), bytes as i64);
        if !has_more {
            return self.leave(class, party);
        }
        if let Some(turn) = self.turns[usize::from(class)].iter_mut().find(|turn| turn.party == party) {
            turn.left -= bytes as i64;
        }
        self.settle(class);
    }

    /// Whoever has used up its turn goes to the end, with its next turn.
    fn settle(&mut self, class: u8) {
        let turns = &mut self.turns[usize::from(class)];
        while let Some(first) = turns.front_mut().filter(|first| first.left <= 0) {
            first.left += QUANTUM;
            turns.rotate_left(1);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stream(number: u64) -> Party {
        Party::Stream(StreamId::from_wire(number))
    }

    #[test]
    fn a_more_urgent_class_comes_first() {
        let mut cutter = Cutter::default();
        cutter.join(3, stream(0));
        cutter.join(0, Party::Datagrams);
        cutter.join(0, stream(4));
        let order: Vec<_> = cutter.parties().collect();
        assert_eq!(order, [(0, Party::Datagrams), (0, stream(4)), (3, stream(0))]);
        cutter.leave(0, Party::Datagrams);
        assert_eq!(cutter.parties().next(), Some((0, stream(4))));
    }

    #[test]
    fn whoever_cuts_large_records_has_no_more_than_the_others() {
        let mut cutter = Cutter::default();
        // The third cuts in records of 9 kB, as on a path with a large MTU; each always has more.
        let records = [1200usize, 1452, 9000];
        (0..3).for_each(|number| cutter.join(2, stream(number)));
        let mut bytes = [0usize; 3];
        for _ in 0..10_000 {
            let (class, party) = cutter.parties().next().unwrap();
            let number = (0..3).position(|number| party == stream(number)).unwrap();
            bytes[number] += records[number];
            cutter.served(class, party, records[number], true);
            // A debt is at most a record, what is left at most a quantum: two of each between any two.
            let (least, most) = (bytes.iter().min().unwrap(), bytes.iter().max().unwrap());
            assert!(most - least <= 2 * (9000 + QUANTUM as usize), "{bytes:?}");
        }
    }
    /// Cuts a record of 1200 bytes for the next party, `times` times: bytes that each class has cut. All always have
    /// more.
    fn cut(cutter: &mut Cutter, times: usize) -> [usize; CLASSES] {
        let mut bytes = [0; CLASSES];
        for _ in 0..times {
            let (class, party) = cutter.parties().next().unwrap();
            bytes[usize::from(class)] += 1200;
            cutter.served(class, party, 1200, true);
        }
        bytes
    }

    #[test]
    fn a_class_that_always_has_more_leaves_half_to_those_below() {
        let mut cutter = Cutter::default();
        cutter.join(0, Party::Datagrams);
        cutter.join(1, stream(0));
        cutter.join(2, stream(4));
        let bytes = cut(&mut cutter, 10_000);
        let whole = 10_000 * 1200;
        for (class, parts) in [(0, 2), (1, 4), (2, 4)] {
            let off = bytes[class].abs_diff(whole / parts);
            assert!(off <= 2 * (LEAD as usize + 1200), "{bytes:?}");
        }
        // Nobody else waits: it has all.
        cutter.leave(1, stream(0));
        cutter.leave(2, stream(4));
        assert_eq!(cut(&mut cutter, 100), [120_000, 0, 0, 0]);
    }

    #[test]
    fn a_class_that_needs_little_is_always_first() {
        let mut cutter = Cutter::default();
        cutter.join(2, stream(4));
        for _ in 0..10_000 {
            // A third of what is cut in between.
            cutter.join(0, Party::Datagrams);
            assert_eq!(cutter.parties().next(), Some((0, Party::Datagrams)));
            cutter.served(0, Party::Datagrams, 1200, false);
            cut(&mut cutter, 3);
        }
    }

    #[test]
    fn a_burst_is_first_as_a_whole_and_then_the_others_catch_up() {
        let mut cutter = Cutter::default();
        cutter.join(2, stream(4));
        cutter.join(1, stream(0));
        let first = LEAD as usize / 1200 + 1;
        assert_eq!(cut(&mut cutter, first), [0, 1200 * first, 0, 0]);
        assert_eq!(cut(&mut cutter, 1), [0, 0, 1200, 0]);
    }
}
