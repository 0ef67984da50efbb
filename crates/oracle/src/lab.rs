//! A run of the task `graph` that stops at its questions, where the oracle can look into it.

use weftway_host::Turn;
use weftway_path::spec::SpecError;
use weftway_path::{BlockedReason, Bytes, Context, Decision, Event, Instant, Path, PathId};
use weftway_scenario::config::SimConfig;
use weftway_sched::learned::{Ledger, Shape, Task, TaskEntry, build_task};
use weftway_sched::{Needs, Scheduler, TransportRules};

use crate::binding::{Basis, Binding};
use crate::shares::Shares;
use crate::truth::{Truth, release};
use crate::{Judgement, judge};
use weftway_sim::run::second;
use weftway_sim::{Host, Pause, Sim, Verdict};

/// Data that are no messages are judged in portions of the largest message of the paper.
const PORTION: Bytes = Bytes::new(10_000);

/// Why a lab stopped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stop {
    /// There is a question.
    Asked,
    /// The time has come.
    Time,
    /// It is over.
    Over(Verdict),
}

/// A run that stops at the questions of its task. A copy of it is a future to try.
#[derive(Clone)]
pub struct Lab {
    sim: Sim,
    company: Company,
    rival: Option<Box<dyn Scheduler>>,
    shares: Shares,
    binding: Binding,
    basis: Basis,
    observation: Vec<f32>,
}

/// The task, and schedulers that watch and may be asked for advice.
#[derive(Clone)]
struct Company {
    task: Box<dyn Task>,
    advisers: Vec<Box<dyn Scheduler>>,
}

impl Scheduler for Company {
    /// Advisers see and hear what they need. They send nothing, and so need no more.
    fn needs(&self) -> Needs {
        let sees = |Needs { flow, wake, events, device, .. }| Needs { flow, wake, events, device, ..Needs::NONE };
        self.advisers.iter().map(|adviser| sees(adviser.needs())).fold(self.task.needs(), Needs::union)
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.task.select(cx)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.task.observe(cx, event);
        self.advisers.iter_mut().for_each(|adviser| adviser.observe(cx, event));
    }

    fn wake(&self) -> Option<Instant> {
        self.task.wake().into_iter().chain(self.advisers.iter().filter_map(|adviser| adviser.wake())).min()
    }
}

impl Task for Company {
    fn shape(&self) -> &Shape {
        self.task.shape()
    }

    fn question(&mut self, cx: &Context<'_>, observation: &mut [f32]) -> bool {
        self.task.question(cx, observation)
    }

    fn answer(&mut self, cx: &Context<'_>, action: &[f32]) {
        self.task.answer(cx, action);
    }

    fn mask(&self, cx: &Context<'_>, mask: &mut [bool]) {
        self.task.mask(cx, mask);
    }

    fn finish(&mut self, cx: &Context<'_>, observation: &mut [f32]) {
        self.task.finish(cx, observation);
    }

    fn ledger(&mut self) -> &mut Ledger {
        self.task.ledger()
    }
}

impl Lab {
    /// A run of `config` under `cc`; `task` names the task `graph` with at least a slot for each path, and `advisers`
    /// registered schedulers.
    pub fn new(config: &SimConfig, cc: &str, seed: u64, task: &str, advisers: &[String]) -> Result<Self, SpecError> {
        let mut sim = Sim::new(config, cc, seed)?;
        let (spec, (entry, task)) = (task, slots(task, config.paths.len())?);
        let advisers = advisers.iter().map(|spec| weftway_sched::build(spec)).collect::<Result<Vec<_>, _>>()?;
        let rival = second(&mut sim, config)?;
        let (binding, basis) = (Binding::new(entry, spec)?, Basis::default());
        let observation = vec![0.0; task.shape().inputs.len()];
        let (shares, company) = (Shares::new(config.paths.len()), Company { task, advisers });
        sim.host(0, Host::new(company.needs(), TransportRules::NONE));
        Ok(Self { sim, company, rival, shares, binding, basis, observation })
    }

    /// Judges by `basis`.
    pub fn judged_by(self, basis: Basis) -> Self {
        Self { basis, ..self }
    }

    /// Runs to the next question, to `until`, or to the end.
    pub fn advance(&mut self, until: Instant) -> Stop {
        loop {
            match self.sim.advance_until(until) {
                None => return Stop::Time,
                Some(Pause::Done(verdict)) => return Stop::Over(verdict),
                // A label belongs to a packet: between packets the task only learns what happened.
                Some(Pause::Observe(0)) => self.sim.tell(0, &mut self.company),
                Some(Pause::Decide(0)) => {
                    if self.sim.ask_task(0, &mut self.company, &mut self.observation) == Turn::Asks {
                        return Stop::Asked;
                    }
                }
                Some(Pause::Decide(other)) => self.with_rival(|sim, rival| sim.ask(other, rival)),
                Some(Pause::Observe(other)) => self.with_rival(|sim, rival| sim.tell(other, rival)),
            }
        }
    }

