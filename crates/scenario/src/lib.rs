//! Scenarios: a TOML file says over which paths what is sent, and what to compare.
//!
//! ```
//! use std::path::Path;
//! use weftway_scenario::Scenario;
//!
//! let text = r#"
//!     transport = "mpquic"
//!     [path.wifi]
//!     rate  = "30 Mbit/s"
//!     delay = "10 ms"
//!     [workload]
//!     kind  = "bulk"
//!     bytes = "20 MB"
//!     [vary]
//!     "path.wifi.loss" = ["0 %", "1 %"]
//! "#;
//! let scenario = Scenario::parse(text, "wifi.toml", Path::new("."), &["path.wifi.delay=5 ms".to_owned()])?;
//! let variants = scenario.variants()?;
//! assert_eq!(variants[1].labels, [("path.wifi.loss".to_owned(), "1 %".to_owned())]);
//! assert_eq!(variants[1].config.paths[0].data.delay.as_millis(), 5);
//! # Ok::<(), weftway_scenario::ScenarioError>(())
//! ```
//!
//! Text becomes values that know their place (`tree`); `--set` and `[vary]` change these; then
//! they are read into the keys' types (`schema`, by `de`) and those into the simulator's
//! (`resolve`). A mistake found at any step is shown where it was written (`source`).

mod base;
pub mod bound;
mod claims;
pub mod config;
mod de;
pub mod draw;
pub mod drive;
mod error;
mod file;
mod forms;
mod hash;
mod links;
pub mod measurement;
mod names;
mod options;
pub mod policy;
pub mod qlog;
mod reading;
mod resolve;
mod schema;
mod seeds;
mod set;
pub mod single;
pub mod sink;
mod source;
pub mod stack;
mod text;
mod traces;
mod traffic;
mod transport;
mod tree;
mod units;
mod variant;
mod vary;
mod workload;

pub use error::{Mistake, ScenarioError};
pub use file::Scenario;
pub use measurement::{ColumnType, Measurement, Row, Verdict};
pub use options::option_rows;
pub use resolve::{DATAGRAM_HEAD, Timing};
pub use schema::{At, Claim, Figure, Identity, Printed, Published, Status, Unit, Way};
pub use seeds::{mix, path_seeds, shared_seeds};
pub use source::Place;
pub use units::units;
pub use variant::Variant;
pub use workload::{App, writes};

#[cfg(test)]
mod tests;
