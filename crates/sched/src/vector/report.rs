//! What a vector file gave, or why it cannot be run.

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
