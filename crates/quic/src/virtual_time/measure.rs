//! The way from a scenario to a row.

use weftway_host::Host;
use weftway_path::{Bytes, Instant, PathId};
use weftway_scenario::config::SimConfig;
use weftway_scenario::measurement::{Counts, Measurement, Messages, PathFigures, Reordering, Row, Singles};
use weftway_scenario::single;

use super::world::{Finished, RunError, World};

/// A run to make.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The configuration. It has no obstacle.
    pub config: &'a SimConfig,
    /// The controller's name and switches.
    pub cc: &'a str,
    /// The seed.
    pub seed: u64,
}

impl Job<'_> {
    /// Runs with the scheduler that `spec` names: the row. `singles` is empty where aggregation means nothing.
    pub fn row(&self, spec: &str, singles: &Singles) -> Result<Row, RunError> {
        self.row_of(spec, singles, |host| self.world(host))
    }

    /// The same, of the run that `world` begins.
    pub fn row_of<E: From<RunError>>(
        &self,
        spec: &str,
        singles: &Singles,
        world: impl FnOnce(Host) -> Result<World, E>,
    ) -> Result<Row, E> {
        let (entry, spec) = weftway_sched::parse(spec).map_err(RunError::from)?;
        let mut scheduler = entry.make(&spec.given).map_err(RunError::from)?;
        let mut world = world(Host::serving(scheduler.as_ref(), entry.transport))?;
        let finished = world.run(scheduler.as_mut())?;
        let mut measured = measurement(self.config, &world, &finished, singles);
        let report = scheduler.report();
        (measured.fallback, measured.chosen) = (report.fallback, report.chosen_bytes);
        Ok(measured.row(self.config))
    }

    /// Figures of single paths under the same controller and seed; see [`single::singles`].
    pub fn singles(&self) -> Result<Singles, RunError> {
        single::singles(self.config, |config| Job { config, ..*self }.row("min-rtt", &Singles::default()))
    }

    /// The run before it begins.
    pub fn world(&self, host: Host) -> Result<World, RunError> {
        World::new(self.config, self.cc, self.seed, host)
    }
}

/// The figures of a finished run.
pub fn row(config: &SimConfig, world: &World, finished: &Finished, singles: &Singles) -> Row {
    measurement(config, world, finished, singles).row(config)
}

fn measurement(config: &SimConfig, world: &World, finished: &Finished, singles: &Singles) -> Measurement {
    let (receiver, elapsed) = (world.receiver(), world.elapsed());
    let sender = world.sender();
    let paths = || (0..config.paths.len() as u8).map(PathId::new);
    let sum = |count: fn(&crate::driver::PathTally) -> u64| {
        Some(sender.map_or(0, |sender| paths().map(|id| count(sender.tally(id))).sum()))
    };
    let counts = sender.map(|sender| sender.counts()).unwrap_or_default();
    Measurement {
        verdict: finished.verdict,
        back: None,
        elapsed,
        delivered: receiver.delivered(),
        singles: singles.clone(),
        counts: Counts {
            arrived: Some(receiver.tally.arrived),
            out_of_order: Some(receiver.tally.out_of_order),
            reinjections: sum(|path| path.reinjections),
            copies: sum(|path| path.copies),
            duplicates: Some(receiver.tally.duplicates),
            window_drops: Some(receiver.tally.beyond),
            timeouts: sum(|path| path.timeouts),
            spurious: sum(|path| path.spurious),
            capture_out_of_order: None,
            capture_retransmissions: None,
            decisions: Some(counts.decisions),
            waits: Some(counts.waits),
            faults: Some(counts.faults),
        },
        reordering: Some(Reordering {
            mean_wait_ms: receiver.mean_wait_ms(),
            held_max: receiver.tally.held_max,
            held_mean: receiver.held_mean(Instant::ZERO + elapsed, elapsed),
        }),
        fallback: None,
        chosen: None,
        messages: sender.map_or_else(Messages::default, |sender| Messages::from(&sender.source.data.app)),
        paths: paths().map(|id| figures(world, id)).collect(),
        real_time: None,
        became_tcp: None,
        rival_delivered: None,
    }
}

fn figures(world: &World, id: PathId) -> PathFigures {
    let (wire, delivered) = (world.wire(id), Bytes::new(world.receiver().delivered[id.index()]));
    let known = PathFigures {
        delivered,
        reinjections: Some(0),
        lost: Some(wire.lost),
        queue_drops: Some(wire.dropped),
        lost_or_dropped: Some(wire.lost + wire.dropped),
        timeouts: Some(0),
        wire: Some(Bytes::new(wire.bytes)),
        ..PathFigures::default()
    };
    let Some(sender) = world.sender() else { return known };
    let tally = sender.tally(id);
    PathFigures {
        packets: tally.packets,
        retransmissions: tally.retransmissions,
        reinjections: Some(tally.reinjections),
        timeouts: Some(tally.timeouts),
        srtt: sender.view(id).srtt,
        ..known
    }
}
