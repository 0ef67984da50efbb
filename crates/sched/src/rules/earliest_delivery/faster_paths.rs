//! Data that the full, faster paths deliver before a packet on a slower one arrives: the slower one leaves as much to
//! them.

use weftway_path::{BlockedReason, Bytes, Context, Instant, Path, Span};

use super::forecast::grows;
use super::{EarliestDelivery, Forecast, Predicted};

/// An acknowledgement that is late by more than this part of a round trip frees no window soon: a receiver keeps that
/// of a lone packet for 25 or 40 ms (RFC 9000 §18.2, Linux), or until the next packet.
const LATE: u64 = 8;

impl EarliestDelivery {
    /// Bytes that the blocked paths faster than `s` deliver until a packet on it arrives.
    #[inline(always)]
    pub(super) fn delivered_before(&self, cx: &Context<'_>, s: &Forecast) -> Bytes {
        let mut sum = Bytes::ZERO;
        for path in self.serving.minus(cx.open).iter() {
            let time =
                self.estimates.get(path).map_or(Span::ZERO, |f| s.expected.saturating_sub(f.predicted().expected));
            if !time.is_zero()
                && let Some(faster) = self.predicted(cx, path)
            {
                sum += self.delivered_by(cx.now, faster, time);
            }
        }
        sum
    }

    /// Bytes that a blocked path delivers in `time`.
    #[inline(never)]
    fn delivered_by(&self, now: Instant, (path, f): Predicted<'_, '_>, time: Span) -> Bytes {
        match path.blocked {
            BlockedReason::Congestion => self.clocked(now, path, f, time),
            BlockedReason::Pacing => f.delivers(path, time),
            _ => Bytes::ZERO,
        }
    }

    /// Bytes that the window of `path` lets go in `time`: those that the acknowledgements free that should come by then
    /// and are not late, twice that in slow start, less what is in flight beyond the window; and what follows them.
    fn clocked(&self, now: Instant, path: &Path, f: &Forecast, time: Span) -> Bytes {
        let back = path.min_rtt / 2;
        let Some((last, freed)) = self.flights.arriving(path.id, now - f.rtt / LATE, now + time, back) else {
            return f.delivers(path, time);
        };
        let freed = if grows(path) { freed + freed } else { freed };
        let after = time.saturating_sub((last + back).since(now));
        (freed + f.delivers(path, after)).saturating_sub(path.unacked().saturating_sub(path.cwnd))
    }
}
