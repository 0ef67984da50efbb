//! Parts that the versions of BBR share: window and pacing, gains, rounds, the full pipe, the product in packets.
//!
//! Reference: Linux `net/ipv4/tcp_bbr.c`, which `tcp_bbr2.c` repeats.

mod aggregation;
pub(crate) mod bounded;
mod bursts;
#[cfg(test)]
pub(crate) mod pipe;

use aggregation::Aggregation;
pub(crate) use bursts::BURSTS;
use bursts::Bursts;
use weftway_path::spec::{Params, SpecError};
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use crate::window::LARGEST;
use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Siblings, send_quantum};

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
    /// Bytes delivered when the round began; a packet sent since then ends it.
    pub(crate) began: Bytes,
    /// True if this ACK began a round.
    pub(crate) start: bool,
}

impl Round {
    /// Begins a round if this ACK does; returns true then.
    pub(crate) fn advance(&mut self, acked: &Acked) -> bool {
        self.start = acked.prior_delivered >= self.began;
        if self.start {
            self.count += 1;
            self.began = acked.delivered;
        }
        self.start
    }
}

/// Judge of when STARTUP has filled the pipe.
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

    /// Marks the packets in flight now as limited by it.
    pub(crate) fn limit(&mut self, acked: &Acked) {
        let from = self.limited.map_or(acked.delivered, |(from, _)| from);
        self.limited = Some((from, acked.delivered + acked.bytes_in_flight));
    }

    /// Returns true if the application, or a PROBE_RTT, limited the sample.
    pub(crate) fn is_app_limited(&self, acked: &Acked) -> bool {
        let probing = |(from, to)| (from..=to).contains(&acked.prior_delivered);
        acked.app_limited || self.limited.is_some_and(probing)
    }
}

/// gain · bw · rtt in packets of `mss`, rounded up.
pub(crate) fn bdp(bw: BitRate, rtt: Option<Span>, gain: u64, mss: u64) -> u64 {
    match rtt {
        Some(rtt) => (bw.bdp(rtt).get().min(LARGEST) * gain / UNIT).div_ceil(mss),
        None => INITIAL,
    }
}

/// The pacing rate of an estimate.
fn rate_for(bw: BitRate, gain: u64) -> BitRate {
    bw.mul_div(gain * MARGIN.0, UNIT * MARGIN.1)
}

