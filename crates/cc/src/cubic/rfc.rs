//! The curve as RFC 9438 writes it: windows in packets and times in seconds, as floats.
//!
//! ```text
//! target = clamp(W(t + RTT), cwnd, 1.5 · cwnd)
//! w_est += α · acked / cwnd          α = 3(1−β)/(1+β); 1 once w_est reaches the last window
//! cwnd = w_est if W(t) < w_est, else cwnd + acked · (target − cwnd) / cwnd
//! ```
//!
//! Departures: β multiplies the window, not the flight size; §4.6 allows it to stacks that do not
//! grow unused windows, and QUIC stacks do so. An ACK never lowers the window, nor does one that
//! covers more than a window overshoot the target. An epoch begins with the first ACK that may
//! grow, as in Linux. Times in which the window was not the limit are left out of t (§5.8).

use weftway_path::{Instant, Span};

use super::Shape;
use crate::Acked;
use crate::window::Window;

#[derive(Clone, Debug)]
pub(super) struct Rfc {
    shape: Shape,
    alpha: f64,
    /// The window at the last loss, or less by fast convergence; `None` before any loss and after
    /// a timeout, where the curve is flat at the window it starts from.
    w_max: Option<f64>,
    /// The window just before the last reduction.
    cwnd_prior: f64,
    epoch: Option<Epoch>,
    /// Since when the window has not been the limit.
    unused: Option<Instant>,
    /// The window with its fraction of a byte.
    exact: f64,
}

#[derive(Clone, Copy, Debug)]
struct Epoch {
    start: Instant,
    /// Window where the curve is flat, and the time until then.
    origin: f64,
    k: f64,
    /// Window that Reno would have.
    w_est: f64,
}

impl Rfc {
    pub(super) fn new(shape: Shape) -> Self {
        let alpha = 3.0 * (1.0 - shape.beta) / (1.0 + shape.beta);
        Self { shape, alpha, w_max: None, cwnd_prior: 0.0, epoch: None, unused: None, exact: 0.0 }
    }

    /// Ends the epoch; returns the threshold in bytes.
    pub(super) fn on_loss(&mut self, window: &Window) -> u64 {
        let cwnd = self.packets(window);
        self.cwnd_prior = cwnd;
        self.w_max = Some(match self.w_max {
            Some(last) if cwnd < last && self.shape.fast_convergence => cwnd * (1.0 + self.shape.beta) / 2.0,
            _ => cwnd,
        });
        self.epoch = None;
        (window.cwnd() as f64 * self.shape.beta) as u64
    }

    /// After a timeout the curve is flat at the window where congestion avoidance begins.
    pub(super) fn reset(&mut self) {
        self.w_max = None;
        self.epoch = None;
    }

    /// Leaves out the time in which the application sent nothing.
    pub(super) fn idle(&mut self, now: Instant, last_sent: Instant) {
        if self.unused.is_none() {
            self.shift(now, now.since(last_sent));
        }
    }

    /// Notes whether the window was the limit, and leaves out the time in which it was not.
    pub(super) fn note_use(&mut self, acked: &Acked) {
        if !acked.cwnd_limited {
            self.unused.get_or_insert(acked.now);
        } else if let Some(since) = self.unused.take() {
            self.shift(acked.now, acked.now.since(since));
        }
    }

    fn shift(&mut self, now: Instant, by: Span) {
        if let Some(epoch) = &mut self.epoch {
            epoch.start = (epoch.start + by).min(now);
        }
    }

    #[inline(never)]
    pub(super) fn grow(&mut self, window: &mut Window, acked: &Acked, left: u64) {
        let cwnd = self.packets(window);
        let segments = left as f64 / window.mss() as f64;
        let epoch = *self.epoch.get_or_insert_with(|| Epoch::new(acked.now, cwnd, self.w_max, self.shape.c));
        let t = acked.now.since(epoch.start).as_secs_f64();
        let target = epoch.curve(t + acked.srtt.as_secs_f64(), self.shape.c).clamp(cwnd, 1.5 * cwnd);
        let alpha = if epoch.w_est < self.cwnd_prior { self.alpha } else { 1.0 };
        let w_est = epoch.w_est + alpha * segments / cwnd;
        let grown = if epoch.curve(t, self.shape.c) < w_est {
            w_est.max(cwnd)
        } else {
            cwnd + segments.min(cwnd) * (target - cwnd) / cwnd
        };
        self.epoch = Some(Epoch { w_est, ..epoch });
        self.exact = grown;
        window.set((grown * window.mss() as f64) as u64);
    }

    /// The window in packets, with the fraction that its bytes do not hold, unless somebody else
    /// has changed it since.
    fn packets(&self, window: &Window) -> f64 {
        let mss = window.mss() as f64;
        if (self.exact * mss) as u64 == window.cwnd() { self.exact } else { window.cwnd() as f64 / mss }
    }

    pub(super) fn snapshot(&self) -> String {
        format!("w_max {:?} {:?}", self.w_max, self.epoch)
    }
}

impl Epoch {
    fn new(start: Instant, cwnd: f64, w_max: Option<f64>, c: f64) -> Self {
        let origin = w_max.unwrap_or(cwnd).max(cwnd);
        Self { start, origin, k: libm::cbrt((origin - cwnd) / c), w_est: cwnd }
    }

    fn curve(&self, t: f64, c: f64) -> f64 {
        let t = t - self.k;
        self.origin + c * t * t * t
    }
}
