//! What is under way on one path, in the order in which it left.

use core::cell::Cell;

use weftway_path::{Bytes, Instant, Ring};

use crate::shared::present::Oldest;

/// A packet in a list, with what the list is searched by.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub serial: u64,
    pub eta: Instant,
    pub given: Bytes,
}

/// What is under way on one path.
#[derive(Clone, Default)]
pub(super) struct PathFlight {
    /// Sent after the newest packet that is acknowledged, oldest first.
    pub unheard: Ring<Listed>,
    /// The number of the newest that should arrive before the one sent just before it, and where the last search ended.
    pub fall: u64,
    pub found: Cell<u64>,
    /// The first of them ([`super::InFlight::note_oldest`]).
    pub oldest: Option<Oldest>,
    /// How often that was noted.
    pub noted: u64,
    /// Not known to have arrived, in one copy so far, oldest first.
    pub single: Ring<Listed>,
    /// Known to have arrived, in one copy, and not acknowledged: QUIC's send buffer keeps them.
    pub arrived: Ring<u64>,
    /// When something of it was last acknowledged.
    pub heard: Instant,
    /// The bytes that it was ever given.
    pub given: Bytes,
    /// The same up to the newest packet that is acknowledged.
    pub settled: Bytes,
    /// Packets that were acknowledged after they were overdue.
    pub late: u64,
    /// When the last of all that it was ever given should have arrived.
    pub latest: Instant,
}

impl PathFlight {
    /// It was given one more.
    #[inline]
    pub fn push(&mut self, packet: Listed, is_single: bool) {
        if packet.eta >= self.latest {
            self.latest = packet.eta;
        } else if self.unheard.back().is_some_and(|last| last.eta > packet.eta) {
            self.fall = self.unheard.end();
        }
        self.unheard.push(packet);
        if is_single {
            self.single.push(packet);
        }
    }

    /// The path was heard of: nothing up to this packet is waited for.
    #[inline]
    pub fn heard_of(&mut self, serial: u64) {
        while self.unheard.front().is_some_and(|first| first.serial <= serial) {
            self.unheard.pop();
        }
    }

    /// The number of the first of `unheard` that is not `back`. Mostly they should arrive in the order in which they left, and it
    /// is the one found at the last question: the search begins there.
    #[inline]
    pub fn first_not(&self, back: impl Fn(&Listed) -> bool) -> u64 {
        let unheard = &self.unheard;
        let mut at = self.found.get().clamp(unheard.base(), unheard.end());
        let tries = if self.fall <= unheard.base() { 4 } else { 0 };
        for _ in 0..tries {
            if unheard.get(at).is_some_and(&back) {
                at += 1;
            } else if at > unheard.base() && !back(&unheard[at - 1]) {
                at -= 1;
            } else {
                self.found.set(at);
                return at;
            }
        }
        let at = unheard.partition_point(back);
        self.found.set(at);
        at
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Whether etas rise or not, and wherever the last search ended.
    #[test]
    fn a_search_that_begins_where_the_last_one_ended_finds_what_another_does() {
        let (mut flight, mut state, mut now) = (PathFlight::default(), 3u64, 1000);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for serial in 0..4000 {
            now += draw(5);
            // For a while they arrive in the order in which they left.
            let early = if serial % 1000 < 700 { 0 } else { draw(30) };
            flight.push(Listed { serial, eta: at(now - early), given: Bytes::ZERO }, false);
            if draw(2) == 0 {
                flight.heard_of(serial.saturating_sub(20 + draw(20)));
            }
            let by = at(now - draw(60));
            let back = |packet: &Listed| packet.eta <= by;
            assert_eq!(flight.first_not(back), flight.unheard.partition_point(back), "{serial}");
            let mut pairs = flight.unheard.iter().zip(flight.unheard.iter().skip(1));
            assert_eq!(flight.fall > flight.unheard.base(), pairs.any(|(one, next)| one.eta > next.eta));
        }
    }
}
