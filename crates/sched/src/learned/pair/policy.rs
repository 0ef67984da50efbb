//! Policies: what they are asked, what they learn from, and the switches that all of them have.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BlockedReason, Context, Instant, Path, Receipt};

use super::meters::Meters;
use super::records::{Action, Outcome};

/// Question to a policy: the pair, when it decides and when a record closes.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) cx: &'a Context<'a>,
    pub(crate) fast: &'a Path,
    pub(crate) slow: &'a Path,
    pub(crate) meters: &'a Meters,
}

/// Decisions and learning of a learned scheduler. The rest is [`Blocked`](super::blocked::Blocked)'s.
pub(crate) trait Policy: Clone + Send {
    /// Memory of a decision until the outcome is known.
    type Observation: Copy + Send;

    /// Asked once for each decision: draws belong here.
    fn decide(&mut self, question: &Question<'_>) -> (Action, Self::Observation);

    /// A decision's record closed; `at_close` is the same pair then.
    fn learn(&mut self, at_close: &Question<'_>, outcome: &Outcome<Self::Observation>);

    /// Returns true if records stay open until T_ref although their packet's fate is known.
    fn keeps_until_deadline(&self) -> bool {
        false
    }

    /// Any packet was sent, on a decision of `since` or of that moment.
    fn sent(&mut self, receipt: &Receipt, since: Instant) {
        let _ = (receipt, since);
    }

    /// Any packet was acknowledged.
    fn acked(&mut self, receipt: &Receipt, now: Instant) {
        let _ = (receipt, now);
    }

    /// Its inner state as it bears on `question`.
    fn explain(&self, question: &Question<'_>) -> String;
}

/// Length of a wait.
pub(crate) const WAIT_STICKY: Param = Param {
    name: "wait_sticky",
    default: "true",
    values: "true | false",
    doc: "whether a decision to wait holds until F has room, as in public code of Peekaboo; else it is drawn anew after the next event",
};
/// Meaning of a pacer.
pub(crate) const PACED: Param = Param {
    name: "paced",
    default: "blocked",
    values: "blocked | free",
    doc: "an F that only its pacer holds counts as blocked, so that the policy is asked; or it is not asked and S takes the packet",
};

/// The switches that all policies share.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) sticky: bool,
    pub(crate) asks_when_paced: bool,
    /// Ask also while both have room.
    pub(crate) asks_when_free: bool,
}

impl Rules {
    /// As the switches say; asked only while F is blocked.
    pub(crate) fn new(params: &Params) -> Result<Self, SpecError> {
        Ok(Self {
            sticky: params.get("wait_sticky")?,
            asks_when_paced: params.choice("paced", &[("blocked", true), ("free", false)])?,
            asks_when_free: false,
        })
    }

    /// Returns true if F, as `fast` is, lets the policy be asked.
    #[inline]
    pub(super) fn ask_about(&self, fast: &Path) -> bool {
        match fast.blocked {
            BlockedReason::None => self.asks_when_free,
            BlockedReason::Pacing => self.asks_when_paced,
            _ => true,
        }
    }
}
