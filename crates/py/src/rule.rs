//! A scheduler written in Python: a class with `select(self, cx)` and, if it likes,
//! `observe(self, cx, event)`, `wake(self)` and `explain(self, cx)`.
//!
//! The first thing that goes wrong is kept and ends the run's usefulness: from then on the rule is
//! not asked again, the run is finished on the first open path, and its result is thrown away.
//!
//! It draws from `cx.rng`, which is seeded for each question from the run's seed and the number of events told so far:
//! asked again with no event between, it draws the same.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, OnceLock};

use pyo3::exceptions::{PyAttributeError, PyKeyboardInterrupt, PySystemExit};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::{PyBool, PyString, PyTraceback};
use weftway_path::{Context, Decision, Event, Instant, Offset, PathId};
use weftway_scenario::mix;
use weftway_sched::{Needs, Scheduler};

use crate::errors::{ScenarioError, SimulationError};
use crate::view::{ContextView, EventView, PathView};

/// An answer: the first unsent packet at or after `offset` goes on `path`.
#[pyclass(frozen, module = "weftway")]
pub struct Ahead(PathId, Offset);

/// An answer: a copy of the first unacknowledged packet at or after `offset` goes on `path`.
#[pyclass(frozen, module = "weftway")]
pub struct Repeat(PathId, Offset);

/// An answer: what waits unsent in the queue of `path` goes back to the connection.
#[pyclass(frozen, module = "weftway")]
pub struct Recall(PathId);

#[pymethods]
impl Recall {
    #[new]
    fn new(path: &Bound<'_, PyAny>) -> PyResult<Self> {
        Ok(Self(path_id(path)?))
    }

    fn __repr__(&self) -> String {
        format!("Recall({})", self.0.get())
    }
}

#[pymethods]
impl Ahead {
    #[new]
    fn new(path: &Bound<'_, PyAny>, offset: u64) -> PyResult<Self> {
        Ok(Self(path_id(path)?, Offset::new(offset)))
    }

    fn __repr__(&self) -> String {
        format!("Ahead({}, {})", self.0.get(), self.1.get())
    }
}

#[pymethods]
impl Repeat {
    #[new]
    fn new(path: &Bound<'_, PyAny>, offset: u64) -> PyResult<Self> {
        Ok(Self(path_id(path)?, Offset::new(offset)))
    }

    fn __repr__(&self) -> String {
        format!("Repeat({}, {})", self.0.get(), self.1.get())
    }
}

/// Knowledge of a rule when its run is over. Its copies share it.
#[derive(Clone, Default)]
pub struct RuleOutcome(Arc<Known>);

#[derive(Default)]
struct Known {
    /// The first thing that went wrong.
    fault: OnceLock<PyErr>,
    /// True if an answer was anything but to wait.
    has_sent: AtomicBool,
}

impl RuleOutcome {
    /// Why the run of the rule called `name` is no result, if it is none. A rule that never sends leaves every packet
    /// to the engine: the numbers would be the engine's.
    pub fn objection(&self, py: Python<'_>, name: &str) -> Option<PyErr> {
        if let Some(error) = self.0.fault.get() {
            return Some(error.clone_ref(py));
        }
        let idle = format!(
            "scheduler `{name}` sent nothing: every answer of its `select` was None, so the engine sent all packets \
             itself and the run says nothing about the rule"
        );
        (!self.0.has_sent.load(Ordering::Relaxed)).then(|| SimulationError::new_err(idle))
    }
}

/// An object of a Python class as a scheduler.
pub struct PythonScheduler {
    object: Py<PyAny>,
    name: Arc<str>,
    paths: Arc<[String]>,
    hooks: Hooks,
    needs: Needs,
    /// Place where `select` begins: an answer that makes no sense has no traceback.
    home: Option<Place>,
    outcome: RuleOutcome,
    draws: Draws,
}

/// Draws of an object: a stream of its own, of which each question and each event has a part.
struct Draws {
    stream: u64,
    /// Number of events that the object was told.
    told: u64,
    /// Number of copies, of this object and of copies; all of them know.
    copies: Arc<AtomicU64>,
}

