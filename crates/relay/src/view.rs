//! View of a connection that a proxy or a relay carries, for the user.

use weftway_mux::StreamId;

use crate::classes::Class;
use crate::datagram::DatagramCounts;
use crate::target::Purpose;

/// A connection that is carried, or the datagrams of a program.
#[derive(Clone, Copy, Debug)]
pub struct FlowView<'a> {
    /// Its stream.
    pub id: StreamId,
    /// Purpose of the stream.
    pub purpose: &'a Purpose,
    /// Class; the first bytes of bulk are interactive. Of datagrams that of the last one that the program sent.
    pub class: Class,
    /// Bytes of the program: at a proxy those that the stream has taken, at a relay those that it has passed on.
    pub up: u64,
    /// Bytes for the program: at a proxy those that it has taken, at a relay those that the stream has taken.
    pub down: u64,
    /// Counters of datagrams.
    pub datagrams: DatagramCounts,
}

impl<'a> FlowView<'a> {
    /// A connection that carried so many bytes each way.
    pub fn new(id: StreamId, purpose: &'a Purpose, class: Class, [up, down]: [u64; 2]) -> Self {
        Self { id, purpose, class, up, down, datagrams: DatagramCounts::default() }
    }
}
