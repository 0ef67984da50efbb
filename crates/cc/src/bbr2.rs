//! BBR version 2: paces at the bottleneck's rate, and keeps what is in flight below what lost.
//!
//! ```text
//! max_bw  = largest delivery rate of two cycles          rtt = smallest of 10 s
//! bw      = min(max_bw, bw_lo)                           cwnd = cwnd_gain · bw · rtt, and within
//! pacing  = pacing_gain · bw · 99 %                      inflight_lo and inflight_hi
//!
//! STARTUP     both gains 2/ln 2                 until max_bw grew by < 25 % in 3 rounds, or a round
//!    ↓                                          of a recovery had 8 losses, over 2 % of its flight
//! DRAIN       pacing gain ln 2 / 2              until in flight ≤ max_bw · rtt
//!    ↓
//! PROBE_BW    cwnd gain 2, pacing gain
//!   DOWN        3/4      until in flight ≤ max_bw · rtt and ≤ 85 % of inflight_hi
//!   CRUISE      1        85 % of inflight_hi; until 2 to 3 s since DOWN began, or as many rounds as
//!                        Reno takes to regain the product (its packets, at most 63)
//!   REFILL      1        a round; forgets bw_lo, inflight_lo
//!   UP          5/4      until in flight ≥ 5/4 max_bw · rtt after an rtt, or ≥ inflight_hi if the
//!    ↕                   last probe lost too much, or over 2 % of a flight is lost
//! PROBE_RTT   half the product for 200 ms and a round; after 5 s without a smaller or equal rtt
//! ```
//!
//! Losses while not probing lower `bw_lo` and `inflight_lo`, too many of them while probing set
//! `inflight_hi` (`bbr2/bounds.rs`). The phases are in `bbr2/cycle.rs`, the rest of the model in
//! `bbr2/model.rs` and `bbr2/signals.rs`, what a packet's flight lost in `bbr2/flown.rs`.
//!
//! Reference: Cardwell et al., draft-cardwell-iccrg-bbr-congestion-control-02, 2022;
//! `net/ipv4/tcp_bbr2.c` of <https://github.com/google/bbr>, branch v2alpha.
//! State: the filters, the mode and its timers, the bounds, the signals of a round and a cycle, a
//! moment for each time at which packets in flight left, the aggregation's estimate.
//! Switches: `form`: `xquic` takes the constants of XQUIC. `lossy`: descriptions say that 2 % of loss
//! is tolerated, but the code lowers `bw_lo` after a round with any (`any`); the 1 % of the pacing
//! margin comes on top, round by round. `many` waits for 2 % here too. `ecn`: a mark counts as a
//! loss of its round, and as too many while probing (`loss`), or not at all (`ignore`).
//! Departures: those of version 1 (bits/s, delayed ACKs, nothing taken back for the pacer, any
//! start after idleness). Losses are judged by the flight of the newest packet acknowledged, as in
//! XQUIC, not by each lost packet's. DCTCP-style marks, of which `tcp_bbr2.c` weighs the share, do
//! not reach a controller; so there is no `bw_hi` below `max_bw`, which only they set. No fast path
//! for senders that the application limits. Bursts do not grow for round trips of a few ms. XQUIC's
//! window of 32 packets, and its gain of 1.5 in a recovery of STARTUP, are left out.

mod bounds;
mod cycle;
mod flown;
mod model;
mod signals;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use weftway_path::spec::Param;
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use crate::bbr::{Aggregation, DRAIN_GAIN, FullPipe, HIGH_GAIN, LEAST, ProbeRtt, Round, UNIT};
use crate::bbr::{bdp, burst, burst_packets, first_rate, packets, rate_for};
use crate::registry::Entry;
use crate::window::{LARGEST, is_timeout};
use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Siblings, Signal};
use bounds::Bounds;
use cycle::{Cycle, Phase};
use flown::Flown;
use signals::{BwFilter, MinRtt, Signals};

