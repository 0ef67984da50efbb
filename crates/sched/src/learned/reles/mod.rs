//! ReLeS: an LSTM sets the shares of the paths, interval by interval.
//!
//! Rule: shares `w = softmax(y)` of the network's outputs, carried out by deficit round robin (task
//! `shares`). The weights are frozen.
//! Reference: Zhang et al., ReLeS, INFOCOM 2019 ("A Neural Adaptive Multipath Scheduler based on Deep Reinforcement
//! Learning").
//! State: none beyond the task's.
//! Policies: `four-paths` was trained for throughput alone (a = b = 0); below its margin min-RTT decides.
//! Departs from print: trained by an actor-critic over a Dirichlet, not by normalised advantages; frozen.

use crate::entry::{Entry, Input, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::shared::rng::SEED;

pub(crate) mod task;

use task::TASK;

pub(crate) static ENTRY: Entry = Entry {
    name: "reles",
    summary: "an LSTM sets each path's share, interval by interval",
    reference: "Zhang et al., ReLeS, INFOCOM 2019",
    provenance: Provenance::Reconstructed,
    goal: "throughput and latency",
    application: "general",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss],
    needs: TASK.needs,
    waits: true,
    learning: Some(Learning {
        year: 2019,
        learner: "actor-critic with LSTM, frozen",
        state: "eight intervals of every path",
        reward: "throughput less round-trip time and loss",
        actions: "the share of every path for an interval",
    }),
    shipped: shipped!("reles": "four-paths"),
    params: &[deployed::policy("four-paths", "four-paths"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
