//! Many episodes side by side: the vector environment. Arrays are filled in place, without the
//! interpreter's lock; what an episode does depends on its place and number, not on threads.

mod place;

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;

use pyo3::buffer::{Element, PyBuffer};
use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use weftway_sched::learned::{Actions, Shape, build_task};

use self::place::{MOST_SILENT, Outcome, Place, Pool, Trouble};
use crate::errors::{Error, ScenarioError};
use crate::scenario::VariantView;

/// Episodes of one task over a pool of scenarios, each in a place of its own. One that ends is
/// followed by the next of its place in the same step.
#[pyclass(frozen, module = "weftway._native")]
pub struct Arena {
    shape: Shape,
    envs: usize,
    inner: Mutex<Inner>,
}

struct Inner {
    pool: Pool,
    inputs: usize,
    places: Vec<Place>,
    threads: usize,
}

#[pymethods]
impl Arena {
    /// Episodes of `task` in so many places; each over one of `variants` under one of
    /// `controllers`, drawn from `seed`.
    #[new]
    #[pyo3(signature = (task, variants, controllers, envs, seed, threads = 1))]
    fn new(
        py: Python<'_>,
        task: String,
        variants: Vec<PyRef<'_, VariantView>>,
        controllers: Vec<String>,
        envs: usize,
        seed: u64,
        threads: usize,
    ) -> PyResult<Self> {
        let variants: Vec<_> = variants.iter().map(|view| view.variant.clone()).collect();
        if variants.is_empty() || controllers.is_empty() || envs == 0 {
            return Err(ScenarioError::new_err("an arena needs a scenario, a controller and a place"));
        }
        for cc in &controllers {
            weftway_cc::parse(cc).map_err(Error::from)?;
        }
        let shape = build_task(&task).map_err(Error::from)?.1.shape().clone();
        let pool = Pool { task, variants, controllers, seed };
        let inputs = shape.inputs.len();
        let mut inner = Inner { pool, inputs, places: Vec::new(), threads: threads.max(1) };
        py.detach(|| inner.settle(envs))?;
        Ok(Self { shape, envs, inner: Mutex::new(inner) })
    }

    /// How many numbers are seen.
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

    /// How many choices there are for each number of an answer; of shares, how many.
    #[getter]
    fn choices(&self) -> usize {
        match self.shape.actions {
            Actions::Discrete(choices) | Actions::Several { choices, .. } => choices,
            Actions::Shares(count) => count,
        }
    }

    /// How many numbers an answer has.
    #[getter]
    fn actions(&self) -> usize {
        self.shape.actions.len()
    }

    /// How many places there are.
    #[getter]
    fn envs(&self) -> usize {
        self.envs
    }

