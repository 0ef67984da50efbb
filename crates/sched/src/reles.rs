//! ReLeS: an LSTM sets the shares of the paths, interval by interval.
//!
//! Rule: shares `w = softmax(y)` of the network's outputs, carried out by deficit round robin (task
//! `shares`). The weights are frozen.
//! Reference: Zhang et al., "ReLeS: A Neural Adaptive Multipath Scheduler based on Deep
//! Reinforcement Learning" (INFOCOM, 2019).
//! State: none beyond the task's.
//! Departs from print: trained by an actor-critic over a Dirichlet, not by normalised advantages; frozen.

use crate::learned::deployed;
use crate::learned::fallback;
use crate::learned::rng::SEED;
use crate::learned::tasks::shares::ENTRY as TASK;
use crate::registry::{Arity, Entry, Input, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "reles",
    aliases: &[],
    version: 1,
    summary: "an LSTM sets each path's share, interval by interval",
    reference: "Zhang et al., ReLeS, INFOCOM 2019",
    provenance: Provenance::Reconstructed,
    goal: "throughput and latency",
    application: "general",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss],
    needs: TASK.needs,
    arity: Arity::Any,
    waits: true,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[deployed::policy("four-paths", "four-paths"), fallback::FALLBACK, SEED],
    build: |params| deployed::build(params, &TASK),
};
