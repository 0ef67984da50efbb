//! The registries as lists of plain dicts.

use pyo3::prelude::*;
use pyo3::types::PyDict;
use weftway_path::spec::{Param, Params, Spec};
use weftway_quic::gate::{Gate, GateError};
use weftway_sched::{Arity, Input, Learning, Preset, Provenance};

use crate::errors::Error;

/// Every scheduler, in the order of the registry.
#[pyfunction]
pub fn schedulers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    weftway_sched::all().iter().map(|entry| scheduler_entry(py, entry)).collect()
}

/// Every congestion controller, in the order of the registry.
#[pyfunction]
pub fn controllers(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    weftway_cc::all().iter().map(|entry| controller_entry(py, entry)).collect()
}

/// Every task of a learned scheduler, in the order of the list.
#[pyfunction]
pub fn tasks(py: Python<'_>) -> PyResult<Vec<Bound<'_, PyDict>>> {
    let one = |entry: &&weftway_sched::learned::TaskEntry| {
        let dict = PyDict::new(py);
        dict.set_item("name", entry.name)?;
        dict.set_item("summary", entry.summary)?;
        dict.set_item("needs", needs(&entry.needs))?;
        dict.set_item("params", params(py, entry.params)?)?;
        Ok(dict)
    };
    weftway_sched::learned::tasks().iter().map(one).collect()
}

/// The names of what the task that `spec` names sees.
#[pyfunction]
pub fn observed(spec: &str) -> Result<Vec<String>, Error> {
    let (_, task) = weftway_sched::learned::build_task(spec)?;
    Ok(task.shape().inputs.iter().map(|input| input.name.clone()).collect())
}

/// The full name of the scheduler that `spec` means, and its name and version.
#[pyfunction]
pub fn scheduler(spec: &str) -> Result<(String, String), Error> {
    let (entry, spec) = weftway_sched::parse(spec)?;
    entry.make(&spec.given)?;
    Ok((full_name(entry.name, spec), format!("{}@{}", entry.name, entry.version)))
}

/// The scheduler that runs inside noq for the one that `spec` names: itself, or a part of it; or why a gate refuses it.
#[pyfunction]
pub fn behind_gate(spec: &str) -> Result<(Option<String>, Option<String>), Error> {
    match Gate::new(spec) {
        Ok(gate) => Ok((Some(gate.name()), None)),
        Err(GateError::Refused { why, .. }) => Ok((None, Some(why))),
        Err(GateError::Spec(error)) => Err(error.into()),
    }
}

/// The full name of the controller that `spec` means, and its name and version.
#[pyfunction]
pub fn controller(spec: &str) -> Result<(String, String), Error> {
    let (entry, spec) = weftway_cc::parse(spec)?;
    Params::new(entry.name, entry.params, &spec.given)?;
    Ok((full_name(entry.name, spec), format!("{}@{}", entry.name, entry.version)))
}

/// The name without aliases, with the switches that were given.
fn full_name(name: &str, spec: Spec) -> String {
    Spec { name: name.to_owned(), ..spec }.to_string()
}

fn scheduler_entry<'py>(py: Python<'py>, entry: &weftway_sched::Entry) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", entry.name)?;
    dict.set_item("aliases", entry.aliases)?;
    dict.set_item("version", entry.version)?;
    dict.set_item("summary", entry.summary)?;
    dict.set_item("reference", entry.reference)?;
    dict.set_item("provenance", provenance(entry.provenance))?;
    dict.set_item("goal", entry.goal)?;
    dict.set_item("application", entry.application)?;
    dict.set_item("inputs", entry.inputs.iter().copied().map(input).collect::<Vec<_>>())?;
    dict.set_item("needs", needs(&entry.needs))?;
    dict.set_item("arity", arity(entry.arity))?;
    dict.set_item("waits", entry.waits)?;
    dict.set_item("opportunistic", entry.transport.opportunistic)?;
    dict.set_item("penalise", entry.transport.penalise)?;
    dict.set_item("presets", presets(py, entry.presets)?)?;
    dict.set_item("params", params(py, entry.params)?)?;
    dict.set_item("policies", crate::policy::cards(py, entry.shipped)?)?;
    dict.set_item("learning", entry.learning.as_ref().map(|line| learning(py, line)).transpose()?)?;
    Ok(dict)
}

fn controller_entry<'py>(py: Python<'py>, entry: &weftway_cc::Entry) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("name", entry.name)?;
    dict.set_item("aliases", entry.aliases)?;
    dict.set_item("version", entry.version)?;
    dict.set_item("summary", entry.summary)?;
    dict.set_item("reference", entry.reference)?;
    dict.set_item("coupled", entry.coupled)?;
    dict.set_item("paced", entry.paced)?;
    dict.set_item("params", params(py, entry.params)?)?;
    Ok(dict)
}

fn params<'py>(py: Python<'py>, declared: &[Param]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let one = |param: &Param| {
        let dict = PyDict::new(py);
        dict.set_item("name", param.name)?;
        dict.set_item("default", param.default)?;
        dict.set_item("values", param.values)?;
        dict.set_item("doc", param.doc)?;
        Ok(dict)
    };
    declared.iter().map(one).collect()
}

fn presets<'py>(py: Python<'py>, declared: &[Preset]) -> PyResult<Vec<Bound<'py, PyDict>>> {
    let one = |preset: &Preset| {
        let dict = PyDict::new(py);
        dict.set_item("name", preset.name)?;
        dict.set_item("switches", preset.switches)?;
        dict.set_item("doc", preset.doc)?;
        Ok(dict)
    };
    declared.iter().map(one).collect()
}

/// State, reward and actions of a scheduler that learns.
fn learning<'py>(py: Python<'py>, line: &Learning) -> PyResult<Bound<'py, PyDict>> {
    let dict = PyDict::new(py);
    dict.set_item("year", line.year)?;
    dict.set_item("learner", line.learner)?;
    dict.set_item("state", line.state)?;
    dict.set_item("reward", line.reward)?;
    dict.set_item("actions", line.actions)?;
    Ok(dict)
}

/// The names under which the overview tables have them.
fn input(input: Input) -> &'static str {
    match input {
        Input::Rtt => "rtt",
        Input::MinRtt => "min_rtt",
        Input::Cwnd => "cwnd",
        Input::InFlight => "in_flight",
        Input::Mss => "mss",
        Input::Loss => "loss",
        Input::Rate => "rate",
        Input::Queue => "queue",
        Input::Window => "window",
        Input::Size => "size",
        Input::Bottleneck => "bottleneck",
    }
}

fn provenance(provenance: Provenance) -> &'static str {
    match provenance {
        Provenance::Code => "code",
        Provenance::Paper => "paper",
        Provenance::Secondary => "secondary",
        Provenance::Reconstructed => "reconstructed",
    }
}

fn arity(arity: Arity) -> &'static str {
    match arity {
        Arity::Any => "any",
        Arity::Pair => "pair",
    }
}

fn needs(needs: &weftway_sched::Needs) -> Vec<&'static str> {
    let weftway_sched::Needs { flow, queueing, copies, ahead, recall, wake, events, device } = *needs;
    let all = [
        (flow, "flow"),
        (queueing, "queueing"),
        (copies, "copies"),
        (ahead, "ahead"),
        (recall, "recall"),
        (wake, "wake"),
        (events, "events"),
        (device, "device"),
    ];
    all.into_iter().filter_map(|(needed, name)| needed.then_some(name)).collect()
}