/// The component of a run's seed that rules in Python draw from.
const COMPONENT: u64 = 0x7275_6c65;

impl Draws {
    fn new(seed: u64) -> Self {
        Self { stream: mix(seed, COMPONENT), told: 0, copies: Arc::default() }
    }

    /// The seed of the questions until the next event.
    fn of_question(&self) -> u64 {
        mix(self.stream, 2 * self.told)
    }

    /// The seed of the event told last.
    fn of_event(&self) -> u64 {
        mix(self.stream, 2 * self.told - 1)
    }
}

impl Clone for Draws {
    /// A copy draws from another stream.
    fn clone(&self) -> Self {
        let number = self.copies.fetch_add(1, Ordering::Relaxed) + 1;
        Self { stream: mix(self.stream, u64::MAX - number), told: self.told, copies: self.copies.clone() }
    }
}

/// File and line.
type Place = (String, u32);

/// Which of the optional methods the class has.
#[derive(Clone, Copy)]
struct Hooks {
    observe: bool,
    wake: bool,
    explain: bool,
}

impl PythonScheduler {
    /// A new object of `class` for a run with this seed, and where to ask afterwards what became of it.
    pub fn new(class: &Bound<'_, PyAny>, name: &str, paths: &[String], seed: u64) -> PyResult<(Self, RuleOutcome)> {
        let py = class.py();
        let home = select_of(class).ok();
        let object = class.call0().map_err(|error| described(py, error, name, "before the first packet", &home))?;
        let needs = needs(&object, name)?;
        let hooks = Hooks {
            observe: object.hasattr("observe")?,
            wake: object.hasattr("wake")?,
            explain: object.hasattr("explain")?,
        };
        let outcome = RuleOutcome::default();
        let object = object.unbind();
        let (name, paths) = (name.into(), paths.into());
        let rule = Self { object, name, paths, hooks, needs, home, outcome: outcome.clone(), draws: Draws::new(seed) };
        Ok((rule, outcome))
    }

