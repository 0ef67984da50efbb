//! Many episodes side by side: the vector environment. Arrays are filled in place, without the
//! interpreter's lock; what an episode does depends on its environment and number, not on threads.

mod state;
mod sub_env;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict, PyType};
use weftway_sched::learned::{Actions, Shape, build_task};

use self::sub_env::{Kept, MOST_SILENT, Outcome, Pool, SubEnv, Trouble};
use crate::errors::{Error, ScenarioError};
use crate::scenario::VariantView;

/// Episodes of one task over a pool of scenarios side by side, each in an environment of its own. One that ends is
/// followed by the next of its environment in the same step.
#[pyclass(frozen, module = "weftway._native")]
pub struct VectorEnv {
    shape: Shape,
    envs: usize,
    variants: Vec<Py<VariantView>>,
    inner: Mutex<Inner>,
}

/// Arguments that a `VectorEnv` is made from.
type Made = (String, Vec<Py<VariantView>>, Vec<String>, usize, u64, usize);

#[derive(Clone)]
struct Inner {
    pool: Pool,
    inputs: usize,
    sub_envs: Vec<SubEnv>,
    threads: usize,
}

#[pymethods]
impl VectorEnv {
    /// Episodes of `task` in so many environments; each over one of `variants` under one of
    /// `controllers`, drawn from `seed`.
    #[new]
    #[pyo3(signature = (task, variants, controllers, envs, seed, threads = 1))]
    fn new(
        py: Python<'_>,
        task: String,
        variants: Vec<Py<VariantView>>,
        controllers: Vec<String>,
        envs: usize,
        seed: u64,
        threads: usize,
    ) -> PyResult<Self> {
        if variants.is_empty() || controllers.is_empty() || envs == 0 {
            return Err(ScenarioError::new_err(
                "a vector environment needs a scenario, a controller and an environment",
            ));
        }
        for cc in &controllers {
            weftway_cc::parse(cc).map_err(Error::from)?;
        }
        let shape = build_task(&task).map_err(Error::from)?.1.shape().clone();
        let pool = Pool {
            task,
            variants: variants.iter().map(|view| view.get().variant.clone()).collect(),
            controllers,
            seed,
            paths: variants.iter().map(|view| view.get().variant.config.paths.len()).max().unwrap_or(0),
        };
        let inputs = shape.inputs.len();
        let mut inner = Inner { pool, inputs, sub_envs: Vec::new(), threads: threads.max(1) };
        py.detach(|| inner.settle(envs))?;
        Ok(Self { shape, envs, variants, inner: Mutex::new(inner) })
    }

    /// A copy goes on as this one would, and neither touches the other.
    fn __deepcopy__(&self, py: Python<'_>, _memo: &Bound<'_, PyAny>) -> Self {
        let variants = self.variants.iter().map(|view| view.clone_ref(py)).collect();
        let inner = Mutex::new(py.detach(|| self.lock().clone()));
        Self { shape: self.shape.clone(), envs: self.envs, variants, inner }
    }

