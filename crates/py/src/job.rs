//! A run, as Python asks for it and gets it back.

use std::any::Any;
use std::borrow::Cow;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use pyo3::prelude::*;
use weftway_oracle::{Missed, Sight};
use weftway_path::spec::SpecError;
use weftway_quic::virtual_time;
use weftway_scenario::Variant;
use weftway_scenario::config::SimConfig;
use weftway_scenario::measurement::{self, Row};
use weftway_sched::learned::build_task;
use weftway_sched::learned::demonstration::Demonstration;
use weftway_sched::learned::foreseen::Foreseen;
use weftway_sched::learned::policy_file::PolicyFile;
use weftway_sched::{Scheduler, TransportRules};
use weftway_sim::measure::Singles;
use weftway_sim::{Listener, clairvoyant, run};

use crate::errors::{Error, ScenarioError};
use crate::rule::{PythonScheduler, RuleOutcome};
use crate::scenario::VariantView;
use crate::threads::each;

/// A run to make: a `Job` of `weftway.runs.plan`.
pub struct Job {
    variant: Arc<Variant>,
    scheduler: String,
    /// The class of a scheduler in Python.
    class: Option<Py<PyAny>>,
    cc: String,
    seed: u64,
    engine: Engine,
}

/// The attributes of a `Job` of `weftway.runs.plan` that decide a run.
#[derive(FromPyObject)]
pub struct Attributes<'py> {
    /// The variant.
    pub variant: Bound<'py, VariantView>,
    scheduler: SchedulerSpec,
    /// The controller: name and version.
    pub cc: (String, String),
    /// The seed.
    pub seed: u64,
    backend: String,
}

/// A `SchedulerSpec` of `weftway.runs.specs`.
#[derive(FromPyObject)]
struct SchedulerSpec {
    name: String,
    rule: Option<Py<PyAny>>,
}

/// Engine that runs a job.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Engine {
    /// The simulator.
    Sim,
    /// Multipath QUIC in virtual time.
    Quic,
    /// picoquic in virtual time.
    Picoquic,
    /// Multipath QUIC in virtual time, received by picoquic.
    QuicToPicoquic,
}

/// A job that has ended.
pub enum Finished {
    /// The results, as JSON.
    Row(String),
    /// It cannot be run, for this reason.
    Skipped(String),
    /// Something went wrong.
    Failed(String),
}

/// A scheduler that is about to be asked.
type Asked = (Box<dyn Scheduler>, TransportRules, Option<RuleOutcome>);

/// Variant, controller and seed.
type Setting = (String, String, u64);

/// Figures of single paths, which all schedulers share.
#[derive(Default)]
pub struct Alone {
    known: Mutex<HashMap<Setting, Singles>>,
    unwanted: bool,
}

impl Finished {
    /// Kind by which Python tells them apart, and what there is to say.
    pub fn told(self) -> (&'static str, String) {
        match self {
            Self::Row(text) => ("row", text),
            Self::Skipped(text) => ("skipped", text),
            Self::Failed(text) => ("failed", text),
        }
    }

    fn of<E: std::fmt::Display>(row: Result<Row, E>) -> Self {
        row.map_or_else(
            |error| Self::Failed(error.to_string()),
            |row| Self::Row(serde_json::Value::Object(row).to_string()),
        )
    }

    /// An invariant of the simulator did not hold: what it panicked with says which. The panic's hook has told where.
    pub fn broken(panic: &(dyn Any + Send)) -> Self {
        let said = panic.downcast_ref::<String>().map(String::as_str).or_else(|| panic.downcast_ref::<&str>().copied());
        let which = said.map_or_else(String::new, |said| format!(": {said}"));
        Self::Failed(format!("the simulator failed{which}; this is a defect of Weftway, not of the scenario"))
    }
}

impl<'py> FromPyObject<'_, 'py> for Job {
    type Error = PyErr;

    fn extract(job: Borrowed<'_, 'py, PyAny>) -> PyResult<Self> {
        let Attributes { variant, scheduler, cc, seed, backend } = job.extract()?;
        let engine = match backend.as_str() {
            "quic" => Engine::Quic,
            "picoquic" => Engine::Picoquic,
            "quic-to-picoquic" => Engine::QuicToPicoquic,
            _ => Engine::Sim,
        };
        let SchedulerSpec { name, rule } = scheduler;
        Ok(Self { variant: variant.get().variant.clone(), scheduler: name, class: rule, cc: cc.0, seed, engine })
    }
}

