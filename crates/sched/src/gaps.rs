//! GAPS: a network moves the gaps at which slower paths send ahead of the fast one.
//!
//! Rule: per slower path `argmax` of five steps of its gap (task `gap`). The weights are frozen.
//! Reference: Liao et al., "Precise and Adaptable: Leveraging Deep Reinforcement Learning for
//! GAP-based Multipath Scheduler" (IFIP Networking, 2020).
//! State: none beyond the task's.
//! Departs from print: see the task, of which the papers at hand give only the idea.

use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rng::SEED;
use crate::learned::tasks::gap::ENTRY as TASK;
use crate::registry::{Arity, Entry, Input, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "gaps",
    aliases: &[],
    version: 1,
    summary: "slower paths send ahead of the fast one, by gaps that a network moves",
    reference: "Liao et al., GAPS, IFIP Networking 2020",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss, Input::Queue],
    needs: TASK.needs,
    arity: Arity::Any,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[deployed::policy("four-paths", "four-paths"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, &TASK),
};
