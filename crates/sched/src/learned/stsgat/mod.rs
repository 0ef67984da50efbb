//! PDASTSGAT: every 100 ms and message size, a spatio-temporal graph attention network names a path.
//!
//! Rule: `argmax z` over the usable paths, z one score per path from the last twelve intervals of all
//! paths (task `graph`; network `stsgat`). Trained to copy an oracle that knows the queues.
//! Reference: PDASTSGAT: spatio-temporal synchronous graph attention for MPTCP; Algorithm 1 and Figure 2.
//! State: the task's history.
//! Departs from print: see network and task; without node identity (`policy=any`) it serves any number of paths.

use crate::entry::{Entry, Input, Learning, Provenance, Timing};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::shared::rng::SEED;

pub(crate) mod task;

use task::TASK;

pub(crate) static ENTRY: Entry = Entry {
    name: "stsgat",
    aliases: &["pdastsgat"],
    summary: "a graph attention network over twelve intervals names the path of each 100 ms and message size",
    reference: "PDASTSGAT: spatio-temporal synchronous graph attention for MPTCP; Algorithm 1",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss],
    needs: TASK.needs,
    waits: true,
    learning: Some(Learning {
        year: 2024,
        learner: "graph attention network that copies an oracle, frozen",
        state: "twelve intervals of every path, and the data's sizes",
        reward: "the oracle's choice",
        actions: "the path of the messages of one size, for 100 ms",
    }),
    shipped: shipped!("stsgat": "four-paths" "exclusive" "any"),
    timing: Timing::Interval,
    params: &[deployed::policy("four-paths", "four-paths | exclusive | any"), fallback::FALLBACK, deployed::MODE, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
