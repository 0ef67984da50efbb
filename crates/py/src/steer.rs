//! Schedulers of the registry that steer the running kernel, for Python: in labs, and in the caller's namespace.

use std::collections::HashMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::{Value, json};
use weftway_emu::EmuError;
use weftway_emu::kernel::{Measured, measure};
use weftway_emu::steer::{self, Connection, Mode, Report, Settings, Steering, Tally};
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Context, Decision, Event, Offset, Path, PathId, Receipt, SendKind, Span};
use weftway_scenario::Variant;
use weftway_sched::{Needs, Scheduler};

use crate::emulate::lab;
use crate::errors::Error;
use crate::kernel::{REPEATS, order, row};
use crate::scenario::VariantView;

/// Why the scheduler that `spec` names cannot steer the kernel, if it cannot.
#[pyfunction]
pub fn steering_obstacle(spec: &str) -> Result<Option<String>, Error> {
    let (entry, spec) = weftway_sched::parse(spec)?;
    let Needs { flow, queueing, copies, ahead, recall, device, .. } = entry.make(&spec.given)?.needs();
    let lacking = [
        (flow, "a view of the connection's data (flow)"),
        (queueing, "paths that queue"),
        (copies, "copies"),
        (ahead, "data out of order (ahead)"),
        (recall, "data taken back from a path's queue (recall)"),
        (device, "a view of what the sender's device holds (device)"),
    ];
    let lacking: Vec<&str> = lacking.into_iter().filter_map(|(needed, what)| needed.then_some(what)).collect();
    Ok((!lacking.is_empty())
        .then(|| format!("it needs {}, which the kernel does not offer to those who steer it", lacking.join(", "))))
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
        let job = Job {
            variant: variant.get().variant.clone(),
            scheduler,
            cc,
            seed,
            settings: settings(interval_ms, preferred, None),
        };
        let (told, stop) = (Arc::new(Mutex::new(None)), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (told, stop) = (told.clone(), stop.clone());
            move || *lock(&told) = Some(job.told(&stop))
        });
        Self { told, stop, thread: Mutex::new(Some(thread)) }
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

struct Job {
    variant: Arc<Variant>,
    scheduler: Option<String>,
    cc: String,
    seed: u64,
    settings: Settings,
}

impl Job {
    fn told(&self, stop: &AtomicBool) -> (&'static str, String) {
        if let Some(why) = self.obstacle() {
            return ("skipped", why);
        }
        match self.row(stop) {
            Ok(row) => ("row", row.to_string()),
            Err(error @ EmuError::Missing { .. }) => ("skipped", error.to_string()),
            Err(error) => ("failed", error.to_string()),
        }
    }

    fn obstacle(&self) -> Option<String> {
        let alone = self.variant.config.paths.len() < 2;
        let tcp = self.variant.transport != "mptcp";
        let obstacle = order::obstacle(&self.variant, &self.cc);
        obstacle.or_else(|| (alone || tcp).then(|| "there is nothing to steer in a connection of one path".to_owned()))
    }

    fn row(&self, stop: &AtomicBool) -> Result<Value, EmuError> {
        let mut run = self.measured(stop)?;
        for _ in 0..REPEATS {
            if run.0.report.lateness.is_fit() {
                break;
            }
            run = self.measured(stop)?;
        }
        let (measured, report) = run;
        let mut row = row::row(&self.variant.config, &measured);
        if let (Some(row), Value::Object(more)) = (row.as_object_mut(), told(&report)) {
            row.extend(more);
        }
        Ok(row)
    }

    fn measured(&self, stop: &AtomicBool) -> Result<(Measured, Report), EmuError> {
        let config = &self.variant.config;
        let (plan, setup) = (lab(config, self.seed), order::setup(config));
        let transfer = order::transfer(&self.variant, &self.cc, self.seed);
        let Some(scheduler) = &self.scheduler else {
            return Ok((measure(&plan, &setup, &transfer, None, stop)?, Report::default()));
        };
        let mut askers = Askers::new(scheduler).map_err(|error| EmuError::Transfer(error.to_string()))?;
        steer::measure((&plan, &setup, &transfer), self.settings, &mut |token, cx| askers.ask(token, cx), stop)
    }
}

/// Steers the connections of the caller's namespace until it is stopped.
#[pyclass(frozen, module = "weftway._native")]
pub struct LiveSteering {
    state: Arc<Mutex<Value>>,
    stop: Arc<AtomicBool>,
    thread: Mutex<Option<JoinHandle<Result<Report, EmuError>>>>,
}

#[pymethods]
impl LiveSteering {
    /// Begins.
    #[new]
    fn new(scheduler: &str, interval_ms: f64, preferred: bool, token: Option<u32>) -> Result<Self, Error> {
        let mut askers = Askers::new(scheduler)?;
        let mut steering = Steering::open(settings(interval_ms, preferred, token))?;
        let (state, stop) = (Arc::new(Mutex::new(Value::Null)), Arc::new(AtomicBool::new(false)));
        let thread = thread::spawn({
            let (state, stop) = (state.clone(), stop.clone());
            move || {
                while !stop.load(Ordering::Relaxed) {
                    steering.step(&mut |token, cx| askers.ask(token, cx))?;
                    askers.retain(steering.connections());
                    *lock(&state) = Value::Array(steering.connections().iter().map(connection).collect());
                    steering.wait()?;
                }
                steering.finish()
            }
        });
        Ok(Self { state, stop, thread: Mutex::new(Some(thread)) })
    }

