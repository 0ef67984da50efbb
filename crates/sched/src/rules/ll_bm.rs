//! Lowest round-trip time first, with a guard against bufferbloat: a path whose round-trip time
//! has grown takes no more than what fits without the queue.
//!
//! Rule: `argmin srtt` over the paths with room, as in min-RTT. A path also counts as full when
//! `inflight ≥ min(cwnd, λ·(rtt_min/srtt)·cwnd)`, λ = 3: past three times its smallest round-trip
//! time the window shrinks in proportion. Nothing in flight is never too much.
//! Reference: Paasch, Ferlin, Alay, Bonaventure: experimental evaluation of MPTCP schedulers, CSWS 2014 (the scheduler
//! with bufferbloat mitigation), from memory.
//! State: none.
//! Departs from print: λ is as remembered; whether the paper's `rtt_min` is the least sample, as here, or the least
//! smoothed time we could not look up. The cap is tested where the packet is chosen; the
//! window itself stays, and so does the transport's opinion of it.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Provenance, permille};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "ll-bm",
    aliases: &["ll/bm", "llbm", "bufferbloat-mitigation"],
    version: 2,
    summary: "the open path with the smallest round-trip time; paths with inflated times take less",
    reference: "Paasch, Ferlin, Alay, Bonaventure: experimental evaluation of MPTCP schedulers, CSWS 2014",
    provenance: Provenance::Reconstructed,
    goal: "bufferbloat",
    application: "general",
    inputs: &[Input::Rtt, Input::MinRtt, Input::Cwnd, Input::InFlight],
    waits: true,
    params: &[Param {
        name: "lambda",
        default: "3",
        values: "number, 1 to 1000",
        doc: "by how much a round-trip time may grow over the path's smallest before its window counts less",
    }],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(LlBm { lambda_permille: permille(params, "lambda", 1.0..=1000.0)? }))
}

#[derive(Clone)]
struct LlBm {
    lambda_permille: u64,
}

impl LlBm {
    /// Whether more than the cap is in flight: `inflight·srtt ≥ λ·rtt_min·cwnd`.
    fn is_bloated(&self, path: &Path) -> bool {
        if path.bytes_in_flight == Bytes::ZERO {
            return false;
        }
        let inflated = path.bytes_in_flight.get() as u128 * path.srtt.as_micros() as u128;
        let allowed = path.cwnd.get() as u128 * path.min_rtt.as_micros() as u128;
        inflated.saturating_mul(1000) >= allowed.saturating_mul(self.lambda_permille as u128)
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_least_with(cx, |path| !self.is_bloated(path), |path| path.srtt)
    }
}

impl Scheduler for LlBm {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let bloated = cx.paths.iter().filter(|path| self.is_bloated(path)).count();
        let path = self.pick(cx)?;
        let (srtt, min) = (path.srtt, path.min_rtt);
        Some(format!("{:?} has the smallest srtt, {srtt}, at best {min}; {bloated} capped", path.id))
    }
}