    /// Answer of `ask`, or nothing once something went wrong.
    fn asked<T>(&self, now: Option<Instant>, ask: impl FnOnce(Python<'_>) -> PyResult<T>) -> Option<T> {
        let fault = &self.outcome.0.fault;
        if fault.get().is_some() {
            return None;
        }
        Python::attach(|py| {
            let when = now.map_or_else(|| "when asked for its wake".to_owned(), |now| format!("at {now}"));
            ask(py).map_err(|error| fault.set(described(py, error, &self.name, &when, &self.home))).ok()
        })
    }

    fn decide(&self, py: Python<'_>, cx: &Context<'_>) -> PyResult<Decision> {
        let view = Py::new(py, ContextView::new(py, cx, &self.paths, self.draws.of_question())?)?;
        let answer = self.object.bind(py).call_method1(intern!(py, "select"), (view,))?;
        let decision = decision(&answer)?;
        match self.objection(cx, decision) {
            None => {
                if decision != Decision::Wait {
                    self.outcome.0.has_sent.store(true, Ordering::Relaxed);
                }
                Ok(decision)
            }
            Some(why) => Err(SimulationError::new_err(format!("select answered {}, {why}", answer.repr()?))),
        }
    }

    /// Why `decision` cannot be carried out, if it cannot.
    fn objection(&self, cx: &Context<'_>, decision: Decision) -> Option<&'static str> {
        let Needs { queueing, copies, ahead, recall, .. } = self.needs;
        let (path, declared) = match decision {
            Decision::Recall(path) => (path, recall),
            Decision::Wait => return None,
            Decision::Send(path) => (path, true),
            Decision::Ahead(path, _) => (path, ahead),
            Decision::Repeat(path, _) => (path, copies),
        };
        match cx.path(path) {
            None => Some("a path that is not there"),
            Some(_) if !declared => Some("which the class must announce in its `needs`"),
            Some(_) if matches!(decision, Decision::Recall(_)) => None,
            Some(path) if !path.is_open() && !queueing => Some("a path that cannot send now"),
            Some(_) => None,
        }
    }
}

impl Scheduler for PythonScheduler {
    fn needs(&self) -> Needs {
        self.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let spare = || cx.sendable().next().map_or(Decision::Wait, |path| Decision::Send(path.id));
        self.asked(Some(cx.now), |py| self.decide(py, cx)).unwrap_or_else(spare)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.draws.told += 1;
        if self.hooks.observe {
            self.asked(Some(cx.now), |py| {
                let view = Py::new(py, ContextView::new(py, cx, &self.paths, self.draws.of_event())?)?;
                let event = Py::new(py, EventView::from(event))?;
                self.object.bind(py).call_method1(intern!(py, "observe"), (view, event)).map(drop)
            });
        }
    }

    fn wake(&self) -> Option<Instant> {
        let ask = |py: Python<'_>| self.object.bind(py).call_method0(intern!(py, "wake"))?.extract::<Option<f64>>();
        let ms = if self.hooks.wake { self.asked(None, ask)?? } else { return None };
        // `as` saturates: a time before the start is the start.
        Some(Instant::from_nanos((ms * 1e6).round() as u64))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        if !self.hooks.explain {
            return None;
        }
        self.asked(Some(cx.now), |py| {
            let view = Py::new(py, ContextView::new(py, cx, &self.paths, self.draws.of_question())?)?;
            self.object.bind(py).call_method1(intern!(py, "explain"), (view,))?.extract::<Option<String>>()
        })?
    }
}

impl Clone for PythonScheduler {
    /// A deep copy, so that a future can be tried without touching the present.
    fn clone(&self) -> Self {
        let copy = |py: Python<'_>| {
            let copied = py.import("copy")?.call_method1("deepcopy", (self.object.bind(py),))?;
            Ok(copied.unbind())
        };
        let object = self.asked(None, copy).unwrap_or_else(|| Python::attach(|py| self.object.clone_ref(py)));
        let Self { name, paths, hooks, needs, home, outcome, draws, .. } = self;
        Self {
            object,
            name: name.clone(),
            paths: paths.clone(),
            hooks: *hooks,
            needs: *needs,
            home: home.clone(),
            outcome: outcome.clone(),
            draws: draws.clone(),
        }
    }
}

fn decision(answer: &Bound<'_, PyAny>) -> PyResult<Decision> {
    if answer.is_none() {
        return Ok(Decision::Wait);
    }
    if let Ok(Ahead(path, offset)) = answer.cast::<Ahead>().map(Bound::get) {
        return Ok(Decision::Ahead(*path, *offset));
    }
    if let Ok(Repeat(path, offset)) = answer.cast::<Repeat>().map(Bound::get) {
        return Ok(Decision::Repeat(*path, *offset));
    }
    if let Ok(Recall(path)) = answer.cast::<Recall>().map(Bound::get) {
        return Ok(Decision::Recall(*path));
    }
    path_id(answer).map(Decision::Send)
}

fn path_id(value: &Bound<'_, PyAny>) -> PyResult<PathId> {
    if let Ok(view) = value.cast::<PathView>() {
        return Ok(view.get().path.id);
    }
    let number = if value.is_instance_of::<PyBool>() { None } else { value.extract::<u8>().ok() };
    match number {
        Some(number) if usize::from(number) < PathId::MAX_PATHS => Ok(PathId::new(number)),
        _ => {
            let text = value.repr().map_or_else(|_| "something without a repr".to_owned(), |text| text.to_string());
            let expected = "expected a path, its id, Ahead, Repeat, Recall or None";
            Err(SimulationError::new_err(format!("select answered {text}; {expected}")))
        }
    }
}

/// An error as one message with the place, the scheduler and the simulated time. An interrupt stays one.
fn described(py: Python<'_>, error: PyErr, name: &str, when: &str, home: &Option<Place>) -> PyErr {
    if error.is_instance_of::<PyKeyboardInterrupt>(py) {
        return error;
    }
    let ends = error.is_instance_of::<PySystemExit>(py);
    let kind = error.get_type(py).name().map_or_else(|_| "an error".to_owned(), |name| name.to_string());
    let what = if error.is_instance_of::<SimulationError>(py) {
        error.value(py).to_string()
    } else {
        format!("{kind}: {}{}", error.value(py), attributes(py, &error).unwrap_or_default())
    };
    let place = error.traceback(py).and_then(|traceback| innermost(&traceback).ok()).or_else(|| home.clone());
    let place = place.map_or_else(String::new, |(file, line)| format!("{file}:{line}: "));
    let failed = if ends { "ended the program" } else { "failed" };
    let described = SimulationError::new_err(format!("{place}scheduler `{name}` {failed} {when}: {what}"));
    described.set_cause(py, Some(error));
    described
}

/// Attributes of one of our views, after an error about one that it has not.
fn attributes(py: Python<'_>, error: &PyErr) -> Option<String> {
    if !error.is_instance_of::<PyAttributeError>(py) {
        return None;
    }
    let asked = error.value(py).getattr("obj").ok()?;
    let class = asked.get_type();
    if class.module().ok()? != "weftway" {
        return None;
    }
    let names: Vec<String> = asked.dir().ok()?.extract().ok()?;
    let names: Vec<_> = names.into_iter().filter(|name| !name.starts_with('_')).collect();
    Some(format!("; it has {}", names.join(", ")))
}

/// File and line where an exception was raised.
fn innermost(traceback: &Bound<'_, PyTraceback>) -> PyResult<Place> {
    let mut at = traceback.clone().into_any();
    loop {
        let next = at.getattr("tb_next")?;
        if next.is_none() {
            break;
        }
        at = next;
    }
    let file = at.getattr("tb_frame")?.getattr("f_code")?.getattr("co_filename")?.extract()?;
    Ok((file, at.getattr("tb_lineno")?.extract()?))
}

/// File and line where a class begins its `select`.
fn select_of(class: &Bound<'_, PyAny>) -> PyResult<Place> {
    let code = class.getattr("select")?.getattr("__code__")?;
    Ok((code.getattr("co_filename")?.extract()?, code.getattr("co_firstlineno")?.extract()?))
}

/// Needs that the class attribute `needs` names: `queueing` to send on paths without room, `copies` to answer `Repeat`,
/// `ahead` to answer `Ahead`, `recall` to answer `Recall`, `device` to see what the sender's device holds.
fn needs(object: &Bound<'_, PyAny>, scheduler: &str) -> PyResult<Needs> {
    let mut needs = Needs { flow: true, wake: true, events: true, ..Needs::NONE };
    if !object.hasattr("needs")? {
        return Ok(needs);
    }
    let told = object.getattr("needs")?;
    let names = if told.is_instance_of::<PyString>() {
        None // it would be taken letter by letter
    } else {
        told.try_iter().and_then(|names| names.map(|name| name?.extract::<String>()).collect()).ok()
    };
    let wrong = |what: String| ScenarioError::new_err(format!("scheduler `{scheduler}`: {what}"));
    let Some(names): Option<Vec<String>> = names else {
        let told = told.repr().map_or_else(|_| "something else".to_owned(), |told| told.to_string());
        return Err(wrong(format!("its `needs` is {told}; expected names, as in (\"copies\",)")));
    };
    for name in names {
        match name.as_str() {
            "queueing" => needs.queueing = true,
            "copies" => needs.copies = true,
            "ahead" => needs.ahead = true,
            "recall" => needs.recall = true,
            "device" => needs.device = true,
            // Every rule has these here.
            "flow" | "wake" | "events" => {}
            other => {
                let known = "there are queueing, copies, ahead, recall, device, flow, wake and events";
                return Err(wrong(format!("it cannot need `{other}`; {known}")));
            }
        }
    }
    Ok(needs)
}
