//! Bursts of an application, which leave at ten windows a round trip where the switch `bursts` says so.
//!
//! ```text
//! limited     from when nothing is in flight, or the host marks a packet as limited by the application,
//!             until more is delivered than had been sent by then
//! pacing      max(BBR's, 10 · cwnd / srtt) while limited
//! ```
//!
//! BBR's estimate is then at most what the application gave, so that at its rate a burst takes a round trip, and the
//! next one again. The window bounds a burst as before.

use weftway_path::spec::Param;
use weftway_path::{BitRate, Bytes, Span};

use super::Pacing;
use crate::{Acked, Sent};

/// The switch.
pub(crate) const BURSTS: Param = Param {
    name: "bursts",
    default: "no",
    values: "no | yes",
    doc: "yes: while the application limits a path, up to a window leaves at ten windows a round trip",
};

/// Windows in a round trip: fast enough for no burst to notice, and not all in one instant.
const WINDOWS: u64 = 10;

/// State of the switch.
#[derive(Clone, Copy, Debug)]
pub(super) struct Bursts {
    srtt: Span,
    delivered: Bytes,
    /// The application is the limit until more than this is delivered.
    until: Option<Bytes>,
    pacing: Pacing,
}

impl Bursts {
    /// Before the first packet nothing is in flight. `cwnd` is in packets of `mss` bytes.
    pub(super) fn new(rtt: Option<Span>, cwnd: u64, mss: u64) -> Self {
        let mut new = Self {
            srtt: rtt.unwrap_or(Span::ZERO),
            delivered: Bytes::ZERO,
            until: Some(Bytes::ZERO),
            pacing: Pacing::default(),
        };
        new.pace(cwnd, mss);
        new
    }

    /// Pacing of bursts, while the application is the limit and a round trip is known.
    #[inline]
    pub(super) fn pacing(&self) -> Option<&Pacing> {
        self.until.map(|_| &self.pacing)
    }

    pub(super) fn on_sent(&mut self, sent: &Sent, cwnd: u64, mss: u64) {
        if !sent.app_limited {
            return;
        }
        if self.until.is_none() {
            self.pace(cwnd, mss);
        }
        self.until = Some(self.delivered + sent.bytes_in_flight);
    }

    pub(super) fn on_acked(&mut self, acked: &Acked, cwnd: u64, mss: u64) {
        (self.delivered, self.srtt) = (acked.delivered, acked.srtt);
        if acked.bytes_in_flight == Bytes::ZERO {
            self.until = Some(acked.delivered);
        } else if self.until.is_some_and(|until| acked.delivered > until) {
            self.until = None;
        }
        if self.until.is_some() {
            self.pace(cwnd, mss);
        }
    }

    /// Without a round trip the rate is zero, and BBR's counts.
    fn pace(&mut self, cwnd: u64, mss: u64) {
        let rate =
            if self.srtt.is_zero() { BitRate::ZERO } else { BitRate::of(Bytes::new(WINDOWS * cwnd * mss), self.srtt) };
        self.pacing = Pacing::new(rate, mss);
    }
}
