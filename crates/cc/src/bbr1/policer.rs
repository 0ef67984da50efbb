//! BBR's guard against token-bucket policers ("long-term" bandwidth in `tcp_bbr.c`).
//!
//! ```text
//! interval    from a loss, 4 to 16 rounds, to a loss; counts if lost ≥ 50/256 of delivered
//! policed     two intervals in a row whose rates differ by ≤ 1/8, or by ≤ 4 kbit/s
//! then        bw = their mean, pacing gain 1, for 48 rounds of PROBE_BW
//! ```
//!
//! Reference: `bbr_lt_bw_sampling`; Flach et al., "An Internet-Wide Analysis of Traffic Policing",
//! SIGCOMM 2016. Departures: counts bytes where the kernel counts packets.

use weftway_path::{BitRate, Bytes, Instant};

/// Rounds that an interval lasts at least (`bbr_lt_intvl_min_rtts`), and four times that at most.
const LEAST_ROUNDS: u32 = 4;
const MOST_ROUNDS: u32 = 4 * LEAST_ROUNDS;
/// Lost over delivered that makes an interval lossy: 50/256, about 20 % (`bbr_lt_loss_thresh`).
const LOSSY: u64 = 50;
/// Rates within 1/8 are the same (`bbr_lt_bw_ratio`), and so are rates within 4 kbit/s.
const SAME_SHARE: u64 = 8;
const SAME_BPS: u64 = 4000;
/// Rounds for which the policed rate holds (`bbr_lt_bw_max_rtts`).
const HOLD_ROUNDS: u32 = 48;
/// An interval longer than 2^32 µs is no interval.
const LONGEST_MS: u64 = 4_294_967;

/// Part of an interval that an ACK adds.
pub(super) struct Interval {
    pub(super) now: Instant,
    /// The path's total.
    pub(super) delivered: u64,
    /// True if packets were lost.
    pub(super) lossy: bool,
    pub(super) round_start: bool,
    pub(super) app_limited: bool,
    /// True in PROBE_BW.
    pub(super) probing: bool,
}

/// Consequence of an interval.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Verdict {
    Nothing,
    /// There is a policer.
    Policed,
    /// Its rate has been used for long enough: probe again.
    Expired,
}

#[derive(Clone, Debug)]
pub(super) struct Policer {
    sampling: bool,
    in_use: bool,
    /// The rate of the last interval, or the policer's.
    bw: u64,
    rounds: u32,
    /// All that was lost on the path, and delivered as of the last ACK.
    lost: u64,
    delivered: u64,
    /// Beginning of the interval.
    began: Instant,
    began_delivered: u64,
    began_lost: u64,
}

impl Policer {
    pub(super) fn new(now: Instant) -> Self {
        Self {
            sampling: false,
            in_use: false,
            bw: 0,
            rounds: 0,
            lost: 0,
            delivered: 0,
            began: now,
            began_delivered: 0,
            began_lost: 0,
        }
    }

    /// The policer's rate, while it is in use.
    pub(super) fn rate(&self) -> Option<BitRate> {
        self.in_use.then_some(BitRate::from_bps(self.bw))
    }

    pub(super) fn count_lost(&mut self, lost: Bytes) {
        self.lost = self.lost.saturating_add(lost.get());
    }

    /// A timeout counts as a loss at the end of a round.
    pub(super) fn on_timeout(&mut self, now: Instant, probing: bool) -> Verdict {
        let delivered = self.delivered;
        self.on_interval(&Interval { now, delivered, lossy: true, round_start: true, app_limited: false, probing })
    }

    #[inline]
    pub(super) fn on_interval(&mut self, at: &Interval) -> Verdict {
        self.delivered = at.delivered;
        // The first loss shows that the bucket is empty; before it, rates are too high.
        if !self.in_use && !self.sampling && !at.lossy { Verdict::Nothing } else { self.judge(at) }
    }

    #[inline(never)]
    fn judge(&mut self, at: &Interval) -> Verdict {
        if self.in_use {
            return self.hold(at);
        }
        if !self.sampling {
            self.begin(at.now);
            self.sampling = true;
        }
        if at.app_limited {
            self.reset(at.now);
            return Verdict::Nothing;
        }
        self.rounds += u32::from(at.round_start);
        if self.rounds > MOST_ROUNDS {
            self.reset(at.now);
            return Verdict::Nothing;
        }
        // It ends with a loss as well, where the bucket is empty again.
        if self.rounds >= LEAST_ROUNDS && at.lossy { self.end(at.now) } else { Verdict::Nothing }
    }