pub(crate) const ENTRY: Entry = Entry {
    name: "bbr2",
    aliases: &["bbrv2", "bbr-v2"],
    version: 1,
    summary: "paces at the largest delivery rate seen, and keeps in flight what was found not to lose over 2 %",
    reference: "Cardwell et al., draft-cardwell-iccrg-bbr-congestion-control-02, 2022; google/bbr tcp_bbr2.c",
    coupled: false,
    paced: true,
    params: &[
        Param {
            name: "form",
            default: "linux",
            values: "linux | xquic",
            doc: "xquic: STARTUP's window gain 2, DRAIN at 3/4, PROBE_RTT every 2.5 s at 3/4 of the product",
        },
        Param {
            name: "lossy",
            default: "any",
            values: "any | many",
            doc: "what makes a round lossy, so that it lowers bw_lo and inflight_lo: any loss, or over 2 % of a flight",
        },
        Param {
            name: "ecn",
            default: "loss",
            values: "loss | ignore",
            doc: "what a mark counts as: a loss of its round, or nothing",
        },
    ],
    build: |params, setup| {
        let form = params.choice("form", &[("linux", LINUX), ("xquic", XQUIC)])?;
        let heeds_any_loss = params.choice("lossy", &[("any", true), ("many", false)])?;
        let heeds_marks = params.choice("ecn", &[("loss", true), ("ignore", false)])?;
        Ok(Box::new(Bbr2::new(Form { heeds_marks, heeds_any_loss, ..form }, setup)))
    },
};

/// The window in PROBE_BW, for ACKs that come late and in bunches (`bbr_cwnd_gain`).
const CWND_GAIN: u64 = 2 * UNIT;
/// How long PROBE_RTT lasts (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT: Span = Span::from_millis(200);

/// The constants in which implementations differ, and what counts as congestion.
#[derive(Clone, Copy, Debug)]
struct Form {
    /// The window of STARTUP and DRAIN, in 256ths of the product.
    startup_cwnd_gain: u64,
    drain_gain: u64,
    /// How long a smallest RTT is trusted.
    min_rtt_window: Span,
    /// PROBE_RTT begins after so long without a smaller or equal RTT.
    probe_rtt_every: Span,
    /// The share of the product that PROBE_RTT leaves in flight, in 256ths.
    probe_rtt_gain: u64,
    heeds_marks: bool,
    heeds_any_loss: bool,
}

const LINUX: Form = Form {
    startup_cwnd_gain: HIGH_GAIN,
    drain_gain: DRAIN_GAIN,
    min_rtt_window: Span::from_secs(10),
    probe_rtt_every: Span::from_secs(5),
    probe_rtt_gain: UNIT / 2,
    heeds_marks: true,
    heeds_any_loss: true,
};
const XQUIC: Form = Form {
    startup_cwnd_gain: 2 * UNIT,
    drain_gain: UNIT * 3 / 4,
    min_rtt_window: Span::from_millis(2500),
    probe_rtt_every: Span::from_millis(2500),
    probe_rtt_gain: UNIT * 3 / 4,
    heeds_marks: true,
    heeds_any_loss: true,
};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw(Phase),
    ProbeRtt,
}

#[derive(Clone, Debug)]
struct Bbr2 {
    path: PathId,
    flavour: Flavour,
    mss: u64,
    form: Form,
    rng: Pcg32,
    mode: Mode,
    /// In packets, and the one it began with.
    cwnd: u64,
    initial: u64,
    ssthresh: Bytes,
    /// The window to restore after a timeout or PROBE_RTT.
    prior_cwnd: u64,
    /// The bounds before the last losses.
    prior_bounds: Bounds,
    pacing: BitRate,
    pacing_gain: u64,
    cwnd_gain: u64,
    has_seen_rtt: bool,
    /// What the path has delivered.
    delivered: Bytes,
    bw: BwFilter,
    min_rtt: MinRtt,
    bounds: Bounds,
    signals: Signals,
    flown: Flown,
    round: Round,
    full: FullPipe,
    cycle: Cycle,
    probe_rtt: ProbeRtt,
    idle_restart: bool,
    recovery: Recovery,
    /// Whether a timeout took the window, which the end of its recovery gives back.
    is_cut: bool,
    aggregation: Aggregation,
}

