//! The streams of a [`Mux`] as a sender's data: records of its one sequence, cut when a path takes them.

use bytes::BytesMut;
use weftway_host::sending::Data;
use weftway_mux::{Mux, Next, ProtocolError};
use weftway_path::{Bytes, Instant, Message, Offset, PathId};

use super::source::Source;

/// The streams and datagrams of one end.
#[derive(Debug)]
pub struct Streams {
    mux: Mux,
    now: Instant,
    error: Option<ProtocolError>,
    /// Record that would be cut now, if that is known.
    next: Option<Option<Next>>,
    /// The payload of a full record.
    most: usize,
}

impl Streams {
    /// Streams of `mux`, cut into records of `most` bytes.
    pub fn new(mut mux: Mux, most: u64) -> Self {
        mux.set_record(most as usize);
        Self { mux, now: Instant::ZERO, error: None, next: None, most: most as usize }
    }

    /// The mux alone.
    pub fn into_mux(self) -> Mux {
        self.mux
    }

    /// To look at.
    pub fn mux(&self) -> &Mux {
        &self.mux
    }

    /// To write, read and change.
    pub fn mux_mut(&mut self) -> &mut Mux {
        self.next = None;
        &mut self.mux
    }

    /// It is `now`.
    pub fn set_now(&mut self, now: Instant) {
        (self.now, self.next) = (now, None);
    }

    /// Breach of the protocol by the peer: the connection is to be closed.
    pub fn error(&self) -> Option<&ProtocolError> {
        self.error.as_ref()
    }

    fn peek(&mut self) -> Option<Next> {
        let (mux, now, most) = (&mut self.mux, self.now, self.most);
        *self.next.get_or_insert_with(|| mux.peek(now, most))
    }
}

impl Data for Streams {
    fn cuts(&self) -> bool {
        true
    }

    fn written(&mut self) -> u64 {
        let next = self.peek().map_or(0, |next| (next.bytes as u64).max(self.mux.unsent().get()));
        self.mux.next_place().get() + next
    }

    fn message_at(&mut self, _: u64) -> Option<Message> {
        self.peek()?.message
    }

    fn has_messages(&self) -> bool {
        true
    }

    fn next_record(&mut self) -> u64 {
        self.peek().map_or(0, |next| next.bytes as u64)
    }

    fn cut(&mut self, at: Offset, bytes: u64) {
        let now = self.now;
        let record = self.mux_mut().cut(now, bytes as usize);
        let cut = record.map(|record| (record.place, record.payload.len() as u64));
        debug_assert_eq!(cut, Some((at, bytes)), "a record is cut as it was told");
    }

    fn is_wanted(&mut self, at: Offset, soonest: Instant) -> bool {
        let (now, most) = (self.now, self.most);
        if self.mux.payload(at).is_some_and(|payload| payload.len() > most) {
            // No path has room for it any more.
            self.mux_mut().abandon(now, at);
            return false;
        }
        self.mux_mut().lost(now, soonest, at)
    }
}

impl Source for Streams {
    const DUPLEX: bool = true;

    type Data = Self;

    fn data(&mut self) -> &mut Self {
        self
    }

    fn append(&self, offset: Offset, _: usize, to: &mut BytesMut) {
        if let Some(payload) = self.mux.payload(offset) {
            to.extend_from_slice(&payload);
        }
    }

    fn set_record(&mut self, most: Bytes) {
        (self.most, self.next) = (most.get() as usize, None);
        self.mux.set_record(self.most);
    }

    fn next_urgent(&mut self) -> u64 {
        self.mux.peek_urgent(self.now, self.most) as u64
    }

    fn cut_urgent(&mut self, at: Offset, bytes: u64) {
        let (now, most) = (self.now, self.most);
        let record = self.mux_mut().cut_urgent(now, most);
        let cut = record.map(|record| (record.place, record.payload.len() as u64));
        debug_assert_eq!(cut, Some((at, bytes)), "a record is cut as it was told");
    }

    fn acked(&mut self, at: Offset) {
        self.mux_mut().acked(at);
    }

    fn sent(&mut self, at: Offset, path: PathId) {
        self.mux.on_sent(at, path);
    }

    fn receive(&mut self, at: Offset, bytes: &[u8], from: Option<PathId>) -> Option<Offset> {
        let now = self.now;
        if self.error.is_none() {
            self.error = self.mux_mut().receive(now, at, bytes).err();
            from.into_iter().for_each(|path| self.mux.on_received(bytes, path));
        }
        Some(self.mux.peer_arrived())
    }
}

#[cfg(test)]
mod tests {
    use weftway_mux::{Limits, Read, Side};

    use super::*;

    /// 5000 bytes are cut for paths that carry 1400 a packet. The second of four records is lost, and a path has opened
    /// that carries 1154.
    #[test]
    fn a_record_that_no_path_carries_any_more_is_cut_anew() {
        let mux = |side| Mux::new(side, Limits::default(), Limits::default()).unwrap();
        let (mut here, mut there) = (Streams::new(mux(Side::Connecting), 1154), mux(Side::Listening));
        here.set_record(Bytes::new(1400));
        let data: Vec<u8> = (0..5000).map(|at| (at % 251) as u8).collect();
        let id = here.mux_mut().open(Instant::ZERO, 1, b"", None).unwrap();
        assert_eq!(here.mux_mut().write(Instant::ZERO, id, data.clone().into()), Ok(5000));
        let mut records = Vec::new();
        let mut cut = |here: &mut Streams| {
            let (at, bytes) = (here.mux().next_place(), here.next_record());
            here.cut(at, bytes);
            records.push((at, here.mux().payload(at).unwrap()));
            bytes
        };
        assert_eq!([0; 3].map(|_| cut(&mut here)), [1400; 3]);
        cut(&mut here);
        here.set_record(Bytes::new(1154));
        let lost = Offset::new(1400);
        assert!(!here.is_wanted(lost, Instant::ZERO), "it is not sent as it is");
        assert_eq!(here.next_record(), 1154);
        while here.next_record() > 0 {
            assert!(cut(&mut here) <= 1154);
        }
        for (at, payload) in records.into_iter().filter(|(at, _)| *at != lost) {
            there.receive(Instant::ZERO, at, &payload).unwrap();
        }
        let accepted = there.accept().unwrap().id;
        let mut read = Vec::new();
        while let Read::Bytes(bytes) = there.read(accepted).unwrap() {
            read.extend_from_slice(bytes);
            let count = bytes.len();
            there.took(Instant::ZERO, accepted, count).unwrap();
        }
        assert!(read == data);
    }
}
