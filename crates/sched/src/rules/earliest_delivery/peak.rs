//! Peak of a path's delivery rate, and the queue that is gone but still in its smoothed round trip.

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

use super::capacity::Capacity;

/// Smoothed round trips for which a peak counts in full, and as long again: long enough to bridge what one round
/// trip of an idle application hides, short enough to follow a cellular link.
const PEAK_SPAN: u64 = 2;
/// Samples after which nothing is left in `srtt` of its old value.
const MOST_SAMPLES: u64 = 64;
/// Silence after which a path that holds nothing is asked by a copy.
const PROBE_AFTER: Span = Span::from_millis(250);

/// Time for which the most that a path has shown counts in full, and as long again.
const MOST_SPAN: Span = Span::from_secs(60);

/// Largest delivery rate of one to two spans of time.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
struct Largest {
    began: Instant,
    /// Largest rate since `began`, and in the span before.
    last: BitRate,
    before: BitRate,
}

impl Largest {
    fn note(&mut self, now: Instant, rate: BitRate, span: Span) {
        if now.since(self.began) >= span {
            (self.began, self.before) = (now, self.last);
            self.last = BitRate::ZERO;
        }
        self.last = self.last.max(rate);
    }

    fn rate(&self) -> BitRate {
        self.last.max(self.before)
    }
}

/// Delivery rates of a path in its last round trips and in the last minutes, and its last acknowledgement.
#[derive(Clone, Copy, Default)]
pub(super) struct Peak {
    /// Of the last 2 to 4 smoothed round trips.
    recent: Largest,
    /// Of the last minute or two.
    most: Largest,
    /// Part of `srtt` that is due to a queue that was gone when the path was asked again.
    stale_queue: Span,
    /// Rate while a queue stood there.
    pub capacity: Capacity,
    /// Samples in `srtt` when the last acknowledgement came.
    samples: u64,
    last_ack: LastAck,
}

/// Path at its last acknowledgement.
#[derive(Clone, Copy, PartialEq, Default)]
struct LastAck {
    at: Instant,
    unacked: Bytes,
    delivery_rate: BitRate,
}

impl Peak {
    /// Takes the acknowledgement of a packet that left at `sent`, if that is known.
    pub(super) fn note(&mut self, now: Instant, sent: Option<Instant>, path: &Path) {
        // The packets that come with one acknowledgement tell the same, but for the first two where a new time begins.
        let ack = LastAck { at: now, unacked: path.unacked(), delivery_rate: path.delivery_rate };
        if self.last_ack == ack && self.samples == path.rtt_samples && self.recent.began < now {
            return;
        }
        // Each sample takes an eighth of `srtt`.
        if !self.stale_queue.is_zero() {
            for _ in 0..path.rtt_samples.saturating_sub(self.samples).min(MOST_SAMPLES) {
                self.stale_queue = self.stale_queue * 7 / 8;
            }
        }
        if sent.is_some_and(|sent| sent.since(self.heard()) > PROBE_AFTER) {
            self.stale_queue = path.srtt.saturating_sub(path.latest_rtt);
        }
        (self.last_ack, self.samples) = (ack, path.rtt_samples);
        let is_empty = path.unacked() < path.mss.plus(path.mss);
        self.capacity.note(now, path, is_empty);
        self.recent.note(now, path.delivery_rate, path.srtt * PEAK_SPAN);
        self.most.note(now, path.delivery_rate, MOST_SPAN);
    }

    /// Time of the last acknowledgement.
    fn heard(&self) -> Instant {
        self.last_ack.at
    }

    /// Tells whether only a new packet can tell that a queue is gone: the path holds nothing and was not heard for a
    /// while, and its round trip was more than twice the least.
    pub(super) fn is_stale(&self, now: Instant, path: &Path) -> bool {
        path.unacked() == Bytes::ZERO && now.since(self.heard()) > PROBE_AFTER && self.smoothed(path) > path.min_rtt * 2
    }

    /// Smoothed round-trip time, less the queue that is gone.
    pub(super) fn smoothed(&self, path: &Path) -> Span {
        path.srtt.saturating_sub(self.stale_queue)
    }

    /// Largest delivery rate of the last 2 to 4 smoothed round trips.
    pub(super) fn rate(&self) -> BitRate {
        self.recent.rate()
    }

    /// Largest delivery rate of the last minute or two.
    pub(super) fn most(&self) -> BitRate {
        self.most.rate()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::path;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// The second of two packets of one acknowledgement may be passed over, whether or not a new time begins with it.
    #[test]
    fn packets_of_one_acknowledgement_tell_the_same() {
        let mut path = Path { delivery_rate: BitRate::from_mbps(8), ..path(0, 20, 100, 0) };
        let (mut peak, mut each) = (Peak::default(), Peak::default());
        for n in 0..200 {
            path.bytes_in_flight = path.mss.mul_div(n % 3, 1);
            path.rtt_samples += n % 2;
            for _ in 0..2 {
                peak.note(at(7 * n), None, &path);
                each.last_ack.at = Instant::NEVER;
                each.note(at(7 * n), None, &path);
            }
            let known = |peak: &Peak| (peak.recent, peak.most, peak.samples);
            assert_eq!(known(&peak), known(&each), "{n}");
        }
    }
}
