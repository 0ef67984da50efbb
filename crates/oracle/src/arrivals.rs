//! Arrival times of packets, told by who sees the links' queues and what they bring: labels for the estimate of
//! `foreseen`.

use weftway_link::Link;
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Instant, Path, Span};
use weftway_sched::learned::foreseen::Foreseen;

use crate::truth::{crossing, links};
use weftway_sim::run::{Finished, Job, second, transport_rules};
use weftway_sim::wire::Datagram;
use weftway_sim::{Host, Pause, Sim};

/// Size of the heads of a packet, about: some times are right to that.
const HEADS: Bytes = Bytes::new(60);
/// No packet takes longer.
const FAR: Span = Span::from_secs(60);

/// Runs `job` with a copy of `rule`. At every `every`-th question, for each path that holds data: what the network
/// sees, and the binary logarithm of the time that a packet takes which is given to the path now over the rule's own
/// estimate.
pub fn arrivals(job: &Job<'_>, mut rule: Foreseen, every: u64) -> Result<Vec<f32>, SpecError> {
    let (mut rows, mut asked) = (Vec::new(), 0u64);
    run(job, &mut rule, |sim, rule| {
        asked += 1;
        if asked.is_multiple_of(every) {
            sim.tell(0, rule);
            rows.extend(holding(sim).filter_map(|path| row(sim, rule, path)).flatten());
        }
    })?;
    Ok(rows)
}

/// Runs `job` with `rule`. `look` comes before each question.
pub(crate) fn run(
    job: &Job<'_>,
    rule: &mut Foreseen,
    mut look: impl FnMut(&mut Sim, &mut Foreseen),
) -> Result<Finished, SpecError> {
    let mut sim = Sim::new(job.config, job.cc, job.seed)?;
    sim.host(0, Host::serving(rule, transport_rules("foreseen")?));
    let mut other = second(&mut sim, job.config)?;
    loop {
        match (sim.advance(), &mut other) {
            (Pause::Done(verdict), _) => return Ok(Finished { sim, verdict, fallback: None, chosen: None }),
            (Pause::Decide(0), _) => {
                look(&mut sim, rule);
                sim.ask(0, rule);
            }
            (Pause::Observe(0), _) => sim.tell(0, rule),
            (Pause::Decide(at), Some(other)) => sim.ask(at, other.as_mut()),
            (Pause::Observe(at), Some(other)) => sim.tell(at, other.as_mut()),
            _ => {}
        }
    }
}

/// The paths that hold data.
pub(crate) fn holding(sim: &Sim) -> impl Iterator<Item = &Path> {
    sim.context(0).paths.iter().filter(|path| path.unacked() > Bytes::ZERO)
}

fn row(sim: &Sim, rule: &Foreseen, path: &Path) -> Option<impl Iterator<Item = f32>> {
    let (inputs, own) = rule.seen(sim.now(), path)?;
    let took = takes(sim, path, as_it_is);
    let label = libm::log2(took.as_secs_f64() / own.max(Span::from_micros(1)).as_secs_f64()) as f32;
    Some(inputs.into_iter().chain([label]))
}

/// Time that a packet takes that the path gets now, behind what the path has queued, where `arrival` says when one of
/// so many bytes arrives on a link. A shared link behind the path's own is taken as it is.
pub(crate) fn takes(sim: &Sim, path: &Path, arrival: impl Fn(&Link<Datagram>, Instant, Bytes) -> Instant) -> Span {
    let (now, bytes) = (sim.now(), path.queued + path.mss + HEADS);
    let mut links = links(sim, path.id);
    let own = links.next().map_or(FAR, |link| {
        let at = arrival(link, now, bytes);
        if at.is_never() { FAR } else { at.since(now) }
    });
    links.fold(own, |sum, link| sum + Span::from_nanos((crossing(link, now) * 1e9) as u64)).min(FAR)
}

/// Time at which one arrives if the link stays as it is.
pub(crate) fn as_it_is(link: &Link<Datagram>, now: Instant, bytes: Bytes) -> Instant {
    link.arrival_of(now, bytes)
}
