//! Transfers of the running kernel, over TCP or MPTCP, and what the kernel says about them.
//!
//! From a scenario: a [`Batch`] of [`KernelRun`]s, each of which [`measure`]s one [`Transfer`] and ends in a row.

mod batch;
mod counters;
mod full_info;
mod kernel_run;
mod measure;
mod measurement;
mod order;
mod receiving;
mod run;
mod sample;
mod scenario;
mod sending;
mod socket;
mod timeline;
mod transfer;
mod workload;

pub use batch::Batch;
pub use counters::Counters;
pub use full_info::Connection;
pub(crate) use kernel_run::until_fit;
pub use kernel_run::{KernelRun, RunResult};
pub use measure::{Measured, Setup, measure};
pub(crate) use measure::{ends, settle};
pub use order::{Ends, Opener, Outcome, Transfer, Work};
pub use sample::{Sample, Subflow};
pub use scenario::obstacle;
pub use socket::{available_controllers, mptcp_enabled};
pub use transfer::{ReadyTransfer, transfer};
