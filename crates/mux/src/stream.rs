//! A stream at one end: its two halves, and who waits for what.

use bytes::Bytes;
use weftway_path::{Instant, Span};

use crate::incoming::Incoming;
use crate::outgoing::Outgoing;

/// Progress of a stream's opening.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Opening {
    /// This end opens it; the frame that says so waits to be cut.
    Due,
    /// The other end opens it: pieces are here, and the frame that says so is not.
    Awaited,
    /// It waits for the application to accept it.
    Offered,
    /// The application has it.
    Done,
}

/// Event that the writer of a stream waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WriterWaits {
    /// No event.
    No,
    /// Credit of the peer.
    Credit,
    /// Memory of this end.
    Memory,
}

/// Number of paths that are counted, those with the lowest numbers.
pub const COUNTED_PATHS: usize = 8;

/// Bytes of a stream, or of the datagrams that belong to it, by path, since the connection began. What was sent or came
/// twice counts twice.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathBytes {
    /// Bytes that left.
    pub sent: [u64; COUNTED_PATHS],
    /// Bytes that came.
    pub received: [u64; COUNTED_PATHS],
}

/// A stream.
#[derive(Clone, Debug)]
pub struct Stream {
    /// Urgency, 0 the most, as both ends know.
    pub class: u8,
    /// As which class this end cuts what comes next.
    pub cut_as: u8,
    /// Offset up to which that class counts.
    pub cut_as_until: u64,
    /// Time after which a byte should have arrived, once it is written.
    pub deadline: Option<Span>,
    /// Target of the stream.
    pub target: Bytes,
    /// Progress of its opening.
    pub opening: Opening,
    /// Sending side.
    pub outgoing: Outgoing,
    /// Receiving side.
    pub incoming: Incoming,
    /// The peer has reset it, and the application does not know yet.
    pub reset: Option<u32>,
    /// The application knows that the peer's half has ended.
    pub ended: bool,
    /// It takes turns in cutting.
    pub in_turn: bool,
    /// It is among the streams whose credit is to be told.
    pub credit_due: bool,
    /// Its reader found nothing.
    pub reader_waits: bool,
    /// Its writer could not write everything.
    pub writer_waits: WriterWaits,
    /// It is in the queue of those that wait for memory.
    pub in_writers: bool,
    /// Its writer had to wait since the last time that all was cut: nobody knows where what it writes ends.
    pub is_endless: bool,
    /// Bytes by path.
    pub path_bytes: PathBytes,
}

impl Stream {
    /// A stream that begins, with the first credits of this end and of the peer.
    pub fn new(now: Instant, opening: Opening, own_credit: u64, peer_credit: u64) -> Self {
        Self {
            class: 0,
            cut_as: 0,
            cut_as_until: 0,
            deadline: None,
            target: Bytes::new(),
            opening,
            outgoing: Outgoing::new(peer_credit),
            incoming: Incoming::new(now, own_credit),
            reset: None,
            ended: false,
            in_turn: false,
            credit_due: false,
            reader_waits: false,
            writer_waits: WriterWaits::No,
            in_writers: false,
            is_endless: false,
            path_bytes: PathBytes::default(),
        }
    }

    /// It is of `class` from its first byte on.
    pub fn set_class(&mut self, class: u8) {
        (self.class, self.cut_as, self.cut_as_until) = (class, class, 0);
    }

    /// It was cut: whether its first bytes were, that were of another class.
    pub fn has_begun(&mut self) -> bool {
        let has_begun = self.cut_as != self.class && self.outgoing.cut_bytes() >= self.cut_as_until;
        if has_begun {
            self.cut_as = self.class;
        }
        has_begun
    }

    /// Tells whether it has anything to cut.
    pub fn has_more(&self) -> bool {
        self.opening == Opening::Due || self.outgoing.has_more()
    }

    /// Tells whether nothing can happen on it any more.
    pub fn is_over(&self) -> bool {
        self.ended && self.outgoing.is_done()
    }
}
