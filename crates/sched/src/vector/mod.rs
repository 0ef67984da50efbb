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
mod script;

use thiserror::Error;
use weftway_path::spec::SpecError;

/// Why a vector file cannot be run.
#[derive(Debug, Error)]
pub enum VectorError {
    /// The text is not TOML, or has a key or value that vectors do not have.
    #[error("{0}")]
    Text(#[from] toml::de::Error),
    /// The scheduler or one of its switches is unknown.
    #[error("{0}")]
    Scheduler(#[from] SpecError),
    /// A step says something that cannot be: an unknown path, a quantity without a known unit, an
    /// acknowledgement of what was never sent.
    #[error("case `{case}`, step {step}: {what}")]
    Step {
        /// The case.
        case: String,
        /// The step, counted from 1; 0 is the case itself.
        step: usize,
        /// What is wrong.
        what: String,
    },
}

/// What a file's cases gave.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scheduler that the file is about, by its name in the registry.
    pub scheduler: &'static str,
    /// The cases in the order of the file.
    pub cases: Vec<Case>,
}

/// One case.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Case {
    /// Its name.
    pub name: String,
    /// Why the decisions are right: the working.
    pub why: String,
    /// The scheduler and its switches.
    pub scheduler: String,
    /// The decisions that the file states, one entry per question step.
    pub expected: Vec<String>,
    /// The decisions that the scheduler made.
    pub got: Vec<String>,
}

impl Case {
    /// Whether the scheduler did what the file states.
    pub fn passes(&self) -> bool {
        self.expected == self.got
    }
}

impl Report {
    /// The cases that do not pass.
    pub fn failures(&self) -> impl Iterator<Item = &Case> {
        self.cases.iter().filter(|case| !case.passes())
    }
}

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
