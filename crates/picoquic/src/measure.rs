//! The way from a scenario to a row.

use weftway_path::{Bytes, PathId, Span};
use weftway_quic::virtual_time;
use weftway_scenario::Variant;
use weftway_scenario::config::{SimConfig, Workload};
use weftway_scenario::measurement::{Counts, Measurement, Messages, PathFigures, Row, Singles};
use weftway_scenario::single;

use crate::library::{CONTROLLERS, Quality, controller};
use crate::world::{RunError, World};

/// The rule of the registry that follows picoquic's choice of a path: its name stands for picoquic itself here.
pub const SCHEDULER: &str = "picoquic";
/// Paths that picoquic has at a time at most (`PICOQUIC_NB_PATH_TARGET`).
const MOST_PATHS: usize = 8;
/// Largest UDP payload of picoquic's, and IPv4 and UDP.
const MOST_PACKET: Bytes = Bytes::new(1536 + virtual_time::HEADERS);

/// Why picoquic cannot run this variant under this controller, if it cannot: one line.
pub fn obstacle(variant: &Variant, cc: &str) -> Option<String> {
    let SimConfig { workload, policy, .. } = &variant.config;
    let no = |what: &str| Some(what.to_owned());
    if let Some(why) = virtual_time::obstacle(variant, SCHEDULER) {
        return Some(why);
    }
    if controller(cc).is_none() {
        let names: Vec<&str> = CONTROLLERS.iter().map(|&(name, _)| name).collect();
        return Some(format!("picoquic has no controller {cc}; there is {}", names.join(", ")));
    }
    if let Some(why) = of_links(&variant.config) {
        return Some(why);
    }
    if policy.is_some() {
        return no("picoquic knows no tiers, caps and prices of paths");
    }
    if matches!(workload, Workload::Flows { .. } | Workload::Voip { .. }) {
        return no("picoquic sends one stream here: flows and datagrams are not run on it");
    }
    None
}

/// Returns what of the links and the transport picoquic cannot do, at whichever end it is: one line.
pub fn of_links(config: &SimConfig) -> Option<String> {
    let SimConfig { transport, paths, .. } = config;
    let no = |what: &str| Some(what.to_owned());
    if paths.len() > MOST_PATHS {
        return Some(format!("{} paths; picoquic has {MOST_PATHS} at most", paths.len()));
    }
    if transport.packet > MOST_PACKET {
        return Some(format!("a packet of {}; picoquic's have {MOST_PACKET} at most", transport.packet));
    }
    if transport.ecn {
        return no("picoquic runs without ECN here");
    }
    if paths.iter().any(|path| !path.presence.is_empty()) {
        return no("paths that are added and removed are not run on picoquic yet");
    }
    None
}

/// A run to make.
#[derive(Clone, Copy, Debug)]
pub struct Job<'a> {
    /// The configuration. It has no obstacle.
    pub config: &'a SimConfig,
    /// The controller's name.
    pub cc: &'a str,
    /// The seed.
    pub seed: u64,
}

impl Job<'_> {
    /// Runs: the row. `singles` is empty where aggregation means nothing.
    pub fn row(&self, singles: &Singles) -> Result<Row, RunError> {
        let mut world = World::new(self.config, self.cc, self.seed)?;
        let verdict = world.run()?;
        let config = self.config;
        let paths = || (0..config.paths.len() as u8).map(PathId::new);
        let total: u64 = paths().map(|path| world.tally(path).arrived_bytes).sum();
        let known: Vec<_> = paths().map(|path| world.sender().quality(path)).collect();
        let sum = |which: Quality| known.iter().flatten().map(|figure| figure(which)).sum::<u64>();
        let figures = |path: PathId| {
            let (wire, tally) = (world.network().wire[path.index()], world.tally(path));
            let figure = |which| known[path.index()].as_ref().map_or(0, |figure| figure(which));
            let delivered = Bytes::new(world.delivered()).mul_div(tally.arrived_bytes, total.max(1));
            PathFigures {
                delivered,
                packets: tally.packets,
                retransmissions: figure(Quality::Lost),
                reinjections: None,
                lost: Some(wire.lost),
                queue_drops: Some(wire.dropped),
                lost_or_dropped: Some(wire.lost + wire.dropped),
                timeouts: Some(figure(Quality::TimerLosses)),
                srtt: Span::from_micros(figure(Quality::Rtt)),
                wire: Some(Bytes::new(wire.bytes)),
            }
        };
        let measured = Measurement {
            verdict,
            back: None,
            elapsed: world.elapsed(),
            delivered: Bytes::new(world.delivered()),
            singles: singles.clone(),
            counts: Counts {
                arrived: Some(paths().map(|path| world.tally(path).arrived).sum()),
                timeouts: Some(sum(Quality::TimerLosses)),
                spurious: Some(sum(Quality::Spurious)),
                ..Counts::default()
            },
            reordering: None,
            fallback: None,
            chosen: None,
            messages: Messages::from(world.app()),
            paths: paths().map(figures).collect(),
            real_time: None,
            became_tcp: None,
            rival_delivered: None,
        };
        Ok(measured.row(config))
    }

    /// Figures of single paths under the same controller and seed; see [`single::singles`].
    pub fn singles(&self) -> Result<Singles, RunError> {
        single::singles(self.config, |config| Job { config, ..*self }.row(&Singles::default()))
    }
}
