//! PDAA3C: every 100 ms an actor, trained with a critic, names the path of the interval.
//!
//! Rule: the most likely action of π(·|s); `ternary`: the best, the middle or the worst path by
//! quality; `direct`: a path (task `path`). The weights are frozen.
//! Reference: PDAA3C, "asynchronous advantage actor-critic for MPTCP", Algorithm 1.
//! State: none beyond the task's.
//! Departs from print: see the task; the action is the most likely one, not drawn.

use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rng::SEED;
use crate::learned::tasks::path::ENTRY as TASK;
use crate::registry::{Arity, Entry, Input, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "pdaa3c",
    aliases: &["a3c"],
    version: 1,
    summary: "an actor-critic policy names the path of each 100 ms",
    reference: "PDAA3C: multipath data scheduling by asynchronous advantage actor-critic; Algorithm 1, equations 4 to 6",
    provenance: Provenance::Reconstructed,
    goal: "throughput and fairness",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Rate, Input::Loss],
    needs: TASK.needs,
    arity: Arity::Any,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[deployed::policy("preferred", "preferred | exclusive"), fallback::FALLBACK, deployed::MODE, SEED],
    build: |params| deployed::build(params, &TASK),
};