    fn with_rival(&mut self, act: impl FnOnce(&mut Sim, &mut dyn Scheduler)) {
        if let Some(rival) = &mut self.rival {
            act(&mut self.sim, rival.as_mut());
        }
    }

    /// Answers the question: path number `path`.
    pub fn answer(&mut self, path: usize) {
        if let (Some(flow), Some(ends)) = (self.sim.context(0).flow, self.company.task.wake()) {
            self.binding.hold(flow, path, ends);
        }
        self.company.task.answer(&self.sim.context(0), &[path as f32]);
    }

    /// O1's judgement of the question. `None` if no path can be taken.
    pub fn judge(&mut self) -> Option<Judgement> {
        self.shares.note(self.sim.now(), self.sim.context(0).paths);
        let flow = self.sim.context(0).flow?;
        let start = flow.next;
        let conn = self.sim.connection(0);
        let open = self.open();
        let truth = |at: usize| open[at].then(|| Truth::of(&self.sim, PathId::new(at as u8)));
        let mut truths: Vec<Option<Truth>> = (0..open.len()).map(truth).collect();
        let bytes = match (self.basis, self.company.task.wake()) {
            (Basis::Interval, Some(ends)) => self.binding.stake((conn, self.sim.now()), flow, ends, &mut truths),
            _ if conn.app().has_messages() => flow.message_end.since(start),
            _ => PORTION,
        };
        let mut loads = self.shares.loads().to_vec();
        loads.resize(open.len(), 0.0);
        judge(&truths, bytes, conn.transport().mss, release(&self.sim, start), &loads)
    }

    /// Which slots have a living path.
    pub fn open(&self) -> Vec<bool> {
        let mut open = vec![false; self.company.task.shape().actions.outputs()];
        self.company.task.mask(&self.sim.context(0), &mut open);
        open
    }

    /// Observation of the task at the question.
    pub fn observation(&self) -> &[f32] {
        &self.observation
    }

    /// The message at hand: where it begins, its size, and its number among all.
    pub(crate) fn message(&self) -> (u64, u64, usize) {
        let flow = self.sim.context(0).flow.copied().unwrap_or_default();
        let (start, end) = (flow.message_start.get(), flow.message_end.get());
        (start, end.saturating_sub(start), self.sim.connection(0).app().number_at(start))
    }

    /// Path on which adviser `at` would send the packet at hand if every path were open, as [`weftway_sched::Interval`]
    /// asks.
    pub fn advice(&mut self, at: usize) -> Option<usize> {
        let cx = self.sim.context(0);
        let mut paths: Vec<Path> =
            cx.paths.iter().filter(|path| path.blocked != BlockedReason::Validation).cloned().collect();
        paths.iter_mut().for_each(|path| path.blocked = BlockedReason::None);
        match self.company.advisers[at].select(&Context::new(cx.now, &paths, cx.packet, cx.flow)) {
            Decision::Send(path) | Decision::Ahead(path, _) | Decision::Repeat(path, _) => Some(path.index()),
            Decision::Recall(_) | Decision::Wait => None,
        }
    }

    /// A future without advisers.
    pub(crate) fn twin(&self) -> Self {
        let company = Company { task: self.company.task.clone(), advisers: Vec::new() };
        Self {
            company,
            sim: self.sim.clone(),
            rival: self.rival.clone(),
            shares: self.shares.clone(),
            binding: self.binding.clone(),
            basis: self.basis,
            observation: self.observation.clone(),
        }
    }

    /// The simulation.
    pub fn sim(&self) -> &Sim {
        &self.sim
    }

    /// The simulation, to keep.
    pub fn into_sim(self) -> Sim {
        self.sim
    }
}

/// The task that `spec` names, if it is `graph` and has a slot for each of so many paths.
fn slots(spec: &str, paths: usize) -> Result<(&'static TaskEntry, Box<dyn Task>), SpecError> {
    let (entry, task) = build_task(spec)?;
    let slots = task.shape().actions.outputs();
    if entry.name != "graph" {
        let name = entry.name.to_owned();
        return Err(SpecError::Unknown { kind: "task with labels", name, nearest: Some("graph".to_owned()) });
    }
    if slots < paths {
        let expected = "a slot for each path of the scenario";
        return Err(SpecError::BadValue { entry: "graph", key: "slots", value: slots.to_string(), expected });
    }
    Ok((entry, task))
}
