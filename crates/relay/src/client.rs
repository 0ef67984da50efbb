//! State of the relay for each client.

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

/// The limits that some clients have together, as those of one name, and what they use of them.
#[derive(Debug, Default)]
pub struct Share {
    /// The number of clients that have it.
    pub clients: usize,
    /// The limits.
    pub limits: ClientLimits,
    /// The rate of each direction.
    pub pace: Pace,
    /// The number of their streams.
    pub streams: usize,
}

impl Share {
    /// Sets other limits.
    pub fn set_limits(&mut self, limits: ClientLimits) {
        self.limits = limits;
        self.pace = Pace::new(limits.rate);
    }
}

/// The streams of a client.
#[derive(Debug, Default)]
pub struct Client {
    /// The key of its share.
    pub share: usize,
    /// All of them.
    pub by_stream: BTreeMap<StreamId, usize>,
    /// Streams that have something to do.
    pub run: RunQueue,
    /// Number of streams for datagrams.
    pub associations: usize,
    /// Number of pipes.
    pub pipes: usize,
    /// True if its mux may have datagrams.
    pub has_datagrams: bool,
    /// Streams whose names wait to be looked up, the longest first.
    pub names: VecDeque<usize>,
    /// Streams that wait until it may do more.
    pub paced: RunQueue,
    /// Refusals, and their numbers.
    pub refusals: BTreeMap<Refusal, u64>,
    /// Bytes that connections that are over have carried: bytes from it, and to it.
    pub carried: [u64; 2],
    /// Counters of datagrams whose streams are over.
    pub datagrams: DatagramCounts,
}

impl Client {
    /// Returns true if there is something to do now.
    pub fn is_busy(&self) -> bool {
        !self.run.is_empty() || self.has_datagrams
    }

    /// The time at which its streams go on that wait for the pace of its share.
    pub fn next_event(&self, share: &Share) -> Instant {
        if !self.paced.is_empty() { share.pace.next() } else { Instant::NEVER }
    }

    /// It is `now`: those go on that waited.
    pub fn set_now(&mut self, now: Instant, share: &mut Share) {
        share.pace.set_now(now);
        if self.next_event(share) <= now {
            while let Some(key) = self.paced.pop() {
                self.run.push(key);
            }
        }
    }

    /// Counts a refusal.
    pub fn refuse(&mut self, refusal: Refusal) {
        *self.refusals.entry(refusal).or_default() += 1;
    }

    /// Has the name that waits longest, if one does, asked for again: there may be room for it now.
    pub fn run_next_name(&mut self) {
        if let Some(&next) = self.names.front() {
            self.run.push(next);
        }
    }
}
