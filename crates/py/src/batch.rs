//! Many runs at once: schedulers of the registry on threads that hold no interpreter, classes in Python on the thread
//! that waits.

use std::collections::HashSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use weftway_sim::Listener;

use crate::errors::SimulationError;
use crate::job::{Alone, Finished, Job};
use crate::log::Watch;

/// Jobs that are being run, in the order given.
#[pyclass(frozen, module = "weftway._native")]
pub struct Batch {
    queue: Arc<Queue>,
    finished: Mutex<Receiver<Ended>>,
    remaining: AtomicUsize,
}

/// The index of a job, what came of it, and its timeline as JSON where that was wanted.
type Ended = (usize, Finished, Option<String>);

/// State that the threads share.
#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    /// The indices of the jobs whose timelines are wanted.
    watched: HashSet<usize>,
    native: Turns,
    in_python: Turns,
    cancelled: AtomicBool,
    alone: Alone,
}

/// Indices of jobs, each of which is taken once.
#[derive(Default)]
struct Turns {
    jobs: Vec<usize>,
    taken: AtomicUsize,
}

/// The index of a job, what came of it (`row`, `skipped` or `failed`), the row or the reason, and its timeline where
/// that was wanted.
pub type Told = (usize, &'static str, String, Option<String>);

#[pymethods]
impl Batch {
    /// Starts jobs on so many threads, in the simulator or on Multipath QUIC as each says; without `singles`, the
    /// columns that need runs over single paths are null. Of the jobs in the simulator with an index in `watched`, the
    /// timeline is told with the row.
    #[new]
    #[pyo3(signature = (jobs, threads, singles = true, watched = HashSet::new()))]
    fn new(jobs: Vec<Job>, threads: usize, singles: bool, watched: HashSet<usize>) -> Self {
        let remaining = AtomicUsize::new(jobs.len());
        let alone = if singles { Alone::default() } else { Alone::unwanted() };
        let queue = Arc::new(Queue { watched, ..Queue::new(jobs, alone) });
        let (sender, receiver) = channel();
        for _ in 0..threads.min(queue.native.jobs.len()) {
            let (queue, sender) = (queue.clone(), sender.clone());
            thread::spawn(move || queue.work(&sender));
        }
        Self { queue, finished: Mutex::new(receiver), remaining }
    }

    /// Number of jobs that have not been given out as finished.
    #[getter]
    fn remaining(&self) -> usize {
        self.remaining.load(Ordering::Relaxed)
    }

    /// The jobs that finished since the last time. Where a class in Python is left to be asked, it runs one such job on
    /// this thread; otherwise it waits at most so long for the first. A job that fails is told as one. An interrupt is
    /// raised, and so is a class that cannot be asked at all.
    fn wait(&self, py: Python<'_>, seconds: f64) -> PyResult<Vec<Told>> {
        let mut told = Vec::new();
        if let Some(index) = self.queue.in_python.take() {
            self.remaining.fetch_sub(1, Ordering::Relaxed);
            let watch = self.queue.watch(index);
            let finished = self.run_here(py, index, watch.as_ref())?;
            let timeline = matches!(finished, Finished::Row(_)).then(|| watch.as_ref().and_then(Watch::told)).flatten();
            told.push((index, finished, timeline));
        }
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let finished = py.detach(|| self.receive(if told.is_empty() { patience } else { Duration::ZERO }));
        self.remaining.fetch_sub(finished.len(), Ordering::Relaxed);
        told.extend(finished);
        let of = |(index, finished, timeline): Ended| {
            let (kind, text) = finished.told();
            (index, kind, text, timeline)
        };
        Ok(told.into_iter().map(of).collect())
    }

    /// Starts no more jobs. Those that are running come to nothing.
    fn cancel(&self) {
        self.queue.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Batch {
    /// Runs a job that asks a class in Python. Its failure is its own.
    fn run_here(&self, py: Python<'_>, index: usize, watch: Option<&Watch>) -> PyResult<Finished> {
        let run = || self.queue.jobs[index].run_here(py, listeners(watch), &self.queue.alone);
        match catch_unwind(AssertUnwindSafe(run)) {
            Ok(Ok(row)) => Ok(Finished::Row(row)),
            Ok(Err(error)) if error.is_instance_of::<SimulationError>(py) => {
                Ok(Finished::Failed(error.value(py).to_string()))
            }
            Ok(Err(error)) => Err(error),
            Err(panic) => Ok(Finished::broken(panic.as_ref())),
        }
    }

    fn receive(&self, patience: Duration) -> Vec<Ended> {
        let receiver = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        match receiver.recv_timeout(patience) {
            Ok(first) => std::iter::once(first).chain(receiver.try_iter()).collect(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Vec::new(),
        }
    }
}

impl Queue {
    fn new(jobs: Vec<Job>, alone: Alone) -> Self {
        let (in_python, native) = (0..jobs.len()).partition(|&index| jobs[index].asks_python());
        let turns = |jobs| Turns { jobs, ..Turns::default() };
        Self { jobs, native: turns(native), in_python: turns(in_python), alone, ..Self::default() }
    }

    /// Watcher that takes down the timeline of a job, where that is wanted.
    fn watch(&self, index: usize) -> Option<Watch> {
        (self.watched.contains(&index) && self.jobs[index].has_timeline()).then(|| Watch::new(&self.jobs[index]))
    }

    fn work(&self, sender: &Sender<Ended>) {
        while !self.cancelled.load(Ordering::Relaxed) {
            let Some(index) = self.native.take() else { return };
            let job = &self.jobs[index];
            // A broken invariant costs its run, not the process; the hook has told where it was.
            let run = || {
                let watch = self.watch(index);
                let finished = job.run(listeners(watch.as_ref()), &self.alone);
                let timeline =
                    matches!(finished, Finished::Row(_)).then(|| watch.as_ref().and_then(Watch::told)).flatten();
                (index, finished, timeline)
            };
            let ended = catch_unwind(AssertUnwindSafe(run))
                .unwrap_or_else(|panic| (index, Finished::broken(panic.as_ref()), None));
            if sender.send(ended).is_err() {
                return;
            }
        }
    }
}

fn listeners(watch: Option<&Watch>) -> Vec<Box<dyn Listener>> {
    watch.map(Watch::listener).into_iter().collect()
}

impl Turns {
    fn take(&self) -> Option<usize> {
        self.jobs.get(self.taken.fetch_add(1, Ordering::Relaxed)).copied()
    }
}
