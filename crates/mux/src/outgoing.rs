//! The half of a stream that leaves: what the application wrote, from where it waits to be cut to where it is
//! acknowledged.
//!
//! The application may write as far as the stream's credit, so whatever waits may be cut: a stream that has no credit
//! holds nothing back in any queue. Pieces that were cut are kept in their records, not here; here is only where they
//! are.

use std::collections::VecDeque;

use bytes::Bytes;
use weftway_path::{Instant, Offset};

/// Bytes that wait to be cut.
#[derive(Clone, Debug)]
struct Chunk {
    at: u64,
    bytes: Bytes,
    written: Instant,
    /// They were cut before, and their record is given up.
    again: bool,
}

/// A piece that was cut.
#[derive(Clone, Copy, Debug)]
struct Piece {
    at: u64,
    place: Offset,
    acked: bool,
}

/// Progress of the end of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// The application may write more.
    Open,
    /// It will not; this waits to be cut.
    Waiting,
    /// It was cut.
    Cut,
    /// The peer has it.
    Acked,
}

/// Sending side of a stream.
#[derive(Clone, Debug)]
pub struct Outgoing {
    /// In the order of their offsets.
    waiting: VecDeque<Chunk>,
    waiting_bytes: u64,
    again: usize,
    /// The end of what was written.
    written: u64,
    /// Offset up to which the peer lets it be written.
    edge: u64,
    end: End,
    /// Pieces in the order of their offsets, from the lowest that is not acknowledged.
    cut: VecDeque<Piece>,
    /// Number of them that are acknowledged.
    acked: usize,
}

/// A run of bytes that can be cut at once.
#[derive(Clone, Copy, Debug)]
pub struct Run {
    /// Its first byte.
    pub at: u64,
    /// Number of bytes, as far as was looked.
    pub bytes: usize,
    /// Time at which the first of them was written.
    pub written: Instant,
    /// Bytes that are left of that write.
    pub left: usize,
}

impl Outgoing {
    /// Makes the sending side of a stream with so much credit.
    pub fn new(edge: u64) -> Self {
        Self {
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            again: 0,
            written: 0,
            edge,
            end: End::Open,
            cut: VecDeque::new(),
            acked: 0,
        }
    }

    /// Further bytes that may be written.
    pub fn credit(&self) -> u64 {
        self.edge - self.written
    }

    /// The peer raises the credit to `edge`, if that is more.
    pub fn raise(&mut self, edge: u64) {
        self.edge = self.edge.max(edge);
    }

    /// Takes what the application writes, no more than [`Outgoing::credit`].
    pub fn write(&mut self, now: Instant, bytes: Bytes) {
        let (at, count) = (self.written, bytes.len() as u64);
        self.waiting.push_back(Chunk { at, bytes, written: now, again: false });
        self.waiting_bytes += count;
        self.written += count;
    }

    /// No more will be written. False if that was said before.
    pub fn finish(&mut self) -> bool {
        let open = self.end == End::Open;
        if open {
            self.end = End::Waiting;
        }
        open
    }

    /// Tells whether more may be written, were there credit.
    pub fn is_open(&self) -> bool {
        self.end == End::Open
    }

    /// Bytes that wait to be cut.
    pub fn waiting(&self) -> u64 {
        self.waiting_bytes
    }

    /// Bytes that are cut, without those that were taken back.
    pub fn cut_bytes(&self) -> u64 {
        self.written - self.waiting_bytes
    }

    /// Number of frames that have been taken back and wait to be cut again.
    pub fn again(&self) -> usize {
        self.again
    }

    /// Tells whether anything is to be cut.
    pub fn has_more(&self) -> bool {
        self.waiting_bytes > 0 || self.end == End::Waiting
    }

    /// Tells whether the peer has everything that will ever be.
    pub fn is_done(&self) -> bool {
        self.end == End::Acked && self.cut.is_empty() && self.waiting_bytes == 0
    }

