//! BBR version 1: paces at the bottleneck's rate instead of reacting to loss.
//!
//! ```text
//! bw      = largest delivery rate of 10 round trips      rtt = smallest of 10 s
//! pacing  = pacing_gain · bw · 99 %                      cwnd = cwnd_gain · bw · rtt + 3 bursts
//!
//! STARTUP     both gains 2/ln 2                 until bw grew by < 25 % in 3 rounds
//!    ↓
//! DRAIN       pacing gain ln 2 / 2              until in flight ≤ bw · rtt
//!    ↓
//! PROBE_BW    cwnd gain 2; pacing gain, an rtt each: 5/4 3/4 1 1 1 1 1 1, from a random phase
//!    ↕
//! PROBE_RTT   cwnd 4 packets for 200 ms and a round; after 10 s without a smaller or equal rtt
//! ```
//!
//! The first round of a loss recovery sends a packet for each delivered; its end restores the
//! window. The model itself ignores loss, unless a policer shows (`bbr1/policer.rs`). The window
//! holds more where ACKs come in bunches (`bbr/aggregation.rs`). The modes are in `bbr1/model.rs`.
//!
//! Reference: Cardwell et al., "BBR: Congestion-Based Congestion Control", ACM Queue 14(5), 2016;
//! Linux 5.x `net/ipv4/tcp_bbr.c`.
//! State: the two filters, the mode and its timers, the policer's and the aggregation's estimate.
//! Switch `form`: `xquic` takes the constants of XQUIC.
//! Departures: bandwidth in bits/s, not packets/µs, so that short packets count by their bytes.
//! Every RTT sample may refresh an expired minimum, delayed ACK or not. Packets in flight have
//! left the pacer, so none is taken back for it (`bbr_packets_in_net_at_edt`).

mod model;
mod policer;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use weftway_path::spec::Param;
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use crate::bbr::{Aggregation, FullPipe, HIGH_GAIN, INITIAL, LEAST, ProbeRtt, Round, UNIT};
use crate::bbr::{Pacing, bdp, first_rate, packets, rate_for};
use crate::max_filter::MaxFilter;
use crate::registry::Entry;
use crate::window::{LARGEST, is_timeout};
use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Siblings, Signal};
use policer::Policer;

pub(crate) const ENTRY: Entry = Entry {
    name: "bbr1",
    aliases: &["bbr", "bbrv1"],
    version: 2,
    summary: "paces at the largest delivery rate seen, with twice the bandwidth-delay product in flight",
    reference: "Cardwell et al., ACM Queue 14(5), 2016; Linux net/ipv4/tcp_bbr.c",
    coupled: false,
    paced: true,
    params: &[Param {
        name: "form",
        default: "linux",
        values: "linux | xquic",
        doc: "xquic: window gain 2.5, pipe full below 10 % growth, PROBE_RTT for 100 ms at 3/4 of the product",
    }],
    build: |params, setup| {
        let form = params.choice("form", &[("linux", LINUX), ("xquic", XQUIC)])?;
        Ok(Box::new(Bbr1::new(form, Cycles::Alike, setup)))
    },
};

/// The phases of PROBE_BW: probe, drain what probing queued, cruise.
const CYCLE: [u64; 8] = [UNIT * 5 / 4, UNIT * 3 / 4, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// PROBE_BW begins in any phase but the draining one (`bbr_cycle_rand`).
const CYCLE_STARTS: u64 = 7;
/// A cycle at least probes and drains.
const LEAST_PHASES: u64 = 2;
/// Rounds that the bandwidth filter remembers: a cycle and two.
const BW_ROUNDS: u64 = 10;
/// How long a smallest RTT is trusted.
const MIN_RTT_WINDOW: Span = Span::from_secs(10);

/// The constants in which implementations differ.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The window in PROBE_BW, in 256ths of the bandwidth-delay product.
    cwnd_gain: u64,
    /// Growth that shows that the pipe is not full, in 256ths.
    full_growth: u64,
    probe_rtt: Span,
    /// The share of the product that PROBE_RTT leaves in flight, in 256ths.
    probe_rtt_gain: u64,
}

