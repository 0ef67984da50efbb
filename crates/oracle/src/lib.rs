//! The best path for each message, told by who knows what no sender knows: labels to train on.
//!
//! At a question of the task `graph`, [`Truth`] reads queues, rates, delays and losses from the
//! simulation itself, and [`judge`] says which path brings the message soonest (O1). [`run`] lets
//! the oracle or others decide, and keeps what was seen and what would have been best. [`audit`]
//! asks copies of the simulation, one for each path, what really comes of it (O2). An answer that
//! holds for an interval binds more than the message that asked: [`Basis`] says what is judged.
//! [`sighted`] gives `earliest-delivery` perfect estimates, [`controlled`] gives a scheduler perfect windows.
//! [`least_missed`] bounds what any scheduler can bring in time.
//!
//! Reference: STSGAT says that the network learns "the optimal sub-flow", and not how that is found;
//! both oracles are ours.

mod arrivals;
mod audit;
mod binding;
mod collect;
mod judge;
mod lab;
mod missed;
mod shares;
mod sight;
mod truth;
mod windows;

pub use arrivals::arrivals;
pub use audit::{Audit, Future, audit};
pub use binding::Basis;
pub use collect::{BEHAVIOURS, Plan, Run, Sample, run};
pub use judge::{D0, Judgement, LAMBDA, jain, judge};
pub use lab::{Lab, Stop};
pub use missed::{Missed, least_missed};
pub use sight::{Sight, sighted};
pub use truth::{FAR, Truth};
pub use windows::controlled;
