//! PDAA3C: every 100 ms an actor, trained with a critic, names the path of the interval.
//!
//! Rule: the most likely action of π(·|s), or one drawn from it, as the policy's card says; `ternary`: the best, the
//! middle or the worst path by quality; `direct`: a path (task `path`). The weights are frozen.
//! Reference: PDAA3C: multipath data scheduling by asynchronous advantage actor-critic; Algorithm 1, equations 4 to 6.
//! State: none beyond the task's.
//! Policies: both are `direct` and were trained for throughput (`reward=rate`), not for the printed sum of logarithms;
//! `preferred` takes the most likely action, `exclusive` draws: what did better on the validation.
//! Departs from print: see the task.

use crate::entry::{Entry, Input, Learning, Provenance, Timing};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rlds::task::TASK;
use crate::shared::rng::SEED;

pub(crate) static ENTRY: Entry = Entry {
    name: "pdaa3c",
    aliases: &["a3c"],
    summary: "an actor-critic policy names the path of each 100 ms",
    reference: "PDAA3C: multipath data scheduling by asynchronous advantage actor-critic; Algorithm 1, equations 4 to 6",
    provenance: Provenance::Reconstructed,
    goal: "throughput and fairness",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Rate, Input::Loss],
    needs: TASK.needs,
    waits: true,
    learning: Some(Learning {
        year: 2022,
        learner: "asynchronous advantage actor-critic, frozen",
        state: "window, round-trip time, loss and rates of every path",
        reward: "the sum of the paths' log throughputs",
        actions: "the path of the next 100 ms",
    }),
    shipped: shipped!("pdaa3c": "preferred" "exclusive"),
    timing: Timing::Interval,
    params: &[deployed::policy("preferred", "preferred | exclusive"), fallback::FALLBACK, deployed::MODE, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
