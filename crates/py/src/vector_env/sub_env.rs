//! An environment of a vector environment: an episode, and the next when it ends.

use std::sync::Arc;

use weftway_path::spec::SpecError;
use weftway_scenario::Variant;
use weftway_scenario::mix;
use weftway_sim::{Episode, Verdict};

use super::state::{state, width};

/// Why there is no episode.
pub enum Trouble {
    /// A task, scheduler or controller that makes no sense.
    Spec(SpecError),
    /// Result where nothing is ever to be decided.
    Silent,
    /// The answers that were kept do not lead to where they led.
    Elsewhere,
}

/// State that an environment is made anew from: the number of its episode and of that episode's first decision, what
/// was answered in it, and what nobody has taken yet (the last observation and state of the episode before, rewards,
/// rows).
pub type Kept = (u64, u64, Vec<f32>, Vec<f32>, Vec<f64>, Vec<(i64, f32)>, Vec<String>);

/// Pool that episodes are drawn from.
#[derive(Clone)]
pub struct Pool {
    pub task: String,
    pub variants: Vec<Arc<Variant>>,
    pub controllers: Vec<String>,
    pub seed: u64,
    /// The most paths that a scenario has.
    pub paths: usize,
}

/// An environment, with its present episode.
#[derive(Clone)]
pub struct SubEnv {
    pub number: u64,
    episodes: u64,
    pub draw: Draw,
    pub episode: Episode,
    /// The number of the present episode's first decision.
    pub base: u64,
    steps: u64,
    gained: f64,
    /// Answers in this episode.
    answers: Vec<f32>,
    /// Observation now, and that of the end of the episode before.
    pub observation: Vec<f32>,
    pub last: Vec<f32>,
    /// The state of the connection at the end of the episode before.
    pub last_state: Vec<f64>,
    pub outcome: Outcome,
    pub closed: Vec<(i64, f32)>,
    pub finished: Vec<String>,
}

/// Which episode a environment has.
#[derive(Clone, Copy)]
pub struct Draw {
    pub variant: usize,
    pub cc: usize,
    pub seed: u64,
}

/// Outcome of the last step.
#[derive(Clone, Copy, Default)]
pub struct Outcome {
    pub reward: f32,
    pub terminated: u8,
    pub truncated: u8,
}

impl Pool {
    /// The episode with this number of this environment.
    fn draw(&self, env: u64, episode: u64) -> Draw {
        let own = mix(mix(self.seed, env), episode);
        let of = |count: usize, component| (mix(own, component) % count as u64) as usize;
        Draw { variant: of(self.variants.len(), 1), cc: of(self.controllers.len(), 2), seed: mix(own, 3) >> 1 }
    }

    fn episode(&self, draw: &Draw) -> Result<Episode, Trouble> {
        let config = &self.variants[draw.variant].config;
        Episode::new(config, &self.controllers[draw.cc], draw.seed, &self.task).map_err(Trouble::Spec)
    }
}

impl SubEnv {
    /// The first episode of environment `number`, at its first question.
    pub fn new(pool: &Pool, number: u64, inputs: usize) -> Result<Self, Trouble> {
        let mut env = Self::at(pool, number, inputs, 0)?;
        env.begin(pool)?;
        Ok(env)
    }

    /// Environment `number` at the beginning of one of its episodes.
    fn at(pool: &Pool, number: u64, inputs: usize, episodes: u64) -> Result<Self, Trouble> {
        let draw = pool.draw(number, episodes);
        Ok(Self {
            number,
            episodes,
            draw,
            episode: pool.episode(&draw)?,
            base: 0,
            steps: 0,
            gained: 0.0,
            answers: Vec::new(),
            observation: vec![0.0; inputs],
            last: vec![0.0; inputs],
            last_state: vec![0.0; width(pool.paths)],
            outcome: Outcome::default(),
            closed: Vec::new(),
            finished: Vec::new(),
        })
    }

    /// State that [`Self::remade`] makes it anew from.
    pub fn kept(&self) -> Kept {
        let Self { episodes, base, answers, last, last_state, closed, finished, .. } = self.clone();
        (episodes, base, answers, last, last_state, closed, finished)
    }