impl Bbr2 {
    fn new(form: Form, setup: &Setup) -> Self {
        let mut bbr = Self {
            path: setup.path,
            flavour: setup.flavour,
            mss: setup.mss.get().clamp(1, LARGEST >> 8),
            form,
            rng: Pcg32::seed_from_u64(setup.seed),
            mode: Mode::Startup,
            cwnd: 0,
            initial: 0,
            ssthresh: Bytes::MAX,
            prior_cwnd: 0,
            prior_bounds: Bounds::default(),
            pacing: BitRate::ZERO,
            pacing_gain: HIGH_GAIN,
            cwnd_gain: form.startup_cwnd_gain,
            has_seen_rtt: false,
            delivered: Bytes::ZERO,
            bw: BwFilter::default(),
            min_rtt: MinRtt::new(setup.rtt, setup.now),
            bounds: Bounds::default(),
            signals: Signals::default(),
            flown: Flown::default(),
            round: Round::default(),
            full: FullPipe::default(),
            cycle: Cycle::default(),
            probe_rtt: ProbeRtt::default(),
            idle_restart: false,
            recovery: Recovery::Open,
            is_cut: false,
            aggregation: Aggregation::new(setup.now),
        };
        bbr.set_cwnd(setup.initial_window);
        bbr.initial = bbr.cwnd;
        bbr.pace_by_rtt(setup.rtt.unwrap_or(Span::ZERO));
        bbr
    }

    fn max_bw(&self) -> BitRate {
        BitRate::from_bps(self.bw.get())
    }

    fn bandwidth(&self) -> BitRate {
        let max_bw = self.max_bw();
        self.bounds.bw_lo.map_or(max_bw, |lo| max_bw.min(BitRate::from_bps(lo)))
    }

    fn packets(&self, bytes: Bytes) -> u64 {
        packets(bytes, self.mss)
    }

    fn bdp(&self, bw: BitRate, gain: u64) -> u64 {
        bdp(bw, self.min_rtt.least, gain, self.mss)
    }

    /// At least three bursts in the hosts, and more than even the smallest product when probing
    /// (`bbr_quantization_budget`).
    fn with_bursts(&self, packets: u64) -> u64 {
        let budget = packets.max(3 * burst_packets(self.pacing, self.mss)).max(LEAST);
        if self.mode == Mode::ProbeBw(Phase::Up) { budget + 2 } else { budget }
    }

    fn in_flight_for(&self, bw: BitRate, gain: u64) -> u64 {
        self.with_bursts(self.bdp(bw, gain))
    }

    /// The product, unless congestion cut the window below it.
    fn target_in_flight(&self) -> u64 {
        self.in_flight_for(self.bandwidth(), UNIT).min(self.cwnd)
    }

