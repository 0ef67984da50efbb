//! Packets under way on one path, in the order in which they left.

use core::cell::Cell;

use weftway_path::{Bytes, Instant, Ring};

use crate::shared::recent_rate::Oldest;

/// A packet in a list, with what the list is searched by.
#[derive(Clone, Copy)]
pub(super) struct Listed {
    pub serial: u64,
    pub eta: Instant,
    pub given: Bytes,
}

/// Packets in the order in which they left. They are searched by when they should arrive, which is another order where
/// the prediction fell meanwhile.
#[derive(Clone, Default)]
pub(super) struct List {
    packets: Ring<Listed>,
    /// The number of the last one that was to arrive before the one in front of it: once it is the front or has left,
    /// all are in order.
    fall: u64,
    /// Number at which the last search ended.
    last_search: Cell<u64>,
}

/// Packets under way on one path.
#[derive(Clone, Default)]
pub(super) struct PathFlight {
    /// Sent after the newest packet that is acknowledged, oldest first.
    pub unheard: List,
    /// The first of them ([`super::InFlight::note_oldest`]).
    pub oldest: Option<Oldest>,
    /// Not known to have arrived, in one copy so far, oldest first.
    pub single: List,
    /// Known to have arrived, in one copy, and not acknowledged: QUIC's send buffer keeps them.
    pub arrived: Ring<u64>,
    /// Time at which a packet of it was last acknowledged.
    pub heard: Instant,
    /// The bytes that it was ever given.
    pub given: Bytes,
    /// Bytes that it was given up to the newest packet that is acknowledged.
    pub settled: Bytes,
    /// Packets that were acknowledged after they were overdue.
    pub late: u64,
    /// Latest time at which a packet that it was given should arrive.
    pub latest: Instant,
}

impl PathFlight {
    /// It was given one more.
    #[inline]
    pub fn push(&mut self, packet: Listed, is_single: bool) {
        self.latest = self.latest.max(packet.eta);
        self.unheard.push(packet);
        if is_single {
            self.single.push(packet);
        }
    }

    /// The path was heard of: nothing up to this packet is waited for.
    #[inline]
    pub fn heard_of(&mut self, serial: u64) {
        while self.unheard.packets.front().is_some_and(|first| first.serial <= serial) {
            self.unheard.pop();
        }
    }
}

impl List {
    #[inline]
    fn push(&mut self, packet: Listed) {
        if self.packets.back().is_some_and(|last| last.eta > packet.eta) {
            self.fall = self.packets.end();
        }
        self.packets.push(packet);
    }

    /// The oldest one leaves.
    #[inline]
    pub fn pop(&mut self) {
        self.packets.pop();
    }

    /// The newest one leaves.
    #[inline]
    pub fn pop_back(&mut self) {
        self.packets.pop_back();
    }

    /// The packets, by consecutive numbers.
    #[inline]
    pub fn packets(&self) -> &Ring<Listed> {
        &self.packets
    }

    /// The number of the oldest that is not `back`, which tells by when it should arrive. Mostly they should arrive in
    /// the order in which they left, and it is the one found at the last question: the search begins there.
    #[inline]
    pub fn first_not(&self, back: impl Fn(&Listed) -> bool) -> u64 {
        let packets = &self.packets;
        let at = if self.fall > packets.base() { self.first_of_mixed(back) } else { self.first_of_ordered(back) };
        self.last_search.set(at);
        at
    }

    #[inline]
    fn first_of_ordered(&self, back: impl Fn(&Listed) -> bool) -> u64 {
        let packets = &self.packets;
        let mut at = self.last_search.get().clamp(packets.base(), packets.end());
        for _ in 0..4 {
            if packets.get(at).is_some_and(&back) {
                at += 1;
            } else if at > packets.base() && !back(&packets[at - 1]) {
                at -= 1;
            } else {
                return at;
            }
        }
        packets.partition_point(back)
    }

    fn first_of_mixed(&self, back: impl Fn(&Listed) -> bool) -> u64 {
        let packets = &self.packets;
        (packets.base()..packets.end()).find(|&number| !back(&packets[number])).unwrap_or(packets.end())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Packets arrive in order or not, and the last search ended anywhere.
    #[test]
    fn a_search_finds_the_oldest() {
        let (mut list, mut state, mut now) = (List::default(), 3u64, 1000);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for serial in 0..4000 {
            now += draw(5);
            // For a while they should arrive in the order in which they left.
            let early = if serial % 1000 < 700 { 0 } else { draw(30) };
            list.push(Listed { serial, eta: at(now - early), given: Bytes::ZERO });
            for _ in 0..draw(3) {
                list.pop();
            }
            if draw(8) == 0 {
                list.pop_back();
            }
            let by = at(now - draw(60));
            let back = |packet: &Listed| packet.eta <= by;
            let first = list.packets.iter().position(|packet| !back(packet)).unwrap_or(list.packets.len());
            assert_eq!(list.first_not(back), list.packets.base() + first as u64, "{serial}");
            let mut pairs = list.packets.iter().zip(list.packets.iter().skip(1));
            assert!(list.fall > list.packets.base() || pairs.all(|(one, next)| one.eta <= next.eta));
        }
    }
}
