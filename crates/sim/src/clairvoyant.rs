//! A clairvoyant: what a scheduler does that can try a decision out before it takes it.
//!
//! At some of the questions of a run, each answer is tried on a copy of the simulation: the base scheduler's own, a
//! packet on each other open path, and to wait. The copy has the same draws, so that it shows the run's own future;
//! from the second packet on the base scheduler decides in it. After three round trips of the slowest path, the answer
//! that has cost least is taken: the base scheduler's own, unless another is better. The cost is the sum of the squares
//! of the messages' delays, or where the application waits for an answer or sends one piece of data, the bytes that had
//! not arrived, over time. What is better for three round trips may be worse in the end: if the base scheduler's own
//! run was better, by the 99th percentile of the messages' delays or by the time until all had arrived, it is the
//! answer.
//!
//! The controller is the run's own. So this is what a better choice of paths can bring under it, as far as one change
//! at a time finds it; [`Bound`](weftway_scenario::bound::Bound) is what no choice and no controller can go beyond. It
//! is for reports: no sender can do this.

use core::cmp::Reverse;

use weftway_host::Host;
use weftway_path::spec::SpecError;
use weftway_path::{BlockedReason, Bytes, Context, Decision, Instant, Span};
use weftway_scenario::config::Workload;
use weftway_sched::Scheduler;

use crate::measure::Finished;
use crate::run::{Job, second, transport_rules};
use crate::{Connection, Pause, Sim, Verdict};

/// Time by which it looks ahead, in round trips of the slowest path; and the least and the most.
const ROUND_TRIPS: u64 = 3;
const LEAST: Span = Span::from_millis(30);
const MOST: Span = Span::from_millis(1500);

/// Answers that are tried out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plan {
    /// The scheduler that decides where nothing is tried out.
    pub base: String,
    /// At how many questions at most: of more, every so many.
    pub tries: u64,
}

/// Counts of its decisions.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Questions with a choice.
    pub choices: u64,
    /// Questions at which answers were tried out.
    pub tried: u64,
    /// Questions at which another answer than the base scheduler's was better; none, if its own run is the answer.
    pub changed: u64,
}

/// A run of `job` by the clairvoyant; nothing is changed in it if the base scheduler's own was no worse.
pub fn run(job: &Job<'_>, plan: &Plan) -> Result<(Finished, Tally), SpecError> {
    let own = Seer::new(job, plan, u64::MAX)?.run();
    let every = own.1.choices.div_ceil(plan.tries.max(1)).max(1);
    let seen = Seer::new(job, plan, every)?.run();
    let by_message = is_by_message(&job.config.workload);
    let is_better = worth(&seen, by_message) < worth(&own, by_message);
    let tally = Tally { changed: if is_better { seen.1.changed } else { 0 }, ..seen.1 };
    let (sim, _, verdict) = if is_better { seen } else { own };
    Ok((Finished { sim, verdict, fallback: None, chosen: None }, tally))
}

/// Returns true if the delays of messages count.
fn is_by_message(workload: &Workload) -> bool {
    workload.has_messages() && !matches!(workload, Workload::RequestResponse { .. } | Workload::Web { .. })
}

/// Worth of a run, less being better: whether it came to its end; then the 99th percentile of the messages' delays, or
/// when all had arrived; then what had not.
fn worth((sim, _, verdict): &Ended, by_message: bool) -> (bool, Span, Reverse<Bytes>) {
    let conn = sim.connection(0);
    let mut delays = conn.data.app.delays.clone();
    delays.sort_unstable();
    let most = delays.get((delays.len() * 99).div_ceil(100).max(1) - 1).copied().unwrap_or_default();
    let time = if by_message { most } else { sim.now().since(Instant::ZERO) };
    (*verdict != Verdict::Finished, time, Reverse(conn.delivered()))
}

/// A run at its end.
type Ended = (Sim, Tally, Verdict);

/// A run that can be tried out.
struct Seer {
    world: World,
    /// Answers are tried out at every so many questions with a choice.
    every: u64,
    by_message: bool,
    tally: Tally,
}

/// A simulation and who answers in it.
#[derive(Clone)]
struct World {
    sim: Sim,
    base: Box<dyn Scheduler>,
    other: Option<Box<dyn Scheduler>>,
}

