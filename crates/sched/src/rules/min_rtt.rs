//! Lowest round-trip time first: the default of MPTCP v0.9x and of most QUIC stacks.
//!
//! Rule: `argmin srtt` over the paths that may send, the first of equals. Active paths serve while
//! one of them lives, then backups. Data sent before: off the paths that the transport says to
//! avoid, a backup of the others before an active path of those; if another is only full, wait.
//! MPTCP's reinjections avoid the paths that have carried them; a lost frame of QUIC avoids none.
//! Reference: multipath-tcp/mptcp net/mptcp/mptcp_sched.c; Paasch et al., CSWS 2014. The function is
//! `get_available_subflow`.
//! State: none.
//! Departs from print: a path without a sample has srtt 0 in the kernel and wins; hosts here
//! start a path with its handshake's round-trip time. The answer to a DATA_FIN is not special.

use weftway_path::{Context, Decision};

use crate::Scheduler;
use crate::entry::{Entry, Input, Provenance, TransportRules};
use crate::shared::choose;

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
    summary: "the open path with the smallest smoothed round-trip time",
    reference: "multipath-tcp/mptcp net/mptcp/mptcp_sched.c; Paasch et al., CSWS 2014",
    provenance: Provenance::Code,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt],
    transport: TransportRules::RP,
    build: |_| Ok(Box::new(MinRtt)),
    ..Entry::NEW
};

#[derive(Clone)]
struct MinRtt;

impl Scheduler for MinRtt {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        match choose::only(cx) {
            Some(path) => Decision::Send(path.id),
            None => select_among(cx),
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = choose::min_rtt(cx)?;
        Some(format!("{:?} has the smallest srtt, {}", path.id, path.srtt))
    }
}

#[inline(never)]
fn select_among(cx: &Context<'_>) -> Decision {
    choose::send_or_wait(cx, choose::min_rtt(cx))
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::PathId;
    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn the_first_of_equals_wins() {
        let bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 20, 10, 0)]);
        assert_eq!(MinRtt.select(&bench.context()), Decision::Send(PathId::new(0)));
    }
}
