//! Load of the connection, and what copies may add to it.

use weftway_path::{BitRate, Bytes, Instant, Span};

use super::forecast::Forecast;

/// Time for which bytes that were sent count as load.
const MEMORY: Span = Span::from_millis(250);
/// Largest load, in thousandths: a saturated connection would price a copy at infinity.
const MOST_LOAD: u64 = 990;
/// Bytes of copies that may go before anything is sent once: twenty packets, a first window and the one after it.
const FIRST_CREDIT: Bytes = Bytes::new(30_000);
/// Part of the bytes sent once that may go as copies, where they cost something.
const CREDIT_PART: u64 = 20;

/// Bytes that were sent lately, and those that copies may still take.
#[derive(Clone, Copy)]
pub(super) struct Load {
    at: Instant,
    /// Bytes sent lately that are no copies, of which a share is forgotten with time.
    recent: Bytes,
    /// Bytes of copies that may go where they cost something.
    credit: Bytes,
}

impl Default for Load {
    fn default() -> Self {
        Self { at: Instant::ZERO, recent: Bytes::ZERO, credit: FIRST_CREDIT }
    }
}

impl Load {
    fn recent(&self, now: Instant) -> Bytes {
        let left = MEMORY.saturating_sub(now.since(self.at));
        self.recent.mul_div(left.as_micros(), MEMORY.as_micros())
    }

    /// Takes a packet that left and is no copy.
    pub(super) fn sent_once(&mut self, now: Instant, bytes: Bytes) {
        (self.recent, self.at) = (self.recent(now).plus(bytes), now);
        self.credit += bytes.mul_div(1, CREDIT_PART);
    }

    /// Takes a copy that left and cost something.
    pub(super) fn copied(&mut self, bytes: Bytes) {
        self.credit = self.credit.saturating_sub(bytes);
    }

    /// Tells whether a copy may go where it costs something.
    pub(super) fn has_credit(&self) -> bool {
        self.credit > Bytes::ZERO
    }

    /// Share of the bytes sent lately in those that all paths could have carried, in thousandths.
    pub(super) fn permille<'a>(&self, now: Instant, paths: impl Iterator<Item = &'a Forecast>) -> u64 {
        let all = paths.fold(0u64, |sum, path| sum.saturating_add(path.rates.carries.as_bps()));
        let sent = BitRate::of(self.recent(now), MEMORY).as_bps();
        sent.saturating_mul(1000).checked_div(all).unwrap_or(0).min(MOST_LOAD)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Of 80 kB that were sent once a twentieth may go as copies, beside the first 30 kB.
    #[test]
    fn copies_end_with_their_share() {
        let mut load = Load::default();
        load.sent_once(Instant::ZERO, Bytes::new(80_000));
        load.copied(Bytes::new(33_999));
        assert!(load.has_credit());
        load.copied(Bytes::new(1));
        assert!(!load.has_credit());
        load.sent_once(Instant::ZERO, Bytes::new(20));
        assert!(load.has_credit());
    }

    /// Copies are no load: 25 kB in 250 ms are 0.8 Mbit/s, of two paths that carry 2 Mbit/s each.
    #[test]
    fn copies_are_no_load() {
        let mut path = Forecast::default();
        path.rates.carries = BitRate::from_mbps(2);
        let mut load = Load::default();
        load.sent_once(Instant::ZERO, Bytes::new(25_000));
        load.copied(Bytes::new(25_000));
        assert_eq!(load.permille(Instant::ZERO, [path, path].iter()), 200);
    }
}
