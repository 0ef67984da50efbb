//! What it takes to try a scheduler without a transport: a [`Bench`] that carries decisions out in
//! the simplest way, and a [`Bandit`] that checks how its host counts decisions.

mod bandit;
mod bench;
mod ledger;

pub use bandit::Bandit;
pub use bench::{Bench, MSS, packets, path};
pub use ledger::{Audit, Ledger};
