//! Lowest round-trip time first: the default of MPTCP v0.9x and of most QUIC stacks.
//!
//! Rule: `argmin srtt` over the paths that may send, the first of equals. Active paths serve while
//! one of them lives, then backups. Data sent before: off the paths that the transport says to
//! avoid, a backup of the others before an active path of those; if another is only full, wait.
//! MPTCP's reinjections avoid the paths that have carried them; a lost frame of QUIC avoids none.
//! Reference: multipath-tcp/mptcp `mptcp_sched.c`, `get_available_subflow`.
//! State: none.
//! Departs from print: a path without a sample has srtt 0 in the kernel and wins; hosts here
//! start a path with its handshake's round-trip time. The answer to a DATA_FIN is not special.

use weftway_path::{Context, Decision, Path};

use crate::Scheduler;
use crate::choose;
use crate::registry::{Arity, Entry, Input, Needs, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "min-rtt",
    aliases: &[
        "minrtt",
        "default",
        "lowest-rtt",
        "fastest-rtt",
        "srtt",
        "ll",
        "lowest-latency",
        "ll-rp",
        "ll/rp",
        "llrp",
    ],
    version: 1,
    summary: "the open path with the smallest smoothed round-trip time",
    reference: "multipath-tcp/mptcp net/mptcp/mptcp_sched.c; Paasch et al., CSWS 2014",
    provenance: Provenance::Code,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt],
    needs: Needs::NONE,
    arity: Arity::Any,
    waits: false,
    transport: TransportRules::RP,
    presets: &[],
    params: &[],
    build: |_| Ok(Box::new(MinRtt)),
};

#[derive(Clone)]
struct MinRtt;

impl Scheduler for MinRtt {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = pick(cx)?;
        Some(format!("{:?} has the smallest srtt, {}", path.id, path.srtt))
    }
}

/// The path that min-RTT would choose: other rules start from it.
#[inline]
pub(crate) fn pick<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    choose::pick_least(cx, |path| path.srtt)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, path};
    use weftway_path::PathId;

    #[test]
    fn the_first_of_equals_wins() {
        let bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 20, 10, 0)]);
        assert_eq!(MinRtt.select(&bench.context()), Decision::Send(PathId::new(0)));
    }
}
