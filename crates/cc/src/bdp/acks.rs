//! Acknowledgements that the receiver may have kept: they tell neither a rate nor a queue.
//!
//! A receiver acknowledges after so many packets (two; ten or more where acknowledgements are thinned), or when its
//! delay has passed, 25 ms (RFC 9000 §18.2) or 40 (Linux). The delay passes only where nothing follows: at the end of a
//! burst.
//!
//! ```text
//! kept     of one packet alone; or the newest packet ended a burst, and it acknowledges less than others did, or all
//!          that was in flight, more than two packets
//! ```

use weftway_path::{Instant, Span};

use crate::Acked;

/// Packets that leave so far apart are of two bursts.
const APART: Span = Span::from_millis(5);

#[derive(Clone, Copy, Debug)]
pub(super) struct Acks {
    mss: u64,
    /// Most bytes of one acknowledgement, of which a part fades with each round trip.
    most: u64,
    /// Departure of the newest packet, and of the last four that ended a burst.
    newest: Instant,
    ends: [Instant; 4],
}

impl Acks {
    pub(super) fn new(mss: u64) -> Self {
        Self { mss, most: 0, newest: Instant::ZERO, ends: [Instant::ZERO; 4] }
    }

    pub(super) fn on_sent(&mut self, now: Instant) {
        if now.since(self.newest) >= APART {
            self.ends.rotate_right(1);
            self.ends[0] = self.newest;
        }
        self.newest = now;
    }

    /// Returns true if the receiver may have kept this acknowledgement.
    pub(super) fn on_acked(&mut self, acked: &Acked) -> bool {
        let bytes = acked.bytes.get();
        self.most = self.most.max(bytes);
        let is_end = self.newest == acked.newest_sent || self.ends.contains(&acked.newest_sent);
        let is_all = bytes > 2 * self.mss && bytes >= acked.prior_in_flight.get();
        bytes < 2 * self.mss || is_end && (is_all || bytes < self.most)
    }

    pub(super) fn end_round(&mut self) {
        self.most -= self.most / 8;
    }
}
