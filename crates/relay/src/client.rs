//! What the relay keeps for each client.

use std::collections::{BTreeMap, VecDeque};

use weftway_mux::StreamId;
use weftway_path::Instant;

use crate::datagram::DatagramCounts;
use crate::limits::ClientLimits;
use crate::pace::Pace;
use crate::refusal::Refusal;
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
    /// What it may do.
    pub limits: ClientLimits,
    /// How fast it may do that.
    pub pace: Pace,
    /// Those that wait until it may do more.
    pub paced: RunQueue,
    /// What it was refused, how often.
    pub refusals: BTreeMap<Refusal, u64>,
    /// What connections that are over have carried: bytes from it, and to it.
    pub carried: [u64; 2],
    /// What became of datagrams whose streams are over.
    pub datagrams: DatagramCounts,
}

impl Client {
    /// It may do so much from now on.
    pub fn set_limits(&mut self, limits: ClientLimits) {
        self.limits = limits;
        self.pace = Pace::new(limits.rate);
    }

    /// When those go on that wait for its pace.
    pub fn next_event(&self) -> Instant {
        if !self.paced.is_empty() { self.pace.next() } else { Instant::NEVER }
    }

    /// It is `now`: those go on that waited.
    pub fn set_now(&mut self, now: Instant) {
        self.pace.set_now(now);
        if self.next_event() <= now {
            while let Some(key) = self.paced.pop() {
                self.run.push(key);
            }
        }
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, refusal: Refusal) {
        *self.refusals.entry(refusal).or_default() += 1;
    }

    /// A name was looked up: the next may be, if any waits.
    pub fn end_lookup(&mut self) {
        // What a client asked for that is gone counts for nobody.
        self.lookups = self.lookups.saturating_sub(1);
        if let Some(&next) = self.names.front() {
            self.run.push(next);
        }
    }
}
