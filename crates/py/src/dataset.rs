//! Labels to train on: what was seen at each question of the task `graph`, and what the oracle said. Made without the
//! interpreter's lock; what comes of an episode depends on its number, not on threads.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weftway_oracle::{Basis, Plan, Sample, run};
use weftway_path::spec::SpecError;
use weftway_scenario::Variant;
use weftway_scenario::mix;
use weftway_sim::run::Job;

use crate::errors::{Error, ScenarioError};
use crate::scenario::VariantView;
use crate::threads::each;

/// Episodes that are to be run.
struct Order {
    variants: Vec<Arc<Variant>>,
    controllers: Vec<String>,
    plan: Plan,
    seed: u64,
}

impl Order {
    /// Which variant, under which controller, with which seed.
    fn drawn(&self, episode: usize) -> (usize, &str, u64) {
        let seed = mix(self.seed, episode as u64);
        let variant = episode % self.variants.len();
        (variant, &self.controllers[(mix(seed, 1) % self.controllers.len() as u64) as usize], seed)
    }

    fn samples(&self, episode: usize) -> Result<Vec<Sample>, SpecError> {
        let (variant, cc, seed) = self.drawn(episode);
        let job = Job { config: &self.variants[variant].config, cc, seed, timing: None };
        Ok(run(&job, &self.plan)?.samples)
    }
}

/// The questions of so many episodes, each over the next of `variants` under one of `controllers`, drawn from `seed`,
/// in the order of the episodes. Arrays as bytes of 32-bit numbers: `seen` (n, inputs), `label`, `taken`, `margin`,
/// `costs` (n, slots), `instance`, `behaviour`, `episode`, `message`. `basis` is `message` or `interval`: what labels
/// are about.
#[pyfunction]
#[pyo3(signature = (variants, controllers, episodes, seed, behaviours, task = "graph", threads = 1, basis = "message"))]
#[expect(clippy::too_many_arguments, reason = "Python gives them by name")]
pub fn labels<'py>(
    py: Python<'py>,
    variants: Vec<PyRef<'py, VariantView>>,
    controllers: Vec<String>,
    episodes: usize,
    seed: u64,
    behaviours: Vec<String>,
    task: &str,
    threads: usize,
    basis: &str,
) -> PyResult<Bound<'py, PyDict>> {
    if variants.is_empty() || controllers.is_empty() || behaviours.is_empty() {
        return Err(ScenarioError::new_err("labels need a scenario, a controller and a behaviour"));
    }
    let basis = match basis {
        "message" => Basis::Message,
        "interval" => Basis::Interval,
        _ => return Err(ScenarioError::new_err(format!("basis `{basis}`: there is message and interval"))),
    };
    let variants = variants.iter().map(|view| view.variant.clone()).collect();
    let order = Order { variants, controllers, plan: Plan { task: task.to_owned(), behaviours, basis }, seed };
    let numbers: Vec<usize> = (0..episodes).collect();
    let runs = each(py, &numbers, threads, |episode| order.samples(*episode))?;
    let mut rows = Vec::new();
    for (episode, run) in runs.into_iter().enumerate() {
        rows.extend(run.map_err(Error::from)?.into_iter().map(|sample| (episode, sample)));
    }
    Table { order, rows }.arrays(py)
}

/// Every question, with the number of its episode.
struct Table {
    order: Order,
    rows: Vec<(usize, Sample)>,
}

impl Table {
    fn arrays<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let arrays = PyDict::new(py);
        let float = |name, of: &dyn Fn(&Sample) -> Vec<f32>| {
            let bytes: Vec<u8> = self.rows.iter().flat_map(|(_, row)| of(row)).flat_map(f32::to_ne_bytes).collect();
            arrays.set_item(name, PyBytes::new(py, &bytes))
        };
        float("seen", &|row| row.observation.clone())?;
        float("costs", &|row| row.judgement.costs.iter().map(|cost| *cost as f32).collect())?;
        float("margin", &|row| vec![row.judgement.margin as f32])?;
        let whole = |name, of: &dyn Fn(usize, &Sample) -> usize| {
            let number = |(episode, row): &(usize, Sample)| i32::try_from(of(*episode, row)).unwrap_or(i32::MAX);
            let bytes: Vec<u8> = self.rows.iter().map(number).flat_map(i32::to_ne_bytes).collect();
            arrays.set_item(name, PyBytes::new(py, &bytes))
        };
        whole("label", &|_, row| row.judgement.label)?;
        whole("taken", &|_, row| row.taken)?;
        whole("behaviour", &|_, row| row.behaviour)?;
        whole("message", &|_, row| usize::try_from(row.message).unwrap_or(usize::MAX))?;
        whole("episode", &|episode, _| episode)?;
        whole("instance", &|episode, _| self.order.drawn(episode).0)?;
        Ok(arrays)
    }
}
