//! Work on several threads that hold no interpreter.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};
use std::thread;

use pyo3::prelude::*;

use crate::errors::SimulationError;

/// Results of `work` for each of `items`, in their order, on so many threads.
pub fn each<I: Sync, T: Send>(
    py: Python<'_>,
    items: &[I],
    threads: usize,
    work: impl Fn(&I) -> T + Sync,
) -> PyResult<Vec<T>> {
    let next = AtomicUsize::new(0);
    let results: Vec<Mutex<Option<T>>> = items.iter().map(|_| Mutex::new(None)).collect();
    let on_thread = || {
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(item) = items.get(at) else { return };
            *results[at].lock().unwrap_or_else(PoisonError::into_inner) = Some(work(item));
        }
    };
    let joined = py.detach(|| {
        thread::scope(|scope| {
            let threads: Vec<_> = (0..threads.clamp(1, items.len().max(1))).map(|_| scope.spawn(on_thread)).collect();
            threads.into_iter().map(|thread| thread.join().is_ok()).fold(true, |all, one| all & one)
        })
    });
    if !joined {
        return Err(SimulationError::new_err("the simulator failed; this is a defect of Weftway"));
    }
    Ok(results.into_iter().filter_map(|result| result.into_inner().unwrap_or_else(PoisonError::into_inner)).collect())
}
