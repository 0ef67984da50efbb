//! Many runs at once, on threads that hold no interpreter.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;

use crate::job::{Alone, Engine, Finished, Job, Order};

/// Jobs that are being run, in the order given.
#[pyclass(frozen, module = "weftway._native")]
pub struct Batch {
    queue: Arc<Queue>,
    finished: Mutex<Receiver<(usize, Finished)>>,
    remaining: AtomicUsize,
}

/// What the threads share.
#[derive(Default)]
struct Queue {
    jobs: Vec<Job>,
    next: AtomicUsize,
    cancelled: AtomicBool,
    alone: Alone,
}

#[pymethods]
impl Batch {
    /// Starts `jobs` on so many threads; without `singles`, the columns that need runs over single paths are null. With
    /// `quic` they run on Multipath QUIC in virtual time, else in the simulator.
    #[new]
    #[pyo3(signature = (jobs, threads, singles = true, quic = false))]
    fn new(jobs: Vec<Order<'_>>, threads: usize, singles: bool, quic: bool) -> Self {
        let engine = if quic { Engine::Quic } else { Engine::Sim };
        let jobs: Vec<_> = jobs.iter().map(|order| Job::new(order).on(engine)).collect();
        let remaining = AtomicUsize::new(jobs.len());
        let alone = if singles { Alone::default() } else { Alone::unwanted() };
        let queue = Arc::new(Queue { jobs, alone, ..Queue::default() });
        let (sender, receiver) = channel();
        for _ in 0..threads.min(queue.jobs.len()) {
            let (queue, sender) = (queue.clone(), sender.clone());
            thread::spawn(move || queue.work(&sender));
        }
        Self { queue, finished: Mutex::new(receiver), remaining }
    }

    /// How many jobs have not been given out as finished.
    #[getter]
    fn remaining(&self) -> usize {
        self.remaining.load(Ordering::Relaxed)
    }

    /// The jobs that finished since the last time: index, kind and text. Waits at most so long
    /// for the first.
    fn wait(&self, py: Python<'_>, seconds: f64) -> Vec<(usize, &'static str, String)> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let finished = py.detach(|| self.receive(patience));
        self.remaining.fetch_sub(finished.len(), Ordering::Relaxed);
        finished.into_iter().map(|(index, done)| told(index, done)).collect()
    }

    /// Runs a job on this thread, as one with a rule in Python must be: kind and text.
    fn run(&self, py: Python<'_>, order: Order<'_>) -> PyResult<(&'static str, String)> {
        let row = Job::new(&order).run_here(py, &order, Vec::new(), &self.queue.alone)?;
        Ok(Finished::Row(row).told())
    }

    /// Starts no more jobs. Those that are running come to nothing.
    fn cancel(&self) {
        self.queue.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Batch {
    fn receive(&self, patience: Duration) -> Vec<(usize, Finished)> {
        let receiver = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        match receiver.recv_timeout(patience) {
            Ok(first) => std::iter::once(first).chain(receiver.try_iter()).collect(),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => Vec::new(),
        }
    }
}

impl Queue {
    fn work(&self, sender: &Sender<(usize, Finished)>) {
        while !self.cancelled.load(Ordering::Relaxed) {
            let index = self.next.fetch_add(1, Ordering::Relaxed);
            let Some(job) = self.jobs.get(index) else { return };
            // A broken invariant costs its run, not the process; the hook has told where it was.
            let finished =
                catch_unwind(AssertUnwindSafe(|| job.run(&self.alone))).unwrap_or_else(|_| Finished::broken());
            if sender.send((index, finished)).is_err() {
                return;
            }
        }
    }
}

fn told(index: usize, finished: Finished) -> (usize, &'static str, String) {
    let (kind, text) = finished.told();
    (index, kind, text)
}
