//! Estimate of a path: the time that a packet takes, how much that varies, and how often it fails altogether.
//!
//! Chances are in parts per million. How long a packet takes is taken to have exponential tails, as queues have them:
//! the chance to exceed the mean by x is `½ · 2^(−x / 0.7 d)`, d being the mean deviation (a Laplace distribution).

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

/// All of it, in parts per million.
pub(super) const SURE: u64 = 1_000_000;
/// A failure moves the estimate by this part of its distance.
const GAIN: u64 = 512;
/// Failures of a path of which nothing is known: one in five hundred.
const FIRST_FAILING: u64 = 2_000;
/// Deviations beyond the mean that nearly nothing takes: the tail is below 3 % there.
const NEARLY_ALL: u64 = 3;
/// Least deviation: clocks, hosts and pacers vary by so much.
const LEAST_DEVIATION: Span = Span::from_micros(500);

/// Times: their mean and their mean deviation.
#[derive(Clone, Copy, Default)]
pub(super) struct Times {
    pub(super) mean: Span,
    pub(super) deviation: Span,
    /// Samples in a row below half of the mean.
    low: u8,
}

impl Times {
    /// Takes a sample. Two in a row that are much less begin anew: the path is better than it was.
    pub(super) fn note(&mut self, sample: Span) {
        let Self { mean, deviation, low } = self;
        *low = if sample * 2 < *mean { *low + 1 } else { 0 };
        if mean.is_zero() || *low > 1 {
            *self = Self { mean: sample, deviation: sample / 8, low: 0 };
            return;
        }
        let error = sample.abs_diff(*mean);
        *mean = if sample > *mean { *mean + error / 4 } else { mean.saturating_sub(error / 4) };
        *deviation = match error > *deviation {
            true => *deviation + (error.saturating_sub(*deviation)) / 4,
            false => deviation.saturating_sub(deviation.saturating_sub(error) / 16),
        };
    }

    /// Chance that a time is longer than `time`.
    pub(super) fn beyond(&self, time: Span) -> u64 {
        let half = SURE / 2;
        let tail = |more: Span| {
            let tenths = more.as_nanos().saturating_mul(100) / (self.spread().as_nanos() * 7).max(1);
            let (whole, tenths) = (tenths / 10, tenths % 10);
            if whole > 20 { 0 } else { (half >> whole) - (half >> whole) * tenths / 20 }
        };
        if time >= self.mean {
            tail(time.saturating_sub(self.mean))
        } else {
            SURE - tail(self.mean.saturating_sub(time))
        }
    }

    fn spread(&self) -> Span {
        self.deviation.max(LEAST_DEVIATION).max(self.mean / 32)
    }

    /// Time that nearly nothing exceeds.
    pub(super) fn most(&self) -> Span {
        self.mean + self.spread() * NEARLY_ALL
    }
}

/// Estimate of a path.
#[derive(Clone, Copy)]
pub(super) struct Estimate {
    /// Round trips.
    trip: Times,
    /// Times from when a packet leaves until it is acknowledged.
    pub(super) answer: Times,
    /// Round-trip samples that were seen.
    samples: u64,
    /// Chance that a packet which should have come in time does not, times [`GAIN`]: so it can become none.
    failing: u64,
    /// Time at which something was last sent.
    pub(super) sent: Instant,
    /// Time at which something was last sent after a pause, if it was.
    pub(super) asked: Option<Instant>,
}

impl Default for Estimate {
    fn default() -> Self {
        Self {
            trip: Times::default(),
            answer: Times::default(),
            samples: 0,
            failing: FIRST_FAILING * GAIN,
            sent: Instant::ZERO,
            asked: None,
        }
    }
}

impl Estimate {
    /// Notes that a packet leaves, after a pause if nothing did for `pause`.
    pub(super) fn sent(&mut self, now: Instant, pause: Span) {
        if now.since(self.sent) >= pause {
            self.asked = Some(now);
        }
        self.sent = now;
    }

    /// Takes an acknowledgement of a packet that left so long ago.
    pub(super) fn acked(&mut self, path: &Path, after: Span) {
        self.answer.note(after);
        if path.rtt_samples != self.samples {
            self.samples = path.rtt_samples;
            self.trip.note(path.latest_rtt);
        }
    }

    /// Notes whether a packet that should have come in time failed.
    pub(super) fn ended(&mut self, failed: bool) {
        self.failing -= self.failing / GAIN;
        self.failing += if failed { SURE } else { 0 };
    }

    /// Chance that a packet which should have come in time does not.
    pub(super) fn failing(&self) -> u64 {
        self.failing / GAIN
    }

