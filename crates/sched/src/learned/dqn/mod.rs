//! DQN: a small network says whether a packet waits for the full fast path.
//!
//! Rule: while F is full and S open, `argmax Q(s, ·)` of a network with two hidden layers of six units: 0 waits for F,
//! 1 sends on S. `s` holds window, round-trip time and data in flight of F and S (task `wait-or-send`). The weights are
//! frozen.
//! Reference: MPQUIC schedulers under BBR and CUBIC: min-RTT, ECF, BLEST, Q-learning, DQN, UCB; section 4.2.
//! State: none beyond the task's.
//! Policies: `bbr1` and `all` are trained as printed; `completion` is the same network trained for the time until data
//! have arrived, with inputs as ratios to the least of both paths.
//! Departs from print: the state's paths are F and S, as the actions'; the paper says 1 and 2.

use crate::entry::{Arity, Entry, Input, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::pair;
use crate::shared::rng::SEED;

pub(crate) mod task;

use task::TASK;

pub(crate) static ENTRY: Entry = Entry {
    name: "dqn",
    aliases: &["deep-q-learning"],
    summary: "a network of 98 weights: wait for the full fast path, or use the slow one",
    reference: "MPQUIC schedulers under BBR and CUBIC: min-RTT, ECF, BLEST, Q-learning, DQN, UCB; section 4.2",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Queue, Input::Window, Input::Rate],
    needs: TASK.needs,
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2025,
        learner: "deep Q-network, frozen",
        state: "window, srtt and data in flight of both",
        reward: pair::REWARD,
        actions: pair::ACTIONS,
    }),
    shipped: shipped!("dqn": "bbr1" "all" "completion"),
    params: &[deployed::policy("bbr1", "bbr1 | all | completion"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
