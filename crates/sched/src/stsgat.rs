//! PDASTSGAT: every 100 ms and message size, a spatio-temporal graph attention network names a path.
//!
//! Rule: `argmax z` over the usable paths, z one score per path from the last twelve intervals of all
//! paths (task `graph`; network `stsgat`). Trained to copy an oracle that knows the queues.
//! Reference: PDASTSGAT, Algorithm 1 and Figure 2.
//! State: the task's history.
//! Departs from print: see network and task; without node identity (`policy=any`) it serves any number of paths.

use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rng::SEED;
use crate::learned::tasks::graph::ENTRY as TASK;
use crate::registry::{Arity, Entry, Input, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "stsgat",
    aliases: &["pdastsgat"],
    version: 1,
    summary: "a graph attention network over twelve intervals names the path of each 100 ms and message size",
    reference: "PDASTSGAT: spatio-temporal synchronous graph attention for MPTCP; Algorithm 1",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss],
    needs: TASK.needs,
    arity: Arity::Any,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[deployed::policy("four-paths", "four-paths | exclusive | any"), fallback::FALLBACK, deployed::MODE, SEED],
    build: |params| deployed::build(params, &TASK),
};
