//! The window of BBR with bounds: how it follows the product, and what holds it below.

use weftway_path::Recovery;

use super::{Bounded, LEAST, Mode, Phase};
use crate::Acked;
use crate::bbr::Version;

impl Bounded {
    pub(super) fn update_cwnd(&mut self, acked: &Acked) {
        if self.is_cut && acked.recovery < Recovery::Recovery {
            self.is_cut = false;
            self.core.cwnd = self.core.cwnd.max(self.core.prior_cwnd);
        }
        self.core.recovery = acked.recovery;
        let newly = self.core.packets(acked.bytes);
        if newly > 0 {
            self.approach_target(newly);
        }
        if self.mode == Mode::ProbeRtt {
            self.core.cwnd = self.core.cwnd.min(self.probe_rtt_cwnd());
        }
        self.core.cwnd = self.core.in_limits(self.core.cwnd.min(self.bound().max(LEAST)));
    }

    fn approach_target(&mut self, newly: u64) {
        let bw = self.bandwidth();
        let extra = self.core.aggregation.extra(bw) / self.core.mss;
        let target = self.with_bursts(self.bdp(bw, self.core.cwnd_gain) + extra);
        if self.core.full.reached {
            self.core.cwnd = (self.core.cwnd + newly).min(target);
        } else if self.core.cwnd < target || self.core.cwnd < 2 * self.initial {
            self.core.cwnd += newly;
        }
        self.core.cwnd = self.core.cwnd.max(LEAST);
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
