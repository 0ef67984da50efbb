//! Measurement of a simulation: a [`Measurement`], as of any other backend.

use weftway_path::{Bytes, Instant};
use weftway_scenario::config::SimConfig;
pub use weftway_scenario::measurement::Singles;
use weftway_scenario::measurement::{Counts, PathFigures, Reordering};
use weftway_scenario::stack::LossRecovery;
pub use weftway_scenario::{Measurement, Row};
use weftway_sched::FallbackTally;

use crate::capture::Capture;
use crate::{Connection, PathTally, Sim, Verdict};

/// A run at its end.
pub struct Finished {
    /// The simulation.
    pub sim: Sim,
    /// Verdict on its end.
    pub verdict: Verdict,
    /// Uses of the scheduler's fallback, if it has one.
    pub fallback: Option<FallbackTally>,
    /// Bytes that the paths carried that it had chosen for an interval, if it decides for intervals.
    pub chosen: Option<Bytes>,
}

impl Finished {
    /// Measurement of the run. `singles` is empty where aggregation means nothing.
    pub fn measurement(&self, config: &SimConfig, singles: &Singles) -> Measurement {
        let Self { sim, verdict, fallback, chosen } = self;
        let conn = sim.connection(0);
        let (elapsed, data) = (sim.now().since(Instant::ZERO), conn.reordering());
        Measurement {
            verdict: *verdict,
            elapsed,
            delivered: conn.delivered(),
            rival_delivered: config.rival.is_some().then(|| sim.connection(1).delivered()),
            singles: singles.clone(),
            counts: counts(config, conn),
            reordering: Some(Reordering {
                mean_wait_ms: data.mean_wait(),
                held_max: data.held_max,
                held_mean: data.held_mean(sim.now(), elapsed),
            }),
            fallback: *fallback,
            chosen: *chosen,
            messages: conn.app().into(),
            back: config.is_call().then(|| sim.connection(1).app().into()),
            paths: (0..config.paths.len()).map(|path| figures(conn, path)).collect(),
            real_time: None,
            became_tcp: config.transport.rules.repeats_before_tcp.map(|_| conn.paths.is_tcp()),
        }
    }
}

fn counts(config: &SimConfig, conn: &Connection) -> Counts {
    let (tally, host) = (&conn.tally, &conn.dispatch.host.counts);
    let sum = |count: fn(&PathTally) -> u64| Some(conn.path_tallies.iter().map(count).sum());
    // A capture of QUIC shows nothing of this.
    let is_tcp = config.transport.rules.recovery == LossRecovery::Tcp;
    let tags = |count: fn(&Capture) -> u64| {
        is_tcp.then(|| conn.receive.receiver.paths.iter().map(|path| count(&path.capture)).sum())
    };
    Counts {
        arrived: Some(tally.arrived),
        out_of_order: Some(tally.ooo_packets),
        reinjections: sum(|path| path.reinjections),
        copies: sum(|path| path.copies),
        duplicates: Some(tally.duplicates),
        window_drops: Some(tally.window_drops),
        timeouts: sum(|path| path.timeouts),
        spurious: sum(|path| path.spurious),
        capture_out_of_order: tags(|capture| capture.out_of_order),
        capture_retransmissions: tags(|capture| capture.retransmissions),
        decisions: Some(host.decisions),
        waits: Some(host.waits),
        faults: Some(host.faults),
    }
}

fn figures(conn: &Connection, path: usize) -> PathFigures {
    let tally = &conn.path_tallies[path];
    PathFigures {
        delivered: Bytes::new(tally.delivered),
        packets: tally.packets,
        retransmissions: tally.retransmissions,
        reinjections: Some(tally.reinjections),
        lost: Some(tally.wire_lost),
        queue_drops: Some(tally.queue_dropped),
        lost_or_dropped: Some(tally.wire_lost + tally.queue_dropped),
        timeouts: Some(tally.timeouts),
        srtt: conn.srtt(path),
        wire: Some(Bytes::new(tally.wire_bytes)),
    }
}
