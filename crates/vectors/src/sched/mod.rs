//! Vectors of schedulers: short scripts of questions and events with the decisions that a person worked out.
//!
//! A file names a scheduler and lists cases. Amounts without a unit are packets of 1400 bytes; a
//! path whose window is full is blocked unless its row says otherwise. Each question is asked three
//! times, and the answers must agree; the decision is then carried out on a
//! [`Bench`](crate::testing::Bench), so that `expect = "F x10, S"` asks eleven times.
//!
//! ```
//! let (_, report) = weftway_vectors::sched::run(r#"
//!     scheduler = "min-rtt"
//!     [[case]]
//!     name   = "the fast window first"
//!     why    = "F has the smaller srtt and room for 2; then S"
//!     paths  = [{ name = "F", srtt = "5 ms", cwnd = 2 }, { name = "S", srtt = "10 ms", cwnd = 1 }]
//!     expect = "F x2, S, wait"
//! "#).unwrap();
//! assert!(report.failures.is_empty());
//! ```

mod player;
mod quantity;
mod script;

use crate::{Report, VectorError};

/// Runs the cases of a vector file's `text`; returns the scheduler that the file is about, too.
pub fn run(text: &str) -> Result<(&'static str, Report), VectorError> {
    play(text, None)
}

/// Runs the cases with the scheduler that `spec` names in the place of the file's, with none of its switches: to see
/// if the file tells the two apart.
pub fn run_in_place(text: &str, spec: &str) -> Result<(&'static str, Report), VectorError> {
    play(text, Some(spec))
}

fn play(text: &str, in_place: Option<&str>) -> Result<(&'static str, Report), VectorError> {
    let file: script::File = toml::from_str(text)?;
    let (entry, _) = weftway_sched::parse(&file.scheduler)?;
    let report = Report::of(&file.case, |case| &case.name, |case| player::play(&file, case, in_place))?;
    Ok((entry.name, report))
}
