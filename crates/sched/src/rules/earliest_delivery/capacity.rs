//! What a path brought while its bottleneck was busy.

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

/// It counts for so many smoothed round trips.
const CAPACITY_SPAN: u64 = 64;

/// A queue stands on a path whose smoothed round trip exceeds the least by more than one part in so many, and by more than
/// so many packets take. Then what was delivered is what the path brings, however far the window is open.
const STANDING_PART: u64 = 4;
const STANDING_PACKETS: u64 = 4;

/// The largest delivery rate of a path among the samples whose own round trip told of a queue.
#[derive(Clone, Copy, Default)]
pub(super) struct Capacity {
    rate: BitRate,
    at: Instant,
    /// When the first acknowledgement came after the path had run empty. A sample of what was sent before it spans time in which
    /// the path was idle, and tells too little.
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

/// Whether a queue stands on a path with this round trip, of which its least and its rate tell.
pub(super) fn is_queueing(round_trip: Span, least: Span, mss: Bytes, peak: BitRate) -> bool {
    let standing = round_trip.saturating_sub(least);
    let packets = mss.mul_div(STANDING_PACKETS, 1);
    peak > BitRate::ZERO && standing > least / STANDING_PART && standing > peak.transmission_time(packets)
}
