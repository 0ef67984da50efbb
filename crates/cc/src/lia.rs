//! LIA, the linked increases of MPTCP: together no more aggressive than one flow on the best path.
//!
//! ```text
//! α = w_total · max_j(w_j / rtt_j²) / (Σ_j w_j / rtt_j)²
//! congestion avoidance, for each packet acknowledged:  w_i += min(α / w_total, 1 / w_i)
//! ```
//!
//! With b the path of the largest w/rtt², w_total/α is (Σ_j w_j · rtt_b / rtt_j)² / w_b, so that
//! the rule reads: one packet for each max(w_total/α, w_i) acknowledged. Slow start and the
//! reaction to loss are NewReno's. Fewer than two established paths: NewReno.
//!
//! Reference: RFC 6356 §3; `net/mptcp/mptcp_coupled.c` of MPTCP v0.9x.
//! State: the shared window.
//! Switch `form`: `kernel` counts whole packets in the kernel's fixed point, whose result is a
//! whole number of packets to wait for; `rfc` keeps the same quotient to a byte. `v0.90` is `kernel`, and b is
//! found as the module finds it since MPTCP v0.90: by ⌊w · 2³² / (8 · rtt)²⌋, w in packets and rtt in µs. Of a
//! path whose rtt is above 8.192 ms · √w that is 0, and of equals the oldest path is b, however slow it is.
//! Switch `count`: the kernel adds one for each acknowledgement, however many packets it covers, and
//! waits for more than that number; RFC 6356 counts what is acknowledged (`packets`).
//! Departures: α is computed anew at each ACK, where the kernel waits until a window changes.

use weftway_path::spec::Param;
use weftway_path::{Instant, PathId};

use crate::registry::Entry;
use crate::window::{Count, LARGEST, Window, window_methods};
use crate::{Acked, Congestion, Controller, Share, Siblings};

pub(crate) const ENTRY: Entry = Entry {
    name: "lia",
    aliases: &["coupled", "linked-increases"],
    version: 2,
    summary: "couples the paths' increases so that together they take no more than one flow on the best path",
    reference: "RFC 6356; MPTCP v0.9x net/mptcp/mptcp_coupled.c",
    coupled: true,
    paced: false,
    params: &[FORM, Count::PARAM],
    build: |params, setup| {
        let form = params.choice("form", Form::CHOICES)?;
        let count = params.choice("count", Count::CHOICES)?;
        Ok(Box::new(Lia { path: setup.path, form, count, window: Window::new(setup) }))
    },
};

/// The switch for the arithmetic of the increase.
pub(crate) const FORM: Param = Param {
    name: "form",
    default: "kernel",
    values: "kernel | v0.90 | rfc",
    doc: "the kernel's fixed point, which waits for whole packets; v0.90: its module's choice of the best path, too, \
          which cannot tell paths of long round trips apart; or the quotient of RFC 6356 to a byte",
};

/// The kernel's scales, as powers of two: of the numerator, and of each term of the denominator.
/// What is left in the quotient is their difference, numerator − 2 · denominator = 12.
const SCALE_NUMERATOR: u32 = 32;
const SCALE_DENOMINATOR: u32 = 10;
const SCALE_QUOTIENT: u32 = SCALE_NUMERATOR - 2 * SCALE_DENOMINATOR;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Form {
    Kernel,
    V090,
    Rfc,
}

impl Form {
    pub(crate) const CHOICES: &[(&str, Self)] = &[("kernel", Self::Kernel), ("v0.90", Self::V090), ("rfc", Self::Rfc)];
}

#[derive(Clone, Debug)]
struct Lia {
    path: PathId,
    form: Form,
    count: Count,
    window: Window,
}

/// Established path as the rule sees it.
#[derive(Clone, Copy)]
struct EstablishedPath {
    cwnd: u64,
    /// Window in packets.
    packets: u64,
    /// In µs.
    rtt: u64,
}

