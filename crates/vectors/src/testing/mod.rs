//! Tools to try a scheduler without a transport: a [`Bench`] that carries decisions out in
//! the simplest way, a [`Bandit`] that checks how its host counts decisions, and [`Episodes`], which checks when its
//! host tells that nothing may go.

mod bandit;
mod bench;
mod episodes;
mod ledger;

pub use bandit::Bandit;
pub use bench::{Bench, MSS, packets, path};
pub use episodes::Episodes;
pub use ledger::{Audit, Ledger};
use weftway_sched::Scheduler;

/// Returns the scheduler min-RTT.
fn min_rtt() -> Box<dyn Scheduler> {
    weftway_sched::build("min-rtt").expect("min-RTT is in the registry")
}
