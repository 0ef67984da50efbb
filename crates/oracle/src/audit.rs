//! O2: what comes of each path, tried out on copies of the simulation.
//!
//! Each copy sends the message at hand on its path, and lets O1 decide from then on. All have the
//! same draws, but a loss that met one packet meets another in a copy that sends in another order:
//! futures part for good, and what a decision did drowns in what chance did since. [`Future::delay`]
//! is therefore told apart from [`Future::value`].

use weftway_path::spec::SpecError;
use weftway_path::{Instant, PathId, Span};

use crate::collect::{Crew, Plan};
use crate::judge::{LAMBDA, jain};
use crate::lab::{Lab, Stop};
use crate::shares::HORIZON;
use crate::{Judgement, Truth};
use weftway_sim::run::Job;

/// Outcome of taking one path.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Future {
    /// J: goodput of the next second over the links' rates, less λ·(1 − Jain's index of the paths' deliveries over
    /// their rates).
    pub value: f64,
    /// Time that the message took from when it was written; none if it had not arrived a second later.
    pub delay: Option<Span>,
}

/// A question, as O1 judged it and as it would have come.
#[derive(Clone, Debug)]
pub struct Audit {
    /// O1.
    pub judgement: Judgement,
    /// O2, for each path that could be taken.
    pub futures: Vec<Option<Future>>,
}

impl Audit {
    /// The path of largest value; among equals the first.
    pub fn best_value(&self) -> Option<usize> {
        self.best(|future| Some(future.value))
    }

    /// The path on which the message came first; among equals the first.
    pub fn soonest(&self) -> Option<usize> {
        self.best(|future| future.delay.map(|delay| -delay.as_secs_f64()))
    }

    fn best(&self, of: impl Fn(&Future) -> Option<f64>) -> Option<usize> {
        let valued = self.futures.iter().enumerate().filter_map(|(at, future)| Some((at, of(&(*future)?)?)));
        valued.reduce(|best, next| if next.1 > best.1 { next } else { best }).map(|(at, _)| at)
    }
}

/// Runs `job` as `plan` says, and audits every `every`-th question.
pub fn audit(job: &Job<'_>, plan: &Plan, every: usize) -> Result<Vec<Audit>, SpecError> {
    let mut crew = Crew::new(plan, job.seed);
    let mut lab = Lab::new(job.config, job.cc, job.seed, &plan.task, &crew.advisers)?.judged_by(plan.basis);
    let (mut audits, mut asked) = (Vec::new(), 0);
    while lab.advance(Instant::NEVER) == Stop::Asked {
        asked += 1;
        if asked % every.max(1) == 0
            && let Some(judgement) = lab.judge()
        {
            audits.push(Audit { judgement, futures: futures(&lab) });
        }
        crew.decide(&mut lab);
    }
    Ok(audits)
}

/// Outcomes of taking each path.
fn futures(lab: &Lab) -> Vec<Option<Future>> {
    lab.open().iter().enumerate().map(|(path, open)| open.then(|| future(lab.twin(), path))).collect()
}

fn future(mut lab: Lab, path: usize) -> Future {
    let (_, _, number) = lab.message();
    let until = lab.sim().now() + HORIZON;
    let (before, rates) = (delivered(&lab), rates(&lab));
    lab.answer(path);
    while lab.advance(until) == Stop::Asked {
        if let Some(judgement) = lab.judge() {
            lab.answer(judgement.label);
        }
    }
    let after = delivered(&lab);
    let goodput = (after.0 - before.0) / HORIZON.as_secs_f64() / rates.iter().sum::<f64>();
    let loads = after.1.iter().zip(&before.1).map(|(after, before)| after - before);
    let shares: Vec<f64> = loads.zip(&rates).filter(|(_, rate)| **rate > 0.0).map(|(load, rate)| load / rate).collect();
    let delay = lab.sim().connection(0).app().delays.get(number).copied();
    Future { value: goodput - LAMBDA * (1.0 - jain(&shares)), delay }
}

/// Bytes that have arrived: in order, and first on each path.
fn delivered(lab: &Lab) -> (f64, Vec<f64>) {
    let conn = lab.sim().connection(0);
    (conn.delivered().get() as f64, conn.path_tallies.iter().map(|path| path.delivered as f64).collect())
}

/// The paths' rates now, in bytes per second.
fn rates(lab: &Lab) -> Vec<f64> {
    let paths = lab.sim().connection(0).path_tallies.len() as u8;
    (0..paths).map(|at| Truth::of(lab.sim(), PathId::new(at)).rate.as_bps() as f64 / 8.0).collect()
}
