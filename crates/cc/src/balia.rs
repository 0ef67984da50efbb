//! BALIA, balanced linked adaptation: coupled increases, and a deeper cut for the slower paths.
//!
//! ```text
//! x_p = w_p / rtt_p          a_r = max_p x_p / x_r
//! congestion avoidance, for each packet acknowledged on r:
//!     w_r += (x_r / rtt_r) / (Σ_p x_p)² · (1 + a_r) / 2 · (4 + a_r) / 5
//! congestion:  w_r −= w_r / 2 · min(a_r, 3/2)
//! ```
//!
//! With y_p = w_p · rtt_r / rtt_p, the window that p's rate would need on r, and m the largest of
//! them, the increase is one packet for each (Σ y)² · 10 w_r / ((w_r + m) · (4 w_r + m))
//! acknowledged. Slow start is NewReno's. Fewer than two established paths: NewReno.
//!
//! Reference: Peng, Walid, Hwang, Low, "Multipath TCP: Analysis, Design, and Implementation"
//! (IEEE/ACM ToN 24(1), 2016); `net/mptcp/mptcp_balia.c` of MPTCP v0.9x.
//! State: the shared window.
//! Switch `form`: `paper` keeps a and the increase exact; `kernel` cuts a to a whole number in the
//! reaction to loss, so that nothing below 2 counts as more than 1, gives up whole packets, rounded
//! down, and waits for whole packets.
//! Switch `count`, as LIA's: the kernel counts acknowledgements, the paper packets.
//! Departures: computed anew at each ACK, where the kernel waits until the window changes. A loss
//! leaves two packets at least, where the kernel's module leaves one.

use weftway_path::spec::Param;
use weftway_path::{Instant, PathId};

use crate::registry::Entry;
use crate::window::{Count, LARGEST, Window, window_methods};
use crate::{Acked, Congestion, Controller, Share, Siblings};

pub(crate) const ENTRY: Entry = Entry {
    name: "balia",
    aliases: &["balanced-linked-adaptation"],
    version: 3,
    summary: "couples the paths' increases and cuts the slower paths deeper, between LIA's aims and OLIA's",
    reference: "Peng et al., IEEE/ACM ToN 2016; MPTCP v0.9x net/mptcp/mptcp_balia.c",
    coupled: true,
    paced: false,
    params: &[
        Param {
            name: "form",
            default: "paper",
            values: "paper | kernel",
            doc: "exact, or with the kernel's whole numbers: of packets to wait for and to give up, and of a in the \
                  reaction to loss",
        },
        Count::PARAM,
    ],
    build: |params, setup| {
        let form = params.choice("form", &[("paper", Form::Paper), ("kernel", Form::Kernel)])?;
        let count = params.choice("count", Count::CHOICES)?;
        Ok(Box::new(Balia { path: setup.path, form, count, window: Window::new(setup) }))
    },
};

/// Fraction bits of a ratio.
const SCALE: u32 = 20;
/// The most that a counts for in the reaction to loss, in halves.
const MOST_HALVES: u128 = 3;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Form {
    Paper,
    Kernel,
}

#[derive(Clone, Debug)]
struct Balia {
    path: PathId,
    form: Form,
    count: Count,
    window: Window,
}

/// The windows that the paths' rates would need over the own round-trip time, in bytes.
#[derive(Clone, Copy)]
struct Rates {
    paths: u32,
    sum: u128,
    largest: u128,
}

impl Balia {
    fn rates(&self, siblings: Siblings<'_>) -> Rates {
        let rtt = |share: &Share| u128::from(share.srtt.as_micros().clamp(1, u64::from(u32::MAX)));
        let seen = || siblings.iter().filter(|share| share.usable && !share.srtt.is_zero());
        let cwnd = u128::from(self.window.cwnd());
        let own = Rates { paths: 1, sum: cwnd, largest: cwnd };
        let Some(own_rtt) = seen().find(|share| share.path == self.path).map(rtt) else { return own };
        seen().filter(|share| share.path != self.path).fold(own, |rates, share| {
            let window = u128::from(share.cwnd.get().min(LARGEST)) * own_rtt / rtt(share);
            Rates { paths: rates.paths + 1, sum: rates.sum + window, largest: rates.largest.max(window) }
        })
    }

    /// The bytes to acknowledge for each packet of increase.
    fn wait(&self, siblings: Siblings<'_>) -> u64 {
        let Rates { paths, sum, largest } = self.rates(siblings);
        if paths < 2 {
            return self.window.cwnd();
        }
        let cwnd = u128::from(self.window.cwnd());
        // Two factors, each of which fits with its fraction.
        let first = (sum << SCALE) / (cwnd + largest);
        let second = (10 * cwnd * sum) / (4 * cwnd + largest);
        let wait = ((first * second) >> SCALE).min(u128::from(LARGEST)) as u64;
        let wait = match self.form {
            Form::Paper => wait,
            Form::Kernel => wait / self.window.mss() * self.window.mss(),
        };
        // The rule is never faster than Reno; nor may its rounding be.
        wait.max(self.window.cwnd())
    }

    /// Window that a loss leaves, in bytes.
    fn target(&self, siblings: Siblings<'_>) -> u64 {
        let cwnd = self.window.cwnd();
        let Rates { largest, .. } = self.rates(siblings);
        match self.form {
            Form::Paper => cwnd - ((u128::from(cwnd) * MOST_HALVES / 2).min(largest) / 2) as u64,
            Form::Kernel => {
                let halves = MOST_HALVES.min(2 * (largest / u128::from(cwnd.max(1)))) as u64;
                cwnd - self.window.packets() / 2 * halves / 2 * self.window.mss()
            }
        }
    }
}

impl Controller for Balia {
    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        let counted = self.window.grow_counting(acked, self.count);
        if counted > 0 {
            let per = self.wait(siblings);
            self.window.increase_counting(counted, per, self.count);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, siblings: Siblings<'_>) {
        if self.window.is_new(congestion) {
            self.window.reduce(congestion, self.target(siblings));
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
