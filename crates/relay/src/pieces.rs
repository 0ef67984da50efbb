//! Datagrams that no record holds travel in pieces. One that misses a piece is lost, as a fragmented packet of IP is.
//!
//! A piece begins with four bytes: its kind and class, the number of its datagram, and its place among how many.

use std::collections::VecDeque;

use bytes::Bytes;
use weftway_mux::frame::datagram_head;
use weftway_mux::{Mux, StreamId};
use weftway_path::{Bytes as Count, Instant, Span};

use crate::classes::Class;
use crate::datagram::{DEADLINE, LEAST_UNSENT, MOST_UNSENT, Sent};

/// The most pieces of a datagram: those of `weft` hold 4.5 kB, three times what most networks carry in one packet.
pub const MOST_PIECES: usize = 4;
/// Byte in the place of the kind of an address.
const PIECE: u8 = 0xf;
const HEAD: usize = 4;
/// Number of datagrams that may miss pieces at once, since pieces overtake each other. The one that misses them longest
/// is given up.
const MOST_PARTIAL: usize = 16;

/// A datagram that misses pieces.
#[derive(Debug)]
struct Partial {
    number: u16,
    count: usize,
    parts: [Option<Bytes>; MOST_PIECES],
}

/// Cuts datagrams of one flow, and puts those of the other end together.
#[derive(Debug, Default)]
pub struct Pieces {
    /// The number of the next datagram that is cut.
    next: u16,
    /// The oldest first.
    partial: VecDeque<Partial>,
}

impl Pieces {
    /// Sends a datagram to the other end, in records of `record` bytes: whole, or in pieces.
    pub fn send(
        &mut self,
        now: Instant,
        mux: &mut Mux,
        (flow, record): (StreamId, usize),
        class: Class,
        bytes: Vec<u8>,
    ) -> Sent {
        self.send_within(now, mux, (flow, record), (class, [DEADLINE; 2]), bytes)
    }

    /// Sends a datagram that leaves within the first of two times, and should arrive within the second.
    pub fn send_within(
        &mut self,
        now: Instant,
        mux: &mut Mux,
        (flow, record): (StreamId, usize),
        (class, times): (Class, [Span; 2]),
        bytes: Vec<u8>,
    ) -> Sent {
        // One that no record holds would keep those behind it waiting.
        let room = record.saturating_sub(datagram_head(flow));
        let count = if bytes.len() <= room { 1 } else { bytes.len().div_ceil(room.saturating_sub(HEAD).max(1)) };
        if count > MOST_PIECES {
            return Sent::TooLong;
        }
        // So that they leave room for what streams have to send; and a flow that floods, for the others.
        let length = Count::new(bytes.len() as u64);
        if mux.unsent_datagrams() + length > MOST_UNSENT
            && mux.unsent_datagrams_of(class.number(), flow) + length > LEAST_UNSENT
        {
            return Sent::Full;
        }
        let [leave, arrive] = times.map(Some);
        let mut put = |bytes| mux.send_datagram_within(now, flow, class.number(), leave, arrive, bytes).is_ok();
        let sent = if count == 1 {
            put(Bytes::from(bytes))
        } else {
            let [high, low] = self.next.to_be_bytes();
            self.next = self.next.wrapping_add(1);
            let parts = bytes.chunks(bytes.len().div_ceil(count)).zip(0u8..);
            parts.fold(true, |sent, (part, place)| {
                let head = [class.number() << 4 | PIECE, high, low, place << 4 | count as u8];
                put(Bytes::from([&head, part].concat())) && sent
            })
        };
        if sent { Sent::Yes } else { Sent::Full }
    }

