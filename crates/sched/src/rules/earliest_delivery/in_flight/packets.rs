//! The packets under way, by the number of their decision and by the data that they carry.

use core::iter::from_fn;

use weftway_path::{Offset, Ring};

use super::InFlightPacket;

/// Number of buckets at first; later as many as there is room for packets.
const FIRST_BUCKETS: usize = 16;

/// A packet, and the one sent before it whose data fall into the same bucket.
#[derive(Clone, Copy)]
struct Entry {
    packet: InFlightPacket,
    before: u64,
}

/// Packets under way. They come at the end and leave at the front.
#[derive(Clone, Default)]
pub(super) struct Packets {
    /// None for numbers of which nothing was told: probes have numbers too.
    ring: Ring<Option<Entry>>,
    /// Number of a decision less its number in the ring.
    skipped: u64,
    /// For each bucket of offsets the newest packet in it, by its number in the ring. One that has left is in no
    /// bucket: the ring does not know its number any more.
    newest: Vec<u64>,
}

impl Packets {
    #[inline]
    pub fn get(&self, serial: u64) -> Option<&InFlightPacket> {
        Some(&self.ring.get(serial.wrapping_sub(self.skipped))?.as_ref()?.packet)
    }

    #[inline]
    pub fn get_mut(&mut self, serial: u64) -> Option<&mut InFlightPacket> {
        Some(&mut self.ring.get_mut(serial.wrapping_sub(self.skipped))?.as_mut()?.packet)
    }

    /// The lowest number of those that are there.
    #[inline]
    pub fn first(&self) -> u64 {
        self.ring.base().wrapping_add(self.skipped)
    }

    #[cfg(test)]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Packets with the data at `offset`, newest first, each with the number of its decision.
    pub fn with_data(&self, offset: Offset) -> impl Iterator<Item = (u64, &InFlightPacket)> {
        let mut next = if self.newest.is_empty() { None } else { Some(self.newest[bucket(offset, self.newest.len())]) };
        let mut packets = from_fn(move || {
            let number = next?;
            let Entry { packet, before } = self.ring.get(number)?.as_ref()?;
            next = Some(*before);
            Some((number.wrapping_add(self.skipped), packet))
        });
        from_fn(move || packets.find(|(_, packet)| packet.offset == offset))
    }

    /// The packet with this number was sent. If it is told of late, when another has a higher one, it is not kept: a
    /// gate tells so of what a path carried before its first acknowledgement. Whether it is kept.
    #[inline(always)]
    pub fn push(&mut self, serial: u64, packet: InFlightPacket) -> bool {
        if self.ring.is_empty() {
            self.skipped = serial.wrapping_sub(self.ring.end());
        }
        let next = self.ring.end().wrapping_add(self.skipped);
        if serial < next {
            return false;
        }
        if serial > next {
            (next..serial).for_each(|_| self.ring.push(None));
        }
        if self.ring.len() >= self.newest.len() {
            self.grow();
        }
        let buckets = self.newest.len();
        let before = core::mem::replace(&mut self.newest[bucket(packet.offset, buckets)], self.ring.end());
        self.ring.push_with(|| Some(Entry { packet, before }));
        true
    }

    /// More buckets: a chain stays short.
    #[cold]
    fn grow(&mut self) {
        let buckets = (2 * self.ring.len()).next_power_of_two().max(FIRST_BUCKETS);
        self.newest = vec![u64::MAX; buckets];
        for number in self.ring.base()..self.ring.end() {
            if let Some(Some(entry)) = self.ring.get_mut(number) {
                let newest = &mut self.newest[bucket(entry.packet.offset, buckets)];
                entry.before = core::mem::replace(newest, number);
            }
        }
    }

    /// The oldest packets leave as long as they are over; `left` hears of each.
    #[inline(always)]
    pub fn forget(&mut self, is_over: impl Fn(&InFlightPacket) -> bool, mut left: impl FnMut(&InFlightPacket)) {
        while let Some(oldest) = self.ring.front() {
            if let Some(Entry { packet, .. }) = oldest {
                if !is_over(packet) {
                    return;
                }
                left(packet);
            }
            self.ring.pop();
        }
    }
}

/// In which of so many buckets, a power of two, data at `offset` are: neighbours are in different ones (Fibonacci
/// hashing, Knuth, The Art of Computer Programming 3, 6.4).
fn bucket(offset: Offset, buckets: usize) -> usize {
    (offset.get().wrapping_mul(0x9E37_79B9_7F4A_7C15) >> 32) as usize & (buckets - 1)
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, Instant, PathId, PathSet};

    use super::*;

    fn packet(path: u8, offset: u64) -> InFlightPacket {
        let path = PathId::new(path);
        InFlightPacket {
            path,
            offset: Offset::new(offset),
            end: Offset::new(offset + 100),
            given: Bytes::ZERO,
            carried: PathSet::of(path),
            sent: Instant::ZERO,
            eta: Instant::ZERO,
            due: Instant::ZERO,
            same_data: None,
            lost: false,
            settled: false,
            closed: false,
            is_copy: false,
        }
    }

    /// A packet that is told of late is not kept, and the others keep their numbers.
    #[test]
    fn a_number_that_comes_late_moves_no_other() {
        let mut packets = Packets::default();
        assert_eq!([5, 8, 6, 9].map(|serial| packets.push(serial, packet(0, serial * 100))), [true, true, false, true]);
        let found = |serial| packets.get(serial).map(|packet| packet.offset.get());
        assert_eq!([5, 6, 8, 9, 10].map(found), [Some(500), None, Some(800), Some(900), None]);
    }

    /// Packets of few data and many numbers: with the same data are those that a search through all of them finds.
    #[test]
    fn packets_with_the_same_data_are_found_while_others_come_and_go() {
        let (mut packets, mut all, mut state) = (Packets::default(), Vec::new(), 7u64);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        let mut serial = 5;
        for step in 0..3000 {
            let offset = draw(if step < 1500 { 40 } else { 400 }) * 100;
            assert!(packets.push(serial, packet((serial % 3) as u8, offset)));
            all.push((serial, offset));
            serial += 1 + draw(2);
            // Now and then most of the oldest leave, or all.
            if draw(100) == 0 {
                let left = [serial, serial.saturating_sub(200)][draw(2) as usize];
                while packets.first() < left && !packets.is_empty() {
                    let first = packets.first();
                    packets.get_mut(first).expect("it is the first").given = Bytes::new(1);
                    packets.forget(|packet| packet.given == Bytes::new(1), |_| {});
                }
                all.retain(|(serial, _)| packets.get(*serial).is_some());
            }
            let offset = draw(40) * 100;
            let found: Vec<_> = packets.with_data(Offset::new(offset)).map(|(serial, _)| serial).collect();
            let same = all.iter().rev().filter(|(_, other)| *other == offset).map(|(serial, _)| *serial);
            assert_eq!(found, same.collect::<Vec<_>>(), "step {step}");
        }
    }
}
