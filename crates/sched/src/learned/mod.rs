//! What the learned schedulers share.
//!
//! A *policy* only says what to do about one packet and what it learns from the outcome; the rest
//! is common to the published ones:
//!
//! - `roles`: which path is F, which is S;
//! - `blocked`: when a policy is asked (F is full, S is open), how its answer is kept until it is
//!   carried out, and the wait for F;
//! - `records`: the decisions whose outcome is not known yet;
//! - `meters`, `norm`: what is measured per path, and the scales that make inputs dimensionless;
//! - `context`, `reward`: window, credit and data in flight over a round trip; throughput less
//!   round-trip time;
//! - `ridge`: linear arms; `rng`: the random number generator of a policy.
//!
//! What is trained beforehand is split otherwise:
//!
//! - `task`, `tasks`: what is decided, when, what is seen, what it earns; a scheduler that lacks
//!   its decisions;
//! - `epochs`: one decision per interval; `quality`: what is measured of each path in one;
//! - `nn`, `policy_file`: the networks, and how they come;
//! - `deployed`: a task, a network and a fallback are a scheduler; `shipped`: those that come along;
//! - `overview`: what each of them sees, earns and does, as a table;
//! - `change`, `nn::mlp_train`, `experience`: what goes on learning notices, and learns from.

pub(crate) mod blocked;
pub(crate) mod change;
pub(crate) mod context;
pub(crate) mod deployed;
pub(crate) mod epochs;
pub(crate) mod experience;
pub(crate) mod fallback;
pub(crate) mod meters;
pub mod nn;
pub(crate) mod norm;
pub mod overview;
pub mod policy_file;
pub(crate) mod quality;
pub(crate) mod records;
pub(crate) mod reward;
pub(crate) mod ridge;
pub(crate) mod rng;
pub(crate) mod roles;
pub mod shipped;
pub(crate) mod slots;
pub mod task;
pub(crate) mod tasks;

pub(crate) use blocked::{Action, Blocked, Policy, Question, Rules};
pub(crate) use records::{Fate, Outcome};
pub(crate) use rng::PolicyRng;
pub use task::{Actions, Earned, Input, Ledger, Shape, Task, TaskEntry, build_task, tasks};