impl Job {
    /// Returns true if a class in Python is asked: by one thread only, so that two runs cannot interleave in what the
    /// classes share.
    pub fn asks_python(&self) -> bool {
        self.class.is_some() && self.engine == Engine::Sim
    }

    /// Returns true if a timeline of it can be taken down while it runs.
    pub fn has_timeline(&self) -> bool {
        self.engine == Engine::Sim
    }

    /// Runs it with the scheduler of its name, which is none in Python. The simulator's runs are told to the listeners.
    pub fn run(&self, listeners: Vec<Box<dyn Listener>>, alone: &Alone) -> Finished {
        if let Some(why) = self.obstacle() {
            return Finished::Skipped(why);
        }
        match self.engine {
            Engine::Quic => return self.run_on_quic(alone),
            Engine::Picoquic => return self.run_on_picoquic(alone),
            Engine::QuicToPicoquic => return self.run_to_picoquic(alone),
            Engine::Sim => {}
        }
        let row = self.run_named(listeners).and_then(|finished| self.row(&finished, alone));
        row.map_or_else(|error| Finished::Failed(error.to_string()), Finished::Row)
    }

    fn run_named(&self, listeners: Vec<Box<dyn Listener>>) -> Result<run::Finished, SpecError> {
        let mut scheduler = self.inner().scheduler(&self.scheduler)?;
        self.inner().run(scheduler.as_mut(), run::transport_rules(&self.scheduler)?, listeners)
    }

    fn run_on_quic(&self, alone: &Alone) -> Finished {
        let singles = alone.find(self, || self.on_quic().singles());
        Finished::of(singles.and_then(|singles| self.on_quic().row(&self.scheduler, &singles)))
    }

    fn run_on_picoquic(&self, alone: &Alone) -> Finished {
        let job = weftway_picoquic::Job { config: &self.variant.config, cc: &self.cc, seed: self.seed };
        let singles = alone.find(self, || job.singles());
        Finished::of(singles.and_then(|singles| job.row(&singles)))
    }

    fn run_to_picoquic(&self, alone: &Alone) -> Finished {
        let job = weftway_picoquic::Receiver(self.on_quic());
        let singles = alone.find(self, || job.singles());
        Finished::of(singles.and_then(|singles| job.row(&self.scheduler, &singles)))
    }