    /// Begins anew, from `seed` if given, and writes what is seen: (envs, inputs).
    #[pyo3(signature = (observation, seed = None))]
    fn reset(&self, py: Python<'_>, observation: &Bound<'_, PyAny>, seed: Option<u64>) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock();
            inner.pool.seed = seed.unwrap_or(inner.pool.seed);
            inner.settle(self.envs)
        })?;
        self.write_seen(py, observation)
    }

    /// Leaves every episode under way for the next of its place; one of which no step was taken
    /// stays. What its open decisions would have earned is lost.
    fn renew(&self, py: Python<'_>, observation: &Bound<'_, PyAny>) -> PyResult<()> {
        py.detach(|| {
            let mut inner = self.lock();
            let Inner { pool, places, .. } = &mut *inner;
            let done = places.iter_mut().try_for_each(|place| place.renew(pool));
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
        py.detach(|| self.lock().go(&actions, width))?;
        let (reward, terminated, truncated) = outcome;
        let outcomes: Vec<Outcome> = self.lock().places.iter().map(|place| place.outcome).collect();
        let told = |each: fn(&Outcome) -> u8| outcomes.iter().map(each).collect::<Vec<_>>();
        let rewards: Vec<f32> = outcomes.iter().map(|outcome| outcome.reward).collect();
        write(py, &reward, &rewards, "reward")?;
        write(py, &terminated, &told(|outcome| outcome.terminated), "terminated")?;
        write(py, &truncated, &told(|outcome| outcome.truncated), "truncated")?;
        self.write_seen(py, observation)
    }

    /// Writes what was seen at the end of each place's last episode: (envs, inputs).
    fn last(&self, py: Python<'_>, observation: &Bound<'_, PyAny>) -> PyResult<()> {
        let all: Vec<f32> = self.lock().places.iter().flat_map(|place| place.last.iter().copied()).collect();
        write(py, observation, &all, "seen")
    }

    /// Writes which choices are open: (envs, choices), for a discrete action.
    fn masks(&self, py: Python<'_>, open: &Bound<'_, PyAny>) -> PyResult<()> {
        let choices = self.choices();
        let mut all = Vec::with_capacity(choices * self.envs);
        let mut mask = vec![true; choices];
        for place in &self.lock().places {
            place.episode.mask(&mut mask);
            all.extend(mask.iter().map(|open| u8::from(*open)));
        }
        write(py, open, &all, "open")
    }

    /// Writes the number of the decision that each place waits for, counted over its episodes.
    fn decisions(&self, py: Python<'_>, numbers: &Bound<'_, PyAny>) -> PyResult<()> {
        let number = |place: &mut Place| (place.base + place.episode.ledger().decisions()) as i64;
        let all: Vec<i64> = self.lock().places.iter_mut().map(number).collect();
        write(py, numbers, &all, "numbers")
    }

    /// What became known of earlier decisions since the last call: places (int32), decisions
    /// (int64) and rewards (float32), as bytes.
    fn closed<'py>(&self, py: Python<'py>) -> [Bound<'py, PyBytes>; 3] {
        let (mut places, mut decisions, mut rewards) = (Vec::new(), Vec::new(), Vec::new());
        for place in &mut self.lock().places {
            for (decision, reward) in place.closed.drain(..) {
                places.extend((place.number as i32).to_ne_bytes());
                decisions.extend(decision.to_ne_bytes());
                rewards.extend(reward.to_ne_bytes());
            }
        }
        [places, decisions, rewards].map(|bytes| PyBytes::new(py, &bytes))
    }

    /// The episodes that ended since the last call: their draws and rows, as JSON.
    fn episodes(&self) -> Vec<String> {
        self.lock().places.iter_mut().flat_map(|place| place.finished.drain(..)).collect()
    }

    /// Which scenario, controller and seed each place has now.
    fn drawn<'py>(&self, py: Python<'py>) -> PyResult<Vec<Bound<'py, PyDict>>> {
        let inner = self.lock();
        let told = |place: &Place| {
            let dict = PyDict::new(py);
            dict.set_item("variant", place.draw.variant)?;
            dict.set_item("cc", &inner.pool.controllers[place.draw.cc])?;
            dict.set_item("seed", place.draw.seed)?;
            Ok(dict)
        };
        inner.places.iter().map(told).collect()
    }
}

impl Arena {
    fn lock(&self) -> MutexGuard<'_, Inner> {
        self.inner.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write_seen(&self, py: Python<'_>, observation: &Bound<'_, PyAny>) -> PyResult<()> {
        let all: Vec<f32> = self.lock().places.iter().flat_map(|place| place.observation.iter().copied()).collect();
        write(py, observation, &all, "seen")
    }
}

impl Inner {
    /// Begins the first episode of so many places.
    fn settle(&mut self, envs: usize) -> PyResult<()> {
        let place = |number| Place::new(&self.pool, number as u64, self.inputs);
        let places: Result<Vec<_>, _> = (0..envs).map(place).collect();
        self.places = places.map_err(|trouble| self.described(trouble))?;
        Ok(())
    }

    fn described(&self, trouble: Trouble) -> PyErr {
        match trouble {
            Trouble::Spec(error) => Error::from(error).into(),
            Trouble::Silent => ScenarioError::new_err(format!(
                "task `{}`: nothing was to be decided in {MOST_SILENT} episodes; are there two paths or more?",
                self.pool.task
            )),
        }
    }

    /// A step of every place, `width` numbers of `actions` each.
    fn go(&mut self, actions: &[f32], width: usize) -> PyResult<()> {
        let (pool, share) = (&self.pool, self.places.len().div_ceil(self.threads));
        let step = |places: &mut [Place], actions: &[f32]| {
            places.iter_mut().zip(actions.chunks(width)).try_for_each(|(place, action)| place.step(pool, action))
        };
        let done = if share == self.places.len() {
            step(&mut self.places, actions)
        } else {
            thread::scope(|scope| {
                let chunks = self.places.chunks_mut(share).zip(actions.chunks(share * width));
                let work: Vec<_> = chunks.map(|(places, actions)| scope.spawn(move || step(places, actions))).collect();
                work.into_iter().try_for_each(|one| one.join().expect("a simulation does not panic"))
            })
        };
        done.map_err(|trouble| self.described(trouble))
    }
}

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
