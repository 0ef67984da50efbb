//! The sender's data: what the application wrote, cut into chunks of one packet each, from the
//! lowest unacknowledged byte to the highest that was cut.

use std::collections::VecDeque;

use weftway_path::{Bytes, Offset, PathId, PathSet, Ring};

/// A packet's worth of data.
#[derive(Clone, Copy, Debug)]
pub struct Chunk {
    /// Its first byte.
    pub offset: Offset,
    /// Its payload.
    pub bytes: u32,
    /// It has been given to a path at least once.
    pub sent: bool,
    /// It has arrived, as far as the sender knows (QUIC).
    pub acked: bool,
    /// It waits to be sent again.
    pub waiting: bool,
    /// The paths that have carried it.
    pub carried: PathSet,
    /// Paths among them that have lost it and have not carried it since (QUIC).
    lost_by: PathSet,
}

impl Chunk {
    /// The byte after its last.
    #[inline]
    pub fn end(&self) -> Offset {
        self.offset.plus(Bytes::new(u64::from(self.bytes)))
    }

    /// Returns true if `path` may carry a copy: it has not carried it, or has lost it, and it was sent again elsewhere.
    fn may_copy(&self, path: PathId) -> bool {
        !self.carried.contains(path) || self.lost_by.contains(path) && !self.waiting
    }

    /// Returns true if every path that has carried it has lost it (QUIC).
    fn is_lost_by_all(&self) -> bool {
        self.carried.minus(self.lost_by).is_empty()
    }
}

/// Chunks in the order of their data. Numbers count from the start of the connection.
#[derive(Clone, Debug, Default)]
pub struct Outbox {
    ring: Ring<Chunk>,
    /// The lowest chunk that was never sent; `base + len` when there is none.
    unsent: u64,
    /// Place where the next chunk is cut.
    cut: Offset,
    /// The first byte of the lowest chunk.
    una: Offset,
    /// The first byte that was never sent.
    next: Offset,
    /// Bytes cut and never sent (chunks that were skipped).
    skipped: u64,
    /// Chunks that wait to be sent again, lowest data first.
    reinjections: VecDeque<u64>,
}

impl Outbox {
    /// Everything below is acknowledged.
    #[inline]
    pub fn una(&self) -> Offset {
        self.una
    }

    /// Place where the next chunk is cut.
    #[inline]
    pub fn cut_at(&self) -> Offset {
        self.cut
    }

    /// The number of the lowest chunk that was cut and never sent.
    #[inline]
    pub fn first_unsent(&self) -> Option<u64> {
        (self.unsent < self.ring.end()).then_some(self.unsent)
    }

    /// The number of the next chunk that will be cut.
    #[inline]
    pub fn end(&self) -> u64 {
        self.ring.end()
    }

    /// The first byte that was never sent.
    #[inline]
    pub fn next(&self) -> Offset {
        self.next
    }

    /// Returns true if data were cut that do not fit below `edge`.
    pub fn is_blocked_by(&self, edge: Offset) -> bool {
        self.first_unsent().is_some_and(|number| self.chunk(number).end() > edge)
    }

    /// Bytes that were cut and never sent.
    #[inline]
    pub fn skipped(&self) -> u64 {
        self.skipped
    }

    /// Chunk `number`, which is neither acknowledged nor uncut.
    #[inline]
    pub fn chunk(&self, number: u64) -> &Chunk {
        &self.ring[number]
    }

    /// Chunk `number`, unless it is acknowledged.
    #[inline]
    pub fn get(&self, number: u64) -> Option<&Chunk> {
        self.ring.get(number)
    }

    /// The chunk of `bytes` that would be cut at the end, and its number.
    #[inline]
    pub fn next_cut(&self, bytes: u32) -> (u64, Chunk) {
        let chunk = Chunk {
            offset: self.cut,
            bytes,
            sent: false,
            acked: false,
            waiting: false,
            carried: PathSet::EMPTY,
            lost_by: PathSet::EMPTY,
        };
        (self.ring.end(), chunk)
    }

    /// Cuts a chunk of `bytes` at the end; it and its number.
    #[inline]
    pub fn cut(&mut self, bytes: u32) -> (u64, Chunk) {
        let (number, chunk) = self.next_cut(bytes);
        self.ring.push(chunk);
        self.cut = chunk.end();
        self.skipped += u64::from(bytes);
        (number, chunk)
    }

