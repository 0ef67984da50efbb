//! Roselló's DQN: a network picks the path of each packet while both have room.
//!
//! Rule: `argmax Q(s, ·)` over the pair; with one open path, that one. `s` holds free window,
//! round-trip time and data in flight of both (task `pick`). The weights are frozen.
//! Reference: Roselló, Multi-path Scheduling with Deep Reinforcement Learning, EuCNC 2019.
//! State: none beyond the task's.
//! Policies: below the margin of `five-g` min-RTT decides.
//! Departs from print: see the task; network and constants follow public forks of the author's work.

use crate::entry::{Arity, Entry, Input, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::shared::rng::SEED;

pub(crate) mod task;

use task::TASK;

pub(crate) static ENTRY: Entry = Entry {
    name: "rosello",
    aliases: &["dqn-5g"],
    summary: "a network picks the path of each packet while both have room",
    reference: "Roselló, Multi-path Scheduling with Deep Reinforcement Learning, EuCNC 2019",
    provenance: Provenance::Secondary,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate],
    needs: TASK.needs,
    arity: Arity::Pair,
    learning: Some(Learning {
        year: 2019,
        learner: "deep Q-network, frozen",
        state: "free window, round-trip time and data in flight of both",
        reward: "throughput",
        actions: "path 1 or path 2, while both have room",
    }),
    shipped: shipped!("rosello": "five-g"),
    params: &[deployed::policy("five-g", "five-g"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
