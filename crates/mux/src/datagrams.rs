//! Datagrams: those that wait to be cut, by class, until their deadline; and those that have arrived, the latest of
//! them.
//!
//! Flows share what there is for their class (self-clocked fair queueing, Golestani 1994): each datagram has a tag,
//! which is that of its flow's last one, or of the one that was cut last, and its length. The least tag is cut first.
//! So a flow that floods waits for itself.

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
    /// Until when it may be cut.
    pub deadline: Instant,
    /// By when it should have arrived.
    pub due: Instant,
}

/// Datagrams of a class that wait to be cut, by their tags.
#[derive(Clone, Debug, Default)]
struct Queue {
    waiting: VecDeque<(u64, Waiting)>,
    /// The tag of the last datagram of each flow that has any.
    last: Vec<(StreamId, u64)>,
    /// The tag of the one that was cut last.
    cut: u64,
    /// Flows some of whose datagrams are dropped: room for them.
    dropped: Vec<StreamId>,
}

impl Queue {
    fn push(&mut self, datagram: Waiting) {
        let length = datagram.bytes.len() as u64 + COST;
        let flow = datagram.flow;
        let tag = match self.last.iter_mut().find(|(other, _)| *other == flow) {
            Some((_, last)) => {
                *last += length;
                *last
            }
            None => {
                self.last.push((flow, self.cut + length));
                self.cut + length
            }
        };
        let at = if self.waiting.back().is_none_or(|(last, _)| *last <= tag) {
            self.waiting.len()
        } else {
            self.waiting.partition_point(|(other, _)| *other <= tag)
        };
        self.waiting.insert(at, (tag, datagram));
    }

    fn pop(&mut self) -> Option<Waiting> {
        let (tag, datagram) = self.waiting.pop_front()?;
        self.cut = tag;
        // Of its flow it is the last.
        if let Some(at) = self.last.iter().position(|last| *last == (datagram.flow, tag)) {
            self.last.swap_remove(at);
        }
        Some(datagram)
    }

    /// Drops others: returns how many. Their flows have not used what they were given.
    fn keep(&mut self, stays: impl Fn(&Waiting) -> bool) -> usize {
        let Self { waiting, last, dropped, .. } = self;
        let before = waiting.len();
        waiting.retain(|(_, datagram)| {
            let stays = stays(datagram);
            if !stays && !dropped.contains(&datagram.flow) {
                dropped.push(datagram.flow);
            }
            stays
        });
        for flow in dropped.drain(..) {
            let Some(at) = last.iter().position(|(other, _)| *other == flow) else { continue };
            match waiting.iter().rev().find(|(_, datagram)| datagram.flow == flow) {
                Some((tag, _)) => last[at].1 = *tag,
                None => drop(last.swap_remove(at)),
            }
        }
        before - waiting.len()
    }

    /// Bytes of a flow that wait, with what each takes beside them, or a datagram more.
    fn of(&self, flow: StreamId) -> u64 {
        self.last.iter().find(|(other, _)| *other == flow).map_or(0, |(_, tag)| tag - self.cut)
    }
}

/// Datagrams that wait to be cut.
#[derive(Clone, Debug)]
pub struct Outbox {
    classes: [Queue; CLASSES],
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
        self.bytes + COST * self.classes.iter().map(|queue| queue.waiting.len()).sum::<usize>() as u64
    }

    /// Number of datagrams that had passed their deadline before they were cut.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// The bytes of a flow in a class, with what each datagram takes beside them, or a datagram more.
    pub fn of(&self, class: u8, flow: StreamId) -> u64 {
        self.classes[usize::from(class)].of(flow)
    }

    /// Tells whether a datagram of `class` waits.
    pub fn has_more(&self, class: u8) -> bool {
        !self.classes[usize::from(class)].waiting.is_empty()
    }

    /// Adds one.
    pub fn push(&mut self, class: u8, datagram: Waiting) {
        self.bytes += datagram.bytes.len() as u64;
        self.earliest = self.earliest.min(datagram.deadline);
        self.classes[usize::from(class)].push(datagram);
    }

    /// Takes the next of `class` out.
    pub fn pop(&mut self, class: u8) -> Option<Waiting> {
        let datagram = self.classes[usize::from(class)].pop()?;
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
            let dropped = queue.keep(&stays);
            self.expired += dropped as u64;
            if queue.waiting.is_empty() && dropped > 0 {
                emptied(class);
            }
        }
        let left = || self.classes.iter().flat_map(|queue| &queue.waiting).map(|(_, datagram)| datagram);
        self.bytes = left().map(|datagram| datagram.bytes.len() as u64).sum();
        self.earliest = left().map(|datagram| datagram.deadline).min().unwrap_or(Instant::NEVER);
    }

    /// Number and bytes of the datagrams of `class` that fit into `room`, whole and with their heads; and the first of
    /// them.
    pub fn fitting(&self, class: u8, room: usize) -> (usize, usize, Option<&Waiting>) {
        let queue = &self.classes[usize::from(class)].waiting;
        let (mut count, mut bytes) = (0, 0);
        for (_, datagram) in queue {
            let length = datagram_head(datagram.flow) + datagram.bytes.len();
            if bytes + length > room {
                break;
            }
            (count, bytes) = (count + 1, bytes + length);
        }
        (count, bytes, queue.front().filter(|_| count > 0).map(|(_, datagram)| datagram))
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
            outbox.push(1, Waiting { flow: flow(), bytes, written: Instant::ZERO, deadline, due: deadline });
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
    fn a_flow_that_floods_waits_for_itself() {
        let mut outbox = Outbox::default();
        let [flood, voice, other] = [0, 4, 8].map(StreamId::from_wire);
        let push = |outbox: &mut Outbox, flow, length: usize, ms| {
            let (bytes, deadline) = (Bytes::from(vec![0; length]), Instant::from_millis(ms));
            outbox.push(1, Waiting { flow, bytes, written: Instant::ZERO, deadline, due: deadline });
        };
        let next = |outbox: &mut Outbox, count: usize| -> Vec<u64> {
            (0..count).filter_map(|_| outbox.pop(1)).map(|datagram| datagram.flow.wire()).collect()
        };
        (0..1000).for_each(|_| push(&mut outbox, flood, 1136, 50));
        assert_eq!((outbox.of(1, flood), outbox.of(1, voice)), (1_200_000, 0));
        assert_eq!(next(&mut outbox, 10), [0; 10]);
        // A short one goes next. Of others as long as those of the flood each second one does.
        push(&mut outbox, voice, 136, 99);
        assert_eq!(next(&mut outbox, 2), [4, 0]);
        (0..3).for_each(|_| push(&mut outbox, other, 1136, 99));
        assert_eq!(next(&mut outbox, 7), [0, 8, 0, 8, 0, 8, 0]);
        assert_eq!((outbox.of(1, flood), outbox.of(1, voice), outbox.of(1, other)), (985 * 1200, 0, 0));
        // What has expired was not cut: its flow has its share at once again.
        push(&mut outbox, other, 1136, 99);
        outbox.expire(Instant::from_millis(50), |_| panic!("one is left"));
        assert_eq!((outbox.of(1, flood), outbox.of(1, other), outbox.expired()), (0, 1200, 985));
        (0..2).for_each(|_| push(&mut outbox, flood, 1136, 99));
        (0..2).for_each(|_| push(&mut outbox, other, 1136, 99));
        assert_eq!(next(&mut outbox, 9), [8, 0, 0, 8, 8]);
        assert_eq!((outbox.memory(), outbox.classes[1].last.len()), (0, 0));
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
