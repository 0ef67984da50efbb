//! Runs of the running Linux kernel, for Python: like a `Batch`.

use std::time::Duration;

use pyo3::prelude::*;
use serde_json::Value;
use weftway_emu::kernel::{Batch, KernelRun, RunResult};

use crate::batch::Told;
use crate::job::Attributes;

/// A lab waits most of the time: so many run beside one another for each thread that is asked for.
const LABS_PER_THREAD: usize = 6;

/// Runs of the kernel, in the order given.
#[pyclass(frozen, module = "weftway._native")]
pub struct KernelBatch(Batch);

#[pymethods]
impl KernelBatch {
    /// Starts jobs in six labs for each of so many threads.
    #[new]
    fn new(jobs: Vec<Attributes<'_>>, threads: usize) -> Self {
        // The kernel has one scheduler.
        let run = |Attributes { variant, cc: (cc, _), seed, .. }| {
            let variant = variant.get().variant.clone();
            KernelRun { variant, cc, seed }
        };
        Self(Batch::start(jobs.into_iter().map(run).collect(), LABS_PER_THREAD * threads))
    }

    /// Number of runs that are not finished.
    #[getter]
    fn remaining(&self) -> usize {
        self.0.remaining()
    }

    /// Runs that finished meanwhile; waits at most `seconds` for the first.
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

/// Kind by which Python tells results apart, what there is to say, and the timeline.
pub fn told(result: RunResult) -> (&'static str, String, Option<String>) {
    match result {
        RunResult::Row { row, timeline } => {
            ("row", Value::Object(row).to_string(), timeline.map(|timeline| timeline.to_string()))
        }
        RunResult::Skipped(why) => ("skipped", why, None),
        RunResult::Failed(why) => ("failed", why, None),
    }
}
