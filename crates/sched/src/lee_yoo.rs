//! Lee and Yoo's DQN for streaming: every 50 ms a network sets how packets are split.
//!
//! Rule: one of seven splits (five shares of path 1, only path 1, min-RTT) per 50 ms and chunk,
//! `argmax Q(s, ·)` (task `split`). The weights are frozen.
//! Reference: Lee and Yoo, reinforcement learning for multipath QUIC streaming (2022); public code.
//! State: none beyond the task's.
//! Departs from print: the published learner goes on learning while it sends; this one is frozen.

use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rng::SEED;
use crate::learned::tasks::split::ENTRY as TASK;
use crate::registry::{Arity, Entry, Input, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "lee-yoo",
    aliases: &["lee-yoo-dqn"],
    version: 1,
    summary: "a network splits packets between two paths anew every 50 ms and chunk",
    reference: "Lee and Yoo, Reinforcement Learning Based Multipath QUIC Scheduler for Multimedia Streaming, 2022",
    provenance: Provenance::Secondary,
    goal: "throughput",
    application: "streaming",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss, Input::Queue],
    needs: TASK.needs,
    arity: Arity::Pair,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[deployed::policy("streaming", "streaming"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, &TASK),
};