impl EstablishedPath {
    /// Returns true if its w/rtt² is larger than that of `other`.
    fn is_better_than(self, other: Self, form: Form) -> bool {
        match form {
            Form::V090 => self.whole_merit() > other.whole_merit(),
            Form::Kernel | Form::Rfc => {
                u128::from(self.cwnd) * square(other.rtt) > u128::from(other.cwnd) * square(self.rtt)
            }
        }
    }

    /// w/rtt² as the module computes it: Linux keeps eight times the srtt in µs.
    fn whole_merit(self) -> u128 {
        (u128::from(self.packets) << SCALE_NUMERATOR) / square(8 * self.rtt)
    }
}

/// The bytes to acknowledge for each packet of increase: max(w_total/α, w), and w alone when fewer
/// than two paths are established.
pub(crate) fn wait(form: Form, window: &Window, path: PathId, siblings: Siblings<'_>) -> u64 {
    Bundle { window, path, siblings }.wait(form).unwrap_or(0).max(window.cwnd())
}

/// The paths of the connection, of which `path` is the own one.
#[derive(Clone, Copy)]
struct Bundle<'a> {
    window: &'a Window,
    path: PathId,
    siblings: Siblings<'a>,
}

impl<'a> Bundle<'a> {
    fn paths(self) -> impl Iterator<Item = EstablishedPath> + 'a {
        self.siblings.iter().filter(|share| share.usable && !share.srtt.is_zero()).map(move |share| {
            // Our own entry may be as old as our last event.
            let own = share.path == self.path;
            let cwnd = if own { self.window.cwnd() } else { share.cwnd.get().min(LARGEST) };
            let packets = (cwnd / share.mss.get().max(1)).clamp(1, u64::from(u32::MAX));
            EstablishedPath { cwnd, packets, rtt: share.srtt.as_micros().clamp(1, u64::from(u32::MAX)) }
        })
    }

    /// w_total/α in bytes; `None` when fewer than two paths are established.
    fn wait(self, form: Form) -> Option<u64> {
        let mut paths = self.paths();
        let first = paths.next()?;
        let second = paths.next()?;
        // Of equals the first: the kernel takes the last of its list, which begins with the newest subflow.
        let better =
            |best: EstablishedPath, path: EstablishedPath| if path.is_better_than(best, form) { path } else { best };
        let best = paths.fold(better(first, second), better);
        Some(match form {
            Form::Kernel | Form::V090 => self.kernel_wait(best),
            Form::Rfc => self.rfc_wait(best),
        })
    }

    fn kernel_wait(self, best: EstablishedPath) -> u64 {
        let scaled = |path: EstablishedPath| u128::from(path.packets) << SCALE_DENOMINATOR;
        let term = |path: EstablishedPath| scaled(path) * u128::from(best.rtt) / u128::from(path.rtt);
        let sum: u128 = self.paths().map(term).sum();
        let alpha = ((u128::from(best.packets) << SCALE_NUMERATOR) / sum.saturating_mul(sum).max(1)).max(1);
        ((1u128 << SCALE_QUOTIENT) / alpha) as u64 * self.window.mss()
    }

    fn rfc_wait(self, best: EstablishedPath) -> u64 {
        let term = |path: EstablishedPath| u128::from(path.cwnd) * u128::from(best.rtt) / u128::from(path.rtt);
        let sum: u128 = self.paths().map(term).sum();
        (sum.saturating_mul(sum) / u128::from(best.cwnd.max(1))).min(u128::from(LARGEST)) as u64
    }
}

fn square(n: u64) -> u128 {
    u128::from(n) * u128::from(n)
}

impl Controller for Lia {
    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        let counted = self.window.grow_counting(acked, self.count);
        if counted > 0 {
            let per = wait(self.form, &self.window, self.path, siblings);
            self.window.increase_counting(counted, per, self.count);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        if self.window.is_new(congestion) {
            self.window.reduce(congestion, self.window.cwnd() / 2);
        }
        self.window.collapse(congestion.signal);
    }

    fn on_spurious(&mut self, _: Instant) {
        self.window.undo();
    }

    window_methods!();

    fn share(&self) -> Share {
        self.window.share()
    }

    fn snapshot(&self) -> String {
        format!("cwnd {} ssthresh {}", self.window.cwnd(), self.window.ssthresh())
    }
}
