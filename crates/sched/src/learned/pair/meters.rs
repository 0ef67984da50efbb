//! Measurements of each path beyond what the path itself says.
//!
//! Throughput is bytes newly acknowledged over one srtt after the other. Loss is a fraction,
//! `lost/(lost + acked)` of each such window, smoothed with gain 1/8 (the comparison of 2024 in
//! which Q-learning, DQN and UCB were set side by side counts losses per second; a fraction does
//! not depend on the rate). Probe timeouts are counted over one second.

use weftway_path::{BitRate, Bytes, Counters, Instant, Path, PathId, Span};

use crate::shared::norm::{self, Peak};
use crate::shared::per_path::PerPath;

/// A path's first peak rate, before it has shown any: 1 Mbit/s, in bytes per second.
const FIRST_RATE: f64 = 125_000.0;

/// Throughput and loss are measured over no less, however short the round trip.
const SHORTEST_WINDOW: Span = Span::from_millis(1);

/// For how long a probe timeout counts.
const TIMEOUT_MEMORY: Span = Span::from_secs(1);

/// The meters of all paths.
#[derive(Clone, Default)]
pub(crate) struct Meters {
    known: PerPath<Meter>,
    /// Meters of a path that has shown nothing.
    fresh: Meter,
}

/// Meters of one path.
#[derive(Clone, Debug)]
pub(crate) struct Meter {
    since: Option<Instant>,
    acked: Counters,
    lost: Counters,
    throughput: f64,
    /// Smoothed fraction of lost packets.
    pub(crate) loss: f64,
    peak: Peak,
    timeouts: u32,
    consecutive: u32,
    last_timeout: Instant,
}

impl Default for Meter {
    fn default() -> Self {
        Self {
            since: None,
            acked: Counters::default(),
            lost: Counters::default(),
            throughput: 0.0,
            loss: 0.0,
            peak: Peak::new(FIRST_RATE),
            timeouts: 0,
            consecutive: 0,
            last_timeout: Instant::ZERO,
        }
    }
}

impl Meter {
    #[inline]
    fn update(&mut self, now: Instant, path: &Path) {
        // Nearly always there were none of late, and there is nothing to note.
        if self.timeouts > 0 || self.consecutive != path.pto_count {
            self.note_timeouts(now, path.pto_count);
        }
        if self.since.is_none_or(|since| now.since(since) >= path.srtt.max(SHORTEST_WINDOW)) {
            self.end_window(now, path);
        }
    }

    #[inline(never)]
    fn end_window(&mut self, now: Instant, path: &Path) {
        let before = self.since.replace(now).map(|since| (since, self.acked, self.lost));
        (self.acked, self.lost) = (path.acked, path.lost);
        let Some((since, acked_before, lost_before)) = before else { return };
        let rate = BitRate::of(path.acked.bytes.saturating_sub(acked_before.bytes), now.since(since));
        let acked = path.acked.packets.saturating_sub(acked_before.packets);
        let lost = path.lost.packets.saturating_sub(lost_before.packets);
        if acked + lost > 0 {
            self.loss += (lost as f64 / (acked + lost) as f64 - self.loss) / 8.0;
        }
        let peak = self.peak.note(now, bytes_per_second(path.delivery_rate));
        self.throughput = norm::ratio(bytes_per_second(rate), peak).min(1.0);
    }

    #[cold]
    fn note_timeouts(&mut self, now: Instant, consecutive: u32) {
        if now.since(self.last_timeout) > TIMEOUT_MEMORY {
            self.timeouts = 0;
        }
        if consecutive > self.consecutive {
            self.timeouts += consecutive - self.consecutive;
            self.last_timeout = now;
        }
        self.consecutive = consecutive;
    }

    /// Throughput of the last window against the path's peak rate, within [0, 1].
    #[inline]
    pub(crate) fn throughput(&self) -> f64 {
        self.throughput
    }

    /// The largest rate that the path has shown, in bytes per second; at first 1 Mbit/s.
    #[inline]
    pub(crate) fn peak_rate(&self) -> f64 {
        self.peak.get()
    }

    /// `bytes` a `rtt` against the path's peak rate.
    #[inline]
    pub(crate) fn per_round_trip(&self, bytes: Bytes, rtt: Span) -> f64 {
        if rtt.is_zero() {
            return 0.0;
        }
        norm::ratio(bytes.get() as f64 / rtt.as_secs_f64(), self.peak.get())
    }

    /// Probe timeouts within the last second of `now`.
    pub(crate) fn timeouts(&self, now: Instant) -> u32 {
        if now.since(self.last_timeout) > TIMEOUT_MEMORY { 0 } else { self.timeouts }
    }
}

fn bytes_per_second(rate: BitRate) -> f64 {
    rate.as_bps() as f64 / 8.0
}

impl Meters {
    /// Brings the meters of `path` up to date.
    #[inline]
    pub(crate) fn update(&mut self, now: Instant, path: &Path) {
        self.known.at(path.id).update(now, path);
    }