pub(crate) const LINUX: Form =
    Form { cwnd_gain: 2 * UNIT, full_growth: UNIT * 5 / 4, probe_rtt: Span::from_millis(200), probe_rtt_gain: 0 };
const XQUIC: Form = Form {
    cwnd_gain: UNIT * 5 / 2,
    full_growth: UNIT * 11 / 10,
    probe_rtt: Span::from_millis(100),
    probe_rtt_gain: UNIT * 3 / 4,
};

/// How long a cycle of PROBE_BW is, and where the first one begins.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Cycles {
    /// Eight phases, from a random one (`bbr_cycle_rand`).
    Alike,
    /// Eight phases, from the probing one.
    Whole,
    /// Two to eight phases, drawn for each cycle, from the probing one.
    Varied,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw,
    ProbeRtt,
}

#[derive(Clone, Copy, Debug, Default)]
struct Cycle {
    index: usize,
    /// How many phases it has.
    phases: usize,
    began: Instant,
}

/// At which gain to cruise, in 256ths, as the model is now.
pub(crate) type CruiseGain<'a> = &'a dyn Fn(&Bbr1) -> Option<i64>;

#[derive(Clone, Debug)]
pub(crate) struct Bbr1 {
    path: PathId,
    flavour: Flavour,
    mss: u64,
    form: Form,
    cycles: Cycles,
    rng: Pcg32,
    mode: Mode,
    /// In packets.
    cwnd: u64,
    ssthresh: Bytes,
    /// The window to restore after a recovery or PROBE_RTT.
    prior_cwnd: u64,
    /// The largest window.
    most: u64,
    pacing: Pacing,
    pacing_gain: u64,
    cwnd_gain: u64,
    has_seen_rtt: bool,
    bw: MaxFilter,
    min_rtt: Option<Span>,
    min_rtt_stamp: Instant,
    round: Round,
    full: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    idle_restart: bool,
    recovery: Recovery,
    conserving: bool,
    policer: Policer,
    aggregation: Aggregation,
    product: Product,
}

/// The bandwidth-delay product that the window was last made from: estimates change seldom.
#[derive(Clone, Copy, Debug, Default)]
struct Product {
    bw: BitRate,
    rtt: Option<Span>,
    gain: u64,
    /// In packets.
    packets: u64,
}

impl Bbr1 {
    pub(crate) fn new(form: Form, cycles: Cycles, setup: &Setup) -> Self {
        let mss = setup.mss.get().clamp(1, LARGEST >> 8);
        let mut bbr = Self {
            path: setup.path,
            flavour: setup.flavour,
            mss,
            form,
            cycles,
            rng: Pcg32::seed_from_u64(setup.seed),
            mode: Mode::Startup,
            cwnd: 0,
            ssthresh: Bytes::MAX,
            prior_cwnd: 0,
            most: LARGEST / mss,
            pacing: Pacing::new(BitRate::ZERO, mss),
            pacing_gain: HIGH_GAIN,
            cwnd_gain: HIGH_GAIN,
            has_seen_rtt: false,
            bw: MaxFilter::new(BW_ROUNDS),
            min_rtt: setup.rtt,
            min_rtt_stamp: setup.now,
            round: Round::default(),
            full: FullPipe::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
            recovery: Recovery::Open,
            conserving: false,
            policer: Policer::new(setup.now),
            aggregation: Aggregation::new(setup.now),
            product: Product::default(),
        };
        bbr.set_cwnd(setup.initial_window);
        bbr.pace_by_rtt(setup.rtt.unwrap_or(Span::ZERO));
        bbr
    }

    fn max_bw(&self) -> BitRate {
        BitRate::from_bps(self.bw.get())
    }

    pub(crate) fn bandwidth(&self) -> BitRate {
        self.policer.rate().unwrap_or(self.max_bw())
    }

    fn packets(&self, bytes: Bytes) -> u64 {
        packets(bytes, self.mss)
    }

