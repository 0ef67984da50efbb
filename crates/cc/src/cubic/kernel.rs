//! The curve as `tcp_cubic.c` computes it: windows in packets, time in 1/1024 s.
//!
//! ```text
//! per = packets to acknowledge for one more packet of window (the kernel's `cnt`)
//!     = cwnd / (W(t + delay_min) − cwnd)       100 · cwnd at or above the curve
//!       at most 20 before the first loss; at most what Reno needs; at least 2
//! ```
//!
//! Departures: the kernel's clock ticks HZ times a second, here 1000. Its cube root reads a table
//! and errs by 0.2 %; ours is exact to a unit.

use weftway_path::{Instant, Span};

use super::Shape;
use crate::window::Window;

/// β is in 1024ths (`BICTCP_BETA_SCALE`): 0.7 becomes the kernel's 717.
const BETA_SCALE: u64 = 1024;
/// Time is in 2^-10 s (`BICTCP_HZ`).
const TIME_SHIFT: u32 = 10;
/// `per` is not computed again within 1/32 s while the window stays the same (`HZ / 32`).
const STALE: u64 = 1000 / 32;
/// The window grows by 5 % a round trip at least while no loss has shown its limit.
const PER_BEFORE_LOSS: u64 = 20;
/// The window grows by half a round trip at most.
const PER_LEAST: u64 = 2;
/// Times are cut here, 12 days in 2^-10 s, so that their cube fits 128 bits.
const TIME_MOST: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub(super) struct Kernel {
    /// In 1024ths.
    beta: u64,
    /// `cube_rtt_scale`: 1024 · C.
    scale: u64,
    /// `beta_scale`: 8/(α of Reno with this β), so that α = 3(1−β)/(1+β) is 8/15 for 0.7.
    friendly: u64,
    fast_convergence: bool,
    per: u64,
    /// The window at the last loss, or less by fast convergence; 0 before it and after a timeout.
    last_max: u64,
    last_cwnd: u64,
    /// The window as it was looked at last, in bytes and in packets: mostly it is the same.
    seen: (u64, u64),
    /// Time at which `per` was computed, in ms.
    last_time: u64,
    /// The window where the curve is flat, and when.
    origin: u64,
    k: u64,
    /// Beginning of the curve, in ms.
    epoch: Option<u64>,
    /// Packets acknowledged that Reno has not turned into window.
    acked: u64,
    /// The window that Reno would have.
    reno: u64,
}

fn millis(now: Instant) -> u64 {
    now.as_nanos() / 1_000_000
}

impl Kernel {
    pub(super) fn new(shape: Shape) -> Self {
        let beta = libm::round(shape.beta * BETA_SCALE as f64) as u64;
        Self {
            beta,
            // `bic_scale` is 41 for C = 0.4, in 1024ths of a tenth.
            scale: 10 * (libm::round(shape.c * 102.4) as u64).max(1),
            friendly: 8 * (BETA_SCALE + beta) / 3 / (BETA_SCALE - beta),
            fast_convergence: shape.fast_convergence,
            per: 0,
            last_max: 0,
            last_cwnd: 0,
            seen: (0, 0),
            last_time: 0,
            origin: 0,
            k: 0,
            epoch: None,
            acked: 0,
            reno: 0,
        }
    }

    /// Returns true if the curve began less than a second ago: round-trip samples are not to be trusted
    /// right after a recovery.
    pub(super) fn is_young(&self, now: Instant) -> bool {
        self.epoch.is_some_and(|epoch| millis(now).saturating_sub(epoch) < 1000)
    }

    /// Leaves out the time in which the application sent nothing.
    pub(super) fn idle(&mut self, now: Instant, last_sent: Instant) {
        if let Some(epoch) = &mut self.epoch {
            let idle = millis(now).saturating_sub(millis(last_sent));
            *epoch = epoch.saturating_add(idle).min(millis(now));
        }
    }

    /// Ends the epoch; returns the threshold in packets.
    pub(super) fn on_loss(&mut self, cwnd: u64) -> u64 {
        self.epoch = None;
        self.last_max = if cwnd < self.last_max && self.fast_convergence {
            cwnd * (BETA_SCALE + self.beta) / (2 * BETA_SCALE)
        } else {
            cwnd
        };
        cwnd * self.beta / BETA_SCALE
    }

    /// Forgets everything, after a timeout.
    pub(super) fn reset(&mut self) {
        self.per = 0;
        (self.last_max, self.last_cwnd, self.last_time) = (0, 0, 0);
        (self.origin, self.k, self.epoch) = (0, 0, None);
        (self.acked, self.reno) = (0, 0);
    }

