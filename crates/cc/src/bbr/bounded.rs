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
//! Departures: those of version 1 (bits/s, delayed ACKs, nothing taken back for the pacer). Losses are judged by the
//! flight of the newest packet acknowledged, as in XQUIC, not by each lost packet's. DCTCP-style marks, of which
//! `tcp_bbr2.c` weighs the share, do not reach a controller; so there is no `bw_hi` below `max_bw`, which only they
//! set. No fast path for senders that the application limits. Bursts do not grow for round trips of a few ms.

mod bounds;
mod cycle;
mod flown;
mod form;
mod model;
mod signals;
mod window;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use weftway_path::{BitRate, Bytes, Instant, Recovery, Span};

use super::{Core, LEAST, UNIT, Version, bdp};
use crate::window::is_timeout;
use crate::{Acked, Congestion, Flavour, Sent, Setup, Siblings, Signal};
pub(crate) use form::{ECN, Form, LOSSY};

use bounds::Bounds;
use cycle::{Cycle, Phase};
use flown::Flown;
use signals::{BwFilter, MinRtt, Signals};

/// The window in PROBE_BW, for ACKs that come late and in bunches (`bbr_cwnd_gain`).
pub(crate) const CWND_GAIN: u64 = 2 * UNIT;
/// Length of PROBE_RTT (`bbr_probe_rtt_mode_ms`).
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
    core: Core,
    form: Form,
    rng: Pcg32,
    mode: Mode,
    /// Initial window, in packets.
    initial: u64,
    /// Bounds before the last losses.
    prior_bounds: Bounds,
    /// Bytes that the path has delivered.
    delivered: Bytes,
    bw: BwFilter,
    min_rtt: MinRtt,
    bounds: Bounds,
    signals: Signals,
    flown: Flown,
    cycle: Cycle,
    /// True if a timeout took the window, which the end of its recovery gives back.
    is_cut: bool,
}

impl Bounded {
    pub(crate) fn new(form: Form, setup: &Setup) -> Self {
        let core = Core::new(setup, form.startup_gain, form.startup_cwnd_gain);
        Self {
            initial: core.cwnd,
            core,
            form,
            rng: Pcg32::seed_from_u64(setup.seed),
            mode: Mode::Startup,
            prior_bounds: Bounds::default(),
            delivered: Bytes::ZERO,
            bw: BwFilter::default(),
            min_rtt: MinRtt::new(setup.rtt, setup.now),
            bounds: Bounds::default(),
            signals: Signals::default(),
            flown: Flown::default(),
            cycle: Cycle::default(),
            is_cut: false,
        }
    }

    fn max_bw(&self) -> BitRate {
        BitRate::from_bps(self.bw.get())
    }

    fn bdp(&self, bw: BitRate, gain: u64) -> u64 {
        bdp(bw, self.min_rtt.least, gain, self.core.mss)
    }

    /// At least three bursts in the hosts, and more than even the smallest product when probing
    /// (`bbr_quantization_budget`).
    fn with_bursts(&self, packets: u64) -> u64 {
        let budget = packets.max(3 * self.core.pacing.burst_packets).max(LEAST);
        if self.mode == Mode::ProbeBw(Phase::Up) { budget + 2 } else { budget }
    }

    fn in_flight_for(&self, bw: BitRate, gain: u64) -> u64 {
        self.with_bursts(self.bdp(bw, gain))
    }

    /// The product, unless congestion cut the window below it.
    fn target_in_flight(&self) -> u64 {
        self.in_flight_for(self.bandwidth(), UNIT).min(self.core.cwnd)
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        self.bdp(self.bandwidth(), self.form.probe_rtt_gain).max(LEAST)
    }
}

impl Version for Bounded {
    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn bandwidth(&self) -> BitRate {
        let max_bw = self.max_bw();
        self.bounds.bw_lo.map_or(max_bw, |lo| max_bw.min(BitRate::from_bps(lo)))
    }

    fn is_draining(&self) -> bool {
        self.mode == Mode::Drain
    }

    fn sent(&mut self, sent: &Sent) {
        self.flown.sent(sent.now, self.core.packets(sent.bytes_in_flight));
        if !(sent.after_idle && sent.app_limited) {
            return;
        }
        self.core.idle_restart = true;
        self.core.aggregation.restart(sent.now);
        match self.mode {
            // No faster than the estimate: there is no queue of ours to compete with.
            Mode::ProbeBw(_) => self.core.pace(self.bandwidth(), UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(sent.now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn acked(&mut self, acked: &Acked, _: Siblings<'_>) {
        self.delivered = acked.delivered;
        let sample = self.sample(acked);
        self.update_model(acked, &sample);
        self.core.repace(acked.srtt, self.bandwidth());
        self.update_cwnd(acked);
    }

    fn congestion(&mut self, congestion: &Congestion) {
        self.core.save_cwnd(self.mode == Mode::ProbeRtt);
        self.prior_bounds = self.bounds;
        if congestion.signal == Signal::Ecn {
            self.heed_mark(congestion);
        }
        if !is_timeout(congestion.signal) {
            return;
        }
        self.core.full.bw = 0;
        self.is_cut = true;
        if !self.is_probing() && self.bounds.inflight_lo.is_none() {
            self.bounds.inflight_lo = Some(self.core.prior_cwnd);
        }
        if congestion.signal == Signal::Timeout {
            self.core.recovery = Recovery::Loss;
            self.flown.lose(congestion.now, self.core.packets(congestion.lost), 0);
            self.signals.time_out(self.delivered);
        }
        if self.core.flavour == Flavour::Quic {
            self.core.cwnd = LEAST;
        }
    }

    fn spurious(&mut self, _: Instant) {
        self.core.full.bw = 0;
        self.core.full.rounds = 0;
        self.signals.excuse();
        self.bounds.restore(self.prior_bounds);
        self.core.cwnd = self.core.in_limits(self.core.cwnd.max(self.core.prior_cwnd));
    }

    fn snapshot(&self) -> String {
        format!(
            "{:?} cwnd {} bw {} min_rtt {:?} bw_lo {:?} inflight_lo {:?} inflight_hi {:?}",
            self.mode,
            self.core.cwnd,
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
