//! The window of BBR with bounds: how it follows the product, and what holds it below.

use weftway_path::Recovery;

use super::{Bounded, LARGEST, LEAST, Mode, Phase};
use crate::{Acked, Flavour};

impl Bounded {
    pub(super) fn save_cwnd(&mut self) {
        self.prior_cwnd = if self.recovery < Recovery::Recovery && self.mode != Mode::ProbeRtt {
            self.cwnd
        } else {
            self.prior_cwnd.max(self.cwnd)
        };
    }

    pub(super) fn in_limits(&self, cwnd: u64) -> u64 {
        // RFC 9002 §7.2 keeps two packets; Linux falls to one.
        let least = if self.flavour == Flavour::Quic { 2 } else { 1 };
        cwnd.min(LARGEST / self.mss).max(least)
    }

    pub(super) fn update_cwnd(&mut self, acked: &Acked) {
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
            Mode::ProbeRtt | Mode::ProbeBw(Phase::Cruise) => Some(self.bounds.with_headroom(self.form.headroom)),
            Mode::ProbeBw(_) => self.bounds.inflight_hi,
        };
        high.unwrap_or(u64::MAX).min(self.bounds.inflight_lo.unwrap_or(u64::MAX))
    }
}
