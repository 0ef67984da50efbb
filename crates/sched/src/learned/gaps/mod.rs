//! GAPS: a network moves the gaps at which slower paths send ahead of the fast one.
//!
//! Rule: per slower path `argmax` of five steps of its gap (task `gap`). The weights are frozen.
//! Reference: Liao et al., GAPS, IFIP Networking 2020 ("Precise and Adaptable: Leveraging Deep Reinforcement Learning
//! for GAP-based Multipath Scheduler").
//! State: none beyond the task's.
//! Departs from print: see the task, of which the papers at hand give only the idea.

use crate::entry::{Entry, Input, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::shared::rng::SEED;

pub(crate) mod task;

use task::TASK;

pub(crate) static ENTRY: Entry = Entry {
    name: "gaps",
    summary: "slower paths send ahead of the fast one, by gaps that a network moves",
    reference: "Liao et al., GAPS, IFIP Networking 2020",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss, Input::Queue],
    needs: TASK.needs,
    waits: true,
    learning: Some(Learning {
        year: 2020,
        learner: "actor-critic with a plain network, frozen",
        state: "eight intervals of every path, and the gaps",
        reward: "goodput less what waits out of order",
        actions: "five steps of each slow path's gap",
    }),
    shipped: shipped!("gaps": "four-paths"),
    params: &[deployed::policy("four-paths", "four-paths"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
