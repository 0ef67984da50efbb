//! RLDS: every 100 ms a Q-network names the path of the interval.
//!
//! Rule: `argmax Q(s, ·)` over the paths; `s` holds what PDAA3C's does (task `path`). The weights are frozen.
//! Reference: Luo, Su, Liu 2019, as the baseline of PDAA3C and PDASTSGAT.
//! State: none beyond the task's.
//! Policies: both were trained for throughput (`reward=rate`); below the margin of `preferred` min-RTT decides.
//! Departs from print: the descriptions say "DQN framework, path information, transmission results";
//! inputs and reward are PDAA3C's, so that a comparison of the two is one of the learners.

use crate::entry::{Entry, Input, Learning, Provenance, Timing};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::shared::rng::SEED;

pub(crate) mod task;

use task::TASK;

pub(crate) static ENTRY: Entry = Entry {
    name: "rlds",
    summary: "a Q-network names the path of each 100 ms",
    reference: "Luo, Su, Liu 2019, as the baseline of PDAA3C and PDASTSGAT",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss],
    needs: TASK.needs,
    waits: true,
    learning: Some(Learning {
        year: 2019,
        learner: "deep Q-network, frozen",
        state: "window, round-trip time, loss and rates of every path",
        reward: "throughput of the interval",
        actions: "the path of the next 100 ms",
    }),
    shipped: shipped!("rlds": "preferred" "exclusive"),
    timing: Timing::Interval,
    params: &[deployed::policy("preferred", "preferred | exclusive"), fallback::FALLBACK, deployed::MODE, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
