//! What the relay keeps for each client.

use std::collections::{BTreeMap, VecDeque};

use weftway_mux::StreamId;

use crate::wakes::RunQueue;

/// A client, by whatever number the owner of its connection gives it.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub struct ClientId(pub u64);

/// The streams of a client.
#[derive(Debug, Default)]
pub struct Client {
    /// All of them.
    pub by_stream: BTreeMap<StreamId, usize>,
    /// Those that have something to do.
    pub run: RunQueue,
    /// How many are not connected yet.
    pub dials: usize,
    /// How many are for datagrams.
    pub associations: usize,
    /// Whether its mux may have datagrams.
    pub has_datagrams: bool,
    /// Those whose names wait to be looked up, the longest first.
    pub names: VecDeque<usize>,
    /// How many names are looked up.
    pub lookups: usize,
}

impl Client {
    /// A name was looked up: the next may be, if any waits.
    pub fn end_lookup(&mut self) {
        // What a client asked for that is gone counts for nobody.
        self.lookups = self.lookups.saturating_sub(1);
        if let Some(&next) = self.names.front() {
            self.run.push(next);
        }
    }
}