impl Seer {
    fn new(job: &Job<'_>, plan: &Plan, every: u64) -> Result<Self, SpecError> {
        let mut sim = Sim::new(job.config, job.cc, job.seed)?;
        let base = job.scheduler(&plan.base)?;
        sim.host(0, Host::serving(base.as_ref(), transport_rules(&plan.base)?));
        let other = second(&mut sim, job.config)?;
        let by_message = is_by_message(&job.config.workload);
        Ok(Self { world: World { sim, base, other }, every, by_message, tally: Tally::default() })
    }

    fn run(mut self) -> Ended {
        loop {
            match self.world.sim.advance() {
                Pause::Done(verdict) => return (self.world.sim, self.tally, verdict),
                Pause::Decide(0) => self.decide(),
                pause => self.world.answer(pause),
            }
        }
    }

    fn decide(&mut self) {
        let World { sim, base, .. } = &mut self.world;
        let own = sim.answer(0, base.as_mut());
        let answers = answers(&sim.context(0), own);
        let mut taken = own;
        if answers.len() > 1 {
            self.tally.choices += 1;
            if self.every != u64::MAX && self.tally.choices.is_multiple_of(self.every) {
                self.tally.tried += 1;
                taken = self.best(&answers);
                self.tally.changed += u64::from(taken != own);
            }
        }
        self.world.take(taken);
    }

    /// The answer that costs least; among equals the first.
    fn best(&self, answers: &[Decision]) -> Decision {
        let sim = &self.world.sim;
        let slowest = sim.context(0).paths.iter().map(|path| path.srtt).max().unwrap_or_default();
        let until = sim.now() + (slowest * ROUND_TRIPS).clamp(LEAST, MOST);
        let cost = |answer: &Decision| {
            let mut copy = self.world.clone();
            copy.take(*answer);
            copy.cost(until, self.by_message)
        };
        let costs: Vec<f64> = answers.iter().map(cost).collect();
        let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
        let at = costs.iter().position(|cost| *cost <= least).unwrap_or(0);
        answers[at]
    }
}

/// The scheduler's own answer, and what else may be done with the packet at hand.
fn answers(cx: &Context<'_>, own: Decision) -> Vec<Decision> {
    let mut answers = vec![own];
    if cx.packet.is_none() || cx.paths.len() < 2 {
        return answers;
    }
    let sends = cx.sendable().map(|path| Decision::Send(path.id)).filter(|send| *send != own);
    answers.extend(sends);
    let ends = |path: &weftway_path::Path| path.bytes_in_flight > Bytes::ZERO || path.blocked == BlockedReason::Pacing;
    if own != Decision::Wait && cx.paths.iter().any(ends) {
        answers.push(Decision::Wait);
    }
    answers
}

impl World {
    fn take(&mut self, decision: Decision) {
        self.sim.apply(0, decision);
    }

    /// Answers for anybody else, and tells the base scheduler.
    fn answer(&mut self, pause: Pause) {
        match (pause, &mut self.other) {
            (Pause::Observe(0), _) => self.sim.tell(0, self.base.as_mut()),
            (Pause::Decide(0), _) => self.sim.ask(0, self.base.as_mut()),
            (Pause::Decide(at), Some(other)) => self.sim.ask(at, other.as_mut()),
            (Pause::Observe(at), Some(other)) => self.sim.tell(at, other.as_mut()),
            _ => {}
        }
    }

    /// Cost of going on until `until`.
    fn cost(mut self, until: Instant, by_message: bool) -> f64 {
        let arrived = self.sim.connection(0).app().delays.len();
        let (mut area, mut before) = (0.0, self.sim.now());
        loop {
            let delivered = self.sim.connection(0).delivered();
            let pause = self.sim.advance_until(until);
            let now = self.sim.now().min(until);
            area -= delivered.get() as f64 * now.since(before).as_secs_f64();
            before = now;
            match pause {
                Some(Pause::Done(_)) | None => break,
                Some(pause) => self.answer(pause),
            }
        }
        let conn = self.sim.connection(0);
        if by_message {
            return delays(conn, arrived, until);
        }
        area - conn.delivered().get() as f64 * until.since(before).as_secs_f64()
    }
}

/// The squares of the delays of messages from number `first` on; of those that have not arrived, their ages.
fn delays(conn: &Connection, first: usize, now: Instant) -> f64 {
    let square = |span: Span| span.as_secs_f64() * span.as_secs_f64();
    let arrived = conn.data.app.delays[first..].iter().map(|delay| square(*delay));
    let waiting = conn.data.app.outlook().map(|message| square(now.since(message.written)));
    arrived.chain(waiting).sum()
}
