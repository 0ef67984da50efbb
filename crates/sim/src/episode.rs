//! A simulation that stops at a learned scheduler's questions: what training environments step.

use weftway_path::spec::SpecError;
use weftway_path::{Context, Instant};
use weftway_scenario::config::SimConfig;
use weftway_sched::learned::{Ledger, Shape, Task, build_task};
use weftway_sched::{Scheduler, TransportRules};

use crate::measure::{Finished, Row, Singles};
use crate::{Host, Sim, Verdict};

/// A run whose decisions come from outside, one by one.
///
/// ```text
/// while episode.advance(&mut seen).is_none() { episode.answer(&agent.act(&seen)) }
/// ```
#[derive(Clone)]
pub struct Episode {
    sim: Sim,
    task: Box<dyn Task>,
    rival: Option<Box<dyn Scheduler>>,
    verdict: Option<Verdict>,
    /// It stands at a question, and nothing happens before that is answered.
    repeats: bool,
}

impl Episode {
    /// A run of `config` under controller `cc`; `task` says what is decided. Equal seeds and equal
    /// answers behave equally.
    pub fn new(config: &SimConfig, cc: &str, seed: u64, task: &str) -> Result<Self, SpecError> {
        let mut sim = Sim::new(config, cc, seed)?;
        let (_, mut task) = build_task(task)?;
        task.ledger().open();
        sim.host(0, Host::new(task.needs(), TransportRules::NONE));
        let rival = crate::run::second(&mut sim, config)?;
        Ok(Self { sim, task, rival, verdict: None, repeats: false })
    }

    /// Runs to the next question, or to the end, and writes what there is to see; how it ended, if
    /// it did.
    pub fn advance(&mut self, observation: &mut [f32]) -> Option<Verdict> {
        if self.verdict.is_none() {
            let repeats = core::mem::take(&mut self.repeats);
            let rival = self.rival.as_deref_mut();
            self.verdict = self.sim.run_to_question(&mut *self.task, rival, observation, repeats);
            match self.verdict {
                None => self.repeats = self.sim.question_repeats(0),
                Some(_) => self.task.finish(&self.sim.context(0), observation),
            }
        }
        self.verdict
    }

    /// Answers the question at which it stopped.
    pub fn answer(&mut self, action: &[f32]) {
        self.task.answer(&self.sim.context(0), action);
        if self.sim.connection(0).dispatch.host.needs.wake {
            self.sim.note_wake(0, &*self.task);
        }
    }

    /// Which choices the question at which it stopped allows.
    pub fn mask(&self, mask: &mut [bool]) {
        self.task.mask(&self.sim.context(0), mask);
    }

    /// Ledger of what its decisions earned.
    pub fn ledger(&mut self) -> &mut Ledger {
        self.task.ledger()
    }

    /// Shape of observations and answers.
    pub fn shape(&self) -> &Shape {
        self.task.shape()
    }

    /// The transport as the task sees it now.
    pub fn context(&self) -> Context<'_> {
        self.sim.context(0)
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.sim.now()
    }

    /// Number of packets that have arrived, over all paths.
    pub fn arrived(&self) -> u64 {
        self.sim.connection(0).tally.arrived
    }

    /// The figures of a run that is over.
    pub fn row(self, config: &SimConfig) -> Option<Row> {
        let verdict = self.verdict?;
        let finished = Finished { sim: self.sim, verdict, fallback: None, chosen: None };
        Some(finished.measurement(config, &Singles::default()).row(config))
    }
}
