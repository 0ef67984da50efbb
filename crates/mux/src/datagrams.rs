//! Datagrams: those that wait to be cut, by class, until their deadline; and those that have arrived, the latest of
//! them.

use std::collections::VecDeque;

use bytes::Bytes;
use weftway_path::Instant;

use crate::frame::datagram_head;
use crate::id::StreamId;
use crate::limits::{CLASSES, MOST_DATAGRAMS_WAITING};

/// Memory that a datagram takes beside its bytes.
pub const COST: u64 = 64;

/// A datagram that waits to be cut.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The stream that it belongs to.
    pub flow: StreamId,
    /// Its bytes.
    pub bytes: Bytes,
    /// Time at which it was written.
    pub written: Instant,
    /// Until when it is of use.
    pub deadline: Instant,
}

/// Datagrams that wait to be cut.
#[derive(Clone, Debug)]
pub struct Outbox {
    classes: [VecDeque<Waiting>; CLASSES],
    bytes: u64,
    /// No deadline is earlier.
    earliest: Instant,
    /// Number of datagrams that were dropped since their deadline had passed.
    expired: u64,
}

impl Default for Outbox {
    fn default() -> Self {
        Self { classes: Default::default(), bytes: 0, earliest: Instant::NEVER, expired: 0 }
    }
}

impl Outbox {
    /// The bytes of all.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// The memory of all.
    pub fn memory(&self) -> u64 {
        self.bytes + COST * self.classes.iter().map(VecDeque::len).sum::<usize>() as u64
    }

    /// Number of datagrams that had passed their deadline before they were cut.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Tells whether a datagram of `class` waits.
    pub fn has_more(&self, class: u8) -> bool {
        !self.classes[usize::from(class)].is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, class: u8, datagram: Waiting) {
        self.bytes += datagram.bytes.len() as u64;
        self.earliest = self.earliest.min(datagram.deadline);
        self.classes[usize::from(class)].push_back(datagram);
    }

    /// Takes the next of `class` out.
    pub fn pop(&mut self, class: u8) -> Option<Waiting> {
        let datagram = self.classes[usize::from(class)].pop_front()?;
        self.bytes -= datagram.bytes.len() as u64;
        Some(datagram)
    }

    /// Drops those whose deadline has passed: calls `emptied` with each class that has none left.
    pub fn expire(&mut self, now: Instant, mut emptied: impl FnMut(u8)) {
        if now >= self.earliest {
            self.keep(|datagram| datagram.deadline > now, &mut emptied);
        }
    }

    /// Drops those that a record of `room` bytes does not hold: calls `emptied` with each class that has none left.
    pub fn shorten(&mut self, room: usize, mut emptied: impl FnMut(u8)) {
        self.keep(|datagram| datagram_head(datagram.flow) + datagram.bytes.len() <= room, &mut emptied);
    }

    fn keep(&mut self, stays: impl Fn(&Waiting) -> bool, emptied: &mut impl FnMut(u8)) {
        for (class, queue) in (0u8..).zip(&mut self.classes) {
            let before = queue.len();
            queue.retain(&stays);
            self.expired += (before - queue.len()) as u64;
            if queue.is_empty() && before > 0 {
                emptied(class);
            }
        }
        let left = || self.classes.iter().flatten();
        self.bytes = left().map(|datagram| datagram.bytes.len() as u64).sum();
        self.earliest = left().map(|datagram| datagram.deadline).min().unwrap_or(Instant::NEVER);
    }

    /// Number and bytes of the datagrams of `class` that fit into `room`, whole and with their heads; and the first of
    /// them.
    pub fn fitting(&self, class: u8, room: usize) -> (usize, usize, Option<&Waiting>) {
        let queue = &self.classes[usize::from(class)];
        let (mut count, mut bytes) = (0, 0);
        for datagram in queue {
            let length = datagram_head(datagram.flow) + datagram.bytes.len();
            if bytes + length > room {
                break;
            }
            (count, bytes) = (count + 1, bytes + length);
        }
        (count, bytes, queue.front().filter(|_| count > 0))
    }
}

/// Datagrams that have arrived.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    queue: VecDeque<(StreamId, Bytes)>,
    bytes: u64,
    dropped: u64,
}

impl Inbox {
    /// Takes a datagram that arrives, and tells whether it is the only one that waits. The oldest are dropped if there
    /// is no room.
    pub fn push(&mut self, flow: StreamId, bytes: &[u8]) -> bool {
        self.queue.push_back((flow, Bytes::copy_from_slice(bytes)));
        self.bytes += bytes.len() as u64 + COST;
        while self.bytes > MOST_DATAGRAMS_WAITING.get() && self.pop().is_some() {
            self.dropped += 1;
        }
        self.queue.len() == 1
    }

    /// The oldest.
    pub fn pop(&mut self) -> Option<(StreamId, Bytes)> {
        let (flow, bytes) = self.queue.pop_front()?;
        self.bytes -= bytes.len() as u64 + COST;
        Some((flow, bytes))
    }

    /// Number of datagrams that were dropped.
    pub fn dropped(&self) -> u64 {
        self.dropped
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> StreamId {
        StreamId::from_wire(0)
    }

    #[test]
    fn a_datagram_leaves_whole_or_expires() {
        let mut outbox = Outbox::default();
        for (bytes, ms) in [(10, 5), (20, 1), (30, 9)] {
            let (bytes, deadline) = (Bytes::from(vec![0; bytes]), Instant::from_millis(ms));
            outbox.push(1, Waiting { flow: flow(), bytes, written: Instant::ZERO, deadline });
        }
        // A head has 4 bytes: kind, stream, and the count in two.
        let fitting = |outbox: &Outbox, room| (outbox.fitting(1, room).0, outbox.fitting(1, room).1);
        assert_eq!([13, 37, 38, 99].map(|room| fitting(&outbox, room)), [(0, 0), (1, 14), (2, 38), (3, 72)]);
        let mut emptied = Vec::new();
        outbox.expire(Instant::from_millis(1), |class| emptied.push(class));
        assert_eq!((fitting(&outbox, 99), outbox.expired(), outbox.memory()), ((2, 48), 1, 40 + 2 * COST));
        // Of 14 and 34 bytes with their heads.
        outbox.shorten(34, |class| emptied.push(class));
        assert_eq!((fitting(&outbox, 99), outbox.expired()), ((2, 48), 1));
        outbox.shorten(33, |class| emptied.push(class));
        assert_eq!((fitting(&outbox, 99), outbox.expired(), outbox.memory()), ((1, 14), 2, 10 + COST));
        outbox.expire(Instant::from_millis(9), |class| emptied.push(class));
        assert_eq!((emptied, outbox.memory(), outbox.has_more(1)), (vec![1], 0, false));
    }

    #[test]
    fn the_latest_that_fit_are_kept() {
        let mut inbox = Inbox::default();
        assert!(inbox.push(flow(), &[0]));
        for number in 0..5000u32 {
            inbox.push(flow(), &[&number.to_be_bytes()[..], &[0; 1000]].concat());
            assert!(inbox.bytes <= MOST_DATAGRAMS_WAITING.get());
        }
        // 4 MiB hold 3927 of 1004 + 64 bytes.
        assert_eq!(inbox.dropped(), 5001 - 3927);
        assert_eq!(inbox.pop().unwrap().1[..4], (5000u32 - 3927).to_be_bytes());
    }
}
