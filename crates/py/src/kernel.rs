//! Runs of the running Linux kernel, for Python: like a `Batch`.

use std::time::Duration;

use pyo3::prelude::*;
use serde_json::Value;
use weftway_emu::kernel::{Batch, KernelRun, RunResult};

use crate::scenario::VariantView;

/// A variant, the controller's name, the seed.
type Order<'py> = (Bound<'py, VariantView>, String, u64);

/// The index of a run, what came of it (`row`, `skipped` or `failed`), the row or the reason, and its timeline.
type Told = (usize, &'static str, String, Option<String>);

/// Runs of the kernel, in the order given.
#[pyclass(frozen, module = "weftway._native")]
pub struct KernelBatch(Batch);

#[pymethods]
impl KernelBatch {
    /// Starts `jobs` in at most so many labs at a time.
    #[new]
    fn new(jobs: Vec<Order<'_>>, labs: usize) -> Self {
        let run = |(variant, cc, seed): Order<'_>| KernelRun { variant: variant.get().variant.clone(), cc, seed };
        Self(Batch::start(jobs.into_iter().map(run).collect(), labs))
    }

    /// How many are not finished.
    #[getter]
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    /// Those that finished meanwhile; waits at most `seconds` for the first.
    fn wait(&self, py: Python<'_>, seconds: f64) -> Vec<Told> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let finished = py.detach(|| self.0.wait(patience));
        finished.into_iter().map(|(index, result)| of(index, result)).collect()
    }

    /// Stops everything, also what is running.
    fn cancel(&self) {
        self.0.cancel();
    }
}

fn of(index: usize, result: RunResult) -> Told {
    let (kind, text, timeline) = told(result);
    (index, kind, text, timeline)
}

/// How Python tells results apart, what there is to say, and the timeline.
pub fn told(result: RunResult) -> (&'static str, String, Option<String>) {
    match result {
        RunResult::Row { row, timeline } => {
            ("row", Value::Object(row).to_string(), timeline.map(|timeline| timeline.to_string()))
        }
        RunResult::Skipped(why) => ("skipped", why, None),
        RunResult::Failed(why) => ("failed", why, None),
    }
}