    /// The connections, as JSON; `None` when steering has ended by itself, which `stop` explains.
    fn connections(&self, py: Python<'_>, seconds: f64) -> Option<String> {
        py.detach(|| thread::sleep(Duration::try_from_secs_f64(seconds).unwrap_or_default()));
        let runs = lock(&self.thread).as_ref().is_some_and(|thread| !thread.is_finished());
        runs.then(|| lock(&self.state).to_string())
    }

    /// Restores the priorities: what was done, as JSON.
    fn stop(&self, py: Python<'_>) -> PyResult<String> {
        self.stop.store(true, Ordering::Relaxed);
        let Some(thread) = lock(&self.thread).take() else { return Ok("null".to_owned()) };
        let report = py.detach(|| thread.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        Ok(told(&report.map_err(Error::from)?).to_string())
    }
}

impl Drop for LiveSteering {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        // The thread restores the priorities. It never waits for Python, and there is nobody to tell of a failure.
        let _ = lock(&self.thread).take().map(JoinHandle::join);
    }
}

/// A scheduler for each connection.
struct Askers {
    spec: String,
    by_token: HashMap<u32, Asker>,
}

/// A scheduler that is asked once per interval, and what it has been told.
///
/// The kernel tells no packet by itself. What a path sent, had acknowledged and lost between two looks is told as one
/// event of each kind, in bytes; `Sent` only of the path that was chosen, so that a turn lasts an interval.
struct Asker {
    scheduler: Box<dyn Scheduler>,
    known: Vec<Path>,
    chosen: Option<PathId>,
    serial: u64,
}

impl Askers {
    fn new(spec: &str) -> Result<Self, SpecError> {
        weftway_sched::build(spec)?;
        Ok(Self { spec: spec.to_owned(), by_token: HashMap::new() })
    }

    fn ask(&mut self, token: u32, cx: &Context<'_>) -> Decision {
        let asker = self.by_token.entry(token).or_insert_with(|| Asker::new(&self.spec));
        asker.ask(cx)
    }

    /// Forgets the connections that are gone.
    fn retain(&mut self, connections: &[Connection]) {
        self.by_token.retain(|token, _| connections.iter().any(|connection| connection.token == *token));
    }
}

impl Asker {
    fn new(spec: &str) -> Self {
        let scheduler = weftway_sched::build(spec).expect("it was built before");
        Self { scheduler, known: Vec::new(), chosen: None, serial: 0 }
    }

    fn ask(&mut self, cx: &Context<'_>) -> Decision {
        for event in self.events(cx) {
            self.scheduler.observe(cx, &event);
        }
        self.known = cx.paths.to_vec();
        let decision = self.scheduler.select(cx);
        if let Decision::Send(path) = decision {
            self.chosen = Some(path);
            self.serial += 1;
        }
        decision
    }

    /// What happened since the last question.
    fn events(&self, cx: &Context<'_>) -> Vec<Event> {
        let gone = self.known.iter().filter(|path| cx.path(path.id).is_none()).map(|path| Event::PathDown(path.id));
        let mut events: Vec<Event> = gone.collect();
        for path in cx.paths {
            match self.known.iter().find(|known| known.id == path.id) {
                // Another path has the number of one that is gone.
                Some(before) if path.sent.bytes < before.sent.bytes => {
                    events.extend([Event::PathDown(path.id), Event::PathUp(path.id)]);
                }
                Some(before) => self.moved(before, path, &mut events),
                None => events.push(Event::PathUp(path.id)),
            }
        }
        if self.scheduler.wake().is_some_and(|at| at <= cx.now) {
            events.push(Event::Wake);
        }
        events
    }

    fn moved(&self, before: &Path, now: &Path, events: &mut Vec<Event>) {
        let serial = self.serial.saturating_sub(1);
        let receipt = |bytes| Receipt { path: now.id, offset: Offset::ZERO, bytes, serial };
        let grown = |of: fn(&Path) -> Bytes| of(now).saturating_sub(of(before));
        let (sent, acked, lost) =
            (grown(|path| path.sent.bytes), grown(|path| path.acked.bytes), grown(|path| path.lost.bytes));
        if sent > Bytes::ZERO && self.chosen == Some(now.id) {
            events.push(Event::Sent(receipt(sent), SendKind::Fresh));
        }
        if acked > Bytes::ZERO {
            events.push(Event::Acked(receipt(acked)));
        }
        if lost > Bytes::ZERO {
            events.push(Event::Lost(receipt(lost)));
        }
        if now.ssthresh < before.ssthresh {
            events.push(Event::Congestion(now.id));
        }
    }
}

fn settings(interval_ms: f64, preferred: bool, token: Option<u32>) -> Settings {
    let mode = if preferred { Mode::Preferred } else { Mode::Exclusive };
    Settings { interval: Span::from_secs_f64(interval_ms / 1e3).max(Span::from_millis(1)), mode, token }
}

fn told(report: &Report) -> Value {
    let micros = |span: Span| (span.as_nanos() as f64 / 1e2).round() / 10.0;
    let tally = |tally: &Tally| json!([tally.calls, micros(tally.mean()), micros(tally.most)]);
    json!({
        "steer_ms": report.elapsed.as_millis_f64(),
        "steer_connections": report.connections,
        "steer_decisions": report.decisions,
        "steer_waits": report.waits,
        "steer_switches": report.switches,
        "steer_joins": report.joins,
        "steer_errors": report.errors,
        "steer_last_error": report.last_error,
        // Calls, their mean and their longest time in µs.
        "steer_looks": tally(&report.looks),
        "steer_questions": tally(&report.questions),
        "steer_orders": tally(&report.orders),
    })
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
