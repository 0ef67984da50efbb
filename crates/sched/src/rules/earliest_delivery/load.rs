//! Load of the connection.

use weftway_path::{BitRate, Bytes, Instant, Span};

use super::forecast::Forecast;

/// Time for which bytes that were sent count as load.
const MEMORY: Span = Span::from_millis(250);
/// Largest load, in thousandths: a saturated connection would price a copy at infinity.
const MOST_LOAD: u64 = 990;

/// Bytes that were sent lately, and ever, once and as copies.
#[derive(Clone, Copy, Default)]
pub(super) struct Load {
    at: Instant,
    /// Bytes sent lately, of which a share is forgotten with time.
    recent: Bytes,
    /// Bytes that were ever sent and are no copies.
    pub fresh: Bytes,
    /// Bytes of all copies.
    pub copied: Bytes,
}

impl Load {
    fn recent(&self, now: Instant) -> Bytes {
        let left = MEMORY.saturating_sub(now.since(self.at));
        self.recent.mul_div(left.as_micros(), MEMORY.as_micros())
    }

    /// Takes a packet that left.
    pub(super) fn note(&mut self, now: Instant, bytes: Bytes, copy: bool) {
        (self.recent, self.at) = (self.recent(now).plus(bytes), now);
        *if copy { &mut self.copied } else { &mut self.fresh } += bytes;
    }

    /// Share of the bytes sent lately in those that all paths could have brought, in thousandths.
    pub(super) fn permille<'a>(&self, now: Instant, paths: impl Iterator<Item = &'a Forecast>) -> u64 {
        let all = paths.fold(0u64, |sum, path| sum.saturating_add(path.rate().as_bps()));
        let sent = BitRate::of(self.recent(now), MEMORY).as_bps();
        sent.saturating_mul(1000).checked_div(all).unwrap_or(0).min(MOST_LOAD)
    }
}
