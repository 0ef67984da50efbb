//! Data that the full, faster paths deliver before a packet on a slower one arrives: the slower one leaves as much to
//! them.

use weftway_path::{BlockedReason, Bytes, Context, Instant, Path, Span};

use super::forecast::grows;
use super::{EarliestDelivery, Forecast};

/// An acknowledgement that is late by more than this part of a round trip frees no window soon: a receiver keeps that
/// of a lone packet for 25 or 40 ms (RFC 9000 §18.2, Linux), or until the next packet.
const LATE: u64 = 8;

impl EarliestDelivery {
    /// Bytes that the blocked paths faster than `s` deliver until a packet on it arrives.
    #[inline(always)]
    pub(super) fn delivered_before(&self, cx: &Context<'_>, s: &Forecast) -> Bytes {
        if s.expected > self.least_expected { self.delivered_by_faster(cx, s) } else { Bytes::ZERO }
    }

    /// Bytes of [`delivered_before`](Self::delivered_before), where a path is faster.
    #[inline(never)]
    fn delivered_by_faster(&self, cx: &Context<'_>, s: &Forecast) -> Bytes {
        let faster = self.serving_paths(cx).filter(|(_, f)| f.expected < s.expected);
        faster.fold(Bytes::ZERO, |sum, (path, f)| {
            let time = s.expected.saturating_sub(f.expected);
            match path.blocked {
                BlockedReason::Congestion => sum + self.clocked(cx.now, path, f, time),
                BlockedReason::Pacing => sum + f.delivers(path, time),
                _ => sum,
            }
        })
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
