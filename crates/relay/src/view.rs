//! What is told of a connection that a proxy carries.

use weftway_mux::StreamId;

use crate::classes::Class;
use crate::datagram::DatagramCounts;
use crate::target::Purpose;

/// A connection that is carried, or the datagrams of a program.
#[derive(Clone, Copy, Debug)]
pub struct FlowView<'a> {
    /// Its stream.
    pub id: StreamId,
    /// What that is for.
    pub purpose: &'a Purpose,
    /// How urgent it is; the first bytes of bulk are interactive. Of datagrams that of the last one that the program sent.
    pub class: Class,
    /// Bytes of the program that its stream has taken.
    pub up: u64,
    /// Bytes of its stream that the program has taken.
    pub down: u64,
    /// What became of datagrams.
    pub datagrams: DatagramCounts,
}

impl<'a> FlowView<'a> {
    /// A connection that carried so many bytes each way.
    pub fn new(id: StreamId, purpose: &'a Purpose, class: Class, [up, down]: [u64; 2]) -> Self {
        Self { id, purpose, class, up, down, datagrams: DatagramCounts::default() }
    }
}
