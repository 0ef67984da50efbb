//! Runs in which the oracle, or others, decide, and what the oracle said at each question.

use weftway_path::spec::SpecError;
use weftway_path::{Instant, Span};
use weftway_scenario::mix;

use crate::lab::{Lab, Stop};
use crate::{Basis, Judgement};
use weftway_sim::run::{Finished, Job};

/// Behaviours that are not registered schedulers: O1, and any living path with equal probability.
pub const BEHAVIOURS: [&str; 2] = ["oracle", "uniform"];

/// With several behaviours, which of them decides is drawn anew so often.
const STRETCH: Span = Span::from_secs(1);

/// Way in which a run is decided.
#[derive(Clone, Debug)]
pub struct Plan {
    /// The task `graph`, with its switches.
    pub task: String,
    /// Behaviours that decide, in stretches of a second each: one of [`BEHAVIOURS`], or a registered scheduler, asked
    /// about the message's first packet as if every path were open.
    pub behaviours: Vec<String>,
    /// For which data the best path is looked for.
    pub basis: Basis,
}

/// A question.
#[derive(Clone, Debug, PartialEq)]
pub struct Sample {
    /// Time of the question.
    pub at: Instant,
    /// Observation of the task.
    pub observation: Vec<f32>,
    /// Judgement of O1.
    pub judgement: Judgement,
    /// Which path was taken.
    pub taken: usize,
    /// Which of [`Plan::behaviours`] took it.
    pub behaviour: usize,
    /// The size of the message at hand, in bytes.
    pub message: u64,
}

/// A run at its end, and its questions.
pub struct Run {
    /// Every question.
    pub samples: Vec<Sample>,
    /// The finished run, as of any job: [`Job::row`] has its figures.
    pub finished: Finished,
}

/// Runs `job` as `plan` says. Equal seeds behave equally.
pub fn run(job: &Job<'_>, plan: &Plan) -> Result<Run, SpecError> {
    let mut crew = Crew::new(plan, job.seed);
    let mut lab = Lab::new(job.config, job.cc, job.seed, &plan.task, &crew.advisers)?.judged_by(plan.basis);
    let mut samples = Vec::new();
    loop {
        match lab.advance(Instant::NEVER) {
            Stop::Over(verdict) => {
                return Ok(Run {
                    samples,
                    finished: Finished { sim: lab.into_sim(), verdict, fallback: None, chosen: None },
                });
            }
            Stop::Time => {}
            Stop::Asked => samples.extend(crew.decide(&mut lab)),
        }
    }
}

/// Behaviours that take turns.
pub(crate) struct Crew {
    members: Vec<Member>,
    /// The registered schedulers among them.
    pub(crate) advisers: Vec<String>,
    seed: u64,
    draws: u64,
}

#[derive(Clone, Copy)]
enum Member {
    Oracle,
    Uniform,
    Adviser(usize),
}

impl Crew {
    /// The behaviours of `plan`.
    pub(crate) fn new(plan: &Plan, seed: u64) -> Self {
        let mut advisers = Vec::new();
        let members = plan.behaviours.iter().map(|name| match name.as_str() {
            "oracle" => Member::Oracle,
            "uniform" => Member::Uniform,
            _ => {
                advisers.push(name.clone());
                Member::Adviser(advisers.len() - 1)
            }
        });
        Self { members: members.collect(), advisers, seed: mix(seed, 0x0b00), draws: 0 }
    }

    /// Answers the question: what was seen, said and done.
    pub(crate) fn decide(&mut self, lab: &mut Lab) -> Option<Sample> {
        let behaviour = self.behaviour(lab.sim().now());
        let judgement = lab.judge();
        let advised = match self.members.get(behaviour) {
            None | Some(Member::Oracle) => judgement.as_ref().map(|judgement| judgement.label),
            Some(Member::Uniform) => self.uniform(&lab.open()),
            Some(Member::Adviser(at)) => lab.advice(*at),
        };
        let taken = advised.or(judgement.as_ref().map(|judgement| judgement.label)).unwrap_or(0);
        let (at, observation, (_, message, _)) = (lab.sim().now(), lab.observation().to_vec(), lab.message());
        lab.answer(taken);
        Some(Sample { at, observation, judgement: judgement?, taken, behaviour, message })
    }

    fn behaviour(&self, now: Instant) -> usize {
        let stretch = now.as_nanos() / STRETCH.as_nanos();
        (mix(self.seed, stretch) % self.members.len().max(1) as u64) as usize
    }

    fn uniform(&mut self, open: &[bool]) -> Option<usize> {
        let paths: Vec<usize> = (0..open.len()).filter(|at| open[*at]).collect();
        self.draws += 1;
        let draw = mix(!self.seed, self.draws);
        paths.get((draw % paths.len().max(1) as u64) as usize).copied()
    }
}
