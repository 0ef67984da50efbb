//! Evolved: a network that sees how the controller behaves decides whether a packet waits.
//!
//! Rule: while F is full and S open, the larger of two outputs: 0 waits for F, 1 sends on S. What is
//! seen has no units: window, data in flight and credit over the path's bandwidth-delay product,
//! queueing, delivery and pacing rate, loss, slow start of both, and the ratio of their round-trip
//! times (task `wait-or-send:state=controller`). The weights are frozen.
//! Reference: ours, after the open question of the MPQUIC comparison; Salimans et al. 2017. An answer to that question,
//! a learned scheduler for every controller, found by evolution strategies on completion time.
//! Policies: `phone` began at always sending; `completion` began as a copy of a rule.
//! State: none beyond the task's.
//! Departs from print: nothing is printed.

use crate::entry::{Arity, Entry, Input, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::dqn::task::TASK;
use crate::learned::fallback;
use crate::learned::pair;
use crate::shared::rng::SEED;

pub(crate) static ENTRY: Entry = Entry {
    name: "evolved",
    aliases: &["any-cc"],
    summary: "a network that sees how the controller behaves: wait for the full fast path, or use the slow one",
    reference: "ours, after the open question of the MPQUIC comparison; Salimans et al. 2017",
    provenance: Provenance::Code,
    goal: "completion time under any controller",
    application: "messages and bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Queue, Input::Window, Input::Rate],
    needs: TASK.needs,
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2026,
        learner: "network found by evolution strategies, frozen",
        state: "the controller's behaviour on both paths, without units",
        reward: "completion time over min-RTT's",
        actions: pair::ACTIONS,
    }),
    shipped: shipped!("evolved": "phone" "completion"),
    params: &[deployed::policy("phone", "phone | completion"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, ENTRY.shipped, &TASK),
    ..Entry::NEW
};
