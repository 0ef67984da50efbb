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
//! Switches: `form`: `xquic` takes the constants of XQUIC. `bursts`: see `bbr/bursts.rs`.
//! Departures: bandwidth in bits/s, not packets/µs, so that short packets count by their bytes.
//! Every RTT sample may refresh an expired minimum, delayed ACK or not. Packets in flight have
//! left the pacer, so none is taken back for it (`bbr_packets_in_net_at_edt`).

mod model;
mod policer;

use rand_core::SeedableRng;
use rand_pcg::Pcg32;
use weftway_path::spec::Param;
use weftway_path::{BitRate, Bytes, Instant, Recovery, Span};

use crate::bbr::{BURSTS, Core, HIGH_GAIN, INITIAL, LEAST, UNIT, Version, bdp, pacing_bursts};
use crate::max_filter::MaxFilter;
use crate::registry::Entry;
use crate::window::is_timeout;
use crate::{Acked, Congestion, Flavour, Sent, Setup, Siblings, Signal};
use policer::Policer;

pub(crate) const ENTRY: Entry = Entry {
    name: "bbr1",
    aliases: &["bbr", "bbrv1"],
    version: 2,
    summary: "paces at the largest delivery rate seen, with twice the bandwidth-delay product in flight",
    reference: "Cardwell et al., ACM Queue 14(5), 2016; Linux net/ipv4/tcp_bbr.c",
    coupled: false,
    paced: true,
    params: &[
        Param {
            name: "form",
            default: "linux",
            values: "linux | xquic",
            doc: "xquic: window gain 2.5, pipe full below 10 % growth, PROBE_RTT for 100 ms at 3/4 of the product",
        },
        BURSTS,
    ],
    build: |params, setup| {
        let form = params.choice("form", &[("linux", LINUX), ("xquic", XQUIC)])?;
        pacing_bursts(params, Bbr1::new(form, Cycles::Alike, Alone, setup), setup)
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
/// Time for which a smallest RTT is trusted.
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

/// Length of a cycle of PROBE_BW, and the phase in which the first one begins.
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
    /// Number of its phases.
    phases: usize,
    began: Instant,
}

/// Rule by which a path cruises slower than its estimate.
pub(crate) trait Cruise: Clone + Send {
    /// Gain at which to cruise, in 256ths, as the model is now; zero or less: hardly at all. None: as version 1 does.
    fn gain(&self, bbr: &Bbr1<Self>, siblings: Siblings<'_>) -> Option<i64>;
}

/// Cruising at the estimate.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Alone;

impl Cruise for Alone {
    fn gain(&self, _: &Bbr1<Self>, _: Siblings<'_>) -> Option<i64> {
        None
    }
}

#[derive(Clone, Debug)]
pub(crate) struct Bbr1<C> {
    core: Core,
    form: Form,
    cycles: Cycles,
    cruise: C,
    rng: Pcg32,
    mode: Mode,
    bw: MaxFilter,
    min_rtt: Option<Span>,
    min_rtt_stamp: Instant,
    cycle: Cycle,
    conserving: bool,
    policer: Policer,
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

impl<C: Cruise> Bbr1<C> {
    pub(crate) fn new(form: Form, cycles: Cycles, cruise: C, setup: &Setup) -> Self {
        Self {
            core: Core::new(setup, HIGH_GAIN, HIGH_GAIN),
            form,
            cycles,
            cruise,
            rng: Pcg32::seed_from_u64(setup.seed),
            mode: Mode::Startup,
            bw: MaxFilter::new(BW_ROUNDS),
            min_rtt: setup.rtt,
            min_rtt_stamp: setup.now,
            cycle: Cycle::default(),
            conserving: false,
            policer: Policer::new(setup.now),
            product: Product::default(),
        }
    }

    fn max_bw(&self) -> BitRate {
        BitRate::from_bps(self.bw.get())
    }

    fn bdp(&self, bw: BitRate, gain: u64) -> u64 {
        bdp(bw, self.min_rtt, gain, self.core.mss)
    }

    /// Adds room for three bursts in the hosts, rounds up to an even number for delayed ACKs, and
    /// lets the probing phase exceed even the smallest product.
    fn with_bursts(&self, packets: u64) -> u64 {
        let even = (packets + 3 * self.core.pacing.burst_packets).next_multiple_of(2);
        if self.mode == Mode::ProbeBw && self.cycle.index == 0 { even + 2 } else { even }
    }

    fn target_in_flight(&self, gain: u64) -> u64 {
        self.with_bursts(self.bdp(self.max_bw(), gain))
    }

    fn probe_rtt_cwnd(&self) -> u64 {
        match self.form.probe_rtt_gain {
            0 => LEAST,
            gain => self.bdp(self.bandwidth(), gain).max(LEAST),
        }
    }

    /// Number of phases of the present cycle, while it cruises at a rate of its own.
    pub(crate) fn cruising(&self) -> Option<u64> {
        let free = self.mode == Mode::ProbeBw && self.policer.rate().is_none();
        (free && self.is_cruise()).then_some(self.cycle.phases as u64)
    }

    /// Returns true if the phase neither probes nor drains.
    fn is_cruise(&self) -> bool {
        self.cycle.index > 1
    }

    fn update_cwnd(&mut self, acked: &Acked) {
        let newly = self.core.packets(acked.bytes);
        if newly > 0 {
            let (cwnd, conserving) = self.recover_or_restore(acked, newly);
            self.core.cwnd = if conserving { cwnd } else { self.approach_target(acked, cwnd, newly) };
        }
        if self.mode == Mode::ProbeRtt {
            self.core.cwnd = self.core.cwnd.min(self.probe_rtt_cwnd());
        }
        self.core.cwnd = self.core.in_limits(self.core.cwnd);
    }

    /// An ACK for P packets lets at most 2 P leave; in the first round of a recovery, P.
    fn recover_or_restore(&mut self, acked: &Acked, newly: u64) -> (u64, bool) {
        let lost = if acked.lost == Bytes::ZERO { 0 } else { self.core.packets(acked.lost) };
        let mut cwnd = self.core.cwnd.saturating_sub(lost).max(1);
        if acked.recovery == Recovery::Recovery && self.core.recovery != Recovery::Recovery {
            self.conserving = true;
            self.core.round.began = acked.delivered;
            // What is in flight, and what has just left it, is all the window then.
            cwnd = 0;
        } else if self.core.recovery >= Recovery::Recovery && acked.recovery < Recovery::Recovery {
            self.conserving = false;
            cwnd = cwnd.max(self.core.prior_cwnd);
        }
        self.core.recovery = acked.recovery;
        if !self.conserving {
            return (cwnd, false);
        }
        (cwnd.max(self.core.packets(acked.bytes_in_flight) + newly), true)
    }

    /// The product for the window.
    #[inline]
    fn product(&mut self, bw: BitRate) -> u64 {
        let (rtt, gain) = (self.min_rtt, self.core.cwnd_gain);
        if (bw, rtt, gain) != (self.product.bw, self.product.rtt, self.product.gain) {
            self.product = Product { bw, rtt, gain, packets: self.bdp(bw, gain) };
        }
        self.product.packets
    }

    fn approach_target(&mut self, acked: &Acked, cwnd: u64, newly: u64) -> u64 {
        let bw = self.bandwidth();
        let extra = if self.core.full.reached { self.core.aggregation.extra(bw) / self.core.mss } else { 0 };
        let product = self.product(bw);
        let target = self.with_bursts(product + extra);
        let next = if self.core.full.reached {
            (cwnd + newly).min(target)
        } else if cwnd < target || acked.delivered.get() < INITIAL * self.core.mss {
            cwnd + newly
        } else {
            cwnd
        };
        next.max(LEAST)
    }
}

impl<C: Cruise> Version for Bbr1<C> {
    fn core(&self) -> &Core {
        &self.core
    }

    fn core_mut(&mut self) -> &mut Core {
        &mut self.core
    }

    fn bandwidth(&self) -> BitRate {
        self.policer.rate().unwrap_or(self.max_bw())
    }

    fn is_draining(&self) -> bool {
        self.mode == Mode::Drain
    }

    fn sent(&mut self, sent: &Sent) {
        if !(sent.after_idle && sent.app_limited) {
            return;
        }
        self.core.idle_restart = true;
        self.core.aggregation.restart(sent.now);
        match self.mode {
            // No faster than the estimate: there is no queue of ours to compete with.
            Mode::ProbeBw => self.core.pace(self.bandwidth(), UNIT),
            Mode::ProbeRtt => self.check_probe_rtt_done(sent.now),
            Mode::Startup | Mode::Drain => {}
        }
    }

    fn acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        self.update_model(acked);
        let gain = self.cruise.gain(self, siblings);
        if let Some(gain) = gain.filter(|gain| *gain > 0) {
            self.core.pacing_gain = gain.unsigned_abs();
        }
        self.core.repace(acked.srtt, self.bandwidth());
        self.update_cwnd(acked);
        if gain.is_some_and(|gain| gain <= 0) {
            self.core.cwnd = LEAST;
        }
    }

    fn congestion(&mut self, congestion: &Congestion) {
        self.core.save_cwnd(self.mode == Mode::ProbeRtt);
        if !is_timeout(congestion.signal) {
            return;
        }
        self.core.full.bw = 0;
        self.core.round.start = true;
        self.policer.count_lost(congestion.lost);
        let verdict = self.policer.on_timeout(congestion.now, self.mode == Mode::ProbeBw);
        self.heed(verdict, congestion.now);
        if congestion.signal == Signal::Timeout {
            self.core.recovery = Recovery::Loss;
        }
        if self.core.flavour == Flavour::Quic {
            self.core.cwnd = LEAST;
        }
    }

    fn spurious(&mut self, now: Instant) {
        self.core.full.bw = 0;
        self.core.full.rounds = 0;
        self.policer.reset(now);
    }

    fn snapshot(&self) -> String {
        format!(
            "{:?} {} cwnd {} bw {} min_rtt {:?}",
            self.mode,
            self.cycle.index,
            self.core.cwnd,
            self.bandwidth(),
            self.min_rtt
        )
    }
}

#[cfg(test)]
mod tests;
