//! Runs a simulation to its end with schedulers that answer.

use weftway_path::spec::SpecError;
use weftway_scenario::bound::Bound;
use weftway_scenario::config::SimConfig;
use weftway_scenario::{Timing, single};
use weftway_sched::{Interval, Mode, Report, Scheduler, TransportRules};

pub use crate::measure::Finished;
use crate::measure::{Row, Singles};
use crate::{Host, Listener, Pause, Sim, Verdict};

/// A run to make: a configuration, a controller, a seed.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The configuration.
    pub config: &'a SimConfig,
    /// The controller's name and switches.
    pub cc: &'a str,
    /// The seed.
    pub seed: u64,
    /// Decisions for an interval instead of for each packet.
    pub timing: Option<Timing>,
}

/// The transport rules that go with the scheduler that `spec` names.
pub fn transport_rules(spec: &str) -> Result<TransportRules, SpecError> {
    Ok(weftway_sched::parse(spec)?.0.transport)
}

/// The scheduler of the second connection where the first one's decisions come from outside: a rival's own, or min-RTT
/// for the other half of a call.
pub fn second(sim: &mut Sim, config: &SimConfig) -> Result<Option<Box<dyn Scheduler>>, SpecError> {
    if sim.connections() < 2 {
        return Ok(None);
    }
    let spec = config.rival.as_ref().map_or("min-rtt", |rival| rival.scheduler.as_str());
    sim.host(1, Host::of(spec)?);
    weftway_sched::build(spec).map(Some)
}

/// Asks `schedulers`, one per connection, until the simulation is over.
pub fn drive(sim: &mut Sim, schedulers: &mut [&mut dyn Scheduler]) -> Verdict {
    sim.run(schedulers)
}

impl Job<'_> {
    /// Runs with `scheduler`, with which `rules` go; `listeners` listen.
    pub fn run(
        &self,
        scheduler: &mut dyn Scheduler,
        rules: TransportRules,
        listeners: Vec<Box<dyn Listener>>,
    ) -> Result<Finished, SpecError> {
        let mut sim = Sim::new(self.config, self.cc, self.seed)?;
        sim.host(0, Host::serving(scheduler, rules));
        listeners.into_iter().for_each(|listener| sim.listen(listener));
        let verdict = match &self.config.rival {
            None if self.config.is_call() => {
                // Nobody has asked it yet: the other half begins as this one does.
                let mut other = dyn_clone::clone_box(&*scheduler);
                sim.host(1, Host::serving(other.as_ref(), rules));
                drive(&mut sim, &mut [scheduler, other.as_mut()])
            }
            None => drive(&mut sim, &mut [scheduler]),
            Some(rival) => {
                let mut other = weftway_sched::build(&rival.scheduler)?;
                sim.host(1, Host::serving(other.as_ref(), transport_rules(&rival.scheduler)?));
                drive(&mut sim, &mut [scheduler, other.as_mut()])
            }
        };
        let Report { fallback, chosen_bytes: chosen, .. } = scheduler.report();
        Ok(Finished { sim, verdict, fallback, chosen })
    }

    /// Runs with the scheduler that `spec` names.
    pub fn run_named(&self, spec: &str) -> Result<Finished, SpecError> {
        let mut scheduler = self.scheduler(spec)?;
        self.run(scheduler.as_mut(), transport_rules(spec)?, Vec::new())
    }

    /// The scheduler that `spec` names, as it is to be asked. One that decides once an interval by
    /// itself is not asked again by an interval around it: it takes over the mode.
    pub fn scheduler(&self, spec: &str) -> Result<Box<dyn Scheduler>, SpecError> {
        let (entry, mut spec) = weftway_sched::parse(spec)?;
        match self.timing {
            Some(Timing { interval: Some(_), mode, delay }) if entry.has_intervals() && delay.is_zero() => {
                if spec.given.iter().all(|(key, _)| key != "mode") {
                    let mode = if mode == Mode::Exclusive { "exclusive" } else { "preferred" };
                    spec.given.push(("mode".to_owned(), mode.to_owned()));
                }
                entry.make(&spec.given)
            }
            _ => Ok(self.timed(entry.make(&spec.given)?)),
        }
    }

    /// The scheduler as it is to be asked: for every packet, or once an interval.
    pub fn timed(&self, scheduler: Box<dyn Scheduler>) -> Box<dyn Scheduler> {
        match self.timing {
            Some(Timing { interval: Some(epoch), mode, delay }) => {
                Box::new(Interval::new(scheduler, epoch, mode).with_decision_delay(delay))
            }
            _ => scheduler,
        }
    }

    /// Figures of single paths under the same controller and seed; see [`single::singles`].
    pub fn singles(&self) -> Result<Singles, SpecError> {
        single::singles(self.config, |config| {
            let job = Job { config, timing: None, ..*self };
            Ok(job.row(&job.run_named("min-rtt")?, &Singles::default()))
        })
    }

    /// Bound on what a run can have done, whatever its scheduler. The connection opens as in a run: until then no
    /// scheduler is asked.
    pub fn bound(&self) -> Result<Bound, SpecError> {
        let mut sim = Sim::new(self.config, self.cc, self.seed)?;
        let mut other = second(&mut sim, self.config)?;
        while sim.connection(0).established().is_none() {
            match (sim.advance(), &mut other) {
                (Pause::Decide(1), Some(other)) => sim.ask(1, other.as_mut()),
                (Pause::Observe(1), Some(other)) => sim.tell(1, other.as_mut()),
                _ => break,
            }
        }
        let start = sim.connection(0).established();
        Ok(start.map_or_else(Bound::default, |start| Bound::of(self.config, self.seed, start)))
    }

    /// The figures of a finished run.
    pub fn row(&self, finished: &Finished, singles: &Singles) -> Row {
        finished.measurement(self.config, singles).row(self.config)
    }
}

/// Runs `config` with registered schedulers and the given controller; the simulation at its end.
pub fn run(config: &SimConfig, scheduler: &str, cc: &str, seed: u64) -> Result<(Sim, Verdict), SpecError> {
    let Finished { sim, verdict, .. } = Job { config, cc, seed, timing: None }.run_named(scheduler)?;
    Ok((sim, verdict))
}
