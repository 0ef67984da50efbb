//! Policy files, as Python reads them: the very check and the very forward pass of a deployed one.

use std::path::PathBuf;

use pyo3::buffer::PyBuffer;
use pyo3::prelude::*;
use pyo3::types::PyDict;
use weftway_sched::ShippedPolicy;
use weftway_sched::learned::policy_file::PolicyFile;

use crate::errors::ScenarioError;

/// A policy, read and checked.
#[pyclass(frozen, module = "weftway._native")]
pub struct Policy(PolicyFile);

#[pymethods]
impl Policy {
    /// The policy in the file at `path`.
    #[new]
    fn new(path: PathBuf) -> PyResult<Self> {
        let shown = path.display();
        PolicyFile::read(&path).map(Self).map_err(|error| ScenarioError::new_err(format!("policy {shown}: {error}")))
    }

    /// Card of the policy.
    #[getter]
    fn card<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        card(py, &self.0)
    }

    /// Number of numbers that go in.
    #[getter]
    fn inputs(&self) -> usize {
        self.0.network.inputs()
    }

    /// Number of numbers that come out.
    #[getter]
    fn outputs(&self) -> usize {
        self.0.network.outputs()
    }

    /// Outputs of the network for each row of `seen` (n, inputs), written into `out` (n, outputs), float32.
    fn forward(&self, py: Python<'_>, seen: &Bound<'_, PyAny>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let seen = PyBuffer::<f32>::get(seen)?.to_vec(py)?;
        let (inputs, outputs) = (self.inputs(), self.outputs());
        let rows = seen.len() / inputs;
        let target = PyBuffer::<f32>::get(out)?;
        if rows * inputs != seen.len() || target.item_count() != rows * outputs {
            let found = format!("{} and {} numbers", seen.len(), target.item_count());
            return Err(ScenarioError::new_err(format!("{found}; expected rows of {inputs} and of {outputs}")));
        }
        let mut all = vec![0.0; rows * outputs];
        let mut scratch = self.0.network.scratch();
        for (seen, out) in seen.chunks(inputs).zip(all.chunks_mut(outputs)) {
            self.0.network.forward(&mut scratch, seen, out);
        }
        target.copy_from_slice(py, &all)
    }
}

/// The cards of the policies that come with a scheduler, by name.
pub fn cards<'py>(py: Python<'py>, shipped: &[ShippedPolicy]) -> PyResult<Bound<'py, PyDict>> {
    let cards = PyDict::new(py);
    for policy in shipped {
        let file = PolicyFile::parse(policy.bytes).map_err(|error| ScenarioError::new_err(error.to_string()))?;
        cards.set_item(policy.name, card(py, &file)?)?;
    }
    Ok(cards)
}

fn card<'py>(py: Python<'py>, file: &PolicyFile) -> PyResult<Bound<'py, PyDict>> {
    let card = PyDict::new(py);
    file.cards().try_for_each(|(key, value)| card.set_item(key, value))?;
    Ok(card)
}
