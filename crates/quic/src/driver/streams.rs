//! The streams of a [`Mux`] as a sender's data: records of its one sequence, cut when a path takes them.

use bytes::BytesMut;
use weftway_mux::{Mux, Next, ProtocolError};
use weftway_path::{Bytes, Instant, Message, Offset};

use super::sender::Source;

/// The streams and datagrams of one end.
#[derive(Debug)]
pub struct Streams {
    mux: Mux,
    now: Instant,
    error: Option<ProtocolError>,
    /// What would be cut now, if that is known.
    next: Option<Option<Next>>,
    /// The payload of a full record.
    most: usize,
}

impl Streams {
    /// What `mux` has is cut into records of `most` bytes.
    pub fn new(mux: Mux, most: u64) -> Self {
        Self { mux, now: Instant::ZERO, error: None, next: None, most: most as usize }
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

    /// What the peer did against the protocol: the connection is to be closed.
    pub fn error(&self) -> Option<&ProtocolError> {
        self.error.as_ref()
    }

    fn peek(&mut self) -> Option<Next> {
        let (mux, now, most) = (&mut self.mux, self.now, self.most);
        *self.next.get_or_insert_with(|| mux.peek(now, most))
    }
}

impl Source for Streams {
    const CUTS: bool = true;

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

    fn append(&self, offset: Offset, _: usize, to: &mut BytesMut) {
        if let Some(payload) = self.mux.payload(offset) {
            to.extend_from_slice(&payload);
        }
    }

    fn set_record(&mut self, most: Bytes) {
        (self.most, self.next) = (most.get() as usize, None);
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

    fn acked(&mut self, at: Offset) {
        self.mux_mut().acked(at);
    }

    fn is_wanted(&mut self, at: Offset) -> bool {
        let (now, most) = (self.now, self.most);
        if self.mux.payload(at).is_some_and(|payload| payload.len() > most) {
            // No path has room for it any more.
            self.mux_mut().abandon(now, at);
            return false;
        }
        self.mux_mut().lost(now, at)
    }

    fn receive(&mut self, at: Offset, bytes: &[u8]) -> Option<Offset> {
        let now = self.now;
        if self.error.is_none() {
            self.error = self.mux_mut().receive(now, at, bytes).err();
        }
        Some(self.mux.peer_arrived())
    }
}
