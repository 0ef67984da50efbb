//! Counters of a running connection, which count once per packet, in place.

use weftway_link::{Reason, Verdict};
use weftway_path::Bytes;

/// The counters of one path.
#[derive(Clone, Debug, Default)]
pub struct PathTally {
    /// Bytes that the path brought first: they count as its share.
    pub delivered: u64,
    /// Packets sent, retransmissions included.
    pub packets: u64,
    /// Bytes on the wire.
    pub wire_bytes: u64,
    /// TCP: packets sent again on the path because they were lost. QUIC: packets declared lost.
    pub retransmissions: u64,
    /// Data that were handed back to the connection and sent here, and QUIC's probes.
    pub reinjections: u64,
    /// Copies of data in flight: by decision of the scheduler, or opportunistic retransmissions.
    pub copies: u64,
    /// Packets lost on the path's own link or a shared one, or because a link was down.
    pub wire_lost: u64,
    /// Packets that the full queue of the path's own link or of a shared one dropped on arrival.
    pub queue_dropped: u64,
    /// Retransmission or probe timeouts.
    pub timeouts: u64,
    /// Episodes that were taken back.
    pub spurious: u64,
    /// Packets that arrived.
    pub arrived: u64,
}

impl PathTally {
    /// A packet was put on the link.
    #[inline]
    pub fn on_wire(&mut self, bytes: Bytes, verdict: Verdict) {
        self.packets += 1;
        self.wire_bytes += bytes.get();
        self.on_shared(verdict);
    }

    /// A packet came to the shared link after the path's own.
    #[inline]
    pub fn on_shared(&mut self, verdict: Verdict) {
        if verdict != Verdict::Queued {
            self.on_gone(verdict);
        }
    }

    #[cold]
    fn on_gone(&mut self, verdict: Verdict) {
        match verdict {
            Verdict::Queued => {}
            Verdict::Lost | Verdict::Dropped(Reason::Down) => self.wire_lost += 1,
            Verdict::Dropped(Reason::Queue) => self.queue_dropped += 1,
        }
    }
}

/// The counters of one connection.
#[derive(Clone, Debug, Default)]
pub struct Tally {
    /// Packets whose data did not continue what had arrived.
    pub ooo_packets: u64,
    /// Their payload.
    pub ooo_bytes: u64,
    /// Packets with data, new or not, that reached the receiver.
    pub arrived: u64,
    /// Packets of which nothing was new.
    pub duplicates: u64,
    /// Packets that the receiver dropped as beyond the window that it had announced.
    pub window_drops: u64,
}
