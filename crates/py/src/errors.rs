//! Errors as exceptions that a Python user would guess.

use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::{PyErr, create_exception};
use weftway_path::spec::SpecError;
use weftway_scenario::{Mistake, ScenarioError as ScenarioMistake};

create_exception!(weftway, ScenarioError, PyValueError, "A scenario, a name or a switch that makes no sense.");
create_exception!(weftway, TraceError, ScenarioError, "A file that a scenario names cannot be read or understood.");
create_exception!(weftway, SimulationError, PyRuntimeError, "A run failed.");

create_exception!(
    weftway,
    EmulationError,
    PyRuntimeError,
    "Links could not be emulated, or the kernel not be measured."
);

/// Any error of the crates below, on its way to Python.
pub enum Error {
    /// A name or a switch.
    Spec(SpecError),
    /// A scenario, or a trace that it names.
    Scenario(ScenarioMistake),
    /// Input that makes no sense, in words.
    Input(String),
    /// A file that cannot be written.
    File(std::io::Error),
    /// The system's refusal, in a line.
    Emulation(String),
}

impl Error {
    /// Something that makes no sense, for this reason.
    pub fn input(why: impl ToString) -> Self {
        Self::Input(why.to_string())
    }
}

impl From<SpecError> for Error {
    fn from(error: SpecError) -> Self {
        Self::Spec(error)
    }
}

impl From<ScenarioMistake> for Error {
    fn from(error: ScenarioMistake) -> Self {
        Self::Scenario(error)
    }
}

impl From<Error> for PyErr {
    fn from(error: Error) -> Self {
        match error {
            Error::Spec(error) => ScenarioError::new_err(error.to_string()),
            Error::Scenario(error) if error.mistake == Mistake::Trace => TraceError::new_err(error.to_string()),
            Error::File(error) => error.into(),
            Error::Emulation(message) => EmulationError::new_err(message),
            Error::Input(message) => ScenarioError::new_err(message),
            Error::Scenario(error) => ScenarioError::new_err(error.to_string()),
        }
    }
}