    /// Time that a packet takes to the other end if it leaves now, where the oldest packet in flight left at `oldest`.
    /// What a path's queue adds to the round trip is taken to be on the way there.
    pub(super) fn way(&self, now: Instant, path: &Path, oldest: Option<Instant>) -> Times {
        let known = if self.trip.mean.is_zero() {
            Times { mean: path.srtt, deviation: path.rttvar, low: 0 }
        } else {
            self.trip
        };
        let silent = oldest.map_or(Span::ZERO, |sent| now.since(sent));
        let overdue = if silent > self.expected(path) { silent } else { Span::ZERO };
        let held = path.bytes_in_flight + path.queued;
        let rate = path.pacing_rate.max(path.delivery_rate);
        let drains =
            if rate == BitRate::ZERO || held == Bytes::ZERO { Span::ZERO } else { rate.transmission_time(held) };
        let trip = known.mean.max(overdue).max(drains);
        Times { mean: trip.saturating_sub(path.min_rtt / 2), ..known }
    }

    /// Time within which nearly all packets are acknowledged; never less than loss detection waits (RFC 9002 §6.1.2).
    pub(super) fn expected(&self, path: &Path) -> Span {
        let usual = if self.answer.mean.is_zero() { path.srtt + path.rttvar * NEARLY_ALL } else { self.answer.most() };
        usual.max(path.srtt + path.srtt / 8)
    }

    /// Chance that a packet which takes `way` fails or is longer under way than `left`.
    pub(super) fn fails(&self, way: &Times, left: Span) -> u64 {
        either(self.failing(), way.beyond(left))
    }
}

/// Chance of one or the other of two things that are independent.
pub(super) fn either(one: u64, other: u64) -> u64 {
    one + other - both(one, other)
}

/// Chance of both.
pub(super) fn both(one: u64, other: u64) -> u64 {
    one * other / SURE
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Mean 40 ms, deviation 10: each 7 ms more halve the chance; half of the way halves it by a quarter.
    #[test]
    fn tails_halve_with_each_seven_tenths_of_the_deviation() {
        let ms = Span::from_millis;
        let times = Times { mean: ms(40), deviation: ms(10), low: 0 };
        let chances = [26, 33, 40, 47, 54, 61].map(|time| times.beyond(ms(time)));
        assert_eq!(chances, [875_000, 750_000, 500_000, 250_000, 125_000, 62_500]);
        assert_eq!((times.beyond(Span::from_micros(43_500)), times.beyond(ms(400))), (375_000, 0));
        // Without any deviation a 32nd of the mean counts.
        let steady = Times { mean: ms(32), ..Times::default() };
        assert_eq!(steady.beyond(Span::from_micros(32_700)), 250_000);
    }

    /// 40, then 80: a quarter of the way, 50; deviation 5, then 5 + (40 − 5)/4 = 13.75. One sample of 10 is a quarter
    /// of the way down, 40; a second one begins anew.
    #[test]
    fn times_follow_samples_and_begin_anew_when_the_path_is_better() {
        let ms = Span::from_millis;
        let mut times = Times::default();
        times.note(ms(40));
        times.note(ms(80));
        assert_eq!((times.mean, times.deviation), (ms(50), Span::from_micros(13_750)));
        times.note(ms(10));
        assert_eq!(times.mean, ms(40));
        times.note(ms(10));
        assert_eq!((times.mean, times.deviation), (ms(10), Span::from_micros(1250)));
    }

    #[test]
    fn failures_are_a_share_of_packets() {
        let mut estimate = Estimate::default();
        estimate.ended(true);
        // 2000 − 2000/512 + 1 000 000/512; after as many packets as the gain says, 1/e is left: 1452.
        assert_eq!(estimate.failing(), 3949);
        (0..512).for_each(|_| estimate.ended(false));
        assert!((1_440..1_460).contains(&estimate.failing()), "{}", estimate.failing());
        assert_eq!((either(500_000, 500_000), both(1000, 1000)), (750_000, 1));
    }

    /// After 10 · 512 packets 2000/e¹⁰ = 0.09 in a million are left.
    #[test]
    fn a_path_that_never_fails_is_as_sure_as_any_target() {
        let mut estimate = Estimate::default();
        (0..10 * 512).for_each(|_| estimate.ended(false));
        assert_eq!(estimate.failing(), 0);
        (0..10_000).for_each(|packet| estimate.ended(packet % 1000 == 500));
        // 500 packets after a failure: 1953 · Σ (511/512)^(500 + 1000 n) = 1953 · 0.376/0.858.
        assert!((850..862).contains(&estimate.failing()), "{}", estimate.failing());
    }
}