    /// The other end has sent this: the whole datagram, if it is one or completes one. None if it makes no sense, too.
    pub fn take(&mut self, bytes: Bytes) -> Option<Bytes> {
        let &[kind, high, low, places, ..] = &bytes[..] else { return Some(bytes) };
        if kind & 0xf != PIECE {
            return Some(bytes);
        }
        let (number, place, count) =
            (u16::from_be_bytes([high, low]), usize::from(places >> 4), usize::from(places & 0xf));
        if !(2..=MOST_PIECES).contains(&count) || place >= count {
            return None;
        }
        let found = self.partial.iter().position(|partial| (partial.number, partial.count) == (number, count));
        let at = found.unwrap_or_else(|| {
            if self.partial.len() >= MOST_PARTIAL {
                self.partial.pop_front();
            }
            self.partial.push_back(Partial { number, count, parts: [const { None }; MOST_PIECES] });
            self.partial.len() - 1
        });
        let partial = &mut self.partial[at];
        partial.parts[place] = Some(bytes.slice(HEAD..));
        if partial.parts[..count].iter().any(Option::is_none) {
            return None;
        }
        let whole = self.partial.remove(at)?;
        let length = whole.parts.iter().flatten().map(Bytes::len).sum();
        let mut bytes = Vec::with_capacity(length);
        whole.parts.iter().flatten().for_each(|part| bytes.extend_from_slice(part));
        Some(bytes.into())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use weftway_mux::{Limits, Side};

    use super::*;

    const RECORD: usize = 1154;

    /// A mux with a stream whose opening is sent.
    fn opened() -> (Mux, StreamId) {
        let mut mux = Mux::new(Side::Connecting, Limits::default(), Limits::default()).unwrap();
        let flow = mux.open(Instant::ZERO, 0, b"udp:", None).unwrap();
        let opened = mux.cut(Instant::ZERO, RECORD).unwrap();
        mux.acked(opened.place);
        (mux, flow)
    }

    /// Contents of the datagram frames that a mux has to send, each in a record of its own.
    fn records(mux: &mut Mux) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| mux.cut(Instant::ZERO, RECORD)).map(|record| record.payload.to_vec()).collect()
    }

    /// The pieces of a datagram as the other end takes them.
    fn pieces_of(bytes: &[u8]) -> Vec<Bytes> {
        let ((mut mux, flow), mut pieces) = (opened(), Pieces::default());
        assert_eq!(pieces.send(Instant::ZERO, &mut mux, (flow, RECORD), Class::Interactive, bytes.to_vec()), Sent::Yes);
        let head = datagram_head(flow);
        records(&mut mux).into_iter().map(|record| Bytes::from(record[head..].to_vec())).collect()
    }

    #[test]
    fn what_a_record_holds_is_sent_whole_and_four_times_as_much_in_pieces() {
        let (mut mux, flow) = opened();
        let mut pieces = Pieces::default();
        let mut lengths = |bytes: usize| {
            let sent = pieces.send(Instant::ZERO, &mut mux, (flow, RECORD), Class::Realtime, vec![1; bytes]);
            (sent, records(&mut mux).iter().map(Vec::len).collect::<Vec<_>>())
        };
        // A frame has 4 bytes before the datagram here, and a piece 4 more.
        assert_eq!(lengths(1150), (Sent::Yes, vec![1154]));
        assert_eq!(lengths(1151), (Sent::Yes, vec![584, 583]));
        assert_eq!(lengths(4 * 1146), (Sent::Yes, vec![1154; 4]));
        assert_eq!(lengths(4 * 1146 + 1), (Sent::TooLong, vec![]));
    }

    #[test]
    fn datagrams_that_miss_pieces_are_given_up_the_oldest_first() {
        let piece = |number: u8, place: u8| Bytes::from(vec![PIECE, 0, number, place << 4 | 2, number, place]);
        let mut pieces = Pieces::default();
        for number in 0..=MOST_PARTIAL as u8 {
            assert_eq!(pieces.take(piece(number, 0)), None);
        }
        assert_eq!(pieces.take(piece(1, 1)), Some(Bytes::from_static(&[1, 0, 1, 1])));
        assert_eq!(pieces.take(piece(0, 1)), None, "it was given up");
        for places in [0x00, 0x01, 0x05, 0x22, 0x45, 0xff] {
            assert_eq!(pieces.take(Bytes::from(vec![PIECE, 0, 0, places, 1])), None);
        }
    }

    proptest! {
        #[test]
        fn a_datagram_comes_out_as_it_went_in_whatever_the_order_of_its_pieces(
            bytes in prop::collection::vec(any::<u8>(), 1..4000), order in any::<prop::sample::Index>(), kind in 1u8..5
        ) {
            let bytes = [&[kind], &bytes[..]].concat();
            let mut sent = pieces_of(&bytes);
            let by = order.index(sent.len());
            sent.rotate_left(by);
            let (mut pieces, count) = (Pieces::default(), sent.len());
            let mut out: Vec<_> = sent.into_iter().map(|piece| pieces.take(piece)).collect();
            prop_assert_eq!(out.pop(), Some(Some(Bytes::from(bytes))));
            prop_assert_eq!(out, vec![None; count - 1]);
            prop_assert!(pieces.partial.is_empty());
        }

        #[test]
        fn whatever_comes_is_taken_or_not(all in prop::collection::vec(prop::collection::vec(any::<u8>(), 0..9), 0..200)) {
            let mut pieces = Pieces::default();
            for mut bytes in all {
                if let Some(first) = bytes.first_mut() {
                    *first |= PIECE;
                }
                pieces.take(bytes.into());
                prop_assert!(pieces.partial.len() <= MOST_PARTIAL);
            }
        }
    }
}
