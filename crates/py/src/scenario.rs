//! Scenarios and their variants.

use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weftway_scenario::drive::{Drive, Drives};
use weftway_scenario::measurement::{self, columns};
use weftway_scenario::{ColumnType, Scenario, Variant};

use crate::errors::{Error, ScenarioError, TraceError};

/// A scenario file, read and checked.
#[pyclass(frozen, name = "Scenario", module = "weftway")]
pub struct ScenarioView {
    scenario: Scenario,
    /// Folder where traces are looked for.
    folder: PathBuf,
}

/// A scenario with one choice made for everything that it varies, but for schedulers and
/// controllers.
#[pyclass(frozen, name = "Variant", module = "weftway")]
pub struct VariantView {
    pub variant: Arc<Variant>,
    scenario: Py<ScenarioView>,
}

#[pymethods]
impl ScenarioView {
    /// The scenario in the file at `path`, with the keys of `sets` (`path.lte.loss=2%`) replaced.
    #[staticmethod]
    #[pyo3(signature = (path, sets = Vec::new()))]
    fn load(path: PathBuf, sets: Vec<String>) -> Result<Self, Error> {
        let folder = path.parent().unwrap_or(Path::new("")).to_owned();
        Ok(Self { scenario: Scenario::load(&path, &sets)?, folder })
    }

    /// The scenario in `text`; messages call it `name`, and traces are looked for in `folder`.
    #[staticmethod]
    #[pyo3(signature = (text, name = "scenario.toml", folder = PathBuf::from("."), sets = Vec::new()))]
    fn parse(text: &str, name: &str, folder: PathBuf, sets: Vec<String>) -> Result<Self, Error> {
        Ok(Self { scenario: Scenario::parse(text, name, &folder, &sets)?, folder })
    }

    #[getter]
    fn path(&self) -> &str {
        &self.scenario.file
    }
    #[getter]
    fn name(&self) -> &str {
        Path::new(&self.scenario.file).file_stem().and_then(OsStr::to_str).unwrap_or("scenario")
    }
    #[getter]
    fn text(&self) -> &str {
        self.scenario.text()
    }
    #[getter]
    fn text_as_set(&self) -> String {
        self.scenario.text_as_set()
    }
    #[getter]
    fn title(&self) -> &str {
        &self.scenario.title
    }
    #[getter]
    fn hash(&self) -> &str {
        self.scenario.hash()
    }
    #[getter]
    fn sets(&self) -> Vec<String> {
        self.scenario.sets.clone()
    }
    #[getter]
    fn schedulers(&self) -> Vec<String> {
        self.scenario.schedulers.clone()
    }
    #[getter]
    fn controllers(&self) -> Vec<String> {
        self.scenario.controllers.clone()
    }
    #[getter]
    fn backends(&self) -> Vec<String> {
        self.scenario.backends.clone()
    }
    #[getter]
    fn seeds(&self) -> Vec<u64> {
        self.scenario.seeds.clone().collect()
    }

    /// Every combination of what the scenario varies.
    fn variants(slf: &Bound<'_, Self>) -> PyResult<Vec<VariantView>> {
        let variants = slf.get().scenario.variants().map_err(Error::from)?;
        let view = |variant| VariantView { variant: Arc::new(variant), scenario: slf.clone().unbind() };
        Ok(variants.into_iter().map(view).collect())
    }

    /// Returns itself: nothing of it can change.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// For `pickle`: what it was read from. The folder is where it is, wherever the reader's working directory is.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, Source>> {
        let Scenario { file, sets, .. } = &self.scenario;
        let folder = std::path::absolute(Path::new(".").join(&self.folder))?;
        let source = (self.scenario.text().to_owned(), file.clone(), folder, sets.clone(), self.hash().to_owned());
        Ok((py.import("weftway._native")?.getattr("read_again")?, source))
    }

    fn __repr__(&self) -> String {
        format!("Scenario({}: {})", self.scenario.file, self.scenario.title)
    }
}

