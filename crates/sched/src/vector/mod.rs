//! Vectors: short scripts of questions and events with the decisions that a person worked out.
//!
//! A file names a scheduler and lists cases. Amounts without a unit are packets of 1400 bytes; a
//! path whose window is full is blocked unless its row says otherwise. Each question is asked three
//! times, and the answers must agree; the decision is then carried out on a
//! [`Bench`](crate::testing::Bench), so that `expect = "F x10, S"` asks eleven times.
//!
//! ```
//! let report = weftway_sched::vector::run(r#"
//!     scheduler = "min-rtt"
//!     [[case]]
//!     name   = "the fast window first"
//!     why    = "F has the smaller srtt and room for 2; then S"
//!     paths  = [{ name = "F", srtt = "5 ms", cwnd = 2 }, { name = "S", srtt = "10 ms", cwnd = 1 }]
//!     expect = "F x2, S, wait"
//! "#).unwrap();
//! assert!(report.failures().next().is_none());
//! ```

mod player;
mod quantity;
mod report;
mod script;

pub use report::{Case, Report, VectorError};

/// Runs the cases of a vector file's `text`.
pub fn run(text: &str) -> Result<Report, VectorError> {
    play(text, None)
}

/// Runs them with the scheduler that `spec` names in the place of the file's, with none of its switches: to see whether
/// the file tells the two apart.
pub fn run_in_place(text: &str, spec: &str) -> Result<Report, VectorError> {
    play(text, Some(spec))
}

fn play(text: &str, in_place: Option<&str>) -> Result<Report, VectorError> {
    let file: script::File = toml::from_str(text)?;
    let (entry, _) = crate::parse(&file.scheduler)?;
    let cases = file.case.iter().map(|case| player::play(&file, case, in_place)).collect::<Result<_, _>>()?;
    Ok(Report { scheduler: entry.name, cases })
}