    /// Cuts a chunk of `bytes` at the end and gives it to `path`; what it was before.
    #[inline]
    pub fn cut_for(&mut self, bytes: u32, path: PathId) -> Chunk {
        let (number, before) = self.next_cut(bytes);
        self.ring.push_with(|| Chunk { sent: true, carried: PathSet::of(path), ..before });
        self.cut = before.end();
        if number == self.unsent {
            (self.unsent, self.next) = (number + 1, self.cut);
        }
        before
    }

    /// Chunk `number` is given to `path`; what it was before.
    #[inline]
    pub fn carry(&mut self, number: u64, path: PathId) -> Chunk {
        let chunk = &mut self.ring[number];
        let before = *chunk;
        chunk.carried = chunk.carried.with(path);
        chunk.lost_by = chunk.lost_by.without(path);
        if !chunk.sent {
            chunk.sent = true;
            self.skipped -= u64::from(chunk.bytes);
            if number == self.unsent {
                self.skip_sent();
            }
        }
        before
    }

    /// Chunk `number` is taken out of the queue of `path`, which `first` got it when it was put there. Data that no
    /// path has carried are unsent again; those that were handed back before, `again`, wait to be sent again.
    pub fn recall(&mut self, number: u64, path: PathId, first: bool, reinjection: bool) {
        let Some(chunk) = self.ring.get_mut(number) else { return };
        if first {
            chunk.carried = chunk.carried.without(path);
        } else if !reinjection {
            // A copy of what the path had lost (QUIC).
            chunk.lost_by = chunk.lost_by.with(path);
        }
        if !chunk.carried.is_empty() {
            if reinjection || chunk.is_lost_by_all() {
                self.hand_back(number);
            }
        } else if chunk.sent && !chunk.acked && !chunk.waiting {
            chunk.sent = false;
            self.skipped += u64::from(chunk.bytes);
            if number < self.unsent {
                (self.unsent, self.next) = (number, chunk.offset);
            }
        }
    }

    /// Chunk `unsent` is sent or gone: the lowest that is not is one of those after it.
    #[inline]
    fn skip_sent(&mut self) {
        self.unsent += 1;
        while self.unsent < self.ring.end() && self.ring[self.unsent].sent {
            self.unsent += 1;
        }
        self.next = if self.unsent < self.ring.end() { self.ring[self.unsent].offset } else { self.cut };
    }

    /// The number of the first chunk that begins at or after `offset`.
    fn at_or_after(&self, offset: Offset) -> u64 {
        let (base, end) = (self.ring.base(), self.ring.end());
        let (Some(first), Some(last)) = (self.ring.front(), self.ring.back()) else { return end };
        if offset > last.offset {
            return end;
        }
        // Nearly all chunks are of one size: then this is the number.
        let back = last.offset.since(offset).get() / u64::from(first.bytes.max(1));
        let guess = (end - 1).saturating_sub(back).max(base);
        let is_first = guess == base || self.ring[guess - 1].offset < offset;
        if is_first && self.ring[guess].offset >= offset {
            return guess;
        }
        self.ring.partition_point(|chunk| chunk.offset < offset)
    }

    /// The first unsent chunk at or after `offset` among those that are cut.
    pub fn unsent_from(&self, offset: Offset) -> Option<u64> {
        let end = self.ring.end();
        (self.at_or_after(offset).max(self.unsent)..end).find(|&number| !self.chunk(number).sent)
    }

    /// The first sent and unacknowledged chunk at or after `offset` that `path` has not carried; or that it has lost,
    /// if it was sent again since.
    pub fn copy_from(&self, offset: Offset, path: PathId) -> Option<u64> {
        let end = self.ring.end();
        (self.at_or_after(offset)..end).find(|&number| {
            let chunk = self.chunk(number);
            chunk.sent && !chunk.acked && chunk.may_copy(path)
        })
    }

    /// Returns true if anything is sent and not acknowledged.
    #[inline]
    pub fn has_sent(&self) -> bool {
        self.ring.front().is_some_and(|chunk| chunk.sent) || self.unsent > self.ring.base()
    }

