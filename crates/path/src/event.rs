//! Events that a scheduler learns of.

use crate::{Bytes, Offset, PathId};

/// Reason for which a packet was sent.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum SendKind {
    /// New data, in order.
    Fresh,
    /// New data ahead of others ([`crate::Decision::Ahead`]).
    Ahead,
    /// Data that the transport handed back: lost, or reinjected.
    Reinjection,
    /// A copy of data in flight ([`crate::Decision::Repeat`]).
    Duplicate,
}

/// Packet of the connection, named alike in `Sent`, `Acked`, `Lost` and `Recalled`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Receipt {
    /// The path that carried it.
    pub path: PathId,
    /// Its first byte.
    pub offset: Offset,
    /// Its payload.
    pub bytes: Bytes,
    /// Which decision of the connection this was, counted from 0: delayed rewards bind to it. An
    /// MPTCP retransmission on the same subflow keeps the serial of the decision it repairs.
    pub serial: u64,
}

/// Why a sender with data cannot go on.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Starved {
    /// The peer's window is full.
    Window,
    /// The send buffer is full of unacknowledged data; the application is blocked.
    SendBuffer,
}

/// Something happened. The context that comes with it is the state just after.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Event {
    /// A decision was carried out.
    Sent(Receipt, SendKind),
    /// A packet was acknowledged on its path.
    Acked(Receipt),
    /// A packet was declared lost on its path.
    Lost(Receipt),
    /// A packet was taken out of its path's queue ([`crate::Decision::Recall`]): its decision has no other outcome.
    Recalled(Receipt),
    /// The path's window was reduced; at most once a round trip.
    Congestion(PathId),
    /// A path has room, and nothing new may go. Told once, and again only after a packet was at hand.
    Starved(Starved),
    /// A path became usable.
    PathUp(PathId),
    /// A path is no longer usable.
    PathDown(PathId),
    /// The time that the scheduler asked for has come.
    Wake,
}
