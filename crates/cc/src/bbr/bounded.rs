//! BBR with bounds, of versions 2 and 3: paces at the bottleneck's rate, and keeps what is in flight
//! below what lost.
//!
//! Losses while not probing lower `bw_lo` and `inflight_lo`, too many of them while probing set
//! `inflight_hi` (`bounded/bounds.rs`). The phases are in `bounded/cycle.rs`, the rest of the model in
//! `bounded/model.rs` and `bounded/signals.rs`, what a packet's flight lost in `bounded/flown.rs`,
//! the window in `bounded/window.rs`. In what versions differ is a `Form` (`bounded/form.rs`).
//!
//! State: the filters, the mode and its timers, the bounds, the signals of a round and a cycle, a
//! moment for each time at which packets in flight left, the aggregation's estimate.
//! Departures: those of version 1 (bits/s, delayed ACKs, nothing taken back for the pacer). Losses are judged by the flight of the newest packet acknowledged, as in
//! XQUIC, not by each lost packet's. DCTCP-style marks, of which `tcp_bbr2.c` weighs the share, do
//! not reach a controller; so there is no `bw_hi` below `max_bw`, which only they set. No fast path
//! for senders that the application limits. Bursts do not grow for round trips of a few ms.

mod bounds;
mod cycle;
mod flown;
mod form;
mod model;
mod signals;
mod window;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use super::{Aggregation, FullPipe, LEAST, ProbeRtt, Round, UNIT};
use super::{Pacing, bdp, first_rate, packets, rate_for};
use crate::window::{LARGEST, is_timeout};
use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Siblings, Signal};
pub(crate) use form::{ECN, Form, LOSSY};

use bounds::Bounds;
use cycle::{Cycle, Phase};
use flown::Flown;
use signals::{BwFilter, MinRtt, Signals};

/// The window in PROBE_BW, for ACKs that come late and in bunches (`bbr_cwnd_gain`).
pub(crate) const CWND_GAIN: u64 = 2 * UNIT;
/// How long PROBE_RTT lasts (`bbr_probe_rtt_mode_ms`).
const PROBE_RTT: Span = Span::from_millis(200);

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Mode {
    Startup,
    Drain,
    ProbeBw(Phase),
    ProbeRtt,
}

#[derive(Clone, Debug)]
pub(crate) struct Bounded {
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
    pacing: Pacing,
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

impl Bounded {
    pub(crate) fn new(form: Form, setup: &Setup) -> Self {
        let mss = setup.mss.get().clamp(1, LARGEST >> 8);
        let mut bbr = Self {
            path: setup.path,
            flavour: setup.flavour,
            mss,
            form,
            rng: Pcg32::seed_from_u64(setup.seed),
            mode: Mode::Startup,
            cwnd: 0,
            initial: 0,
            ssthresh: Bytes::MAX,
            prior_cwnd: 0,
            prior_bounds: Bounds::default(),
            pacing: Pacing::new(BitRate::ZERO, mss),
            pacing_gain: form.startup_gain,
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
        let budget = packets.max(3 * self.pacing.burst_packets).max(LEAST);
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
        let burst = if self.pacing_gain > UNIT { self.pacing.burst_packets } else { 0 };
        self.packets(in_flight) + burst
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.bandwidth(), self.form.probe_rtt_gain).max(LEAST)
    }

    fn pace_by_rtt(&mut self, srtt: Span) {
        self.has_seen_rtt = !srtt.is_zero();
        let rate = first_rate(Bytes::new(self.cwnd * self.mss), srtt, self.form.startup_gain);
        self.pacing = Pacing::new(rate, self.mss);
    }

    fn pace(&mut self, gain: u64) {
        let rate = rate_for(self.bandwidth(), gain);
        if rate > self.pacing.rate || self.full.reached && rate != self.pacing.rate {
            self.pacing = Pacing::new(rate, self.mss);
        }
    }
}

impl Controller for Bounded {
    fn on_sent(&mut self, sent: &Sent) {
        self.flown.sent(sent.now, self.packets(sent.bytes_in_flight));
        if !(sent.after_idle && sent.app_limited) {
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
