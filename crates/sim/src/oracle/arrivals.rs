//! When packets would arrive, told by who sees the links' queues and what they bring: labels for the estimate of `foreseen`.

use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Path, Span};
use weftway_sched::learned::foreseen::Foreseen;

use super::truth::{crossing, links};
use crate::run::{Job, second, transport_rules};
use crate::{Host, Pause, Sim};

/// What heads add to a packet, about: some times are right to that.
pub(super) const HEADS: Bytes = Bytes::new(60);
/// No packet takes longer.
pub(super) const FAR: Span = Span::from_secs(60);

/// Runs `job` with a copy of `rule`. At every `every`-th question, for each
/// path that holds data: what the network sees, and the binary logarithm of the time that a packet takes which is given to the
/// path now over the rule's own estimate.
pub fn arrivals(job: &Job<'_>, mut rule: Foreseen, every: u64) -> Result<Vec<f32>, SpecError> {
    let mut sim = Sim::new(job.config, job.cc, job.seed)?;
    sim.host(0, Host::serving(&rule, transport_rules("foreseen")?));
    let mut other = second(&mut sim, job.config)?;
    let (mut rows, mut asked) = (Vec::new(), 0u64);
    loop {
        match (sim.advance(), &mut other) {
            (Pause::Done(_), _) => return Ok(rows),
            (Pause::Decide(0), _) => {
                asked += 1;
                if asked.is_multiple_of(every) {
                    sim.tell(0, &mut rule);
                    let cx = sim.context(0);
                    let holding = cx.paths.iter().filter(|path| path.unacked() > Bytes::ZERO);
                    rows.extend(holding.filter_map(|path| row(&sim, &rule, path)).flatten());
                }
                sim.ask(0, &mut rule);
            }
            (Pause::Observe(0), _) => sim.tell(0, &mut rule),
            (Pause::Decide(at), Some(other)) => sim.ask(at, other.as_mut()),
            (Pause::Observe(at), Some(other)) => sim.tell(at, other.as_mut()),
            _ => {}
        }
    }
}

fn row(sim: &Sim, rule: &Foreseen, path: &Path) -> Option<impl Iterator<Item = f32>> {
    let (inputs, own) = rule.seen(sim.now(), path)?;
    let took = takes(sim, path).min(FAR);
    let label = libm::log2(took.as_secs_f64() / own.max(Span::from_micros(1)).as_secs_f64()) as f32;
    Some(inputs.into_iter().chain([label]))
}

/// How long a packet takes that the path gets now, behind what the path has queued.
pub(super) fn takes(sim: &Sim, path: &Path) -> Span {
    let (now, bytes) = (sim.now(), path.queued + path.mss + HEADS);
    let mut links = links(sim, path.id);
    let own = links.next().map_or(FAR, |link| {
        let at = link.arrival_of(now, bytes);
        if at.is_never() { FAR } else { at.since(now) }
    });
    links.fold(own, |sum, link| sum + Span::from_nanos((crossing(link, now) * 1e9) as u64))
}
