//! Round-trip estimation, in the two forms that stacks use.

use weftway_path::{Instant, Path, Span};

/// Linux's estimator (`tcp_rtt_estimator`): Jacobson's, with the deviation's decay slowed while
/// the round-trip time falls, the largest deviation of each round trip kept, and the variance
/// term never below the least timeout. All values in nanoseconds, scaled as there.
#[derive(Clone, Copy, Debug, Default)]
pub struct LinuxRtt {
    srtt_8: u64,
    mdev_4: u64,
    mdev_max_4: u64,
    rttvar_4: u64,
    /// The deviation's maximum is taken afresh when this packet is acknowledged.
    round_end: u64,
}

impl LinuxRtt {
    /// Takes a sample; `una` and `next` are the path's lowest unacknowledged and next packet.
    #[inline]
    pub fn sample(&mut self, rtt: Span, floor: Span, una: u64, next: u64) {
        let floor = floor.as_nanos();
        let m = rtt.as_nanos().max(1);
        if self.srtt_8 == 0 {
            self.srtt_8 = m << 3;
            self.mdev_4 = m << 1;
            self.rttvar_4 = self.mdev_4.max(floor);
            self.mdev_max_4 = self.rttvar_4;
            self.round_end = next;
            return;
        }
        let error = m as i64 - (self.srtt_8 >> 3) as i64;
        self.srtt_8 = (self.srtt_8 as i64 + error) as u64;
        let mut change = error.abs() - (self.mdev_4 >> 2) as i64;
        if error < 0 && change > 0 {
            change >>= 3;
        }
        self.mdev_4 = (self.mdev_4 as i64 + change) as u64;
        if self.mdev_4 > self.mdev_max_4 {
            self.mdev_max_4 = self.mdev_4;
            self.rttvar_4 = self.rttvar_4.max(self.mdev_max_4);
        }
        if una > self.round_end {
            if self.mdev_max_4 < self.rttvar_4 {
                self.rttvar_4 -= (self.rttvar_4 - self.mdev_max_4) >> 2;
            }
            self.round_end = next;
            self.mdev_max_4 = floor;
        }
    }

    /// The smoothed round-trip time.
    #[inline]
    pub fn srtt(&self) -> Span {
        Span::from_nanos(self.srtt_8 >> 3)
    }

    /// RFC 6298's RTTVAR.
    #[inline]
    pub fn rttvar(&self) -> Span {
        Span::from_nanos(self.mdev_4 >> 2)
    }

    /// srtt plus the variance term: the timeout before back-off.
    pub fn rto(&self) -> Span {
        if self.srtt_8 == 0 { Span::from_secs(1) } else { Span::from_nanos((self.srtt_8 >> 3) + self.rttvar_4) }
    }

    /// RFC 6298's timeout: the sum, never below `floor`.
    pub fn rto_rfc6298(&self, floor: Span) -> Span {
        let rto = self.srtt() + self.rttvar() * 4;
        if self.srtt_8 == 0 { Span::from_secs(1).max(floor) } else { rto.max(floor) }
    }
}

/// RFC 9002 §5: srtt 7/8, rttvar 3/4, the peer's delay taken out where the result stays at or
/// above min_rtt.
#[derive(Clone, Copy, Debug, Default)]
pub struct QuicRtt {
    srtt: Span,
    rttvar: Span,
    min: Span,
}

impl QuicRtt {
    /// Takes a sample.
    pub fn sample(&mut self, rtt: Span, ack_delay: Span) {
        if self.srtt.is_zero() {
            self.srtt = rtt;
            self.rttvar = rtt / 2;
            self.min = rtt;
            return;
        }
        self.min = self.min.min(rtt);
        let adjusted = if rtt >= self.min + ack_delay { rtt - ack_delay } else { rtt };
        self.rttvar = (self.rttvar * 3 + self.srtt.abs_diff(adjusted)) / 4;
        self.srtt = (self.srtt * 7 + adjusted) / 8;
    }

    /// The smoothed round-trip time; 333 ms before the first sample (kInitialRtt).
    #[inline]
    pub fn srtt(&self) -> Span {
        if self.srtt.is_zero() { Span::from_millis(333) } else { self.srtt }
    }

