//! Runs a simulation to its end with schedulers that answer.

use weftway_path::spec::SpecError;
use weftway_sched::Scheduler;

use crate::config::SimConfig;
use crate::{Host, Pause, Sim, Verdict};

impl Host {
    /// What the scheduler that `spec` names needs.
    pub fn of(spec: &str) -> Result<Self, SpecError> {
        let (entry, _) = weftway_sched::parse(spec)?;
        Ok(Self { needs: entry.needs, rules: entry.transport })
    }
}

/// Asks `schedulers`, one per connection, until the simulation is over.
pub fn drive(sim: &mut Sim, schedulers: &mut [&mut dyn Scheduler]) -> Verdict {
    let explains = sim.is_heard();
    loop {
        match sim.advance() {
            Pause::Decide(conn) => {
                let scheduler = &mut *schedulers[conn];
                if !sim.events(conn).is_empty() {
                    sim.observe(conn, scheduler);
                }
                let decision = scheduler.select(&sim.context(conn));
                if explains && conn == 0 {
                    let why = scheduler.explain(&sim.context(conn));
                    sim.explain(conn, decision, why);
                }
                sim.set_wake(conn, scheduler.wake());
                sim.apply(conn, decision);
            }
            Pause::Observe(conn) => sim.observe(conn, &mut *schedulers[conn]),
            Pause::Done(verdict) => return verdict,
        }
    }
}

/// Runs `config` with registered schedulers and the given controller; the simulation at its end.
pub fn run(config: &SimConfig, scheduler: &str, cc: &str, seed: u64) -> Result<(Sim, Verdict), SpecError> {
    let mut sim = Sim::new(config, cc, seed)?;
    let mut main = weftway_sched::build(scheduler)?;
    sim.host(0, Host::of(scheduler)?);
    let mut rival = weftway_sched::build(config.rival.as_ref().map_or("min-rtt", |rival| &rival.scheduler))?;
    if let Some(rival) = &config.rival {
        sim.host(1, Host::of(&rival.scheduler)?);
    }
    let verdict = drive(&mut sim, &mut [main.as_mut(), rival.as_mut()]);
    Ok((sim, verdict))
}
