//! Worth of a perfect controller: windows that follow the links, under a scheduler that sees nothing.

use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Instant, PathId, Span};
use weftway_sim::run::{Finished, Job, second, transport_rules};
use weftway_sim::{Host, Pause, Sim};

/// Queue that a window allows for, as time: acknowledgements come in pairs and late. From 5 to 100 ms it hardly matters.
const QUEUE: Span = Span::from_millis(25);
/// Packets beyond that, so that acknowledgements do not stop on slow links: two on their way, and two to be acknowledged.
const MORE: u64 = 4;
/// Time after which windows are set again, if nothing is asked before.
const PACE: Span = Span::from_millis(1);
/// Largest window.
const LARGEST: Bytes = Bytes::new(1 << 40);

/// A run of `job` by the scheduler that `spec` names, in which an oracle is the controller: each path's window is its
/// link's present rate times its base round trip and 25 ms more, from the first packet on, whatever is lost.
pub fn controlled(job: &Job<'_>, spec: &str) -> Result<Finished, SpecError> {
    let mut sim = Sim::new(job.config, job.cc, job.seed)?;
    let mut scheduler = job.scheduler(spec)?;
    sim.host(0, Host::serving(scheduler.as_ref(), transport_rules(spec)?));
    let mut other = second(&mut sim, job.config)?;
    loop {
        let until = sim.now() + PACE;
        match (sim.advance_until(until), &mut other) {
            (Some(Pause::Done(verdict)), _) => return Ok(Finished { sim, verdict, fallback: None, chosen: None }),
            (Some(Pause::Decide(0)), _) => {
                follow(&mut sim);
                sim.ask(0, scheduler.as_mut());
            }
            (Some(Pause::Observe(0)), _) => sim.tell(0, scheduler.as_mut()),
            (Some(Pause::Decide(at)), Some(other)) => sim.ask(at, other.as_mut()),
            (Some(Pause::Observe(at)), Some(other)) => sim.tell(at, other.as_mut()),
            _ => follow(&mut sim),
        }
    }
}

/// Sets the windows of all paths that are there.
fn follow(sim: &mut Sim) {
    for at in 0..sim.context(0).paths.len() {
        let id = sim.context(0).paths[at].id;
        sim.hold_window(id, window(sim, id, sim.now()));
    }
}

/// Bytes in flight that keep the slowest link of the path busy. Of a link that several paths share, each has its part.
fn window(sim: &Sim, id: PathId, now: Instant) -> Bytes {
    let conn = sim.connection(0);
    let route = conn.route(id);
    let (own, back) = (sim.link(route.data).outlook(now), sim.link(route.acks).outlook(now));
    let (mut rate, mut delay) = (own.rate, own.delay + back.delay);
    if let Some(via) = route.via {
        let users = sim.context(0).paths.iter().filter(|path| conn.route(path.id).via == Some(via)).count().max(1);
        let shared = sim.link(via).outlook(now);
        rate = rate.min(shared.rate.mul_div(1, users as u64));
        delay += shared.delay;
    }
    let product = rate.bdp(delay + QUEUE).min(LARGEST);
    product + conn.transport().mss.mul_div(MORE, 1)
}