    fn bdp(&self, bw: BitRate, gain: u64) -> u64 {
        bdp(bw, self.min_rtt, gain, self.mss)
    }

    fn burst_packets(&self) -> u64 {
        self.pacing.burst_packets
    }

    /// Adds room for three bursts in the hosts, rounds up to an even number for delayed ACKs, and
    /// lets the probing phase exceed even the smallest product.
    fn with_bursts(&self, packets: u64) -> u64 {
        let even = (packets + 3 * self.burst_packets()).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle.index == 0 { even + 2 } else { even }
    }

    fn target_in_flight(&self, gain: u64) -> u64 {
        self.with_bursts(self.bdp(self.max_bw(), gain))
    }

    /// In flight when the next burst leaves.
    fn in_flight_at_departure(&self, in_flight: Bytes) -> u64 {
        let burst = if self.pacing_gain > UNIT { self.burst_packets() } else { 0 };
        self.packets(in_flight) + burst
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        match self.form.probe_rtt_gain {
            0 => LEAST,
            gain => self.bdp(self.bandwidth(), gain).max(LEAST),
        }
    }

    fn pace_by_rtt(&mut self, srtt: Span) {
        self.has_seen_rtt = !srtt.is_zero();
        let rate = first_rate(Bytes::new(self.cwnd * self.mss), srtt, HIGH_GAIN);
        self.pacing = Pacing::new(rate, self.mss);
    }

    fn pace(&mut self, gain: u64) {
        let rate = rate_for(self.bandwidth(), gain);
        if rate > self.pacing.rate || self.full.reached && rate != self.pacing.rate {
            self.pacing = Pacing::new(rate, self.mss);
        }
    }

    /// What the model says now becomes rate and window.
    #[inline(always)]
    fn steer(&mut self, acked: &Acked) {
        if !self.has_seen_rtt && !acked.srtt.is_zero() {
            self.pace_by_rtt(acked.srtt);
        }
        self.pace(self.pacing_gain);
        self.update_cwnd(acked);
    }

    /// An ACK. `gain` may say at which gain to pace for it, in 256ths; zero or less: hardly at all.
    pub(crate) fn take(&mut self, acked: &Acked, gain: Option<CruiseGain<'_>>) {
        self.update_model(acked);
        let gain = gain.and_then(|gain| gain(self));
        if let Some(gain) = gain.filter(|gain| *gain > 0) {
            self.pacing_gain = gain.unsigned_abs();
        }
        self.steer(acked);
        if gain.is_some_and(|gain| gain <= 0) {
            self.cwnd = LEAST;
        }
    }

    /// How many phases the present cycle has, while it cruises at a rate of its own.
    pub(crate) fn cruising(&self) -> Option<u64> {
        let free = self.mode == Mode::ProbeBw && self.policer.rate().is_none();
        (free && self.is_cruise()).then_some(self.cycle.phases as u64)
    }