    /// For `pickle`: what it was made from, and what was answered in the episodes under way.
    fn __reduce__<'py>(&self, py: Python<'py>) -> (Bound<'py, PyType>, Made, (&'static str, Vec<Kept>)) {
        let inner = self.lock();
        let variants = self.variants.iter().map(|view| view.clone_ref(py)).collect();
        let Pool { task, controllers, seed, .. } = inner.pool.clone();
        let made = (task, variants, controllers, self.envs, seed, inner.threads);
        (py.get_type::<Self>(), made, (CODE, inner.sub_envs.iter().map(SubEnv::kept).collect()))
    }

    /// Plays the episodes under way again, up to where they were.
    fn __setstate__(&self, py: Python<'_>, state: (String, Vec<Kept>)) -> PyResult<()> {
        let (code, kept) = state;
        if code != CODE || kept.len() != self.envs {
            let reason = format!("the environment was pickled by Weftway {code}, this is {CODE}; make it anew");
            return Err(PyValueError::new_err(reason));
        }
        let width = self.shape.actions.len();
        py.detach(|| {
            let mut inner = self.lock();
            let Inner { pool, inputs, .. } = &*inner;
            let remade = |(number, kept)| SubEnv::remade(pool, number as u64, *inputs, width, kept);
            let sub_envs: Result<Vec<_>, _> = kept.into_iter().enumerate().map(remade).collect();
            inner.sub_envs = sub_envs.map_err(|trouble| inner.described(trouble))?;
            Ok(())
        })
    }

    /// Count of the numbers that are seen.
    #[getter]
    fn inputs(&self) -> usize {
        self.shape.inputs.len()
    }

    /// Their names.
    #[getter]
    fn names(&self) -> Vec<String> {
        self.shape.inputs.iter().map(|input| input.name.clone()).collect()
    }

    /// Their smallest values.
    #[getter]
    fn low(&self) -> Vec<f32> {
        self.shape.inputs.iter().map(|input| input.low).collect()
    }

    /// Their largest values.
    #[getter]
    fn high(&self) -> Vec<f32> {
        self.shape.inputs.iter().map(|input| input.high).collect()
    }

    /// `discrete`, `several` or `shares`.
    #[getter]
    fn kind(&self) -> &'static str {
        match self.shape.actions {
            Actions::Discrete(_) => "discrete",
            Actions::Several { .. } => "several",
            Actions::Shares(_) => "shares",
        }
    }

    /// Number of choices for each number of an answer; of shares, their number.
    #[getter]
    fn choices(&self) -> usize {
        match self.shape.actions {
            Actions::Discrete(choices) | Actions::Several { choices, .. } => choices,
            Actions::Shares(count) => count,
        }
    }

    /// Count of the numbers in an answer.
    #[getter]
    fn actions(&self) -> usize {
        self.shape.actions.len()
    }

    /// The space of one environment's answers, as Gymnasium writes it.
    #[getter]
    fn space(&self) -> String {
        self.shape.actions.to_string()
    }

    /// Number of environments.
    #[getter]
    fn envs(&self) -> usize {
        self.envs
    }

    /// Begins anew, from `seed` if given, and writes what is seen: (envs, inputs).
    #[pyo3(signature = (observation, seed = None))]
    fn reset(&self, py: Python<'_>, observation: &Bound<'_, PyAny>, seed: Option<u64>) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock();
            let before = inner.pool.seed;
            inner.pool.seed = seed.unwrap_or(before);
            inner.settle(self.envs).inspect_err(|_| inner.pool.seed = before)
        })?;
        self.write_seen(py, observation)
    }

    /// Leaves every episode under way for the next of its environment; one of which no step was taken
    /// stays. What its open decisions would have earned is lost.
    fn renew(&self, py: Python<'_>, observation: &Bound<'_, PyAny>) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock();
            let Inner { pool, sub_envs, .. } = &mut *inner;
            let done = sub_envs.iter_mut().try_for_each(|env| env.renew(pool));
            done.map_err(|trouble| inner.described(trouble))
        })?;
        self.write_seen(py, observation)
    }

    /// Answers every question and goes on to the next ones. `actions` is (envs, actions); what is
    /// seen, the rewards that became known, and which episodes ended are written into the rest.
    fn step(
        &self,
        py: Python<'_>,
        actions: &Bound<'_, PyAny>,
        observation: &Bound<'_, PyAny>,
        outcome: (Bound<'_, PyAny>, Bound<'_, PyAny>, Bound<'_, PyAny>),
    ) -> PyResult<()> {
        let width = self.shape.actions.len();
        let actions = floats(actions, self.envs * width, "actions")?.to_vec(py)?;
        self.check(&actions, width)?;
        py.detach(|| self.lock().go(&actions, width))?;
        let (reward, terminated, truncated) = outcome;
        let outcomes: Vec<Outcome> = self.lock().sub_envs.iter().map(|env| env.outcome).collect();
        let told = |each: fn(&Outcome) -> u8| outcomes.iter().map(each).collect::<Vec<_>>();
        let rewards: Vec<f32> = outcomes.iter().map(|outcome| outcome.reward).collect();
        write(py, &reward, &rewards, "reward")?;
        write(py, &terminated, &told(|outcome| outcome.terminated), "terminated")?;
        write(py, &truncated, &told(|outcome| outcome.truncated), "truncated")?;
        self.write_seen(py, observation)
    }

    /// Writes what was seen at the end of each environment's last episode: (envs, inputs).
    fn last(&self, py: Python<'_>, observation: &Bound<'_, PyAny>) -> PyResult<()> {
        let all: Vec<f32> = self.lock().sub_envs.iter().flat_map(|env| env.last.iter().copied()).collect();
        write(py, observation, &all, "seen")
    }

    /// The names of the numbers in a row of `state`: those of the connection, and those that each path has.
    #[staticmethod]
    fn state_names() -> (Vec<&'static str>, Vec<&'static str>) {
        state::names()
    }

    /// The most paths that a scenario has: so many are in the state.
    #[getter]
    fn paths(&self) -> usize {
        self.lock().pool.paths
    }

    /// Writes the state of each connection at its question: (envs, numbers), float64.
    fn state(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let inner = self.lock();
        let each = |env: &SubEnv| state::state(&env.episode.context(), inner.pool.paths);
        let all: Vec<f64> = inner.sub_envs.iter().flat_map(each).collect();
        write(py, out, &all, "state")
    }

    /// Writes the state of each connection at the end of its environment's last episode: (envs, numbers), float64.
    fn last_state(&self, py: Python<'_>, out: &Bound<'_, PyAny>) -> PyResult<()> {
        let all: Vec<f64> = self.lock().sub_envs.iter().flat_map(|env| env.last_state.iter().copied()).collect();
        write(py, out, &all, "state")
    }

    /// Writes which choices are open: (envs, choices), for a discrete action.
    fn masks(&self, py: Python<'_>, open: &Bound<'_, PyAny>) -> PyResult<()> {
        let choices = self.choices();
        let mut all = Vec::with_capacity(choices * self.envs);
        let mut mask = vec![true; choices];
        for env in &self.lock().sub_envs {
            env.episode.mask(&mut mask);
            all.extend(mask.iter().map(|open| u8::from(*open)));
        }
        write(py, open, &all, "open")
    }

    /// Writes the number of the decision that each environment waits for, counted over its episodes.
    fn decisions(&self, py: Python<'_>, numbers: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = |env: &mut SubEnv| (env.base + env.episode.ledger().decisions()) as i64;
        let all: Vec<i64> = self.lock().sub_envs.iter_mut().map(number).collect();
        write(py, numbers, &all, "numbers")
    }

    /// Decisions of which more became known since the last call: environments (int32), decisions (int64) and rewards
    /// (float32), as bytes.
    fn closed<'py>(&self, py: Python<'py>) -> [Bound<'py, PyBytes>; 3] {
        let (mut sub_envs, mut decisions, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
        for env in &mut self.lock().sub_envs {
            for (decision, reward) in env.closed.drain(..) {
                sub_envs.extend((env.number as i32).to_ne_bytes());
                decisions.extend(decision.to_ne_bytes());
                rewards.extend(reward.to_ne_bytes());
            }
        }
        [sub_envs, decisions, rewards].map(|bytes| PyBytes::new(py, &bytes))
    }

    /// The episodes that ended since the last call: their draws and rows, as JSON.
    fn episodes(&self) -> Vec<String> {
        self.lock().sub_envs.iter_mut().flat_map(|env| env.finished.drain(..)).collect()
    }

    /// Which scenario, controller and seed each environment has now.
    fn drawn<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let inner = self.lock();
        let told = |env: &SubEnv| {
            let dict = PyDict::new(py);
            dict.set_item("variant", env.draw.variant)?;
            dict.set_item("cc", &inner.pool.controllers[env.draw.cc])?;
            dict.set_item("seed", env.draw.seed)?;
            Ok(dict)
        };
        inner.sub_envs.iter().map(told).collect()
    }
}