    /// Everything below `una` has arrived (DATA_ACK; QUIC: what the receiver tells with its limit), and what follows it
    /// and was acknowledged before.
    #[inline]
    pub fn acknowledge_below(&mut self, una: Offset) {
        while let Some(&chunk) = self.ring.front()
            && (chunk.end() <= una || chunk.acked)
        {
            self.ring.pop();
            self.settle(&chunk);
        }
    }

    /// Chunk `number` has arrived (QUIC).
    #[inline]
    pub fn acknowledge(&mut self, number: u64) {
        if number != self.ring.base() {
            if let Some(chunk) = self.ring.get_mut(number) {
                chunk.acked = true;
            }
            return;
        }
        if let Some(&chunk) = self.ring.pop() {
            self.settle(&chunk);
        }
        while let Some(&chunk) = self.ring.front()
            && chunk.acked
        {
            self.ring.pop();
            self.settle(&chunk);
        }
    }

    /// The lowest chunk was `chunk`, and has arrived.
    #[inline]
    fn settle(&mut self, chunk: &Chunk) {
        self.una = chunk.end();
        if !chunk.sent {
            self.skipped -= u64::from(chunk.bytes);
            // Nothing below it was unsent.
            self.skip_sent();
        }
    }

    /// Chunk `number` is to be sent again, if it is not acknowledged and does not wait already.
    pub fn hand_back(&mut self, number: u64) {
        let Some(chunk) = self.ring.get_mut(number) else { return };
        if chunk.acked || chunk.waiting || !chunk.sent {
            return;
        }
        chunk.waiting = true;
        if self.reinjections.back().is_none_or(|&last| last < number) {
            return self.reinjections.push_back(number);
        }
        let place = self.reinjections.partition_point(|&other| other < number);
        self.reinjections.insert(place, number);
    }

    /// `path` has lost chunk `number`, or will not send it (QUIC): it is to be sent again, on any path.
    pub fn lose(&mut self, number: u64, path: PathId) {
        if let Some(chunk) = self.ring.get_mut(number) {
            chunk.lost_by = chunk.lost_by.with(path);
        }
        self.hand_back(number);
    }

    /// `path` has lost chunk `number`, or was silent for too long with it (QUIC): it is to be sent again, unless
    /// another path carries it and has not lost it.
    pub fn lose_unless_elsewhere(&mut self, number: u64, path: PathId) {
        let Some(chunk) = self.ring.get_mut(number) else { return };
        chunk.lost_by = chunk.lost_by.with(path);
        if chunk.is_lost_by_all() {
            self.hand_back(number);
        }
    }

    /// The lowest chunk that waits to be sent again.
    #[inline]
    pub fn first_reinjection(&mut self) -> Option<u64> {
        while let Some(&number) = self.reinjections.front() {
            if self.get(number).is_some_and(|chunk| !chunk.acked) {
                return Some(number);
            }
            self.reinjections.pop_front();
        }
        None
    }

    /// The chunk that [`Outbox::first_reinjection`] named has been given to a path.
    pub fn took_reinjection(&mut self) {
        if let Some(number) = self.reinjections.pop_front() {
            self.ring[number].waiting = false;
        }
    }