    /// Bytes that can be cut next, of which no more than `most` are of interest; no bytes if only the end is left.
    pub fn front(&self, most: usize) -> Option<Run> {
        let Some(first) = self.waiting.front() else {
            let end = Run { at: self.written, bytes: 0, written: Instant::ZERO, left: 0 };
            return (self.end == End::Waiting).then_some(end);
        };
        let mut bytes = 0;
        for chunk in &self.waiting {
            if bytes >= most || chunk.at != first.at + bytes as u64 {
                break;
            }
            bytes += chunk.bytes.len();
        }
        Some(Run { at: first.at, bytes: bytes.min(most), written: first.written, left: first.bytes.len() })
    }

    /// Cuts the first `count` bytes, which [`Outgoing::front`] has shown, for the record at `place`, and calls `put`
    /// with them, in parts. Whether the stream ends behind them.
    pub fn cut(&mut self, count: usize, place: Offset, mut put: impl FnMut(&[u8])) -> bool {
        let at = self.waiting.front().map_or(self.written, |chunk| chunk.at);
        let mut left = count;
        while left > 0 {
            let Some(chunk) = self.waiting.front_mut() else { break };
            let part = chunk.bytes.split_to(left.min(chunk.bytes.len()));
            chunk.at += part.len() as u64;
            left -= part.len();
            put(&part);
            if chunk.bytes.is_empty() {
                self.again -= usize::from(chunk.again);
                self.waiting.pop_front();
            }
        }
        self.waiting_bytes -= (count - left) as u64;
        // What was taken back may be cut last, and is not the end.
        let fin = self.end == End::Waiting && self.waiting_bytes == 0 && at + count as u64 == self.written;
        if fin {
            self.end = End::Cut;
        }
        let piece = Piece { at, place, acked: false };
        match self.find(at) {
            Ok(known) => self.cut[known] = piece,
            Err(after) => self.cut.insert(after, piece),
        }
        fin
    }

    /// Finds the piece that begins at `at`, or its place.
    fn find(&self, at: u64) -> Result<usize, usize> {
        match self.cut.back() {
            // Nearly always the latest is the highest.
            Some(last) if at > last.at => Err(self.cut.len()),
            None => Err(0),
            _ => self.cut.binary_search_by_key(&at, |piece| piece.at),
        }
    }

    /// The piece at `at` has arrived, and is the end if it is `fin`.
    pub fn acknowledge(&mut self, at: u64, fin: bool) {
        if fin && self.end == End::Cut {
            self.end = End::Acked;
        }
        if let Ok(known) = self.find(at)
            && !self.cut[known].acked
        {
            self.cut[known].acked = true;
            self.acked += 1;
        }
        self.forget_acked();
    }

    /// The lowest piece that is kept is not acknowledged.
    fn forget_acked(&mut self) {
        while self.cut.front().is_some_and(|piece| piece.acked) {
            self.cut.pop_front();
            self.acked -= 1;
        }
    }

    /// The record of the piece at `at` is given up: its bytes wait to be cut again.
    pub fn take_back(&mut self, now: Instant, at: u64, bytes: Bytes, fin: bool) {
        let Ok(known) = self.find(at) else { return };
        self.cut.remove(known);
        self.forget_acked();
        if fin && self.end == End::Cut {
            self.end = End::Waiting;
        }
        if !bytes.is_empty() {
            self.waiting_bytes += bytes.len() as u64;
            self.again += 1;
            let place = self.waiting.partition_point(|chunk| chunk.at < at);
            self.waiting.insert(place, Chunk { at, bytes, written: now, again: true });
        }
    }