    /// In flight when the next burst leaves.
    fn in_flight_at_departure(&self, in_flight: Bytes) -> u64 {
        let burst = if self.pacing_gain > UNIT { burst_packets(self.pacing, self.mss) } else { 0 };
        self.packets(in_flight) + burst
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.bandwidth(), self.form.probe_rtt_gain).max(LEAST)
    }

    fn pace_by_rtt(&mut self, srtt: Span) {
        self.has_seen_rtt = !srtt.is_zero();
        self.pacing = first_rate(Bytes::new(self.cwnd * self.mss), srtt);
    }

    fn pace(&mut self, gain: u64) {
        let rate = rate_for(self.bandwidth(), gain);
        if self.full.reached || rate > self.pacing {
            self.pacing = rate;
        }
    }

    fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery < Recovery::Recovery && self.mode != Mode::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    fn in_limits(&self, cwnd: u64) -> u64 {
        // RFC 9002 §7.2 keeps two packets; Linux falls to one.
        let least = if self.flavour == Flavour::Quic { 2 } else { 1 };
        cwnd.min(LARGEST / self.mss).max(least)
    }

    fn update_cwnd(&mut self, acked: &Acked) {
        if self.is_cut && acked.recovery < Recovery::Recovery {
            self.is_cut = false;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
        }
        self.recovery = acked.recovery;
        let newly = self.packets(acked.bytes);
        if newly > 0 {
            self.approach_target(newly);
        }
        if self.mode == Mode::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_cwnd());
        }
        self.cwnd = self.in_limits(self.cwnd.min(self.bound().max(LEAST)));
    }

    fn approach_target(&mut self, newly: u64) {
        let bw = self.bandwidth();
        let extra = self.aggregation.extra(bw) / self.mss;
        let target = self.with_bursts(self.bdp(bw, self.cwnd_gain) + extra);
        if self.full.reached {
            self.cwnd = (self.cwnd + newly).min(target);
        } else if self.cwnd < target || self.cwnd < 2 * self.initial {
            self.cwnd += newly;
        }
        self.cwnd = self.cwnd.max(LEAST);
    }

    /// The most that the bounds allow in flight (`bbr2_bound_cwnd_for_inflight_model`).
    fn bound(&self) -> u64 {
        let high = match self.mode {
            Mode::Startup | Mode::Drain => None,
            Mode::ProbeRtt | Mode::ProbeBw(Phase::Cruise) => Some(self.bounds.with_headroom()),
            Mode::ProbeBw(_) => self.bounds.inflight_hi,
        };
        high.unwrap_or(u64::MAX).min(self.bounds.inflight_lo.unwrap_or(u64::MAX))
    }
}

impl Controller for Bbr2 {
    fn on_sent(&mut self, sent: &Sent) {
        self.flown.sent(sent.now, self.packets(sent.bytes_in_flight));
        if !sent.after_idle {
            return;
        }
        self.idle_restart = true;
        self.aggregation.restart(sent.now);
        match self.mode {
            // No faster than the estimate: there is no queue of ours to compete with.
            Mode::ProbeBw(_) => self.pace(UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(sent.now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn on_acked(&mut self, acked: &Acked, _: Siblings<'_>) {
        self.delivered = acked.delivered;
        let sample = self.sample(acked);
        self.update_model(acked, &sample);
        if !self.has_seen_rtt && !acked.srtt.is_zero() {
            self.pace_by_rtt(acked.srtt);
        }
        self.pace(self.pacing_gain);
        self.update_cwnd(acked);
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        self.save_cwnd();
        self.prior_bounds = self.bounds;
        if congestion.signal == Signal::Ecn {
            self.heed_mark(congestion);
        }
        if !is_timeout(congestion.signal) {
            return;
        }
        self.full.bw = 0;
        self.is_cut = true;
        if !self.is_probing() && self.bounds.inflight_lo.is_none() {
            self.bounds.inflight_lo = Some(self.prior_cwnd);
        }
        if congestion.signal == Signal::Timeout {
            self.recovery = Recovery::Loss;
            self.flown.lose(congestion.now, self.packets(congestion.lost), 0);
            self.signals.time_out(self.delivered);
        }
        if self.flavour == Flavour::Quic {
            self.cwnd = LEAST;
        }
    }

    fn on_spurious(&mut self, _: Instant) {
        self.full.bw = 0;
        self.full.rounds = 0;
        self.signals.excuse();
        self.bounds.restore(self.prior_bounds);
        self.cwnd = self.in_limits(self.cwnd.max(self.prior_cwnd));
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
        Some(self.pacing)
    }

    fn send_quantum(&self) -> Bytes {
        burst(self.pacing, self.mss)
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
            usable: true,
        }
    }

    fn snapshot(&self) -> String {
        format!(
            "{:?} cwnd {} bw {} min_rtt {:?} bw_lo {:?} inflight_lo {:?} inflight_hi {:?}",
            self.mode,
            self.cwnd,
            self.bandwidth(),
            self.min_rtt.least,
            self.bounds.bw_lo.map(BitRate::from_bps),
            self.bounds.inflight_lo,
            self.bounds.inflight_hi
        )
    }
}

#[cfg(test)]
mod tests;
