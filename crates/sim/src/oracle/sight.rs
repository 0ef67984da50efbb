//! What perfect sight would be worth: `earliest-delivery`, told by the links when a packet arrives, in place of its own
//! estimates.

use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Path, Span};
use weftway_sched::learned::foreseen::Foreseen;

use super::arrivals::{FAR, HEADS, takes};
use super::truth::{crossing, links};
use crate::measure::Finished;
use crate::run::{Job, second, transport_rules};
use crate::wire::{Datagram, Load};
use crate::{Host, Pause, Sim};

/// The scheduler that is told.
const RULE: &str = "earliest-delivery";
/// The number of no connection: the packet whose arrival is asked for.
const PROBE: u8 = u8::MAX;

/// What is told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// When a packet would arrive if the links stayed as they are: the label of `foreseen`. Nothing of what comes is known.
    Present,
    /// When it will arrive, if it is not lost.
    Arrival,
}

/// A run of `job` by the rule `earliest-delivery` with this sight: at each question it is told of each path that holds data
/// when a packet given to it now arrives.
pub fn sighted(job: &Job<'_>, sight: Sight) -> Result<Finished, SpecError> {
    let mut sim = Sim::new(job.config, job.cc, job.seed)?;
    let mut rule = Foreseen::listening();
    sim.host(0, Host::serving(&rule, transport_rules(RULE)?));
    let mut other = second(&mut sim, job.config)?;
    loop {
        match (sim.advance(), &mut other) {
            (Pause::Done(verdict), _) => return Ok(Finished { sim, verdict, fallback: None, chosen: None }),
            (Pause::Decide(0), _) => {
                sim.tell(0, &mut rule);
                let now = sim.now();
                for path in sim.context(0).paths.iter().filter(|path| path.unacked() > Bytes::ZERO) {
                    rule.told(now, path, sight.arrival(&sim, path));
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

impl Sight {
    /// In what time a packet arrives that the path gets now.
    fn arrival(self, sim: &Sim, path: &Path) -> Span {
        match self {
            Self::Present => takes(sim, path).min(FAR),
            Self::Arrival => will_take(sim, path).min(FAR),
        }
    }
}

/// The same with what comes on the path's own link; a shared link behind it is taken as it is.
fn will_take(sim: &Sim, path: &Path) -> Span {
    let (now, bytes) = (sim.now(), path.queued + path.mss + HEADS);
    let mut links = links(sim, path.id);
    let probe = Datagram { conn: PROBE, path: path.id, epoch: 0, marked: false, load: Load::Cross };
    let own = links.next().map_or(FAR, |link| {
        let at = link.future_arrival_of(now, bytes, probe, |datagram| datagram.conn == PROBE);
        if at.is_never() { FAR } else { at.since(now) }
    });
    links.fold(own, |sum, link| sum + Span::from_nanos((crossing(link, now) * 1e9) as u64))
}
