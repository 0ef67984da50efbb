//! One transfer of the running kernel, over TCP or MPTCP, and what the kernel says about it.

mod counters;
mod full_info;
mod measure;
mod order;
mod receiving;
mod run;
mod sample;
mod sending;
mod socket;
mod transfer;
mod workload;

pub use counters::Counters;
pub use measure::{Measured, Setup, measure};
pub(crate) use measure::{ends, settle};
pub use order::{Ends, Opener, Outcome, Transfer, Work};
pub use sample::{Connection, Sample, Subflow};
pub use socket::{available_controllers, mptcp_enabled};
pub use transfer::transfer;