    /// Whether the phase neither probes nor drains.
    fn is_cruise(&self) -> bool {
        self.cycle.index > 1
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery < Recovery::Recovery && self.mode != Mode::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    fn update_cwnd(&mut self, acked: &Acked) {
        let newly = self.packets(acked.bytes);
        if newly > 0 {
            let (cwnd, conserving) = self.recover_or_restore(acked, newly);
            self.cwnd = if conserving { cwnd } else { self.approach_target(acked, cwnd, newly) };
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.cwnd = self.in_limits(self.cwnd);
    }

    fn in_limits(&self, cwnd: u64) -> u64 {
        // RFC 9002 §7.2 keeps two packets; Linux falls to one.
        let least = if self.flavour == Flavour::Quic { 2 } else { 1 };
        cwnd.min(self.most).max(least)
    }

    /// An ACK for P packets lets at most 2 P leave; in the first round of a recovery, P.
    fn recover_or_restore(&mut self, acked: &Acked, newly: u64) -> (u64, bool) {
        let lost = if acked.lost == Bytes::ZERO { 0 } else { self.packets(acked.lost) };
        let mut cwnd = self.cwnd.saturating_sub(lost).max(1);
        if acked.recovery == Recovery::Recovery && self.recovery != Recovery::Recovery {
            self.conserving = true;
            self.round.began = acked.delivered;
            // What is in flight, and what has just left it, is all the window then.
            cwnd = 0;
        } else if self.recovery >= Recovery::Recovery && acked.recovery < Recovery::Recovery {
            self.conserving = false;
            cwnd = cwnd.max(self.prior_cwnd);
        }
        self.recovery = acked.recovery;
        if !self.conserving {
            return (cwnd, false);
        }
        (cwnd.max(self.packets(acked.bytes_in_flight) + newly), true)
    }

    /// The product for the window.
    #[inline]
    fn product(&mut self, bw: BitRate) -> u64 {
        let (rtt, gain) = (self.min_rtt, self.cwnd_gain);
        if (bw, rtt, gain) != (self.product.bw, self.product.rtt, self.product.gain) {
            self.product = Product { bw, rtt, gain, packets: self.bdp(bw, gain) };
        }
        self.product.packets
    }

    fn approach_target(&mut self, acked: &Acked, cwnd: u64, newly: u64) -> u64 {
        let bw = self.bandwidth();
        let extra = if self.full.reached { self.aggregation.extra(bw) / self.mss } else { 0 };
        let product = self.product(bw);
        let target = self.with_bursts(product + extra);
        let next = if self.full.reached {
            (cwnd + newly).min(target)
        } else if cwnd < target || acked.delivered.get() < INITIAL * self.mss {
            cwnd + newly
        } else {
            cwnd
        };
        next.max(LEAST)
    }
}

impl Controller for Bbr1 {
    fn on_sent(&mut self, sent: &Sent) {
        if !(sent.after_idle && sent.app_limited) {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(sent.now);
        match self.mode {
            // No faster than the estimate: there is no queue of ours to compete with.
            Mode::ProbeBw => self.pace(UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(sent.now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_acked(&mut self, acked: &Acked, _: Siblings<'_>) {
        self.take(acked, None);
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        self.save_cwnd();
        if !is_timeout(congestion.signal) {
            return;
        }
        self.full.bw = 0;
        self.round.start = true;
        self.policer.count_lost(congestion.lost);
        let verdict = self.policer.on_timeout(congestion.now, self.mode == Mode::ProbeBw);
        self.heed(verdict, congestion.now);
        if congestion.signal == Signal::Timeout {
            self.recovery = Recovery::Loss;
        }
        if self.flavour == Flavour::Quic {
            self.cwnd = LEAST;
        }
    }

    fn on_spurious(&mut self, now: Instant) {
        self.full.bw = 0;
        self.full.rounds = 0;
        self.policer.reset(now);
    }

    fn on_penalty(&mut self) {
        self.cwnd = (self.cwnd / 2).max(LEAST);
    }

    fn cwnd(&self) -> Bytes {
        Bytes::new(self.cwnd * self.mss)
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.cwnd = self.in_limits(self.packets(cwnd));
    }

    fn ssthresh(&self) -> Bytes {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<BitRate> {
        Some(self.pacing.rate)
    }

    fn send_quantum(&self) -> Bytes {
        self.pacing.burst
    }

    /// `bbr_sndbuf_expand`: slow start may double the window while it is being recovered.
    fn send_memory_windows(&self) -> u64 {
        3
    }

    fn owns_recovery(&self) -> bool {
        true
    }

    fn share(&self) -> Share {
        Share {
            path: self.path,
            cwnd: self.cwnd(),
            mss: Bytes::new(self.mss),
            srtt: Span::ZERO,
            inter_loss: Bytes::ZERO,
            bandwidth: self.bandwidth(),
            steady: self.full.reached && self.mode != Mode::Drain,
            bottleneck: None,
            usable: true,
        }
    }

    fn snapshot(&self) -> String {
        format!(
            "{:?} {} cwnd {} bw {} min_rtt {:?}",
            self.mode,
            self.cycle.index,
            self.cwnd,
            self.bandwidth(),
            self.min_rtt
        )
    }
}

#[cfg(test)]
mod tests;
