//! Pieces of data that left in several packets: one has arrived when all its parts have, and is lost when one of them
//! is.

use std::collections::BTreeMap;

use weftway_host::sending::{Assigned, SentPacket};
use weftway_path::Offset;

/// Owner of a part.
#[derive(Clone, Copy, Debug)]
struct Part {
    serial: u64,
    offset: Offset,
    bytes: u32,
    /// True if none of the parts is lost, so far.
    is_live: bool,
}

/// The parts in flight on a path, by the numbers of their packets. Nearly always there are none.
#[derive(Clone, Debug, Default)]
pub struct Parts(BTreeMap<u64, Part>);

impl Parts {
    /// Packet `number` left with a part of `whole`.
    pub fn add(&mut self, number: u64, whole: &Assigned) {
        let Assigned { serial, offset, bytes, .. } = *whole;
        self.0.insert(number, Part { serial, offset, bytes, is_live: true });
    }

    /// Packet `number` has arrived: what has arrived with it, if anything has as a whole.
    pub fn acked(&mut self, number: u64, packet: SentPacket) -> Option<SentPacket> {
        if self.0.is_empty() {
            return Some(packet);
        }
        let Some(part) = self.0.remove(&number) else { return Some(packet) };
        let is_last = self.0.values().all(|other| other.serial != part.serial);
        (is_last && part.is_live).then_some(SentPacket { offset: part.offset, bytes: part.bytes, ..packet })
    }

    /// Packet `number` is lost: what is lost with it, if it was not before.
    pub fn lost(&mut self, number: u64, packet: SentPacket) -> Option<SentPacket> {
        if self.0.is_empty() {
            return Some(packet);
        }
        let Some(part) = self.0.remove(&number) else { return Some(packet) };
        self.forget(part.serial);
        part.is_live.then_some(SentPacket { offset: part.offset, bytes: part.bytes, ..packet })
    }

    /// Forgets what the decision `serial` sent: it does not count, whatever becomes of its parts.
    pub fn forget(&mut self, serial: u64) {
        self.0.values_mut().filter(|part| part.serial == serial).for_each(|part| part.is_live = false);
    }

    /// Forgets all: nothing is in flight any more.
    pub fn clear(&mut self) {
        self.0.clear();
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Instant, SendKind};

    use super::*;

    const WHOLE: Assigned = Assigned {
        chunk: 5,
        serial: 9,
        kind: SendKind::Reinjection,
        offset: Offset::new(1000),
        bytes: 300,
        first: false,
        after: Offset::ZERO,
    };

    fn packet(number: u64) -> SentPacket {
        SentPacket::new(Instant::ZERO, Offset::new(1000 + number * 100), 100)
    }

    /// Packets 1, 2 and 4 carry it.
    fn parts() -> Parts {
        let mut parts = Parts::default();
        [1, 2, 4].into_iter().for_each(|number| parts.add(number, &WHOLE));
        parts
    }

    fn extent(packet: Option<SentPacket>) -> Option<(u64, u32)> {
        packet.map(|packet| (packet.offset.get(), packet.bytes))
    }

    #[test]
    fn what_left_in_parts_has_arrived_with_the_last_of_them() {
        let mut parts = parts();
        assert_eq!(extent(parts.acked(4, packet(4))), None);
        assert_eq!(extent(parts.acked(3, packet(3))), Some((1300, 100)), "another packet");
        assert_eq!(extent(parts.acked(1, packet(1))), None);
        assert_eq!(extent(parts.acked(2, packet(2))), Some((1000, 300)));
        assert_eq!(extent(parts.acked(5, packet(5))), Some((1500, 100)));
    }

    #[test]
    fn it_is_lost_once_with_the_first_part_and_arrives_no_more() {
        let mut parts = parts();
        assert_eq!(extent(parts.acked(1, packet(1))), None);
        assert_eq!(extent(parts.lost(2, packet(2))), Some((1000, 300)));
        assert_eq!(extent(parts.lost(4, packet(4))), None);
        assert!(parts.0.is_empty());
    }

    #[test]
    fn one_of_which_a_part_did_not_leave_does_not_count() {
        let mut parts = parts();
        parts.forget(9);
        assert_eq!([1, 2, 4].map(|number| extent(parts.acked(number, packet(number)))), [None; 3]);
    }
}
