//! Bytes of the stream that have arrived and are not with the disk yet, in pieces that go to the disk as they are.

use std::collections::VecDeque;

/// Bytes that go to the disk at a time, unless fewer are left.
pub(crate) const PIECE: u64 = 256 << 10;

/// The part of the stream that waits for the disk, and what has arrived beyond it.
#[derive(Default)]
pub(crate) struct Arrived {
    /// Byte `at` of the stream is in piece `at / PIECE`. The first one here has byte `handed`. One of which nothing has
    /// arrived is empty.
    pieces: VecDeque<Vec<u8>>,
    /// Everything before it is with the disk.
    handed: u64,
    /// Memory for pieces. The last one that was used is the next: it may still be in the processor's cache.
    spare: Vec<Vec<u8>>,
}

impl Arrived {
    /// Everything before it is with the disk.
    pub fn handed(&self) -> u64 {
        self.handed
    }

    /// Keeps `data`, which begin at byte `from`. Everything before `next` has arrived already, and is left out.
    pub fn keep(&mut self, mut from: u64, mut data: &[u8], next: u64) {
        if from < next {
            let known = usize::try_from(next - from).unwrap_or(usize::MAX).min(data.len());
            (from, data) = (from + known as u64, &data[known..]);
        }
        while !data.is_empty() {
            let (index, at) = ((from / PIECE - self.handed / PIECE) as usize, (from % PIECE) as usize);
            let (part, rest) = data.split_at(data.len().min(PIECE as usize - at));
            if self.pieces.len() <= index {
                self.pieces.resize_with(index + 1, Vec::new);
            }
            let piece = &mut self.pieces[index];
            if piece.is_empty() {
                *piece = self.spare.pop().unwrap_or_default();
                piece.resize(PIECE as usize, 0);
            }
            piece[at..at + part.len()].copy_from_slice(part);
            (from, data) = (from + part.len() as u64, rest);
        }
    }

    /// Takes the piece that goes to the disk next. Everything before `next` has arrived; if less than `least` of it
    /// waits, it waits on, unless the stream has no more than that before its `end`.
    pub fn take(&mut self, next: u64, least: u64, end: u64) -> Option<Vec<u8>> {
        let waiting = next.saturating_sub(self.handed);
        if waiting == 0 || waiting < least.min(end - self.handed) {
            return None;
        }
        let at = (self.handed % PIECE) as usize;
        let until = (at as u64 + waiting).min(PIECE) as usize;
        self.handed += (until - at) as u64;
        if until as u64 == PIECE {
            let mut piece = self.pieces.pop_front()?;
            piece.drain(..at);
            return Some(piece);
        }
        // More of it is to come.
        let mut part = self.spare.pop().unwrap_or_default();
        part.clear();
        part.extend_from_slice(&self.pieces.front()?[at..until]);
        Some(part)
    }

    /// The disk has written what was in `room`.
    pub fn recycle(&mut self, room: Vec<u8>) {
        self.spare.push(room);
    }
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use proptest::prelude::*;

    use super::*;

    fn stream(bytes: usize) -> Vec<u8> {
        (0..bytes).map(|at| (at % 251) as u8).collect()
    }

    #[test]
    fn whole_pieces_go_as_they_are_and_a_part_goes_when_it_must() {
        let data = stream(600_000);
        let mut arrived = Arrived::default();
        arrived.keep(0, &data[..1000], 0);
        assert_eq!(arrived.take(1000, PIECE, 600_000), None, "less than a piece waits");
        assert_eq!(arrived.take(1000, 1, 600_000).unwrap(), &data[..1000]);
        assert_eq!(arrived.take(1000, 1, 600_000), None, "nothing waits");
        // 500 bytes of it have arrived before.
        arrived.keep(500, &data[500..600_000], 1000);
        let sizes = [(1000, 262_144), (262_144, 524_288), (524_288, 600_000)];
        for (from, to) in sizes {
            let piece = arrived.take(600_000, PIECE, 600_000).unwrap();
            assert!(piece == data[from..to], "bytes {from} to {to}");
            assert_eq!(arrived.handed(), to as u64);
            arrived.recycle(piece);
        }
        assert_eq!(arrived.take(600_000, 1, 600_000), None);
    }

    #[test]
    fn memory_is_used_again() {
        let data = stream(PIECE as usize);
        let mut arrived = Arrived::default();
        for round in 0..3 {
            arrived.keep(round * PIECE, &data, round * PIECE);
            let piece = arrived.take((round + 1) * PIECE, PIECE, 3 * PIECE).unwrap();
            assert!(piece == data);
            arrived.recycle(piece);
            assert_eq!(arrived.spare.len(), 1);
        }
    }

    const RECORD: usize = 50_021;

    proptest! {
        /// Records come in any order within a window, some of them twice, and what is in order is taken at any time.
        #[test]
        fn what_is_taken_is_the_stream(steps in prop::collection::vec((0usize..40, any::<bool>(), any::<bool>()), 1..120)) {
            static DATA: LazyLock<Vec<u8>> = LazyLock::new(|| stream(40 * RECORD));
            let data = &*DATA;
            let (mut arrived, mut written, mut there) = (Arrived::default(), Vec::new(), [false; 40]);
            let all = (0..40).map(|at| (at, true, true));
            for (at, takes, waits) in steps.into_iter().chain(all) {
                let next = |there: &[bool; 40]| there.iter().take_while(|there| **there).count() * RECORD;
                arrived.keep((at * RECORD) as u64, &data[at * RECORD..(at + 1) * RECORD], next(&there) as u64);
                there[at] = true;
                let least = if waits { PIECE } else { 1 };
                while takes && let Some(piece) = arrived.take(next(&there) as u64, least, data.len() as u64) {
                    written.extend_from_slice(&piece);
                    arrived.recycle(piece);
                }
            }
            prop_assert!(written == *data);
        }
    }
}
