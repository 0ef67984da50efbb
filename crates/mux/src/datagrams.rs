//! Datagrams: those that wait to be cut, by class, while they can arrive in time; and those that have arrived, the latest of
//! them.
//!
//! Flows share what there is for their class (self-clocked fair queueing, Golestani 1994): each datagram has a tag,
//! which is that of its flow's last one, or of the one that was cut last, and its length. The least tag is cut first.
//! A flow that sends more than its share delays its own datagrams only.

use std::collections::VecDeque;

use bytes::Bytes;
use weftway_path::{Instant, Offset, Span};

use crate::frame::datagram_head;
use crate::id::StreamId;
use crate::limits::{CLASSES, MOST_DATAGRAMS_WAITING};

/// Memory that a datagram takes beside its bytes.
pub const COST: u64 = 64;

/// Returns the time within which a datagram should leave that should arrive within `arrive_within`, where the way takes
/// `least` time at least and `usual` time as things are now: half of the time is for waiting, unless the way takes more.
pub fn leave_within(arrive_within: Span, [least, usual]: [Span; 2]) -> Span {
    // The usual time may be much longer than the least, where delays vary.
    arrive_within.saturating_sub(usual.min(least.max(arrive_within / 2)))
}

/// A datagram that waits to be cut.
#[derive(Clone, Debug)]
pub struct Waiting {
    /// The stream that it belongs to.
    pub flow: StreamId,
    /// Its bytes.
    pub bytes: Bytes,
    /// Time at which it was written.
    pub written: Instant,
    /// Time after which it is not cut.
    pub leave_by: Instant,
    /// Time by which it should have arrived.
    pub deadline: Instant,
}

impl Waiting {
    /// Memory that it takes: what its flow has used of its share once it is cut.
    fn cost(&self) -> u64 {
        self.bytes.len() as u64 + COST
    }
}

/// Datagrams of a class that wait to be cut, by their tags.
#[derive(Clone, Debug, Default)]
struct Queue {
    waiting: VecDeque<(u64, Waiting)>,
    /// The tag of the last datagram of each flow that has any.
    last: Vec<(StreamId, u64)>,
    /// The tag of the one that was cut last.
    cut: u64,
    /// Flows some of whose datagrams are dropped, each with the tag of the datagram that stays before the next one:
    /// room for them.
    dropped: Vec<(StreamId, u64)>,
}

impl Queue {
    fn push(&mut self, datagram: Waiting) {
        let length = datagram.cost();
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
        // Where a long datagram was dropped, a shorter one behind it may have a lesser tag.
        self.cut = self.cut.max(tag);
        // Of its flow it is the last.
        if let Some(at) = self.last.iter().position(|last| *last == (datagram.flow, tag)) {
            self.last.swap_remove(at);
        }
        Some(datagram)
    }

    /// Drops others: returns how many. Their flows have not used what they were given: the datagrams behind take over
    /// their tags.
    fn keep(&mut self, stays: impl Fn(&Waiting) -> bool) -> usize {
        let Self { waiting, last, dropped, .. } = self;
        let before = waiting.len();
        waiting.retain_mut(|(tag, datagram)| {
            let stays = stays(datagram);
            match dropped.iter_mut().find(|(flow, _)| *flow == datagram.flow) {
                Some((_, newest)) if stays => {
                    *newest += datagram.cost();
                    *tag = *newest;
                }
                None if !stays => dropped.push((datagram.flow, *tag - datagram.cost())),
                _ => {}
            }
            stays
        });
        let count = before - waiting.len();
        if !waiting.iter().is_sorted_by_key(|(tag, _)| tag) {
            waiting.make_contiguous().sort_by_key(|(tag, _)| *tag);
        }
        for (flow, newest) in dropped.drain(..) {
            let Some(at) = last.iter().position(|(other, _)| *other == flow) else { continue };
            if waiting.iter().any(|(_, datagram)| datagram.flow == flow) {
                last[at].1 = newest;
            } else {
                last.swap_remove(at);
            }
        }
        count
    }

    /// Bytes of a flow that wait, with [`COST`] for each datagram; up to one datagram less.
    fn of(&self, flow: StreamId) -> u64 {
        self.last.iter().find(|(other, _)| *other == flow).map_or(0, |(_, tag)| tag.saturating_sub(self.cut))
    }
}

