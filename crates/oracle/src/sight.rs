//! Worth of perfect sight: `earliest-delivery`, told by the links when a packet arrives, in place of its own estimates.

use weftway_path::spec::SpecError;
use weftway_path::{Path, Span};
use weftway_sched::learned::foreseen::Foreseen;

use crate::arrivals::{as_it_is, holding, run, takes};
use weftway_sim::Sim;
use weftway_sim::run::{Finished, Job};
use weftway_sim::wire::{Datagram, Load};

/// The number of no connection: the packet whose arrival is asked for.
const PROBE: u8 = u8::MAX;

/// Arrival times that are told.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Sight {
    /// Time at which a packet would arrive if the links stayed as they are: the label of `foreseen`. Nothing of what
    /// comes is known.
    Present,
    /// Time at which it will arrive, if it is not lost.
    Arrival,
}

/// A run of `job` by the rule `earliest-delivery` with this sight: at each question it is told of each path that holds
/// data when a packet given to it now arrives.
pub fn sighted(job: &Job<'_>, sight: Sight) -> Result<Finished, SpecError> {
    run(job, &mut Foreseen::listening(), |sim, rule| {
        sim.tell(0, rule);
        for path in holding(sim) {
            rule.told(sim.now(), path, sight.takes(sim, path));
        }
    })
}

impl Sight {
    /// In what time a packet arrives that the path gets now.
    fn takes(self, sim: &Sim, path: &Path) -> Span {
        let probe = Datagram { conn: PROBE, path: path.id, epoch: 0, marked: false, load: Load::Cross };
        match self {
            Self::Present => takes(sim, path, as_it_is),
            Self::Arrival => takes(sim, path, |link, now, bytes| {
                link.future_arrival_of(now, bytes, probe, |datagram| datagram.conn == PROBE)
            }),
        }
    }
}