    /// Number of packets to acknowledge for one more packet of window; `acked` more just were.
    #[inline(always)]
    pub(super) fn update(&mut self, now: Instant, window: &Window, acked: u64, delay_min: Span) -> u64 {
        let now = millis(now);
        if window.cwnd() != self.seen.0 {
            self.seen = (window.cwnd(), window.packets());
        }
        let cwnd = self.seen.1;
        self.acked = self.acked.saturating_add(acked);
        if self.last_cwnd == cwnd && now.saturating_sub(self.last_time) <= STALE {
            return self.per;
        }
        self.recompute(now, cwnd, acked, delay_min)
    }

    #[inline(never)]
    fn recompute(&mut self, now: u64, cwnd: u64, acked: u64, delay_min: Span) -> u64 {
        if self.epoch.is_none() || now != self.last_time {
            (self.last_cwnd, self.last_time) = (cwnd, now);
            self.follow(now, cwnd, acked, delay_min);
        }
        self.be_friendly(cwnd);
        self.per = self.per.max(PER_LEAST);
        self.per
    }

    /// Sets `per` so that the window meets the curve in a round trip. Seldom called.
    #[inline(never)]
    fn follow(&mut self, now: u64, cwnd: u64, acked: u64, delay_min: Span) {
        let epoch = match self.epoch {
            Some(epoch) => epoch,
            None => self.begin(now, cwnd, acked),
        };
        // Round-trip times round up to the clock's tick.
        let t = now.saturating_sub(epoch) + delay_min.as_nanos().div_ceil(1_000_000);
        let t = (t.min(TIME_MOST) << TIME_SHIFT) / 1000;
        let distance = u128::from(t.abs_diff(self.k).min(TIME_MOST));
        let delta = (u128::from(self.scale) * distance * distance * distance) >> (10 + 3 * TIME_SHIFT);
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let target = if t < self.k { self.origin.saturating_sub(delta) } else { self.origin.saturating_add(delta) };
        self.per = if target > cwnd { cwnd / (target - cwnd) } else { 100 * cwnd };
        if self.last_max == 0 {
            self.per = self.per.min(PER_BEFORE_LOSS);
        }
    }

    fn begin(&mut self, now: u64, cwnd: u64, acked: u64) -> u64 {
        self.epoch = Some(now);
        self.acked = acked;
        self.reno = cwnd;
        self.origin = self.last_max.max(cwnd);
        // K³ = distance / C, in 2^-30 s³: 2^40 / scale packets.
        let unit = (1u64 << (10 + 3 * TIME_SHIFT)) / self.scale;
        self.k = cube_root(u128::from(unit) * u128::from(self.origin - cwnd));
        now
    }

    /// Never slower than Reno: a packet of its window for each `cwnd · friendly / 8`.
    fn be_friendly(&mut self, cwnd: u64) {
        let each = (cwnd * self.friendly / 8).max(1);
        if self.acked > each {
            let packets = (self.acked - 1) / each;
            self.acked -= packets * each;
            self.reno = self.reno.saturating_add(packets);
        }
        if self.reno > cwnd {
            self.per = self.per.min(cwnd / (self.reno - cwnd));
        }
    }

    pub(super) fn snapshot(&self) -> String {
        format!("w_max {} K {} per {} reno {}", self.last_max, self.k, self.per, self.reno)
    }
}

/// The largest integer whose cube is at most `n`.
fn cube_root(n: u128) -> u64 {
    let mut root = libm::cbrt(n as f64) as u64;
    // The float may be off by one where `n` has more bits than it.
    while cube(root) > n {
        root -= 1;
    }
    while cube(root + 1) <= n {
        root += 1;
    }
    root
}

fn cube(n: u64) -> u128 {
    u128::from(n).pow(3)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cube_roots_round_down() {
        for (n, root) in [(0, 0), (7, 1), (8, 2), (26, 2), (27, 3), (1 << 60, 1 << 20), ((1 << 60) - 1, (1 << 20) - 1)]
        {
            assert_eq!(cube_root(n), root);
        }
    }

    #[test]
    fn the_kernels_constants_come_out() {
        let kernel = Kernel::new(Shape { beta: 0.7, c: 0.4, fast_convergence: true });
        // tcp_cubic.c: beta 717; cube_rtt_scale 41 · 10; beta_scale 8 · 1741 / 3 / 307 = 15.
        assert_eq!((kernel.beta, kernel.scale, kernel.friendly), (717, 410, 15));
    }
}
