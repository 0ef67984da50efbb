//! View of a connection that a proxy or a relay carries, and of a pipe, for the user.

use std::ops::AddAssign;

use serde::Serialize;
use weftway_mux::StreamId;
use weftway_path::Span;

use crate::classes::Class;
use crate::datagram::{DatagramCounts, Drops};
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

/// A pipe, for the user.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PipeView {
    /// Its stream, while it has one.
    pub id: Option<StreamId>,
    /// Its name: the place where it takes datagrams, if the user has given none.
    pub name: String,
    /// Where it takes datagrams.
    pub listen: String,
    /// Where they lead.
    pub deliver: String,
    /// Time for which they are of use.
    pub latency: Span,
    /// True if the relay carries them.
    pub open: bool,
    /// Number of sources.
    pub sources: usize,
    /// Datagrams to the relay.
    pub up: WayView,
    /// Datagrams from the relay.
    pub down: WayView,
    /// Datagrams that were dropped at this end, by reason. Those that came while it was not open, or from too many
    /// sources, are counted nowhere else; those for which nobody is here are among the delivered ones; those that were
    /// too long, or had no room, among the lost ones.
    pub drops: Drops,
}

/// Datagrams of one direction of a pipe.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WayView {
    /// Of all seconds of which both ends have told.
    pub total: WayCounts,
    /// Of the last of them.
    pub second: WaySecond,
}

/// Datagrams of a second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WaySecond {
    /// How many there were.
    #[serde(flatten)]
    pub counts: WayCounts,
    /// The one-way delay that half of those that arrived do not exceed, from their arrival at one end to that at the
    /// other.
    pub p50_ms: Option<f64>,
    /// The delay that 95 % do not exceed.
    pub p95_ms: Option<f64>,
    /// The delay that 99 % do not exceed.
    pub p99_ms: Option<f64>,
}

/// Datagrams that came at one end of a pipe, and what became of them at the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
pub struct WayCounts {
    /// Datagrams that came.
    pub datagrams: u64,
    /// Bytes of their data.
    pub bytes: u64,
    /// Datagrams that arrived in time.
    pub delivered: u64,
    /// Datagrams that arrived late.
    pub late: u64,
    /// Datagrams that did not arrive.
    pub lost: u64,
}

impl AddAssign for WayCounts {
    fn add_assign(&mut self, other: Self) {
        self.datagrams = self.datagrams.saturating_add(other.datagrams);
        self.bytes = self.bytes.saturating_add(other.bytes);
        self.delivered = self.delivered.saturating_add(other.delivered);
        self.late = self.late.saturating_add(other.late);
        self.lost = self.lost.saturating_add(other.lost);
    }
}