/// Datagrams that wait to be cut.
#[derive(Clone, Debug)]
pub struct Outbox {
    classes: [Queue; CLASSES],
    bytes: u64,
    /// No datagram has an earlier `leave_by`.
    earliest: Instant,
    /// Number of datagrams that were dropped since they would have left too late.
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

    /// Number of datagrams that were dropped since they would have left too late.
    pub fn expired(&self) -> u64 {
        self.expired
    }

    /// Bytes of a flow that wait in a class, with [`COST`] for each datagram; up to one datagram less.
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
        self.earliest = self.earliest.min(datagram.leave_by);
        self.classes[usize::from(class)].push(datagram);
    }

    /// Takes the next of `class` out.
    pub fn pop(&mut self, class: u8) -> Option<Waiting> {
        let datagram = self.classes[usize::from(class)].pop()?;
        self.bytes -= datagram.bytes.len() as u64;
        Some(datagram)
    }

    /// Drops those that would leave too late: calls `emptied` with each class that has none left.
    pub fn expire(&mut self, now: Instant, mut emptied: impl FnMut(u8)) {
        if now >= self.earliest {
            self.keep(|datagram| datagram.leave_by > now, &mut emptied);
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
        self.earliest = left().map(|datagram| datagram.leave_by).min().unwrap_or(Instant::NEVER);
    }

    /// Number and bytes of the datagrams of `class` that fit into `room`, whole and with their heads; and of them the
    /// first with the earliest deadline.
    pub fn fitting(&self, class: u8, room: usize) -> (usize, usize, Option<&Waiting>) {
        let queue = &self.classes[usize::from(class)].waiting;
        let (mut count, mut bytes, mut urgent) = (0, 0, None::<&Waiting>);
        for (_, datagram) in queue {
            let length = datagram_head(datagram.flow) + datagram.bytes.len();
            if bytes + length > room {
                break;
            }
            (count, bytes) = (count + 1, bytes + length);
            if urgent.is_none_or(|urgent| datagram.deadline < urgent.deadline) {
                urgent = Some(datagram);
            }
        }
        (count, bytes, urgent)
    }
}

/// Datagrams that have arrived, by the places of their records.
#[derive(Clone, Debug, Default)]
pub struct Inbox {
    queue: VecDeque<(Offset, StreamId, Bytes)>,
    bytes: u64,
    dropped: u64,
}

impl Inbox {
    /// Takes a datagram that arrives in the record at `place`: returns true if it is the only one that waits. The first
    /// are dropped if there is no room.
    pub fn push(&mut self, place: Offset, flow: StreamId, bytes: &[u8]) -> bool {
        let is_last = self.queue.back().is_none_or(|(last, ..)| *last <= place);
        let at = if is_last { self.queue.len() } else { self.queue.partition_point(|(other, ..)| *other <= place) };
        self.queue.insert(at, (place, flow, Bytes::copy_from_slice(bytes)));
        self.bytes += bytes.len() as u64 + COST;
        while self.bytes > MOST_DATAGRAMS_WAITING.get() && self.pop().is_some() {
            self.dropped += 1;
        }
        self.queue.len() == 1
    }

