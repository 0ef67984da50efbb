//! Signals of the path in ACKs: the rates of two cycles, the smallest RTT, a packet's flight, and the
//! losses and marks of a round.

use weftway_path::{Bytes, Instant, Span};

use super::bounds::Latest;
use crate::Acked;
use crate::bbr::UNIT;

/// Lost of a flight that is too much: 2 % in 256ths (`bbr_loss_thresh`).
const LOSS: u64 = UNIT * 2 / 100;

/// The largest rate of the cycle before and of this one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct BwFilter {
    before: u64,
    now: u64,
}

impl BwFilter {
    pub(super) fn get(&self) -> u64 {
        self.before.max(self.now)
    }

    pub(super) fn add(&mut self, bps: u64) {
        self.now = self.now.max(bps);
    }

    /// A cycle is over. One without samples leaves what was known.
    pub(super) fn advance(&mut self) {
        if self.now > 0 {
            *self = Self { before: self.now, now: 0 };
        }
    }
}

/// The smallest RTT, and the one since the last PROBE_RTT.
#[derive(Clone, Copy, Debug)]
pub(super) struct MinRtt {
    pub(super) least: Option<Span>,
    stamp: Instant,
    recent: Option<Span>,
    pub(super) recent_stamp: Instant,
}

impl MinRtt {
    pub(super) fn new(rtt: Option<Span>, now: Instant) -> Self {
        Self { least: rtt, stamp: now, recent: rtt, recent_stamp: now }
    }

    /// Takes a sample; returns whether none was as small for `every`.
    pub(super) fn update(&mut self, acked: &Acked, every: Span, window: Span) -> bool {
        let due = acked.now > self.recent_stamp + every;
        if let Some(rtt) = acked.rtt
            && (due || self.recent.is_none_or(|recent| rtt <= recent))
        {
            self.recent = Some(rtt);
            self.recent_stamp = acked.now;
        }
        let expired = acked.now > self.stamp + window;
        if let Some(recent) = self.recent
            && (expired || self.least.is_none_or(|least| recent <= least))
        {
            self.least = Some(recent);
            self.stamp = self.recent_stamp;
        }
        due
    }
}

/// Flight of the newest packet that an ACK covers, in packets.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sample {
    /// In flight when it left.
    pub(super) in_flight: u64,
    /// Lost since it left.
    pub(super) lost: u64,
    /// Delivered since it left.
    pub(super) delivered: u64,
    pub(super) app_limited: bool,
}

impl Sample {
    pub(super) fn is_too_high(&self) -> bool {
        self.in_flight > 0 && self.lost > self.in_flight * LOSS / UNIT
    }
}

/// Congestion as a round shows it.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Signals {
    pub(super) latest: Latest,
    is_lossy: bool,
    is_marked: bool,
    /// True if its losses are enough to lower the bounds.
    pub(super) is_congested: bool,
    /// The round ends with a packet sent when so much was delivered. It restarts with the first
    /// loss, to see a whole round of it.
    pub(super) end: Bytes,
    /// True if this ACK ended a round.
    pub(super) ended: bool,
    /// ACKs with losses in it.
    pub(super) losses: u32,
    /// Most packets that the last round delivered at once.
    pub(super) delivered: u64,
    /// Rounds in a row that were marked.
    pub(super) marked_rounds: u32,
}

impl Signals {
    pub(super) fn lose(&mut self, delivered: Bytes) {
        if !self.is_lossy {
            self.end = delivered;
        }
        self.is_lossy = true;
    }

    /// A timeout counts whatever it lost.
    pub(super) fn time_out(&mut self, delivered: Bytes) {
        self.lose(delivered);
        self.is_congested = true;
    }

    pub(super) fn mark(&mut self, delivered: Bytes) {
        self.lose(delivered);
        self.is_marked = true;
        self.is_congested = true;
    }

    /// The losses were none.
    pub(super) fn excuse(&mut self) {
        self.is_lossy = false;
        self.is_congested = false;
    }

    /// Forgets the signals of probing: afterwards they do not count.
    pub(super) fn forget(&mut self) {
        self.latest = Latest::default();
        self.is_marked = false;
        self.excuse();
    }

    pub(super) fn next_round(&mut self, delivered: Bytes, latest: Latest) {
        self.end = delivered;
        self.delivered = self.latest.inflight;
        self.marked_rounds = if self.is_marked { self.marked_rounds + 1 } else { 0 };
        self.forget();
        self.latest = latest;
    }
}