#[pymethods]
impl VariantView {
    #[getter]
    fn scenario(&self, py: Python<'_>) -> Py<ScenarioView> {
        self.scenario.clone_ref(py)
    }
    #[getter]
    fn transport(&self) -> &'static str {
        self.variant.transport
    }
    #[getter]
    fn hash(&self) -> &str {
        &self.variant.hash
    }
    /// The names of all results that a run of it can have, in their order; those of links in real time follow.
    #[getter]
    fn columns(&self) -> Vec<String> {
        columns(&self.variant.config)
    }

    /// Returns itself: nothing of it can change.
    fn __deepcopy__(slf: Py<Self>, _memo: &Bound<'_, PyAny>) -> Py<Self> {
        slf
    }

    /// For `pickle`: the scenario, and which of its variants it is.
    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<Reduced<'py, (Py<ScenarioView>, Labels)>> {
        let find = py.import("weftway._native")?.getattr("variant_again")?;
        Ok((find, (self.scenario.clone_ref(py), self.variant.labels.clone())))
    }

    /// Values that were chosen, by key.
    #[getter]
    fn values<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let values = PyDict::new(py);
        self.variant.labels.iter().try_for_each(|(key, value)| values.set_item(key, value))?;
        Ok(values)
    }

    /// Values that were chosen, as settings of the command line.
    #[getter]
    fn sets(&self) -> Vec<String> {
        self.variant.labels.iter().map(|(key, value)| format!("{key}={value}")).collect()
    }
}

/// Every result that some run can have, in the order of the columns, and the type of its values. Where it is one of a
/// path, `*` stands for the path's name.
#[pyfunction]
pub fn columns_of_results() -> Vec<(String, &'static str)> {
    let named = |kind| match kind {
        ColumnType::Text => "text",
        ColumnType::Integer => "integer",
        ColumnType::Float => "float",
        ColumnType::Boolean => "boolean",
    };
    measurement::schema().into_iter().map(|(name, kind)| (name, named(kind))).collect()
}

/// Options of the transport: key, value for each stack, meaning.
#[pyfunction]
pub fn options() -> Vec<(&'static str, [String; 4], &'static str)> {
    weftway_scenario::option_rows().collect()
}

/// Units of rates, sizes and times, with their values in bits per second, bytes and nanoseconds.
#[pyfunction]
pub fn units(py: Python<'_>) -> PyResult<Bound<'_, PyDict>> {
    let kinds = PyDict::new(py);
    for (kind, table) in weftway_scenario::units() {
        let units = PyDict::new(py);
        for (unit, smallest) in table {
            units.set_item(unit, smallest)?;
        }
        kinds.set_item(kind, units)?;
    }
    Ok(kinds)
}

/// Function that `pickle` calls to make something again, and its arguments.
type Reduced<'py, Arguments> = (Bound<'py, PyAny>, Arguments);

/// Text, name, folder and settings of a scenario, and its hash.
type Source = (String, String, PathBuf, Vec<String>, String);

/// The scenario that was pickled. Its text comes with the pickle, its traces do not.
#[pyfunction]
pub fn read_again(text: String, name: &str, folder: PathBuf, sets: Vec<String>, hash: &str) -> PyResult<ScenarioView> {
    let scenario = ScenarioView::parse(&text, name, folder, sets)?;
    if scenario.hash() != hash {
        return Err(ScenarioError::new_err(format!("{name}: what it reads has changed since it was pickled")));
    }
    Ok(scenario)
}

/// Values that were chosen for each key that a scenario varies.
type Labels = Vec<(String, String)>;

/// The variant of `scenario` that was pickled.
#[pyfunction]
pub fn variant_again(scenario: &Bound<'_, ScenarioView>, labels: Labels) -> PyResult<VariantView> {
    let found = ScenarioView::variants(scenario)?.into_iter().find(|view| view.variant.labels == labels);
    found.ok_or_else(|| ScenarioError::new_err(format!("{}: no variant has {labels:?}", scenario.get().path())))
}

/// A run's number, how long it lasts in seconds, and the mean rate of each link in bit/s.
type DriveRun = (u64, f64, BTreeMap<String, u64>);

/// Runs of a drive file: of each its number, how long it lasts in seconds, and each link's mean rate in bit/s.
#[pyfunction]
pub fn drive_runs(text: &str) -> PyResult<Vec<DriveRun>> {
    let drives = Drives::parse(text).map_err(TraceError::new_err)?;
    let means =
        |run: &Drive| drives.links().iter().cloned().zip(run.mean_rates().iter().map(|rate| rate.as_bps())).collect();
    Ok(drives.runs().map(|(number, run)| (number, run.lasts().as_secs_f64(), means(run))).collect())
}

/// The JSON Schema of scenario files, as text.
#[pyfunction]
pub fn schema() -> String {
    format!("{:#}", Scenario::json_schema())
}
