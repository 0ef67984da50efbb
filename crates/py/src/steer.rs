//! Schedulers of the registry that steer the running kernel, for Python: in labs, and in the caller's namespace.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::{Value, json};
use weftway_emu::steer::{self, Askers, Connection, Mode, Settings};
use weftway_path::Span;

use crate::errors::Error;
use crate::kernel::told;
use crate::scenario::VariantView;

/// Why the scheduler that `spec` names cannot steer the kernel, if it cannot.
#[pyfunction]
pub fn steering_obstacle(spec: &str) -> Result<Option<String>, Error> {
    Ok(steer::steering_obstacle(spec)?)
}

/// A run in a lab of its own, on a thread of its own.
#[pyclass(frozen, module = "weftway._native")]
pub struct SteeredRun {
    told: Arc<Mutex<Option<(&'static str, String)>>>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<()>>>,
}

#[pymethods]
impl SteeredRun {
    /// Starts the transfer of `variant`. Without a scheduler nobody steers.
    #[new]
    fn new(
        variant: &Bound<'_, VariantView>,
        scheduler: Option<String>,
        cc: String,
        seed: u64,
        interval_ms: f64,
        preferred: bool,
    ) -> Self {
        let (variant, settings) = (variant.get().variant.clone(), settings(interval_ms, preferred, None));
        let run = steer::SteeredRun { variant, scheduler, cc, seed, settings };
        let (result, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (result, stop) = (result.clone(), stop.clone());
            move || {
                let (kind, text, _) = told(run.run(&stop));
                *lock(&result) = Some((kind, text));
            }
        });
        Self { told: result, stop, thread: Mutex::new(Some(thread)) }
    }

    /// `row` and its JSON, or `skipped` or `failed` and why, if it is over.
    fn told(&self) -> Option<(&'static str, String)> {
        let is_over = lock(&self.thread).as_ref().is_none_or(JoinHandle::is_finished);
        let told = lock(&self.told).clone();
        told.or_else(|| is_over.then(|| ("failed", "the run broke off; this is a defect of Weftway".to_owned())))
    }

    /// Stops it and waits until it has taken its lab away.
    fn cancel(&self, py: Python<'_>) {
        self.stop.store(true, Ordering::Relaxed);
        let thread = lock(&self.thread).take();
        py.detach(|| thread.map(JoinHandle::join));
    }
}

impl Drop for SteeredRun {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

/// Steers the connections of the caller's namespace until it is stopped.
#[pyclass(frozen, module = "weftway._native")]
pub struct LiveSteering(Mutex<Option<steer::LiveSteering>>);

#[pymethods]
impl LiveSteering {
    /// Begins.
    #[new]
    fn new(scheduler: &str, interval_ms: f64, preferred: bool, token: Option<u32>) -> Result<Self, Error> {
        let settings = settings(interval_ms, preferred, token);
        let steering = steer::LiveSteering::start(Askers::new(scheduler)?, settings)?;
        Ok(Self(Mutex::new(Some(steering))))
    }

    /// The connections, as JSON; `None` when steering has ended by itself, which `stop` explains.
    fn connections(&self, py: Python<'_>, seconds: f64) -> Option<String> {
        py.detach(|| thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()));
        let steering = lock(&self.0);
        let connections = steering.as_ref().filter(|steering| steering.is_running())?.connections();
        Some(Value::Array(connections.iter().map(connection).collect()).to_string())
    }

    /// Restores the priorities: what was done, as JSON.
    fn stop(&self, py: Python<'_>) -> PyResult<String> {
        let Some(steering) = lock(&self.0).take() else { return Ok("null".to_owned()) };
        let report = py.detach(|| steering.stop()).map_err(Error::from)?;
        Ok(Value::Object(report.columns()).to_string())
    }
}

fn settings(interval_ms: f64, preferred: bool, token: Option<u32>) -> Settings {
    let mode = if preferred { Mode::Preferred } else { Mode::Exclusive };
    Settings { interval: Span::from_secs_f64(interval_ms / 1e3).max(Span::from_millis(1)), mode, token }
}

fn connection(of: &Connection) -> Value {
    let subflows = of.paths.iter().zip(&of.ends).map(|(path, ends)| {
        json!({
            "local": ends.0.to_string(),
            "remote": ends.1.to_string(),
            "srtt_ms": path.srtt.as_millis_f64(),
            "cwnd": path.cwnd.get(),
            "sent": path.sent.bytes.get(),
            "chosen": Some(path.id) == of.chosen,
        })
    });
    json!({ "token": of.token, "subflows": subflows.collect::<Vec<_>>(), "obstacle": of.obstacle })
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
