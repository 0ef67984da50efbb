//! Loss detection on a path that may reorder packets.
//!
//! noq's thresholds are fixed, and it reports nothing of a packet that arrives after it was declared lost. Where
//! [`TransportConfig::adapts_to_reordering`] is set, noq's time threshold is longer than any patience here
//! ([`NOQ_ROUND_TRIPS`]), and losses are found here: by RFC 9002 §6.1, until a packet arrives after one that left
//! later.
//!
//! ```text
//! no packet was late     lost when 3 packets overtook it, or after 9/8 of a round trip
//! after that             lost after a round trip and the patience (1/8 of a round trip at least)
//! a packet was late      patience = what would have sufficed for it, if that is more; two round trips at most
//! 16 episodes of losses  without a packet that was late: patience = 0
//! ```
//!
//! The patience is the reordering window of RACK (RFC 8985 §6.2). RACK learns of late packets by DSACK alone, so it
//! raises its window step by step, up to one round trip; it keeps it for as many recoveries.
//!
//! A lost packet is kept until it arrives, until noq declares it lost as well, or until the path is given up. A
//! reduction is taken back as soon as all packets have arrived for which it was made.
//!
//! [`TransportConfig::adapts_to_reordering`]: weftway_scenario::config::TransportConfig::adapts_to_reordering

use std::collections::VecDeque;

use weftway_host::sending::{Flight, SentPacket};
use weftway_path::{Instant, Path, Span};

use super::silence::GRANULARITY;

/// noq's time threshold, in round trips. What noq declares lost, it reports nothing more of.
pub const NOQ_ROUND_TRIPS: u8 = 4;
/// The longest patience, in round trips: with the one that every packet takes, less than noq waits.
const MOST: u64 = 2;
/// kPacketThreshold (RFC 9002 §6.1.1).
const PACKETS: u64 = 3;
/// Episodes of losses for which the patience is kept after a late packet (RFC 8985 §6.2: `RACK.reo_wnd_persist`).
const PERSISTS: u32 = 16;

/// Lateness of one path's packets, and the lost packets that may still arrive.
#[derive(Clone, Debug, Default)]
pub struct Reordering {
    /// Time after a round trip in which a packet may still come.
    patience: Span,
    /// Episodes of losses for which the patience is still kept.
    persists: u32,
    /// All packets below this number have arrived or are lost.
    judged: u64,
    /// Time at which the oldest packet that was overtaken counts as lost.
    due: Option<Instant>,
    /// Packets that were declared lost and may still arrive, by number.
    missing: VecDeque<(u64, SentPacket)>,
    /// Time at which the oldest packet left for which the window was reduced last. None if a packet is lost for good
    /// that left at that time or later.
    reduced_for: Option<Instant>,
}

/// A packet that arrived though it was declared lost.
#[derive(Clone, Copy, Debug)]
pub struct Latecomer {
    pub packet: SentPacket,
    /// All packets have arrived now for which the window was reduced.
    pub is_reduction_spurious: bool,
}

/// The longest that a round trip may be now (RFC 9002 §6.1.2).
fn longest(view: &Path) -> Span {
    view.srtt.max(view.latest_rtt)
}

impl Reordering {
    /// Time at which a packet counts as lost, if nothing is heard before.
    pub fn due(&self) -> Instant {
        self.due.unwrap_or(Instant::NEVER)
    }

    /// The next packet that counts as lost, below number `largest`, which was acknowledged. It has to be marked as
    /// such.
    pub fn next_lost(&mut self, now: Instant, view: &Path, flight: &Flight, largest: u64) -> Option<u64> {
        self.due = None;
        self.judged = self.judged.max(flight.base());
        let longest = longest(view);
        let delay = (longest + self.patience.max(longest / 8)).max(GRANULARITY);
        while self.judged < largest {
            let packet = flight.at(self.judged);
            if !packet.is_settled() {
                let is_overtaken = self.patience.is_zero() && self.judged + PACKETS <= largest;
                let due = packet.sent_at + delay;
                // Whatever left later is due later.
                if !is_overtaken && now < due {
                    self.due = Some(due);
                    return None;
                }
                return Some(self.judged);
            }
            self.judged += 1;
        }
        None
    }

    /// Packet `number` was declared lost. It may still arrive.
    pub fn lose(&mut self, number: u64, packet: SentPacket) {
        self.missing.push_back((number, packet));
    }

    /// An episode of congestion began: the window was reduced for lost packets that may all still arrive, the oldest of
    /// which left at `oldest`. None if there are others, or the signal is another one.
    pub fn on_reduced(&mut self, oldest: Option<Instant>) {
        self.reduced_for = oldest;
        self.persists = self.persists.saturating_sub(1);
        if self.persists == 0 {
            self.patience = Span::ZERO;
        }
    }

    /// A packet that left at `sent_at` came after one that left later.
    pub fn on_late(&mut self, now: Instant, view: &Path, sent_at: Instant) {
        let longest = longest(view);
        let needed = now.since(sent_at).saturating_sub(longest) + GRANULARITY;
        self.patience = self.patience.max(needed).min(longest * MOST);
        self.persists = PERSISTS;
    }

    /// Packet `number` has arrived: what it was, if it was declared lost.
    pub fn on_arrived(&mut self, now: Instant, view: &Path, number: u64) -> Option<Latecomer> {
        let packet = self.remove(number)?;
        self.on_late(now, view, packet.sent_at);
        let newest_missing = self.missing.back().map(|(_, newest)| newest.sent_at);
        let is_spurious =
            |from: &mut Instant| packet.sent_at >= *from && newest_missing.is_none_or(|sent| sent < *from);
        let is_reduction_spurious = self.reduced_for.take_if(is_spurious).is_some();
        Some(Latecomer { packet, is_reduction_spurious })
    }

    /// Packet `number` is lost for good, as noq has declared it lost: when it left, if it was declared lost before.
    pub fn forget(&mut self, number: u64) -> Option<Instant> {
        let packet = self.remove(number)?;
        self.reduced_for = self.reduced_for.filter(|&from| packet.sent_at < from);
        Some(packet.sent_at)
    }

    fn remove(&mut self, number: u64) -> Option<SentPacket> {
        let at = self.missing.binary_search_by_key(&number, |&(number, _)| number).ok()?;
        self.missing.remove(at).map(|(_, packet)| packet)
    }

    /// Forgets the packets: nothing is in flight any more.
    pub fn clear(&mut self) {
        self.missing.clear();
        (self.due, self.reduced_for) = (None, None);
    }
}