    fn on_quic(&self) -> virtual_time::Job<'_> {
        virtual_time::Job { config: &self.variant.config, cc: &self.cc, seed: self.seed }
    }

    /// Runs it on this thread, whichever kind its scheduler is: the row.
    pub fn run_here(&self, py: Python<'_>, listeners: Vec<Box<dyn Listener>>, alone: &Alone) -> PyResult<String> {
        let (mut scheduler, rules, outcome) = self.scheduler(py)?;
        let run = || {
            let finished = self.inner().run(scheduler.as_mut(), rules, listeners)?;
            self.row(&finished, alone)
        };
        let row = py.detach(run).map_err(Error::from)?;
        match outcome.and_then(|outcome| outcome.objection(py, &self.scheduler)) {
            None => Ok(row),
            Some(error) => Err(error),
        }
    }

    /// The scheduler as it is to be asked, the transport rules that go with it, and what will be known of a rule in
    /// Python.
    fn scheduler(&self, py: Python<'_>) -> PyResult<Asked> {
        let Some(class) = &self.class else {
            let scheduler = self.inner().scheduler(&self.scheduler).map_err(Error::from)?;
            return Ok((scheduler, run::transport_rules(&self.scheduler).map_err(Error::from)?, None));
        };
        let (rule, outcome) = PythonScheduler::new(class.bind(py), &self.scheduler, &self.path_names(), self.seed)?;
        Ok((self.inner().timed(Box::new(rule)), TransportRules::NONE, Some(outcome)))
    }

    /// The paths' names, by number.
    pub fn path_names(&self) -> Vec<String> {
        self.config().paths.iter().map(|path| path.name.clone()).collect()
    }

    /// Configuration that the simulator is told.
    pub fn config(&self) -> &SimConfig {
        &self.variant.config
    }

    /// Name that a log gives it.
    pub fn title(&self) -> String {
        format!("{} over {}, seed {}", self.scheduler, self.cc, self.seed)
    }

    fn inner(&self) -> run::Job<'_> {
        run::Job { config: &self.variant.config, cc: &self.cc, seed: self.seed, timing: self.variant.timing }
    }

    fn row(&self, finished: &run::Finished, alone: &Alone) -> Result<String, SpecError> {
        let singles = alone.find(self, || self.inner().singles())?;
        Ok(serde_json::Value::Object(self.inner().row(finished, &singles)).to_string())
    }

    /// Bound on what a run in the simulator can have done, whatever its scheduler: its figures, as JSON.
    pub fn bound(&self) -> Result<String, SpecError> {
        let mut bound = measurement::bound(&self.inner().bound()?, self.config());
        let missed = weftway_oracle::least_missed(&self.inner())?;
        bound.insert("bound_miss_rate".to_owned(), missed.map(Missed::share).into());
        Ok(serde_json::Value::Object(bound).to_string())
    }

    /// The row of a run by a clairvoyant that starts from the scheduler, as JSON.
    pub fn clairvoyant(&self, tries: u64) -> Result<String, SpecError> {
        let plan = clairvoyant::Plan { base: self.scheduler.clone(), tries };
        let (finished, _) = clairvoyant::run(&self.inner(), &plan)?;
        Ok(serde_json::Value::Object(self.inner().row(&finished, &Singles::default())).to_string())
    }

    /// The row of a run by `earliest-delivery` with perfect sight, as JSON.
    pub fn sighted(&self, sight: Sight) -> Result<String, SpecError> {
        let finished = weftway_oracle::sighted(&self.inner(), sight)?;
        Ok(serde_json::Value::Object(self.inner().row(&finished, &Singles::default())).to_string())
    }

    /// The row of a run by the scheduler under windows that an oracle sets, as JSON.
    pub fn controlled(&self) -> Result<String, SpecError> {
        let finished = weftway_oracle::controlled(&self.inner(), &self.scheduler)?;
        Ok(serde_json::Value::Object(self.inner().row(&finished, &Singles::default())).to_string())
    }

    /// Why the scheduler cannot be run here, if it cannot.
    pub fn obstacle(&self) -> Option<String> {
        let in_python = || self.class.as_ref().map(|_| "a scheduler in Python is not run on QUIC yet".to_owned());
        match self.engine {
            Engine::Quic => {
                return in_python().or_else(|| virtual_time::obstacle(&self.variant, &self.scheduler));
            }
            Engine::QuicToPicoquic => {
                return in_python().or_else(|| weftway_picoquic::receiver_obstacle(&self.variant, &self.scheduler));
            }
            Engine::Picoquic => return weftway_picoquic::obstacle(&self.variant, &self.cc),
            Engine::Sim => {}
        }
        let (entry, _) = weftway_sched::parse(&self.scheduler).ok()?;
        let pair = entry.arity == weftway_sched::Arity::Pair;
        let paths = self.variant.config.paths.len();
        (pair && paths < 2).then(|| format!("its rule is for two paths; the scenario has {paths}"))
    }
}

impl Alone {
    /// For runs that are not to be held against single paths.
    pub fn unwanted() -> Self {
        Self { unwanted: true, ..Self::default() }
    }

