//! Another connection takes the place of one that was lost, and carries the same streams on.
//!
//! Nothing of a connection that is over arrives any more, so the sequence of records begins anew, at both ends. What
//! was outstanding is cut again, at new places; only what the other end tells to have does not travel twice. A piece of
//! a stream has its offset in the stream, and openings, ends, resets, credits and limits mean the same when they come
//! again: so nothing is read twice or missing, whatever was told. A datagram is not sent again, for it may have
//! arrived.
//!
//! # Which sequence a place belongs to
//!
//! Each end counts the connections, and both counts are the same as long as both ends use the same one. If a connection
//! is lost while it is being taken over, one end has begun a new sequence and the other has not. Then what is told of
//! places counts for nothing, and all that is outstanding is cut again; both go on with the larger count, and one more.

use weftway_path::{Instant, Offset};

use crate::error::ProtocolError;
use crate::limits::MOST_TOLD;
use crate::mux::Mux;
use crate::stream::PathBytes;

/// Data that an end has received by a connection that was lost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Received {
    /// Number of connections before that one.
    pub connection: u64,
    /// Everything before this place of the other end's sequence.
    pub arrived: Offset,
    /// And what lies between these places: not all of it, if there are many gaps.
    pub held: Vec<(Offset, Offset)>,
}

impl Mux {
    /// Number of connections that have carried these streams before this one.
    pub fn connection(&self) -> u64 {
        self.connection
    }

    /// Data that have arrived, for the other end to know when another connection is to carry the streams on. By then
    /// nothing may arrive by the one before.
    pub fn received(&self) -> Received {
        let held = self.arrived.held(MOST_TOLD);
        Received { connection: self.connection, arrived: self.arrived.next(), held }
    }

    /// Another connection carries the streams from now on; the other end had received `theirs`. What this end tells it
    /// is what [`Mux::received`] was before.
    ///
    /// After an error the streams are of no use any more.
    pub fn resume(&mut self, now: Instant, theirs: &Received) -> Result<(), ProtocolError> {
        if theirs.connection == self.connection {
            self.settle_received(theirs)?;
        }
        while self.una() < self.next_place() {
            self.abandon(now, self.una());
        }
        self.records.restart();
        (self.arrived, self.peer_arrived, self.control.told.1) = (Default::default(), 0, 0);
        self.control.question = false;
        self.streams.values_mut().for_each(|stream| stream.path_bytes = PathBytes::default());
        self.connection = self.connection.max(theirs.connection).saturating_add(1);
        Ok(())
    }

