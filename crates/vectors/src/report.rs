//! Reports of vector files, and where the files are.

use std::fmt;
use std::path::{Path, PathBuf};

use thiserror::Error;
use weftway_path::spec::SpecError;

/// Reason why a vector file cannot be run.
#[derive(Debug, Error)]
pub enum VectorError {
    /// The text is not TOML, or has a key or value that vectors do not have.
    #[error("{0}")]
    Text(#[from] toml::de::Error),
    /// The scheduler or one of its switches is unknown.
    #[error("{0}")]
    Name(#[from] SpecError),
    /// The file has no case.
    #[error("the file has no case")]
    Empty,
}

/// Outcome of a file's cases.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub struct Report {
    /// Number of cases.
    pub cases: usize,
    /// Number of expectations that hold, in the cases that do.
    pub checks: usize,
    /// Cases that do not hold, or cannot be played.
    pub failures: Vec<Failure>,
}

/// Case that does not hold, or cannot be played.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    /// Name of the case.
    pub case: String,
    /// Step or line, and the problem there.
    pub problem: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "case `{}`, {}", self.case, self.problem)
    }
}

#[cfg(any(feature = "cc", feature = "link", feature = "sched"))]
impl Report {
    /// Plays `cases`: `play` returns the number of expectations of a case, all of which hold, or the problem.
    pub(crate) fn of<C>(
        cases: &[C],
        name: impl Fn(&C) -> &str,
        play: impl Fn(&C) -> Result<usize, String>,
    ) -> Result<Self, VectorError> {
        let mut report = Self::default();
        for case in cases {
            report.cases += 1;
            let checks = play(case).and_then(|checks| if checks > 0 { Ok(checks) } else { Err(NOTHING.to_owned()) });
            match checks {
                Ok(checks) => report.checks += checks,
                Err(problem) => report.failures.push(Failure { case: name(case).to_owned(), problem }),
            }
        }
        if report.cases > 0 { Ok(report) } else { Err(VectorError::Empty) }
    }
}

#[cfg(any(feature = "cc", feature = "link", feature = "sched"))]
const NOTHING: &str = "nothing is expected";

/// Lists the vector files of `kind`, which is the name of a crate: their paths and texts.
///
/// # Panics
///
/// If the folder or a file cannot be read.
pub fn files(kind: &str) -> Vec<(PathBuf, String)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors").join(kind);
    let entries = std::fs::read_dir(&folder).unwrap_or_else(|error| panic!("{}: {error}", folder.display()));
    let mut paths: Vec<_> = entries.map(|entry| entry.expect("the folder can be listed").path()).collect();
    paths.sort();
    let read = |path: PathBuf| {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()));
        (path, text)
    };
    paths.into_iter().map(read).collect()
}
