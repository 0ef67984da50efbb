//! Vectors, which say what a scheduler, a congestion controller or a link must do in cases that a person can check with
//! a pencil; and a bench (`testing::Bench`), on which a scheduler is tried without a transport. For tests: no library or
//! program of users depends on this crate.
//!
//! A file of `vectors/sched`, `vectors/cc` or `vectors/link` lists cases. Each has a `name`, the working in `why`, what
//! is given, and steps with what is expected after them. The modules say what may be given and what a step may be.

#[cfg(feature = "cc")]
pub mod cc;
#[cfg(feature = "link")]
pub mod link;
#[cfg(any(feature = "cc", feature = "link", feature = "sched"))]
mod quantity;
mod report;
#[cfg(feature = "sched")]
pub mod sched;
#[cfg(feature = "sched")]
pub mod testing;

pub use report::{Failure, Report, VectorError, files};