impl VectorEnv {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses answers that are not in the space, before anything is done.
    fn check(&self, actions: &[f32], width: usize) -> PyResult<()> {
        let space = self.shape.actions;
        let Some(at) = actions.iter().position(|number| !space.allows(*number)) else { return Ok(()) };
        let (number, env) = (actions[at], at / width);
        let which = if self.envs > 1 { format!(" of environment {env}") } else { String::new() };
        Err(PyValueError::new_err(format!("the action {number}{which} is not in {space}")))
    }

    fn write_seen(&self, py: Python<'_>, observation: &Bound<'_, PyAny>) -> PyResult<()> {
        let all: Vec<f32> = self.lock().sub_envs.iter().flat_map(|env| env.observation.iter().copied()).collect();
        write(py, observation, &all, "seen")
    }
}

impl Inner {
    /// Begins the first episode of so many environments.
    fn settle(&mut self, envs: usize) -> PyResult<()> {
        let env = |number| SubEnv::new(&self.pool, number as u64, self.inputs);
        let sub_envs: Result<Vec<_>, _> = (0..envs).map(env).collect();
        self.sub_envs = sub_envs.map_err(|trouble| self.described(trouble))?;
        Ok(())
    }

    fn described(&self, trouble: Trouble) -> PyErr {
        match trouble {
            Trouble::Spec(error) => Error::from(error).into(),
            Trouble::Silent => ScenarioError::new_err(format!(
                "task `{}`: nothing was to be decided in {MOST_SILENT} episodes; are there two paths or more?",
                self.pool.task
            )),
            Trouble::Elsewhere => {
                PyValueError::new_err("the environment was pickled over other scenarios; make it anew")
            }
        }
    }