    /// Environment `number` as it was when `kept` was taken: its episode is played again. An answer has `width`
    /// numbers.
    pub fn remade(pool: &Pool, number: u64, inputs: usize, width: usize, kept: Kept) -> Result<Self, Trouble> {
        let (episodes, base, answers, last, last_state, closed, finished) = kept;
        let mut env = Self { base, ..Self::at(pool, number, inputs, episodes)? };
        env.begin(pool)?;
        answers.chunks(width).try_for_each(|action| env.step(pool, action))?;
        if env.episodes != episodes || last.len() != inputs || last_state.len() != env.last_state.len() {
            return Err(Trouble::Elsewhere);
        }
        Ok(Self { last, last_state, closed, finished, ..env })
    }

    /// Goes to the first question; an episode without one is followed by the next.
    fn begin(&mut self, pool: &Pool) -> Result<(), Trouble> {
        for _ in 0..MOST_SILENT {
            if self.episode.advance(&mut self.observation).is_none() {
                return Ok(());
            }
            self.next(pool)?;
        }
        Err(Trouble::Silent)
    }

    /// Leaves the episode for the next one, unless no step of it was taken yet.
    pub fn renew(&mut self, pool: &Pool) -> Result<(), Trouble> {
        if self.steps == 0 {
            return Ok(());
        }
        self.next(pool)?;
        self.begin(pool)
    }

    /// Leaves the episode for the next one: the one that is left.
    fn next(&mut self, pool: &Pool) -> Result<Episode, Trouble> {
        self.episodes += 1;
        self.base += self.episode.ledger().decisions();
        self.draw = pool.draw(self.number, self.episodes);
        let left = std::mem::replace(&mut self.episode, pool.episode(&self.draw)?);
        (self.steps, self.gained) = (0, 0.0);
        self.answers.clear();
        Ok(left)
    }

    /// Answers, and goes on to the next question: of the next episode, if this one ended.
    pub fn step(&mut self, pool: &Pool, action: &[f32]) -> Result<(), Trouble> {
        self.answers.extend_from_slice(action);
        self.episode.answer(action);
        let verdict = self.episode.advance(&mut self.observation);
        self.steps += 1;
        let mut reward = 0.0;
        for earned in self.episode.ledger().earned().drain(..) {
            reward += earned.reward;
            self.closed.push(((self.base + earned.decision) as i64, earned.reward));
        }
        self.gained += f64::from(reward);
        self.outcome = Outcome { reward, ..Outcome::default() };
        if let Some(verdict) = verdict {
            let ended = verdict == Verdict::Finished;
            (self.outcome.terminated, self.outcome.truncated) = (u8::from(ended), u8::from(!ended));
            self.last.copy_from_slice(&self.observation);
            self.last_state = state(&self.episode.context(), pool.paths);
            let (draw, steps, gained) = (self.draw, self.steps, self.gained);
            let ended = self.next(pool)?;
            self.report(pool, ended, draw, (steps, gained));
            self.begin(pool)?;
        }
        Ok(())
    }

    /// Keeps the row of the episode that ended, which was drawn as `draw` and took so many steps and gained so much.
    fn report(&mut self, pool: &Pool, ended: Episode, draw: Draw, (steps, gained): (u64, f64)) {
        let packets = ended.arrived();
        let Some(row) = ended.row(&pool.variants[draw.variant].config) else { return };
        let mut told = serde_json::Map::new();
        told.insert("env".into(), self.number.into());
        told.insert("variant".into(), draw.variant.into());
        told.insert("cc".into(), pool.controllers[draw.cc].clone().into());
        told.insert("seed".into(), draw.seed.into());
        told.insert("steps".into(), steps.into());
        told.insert("packets".into(), packets.into());
        told.insert("return".into(), gained.into());
        told.extend(row);
        self.finished.push(serde_json::Value::Object(told).to_string());
    }
}

/// Most episodes in a row without a question: the scenarios do not suit the task.
pub const MOST_SILENT: usize = 64;
