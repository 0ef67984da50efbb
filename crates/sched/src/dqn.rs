//! DQN: a small network says whether a packet waits for the full fast path.
//!
//! Rule: while F is full and S open, `argmax Q(s, ·)` of a network with two hidden layers of six
//! units: 0 waits for F, 1 sends on S. `s` holds window, round-trip time and data in flight of F and
//! S (task `wait-or-send`). The weights are frozen.
//! Reference: the MPQUIC comparison of min-RTT, ECF, BLEST, Q-learning, DQN and UCB, section 4.2.
//! State: none beyond the task's.
//! Departs from print: the state's paths are F and S, as the actions'; the paper says 1 and 2.

use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rng::SEED;
use crate::learned::tasks::wait_or_send::ENTRY as TASK;
use crate::registry::{Arity, Entry, Input, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "dqn",
    aliases: &["deep-q-learning"],
    version: 1,
    summary: "a network of 98 weights: wait for the full fast path, or use the slow one",
    reference: "MPQUIC schedulers under BBR and CUBIC: min-RTT, ECF, BLEST, Q-learning, DQN, UCB; section 4.2",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Queue, Input::Window, Input::Rate],
    needs: TASK.needs,
    arity: Arity::Pair,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[deployed::policy("bbr1", "bbr1 | all"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, &TASK),
};