    /// The other end has this.
    fn settle_received(&mut self, theirs: &Received) -> Result<(), ProtocolError> {
        let next = self.next_place();
        let last = theirs.held.iter().map(|&(_, to)| to).chain([theirs.arrived]).max().unwrap_or(theirs.arrived);
        if last > next {
            return Err(ProtocolError::Arrived { arrived: last, next });
        }
        self.acked_below(theirs.arrived);
        for &(from, to) in &theirs.held {
            self.records.within(from, to).into_iter().for_each(|place| self.acked(place));
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{Limits, Read, Record, Side, StreamId};

    const NOW: Instant = Instant::ZERO;

    fn mux(side: Side) -> Mux {
        Mux::new(side, Limits::default(), Limits::default()).unwrap()
    }

    /// Makes an end that has written 5000 bytes, and cut them into five records.
    fn written() -> (Mux, StreamId, Vec<Record>) {
        let mut mux = mux(Side::Connecting);
        let id = mux.open(NOW, 1, b"there", None).unwrap();
        assert_eq!(mux.write(NOW, id, Bytes::from(vec![7; 5000])), Ok(5000));
        let records = (0..5).map(|_| mux.cut(NOW, 1100).unwrap()).collect();
        (mux, id, records)
    }

    fn read(mux: &mut Mux, id: StreamId) -> usize {
        let mut all = 0;
        while let Read::Bytes(bytes) = mux.read(id).unwrap() {
            let count = bytes.len();
            mux.took(NOW, id, count).unwrap();
            all += count;
        }
        all
    }

    /// Records two and five of five are lost.
    #[test]
    fn what_the_other_end_has_does_not_travel_twice() {
        let (mut here, id, records) = written();
        let mut there = mux(Side::Listening);
        for at in [0, 2, 3] {
            there.receive(NOW, records[at].place, &records[at].payload).unwrap();
        }
        let (ours, theirs) = (here.received(), there.received());
        assert_eq!((theirs.arrived, &theirs.held[..]), (records[1].place, &[(records[2].place, records[4].place)][..]));
        there.resume(NOW, &ours).unwrap();
        here.resume(NOW, &theirs).unwrap();
        assert_eq!((here.next_place(), there.arrived()), (Offset::ZERO, Offset::ZERO));
        let mut travelled = 0;
        while let Some(record) = here.cut(NOW, 1100) {
            travelled += record.payload.len();
            there.receive(NOW, record.place, &record.payload).unwrap();
        }
        let lost = records[1].payload.len() + records[4].payload.len();
        assert!(travelled <= lost + 20, "{travelled} of {lost}");
        there.accept().unwrap();
        assert_eq!(read(&mut there, id), 5000);
    }

    /// The end that connects has not heard that its first attempt was taken up. What it tells is of the sequence
    /// before.
    #[test]
    fn a_place_of_another_sequence_counts_for_nothing() {
        let (mut there, mut here) = (mux(Side::Listening), mux(Side::Connecting));
        let id = there.open(NOW, 1, b"here", None).unwrap();
        there.write(NOW, id, Bytes::from(vec![1; 900])).unwrap();
        let first = there.cut(NOW, 1100).unwrap();
        here.receive(NOW, first.place, &first.payload).unwrap();
        there.resume(NOW, &here.received()).unwrap();
        there.write(NOW, id, Bytes::from(vec![2; 900])).unwrap();
        assert_eq!(there.cut(NOW, 1100).unwrap().place, Offset::ZERO, "it is lost");
        let (ours, theirs) = (here.received(), there.received());
        there.resume(NOW, &ours).unwrap();
        here.resume(NOW, &theirs).unwrap();
        assert_eq!((here.connection(), there.connection()), (2, 2));
        let second = there.cut(NOW, 1100).unwrap();
        here.receive(NOW, second.place, &second.payload).unwrap();
        here.accept().unwrap();
        assert_eq!(read(&mut here, id), 1800);
    }

    #[test]
    fn what_was_never_sent_cannot_have_arrived() {
        let (mut here, _, _) = written();
        let next = here.next_place();
        let beyond = next + weftway_path::Bytes::new(1);
        for received in [
            Received { connection: 0, arrived: beyond, held: vec![] },
            Received { connection: 0, arrived: Offset::ZERO, held: vec![(Offset::ZERO, beyond)] },
        ] {
            assert_eq!(here.resume(NOW, &received), Err(ProtocolError::Arrived { arrived: beyond, next }));
        }
        // Places the wrong way round are none.
        here.resume(NOW, &Received { connection: 0, arrived: Offset::ZERO, held: vec![(next, Offset::ZERO)] }).unwrap();
        assert_eq!(here.unsent().get(), 5000);
    }

    #[test]
    fn both_ends_have_the_control_stream_without_a_word() {
        let control = |side| mux(side).with_control().unwrap();
        let (mut here, mut there) = (control(Side::Connecting), control(Side::Listening));
        let bulk = here.open(NOW, 1, b"there", None).unwrap();
        assert_ne!(bulk, StreamId::CONTROL);
        here.write(NOW, bulk, Bytes::from(vec![7; 9000])).unwrap();
        here.write(NOW, StreamId::CONTROL, Bytes::from_static(b"word")).unwrap();
        let record = here.cut(NOW, 1100).unwrap();
        there.receive(NOW, record.place, &record.payload).unwrap();
        assert_eq!(there.read(StreamId::CONTROL), Ok(Read::Bytes(b"word")), "it overtakes what waits");
        there.write(NOW, StreamId::CONTROL, Bytes::from_static(b"reply")).unwrap();
        let record = there.cut(NOW, 1100).unwrap();
        here.receive(NOW, record.place, &record.payload).unwrap();
        assert_eq!(here.read(StreamId::CONTROL), Ok(Read::Bytes(b"reply")));
        assert_eq!(there.accept().map(|accepted| accepted.id), Some(bulk), "it is offered to nobody");
    }
}