    /// A step of every environment, `width` numbers of `actions` each.
    fn go(&mut self, actions: &[f32], width: usize) -> PyResult<()> {
        let (pool, share) = (&self.pool, self.sub_envs.len().div_ceil(self.threads));
        let step = |sub_envs: &mut [SubEnv], actions: &[f32]| {
            sub_envs.iter_mut().zip(actions.chunks(width)).try_for_each(|(env, action)| env.step(pool, action))
        };
        let done = if share == self.sub_envs.len() {
            step(&mut self.sub_envs, actions)
        } else {
            thread::scope(|scope| {
                let chunks = self.sub_envs.chunks_mut(share).zip(actions.chunks(share * width));
                let work: Vec<_> =
                    chunks.map(|(sub_envs, actions)| scope.spawn(move || step(sub_envs, actions))).collect();
                work.into_iter().try_for_each(|one| one.join().expect("a simulation does not panic"))
            })
        };
        done.map_err(|trouble| self.described(trouble))
    }
}

/// The version and a hash of the sources that decide what an episode does.
const CODE: &str = env!("WEFTWAY_CODE");

/// The array `name`, which must have so many float32.
fn floats(array: &Bound<'_, PyAny>, length: usize, name: &str) -> PyResult<PyBuffer<f32>> {
    let buffer = PyBuffer::<f32>::get(array)?;
    if buffer.item_count() != length {
        let found = buffer.item_count();
        return Err(ScenarioError::new_err(format!("`{name}` has {found} numbers; expected {length}")));
    }
    Ok(buffer)
}

fn write<T: Element>(py: Python<'_>, array: &Bound<'_, PyAny>, values: &[T], name: &str) -> PyResult<()> {
    let buffer = PyBuffer::<T>::get(array)?;
    if buffer.item_count() != values.len() {
        let (found, expected) = (buffer.item_count(), values.len());
        return Err(ScenarioError::new_err(format!("`{name}` has room for {found}; expected {expected}")));
    }
    buffer.copy_from_slice(py, values)
}
