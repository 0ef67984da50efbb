//! Sources of a pipe's datagrams, each with a number that both ends know.

use std::collections::BTreeMap;
use std::net::SocketAddr;

use weftway_path::{Instant, Span};

use crate::dscp::Dscp;
use crate::limits::{MOST_SOURCES, SOURCE_IDLE};
use crate::pipe::head::SOURCES;

/// Time after which another mark of a source is told.
const TELL_EVERY: Span = Span::from_secs(1);
/// Time after which a mark is told again: the other end forgets those of sources whose datagrams it has not seen.
const TELL_AGAIN: Span = Span::from_secs(30);

/// A source.
#[derive(Clone, Copy, Debug)]
struct Source {
    address: SocketAddr,
    /// When it sent or got something last.
    used: Instant,
    /// Mark of its datagrams that the other end knows, and when it was told that.
    mark: (Dscp, Instant),
}

/// Sources that have sent lately.
#[derive(Debug, Default)]
pub struct Sources {
    numbers: BTreeMap<SocketAddr, u16>,
    sources: BTreeMap<u16, Source>,
    /// The next number that is tried. One that is free again is used as late as can be: the other end may know it still.
    next: u16,
}

impl Sources {
    /// The number of the source at `address`, which has sent something. None: there are as many as may be, and those
    /// that are there keep their numbers, so that a flood of others does not end them.
    pub fn number(&mut self, now: Instant, address: SocketAddr) -> Option<u16> {
        if let Some(&number) = self.numbers.get(&address) {
            if let Some(source) = self.sources.get_mut(&number) {
                source.used = now;
            }
            return Some(number);
        }
        if self.sources.len() >= MOST_SOURCES {
            return None;
        }
        while self.sources.contains_key(&self.next) {
            self.next = (self.next + 1) % SOURCES;
        }
        let number = self.next;
        self.next = (number + 1) % SOURCES;
        self.numbers.insert(address, number);
        self.sources.insert(number, Source { address, used: now, mark: (Dscp::NONE, Instant::ZERO) });
        Some(number)
    }

    /// Returns true if the other end is to be told that a datagram of source `number` is marked so: once a second at
    /// most, and again now and then.
    pub fn is_new_mark(&mut self, now: Instant, number: u16, mark: Dscp) -> bool {
        let Some(source) = self.sources.get_mut(&number) else { return false };
        let (known, told_at) = source.mark;
        let again = if known == mark { TELL_AGAIN } else { TELL_EVERY };
        let is_known = known == mark && mark == Dscp::NONE;
        let is_new = !is_known && (told_at == Instant::ZERO || now.since(told_at) >= again);
        if is_new {
            source.mark = (mark, now);
        }
        is_new
    }

    /// Forgets which marks are told: another relay knows none.
    pub fn forget_marks(&mut self) {
        self.sources.values_mut().for_each(|source| source.mark = (Dscp::NONE, Instant::ZERO));
    }

    /// The address of source `number`, which gets something.
    pub fn address(&mut self, now: Instant, number: u16) -> Option<SocketAddr> {
        let source = self.sources.get_mut(&number)?;
        source.used = now;
        Some(source.address)
    }

    /// Forgets those that have not sent or got anything for a while.
    pub fn forget_idle(&mut self, now: Instant) {
        let numbers = &mut self.numbers;
        self.sources.retain(|_, source| {
            let stays = now.since(source.used) < SOURCE_IDLE;
            if !stays {
                numbers.remove(&source.address);
            }
            stays
        });
    }

    /// Number of sources.
    pub fn len(&self) -> usize {
        self.sources.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn address(number: usize) -> SocketAddr {
        SocketAddr::from(([10, 0, (number >> 8) as u8, number as u8], 5000))
    }

    #[test]
    fn a_flood_of_sources_is_bounded_and_ends_none_of_those_that_are_there() {
        let (mut sources, now) = (Sources::default(), Instant::from_millis(5));
        let numbers: Vec<_> = (0..10_000).map(|number| sources.number(now, address(number))).collect();
        assert_eq!(numbers.iter().flatten().count(), MOST_SOURCES);
        assert_eq!((sources.len(), sources.numbers.len()), (MOST_SOURCES, MOST_SOURCES));
        assert_eq!((numbers[3], sources.number(now, address(3))), (Some(3), Some(3)));
        assert_eq!((sources.address(now, 3), sources.address(now, 300)), (Some(address(3)), None));
    }

    #[test]
    fn a_mark_is_told_when_it_changes_and_not_with_each_datagram() {
        let (mut sources, at) = (Sources::default(), Instant::from_millis);
        let number = sources.number(at(1), address(0)).unwrap();
        let [none, voice, video] = ["CS0", "EF", "AF41"].map(|mark| mark.parse().unwrap());
        let mut told = |ms, mark| sources.is_new_mark(at(ms), number, mark);
        let all = [(1, none), (2, voice), (3, voice), (4, video), (1002, video), (1003, video), (2003, none)];
        assert_eq!(all.map(|(ms, mark)| told(ms, mark)), [false, true, false, false, true, false, true]);
        let later = [(50_000, none), (50_000, voice), (79_999, voice), (80_000, voice), (80_001, voice)];
        assert_eq!(later.map(|(ms, mark)| told(ms, mark)), [false, true, false, true, false]);
        sources.forget_marks();
        assert!(sources.is_new_mark(at(80_002), number, voice) && !sources.is_new_mark(at(80_002), number, voice));
    }

    #[test]
    fn those_that_are_idle_are_forgotten_and_their_numbers_come_again_late() {
        let mut sources = Sources::default();
        let after = |span| Instant::ZERO + span;
        assert_eq!(sources.number(Instant::ZERO, address(0)), Some(0));
        assert_eq!(sources.number(Instant::ZERO, address(1)), Some(1));
        let half = after(SOURCE_IDLE / 2);
        assert!(sources.address(half, 0).is_some());
        sources.forget_idle(after(SOURCE_IDLE));
        assert_eq!((sources.len(), sources.address(half, 1)), (1, None));
        assert_eq!(sources.number(half, address(1)), Some(2));
        sources.forget_idle(half + SOURCE_IDLE + Span::from_millis(1));
        assert_eq!((sources.len(), sources.numbers.len()), (0, 0));
        // One stays while all numbers are used once.
        for round in 0..usize::from(SOURCES) - 2 {
            let now = Instant::from_millis(1000 * round as u64);
            assert_eq!(sources.number(now, address(9)), Some(3));
            assert!(sources.number(now, address(1000 + round)).is_some());
            sources.forget_idle(now);
        }
        assert!(sources.len() <= SOURCE_IDLE.as_millis() as usize / 1000 + 1);
    }
}
