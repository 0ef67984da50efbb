//! In what the versions of BBR with bounds, and their implementations, differ.

use weftway_path::Span;
use weftway_path::spec::{Param, Params, SpecError};

/// The constants in which versions and implementations differ, and what counts as congestion. Gains are in 256ths.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Form {
    /// The rate of STARTUP.
    pub(crate) startup_gain: u64,
    /// The window of STARTUP and DRAIN.
    pub(crate) startup_cwnd_gain: u64,
    pub(crate) drain_gain: u64,
    /// The rate of DOWN, which drains what UP queued.
    pub(crate) down_gain: u64,
    /// The window of UP.
    pub(crate) up_cwnd_gain: u64,
    /// ACKs with losses in a round that may end STARTUP.
    pub(crate) startup_losses: u32,
    /// True if losses that end STARTUP bound the flight by what the round delivered, where that is more than
    /// the product.
    pub(crate) heeds_delivery: bool,
    /// Share of `inflight_hi` that CRUISE leaves to others, in 256ths.
    pub(crate) headroom: u64,
    /// Time for which a smallest RTT is trusted.
    pub(crate) min_rtt_window: Span,
    /// PROBE_RTT begins after so long without a smaller or equal RTT.
    pub(crate) probe_rtt_every: Span,
    /// The share of the product that PROBE_RTT leaves in flight.
    pub(crate) probe_rtt_gain: u64,
    pub(crate) heeds_marks: bool,
    pub(crate) heeds_any_loss: bool,
}

/// The switch for what lowers the short-term bounds.
pub(crate) const LOSSY: Param = Param {
    name: "lossy",
    default: "any",
    values: "any | many",
    doc: "what makes a round lossy, so that it lowers bw_lo and inflight_lo: any loss, or over 2 % of a flight",
};
/// The switch for marks.
pub(crate) const ECN: Param = Param {
    name: "ecn",
    default: "loss",
    values: "loss | ignore",
    doc: "what a mark counts as: a loss of its round, or nothing",
};

impl Form {
    /// With what [`LOSSY`] and [`ECN`] say.
    pub(crate) fn heeding(self, params: &Params) -> Result<Self, SpecError> {
        let heeds_any_loss = params.choice("lossy", &[("any", true), ("many", false)])?;
        let heeds_marks = params.choice("ecn", &[("loss", true), ("ignore", false)])?;
        Ok(Self { heeds_marks, heeds_any_loss, ..self })
    }
}
