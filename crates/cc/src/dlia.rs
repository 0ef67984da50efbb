//! D-LIA: LIA's increase, with a cut that is the smaller the sooner losses follow each other.
//!
//! ```text
//! congestion:  γ = min(100 · w_after_the_loss_before / w, 100)
//!              β = min(max(γ/4 + 3/4 · β_before, 50), 90)
//!              w = max(β · w / 100, 2 packets)
//! ```
//!
//! In percent. A loss early in the climb finds w near what the loss before left of it, so that
//! repeated losses bring β to 90. It begins with β = 50, after a loss that left 2 packets. Slow
//! start is NewReno's, and so is the increase with fewer than two established paths.
//!
//! Reference: `mptcp_dlia.c` of <https://github.com/imtiaztee/D-LIA>, on MPTCP v0.9x.
//! State: the shared window, β, and the window that the last loss left.
//! Switches: `form` and `count`, the increase, as LIA's. `beta`: the code cuts β and γ to whole percents
//! (`whole`); `exact` keeps hundredths of them.
//! Departures: those of LIA.

use weftway_path::spec::Param;
use weftway_path::{Instant, PathId};

use crate::lia::{FORM, Form, wait};
use crate::registry::Entry;
use crate::window::{Count, Window, window_methods};
use crate::{Acked, Congestion, Controller, Share, Siblings};

pub(crate) const ENTRY: Entry = Entry {
    name: "dlia",
    aliases: &["d-lia", "dynamic-lia"],
    version: 2,
    summary: "increases as LIA, and gives up less of the window where losses follow each other soon",
    reference: "imtiaztee/D-LIA mptcp_dlia.c",
    coupled: true,
    paced: false,
    params: &[
        FORM,
        Count::PARAM,
        Param {
            name: "beta",
            default: "whole",
            values: "whole | exact",
            doc: "whether the share that a loss leaves is cut to whole percents, as in the code, or kept to hundredths",
        },
    ],
    build: |params, setup| {
        let form = params.choice("form", Form::CHOICES)?;
        let count = params.choice("count", Count::CHOICES)?;
        let step = params.choice("beta", &[("whole", PERCENT), ("exact", 1)])?;
        let window = Window::new(setup);
        let after_loss = FIRST_PACKETS * window.mss();
        Ok(Box::new(Dlia { path: setup.path, form, count, step, window, beta: LEAST, after_loss }))
    },
};

/// Shares are in hundredths of a percent.
const PERCENT: u64 = 100;
const WHOLE: u64 = 100 * PERCENT;
/// Smallest and largest share of the window that a loss leaves.
const LEAST: u64 = 50 * PERCENT;
const MOST: u64 = 90 * PERCENT;
/// The window, in packets, of a loss that never was.
const FIRST_PACKETS: u64 = 2;

#[derive(Clone, Debug)]
struct Dlia {
    path: PathId,
    form: Form,
    count: Count,
    /// To what shares are cut.
    step: u64,
    window: Window,
    beta: u64,
    /// The window that the last loss left, in bytes.
    after_loss: u64,
}

impl Dlia {
    fn cut(&self, share: u64) -> u64 {
        share / self.step * self.step
    }

    /// Window that a loss leaves, in bytes.
    fn target(&mut self) -> u64 {
        let cwnd = self.window.cwnd().max(1);
        // Windows are below 2^41 bytes.
        let gamma = self.cut((WHOLE * self.after_loss / cwnd).min(WHOLE));
        self.beta = self.cut((gamma + 3 * self.beta) / 4).clamp(LEAST, MOST);
        self.beta * cwnd / WHOLE
    }
}

impl Controller for Dlia {
    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        let counted = self.window.grow_counting(acked, self.count);
        if counted > 0 {
            let per = wait(self.form, &self.window, self.path, siblings);
            self.window.increase_counting(counted, per, self.count);
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        if self.window.is_new(congestion) {
            let target = self.target();
            self.window.reduce(congestion, target);
            self.after_loss = self.window.ssthresh();
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
        format!(
            "cwnd {} ssthresh {} beta {}.{:02} %",
            self.window.cwnd(),
            self.window.ssthresh(),
            self.beta / PERCENT,
            self.beta % PERCENT
        )
    }
}
