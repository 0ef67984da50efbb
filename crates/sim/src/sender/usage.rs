//! Use of the congestion window: what controllers are told of it, and windows that shrink because nobody fills them.

use weftway_cc::Share;
use weftway_path::{BlockedReason, Bytes, Instant, Path};
use weftway_scenario::config::TransportConfig;
use weftway_scenario::stack::LossRecovery;

use super::PathSender;

/// Window use (RFC 7661), in bytes of the window: TCP counts packets, each as a full one, and QUIC bytes (RFC 9002
/// §7.8).
#[derive(Clone, Debug)]
pub struct WindowUsage {
    /// Most bytes in flight since the round began.
    max_out: u64,
    /// The packet with which the round began.
    round: u64,
    /// True if the window was full in the round.
    limited: bool,
    /// Bytes used of it lately, and since when.
    used: u64,
    stamp: Instant,
}

impl WindowUsage {
    /// Use by a path that has just come up.
    pub fn new(now: Instant) -> Self {
        Self { max_out: 0, round: 0, limited: false, used: 0, stamp: now }
    }

    /// Counts anew from `now`.
    #[inline(always)]
    pub fn restart(&mut self, now: Instant) {
        (self.used, self.stamp) = (0, now);
    }
}

impl PathSender {
    /// Notes how well the window was used. Whether it was not used for so long that it must shrink
    /// ([`PathSender::restart_unused`]).
    #[inline]
    pub(super) fn validate_window(&mut self, now: Instant, view: &Path, transport: &TransportConfig) -> bool {
        let out = match transport.rules.recovery {
            LossRecovery::Tcp => (self.flight.next() - self.flight.base()) * transport.mss.get(),
            LossRecovery::Quic => self.paced_by.used(view).get(),
        };
        let limited = view.blocked == BlockedReason::Congestion || view.bytes_in_flight.plus(transport.mss) > view.cwnd;
        // QUIC keeps lost packets for a while, in case they turn up. They are settled all the same (RFC 9002 §A.7).
        let round_over = || {
            let settled = match transport.rules.recovery {
                LossRecovery::Tcp => self.flight.base(),
                LossRecovery::Quic => self.quic.settled_below().max(self.flight.base()),
            };
            settled >= self.usage.round
        };
        if limited || (!self.usage.limited && out > self.usage.max_out) || round_over() {
            self.usage.limited = limited;
            self.usage.max_out = out;
            self.usage.round = self.flight.next();
        }
        if self.window_limited(view) {
            self.usage.restart(now);
            return false;
        }
        self.usage.used = self.usage.used.max(out);
        transport.rules.recovery == LossRecovery::Tcp
            && view.recovery == weftway_path::Recovery::Open
            && now.since(self.usage.stamp) >= self.tcp.rto()
            && !self.cc.owns_recovery()
    }

    /// A window that was not filled for a whole timeout shrinks towards what was used
    /// (`tcp_cwnd_application_limited`, RFC 7661's aim).
    #[cold]
    pub(super) fn restart_unused(
        &mut self,
        now: Instant,
        view: &mut Path,
        shares: Option<&mut [Share]>,
        transport: &TransportConfig,
    ) {
        let used = Bytes::new(self.usage.used).max(transport.initial_cwnd());
        let cwnd = self.cc.cwnd();
        if used < cwnd {
            self.cc.set_cwnd((cwnd + used).mul_div(1, 2));
            self.publish_to(view, shares);
        }
        self.usage.restart(now);
    }

    /// Returns true if the window is what limits the path (`tcp_is_cwnd_limited`).
    #[inline]
    pub fn window_limited(&self, view: &Path) -> bool {
        if view.cwnd < view.ssthresh {
            // In slow start a window may grow to twice what was in use.
            return self.usage.limited || view.cwnd.get() < 2 * self.usage.max_out;
        }
        self.usage.limited
    }
}