    /// The chunks that are cut and not acknowledged, with their numbers, in the order of their data.
    pub fn chunks(&self) -> impl Iterator<Item = (u64, &Chunk)> {
        (self.ring.base()..).zip(self.ring.iter())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn outbox(chunks: usize) -> Outbox {
        let mut outbox = Outbox::default();
        for _ in 0..chunks {
            outbox.cut(100);
        }
        outbox
    }

    fn carry(outbox: &mut Outbox, number: u64, path: PathId) {
        outbox.carry(number, path);
    }

    #[test]
    fn skipped_chunks_are_sent_later() {
        let mut outbox = outbox(4);
        let p = PathId::new(1);
        let ahead = outbox.unsent_from(Offset::new(150)).unwrap();
        outbox.carry(ahead, p);
        assert_eq!((outbox.next(), outbox.skipped()), (Offset::ZERO, 300));
        outbox.carry(0, p);
        outbox.carry(1, p);
        assert_eq!(outbox.next(), Offset::new(300)); // chunk 2 went ahead
    }

    #[test]
    fn the_chunk_at_an_offset_is_found_whatever_the_sizes_of_the_others() {
        for sizes in [&[100; 8][..], &[100, 100, 20, 100, 100, 7, 100], &[7, 100, 100, 100], &[100, 100, 1]] {
            let mut outbox = Outbox::default();
            sizes.iter().for_each(|bytes| _ = outbox.cut(*bytes));
            outbox.acknowledge_below(Offset::new(u64::from(sizes[0])));
            for offset in 0..=outbox.cut_at().get() {
                let found = outbox.unsent_from(Offset::new(offset));
                let first = outbox.chunks().find(|(_, chunk)| chunk.offset.get() >= offset);
                assert_eq!(found, first.map(|(number, _)| number), "{offset} in {sizes:?}");
            }
        }
        assert_eq!(Outbox::default().unsent_from(Offset::ZERO), None);
    }

    #[test]
    fn a_chunk_that_a_path_takes_as_it_is_cut_is_one_cut_before() {
        let (mut at_once, mut before, p) = (outbox(0), outbox(0), PathId::new(1));
        for bytes in [100, 50] {
            let (number, chunk) = at_once.next_cut(bytes);
            assert_eq!(before.cut(bytes).0, number);
            assert_eq!(
                (at_once.cut_for(bytes, p).offset, before.carry(number, p).offset),
                (chunk.offset, chunk.offset)
            );
        }
        let seen =
            |outbox: &Outbox| (outbox.next(), outbox.cut_at(), outbox.skipped(), outbox.first_unsent(), outbox.end());
        assert_eq!(seen(&at_once), seen(&before));
        assert_eq!((at_once.chunk(1).sent, at_once.chunk(1).carried), (true, PathSet::of(p)));
    }

    #[test]
    fn a_chunk_taken_as_it_is_cut_does_not_send_those_before_it() {
        let mut outbox = outbox(1);
        outbox.cut_for(100, PathId::new(0));
        assert_eq!((outbox.next(), outbox.skipped(), outbox.first_unsent()), (Offset::ZERO, 100, Some(0)));
    }

    #[test]
    fn quic_acknowledgements_leave_no_hole_behind() {
        let mut outbox = outbox(3);
        (0..3).for_each(|number| carry(&mut outbox, number, PathId::new(0)));
        outbox.acknowledge(1);
        assert_eq!(outbox.una(), Offset::ZERO);
        outbox.acknowledge(0);
        assert_eq!(outbox.una(), Offset::new(200));
    }

    /// The receiver's limit tells of the lowest chunk, whose own acknowledgement is lost or late; the one after it was
    /// acknowledged before.
    #[test]
    fn what_was_acknowledged_before_is_settled_when_everything_below_is() {
        let mut outbox = outbox(3);
        (0..3).for_each(|number| carry(&mut outbox, number, PathId::new(0)));
        outbox.acknowledge(1);
        outbox.acknowledge_below(Offset::new(100));
        assert_eq!(outbox.una(), Offset::new(200));
        outbox.acknowledge(2);
        assert_eq!(outbox.una(), Offset::new(300));
    }

    #[test]
    fn what_is_handed_back_waits_in_the_order_of_its_data() {
        let mut outbox = outbox(3);
        (0..3).for_each(|number| carry(&mut outbox, number, PathId::new(0)));
        outbox.hand_back(2);
        outbox.hand_back(0);
        outbox.hand_back(2);
        assert_eq!(outbox.first_reinjection(), Some(0));
        outbox.acknowledge(0);
        assert_eq!(outbox.first_reinjection(), Some(2));
        outbox.took_reinjection();
        assert_eq!(outbox.first_reinjection(), None);
    }

    #[test]
    fn what_is_taken_back_is_unsent_unless_another_path_has_it() {
        let (mut outbox, [f, s]) = (outbox(4), [0, 1].map(PathId::new));
        (0..3).for_each(|number| carry(&mut outbox, number, f));
        outbox.carry(1, s);
        (1..3).for_each(|number| outbox.recall(number, f, true, false));
        assert_eq!((outbox.next(), outbox.skipped(), outbox.first_unsent()), (Offset::new(200), 200, Some(2)));
        assert_eq!(outbox.chunk(1).carried, PathSet::of(s));
        // The copy as well: now nobody has it.
        outbox.recall(1, s, true, false);
        assert_eq!((outbox.next(), outbox.skipped(), outbox.first_unsent()), (Offset::new(100), 300, Some(1)));
        (1..4).for_each(|number| carry(&mut outbox, number, s));
        assert_eq!((outbox.next(), outbox.skipped(), outbox.first_unsent()), (Offset::new(400), 0, None));
    }

    #[test]
    fn what_is_taken_back_after_it_was_handed_back_waits_again() {
        let (mut outbox, [f, s]) = (outbox(2), [0, 1].map(PathId::new));
        (0..2).for_each(|number| carry(&mut outbox, number, f));
        outbox.hand_back(0);
        assert_eq!(outbox.first_reinjection(), Some(0));
        outbox.took_reinjection();
        outbox.carry(0, s);
        outbox.recall(0, s, true, true);
        assert_eq!(
            (outbox.first_reinjection(), outbox.first_unsent(), outbox.chunk(0).carried),
            (Some(0), None, PathSet::of(f))
        );
    }

    #[test]
    fn a_path_copies_what_it_has_lost_once_that_was_sent_again_elsewhere() {
        let mut outbox = outbox(1);
        let [p, q] = [0, 1].map(PathId::new);
        outbox.carry(0, p);
        outbox.lose(0, p);
        // It waits, and is the packet at hand of whoever asks.
        assert_eq!((outbox.first_reinjection(), outbox.copy_from(Offset::ZERO, p)), (Some(0), None));
        outbox.took_reinjection();
        outbox.carry(0, q);
        assert_eq!([p, q].map(|path| outbox.copy_from(Offset::ZERO, path)), [Some(0), None]);
        outbox.carry(0, p);
        assert_eq!(outbox.copy_from(Offset::ZERO, p), None);
        // Lost on both, and on one of them again.
        outbox.lose(0, p);
        outbox.lose(0, q);
        outbox.took_reinjection();
        outbox.carry(0, q);
        assert_eq!([p, q].map(|path| outbox.copy_from(Offset::ZERO, path)), [Some(0), None]);
        outbox.carry(0, p);
        // MPTCP hands back what the path goes on to repair.
        outbox.hand_back(0);
        outbox.took_reinjection();
        outbox.carry(0, q);
        assert_eq!(outbox.copy_from(Offset::ZERO, p), None);
    }

    #[test]
    fn what_a_silent_path_has_waits_unless_another_path_carries_it() {
        let mut outbox = outbox(2);
        let [p, q] = [0, 1].map(PathId::new);
        (0..2).for_each(|number| carry(&mut outbox, number, p));
        outbox.carry(1, q);
        (0..2).for_each(|number| outbox.lose_unless_elsewhere(number, p));
        assert_eq!(outbox.first_reinjection(), Some(0));
        outbox.took_reinjection();
        outbox.carry(0, q);
        assert_eq!(outbox.first_reinjection(), None, "the other path has it");
        // The packet of the silent path is declared lost: the data are under way all the same, until the other path
        // loses them, too.
        outbox.lose_unless_elsewhere(0, p);
        assert_eq!(outbox.first_reinjection(), None);
        outbox.lose_unless_elsewhere(0, q);
        assert_eq!(outbox.first_reinjection(), Some(0));
    }

    #[test]
    fn a_copy_that_is_taken_back_leaves_its_data_to_be_sent_again_if_nobody_else_has_them() {
        let mut outbox = outbox(1);
        let [p, q] = [0, 1].map(PathId::new);
        outbox.carry(0, p);
        outbox.carry(0, q);
        outbox.lose_unless_elsewhere(0, p);
        assert_eq!(outbox.first_reinjection(), None, "a copy waits in the queue of the other path");
        outbox.recall(0, q, true, false);
        assert_eq!(outbox.first_reinjection(), Some(0));
        // The same where the path of the copy had carried and lost the data before.
        outbox.took_reinjection();
        outbox.carry(0, q);
        outbox.carry(0, p);
        outbox.lose_unless_elsewhere(0, q);
        outbox.recall(0, p, false, false);
        assert_eq!(outbox.first_reinjection(), Some(0));
    }

    #[test]
    fn a_path_does_not_copy_what_it_has_carried() {
        let mut outbox = outbox(2);
        (0..2).for_each(|number| carry(&mut outbox, number, PathId::new(0)));
        assert_eq!(outbox.copy_from(Offset::ZERO, PathId::new(0)), None);
        assert_eq!(outbox.copy_from(Offset::new(1), PathId::new(1)), Some(1));
    }
}
