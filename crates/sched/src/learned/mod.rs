//! The schedulers that learn, each with what belongs to it: [`Entry`](crate::Entry), what it decides and sees, the
//! policies that it comes with.
//!
//! # Where to begin
//!
//! With `dqn`, a scheduler that was trained beforehand. At work it is six files: `dqn/mod.rs` (the entry, the policies),
//! `deployed` (a task, a network and a fallback are a scheduler), `dqn/task.rs` (the observation and the reward),
//! `pair/blocked` (when the network is asked, and what becomes of its answer), `pair/roles` (which paths are the pair) and
//! `nn/mlp` (the network). The rest of `pair` is detail: units and meters of what is seen; records and rewards,
//! for training. Then `q_learning`, which learns while it sends and has neither network nor file.
//!
//! # What each module decides
//!
//! Trained beforehand:
//!
//! - [`task`]: what a decision is, apart from who takes it: when one is due, what is seen, which actions there are, what they
//!   earned. Training and work run the same task. It does not know networks.
//! - `deployed`: who takes it: the network, or the fallback. It does not know what is seen or sent.
//! - `fallback`: what decides where inputs leave the ranges of training, and how often it did.
//! - [`policy_file`], `tensors`: how a network comes, and why a file is refused. [`nn`]: the networks' forward passes.
//! - Each scheduler has its own task, but for three: `evolved` and `falcon` decide the task of `dqn`, `pdaa3c` that of `rlds`.
//!   `falcon` alone goes on learning: when to begin anew, from what, and the gradient steps are in its folder.
//! - [`demonstration`]: how another scheduler would answer a task's questions, for networks that learn by imitation.
//!
//! Learned while sending: `q_learning`, `lin_ucb`, `peekaboo` and `m_peekaboo` (its variant), `ucb1_redundancy`;
//! `ridge` is the linear estimate that three of them use.
//!
//! Shared by those that decide alike:
//!
//! - `pair`: wait for the full fast path, or send on the slow one. Policies (`policy`), when they are asked (`blocked`),
//!   which paths are the pair (`roles`), the decisions whose outcome is not known yet (`records`), what is measured
//!   (`meters`, `context`), what windows and times are divided by (`scale`), and what is paid (`reward`). It does not know
//!   how an answer is found.
//! - `intervals`: one decision for an interval. When it is asked for and paid (`task`), paths as a network of fixed size sees
//!   them (`slots`), the intervals that were (`history`), the data that a decision holds for (`ranges`).

/// Reads `policies/SCHEDULER-NAME.safetensors` for each name. The folder stands at the root of the repository; a link
/// in this crate makes it part of what `cargo package` packs.
#[cfg(feature = "policies")]
macro_rules! shipped {
    ($scheduler:literal: $($name:literal)*) => {
        &[$($crate::entry::ShippedPolicy {
            name: $name,
            bytes: include_bytes!(concat!(
                env!("CARGO_MANIFEST_DIR"), "/policies/", $scheduler, "-", $name, ".safetensors"
            )),
        }),*]
    };
}

/// No policies: the feature `policies` is off.
#[cfg(not(feature = "policies"))]
macro_rules! shipped {
    ($scheduler:literal: $($name:literal)*) => {
        &[]
    };
}

pub mod demonstration;
pub(crate) mod dqn;
pub(crate) mod evolved;
pub(crate) mod falcon;
pub mod foreseen;
pub(crate) mod gaps;
pub(crate) mod lee_yoo;
pub(crate) mod lin_ucb;
pub(crate) mod m_peekaboo;
pub(crate) mod pdaa3c;
pub(crate) mod peekaboo;
pub(crate) mod q_learning;
pub(crate) mod reles;
pub(crate) mod rlds;
pub(crate) mod rosello;
pub(crate) mod stsgat;
pub(crate) mod ucb1_redundancy;

mod deployed;
mod fallback;
mod intervals;
pub mod nn;
mod pair;
pub mod policy_file;
mod ridge;
pub mod task;
mod tensors;
#[cfg(test)]
mod tests;

pub use task::{Actions, Earned, Input, Ledger, Shape, Task, TaskEntry};
use weftway_path::spec::{Spec, SpecError, nearest};

static TASKS: [&TaskEntry; 7] = [
    &dqn::task::TASK,
    &rlds::task::TASK,
    &rosello::task::TASK,
    &lee_yoo::task::TASK,
    &reles::task::TASK,
    &gaps::task::TASK,
    &stsgat::task::TASK,
];

/// Every task.
pub fn tasks() -> &'static [&'static TaskEntry] {
    &TASKS
}

/// The entry that `spec` names, and the task.
pub fn build_task(spec: &str) -> Result<(&'static TaskEntry, Box<dyn Task>), SpecError> {
    let spec: Spec = spec.parse()?;
    let Some(entry) = tasks().iter().find(|entry| entry.name == spec.name) else {
        let nearest = nearest(&spec.name, tasks().iter().map(|entry| entry.name));
        return Err(SpecError::Unknown { kind: "task", name: spec.name, nearest });
    };
    Ok((entry, entry.make(&spec.given)?))
}
