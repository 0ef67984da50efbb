//! Rate of a path while its bottleneck was busy.

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

/// Smoothed round trips for which the rate counts.
const CAPACITY_SPAN: u64 = 64;

/// A queue stands on a path whose round trip exceeds the least by more than this part of it, and by more than this many
/// packets take. Then the path brings what was delivered, however far the window is open.
const STANDING_PART: u64 = 4;
const STANDING_PACKETS: u64 = 4;

/// The largest delivery rate of a path among the samples whose own round trip told of a queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Capacity {
    rate: BitRate,
    at: Instant,
    /// Time of the first acknowledgement after the path had run empty. A sample of what was sent before it spans time
    /// in which the path was idle, and tells too little.
    resumed: Option<Instant>,
}

impl Capacity {
    /// An acknowledgement came. `is_empty`: the path now holds less than two packets.
    pub(super) fn note(&mut self, now: Instant, path: &Path, is_empty: bool) {
        let spans_idle = self.resumed.is_none_or(|resumed| now.since(resumed) < path.latest_rtt);
        self.resumed = if is_empty { None } else { self.resumed.or(Some(now)) };
        let rate = path.delivery_rate;
        let counts = !spans_idle && is_queueing(path.latest_rtt, path.min_rtt, path.mss, rate);
        if counts && self.known(now, path.srtt).is_none_or(|(known, _)| rate >= known) {
            (self.rate, self.at) = (rate, now);
        }
    }

    /// The rate, if the path has been busy lately, and until when that counts.
    pub(super) fn known(&self, now: Instant, srtt: Span) -> Option<(BitRate, Instant)> {
        let until = self.at + srtt * CAPACITY_SPAN + Span::from_nanos(1);
        (self.rate > BitRate::ZERO && now < until).then_some((self.rate, until))
    }
}

/// Tells whether a queue stands on a path, by its round trip, its least one and its rate.
pub(super) fn is_queueing(round_trip: Span, least: Span, mss: Bytes, peak: BitRate) -> bool {
    let standing = round_trip.saturating_sub(least);
    let packets = mss.mul_div(STANDING_PACKETS, 1);
    peak > BitRate::ZERO && standing > least / STANDING_PART && standing > peak.transmission_time(packets)
}