    fn hold(&mut self, at: &Interval) -> Verdict {
        if at.probing && at.round_start {
            self.rounds += 1;
            if self.rounds >= HOLD_ROUNDS {
                self.reset(at.now);
                return Verdict::Expired;
            }
        }
        Verdict::Nothing
    }

    fn end(&mut self, now: Instant) -> Verdict {
        let lost = self.lost - self.began_lost;
        let delivered = self.delivered.saturating_sub(self.began_delivered);
        if delivered == 0 || lost.saturating_mul(256) < delivered.saturating_mul(LOSSY) {
            return Verdict::Nothing;
        }
        let ms = (now.as_nanos() / 1_000_000).saturating_sub(self.began.as_nanos() / 1_000_000);
        if ms < 1 {
            return Verdict::Nothing;
        }
        if ms >= LONGEST_MS {
            self.reset(now);
            return Verdict::Nothing;
        }
        self.compare(delivered.saturating_mul(8000) / ms, now)
    }

    fn compare(&mut self, bw: u64, now: Instant) -> Verdict {
        let apart = bw.abs_diff(self.bw);
        if self.bw > 0 && (apart <= self.bw / SAME_SHARE || apart <= SAME_BPS) {
            self.bw = self.bw.midpoint(bw);
            self.in_use = true;
            self.rounds = 0;
            return Verdict::Policed;
        }
        self.bw = bw;
        self.begin(now);
        Verdict::Nothing
    }

    fn begin(&mut self, now: Instant) {
        self.began = now;
        self.began_delivered = self.delivered;
        self.began_lost = self.lost;
        self.rounds = 0;
    }

    /// Forgets every interval.
    pub(super) fn reset(&mut self, now: Instant) {
        self.bw = 0;
        self.in_use = false;
        self.sampling = false;
        self.begin(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Rounds of 100 ms in which 80 packets arrive and 20 are lost: 80 · 1250 B in 100 ms = 8 Mbit/s.
    fn lossy_rounds(policer: &mut Policer, from: u64, rounds: u64) -> Option<u64> {
        for round in from..from + rounds {
            policer.count_lost(Bytes::new(20 * 1250));
            let verdict = policer.on_interval(&Interval {
                now: Instant::from_millis(100 * round),
                delivered: round * 80 * 1250,
                lossy: true,
                round_start: true,
                app_limited: false,
                probing: true,
            });
            if verdict != Verdict::Nothing {
                return Some(round);
            }
        }
        None
    }

    #[test]
    fn two_equal_lossy_intervals_show_a_policer() {
        let mut policer = Policer::new(Instant::ZERO);
        // 25 % lost. The loss of round 1 begins the first interval and counts as its first round;
        // it ends in round 4, the second, which begins there, in round 8.
        assert_eq!(lossy_rounds(&mut policer, 1, 20), Some(8));
        assert_eq!(policer.rate(), Some(BitRate::from_mbps(8)));
    }

    #[test]
    fn the_policed_rate_holds_for_48_rounds() {
        let mut policer = Policer::new(Instant::ZERO);
        lossy_rounds(&mut policer, 1, 8);
        assert_eq!(lossy_rounds(&mut policer, 9, 100), Some(8 + 48));
        assert_eq!(policer.rate(), None);
    }

    /// Four rounds of 100 ms in each of which `packets` of 1250 B arrive and 20 are lost, from round `from` and `base`
    /// on.
    fn interval(policer: &mut Policer, from: u64, base: u64, packets: u64) -> Verdict {
        let mut verdict = Verdict::Nothing;
        for round in 1..=4 {
            policer.count_lost(Bytes::new(20 * 1250));
            verdict = policer.on_interval(&Interval {
                now: Instant::from_millis(100 * (from + round)),
                delivered: (base + round * packets) * 1250,
                lossy: true,
                round_start: true,
                app_limited: false,
                probing: true,
            });
        }
        verdict
    }

    #[test]
    fn rates_within_an_eighth_are_the_same() {
        // The first loss begins an interval after 80 packets; three rounds of it bring 240 more, 8 Mbit/s. The
        // next interval brings 8.8 Mbit/s, a tenth more, or 9.6, a fifth more.
        for (packets, verdict) in [(88, Verdict::Policed), (96, Verdict::Nothing)] {
            let mut policer = Policer::new(Instant::ZERO);
            assert_eq!(interval(&mut policer, 0, 0, 80), Verdict::Nothing);
            assert_eq!(interval(&mut policer, 4, 320, packets), verdict, "{packets} packets");
        }
        // The mean of both is its rate.
        let mut policer = Policer::new(Instant::ZERO);
        interval(&mut policer, 0, 0, 80);
        interval(&mut policer, 4, 320, 88);
        assert_eq!(policer.rate(), Some(BitRate::from_bps(8_400_000)));
    }
}
