//! Lee and Yoo's DQN for streaming: every 50 ms a network sets how packets are split.
//!
//! Rule: one of seven splits (five shares of path 1, only path 1, min-RTT) per 50 ms and chunk, `argmax Q(s, ·)` (task
//! `split`). The weights are frozen.
//! Reference: Lee and Yoo, Reinforcement Learning Based Multipath QUIC Scheduler for Multimedia Streaming, 2022; public
//! code.
//! State: none beyond the task's.
//! Policies: `streaming` was trained with one update on 256 transitions for each, where the public code makes five on
//! 20; below its margin min-RTT decides.
//! Departs from print: the published learner goes on learning while it sends; this one is frozen.

use crate::entry::{Arity, Entry, Input, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::shared::rng::SEED;

pub(crate) mod task;

use task::TASK;

pub(crate) static ENTRY: Entry = Entry {
    name: "lee-yoo",
    aliases: &["lee-yoo-dqn"],
    summary: "a network splits packets between two paths anew every 50 ms and chunk",
    reference: "Lee and Yoo, Reinforcement Learning Based Multipath QUIC Scheduler for Multimedia Streaming, 2022",
    provenance: Provenance::Secondary,
    goal: "throughput",
    application: "streaming",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss, Input::Queue],
    needs: TASK.needs,
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2022,
        learner: "deep Q-network, frozen",
        state: "window, srtt and data in flight of both, credit, what is left of the chunk",
        reward: "acknowledged packets and the chunk's time",
        actions: "one of seven splits for 50 ms",
    }),
    shipped: shipped!("lee-yoo": "streaming"),
    params: &[deployed::policy("streaming", "streaming"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
