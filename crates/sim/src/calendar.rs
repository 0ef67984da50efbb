//! When the next thing happens.
//!
//! Packets in flight wait in their link's ring, so the calendar knows only one time for each
//! *source*: the head of each ring, and the earliest timer of each path and connection. They play a
//! tournament: what changes one time plays again only the matches above it whose winner changes.

use weftway_path::Instant;

/// The next time of every source. Among equal times the lowest source comes first.
#[derive(Clone, Debug)]
pub struct Calendar {
    /// Match `n` is played between the winners of matches `2n` and `2n + 1`, or between two sources; match 1 is the final.
    matches: Vec<[Player; 2]>,
    /// Who won the final.
    winner: Player,
}

/// A source and when it has something to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
struct Player {
    at: u64,
    source: usize,
}

impl Calendar {
    /// A calendar of `sources` sources, none of which has anything to do.
    pub fn new(sources: usize) -> Self {
        let half = sources.div_ceil(2).next_power_of_two();
        let idle = |source| Player { at: u64::MAX, source };
        let mut matches = vec![[idle(0); 2]; half];
        matches.extend((0..half).map(|pair| [idle(2 * pair), idle(2 * pair + 1)]));
        for number in (1..half).rev() {
            matches[number] = [matches[2 * number][0], matches[2 * number + 1][0]];
        }
        Self { matches, winner: idle(0) }
    }

    /// `source` has something to do at `at`, and nothing before.
    #[inline]
    pub fn set(&mut self, source: usize, at: Instant) {
        self.play(source, at.as_nanos());
    }

    /// `source` has something to do at `at` or earlier.
    #[inline]
    pub fn lower(&mut self, source: usize, at: Instant) {
        let number = self.matches.len() / 2 + source / 2;
        if at.as_nanos() < self.matches[number][source % 2].at {
            self.play(source, at.as_nanos());
        }
    }

    #[inline]
    fn play(&mut self, source: usize, at: u64) {
        let (mut number, mut side) = (self.matches.len() / 2 + source / 2, source % 2);
        let mut player = Player { at, source };
        while let Some(players) = self.matches.get_mut(number) {
            if players[side] == player {
                return;
            }
            players[side] = player;
            let [first, second] = *players;
            player = if second.at < first.at { second } else { first };
            if number == 1 {
                self.winner = player;
                return;
            }
            (number, side) = (number / 2, number % 2);
        }
    }

    /// The earliest source and its time; [`Instant::NEVER`] when no source has anything to do.
    #[inline]
    pub fn next(&self) -> (Instant, usize) {
        (Instant::from_nanos(self.winner.at), self.winner.source)
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

    /// Against a plain search, for numbers of sources that fill the last match and that do not.
    #[test]
    fn it_agrees_with_a_search() {
        let mut state = 3_u64;
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for sources in [1, 2, 3, 8, 13, 64, 100] {
            let (mut calendar, mut times) = (Calendar::new(sources), vec![u64::MAX; sources]);
            for _ in 0..2_000 {
                let (source, at) = (draw(sources as u64) as usize, draw(50));
                match draw(4) {
                    0 => {
                        calendar.lower(source, Instant::from_nanos(at));
                        times[source] = times[source].min(at);
                    }
                    1 => {
                        calendar.set(source, Instant::NEVER);
                        times[source] = u64::MAX;
                    }
                    _ => {
                        calendar.set(source, Instant::from_nanos(at));
                        times[source] = at;
                    }
                }
                let first = (0..sources).min_by_key(|&source| times[source]).unwrap_or(0);
                assert_eq!(calendar.next().0.as_nanos(), times[first]);
                assert!(times[first] == u64::MAX || calendar.next().1 == first, "{sources} sources");
            }
        }
    }
}
