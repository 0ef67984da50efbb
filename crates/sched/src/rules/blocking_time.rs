//! Blocking time: do not put on the slow path a packet for which the fast path's packets would
//! wait longer at the receiver than it would wait here.
//!
//! Rule: `s` = min-RTT's choice, `f` = the path with the smallest srtt, full or not. If `s = f`,
//! send. Else f has room again after `w = srtt_f` (`opens=ack`: `srtt_f·mss/cwnd_f`, the time
//! between two of its acknowledgements). What f sends then arrives after `w + srtt_f/2`, and
//! behind a packet sent on s now it is blocked for `B = srtt_s/2 − (w + srtt_f/2)`.
//! Wait if `B > ratio·w`, else send on s.
//! Reference: Chen et al., 2018, as described in comparisons, of which only this is known: estimate for how long the
//! slow path would block the fast one, and wait if that is longer.
//! State: none.
//! Departs from print: the formulas, and that B is weighed against w, are ours. Unlike ECF, it
//! asks neither how much is unsent nor how srtt varies, and has no memory; unlike BLEST, it counts
//! time and not bytes, and does not look at the peer's window; unlike DPSW2A, it takes the wait
//! from srtt alone. A path of the other role (backup for active) is never waited for.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Path, Span};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Provenance, TransportRules, permille};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "blocking-time",
    aliases: &["blocking-time-scheduler"],
    summary: "min-RTT, unless a packet on the slow path would block the fast one for longer than that needs to have room",
    reference: "Chen et al., 2018, as described in comparisons",
    provenance: Provenance::Reconstructed,
    goal: "head-of-line blocking",
    application: "general",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Mss],
    arity: Arity::Pair,
    waits: true,
    transport: TransportRules::RP,
    params: &[
        Param {
            name: "opens",
            default: "round",
            values: "round | ack",
            doc: "when a full path has room again: after a round trip, or with the next of evenly spaced acknowledgements",
        },
        Param {
            name: "ratio",
            default: "1",
            values: "number, 0 to 100",
            doc: "how many times the wait the blocking may be",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(BlockingTime {
        by_ack: params.choice("opens", &[("round", false), ("ack", true)])?,
        ratio_permille: permille(params, "ratio", 0.0..=100.0)?,
    }))
}

#[derive(Clone)]
struct BlockingTime {
    by_ack: bool,
    ratio_permille: u64,
}

impl BlockingTime {
    /// Returns the time until `fast` has room, and for how long a packet on `slow` would block it then.
    fn times(&self, fast: &Path, slow: &Path) -> (Span, Span) {
        let between_acks = || fast.srtt.mul_div(fast.mss.get(), fast.cwnd.max(fast.mss).get().max(1));
        let wait = if self.by_ack { between_acks() } else { fast.srtt };
        (wait, (slow.srtt / 2).saturating_sub(wait + fast.srtt / 2))
    }

    fn blocks(&self, fast: &Path, slow: &Path) -> bool {
        let (wait, blocking) = self.times(fast, slow);
        blocking.as_nanos() as u128 * 1000 > wait.as_nanos() as u128 * self.ratio_permille as u128
    }
}

impl Scheduler for BlockingTime {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(slow) = choose::min_rtt(cx) else { return choose::wait(cx) };
        let fast = choose::fastest_like(cx, slow, false);
        // A path with room is not waited for: min-RTT passed it over because the packet avoids it.
        let blocks = !fast.is_open() && self.blocks(fast, slow);
        choose::send_or_wait(cx, Some(slow).filter(|_| !blocks))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let slow = choose::min_rtt(cx)?;
        let fast = choose::fastest_like(cx, slow, false);
        let (wait, blocking) = self.times(fast, slow);
        Some(format!("f {:?} has room in {wait}; s {:?} would block it for {blocking}", fast.id, slow.id))
    }
}
