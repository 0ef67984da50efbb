//! Many runs of the kernel, in as many labs at once as the machine bears.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::kernel::{KernelRun, RunResult};

/// Load that two cores carry together without being late, in Mbit/s; a link of more runs alone. One of 930 Mbit/s keeps
/// both busy.
const BUDGET_MBPS: f64 = 600.0;

const BROKEN: &str = "the run broke off; this is a defect of Weftway, not of the scenario";

/// Runs under way, in the order given.
#[derive(Debug)]
pub struct Batch {
    shared: Arc<Shared>,
    finished: Mutex<Receiver<(usize, RunResult)>>,
    remaining: AtomicUsize,
}

/// State that the threads share.
#[derive(Debug)]
struct Shared {
    runs: Vec<KernelRun>,
    stop: AtomicBool,
    budget: Mutex<LoadBudget>,
    freed: Condvar,
}

/// Which runs go on at once: the next one starts when its load fits beside what runs, or when nothing runs.
#[derive(Debug)]
struct LoadBudget {
    most_mbps: f64,
    loads_mbps: Vec<f64>,
    next: usize,
    running: usize,
    load_mbps: f64,
}

impl Batch {
    /// Starts `runs` in at most so many labs at a time.
    pub fn start(runs: Vec<KernelRun>, labs: usize) -> Self {
        let cores = thread::available_parallelism().map_or(1, usize::from);
        let loads = runs.iter().map(KernelRun::load_mbps).collect();
        let budget = LoadBudget::new(BUDGET_MBPS * cores as f64 / 2.0, loads);
        let remaining = AtomicUsize::new(runs.len());
        let (stop, budget, freed) = (AtomicBool::new(false), Mutex::new(budget), Condvar::new());
        let shared = Arc::new(Shared { runs, stop, budget, freed });
        let (sender, receiver) = channel();
        for _ in 0..labs.clamp(1, shared.runs.len().max(1)) {
            let (shared, sender) = (shared.clone(), sender.clone());
            thread::spawn(move || shared.work(&sender));
        }
        Self { shared, finished: Mutex::new(receiver), remaining }
    }

    /// Number of runs that are not finished.
    pub fn remaining(&self) -> usize {
        self.remaining.load(Ordering::Relaxed)
    }

    /// Runs that finished meanwhile, by their places in the order; waits at most so long for the first.
    pub fn wait(&self, patience: Duration) -> Vec<(usize, RunResult)> {
        let receiver = self.finished.lock().unwrap_or_else(PoisonError::into_inner);
        let finished: Vec<_> = match receiver.recv_timeout(patience) {
            Ok(first) => std::iter::once(first).chain(receiver.try_iter()).collect(),
            Err(RecvTimeoutError::Timeout) => Vec::new(),
            Err(RecvTimeoutError::Disconnected) => {
                self.remaining.store(0, Ordering::Relaxed);
                Vec::new()
            }
        };
        self.remaining.fetch_sub(finished.len(), Ordering::Relaxed);
        finished
    }

    /// Stops everything, also what is running.
    pub fn cancel(&self) {
        // Under the lock: whoever is about to wait has seen it, or will be woken.
        let _budget = self.shared.lock();
        self.shared.stop.store(true, Ordering::Relaxed);
        self.shared.freed.notify_all();
    }
}

impl Drop for Batch {
    fn drop(&mut self) {
        self.cancel();
    }
}

impl Shared {
    fn work(&self, sender: &Sender<(usize, RunResult)>) {
        while let Some(index) = self.take() {
            // A broken invariant costs its run, not the batch; the hook has told where it was.
            let result = catch_unwind(AssertUnwindSafe(|| self.runs[index].run(&self.stop)));
            self.lock().finished(index);
            self.freed.notify_all();
            let result = result.unwrap_or_else(|_| RunResult::Failed(BROKEN.to_owned()));
            if sender.send((index, result)).is_err() {
                return;
            }
        }
    }

    /// The next run, once the machine has room for it.
    fn take(&self) -> Option<usize> {
        let mut budget = self.lock();
        while !self.stop.load(Ordering::Relaxed) && !budget.is_empty() {
            if let Some(index) = budget.take() {
                return Some(index);
            }
            budget = self.freed.wait(budget).unwrap_or_else(PoisonError::into_inner);
        }
        None
    }

    fn lock(&self) -> MutexGuard<'_, LoadBudget> {
        self.budget.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl LoadBudget {
    fn new(most_mbps: f64, loads_mbps: Vec<f64>) -> Self {
        Self { most_mbps, loads_mbps, next: 0, running: 0, load_mbps: 0.0 }
    }

    /// Returns true if every run has started.
    fn is_empty(&self) -> bool {
        self.next == self.loads_mbps.len()
    }

    /// The next run, in order, if there is room for it.
    fn take(&mut self) -> Option<usize> {
        let load = *self.loads_mbps.get(self.next)?;
        if self.running > 0 && self.load_mbps + load > self.most_mbps {
            return None;
        }
        self.next += 1;
        self.running += 1;
        self.load_mbps += load;
        Some(self.next - 1)
    }

    fn finished(&mut self, index: usize) {
        self.running -= 1;
        self.load_mbps -= self.loads_mbps[index];
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::variant;

    #[test]
    fn runs_go_on_together_while_their_loads_fit() {
        let mut budget = LoadBudget::new(600.0, vec![400.0, 200.0, 100.0, 50.0]);
        assert_eq!([budget.take(), budget.take(), budget.take()], [Some(0), Some(1), None]);
        // The order is kept: a small run does not overtake.
        budget.finished(1);
        assert_eq!([budget.take(), budget.take(), budget.take()], [Some(2), Some(3), None]);
        assert!(budget.is_empty());
    }

    #[test]
    fn more_than_the_budget_runs_alone() {
        let mut budget = LoadBudget::new(600.0, vec![10.0, 930.0, 10.0]);
        assert_eq!([budget.take(), budget.take()], [Some(0), None]);
        budget.finished(0);
        assert_eq!([budget.take(), budget.take()], [Some(1), None]);
        budget.finished(1);
        assert_eq!(budget.take(), Some(2));
    }

    fn batch(runs: usize, labs: usize) -> Batch {
        let run = KernelRun { variant: variant(&["transport=mpquic"]), cc: "cubic".to_owned(), seed: 1 };
        Batch::start(vec![run; runs], labs)
    }

    #[test]
    fn every_run_comes_back_once() {
        let batch = batch(5, 2);
        let mut finished = Vec::new();
        while batch.remaining() > 0 {
            finished.extend(batch.wait(Duration::from_secs(1)));
        }
        finished.sort_by_key(|(index, _)| *index);
        assert_eq!(finished.iter().map(|(index, _)| *index).collect::<Vec<_>>(), [0, 1, 2, 3, 4]);
        assert!(finished.iter().all(|(_, result)| matches!(result, RunResult::Skipped(_))));
    }

    #[test]
    fn a_batch_that_was_cancelled_ends() {
        let batch = batch(1000, 2);
        batch.cancel();
        while batch.remaining() > 0 {
            batch.wait(Duration::from_secs(1));
        }
        assert!(batch.wait(Duration::ZERO).is_empty());
    }
}