    /// The deviation.
    #[inline]
    pub fn rttvar(&self) -> Span {
        if self.srtt.is_zero() { Span::from_millis(166) } else { self.rttvar }
    }

    /// The probe timeout before back-off.
    pub fn pto(&self, max_ack_delay: Span) -> Span {
        self.srtt() + (self.rttvar() * 4).max(Span::from_millis(1)) + max_ack_delay
    }
}

/// Writes one sample into the view of its path.
#[inline]
pub fn publish(view: &mut Path, sample: Span, srtt: Span, rttvar: Span) {
    view.latest_rtt = sample;
    view.srtt = srtt;
    view.rttvar = rttvar;
    view.min_rtt = if view.rtt_samples == 0 { sample } else { view.min_rtt.min(sample) };
    view.max_rtt = view.max_rtt.max(sample);
    view.rtt_sum += sample;
    view.rtt_samples += 1;
}

/// A running minimum over a window of time, by three samples (`lib/win_minmax.c`; K. Nichols).
#[derive(Clone, Copy, Debug)]
pub struct MinRtt {
    best: [(Instant, Span); 3],
    window: Span,
    /// Up to this time none of the three is too old.
    fresh_until: Instant,
}

impl MinRtt {
    /// The smallest sample of the last `window`.
    pub fn new(window: Span) -> Self {
        Self { best: [(Instant::ZERO, Span::MAX); 3], window, fresh_until: Instant::ZERO }
    }

    /// Takes a sample and returns the minimum.
    #[inline]
    pub fn update(&mut self, now: Instant, rtt: Span) -> Span {
        // Nearly every sample is above all three, the last of which is the largest.
        if rtt <= self.best[2].1 || now > self.fresh_until {
            self.replace(now, rtt);
            let [first, second, third] = self.best.map(|(at, _)| at);
            let part = if second == first {
                4
            } else if third == second {
                2
            } else {
                1
            };
            self.fresh_until = first + self.window / part;
        }
        self.best[0].1
    }

    /// Replaces what `rtt` is below, and what is too old.
    fn replace(&mut self, now: Instant, rtt: Span) {
        let new = (now, rtt);
        if rtt <= self.best[0].1 || now.since(self.best[2].0) > self.window {
            self.best = [new; 3];
            return;
        }
        if rtt <= self.best[1].1 {
            self.best[1] = new;
            self.best[2] = new;
        } else if rtt <= self.best[2].1 {
            self.best[2] = new;
        }
        let age = now.since(self.best[0].0);
        if age > self.window {
            self.best = [self.best[1], self.best[2], new];
            if now.since(self.best[0].0) > self.window {
                self.best = [self.best[1], self.best[2], new];
            }
        } else if self.best[1].0 == self.best[0].0 && age > self.window / 4 {
            self.best[1] = new;
            self.best[2] = new;
        } else if self.best[2].0 == self.best[1].0 && age > self.window / 2 {
            self.best[2] = new;
        }
    }

