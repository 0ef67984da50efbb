//! What the versions of BBR share: gains, rounds, the full pipe, the product in packets.
//!
//! Reference: Linux `net/ipv4/tcp_bbr.c`, which `tcp_bbr2.c` repeats.

mod aggregation;
pub(crate) mod bounded;
#[cfg(test)]
pub(crate) mod pipe;

pub(crate) use aggregation::Aggregation;
use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::window::LARGEST;
use crate::{Acked, send_quantum};

/// Gains are in 256ths (`BBR_UNIT`).
pub(crate) const UNIT: u64 = 256;
/// 2/ln 2, the least gain that doubles the rate each round (`bbr_high_gain`, rounded up).
pub(crate) const HIGH_GAIN: u64 = UNIT * 2885 / 1000 + 1;
/// Its inverse, which drains in one round what STARTUP queued.
pub(crate) const DRAIN_GAIN: u64 = UNIT * 1000 / 2885;
/// Packets that keep a path busy when every second one is acknowledged (`bbr_cwnd_min_target`).
pub(crate) const LEAST: u64 = 4;
/// The window that is safe before any RTT sample (RFC 6928).
pub(crate) const INITIAL: u64 = 10;
/// Rounds without growth after which the pipe is full.
const FULL_ROUNDS: u32 = 3;
/// Pacing stays 1 % below the estimate, so that queues drain.
const MARGIN: (u64, u64) = (99, 100);
/// Below this rate a burst is a single packet (`bbr_min_tso_rate`).
const SLOW: BitRate = BitRate::from_bps(1_200_000);
/// A burst is at most this many packets when the window budgets for it (`bbr_tso_segs_goal`).
const BURST_MOST: u64 = 127;
/// The RTT that sets the first pacing rate while none is known.
const NOMINAL_RTT: Span = Span::from_millis(1);

/// Packet-timed round trips.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Round {
    pub(crate) count: u64,
    /// What was delivered when the round began; a packet sent since then ends it.
    pub(crate) began: Bytes,
    /// Whether this ACK began one.
    pub(crate) start: bool,
}

impl Round {
    /// Whether this ACK begins a round.
    pub(crate) fn advance(&mut self, acked: &Acked) -> bool {
        self.start = acked.prior_delivered >= self.began;
        if self.start {
            self.count += 1;
            self.began = acked.delivered;
        }
        self.start
    }
}

/// Whether STARTUP has filled the pipe.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct FullPipe {
    pub(crate) bw: u64,
    pub(crate) rounds: u32,
    pub(crate) reached: bool,
}

impl FullPipe {
    /// A round ended with the estimate `bw`; `growth`, in 256ths, shows that there was room.
    pub(crate) fn judge(&mut self, bw: u64, growth: u64) {
        let enough = BitRate::from_bps(self.bw).mul_div(growth, UNIT);
        if BitRate::from_bps(bw) >= enough {
            *self = Self { bw, rounds: 0, reached: false };
        } else {
            self.rounds += 1;
            self.reached = self.rounds >= FULL_ROUNDS;
        }
    }
}

/// The end of a PROBE_RTT, and what it says about samples.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct ProbeRtt {
    pub(crate) done: Option<Instant>,
    pub(crate) round_done: bool,
    /// Packets sent from the first to the last of these counts of delivery are limited by
    /// PROBE_RTT, and say nothing about the path.
    limited: Option<(Bytes, Bytes)>,
}

impl ProbeRtt {
    /// It begins: its end is not in sight.
    pub(crate) fn begin(&mut self) {
        self.done = None;
        self.limited = None;
    }

    /// What is in flight now is limited by it.
    pub(crate) fn limit(&mut self, acked: &Acked) {
        let from = self.limited.map_or(acked.delivered, |(from, _)| from);
        self.limited = Some((from, acked.delivered + acked.bytes_in_flight));
    }

    /// Whether the application, or a PROBE_RTT, limited the sample.
    pub(crate) fn is_app_limited(&self, acked: &Acked) -> bool {
        let probing = |(from, to)| (from..=to).contains(&acked.prior_delivered);
        acked.app_limited || self.limited.is_some_and(probing)
    }
}

/// `bytes` in packets of `mss`, rounded up.
pub(crate) fn packets(bytes: Bytes, mss: u64) -> u64 {
    bytes.get().min(LARGEST).div_ceil(mss)
}

/// gain · bw · rtt in packets of `mss`, rounded up.
pub(crate) fn bdp(bw: BitRate, rtt: Option<Span>, gain: u64, mss: u64) -> u64 {
    match rtt {
        Some(rtt) => (bw.bdp(rtt).get().min(LARGEST) * gain / UNIT).div_ceil(mss),
        None => INITIAL,
    }
}

/// The pacing rate of an estimate.
pub(crate) fn rate_for(bw: BitRate, gain: u64) -> BitRate {
    bw.mul_div(gain * MARGIN.0, UNIT * MARGIN.1)
}

/// The first rate: the window in an RTT, times the gain of STARTUP.
pub(crate) fn first_rate(cwnd: Bytes, srtt: Span, gain: u64) -> BitRate {
    let rtt = if srtt.is_zero() { NOMINAL_RTT } else { srtt.max(Span::from_micros(1)) };
    rate_for(BitRate::of(cwnd, rtt), gain)
}

/// A pacing rate, and what follows from it: it changes less often than packets leave.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Pacing {
    pub(crate) rate: BitRate,
    /// The burst that leaves at once (`bbr_tso_segs`).
    pub(crate) burst: Bytes,
    /// The burst for which the window budgets, in packets.
    pub(crate) burst_packets: u64,
}

impl Pacing {
    pub(crate) fn new(rate: BitRate, mss: u64) -> Self {
        let least = if rate < SLOW { 1 } else { 2 };
        let burst = send_quantum(rate, Bytes::new(mss), least);
        Self { rate, burst, burst_packets: (burst.get() / mss).min(BURST_MOST) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_leaves_during_probe_rtt_says_nothing_of_the_path() {
        let mut probe = ProbeRtt::default();
        let acked = |delivered, in_flight, prior| {
            let mut acked = pipe::blank(Instant::from_millis(100));
            (acked.delivered, acked.bytes_in_flight) = (Bytes::new(delivered), Bytes::new(in_flight));
            acked.prior_delivered = Bytes::new(prior);
            acked
        };
        let is_limited = |probe: &ProbeRtt, prior| probe.is_app_limited(&acked(0, 0, prior));
        assert!(!is_limited(&probe, 1000));
        // From 1000 B delivered on; the last packet leaves when 2000 are, with 500 in flight.
        probe.limit(&acked(1000, 800, 0));
        probe.limit(&acked(2000, 500, 0));
        let found = [999, 1000, 2500, 2501].map(|prior| is_limited(&probe, prior));
        assert_eq!(found, [false, true, true, false]);
        probe.begin();
        assert!(!is_limited(&probe, 2000));
    }

    #[test]
    fn the_pipe_is_full_after_three_rounds_without_growth() {
        let mut full = FullPipe::default();
        let mut reached = |bw| {
            full.judge(bw, UNIT * 5 / 4);
            full.reached
        };
        // 124 is less than a quarter more than 100, 125 is not.
        assert_eq!(
            [100, 124, 124, 125, 125, 125, 125].map(&mut reached),
            [false, false, false, false, false, false, true]
        );
    }
}
