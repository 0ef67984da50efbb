//! Memory for the packets under way.

/// Room for the devices' MTU and more: a packet that fills it was larger.
pub const LARGEST: usize = 2048;

/// Packets that fit before memory grows; 8 MiB.
const FIRST: usize = 4096;

/// A place for one packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Slot(u32);

/// Places for packets. It grows when all are taken, and never shrinks.
#[derive(Debug)]
pub struct Pool {
    memory: Vec<[u8; LARGEST]>,
    lengths: Vec<u16>,
    free: Vec<Slot>,
}

impl Pool {
    /// Room for some thousands of packets.
    pub fn new() -> Self {
        let mut pool = Self { memory: Vec::new(), lengths: Vec::new(), free: Vec::new() };
        pool.grow(FIRST);
        pool
    }

    /// Returns true if no place is free.
    pub fn is_empty(&self) -> bool {
        self.free.is_empty()
    }

    /// A free place; there must be one.
    pub fn take(&mut self) -> Slot {
        self.free.pop().expect("a place is free after `reclaim`")
    }

    /// Gives a place back.
    pub fn free(&mut self, slot: Slot) {
        self.free.push(slot);
    }

    /// Frees all places but those `held`. If few become free, there will be more.
    pub fn reclaim(&mut self, held: impl Iterator<Item = Slot>) {
        let mut is_held = vec![false; self.memory.len()];
        held.for_each(|slot| is_held[slot.0 as usize] = true);
        let free = is_held.iter().enumerate().filter(|(_, held)| !**held);
        self.free = free.map(|(at, _)| Slot(at as u32)).collect();
        if self.free.len() < self.memory.len() / 4 {
            self.grow(self.memory.len());
        }
    }

    /// Room where a packet can be put.
    pub fn room(&mut self, slot: Slot) -> &mut [u8] {
        &mut self.memory[slot.0 as usize]
    }

    /// Says how long the packet is that was put there.
    pub fn set_len(&mut self, slot: Slot, bytes: usize) {
        self.lengths[slot.0 as usize] = bytes as u16;
    }

    /// The packet.
    pub fn packet(&self, slot: Slot) -> &[u8] {
        &self.memory[slot.0 as usize][..usize::from(self.lengths[slot.0 as usize])]
    }

    fn grow(&mut self, by: usize) {
        let from = self.memory.len();
        self.memory.resize(from + by, [0; LARGEST]);
        self.lengths.resize(from + by, 0);
        self.free.extend((from..from + by).map(|at| Slot(at as u32)));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_stays_in_its_place() {
        let mut pool = Pool::new();
        let slot = pool.take();
        pool.room(slot)[..3].copy_from_slice(b"abc");
        pool.set_len(slot, 3);
        assert_eq!(pool.packet(slot), b"abc");
    }

    #[test]
    fn what_nobody_holds_is_free_again() {
        let mut pool = Pool::new();
        let taken: Vec<Slot> = (0..FIRST).map(|_| pool.take()).collect();
        assert!(pool.is_empty());
        pool.reclaim(taken[..2].iter().copied());
        assert_eq!(pool.free.len(), FIRST - 2);
        assert!(!pool.free.contains(&taken[0]) && pool.free.contains(&taken[2]));
    }

    #[test]
    fn it_grows_when_most_is_held() {
        let mut pool = Pool::new();
        let taken: Vec<Slot> = (0..FIRST).map(|_| pool.take()).collect();
        pool.reclaim(taken.into_iter());
        assert_eq!(pool.free.len(), FIRST);
    }
}