    /// The minimum; [`Span::MAX`] before the first sample.
    pub fn get(&self) -> Span {
        self.best[0].1
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// SRTT 100, RTTVAR 50, sample 140 → RTTVAR 47.5, SRTT 105; RFC 6298 with a
    /// floor of 1 s gives 1 s, Linux 305 ms.
    #[test]
    fn linux_and_rfc_floors_differ() {
        let floor = Span::from_millis(200);
        let mut rtt = LinuxRtt::default();
        rtt.sample(Span::from_millis(100), floor, 0, 10);
        assert_eq!(rtt.rttvar(), Span::from_millis(50));
        rtt.sample(Span::from_millis(140), floor, 1, 10);
        assert_eq!(rtt.srtt(), Span::from_millis(105));
        assert_eq!(rtt.rttvar(), Span::from_micros(47_500));
        assert_eq!(rtt.rto(), Span::from_millis(305));
        assert_eq!(rtt.rto_rfc6298(Span::from_secs(1)), Span::from_secs(1));
    }

    /// RFC 9002 §6.2.1: srtt 40, rttvar 5, max_ack_delay 25 → 40 + 4·5 + 25 = 85 ms.
    #[test]
    fn quic_probe_timeout() {
        let rtt = QuicRtt { srtt: Span::from_millis(40), rttvar: Span::from_millis(5), min: Span::from_millis(35) };
        assert_eq!(rtt.pto(Span::from_millis(25)), Span::from_millis(85));
    }

    #[test]
    fn the_peers_delay_never_pushes_a_sample_below_the_minimum() {
        let mut rtt = QuicRtt::default();
        rtt.sample(Span::from_millis(40), Span::ZERO);
        rtt.sample(Span::from_millis(48), Span::from_millis(25));
        assert_eq!(rtt.srtt(), Span::from_millis(41)); // (7·40 + 48) / 8: 48 − 25 is below 40
    }

    /// Samples of 100 ms: RTTVAR 50, then three quarters of it each time: 37.5, 28.125, 21.09375, 15.8203125; times
    /// four 200, 150, 112.5, 84.375, 63.28125. The variance term keeps the largest of a round trip. The first ends with
    /// packet 10, the second with packet 20. In the second the largest is 84.375, and the term falls by a quarter of
    /// the difference: 200 − 28.90625.
    #[test]
    fn the_variance_term_falls_once_a_round_trip() {
        let sample =
            |rtt: &mut LinuxRtt, una, next| rtt.sample(Span::from_millis(100), Span::from_millis(4), una, next);
        let mut rtt = LinuxRtt::default();
        for (una, next) in [(0, 10), (5, 15), (11, 20), (12, 25)] {
            sample(&mut rtt, una, next);
            assert_eq!(rtt.rto(), Span::from_millis(300), "una {una}");
        }
        sample(&mut rtt, 21, 30);
        assert_eq!(rtt.rto(), Span::from_nanos(100_000_000 + 200_000_000 - 28_906_250));
    }

    /// 100 ms, then 20: the error is 80, by 30 more than RTTVAR. While the round-trip time falls an eighth of that
    /// counts, and then a quarter: 50 + 30/8/4 = 50.9375. Not slowed it would be 57.5.
    #[test]
    fn a_falling_round_trip_time_is_hardly_a_deviation() {
        let mut rtt = LinuxRtt::default();
        rtt.sample(Span::from_millis(100), Span::from_millis(4), 0, 10);
        rtt.sample(Span::from_millis(20), Span::from_millis(4), 1, 10);
        assert_eq!((rtt.srtt(), rtt.rttvar()), (Span::from_millis(90), Span::from_nanos(50_937_500)));
    }

    /// RFC 6298 §2.1: one second before the first sample; §2.4: never below the least.
    #[test]
    fn the_timeout_is_a_second_before_the_first_sample() {
        let mut rtt = LinuxRtt::default();
        assert_eq!(rtt.rto_rfc6298(Span::from_millis(200)), Span::from_secs(1));
        rtt.sample(Span::from_millis(100), Span::from_millis(4), 0, 10);
        assert_eq!(rtt.rto_rfc6298(Span::from_millis(200)), Span::from_millis(300));
    }

    /// A window of 100 ms. What came in its second quarter and in its second half is remembered: when the first minimum
    /// is too old, the next one is 15, and when that is, 20. The 30 of 101 ms came after both.
    #[test]
    fn a_minimum_has_two_successors() {
        let mut min = MinRtt::new(Span::from_millis(100));
        let steps = [(0, 10, 10), (30, 15, 10), (60, 20, 10), (101, 30, 15), (131, 40, 20)];
        for (at, rtt, least) in steps {
            assert_eq!(
                min.update(Instant::from_millis(at), Span::from_millis(rtt)),
                Span::from_millis(least),
                "{at} ms"
            );
        }
    }

    #[test]
    fn a_windowed_minimum_forgets() {
        let mut min = MinRtt::new(Span::from_secs(10));
        assert_eq!(min.update(Instant::from_millis(0), Span::from_millis(5)), Span::from_millis(5));
        assert_eq!(min.update(Instant::from_millis(6_000), Span::from_millis(8)), Span::from_millis(5));
        assert_eq!(min.update(Instant::from_millis(11_000), Span::from_millis(9)), Span::from_millis(8));
    }
}
