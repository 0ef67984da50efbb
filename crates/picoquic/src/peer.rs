//! picoquic as the receiver of our driver: noq sends, picoquic takes in, acknowledges, and opens paths as a client.

use std::sync::PoisonError;

use weftway_host::Host;
use weftway_path::{Instant, PathId};
use weftway_quic::virtual_time::{self, Peer, World};
use weftway_scenario::config::{AckPath, Buffer, Direction, Opening, SimConfig};
use weftway_scenario::measurement::{Row, Singles};
use weftway_scenario::{Variant, single};

use crate::end::{End, Setting, Side};
use crate::library::{self, ALONE, Functions, Quality};
use crate::measure;
use crate::wake::Wake;
use crate::world::{RunError, begin_random, payload};

/// Controller of an end that sends a limit now and then. Under New Reno a few losses leave a window that holds limits up
/// for a round trip.
const CONTROLLER: &std::ffi::CStr = c"cubic";

#[cfg(feature = "tls")]
use crate::tls::crypto;

/// Why there is none: this was compiled without the feature `tls`.
#[cfg(not(feature = "tls"))]
fn crypto() -> Result<virtual_time::Crypto, String> {
    Err("it was compiled without TLS; in a checkout, install picoquic into .weft/picoquic, and ./weft compiles it with TLS".into())
}

/// Why picoquic cannot receive in this variant, sent by this scheduler, if it cannot: one line.
pub fn receiver_obstacle(variant: &Variant, scheduler: &str) -> Option<String> {
    // Wherever the scenario wants them, acknowledgements return where picoquic likes: mostly on the fastest path.
    let mut variant = variant.clone();
    variant.config.transport.ack_path = AckPath::Same;
    let config = &variant.config;
    let obstacle = crypto().err().or_else(|| virtual_time::obstacle(&variant, scheduler));
    obstacle.or_else(|| measure::of_links(config)).or_else(|| {
        let races = config.paths.len() > 1 && config.transport.open == Opening::Race;
        races.then(|| "picoquic opens one path first: handshakes do not race".to_owned())
    })
}

/// A run to make, in which picoquic receives.
#[derive(Clone, Copy, Debug)]
pub struct Receiver<'a>(pub virtual_time::Job<'a>);

impl Receiver<'_> {
    /// Runs with the scheduler that `spec` names: the row. `singles` is empty where aggregation means nothing.
    pub fn row(&self, spec: &str, singles: &Singles) -> Result<Row, RunError> {
        let functions = library::loaded().ok_or(RunError::NotLoaded)?;
        let _alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        begin_random(functions, self.0.seed);
        self.0.row_of(spec, singles, |host| self.world(functions, host))
    }

    fn world(&self, functions: &'static Functions, host: Host) -> Result<World, RunError> {
        let virtual_time::Job { config, cc, seed } = self.0;
        let crypto = crypto().map_err(RunError::Begin)?;
        let peer = Box::new(Receiving::new(functions, config)?);
        Ok(World::to_peer(config, (cc, seed), host, crypto, peer)?)
    }

    /// Figures of single paths under the same controller and seed; see [`single::singles`].
    pub fn singles(&self) -> Result<Singles, RunError> {
        single::singles(self.0.config, |config| {
            Receiver(virtual_time::Job { config, ..self.0 }).row("min-rtt", &Singles::default())
        })
    }
}

/// The end that receives.
struct Receiving {
    end: End,
    wake: Wake,
    /// Number of paths.
    count: u8,
    /// Paths that it has not opened yet, as the client.
    unopened: Vec<PathId>,
}

impl Receiving {
    /// The receiving end of a run of `config`.
    pub fn new(functions: &'static Functions, config: &SimConfig) -> Result<Self, RunError> {
        let transport = &config.transport;
        let side = if transport.direction == Direction::Upload { Side::Server } else { Side::Client };
        let (Buffer::Fixed(window) | Buffer::Auto { max: window }) = transport.receive_buffer;
        let setting = Setting {
            controller: CONTROLLER,
            window,
            payload: payload(transport),
            paths: config.paths.len(),
            takes_datagrams: true,
            pattern: [0].into(),
        };
        Ok(Self {
            end: End::new(functions, side, &setting).map_err(RunError::Begin)?,
            wake: Wake::default(),
            count: config.paths.len() as u8,
            unopened: (1..config.paths.len() as u8).map(PathId::new).collect(),
        })
    }

    fn paths(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.count).map(PathId::new)
    }
}

impl Peer for Receiving {
    fn connect(&mut self, now: Instant, first: PathId) -> Result<(), String> {
        self.end.connect(now, first)
    }

    fn open_paths(&mut self, now: Instant) {
        while let Some(&path) = self.unopened.first()
            && self.end.is_confirmed()
            && self.end.allows_path()
            && self.end.open_path(now, path)
        {
            self.unopened.remove(0);
        }
    }

    fn bears_path(&self, path: PathId) -> bool {
        self.end.is_confirmed() && self.end.has_connection_id(path)
    }

    fn receive(&mut self, now: Instant, path: PathId, bytes: &mut [u8]) {
        self.end.receive(now, path, bytes);
    }

    fn next_record(&mut self) -> Option<Vec<u8>> {
        self.end.next_record()
    }

    fn send_record(&mut self, now: Instant, record: &[u8]) {
        // The path of the shortest round trip, on which picoquic acknowledges. By itself it would take the path that has
        // sent nothing for longest. Where the last limit still waits, that path may be dead: any will do.
        let waits = self.end.has_record();
        let trip = |path: &PathId| self.end.quality(*path).map(|figure| figure(Quality::RttMin));
        let open = || self.paths().filter(|path| trip(path).is_some());
        let fastest = open().min_by_key(trip);
        let chosen: Vec<PathId> = open().filter(|&path| waits || Some(path) == fastest).collect();
        chosen.into_iter().for_each(|path| self.end.send_record(now, path, record));
    }

    fn next_datagram<'a>(&mut self, now: Instant, buffer: &'a mut Vec<u8>) -> Option<(PathId, &'a [u8])> {
        self.end.next_datagram(now, buffer).map(|datagram| (datagram.path, datagram.bytes))
    }

    fn next_event(&mut self, now: Instant, sent: bool) -> Instant {
        self.wake.next(now, self.end.next_event(now), sent)
    }

    fn ended(&self) -> Option<&str> {
        self.end.ended()
    }
}
