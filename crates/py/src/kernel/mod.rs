//! Runs of the running Linux kernel, for Python: like a `Batch`, in as many labs at once as the machine bears.

pub mod order;
pub mod row;

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use pyo3::prelude::*;
use weftway_emu::kernel::{Measured, measure};
use weftway_emu::{EmuError, LabPlan};
use weftway_link::Rate;
use weftway_scenario::Variant;

use crate::emulate::lab;
use crate::scenario::VariantView;

/// What two cores carry together without being late, in Mbit/s; a link of more runs alone. One of 930 Mbit/s keeps
/// both busy.
const BUDGET_MBPS: f64 = 600.0;

const BROKEN: &str = "the run broke off; this is a defect of Weftway, not of the scenario";

/// How often a run that was late is repeated before it is handed over as it is.
pub const REPEATS: u32 = 2;

/// A variant, the controller's name, the seed.
type Order<'py> = (Bound<'py, VariantView>, String, u64);

/// The index of a job, what came of it (`row`, `skipped` or `failed`), the row or the reason, and its timeline.
type Told = (usize, &'static str, String, Option<String>);

/// Runs of the kernel, in the order given.
#[pyclass(frozen, module = "weftway._native")]
pub struct KernelBatch {
    shop: Arc<Shop>,
    finished: Mutex<Receiver<Told>>,
    remaining: AtomicUsize,
}

struct Job {
    variant: Arc<Variant>,
    cc: String,
    seed: u64,
}

/// What the threads share.
struct Shop {
    jobs: Vec<Job>,
    budget_mbps: f64,
    stop: AtomicBool,
    state: Mutex<State>,
    freed: Condvar,
}

#[derive(Default)]
struct State {
    next: usize,
    running: usize,
    load_mbps: f64,
}

#[pymethods]
impl KernelBatch {
    /// Starts `jobs` in at most so many labs at a time.
    #[new]
    fn new(jobs: Vec<Order<'_>>, labs: usize) -> Self {
        let job = |(variant, cc, seed): &Order<'_>| Job {
            variant: variant.get().variant.clone(),
            cc: cc.clone(),
            seed: *seed,
        };
        let jobs: Vec<Job> = jobs.iter().map(job).collect();
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let remaining = AtomicUsize::new(jobs.len());
        let shop = Arc::new(Shop {
            budget_mbps: BUDGET_MBPS * cores as f64 / 2.0,
            jobs,
            stop: AtomicBool::new(false),
            state: Mutex::default(),
            freed: Condvar::new(),
        });
        let (sender, receiver) = channel();
        for _ in 0..labs.clamp(1, shop.jobs.len().max(1)) {
            let (shop, sender) = (shop.clone(), sender.clone());
            thread::spawn(move || shop.work(&sender));
        }
        Self { shop, finished: Mutex::new(receiver), remaining }
    }

    /// How many are not finished.
    #[getter]
    fn remaining(&self) -> usize {
        self.remaining.load(Ordering::Relaxed)
    }

    /// Those that finished meanwhile; waits at most `seconds` for the first.
    fn wait(&self, py: Python<'_>, seconds: f64) -> Vec<Told> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        let finished = py.detach(|| self.receive(patience));
        self.remaining.fetch_sub(finished.len(), Ordering::Relaxed);
        finished
    }

    /// Stops everything, also what is running.
    fn cancel(&self) {
        // Under the lock: whoever is about to wait has seen it, or will be woken.
        let _state = self.shop.lock();
        self.shop.stop.store(true, Ordering::Relaxed);
        self.shop.freed.notify_all();
    }
}

impl KernelBatch {
    fn receive(&self, patience: Duration) -> Vec<Told> {
        let receiver = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        match receiver.recv_timeout(patience) {
            Ok(first) => std::iter::once(first).chain(receiver.try_iter()).collect(),
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                self.remaining.store(0, Ordering::Relaxed);
                Vec::new()
            }
        }
    }
}

impl Drop for KernelBatch {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Shop {
    fn work(&self, sender: &Sender<Told>) {
        while let Some((index, load)) = self.take() {
            // A broken invariant costs its run, not the batch; the hook has told where it was.
            let told = catch_unwind(AssertUnwindSafe(|| self.jobs[index].run(&self.stop)));
            self.give_back(load);
            let (kind, text, timeline) = told.unwrap_or_else(|_| ("failed", BROKEN.to_owned(), None));
            if sender.send((index, kind, text, timeline)).is_err() {
                return;
            }
        }
    }

    /// The next job, in order, once the machine has room for it.
    fn take(&self) -> Option<(usize, f64)> {
        let mut state = self.lock();
        loop {
            let index = state.next;
            let job = self.jobs.get(index).filter(|_| !self.stop.load(Ordering::Relaxed))?;
            let load = job.load_mbps();
            if state.running == 0 || state.load_mbps + load <= self.budget_mbps {
                state.next += 1;
                state.running += 1;
                state.load_mbps += load;
                return Some((index, load));
            }
            state = self.freed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn give_back(&self, load: f64) {
        let mut state = self.lock();
        state.running -= 1;
        state.load_mbps -= load;
        self.freed.notify_all();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Job {
    /// What its links can carry together towards the receiver.
    fn load_mbps(&self) -> f64 {
        /// What a trace counts as.
        const TRACE_MBPS: f64 = 20.0;
        let rate = |rate: &Rate| match rate {
            Rate::Constant(rate) => rate.as_bps() as f64 / 1e6,
            Rate::Trace(_) => TRACE_MBPS,
        };
        self.variant.config.paths.iter().map(|path| rate(&path.data.rate)).sum()
    }

    fn run(&self, stop: &AtomicBool) -> (&'static str, String, Option<String>) {
        if let Some(why) = order::obstacle(&self.variant, &self.cc) {
            return ("skipped", why, None);
        }
        match self.measured(stop) {
            Ok(measured) => {
                let row = row::row(&self.variant.config, &measured);
                let timeline = row::timeline(&self.variant.config, &measured.outcome);
                ("row", row.to_string(), Some(timeline.to_string()))
            }
            Err(error @ EmuError::Missing { .. }) => ("skipped", error.to_string(), None),
            Err(error) => ("failed", error.to_string(), None),
        }
    }

    fn measured(&self, stop: &AtomicBool) -> Result<Measured, EmuError> {
        let config = &self.variant.config;
        let plan: LabPlan = lab(config, self.seed);
        let (setup, transfer) = (order::setup(config), order::transfer(&self.variant, &self.cc, self.seed));
        let mut measured = measure(&plan, &setup, &transfer, None, stop)?;
        for _ in 0..REPEATS {
            if measured.report.lateness.is_fit() {
                break;
            }
            measured = measure(&plan, &setup, &transfer, None, stop)?;
        }
        Ok(measured)
    }
}