    fn find<E>(&self, job: &Job, measure: impl FnOnce() -> Result<Singles, E>) -> Result<Singles, E> {
        if self.unwanted {
            return Ok(Singles::default());
        }
        let key = (job.variant.hash.clone(), job.cc.clone(), job.seed);
        if let Some(known) = self.lock().get(&key) {
            return Ok(known.clone());
        }
        // Without the lock: others go on, and the same twice is the same.
        let singles = measure()?;
        self.lock().insert(key, singles.clone());
        Ok(singles)
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<Setting, Singles>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Bounds on what each job's run in the simulator can have done, whatever its scheduler and controller: a JSON object
/// each, with the columns `bound_…`. The job's seed and scenario count.
#[pyfunction]
pub fn bounds(py: Python<'_>, jobs: Vec<Job>, threads: usize) -> PyResult<Vec<String>> {
    let found = each(py, &jobs, threads, Job::bound)?;
    found.into_iter().map(|bound| bound.map_err(|error| Error::from(error).into())).collect()
}

/// The row of each job's run by a clairvoyant that starts from the job's scheduler, and tries answers out at so many
/// questions.
#[pyfunction]
pub fn clairvoyants(py: Python<'_>, jobs: Vec<Job>, threads: usize, tries: u64) -> PyResult<Vec<String>> {
    let found = each(py, &jobs, threads, |job| job.clairvoyant(tries))?;
    found.into_iter().map(|row| row.map_err(|error| Error::from(error).into())).collect()
}

/// The row of each job's run by `earliest-delivery`, told when packets arrive: `sight` is `present`, as things are, or
/// `arrival`.
#[pyfunction]
pub fn oracles(py: Python<'_>, jobs: Vec<Job>, threads: usize, sight: &str) -> PyResult<Vec<String>> {
    let sight = match sight {
        "present" => Sight::Present,
        "arrival" => Sight::Arrival,
        other => return Err(ScenarioError::new_err(format!("sight `{other}`: expected present or arrival"))),
    };
    let found = each(py, &jobs, threads, |job| job.sighted(sight))?;
    found.into_iter().map(|row| row.map_err(|error| Error::from(error).into())).collect()
}

/// The row of each job's run by its scheduler, where an oracle is the controller: windows follow the links.
#[pyfunction]
pub fn controlled(py: Python<'_>, jobs: Vec<Job>, threads: usize) -> PyResult<Vec<String>> {
    let found = each(py, &jobs, threads, Job::controlled)?;
    found.into_iter().map(|row| row.map_err(|error| Error::from(error).into())).collect()
}

/// For each job, what the network of `foreseen` sees and how wrong the rule's own estimate is: rows of float32, the
/// inputs and a label, at every `every`-th question of a run by the policy in the file `policy`, or by the rule.
#[pyfunction]
#[pyo3(signature = (jobs, threads, every, policy=None))]
pub fn arrivals(
    py: Python<'_>,
    jobs: Vec<Job>,
    threads: usize,
    every: u64,
    policy: Option<PathBuf>,
) -> PyResult<Vec<Cow<'static, [u8]>>> {
    let refused = |why: String| ScenarioError::new_err(format!("policy: {why}"));
    let policy = policy.map(PolicyFile::read).transpose().map_err(|error| refused(error.to_string()))?;
    // A scheduler may be sent to another thread, but not be shared: each job takes its own.
    let rule = Mutex::new(Foreseen::new(policy).map_err(refused)?);
    let found = each(py, &jobs, threads, |job| {
        let own = rule.lock().unwrap_or_else(PoisonError::into_inner).clone();
        weftway_oracle::arrivals(&job.inner(), own, every)
    })?;
    let bytes = |rows: Vec<f32>| Cow::Owned(rows.into_iter().flat_map(f32::to_le_bytes).collect());
    found.into_iter().map(|rows| rows.map(bytes).map_err(|error| Error::from(error).into())).collect()
}

/// For each job, how its scheduler answers the questions of the task that `task` names: rows of float32, what the task
/// sees, how often the scheduler waited for the full fastest path until the next question, and how often it sent on
/// another. With a `student` that one decides, and the job's scheduler says what it would have done.
#[pyfunction]
#[pyo3(signature = (jobs, task, threads, student=None))]
pub fn demonstrations(
    py: Python<'_>,
    jobs: Vec<Job>,
    task: &str,
    threads: usize,
    student: Option<&str>,
) -> PyResult<Vec<Cow<'static, [u8]>>> {
    let (_, task) = build_task(task).map_err(Error::from)?;
    // A task may be sent to another thread, but not be shared: each job takes its own.
    let task = Mutex::new(task);
    let found = each(py, &jobs, threads, |job| {
        let own = task.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let student = student.map(|name| job.inner().scheduler(name)).transpose()?;
        let mut shown = Demonstration::new(job.inner().scheduler(&job.scheduler)?, student, own);
        job.inner().run(&mut shown, TransportRules::NONE, Vec::new())?;
        Ok(shown.into_rows())
    })?;
    let bytes = |rows: Vec<f32>| Cow::Owned(rows.into_iter().flat_map(f32::to_le_bytes).collect());
    found
        .into_iter()
        .map(|rows: Result<_, SpecError>| rows.map(bytes).map_err(|error| Error::from(error).into()))
        .collect()
}

/// Loads picoquic from a shared library, for the backend `picoquic`: why it cannot be used, if it cannot.
#[pyfunction]
pub fn load_picoquic(library: PathBuf) -> Option<String> {
    weftway_picoquic::load(&library).err().map(|error| error.to_string())
}

/// The names of those inputs.
#[pyfunction]
pub fn arrival_inputs() -> Vec<&'static str> {
    Foreseen::inputs().to_vec()
}