    /// The place of the lowest piece that is missing, if later ones have arrived and wait for it.
    pub fn hole(&self) -> Option<Offset> {
        self.cut.front().filter(|_| self.acked > 0).map(|piece| piece.place)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn cut(stream: &mut Outgoing, count: usize, place: u64) -> (Vec<u8>, bool) {
        let mut bytes = Vec::new();
        let fin = stream.cut(count, Offset::new(place), |part| bytes.extend_from_slice(part));
        (bytes, fin)
    }

    fn written(text: &'static [u8]) -> Outgoing {
        let mut stream = Outgoing::new(100);
        for (number, part) in text.chunks(3).enumerate() {
            stream.write(Instant::from_millis(number as u64), Bytes::from_static(part));
        }
        stream
    }

    #[test]
    fn a_piece_spans_writes_and_tells_what_is_left_of_the_first() {
        let mut stream = written(b"abcdefgh");
        assert_eq!(stream.credit(), 92);
        assert_eq!(cut(&mut stream, 4, 0), (b"abcd".to_vec(), false));
        let run = stream.front(10).unwrap();
        assert_eq!((run.at, run.bytes, run.left, run.written), (4, 4, 2, Instant::from_millis(1)));
        assert!(stream.finish() && !stream.finish());
        assert_eq!(cut(&mut stream, 4, 10), (b"efgh".to_vec(), true));
        assert!(!stream.has_more());
        stream.acknowledge(4, true);
        assert_eq!(stream.hole(), Some(Offset::ZERO));
        stream.acknowledge(0, false);
        assert!(stream.is_done() && stream.hole().is_none());
    }

    #[test]
    fn an_end_alone_is_cut_and_acknowledged() {
        let mut stream = written(b"abc");
        cut(&mut stream, 3, 0);
        stream.finish();
        assert_eq!(stream.front(9).map(|run| (run.at, run.bytes)), Some((3, 0)));
        assert_eq!(cut(&mut stream, 0, 9), (Vec::new(), true));
        stream.acknowledge(3, true);
        assert!(!stream.is_done());
        stream.acknowledge(0, false);
        assert!(stream.is_done());
    }

    #[test]
    fn what_is_taken_back_comes_first_and_not_beyond_its_gap() {
        let mut stream = written(b"abcdefghi");
        for place in 0..3 {
            cut(&mut stream, 2, place);
        }
        stream.take_back(Instant::ZERO, 2, Bytes::from_static(b"cd"), false);
        stream.acknowledge(4, false);
        assert_eq!((stream.again(), stream.waiting()), (1, 5));
        assert_eq!(stream.front(100).map(|run| (run.at, run.bytes)), Some((2, 2)));
        assert_eq!(cut(&mut stream, 1, 7), (b"c".to_vec(), false));
        assert_eq!(cut(&mut stream, 1, 8), (b"d".to_vec(), false));
        assert_eq!((stream.again(), stream.front(100).map(|run| run.at)), (0, Some(6)));
        stream.acknowledge(0, false);
        assert_eq!(stream.hole(), Some(Offset::new(7)));
        stream.acknowledge(2, false);
        assert_eq!(stream.hole(), Some(Offset::new(8)));
    }

    #[test]
    fn what_is_taken_back_and_cut_last_is_not_the_end() {
        let mut stream = written(b"abcdef");
        cut(&mut stream, 3, 0);
        cut(&mut stream, 3, 1);
        stream.finish();
        stream.take_back(Instant::ZERO, 0, Bytes::from_static(b"abc"), false);
        assert_eq!(cut(&mut stream, 3, 2), (b"abc".to_vec(), false));
        assert_eq!(stream.front(9).map(|run| (run.at, run.bytes)), Some((6, 0)));
        assert_eq!(cut(&mut stream, 0, 3), (Vec::new(), true));
    }

    #[test]
    fn an_end_that_is_taken_back_is_cut_again() {
        let mut stream = written(b"abc");
        stream.finish();
        assert_eq!(cut(&mut stream, 3, 0), (b"abc".to_vec(), true));
        stream.take_back(Instant::ZERO, 0, Bytes::from_static(b"abc"), true);
        assert_eq!(cut(&mut stream, 2, 1), (b"ab".to_vec(), false));
        assert_eq!(cut(&mut stream, 1, 2), (b"c".to_vec(), true));
    }
}
