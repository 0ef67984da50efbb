//! RLDS: every 100 ms a Q-network names the path of the interval.
//!
//! Rule: `argmax Q(s, ·)` over the paths; `s` holds what PDAA3C's does (task `path`). The weights are frozen.
//! Reference: Luo, Su and Liu (2019), as PDAA3C and PDASTSGAT describe their baseline.
//! State: none beyond the task's.
//! Departs from print: the descriptions say "DQN framework, path information, transmission results";
//! inputs and reward are PDAA3C's, so that a comparison of the two is one of the learners.

use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rng::SEED;
use crate::learned::tasks::path::ENTRY as TASK;
use crate::registry::{Arity, Entry, Input, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "rlds",
    aliases: &[],
    version: 1,
    summary: "a Q-network names the path of each 100 ms",
    reference: "Luo, Su, Liu 2019, as the baseline of PDAA3C and PDASTSGAT",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss],
    needs: TASK.needs,
    arity: Arity::Any,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[deployed::policy("preferred", "preferred | exclusive"), fallback::FALLBACK, deployed::MODE, SEED],
    build: |params| deployed::build(params, &TASK),
};
