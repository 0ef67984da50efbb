//! View of the connection that a scheduler decides by.

use crate::{Bytes, Instant, Offset, Path, PathId, PathSet, Span};

/// Question to a scheduler: which path carries the packet at hand?
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// The time of the question.
    pub now: Instant,
    /// Every usable path, blocked or not, in the order of their numbers.
    pub paths: &'a [Path],
    /// Paths among `paths` that may send now.
    pub open: PathSet,
    /// The packet that would go next. `None`: only copies may go, because the window is full or
    /// nothing is unsent.
    pub packet: Option<&'a Packet>,
    /// The connection's data. `None`: the host cannot see them (the drop-in gate of `quic`).
    pub flow: Option<&'a Flow>,
}

impl<'a> Context<'a> {
    /// A question about `paths`, of a host that keeps no set of the open ones.
    pub fn new(now: Instant, paths: &'a [Path], packet: Option<&'a Packet>, flow: Option<&'a Flow>) -> Self {
        Self { now, paths, open: PathSet::open(paths), packet, flow }
    }

    /// The paths that may send now, in the order of their numbers. Every rule that does not look
    /// at blocked paths starts here.
    #[inline]
    pub fn sendable(&self) -> impl Iterator<Item = &'a Path> + use<'a> {
        let cx = *self;
        self.open.iter().filter_map(move |id| cx.path(id))
    }

    /// The path with number `id`, if it is usable.
    #[inline]
    pub fn path(&self, id: PathId) -> Option<&'a Path> {
        // Usually every path is up and numbers are indices.
        match self.paths.get(id.index()) {
            Some(path) if path.id == id => Some(path),
            _ => self.paths.iter().find(|path| path.id == id),
        }
    }
}

/// The packet at hand.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Packet {
    /// Its first byte.
    pub offset: Offset,
    /// Its payload.
    pub bytes: Bytes,
    /// Sent before: lost and handed back (QUIC), or reinjected (MPTCP).
    pub reinjection: bool,
    /// The paths that have carried it.
    pub carried: PathSet,
    /// The paths that the transport would not have it take again while others may: under MPTCP those that have carried
    /// a reinjection (`path_mask` of v0.9x); under Multipath QUIC none, where what was lost may take any path.
    pub avoid: PathSet,
}

/// A message of the application: bytes of the connection's data that are of use once all of them have arrived.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Message {
    /// Its first byte.
    pub start: u64,
    /// The byte after its last.
    pub end: u64,
    /// Time at which the application wrote it.
    pub written: Instant,
    /// By when it should arrive.
    pub deadline: Option<Instant>,
    /// Urgency; 0 is the most urgent.
    pub class: u8,
}

/// The connection's data, as its sender sees them.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub struct Flow {
    /// Everything before it has arrived, as far as the sender can tell (DATA_ACK; the lowest unacknowledged stream
    /// offset, or what the peer must have read to raise its limit as far as `edge`).
    pub una: Offset,
    /// Everything before it is acknowledged, and no longer in the send buffer; none where `una` says it. QUIC keeps
    /// what is not acknowledged, although the peer's limit tells that it has arrived.
    pub acked: Option<Offset>,
    /// The first byte that has never been sent.
    pub next: Offset,
    /// The end of what the application has written.
    pub end: Offset,
    /// The right edge of the peer's receive window: no new data at or beyond it.
    pub edge: Offset,
    /// The right edge that the peer has announced, where the transport lets the sender go beyond it: Linux v1, whose
    /// peer drops such data if they arrive out of order. Zero: no other than `edge`.
    pub announced: Offset,
    /// Bytes written and not yet assigned to a path.
    pub unsent: Bytes,
    /// The first byte of the message that `next` lies in. Bulk data are one message.
    pub message_start: Offset,
    /// The end of that message.
    pub message_end: Offset,
    /// By when the message should have arrived, if it has a deadline.
    pub deadline: Option<Instant>,
    /// Age of the message.
    pub message_age: Span,
    /// Urgency of the message, as the application says: 0 is the most urgent.
    pub class: u8,
}

impl Flow {
    /// The whole window that the peer advertises, from `una`; never more than its receive buffer.
    #[inline]
    pub fn window(&self) -> Bytes {
        self.edge.since(self.una)
    }

    /// Up to where the peer is sure to keep data, in whatever order they arrive.
    #[inline]
    pub fn announced_edge(&self) -> Offset {
        if self.announced == Offset::ZERO { self.edge } else { self.edge.min(self.announced) }
    }

    /// Offset at which the send buffer begins.
    #[inline]
    pub fn buffered_from(&self) -> Offset {
        self.acked.unwrap_or(self.una)
    }

    /// The part of the window that is left for new data.
    #[inline]
    pub fn credit(&self) -> Bytes {
        self.edge.since(self.next)
    }
}
