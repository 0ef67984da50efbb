//! Packets that one path has sent and not settled: a ring that slides over [una, next).

use weftway_path::{Bytes, Instant, Offset, Path, PathId, Receipt, Ring, SendKind};

/// Data given to a path and not sent yet.
#[derive(Clone, Copy, Debug)]
pub struct Assigned {
    /// The chunk.
    pub chunk: u64,
    /// The number of the decision.
    pub serial: u64,
    /// Reason for which the packet was sent.
    pub kind: SendKind,
    /// Its first byte.
    pub offset: Offset,
    /// Its payload.
    pub bytes: u32,
    /// True if the path had not carried the chunk before.
    pub first: bool,
    /// The first offset after everything that the path had carried when this joined its queue.
    pub after: Offset,
}

impl Assigned {
    /// Joins the queue of the path with this `view`, and takes `charge` of its window there.
    #[inline]
    pub fn join_queue(&mut self, view: &mut Path, charge: Bytes) {
        self.after = view.next;
        view.queued += charge;
        view.next = view.next.max(self.offset + Bytes::new(u64::from(self.bytes)));
    }

    /// Receipt that schedulers are told of it on `path`.
    #[inline]
    pub fn receipt(&self, path: PathId) -> Receipt {
        let Self { offset, bytes, serial, .. } = *self;
        Receipt { path, offset, bytes: Bytes::new(u64::from(bytes)), serial }
    }
}

/// A packet that was sent.
#[derive(Clone, Copy, Debug)]
pub struct SentPacket {
    /// Time at which it was sent last.
    pub sent_at: Instant,
    /// Its first byte.
    pub offset: Offset,
    /// The connection's number of the decision that sent it.
    pub serial: u64,
    /// The connection's number of the chunk it carries.
    pub chunk: u64,
    /// The path's total of delivered bytes when it was sent.
    pub delivered: Bytes,
    /// Time at which that total last changed.
    pub delivered_at: Instant,
    /// Time at which the flight that it belongs to began.
    pub flight_start: Instant,
    /// Its payload.
    pub bytes: u32,
    /// Arrived.
    pub acked: bool,
    /// Declared lost, and neither sent again (TCP) nor acknowledged since.
    pub lost: bool,
    /// TCP: sent again, and that copy is in flight.
    pub retransmitted: bool,
    /// Sent more than once.
    pub ever_retransmitted: bool,
    /// Sent while the application limited the sender.
    pub app_limited: bool,
    /// The first of those that the sender handed to its device at once, in one buffer.
    pub heads_buffer: bool,
}

impl SentPacket {
    /// A packet that is sent for the first time.
    #[inline]
    pub fn new(now: Instant, offset: Offset, bytes: u32) -> Self {
        Self {
            sent_at: now,
            offset,
            serial: 0,
            chunk: 0,
            delivered: Bytes::ZERO,
            delivered_at: now,
            flight_start: now,
            bytes,
            acked: false,
            lost: false,
            retransmitted: false,
            ever_retransmitted: false,
            app_limited: false,
            heads_buffer: false,
        }
    }

    /// Returns true if it has arrived, or counts as lost.
    #[inline]
    pub fn is_settled(&self) -> bool {
        self.acked || self.lost
    }

    /// Returns true if nothing is known of it since it was sent, once.
    #[inline]
    pub fn is_undecided(&self) -> bool {
        !self.acked && !self.lost && !self.ever_retransmitted
    }

    /// Receipt by which the connection names it.
    #[inline]
    pub fn receipt(&self, path: PathId) -> Receipt {
        Receipt { path, offset: self.offset, bytes: Bytes::new(u64::from(self.bytes)), serial: self.serial }
    }
}

/// The ring.
#[derive(Clone, Debug, Default)]
pub struct Flight {
    ring: Ring<SentPacket>,
    /// Buffers in which the packets are kept.
    buffers: u64,
}

impl Flight {
    /// The lowest number that is not settled.
    #[inline]
    pub fn base(&self) -> u64 {
        self.ring.base()
    }

    /// The number of the next packet.
    #[inline]
    pub fn next(&self) -> u64 {
        self.ring.end()
    }

    /// The buffers in which the packets are kept that are not settled.
    #[inline]
    pub fn buffers(&self) -> u64 {
        self.buffers
    }