/// The first rate: the window in an RTT, times the gain of STARTUP.
fn first_rate(cwnd: Bytes, srtt: Span, gain: u64) -> BitRate {
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

/// State that all versions keep beside their model of the path.
#[derive(Clone, Debug)]
pub(crate) struct Core {
    path: PathId,
    pub(crate) flavour: Flavour,
    pub(crate) mss: u64,
    /// Window in packets.
    pub(crate) cwnd: u64,
    /// Largest window in packets.
    most: u64,
    pub(crate) ssthresh: Bytes,
    /// Window to restore after a recovery or PROBE_RTT.
    pub(crate) prior_cwnd: u64,
    pub(crate) pacing: Pacing,
    pub(crate) pacing_gain: u64,
    pub(crate) cwnd_gain: u64,
    /// Gain of the first pacing rate.
    startup_gain: u64,
    has_seen_rtt: bool,
    pub(crate) round: Round,
    pub(crate) full: FullPipe,
    pub(crate) probe_rtt: ProbeRtt,
    pub(crate) idle_restart: bool,
    pub(crate) recovery: Recovery,
    pub(crate) aggregation: Aggregation,
    /// Bursts of the application, where the controller does not pace them.
    bursts: Option<Bursts>,
}

impl Core {
    pub(crate) fn new(setup: &Setup, startup_gain: u64, cwnd_gain: u64) -> Self {
        let mss = setup.mss.get().clamp(1, LARGEST >> 8);
        let mut core = Self {
            path: setup.path,
            flavour: setup.flavour,
            mss,
            cwnd: 0,
            most: LARGEST / mss,
            ssthresh: Bytes::MAX,
            prior_cwnd: 0,
            pacing: Pacing::default(),
            pacing_gain: startup_gain,
            cwnd_gain,
            startup_gain,
            has_seen_rtt: false,
            round: Round::default(),
            full: FullPipe::default(),
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
            recovery: Recovery::Open,
            aggregation: Aggregation::new(setup.now),
            bursts: None,
        };
        core.cwnd = core.in_limits(core.packets(setup.initial_window));
        core.pace_by_rtt(setup.rtt.unwrap_or(Span::ZERO));
        core
    }

    /// Lets bursts of an application leave unpaced.
    pub(crate) fn free_bursts(&mut self, setup: &Setup) {
        self.bursts = Some(Bursts::new(setup.rtt, self.cwnd, self.mss));
    }

    /// Pacing of the next packet.
    #[inline]
    fn next_pacing(&self) -> &Pacing {
        let burst = self.bursts.as_ref().and_then(Bursts::pacing);
        burst.filter(|burst| burst.rate > self.pacing.rate).unwrap_or(&self.pacing)
    }

    /// `bytes` in packets, rounded up.
    pub(crate) fn packets(&self, bytes: Bytes) -> u64 {
        bytes.get().min(LARGEST).div_ceil(self.mss)
    }

    /// Packets in flight when the next burst leaves.
    pub(crate) fn in_flight_at_departure(&self, in_flight: Bytes) -> u64 {
        let burst = if self.pacing_gain > UNIT { self.pacing.burst_packets } else { 0 };
        self.packets(in_flight) + burst
    }

    fn pace_by_rtt(&mut self, srtt: Span) {
        self.has_seen_rtt = !srtt.is_zero();
        let rate = first_rate(Bytes::new(self.cwnd * self.mss), srtt, self.startup_gain);
        self.pacing = Pacing::new(rate, self.mss);
    }

    /// Paces at `gain` times the estimate `bw`.
    pub(crate) fn pace(&mut self, bw: BitRate, gain: u64) {
        let rate = rate_for(bw, gain);
        if rate > self.pacing.rate || self.full.reached && rate != self.pacing.rate {
            self.pacing = Pacing::new(rate, self.mss);
        }
    }

    /// Paces at the estimate `bw` after an acknowledgement; at the first RTT, by that.
    #[inline(always)]
    pub(crate) fn repace(&mut self, srtt: Span, bw: BitRate) {
        if !self.has_seen_rtt && !srtt.is_zero() {
            self.pace_by_rtt(srtt);
        }
        self.pace(bw, self.pacing_gain);
    }

    /// Keeps the window to restore; `probes_rtt`: in PROBE_RTT.
    pub(crate) fn save_cwnd(&mut self, probes_rtt: bool) {
        self.prior_cwnd =
            if self.recovery < Recovery::Recovery && !probes_rtt { self.cwnd } else { self.prior_cwnd.max(self.cwnd) };
    }

    pub(crate) fn in_limits(&self, cwnd: u64) -> u64 {
        // RFC 9002 §7.2 keeps two packets; Linux falls to one.
        let least = if self.flavour == Flavour::Quic { 2 } else { 1 };
        cwnd.min(self.most).max(least)
    }

    /// Holds PROBE_RTT for the time `lasts` and one round from when at most `cwnd` packets are in flight; returns true
    /// once the round is over.
    pub(crate) fn holds_probe_rtt(&mut self, acked: &Acked, cwnd: u64, lasts: Span) -> bool {
        self.probe_rtt.limit(acked);
        if self.probe_rtt.done.is_some() {
            self.probe_rtt.round_done |= self.round.start;
            return self.probe_rtt.round_done;
        }
        if self.packets(acked.bytes_in_flight) <= cwnd {
            (self.probe_rtt.done, self.probe_rtt.round_done) = (Some(acked.now + lasts), false);
            self.round.began = acked.delivered;
        }
        false
    }
}

/// Version of BBR: its model of the path and its modes over a [`Core`].
pub(crate) trait Version: Clone + Send {
    fn core(&self) -> &Core;

    fn core_mut(&mut self) -> &mut Core;

    /// Bandwidth estimate.
    fn bandwidth(&self) -> BitRate;

    /// Returns true in DRAIN.
    fn is_draining(&self) -> bool;

    fn sent(&mut self, sent: &Sent);

    fn acked(&mut self, acked: &Acked, siblings: Siblings<'_>);

    fn congestion(&mut self, congestion: &Congestion);

    fn spurious(&mut self, now: Instant);

    fn snapshot(&self) -> String;
}

/// Boxes the controller `version`, which paces bursts of the application unless the switch [`BURSTS`] is `yes`.
pub(crate) fn pacing_bursts<V: Version + 'static>(
    params: &Params,
    mut version: V,
    setup: &Setup,
) -> Result<Box<dyn Controller>, SpecError> {
    if params.choice("bursts", &[("no", false), ("yes", true)])? {
        version.core_mut().free_bursts(setup);
    }
    Ok(Box::new(version))
}

impl<V: Version> Controller for V {
    fn on_sent(&mut self, sent: &Sent) {
        self.sent(sent);
        let core = self.core_mut();
        if let Some(bursts) = &mut core.bursts {
            bursts.on_sent(sent, core.cwnd, core.mss);
        }
    }

    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        self.acked(acked, siblings);
        let core = self.core_mut();
        if let Some(bursts) = &mut core.bursts {
            bursts.on_acked(acked, core.cwnd, core.mss);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        self.congestion(congestion);
    }

    fn on_spurious(&mut self, now: Instant) {
        self.spurious(now);
    }

    fn on_penalty(&mut self) {
        let core = self.core_mut();
        core.cwnd = (core.cwnd / 2).max(LEAST);
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.core().cwnd * self.core().mss)
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        let core = self.core_mut();
        core.cwnd = core.in_limits(core.packets(cwnd));
    }

    fn ssthresh(&self) -> Bytes {
        self.core().ssthresh
    }

    fn pacing_rate(&self) -> Option<BitRate> {
        Some(self.core().next_pacing().rate)
    }

    fn send_quantum(&self) -> Bytes {
        self.core().next_pacing().burst
    }

    /// `bbr_sndbuf_expand`: slow start may double the window while it is being recovered.
    fn send_memory_windows(&self) -> u64 {
        3
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn share(&self) -> Share {
        let core = self.core();
        Share {
            path: core.path,
            cwnd: self.cwnd(),
            mss: Bytes::new(core.mss),
            srtt: Span::ZERO,
            inter_loss: Bytes::ZERO,
            bandwidth: self.bandwidth(),
            link_rate: BitRate::ZERO,
            steady: core.full.reached && !self.is_draining(),
            bottleneck: None,
            contended: false,
            usable: true,
        }
    }

    fn snapshot(&self) -> String {
        Version::snapshot(self)
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