    /// The meters of `path`; before the first update, those of a path that has shown nothing.
    #[inline]
    pub(crate) fn of(&self, path: PathId) -> &Meter {
        self.known.get(path).unwrap_or(&self.fresh)
    }

    /// Forgets `path`.
    pub(crate) fn reset(&mut self, path: PathId) {
        self.known.reset(path);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{packets, path};

    fn counters(n: u64) -> Counters {
        Counters { bytes: packets(n), packets: n }
    }

    #[test]
    fn throughput_and_loss_are_taken_once_a_round_trip() {
        let mut path = path(0, 20, 10, 0);
        // 10 packets of 1400 bytes in 20 ms: 700 kB/s, the path's delivery rate.
        let mut meter = Meter::default();
        meter.update(Instant::ZERO, &path);
        (path.acked, path.lost) = (counters(3), counters(1));
        meter.update(Instant::from_millis(19), &path);
        assert_eq!((meter.throughput(), meter.loss), (0.0, 0.0));
        // 3 · 1400 bytes in 20 ms are 210 kB/s; a quarter lost, an eighth of it taken.
        meter.update(Instant::from_millis(20), &path);
        assert!((meter.throughput() - 0.3).abs() < 1e-9);
        assert!((meter.loss - 0.25 / 8.0).abs() < 1e-12);
    }

    #[test]
    fn rates_ten_times_as_high_read_the_same_and_silence_reads_zero() {
        let read = |factor: u64| {
            let mut path = path(0, 20, 10 * factor, 4 * factor);
            let mut meter = Meter::default();
            meter.update(Instant::ZERO, &path);
            path.acked = counters(5 * factor);
            meter.update(Instant::from_millis(20), &path);
            [meter.throughput(), meter.per_round_trip(path.bytes_in_flight, path.srtt)]
        };
        let [throughput, in_flight] = read(1);
        assert!(read(10).iter().zip([throughput, in_flight]).all(|(a, b)| (a - b).abs() < 1e-9));
        // 5 of 10 and 4 of 10 packets a round trip.
        assert!((throughput - 0.5).abs() < 1e-9 && (in_flight - 0.4).abs() < 1e-9);
        let idle = Meter::default();
        assert_eq!([idle.throughput(), idle.per_round_trip(Bytes::ZERO, Span::ZERO)], [0.0, 0.0]);
    }

    #[test]
    fn timeouts_count_for_a_second() {
        let mut path = path(0, 20, 10, 0);
        let mut meter = Meter::default();
        path.pto_count = 2;
        meter.update(Instant::from_millis(100), &path);
        path.pto_count = 0;
        meter.update(Instant::from_millis(200), &path);
        assert_eq!(meter.timeouts(Instant::from_millis(1100)), 2);
        assert_eq!(meter.timeouts(Instant::from_millis(1101)), 0);
    }

    #[test]
    fn loss_is_smoothed_and_a_silent_round_trip_says_nothing_of_it() {
        let mut path = path(0, 20, 10, 0);
        let mut meter = Meter::default();
        meter.update(Instant::ZERO, &path);
        // 1 of 4: an eighth of 0.25. Then nothing. Then none of 4: less an eighth.
        for (ms, acked, lost, loss) in
            [(20, 3, 1, 0.031_25), (40, 3, 1, 0.031_25), (60, 7, 1, 0.031_25 - 0.031_25 / 8.0)]
        {
            (path.acked, path.lost) = (counters(acked), counters(lost));
            meter.update(Instant::from_millis(ms), &path);
            assert_eq!(meter.loss, loss, "at {ms} ms");
        }
    }

    #[test]
    fn timeouts_add_up_within_a_second_and_one_that_goes_on_is_not_new() {
        let timeouts = |events: &[(u64, u32)], at: u64| {
            let (mut path, mut meter) = (path(0, 20, 10, 0), Meter::default());
            for (ms, consecutive) in events {
                path.pto_count = *consecutive;
                meter.update(Instant::from_millis(*ms), &path);
            }
            meter.timeouts(Instant::from_millis(at))
        };
        // The second of a row comes a second after the first: two.
        assert_eq!(timeouts(&[(100, 1), (1100, 2)], 1100), 2);
        // A row of two of which there is nothing new at 600 ms is over at 1101 ms.
        assert_eq!([1100, 1101].map(|at| timeouts(&[(100, 2), (600, 2)], at)), [2, 0]);
        // After more than a second the count begins anew.
        assert_eq!(timeouts(&[(100, 1), (1101, 2)], 1101), 1);
    }

    #[test]
    fn meters_are_kept_by_path_and_forgotten() {
        let (path, mut meters) = (path(1, 20, 10, 0), Meters::default());
        assert_eq!(meters.of(path.id).peak_rate(), 125e3);
        // 10 packets of 1400 bytes in 20 ms.
        [0, 20].into_iter().for_each(|ms| meters.update(Instant::from_millis(ms), &path));
        assert_eq!(meters.of(path.id).peak_rate(), 700e3);
        meters.reset(path.id);
        assert_eq!(meters.of(path.id).peak_rate(), 125e3);
    }
}