    /// Returns true if everything is settled.
    #[inline]
    pub fn is_empty(&self) -> bool {
        self.ring.is_empty()
    }

    /// Adds the next packet.
    #[inline]
    pub fn push(&mut self, packet: SentPacket) {
        self.buffers += u64::from(packet.heads_buffer);
        self.ring.push(packet);
    }

    /// All packets below number `next` are settled, if none is in flight: they take no room.
    pub fn skip_to(&mut self, next: u64) {
        self.ring.skip_to(next);
    }

    /// Packet number `index`, which is in the ring.
    #[inline]
    pub fn at(&self, index: u64) -> &SentPacket {
        &self.ring[index]
    }

    /// Packet number `index`, which is in the ring.
    #[inline]
    pub fn at_mut(&mut self, index: u64) -> &mut SentPacket {
        &mut self.ring[index]
    }

    /// Packet number `index`, if it is not settled.
    #[inline]
    pub fn get_mut(&mut self, index: u64) -> Option<&mut SentPacket> {
        self.ring.get_mut(index)
    }

    /// The oldest packet.
    #[inline]
    pub fn front(&self) -> Option<&SentPacket> {
        self.ring.front()
    }

    /// The oldest packet that has neither arrived nor counts as lost, of those with number `from` and above.
    #[inline]
    pub fn oldest_unsettled(&self, from: u64) -> Option<&SentPacket> {
        let mut number = from.max(self.base());
        while number < self.next() {
            let packet = self.at(number);
            if !packet.is_settled() {
                return Some(packet);
            }
            number += 1;
        }
        None
    }

    /// Settles the oldest packet.
    #[inline]
    pub fn pop(&mut self) -> Option<&SentPacket> {
        let packet = self.ring.pop()?;
        self.buffers -= u64::from(packet.heads_buffer);
        Some(packet)
    }

    /// Settles every packet below number `end`, all of which are in the ring, and shows each to `settled`; their
    /// payload.
    #[inline(always)]
    pub fn settle_below(&mut self, end: u64, mut settled: impl FnMut(&SentPacket)) -> Bytes {
        let (mut bytes, mut heads) = (0, 0);
        for index in self.ring.base()..end {
            let packet = &self.ring[index];
            bytes += u64::from(packet.bytes);
            heads += u64::from(packet.heads_buffer);
            settled(packet);
        }
        self.buffers -= heads;
        self.ring.forget_below(end);
        Bytes::new(bytes)
    }

    /// The packets that are not settled, oldest first.
    pub fn iter(&self) -> impl Iterator<Item = &SentPacket> {
        self.ring.iter()
    }

    /// The packets that are not settled, oldest first.
    pub fn iter_mut(&mut self) -> impl Iterator<Item = &mut SentPacket> {
        self.ring.iter_mut()
    }

    /// Forgets everything; numbers go on.
    pub fn clear(&mut self) {
        self.ring.clear();
        self.buffers = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Five packets in buffers of two: numbers 0 and 2 and 4 head one. With 0 to 2 gone, 3 is left in the second
    /// buffer, whose head is gone, and 4 in the third.
    #[test]
    fn packets_settled_together_take_the_heads_of_their_buffers_along() {
        let mut flight = Flight::default();
        for index in 0..5 {
            let packet = SentPacket::new(Instant::from_millis(index), Offset::ZERO, 100);
            flight.push(SentPacket { heads_buffer: index % 2 == 0, ..packet });
        }
        let mut times = Vec::new();
        assert_eq!(flight.settle_below(3, |packet| times.push(packet.sent_at)), Bytes::new(300));
        assert_eq!(times, [0, 1, 2].map(Instant::from_millis));
        flight.skip_to(9);
        assert_eq!((flight.base(), flight.next(), flight.buffers()), (3, 5, 1));
        assert_eq!(flight.front().map(|packet| packet.sent_at), Some(Instant::from_millis(3)));
        flight.settle_below(5, |_| ());
        flight.skip_to(400_000);
        flight.push(SentPacket::new(Instant::ZERO, Offset::ZERO, 100));
        flight.skip_to(7);
        assert_eq!((flight.base(), flight.next(), flight.iter().count()), (400_000, 400_001, 1));
        assert!(flight.get_mut(4).is_none() && flight.get_mut(400_000).is_some());
    }
}
