//! OLIA, opportunistic linked increases: LIA's aim, with traffic moved towards the better paths.
//!
//! ```text
//! congestion avoidance, for each packet acknowledged on r:
//!     w_r += (w_r / rtt_r²) / (Σ_p w_p / rtt_p)² + ε_r / w_r
//! l_p = the larger of: bytes acknowledged since the last loss, and between the last two
//! B = paths with the largest l_p / rtt_p²    M = paths with the largest w_p    C = B \ M
//! ε_r = +1 / (n · |C|) for r in C;  −1 / (n · |M|) for r in M while C is not empty;  else 0
//! ```
//!
//! n is the number of established paths. Slow start and the reaction to loss are NewReno's.
//!
//! Reference: Khalili et al., "MPTCP is not Pareto-optimal" (IEEE/ACM ToN 2013);
//! draft-khalili-mptcp-congestion-control; `net/mptcp/mptcp_olia.c` of MPTCP v0.9x.
//! State: the shared window, l, and the increase not yet applied.
//! Switch `rank`: `kernel` ranks B by l/rtt², `draft` by l²/rtt.
//! Switch `count`: under MPTCP the kernel adds the increase once for each acknowledgement, in 1/1024 of
//! a packet, and drops what is left at each step (`acks`); the draft adds it for each packet
//! acknowledged, which we do to 2^-32 of a packet (`packets`).
//! Departures: what was added and is less than a step is dropped at a loss, where the kernel keeps it.

use weftway_path::spec::Param;
use weftway_path::{Bytes, Instant, PathId, Recovery};

use crate::registry::Entry;
use crate::window::{Count, LARGEST, Window, is_timeout, window_methods};
use crate::{Acked, Congestion, Controller, Share, Siblings};

pub(crate) const ENTRY: Entry = Entry {
    name: "olia",
    aliases: &["opportunistic-linked-increases"],
    version: 2,
    summary: "couples the paths' increases and moves window from the largest path to the best ones",
    reference: "Khalili et al. 2013; MPTCP v0.9x net/mptcp/mptcp_olia.c",
    coupled: true,
    paced: false,
    params: &[
        Param {
            name: "rank",
            default: "kernel",
            values: "kernel | draft",
            doc: "what makes a path the best: l/rtt², as the kernel computes, or l²/rtt, as the draft writes",
        },
        Count::PARAM,
    ],
    build: |params, setup| {
        let rank = params.choice("rank", &[("kernel", Rank::Kernel), ("draft", Rank::Draft)])?;
        let count = params.choice("count", Count::CHOICES)?;
        let window = Window::new(setup);
        Ok(Box::new(Olia { path: setup.path, rank, count, window, since: 0, between: 0, credit: 0, recovering: false }))
    },
};

/// Increases are counted in 2^-32 of a packet or byte,
const SCALE: u32 = 32;
/// and by the kernel in 2^-10 of a packet, one less than which is a step.
const KERNEL_SCALE: u32 = 10;
const KERNEL_STEP: i64 = (1 << KERNEL_SCALE) - 1;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Rank {
    Kernel,
    Draft,
}

#[derive(Clone, Debug)]
struct Olia {
    path: PathId,
    rank: Rank,
    count: Count,
    window: Window,
    /// Bytes acknowledged since the last loss.
    since: u64,
    /// Bytes acknowledged between the last two losses.
    between: u64,
    /// Increase that is not applied yet: in 2^-32 grains of the window, or, counting acknowledgements, in 2^-10
    /// packets.
    credit: i64,
    /// In recovery the window that siblings see is the threshold, as in the kernel.
    recovering: bool,
}

/// Established path as the rule sees it.
#[derive(Clone, Copy)]
struct EstablishedPath {
    own: bool,
    cwnd: u64,
    rtt: u64,
    inter_loss: u64,
}

/// A fraction, compared by cross-multiplication.
#[derive(Clone, Copy)]
struct Merit(u128, u128);

impl Merit {
    fn compare(self, other: Self) -> core::cmp::Ordering {
        self.0.saturating_mul(other.1).cmp(&other.0.saturating_mul(self.1))
    }
}

impl Olia {
    fn inter_loss(&self) -> u64 {
        self.since.max(self.between)
    }

    fn paths<'a>(&'a self, siblings: Siblings<'a>) -> impl Iterator<Item = EstablishedPath> + 'a {
        siblings.iter().filter(|share| share.usable && !share.srtt.is_zero()).map(|share| {
            // Our own entry may be as old as our last event.
            let own = share.path == self.path;
            let cwnd = if own { self.window.cwnd() } else { share.cwnd.get() };
            let inter_loss = if own { self.inter_loss() } else { share.inter_loss.get() };
            EstablishedPath {
                own,
                cwnd: cwnd.clamp(1, LARGEST),
                rtt: share.srtt.as_micros().clamp(1, u64::from(u32::MAX)),
                inter_loss: inter_loss.min(LARGEST),
            }
        })
    }