    /// The first.
    pub fn pop(&mut self) -> Option<(Offset, StreamId, Bytes)> {
        let first = self.queue.pop_front()?;
        self.bytes -= first.2.len() as u64 + COST;
        Some(first)
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

    /// A datagram of class 1 that may be cut until `ms`.
    fn push(outbox: &mut Outbox, flow: StreamId, length: usize, ms: u64) {
        let (bytes, leave_by) = (Bytes::from(vec![0; length]), Instant::from_millis(ms));
        outbox.push(1, Waiting { flow, bytes, written: Instant::ZERO, leave_by, deadline: leave_by });
    }

    #[test]
    fn a_datagram_leaves_whole_or_expires() {
        let mut outbox = Outbox::default();
        for (bytes, ms) in [(10, 5), (20, 1), (30, 9)] {
            push(&mut outbox, flow(), bytes, ms);
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

    /// One is cut each second, and each may wait for `seconds`. Flows offer so many a second, of so many bytes with
    /// what each takes beside them. Returns how many bytes of each are cut in 200 s.
    fn cut_of_flows<const N: usize>(offers: [(u64, u64); N], seconds: u64) -> [u64; N] {
        let mut outbox = Outbox::default();
        let mut cut = [0; N];
        for ms in 1..=200_000 {
            for (at, (rate, length)) in offers.into_iter().enumerate() {
                if ms * rate % 1000 < rate {
                    push(&mut outbox, StreamId::from_wire(at as u64), (length - COST) as usize, ms + seconds * 1000);
                }
            }
            outbox.expire(Instant::from_millis(ms), |_| {});
            if ms % 1000 == 0 {
                let datagram = outbox.pop(1).unwrap();
                cut[datagram.flow.wire() as usize] += datagram.cost();
            }
            let queue = &outbox.classes[1];
            assert!(queue.waiting.iter().is_sorted_by_key(|(tag, _)| tag));
            for flow in (0..N as u64).map(StreamId::from_wire) {
                let lengths = queue.waiting.iter().filter(|(_, datagram)| datagram.flow == flow);
                let waits: u64 = lengths.map(|(_, datagram)| datagram.cost()).sum();
                let told = queue.of(flow);
                assert!(told <= waits && waits - told <= 1_000, "{waits} bytes wait, {told} are told");
                assert_eq!(queue.last.iter().any(|(other, _)| *other == flow), waits > 0);
            }
        }
        cut
    }

    #[test]
    fn flows_most_of_whose_datagrams_expire_share_alike() {
        for seconds in 1..=5 {
            for rates in [[10, 2], [2, 10], [40, 3]] {
                let cut = cut_of_flows(rates.map(|rate| (rate, 1_000)), seconds);
                assert!(cut.iter().all(|bytes| (80_000..=120_000).contains(bytes)), "{seconds} s, {rates:?}: {cut:?}");
            }
        }
    }

    /// Alike in bytes: of the short datagrams four are cut for each long one.
    #[test]
    fn flows_of_short_and_long_datagrams_share_alike() {
        for seconds in 2..=5 {
            let [long, short] = cut_of_flows([(10, 1_000), (10, 250)], seconds);
            assert!((0.4..0.6).contains(&(long as f64 / (long + short) as f64)), "{seconds} s: {long} {short}");
        }
    }

    /// A flow that sends less than its share gets all of it through.
    #[test]
    fn a_flow_with_less_than_its_share_loses_nothing() {
        let mut outbox = Outbox::default();
        let [flood, voice] = [0, 4].map(StreamId::from_wire);
        for second in 1..=100 {
            (0..20).for_each(|_| push(&mut outbox, flood, 1000, (second + 2) * 1000));
            if second % 3 == 0 {
                push(&mut outbox, voice, 100, (second + 2) * 1000);
            }
            outbox.expire(Instant::from_millis(second * 1000), |_| {});
            let next = outbox.pop(1).unwrap();
            assert_eq!(next.flow == voice, second % 3 == 0, "{second}");
        }
    }

    #[test]
    fn half_of_the_time_is_for_waiting_unless_the_way_takes_more() {
        let ms = Span::from_millis;
        let leave = |way: [u64; 2]| leave_within(ms(100), way.map(ms)).as_millis_f64();
        assert_eq!([[10, 20], [10, 80], [60, 80], [120, 150]].map(leave), [80.0, 50.0, 40.0, 0.0]);
    }

    #[test]
    fn what_overtook_others_comes_after_them() {
        let mut inbox = Inbox::default();
        let ready = [30, 10, 20, 20, 40].map(|at| inbox.push(Offset::new(at), flow(), &[at as u8]));
        assert_eq!(ready, [true, false, false, false, false]);
        let places = std::iter::from_fn(|| inbox.pop()).map(|(place, ..)| place.get());
        assert_eq!(places.collect::<Vec<_>>(), [10, 20, 20, 30, 40]);
        assert_eq!(inbox.bytes, 0);
    }

    #[test]
    fn the_latest_that_fit_are_kept() {
        let mut inbox = Inbox::default();
        assert!(inbox.push(Offset::ZERO, flow(), &[0]));
        for number in 0..5000u32 {
            inbox.push(Offset::new(number.into()), flow(), &[&number.to_be_bytes()[..], &[0; 1000]].concat());
            assert!(inbox.bytes <= MOST_DATAGRAMS_WAITING.get());
        }
        // 4 MiB hold 3927 of 1004 + 64 bytes.
        assert_eq!(inbox.dropped(), 5001 - 3927);
        assert_eq!(inbox.pop().unwrap().2[..4], (5000u32 - 3927).to_be_bytes());
    }
}