    fn merit(&self, path: &EstablishedPath) -> Merit {
        let (l, rtt) = (u128::from(path.inter_loss), u128::from(path.rtt));
        match self.rank {
            Rank::Kernel => Merit(l, rtt * rtt),
            Rank::Draft => Merit(l * l, rtt),
        }
    }

    /// The numerator of ε, −1, 0 or 1, and its denominator.
    fn epsilon(&self, siblings: Siblings<'_>) -> (i64, u64) {
        let largest = self.paths(siblings).map(|path| path.cwnd).max().unwrap_or(0);
        let best = self.paths(siblings).map(|path| self.merit(&path)).max_by(|a, b| a.compare(*b));
        let Some(best) = best else { return (0, 1) };
        let (mut established, mut in_m, mut in_c, mut own) = (0, 0, 0, 0);
        for path in self.paths(siblings) {
            established += 1;
            if path.cwnd == largest {
                in_m += 1;
                own = if path.own { -1 } else { own };
            } else if self.merit(&path).compare(best).is_eq() {
                in_c += 1;
                own = if path.own { 1 } else { own };
            }
        }
        match own {
            _ if in_c == 0 => (0, 1),
            1 => (1, established * in_c),
            -1 => (-1, established * in_m),
            _ => (0, 1),
        }
    }

    /// The increase for each packet acknowledged, in 2^-32 packets.
    fn increase(&self, siblings: Siblings<'_>) -> i64 {
        let mut rtt = 0;
        for path in self.paths(siblings).filter(|path| path.own) {
            rtt = path.rtt;
        }
        let (mss, cwnd) = (u128::from(self.window.mss()), u128::from(self.window.cwnd()));
        // Σ w_p · rtt_r / rtt_p, in bytes. A path that is not among its siblings is alone.
        let sum: u128 =
            self.paths(siblings).map(|path| u128::from(path.cwnd) * u128::from(rtt) / u128::from(path.rtt)).sum();
        let sum = if sum == 0 { cwnd } else { sum };
        let first = ((cwnd * mss) << SCALE) / sum.saturating_mul(sum);
        let (sign, per) = self.epsilon(siblings);
        let second = (mss << SCALE) / (cwnd * u128::from(per));
        // Each term is below one packet, unless the sum rounds down to nothing.
        let limit = 1u128 << SCALE;
        first.min(limit) as i64 + sign * second.min(limit) as i64
    }

    /// Applies one acknowledgement, as the kernel counts.
    fn apply_once(&mut self, increase: i64) {
        // Its division cuts towards zero.
        self.credit += increase / (1 << (SCALE - KERNEL_SCALE));
        if self.credit.abs() >= KERNEL_STEP {
            self.window.shift(self.credit.signum());
            self.credit = 0;
        }
    }

    fn apply(&mut self, acked: u64, increase: i64) {
        // Grains of the window for each byte acknowledged: the same number under both flavours.
        let grains = i64::try_from(acked / self.window.grain()).unwrap_or(0);
        let credit = i128::from(self.credit) + i128::from(grains) * i128::from(increase);
        let steps = credit / (1 << SCALE);
        self.credit = (credit - steps * (1 << SCALE)) as i64;
        self.window.shift(steps.clamp(-i128::from(LARGEST), i128::from(LARGEST)) as i64);
    }
}

impl Controller for Olia {
    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        self.since = self.since.saturating_add(acked.bytes.get());
        self.recovering = acked.recovery == Recovery::Recovery;
        let counted = self.window.grow_counting(acked, self.count);
        if counted > 0 {
            let increase = self.increase(siblings);
            if self.window.counts_acks(self.count) {
                self.apply_once(increase);
            } else {
                self.apply(counted, increase);
            }
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        if self.window.is_new(congestion) {
            self.window.reduce(congestion, self.window.cwnd() / 2);
            // A second loss before any progress belongs to the first.
            if self.since > 0 {
                self.between = core::mem::take(&mut self.since);
            }
            self.credit = 0;
        }
        self.recovering = !is_timeout(congestion.signal);
        self.window.collapse(congestion.signal);
    }

    fn on_spurious(&mut self, _: Instant) {
        self.window.undo();
        self.recovering = false;
    }

    fn on_recovered(&mut self, _: Instant) {
        self.recovering = false;
    }

    window_methods!();

    fn share(&self) -> Share {
        let mut share = self.window.share();
        if self.recovering {
            share.cwnd = Bytes::new(self.window.ssthresh().min(LARGEST));
        }
        share.inter_loss = Bytes::new(self.inter_loss());
        share
    }

    fn snapshot(&self) -> String {
        format!("cwnd {} ssthresh {} l {}", self.window.cwnd(), self.window.ssthresh(), self.inter_loss())
    }
}
