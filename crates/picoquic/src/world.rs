//! Two ends, the links between them, and what happens next.

use std::sync::{Arc, MutexGuard, PoisonError};

use weftway_net::AppData;
use weftway_path::{Bytes, Instant, PathId, PathSet, Role, Span};
use weftway_quic::virtual_time::{self, Carried, HEADERS, Network};
use weftway_scenario::config::{Buffer, Direction, SimConfig, TransportConfig};
use weftway_scenario::{App, Verdict, mix};

use crate::end::{End, Setting, Side};
use crate::library::{self, ALONE, Functions};
use crate::wake::Wake;
use crate::{LoadError, random};

/// Why a run came to nothing. None of these is the scenario's fault.
#[derive(Clone, Debug, thiserror::Error)]
pub enum RunError {
    /// The library is not there.
    #[error(transparent)]
    Library(#[from] LoadError),
    /// No library was named.
    #[error("picoquic has not been loaded")]
    NotLoaded,
    /// picoquic refuses to begin.
    #[error("picoquic cannot begin: {0}")]
    Begin(String),
    /// A connection ended.
    #[error("the connection was lost: {0}")]
    Lost(&'static str),
    /// Data arrived that were never sent.
    #[error("the data at byte {0} are not those that were sent")]
    Corrupt(u64),
    /// noq's end says so.
    #[error(transparent)]
    Sender(#[from] virtual_time::RunError),
}

/// A prime, so that no power of two repeats itself.
const PATTERN: u64 = 65_521;
/// A datagram of the sending end that is at least so long carries data, once the connection is open.
const LEAST_DATA: usize = 100;

/// Counters of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Datagrams with data that were sent.
    pub packets: u64,
    /// Those that arrived.
    pub arrived: u64,
    /// Their bytes.
    pub arrived_bytes: u64,
}

/// A run. While there is one, no other begins in this process.
pub struct World {
    config: SimConfig,
    network: Network,
    app: App,
    client: End,
    server: End,
    /// Paths that the client has not opened yet.
    unopened: Vec<PathId>,
    /// Backups that are not known as such yet.
    backups: Vec<PathId>,
    /// Times at which the ends have something to do.
    next: [Instant; 2],
    wakes: [Wake; 2],
    now: Instant,
    buffer: Vec<u8>,
    tally: Vec<Tally>,
    /// Let go when all else of the run is.
    _alone: MutexGuard<'static, ()>,
}

impl World {
    /// Begins a run of `config`, which has no obstacle, under picoquic's controller.
    pub fn new(config: &SimConfig, cc: &str, seed: u64) -> Result<Self, RunError> {
        let functions = library::loaded().ok_or(RunError::NotLoaded)?;
        let alone = ALONE.lock().unwrap_or_else(PoisonError::into_inner);
        begin_random(functions, seed);
        let (Buffer::Fixed(window) | Buffer::Auto { max: window }) = config.transport.receive_buffer;
        let pattern: Arc<[u8]> = (0..PATTERN).map(|at| mix(seed, at) as u8).collect();
        let setting = Setting {
            controller: library::controller(cc).ok_or_else(|| RunError::Begin(format!("it has no controller {cc}")))?,
            window,
            payload: payload(&config.transport),
            paths: config.paths.len(),
            takes_datagrams: false,
            pattern,
        };
        let end = |side| End::new(functions, side, &setting).map_err(RunError::Begin);
        let paths = || (0..config.paths.len() as u8).map(PathId::new);
        let mut network = Network::new(config, seed);
        network.present = paths().fold(PathSet::EMPTY, PathSet::with);
        let mut world = Self {
            app: AppData::of(config, seed).app,
            client: end(Side::Client)?,
            server: end(Side::Server)?,
            unopened: paths().skip(1).collect(),
            backups: paths().filter(|path| config.paths[path.index()].role == Role::Backup).collect(),
            next: [Instant::ZERO, Instant::NEVER],
            wakes: [Wake::default(); 2],
            now: Instant::ZERO,
            buffer: Vec::new(),
            tally: vec![Tally::default(); config.paths.len()],
            config: config.clone(),
            network,
            _alone: alone,
        };
        world.client.connect(Instant::ZERO, PathId::new(0)).map_err(RunError::Begin)?;
        Ok(world)
    }

    fn sender_side(&self) -> Side {
        if self.config.transport.direction == Direction::Upload { Side::Client } else { Side::Server }
    }

    fn end(&self, side: Side) -> &End {
        if side == Side::Client { &self.client } else { &self.server }
    }

    fn end_mut(&mut self, side: Side) -> &mut End {
        if side == Side::Client { &mut self.client } else { &mut self.server }
    }

    /// The end that sends the data.
    pub fn sender(&self) -> &End {
        self.end(self.sender_side())
    }

    fn receiver(&self) -> &End {
        self.end(self.sender_side().other())
    }

    /// Runs to the end.
    pub fn run(&mut self) -> Result<Verdict, RunError> {
        let limit = Instant::ZERO + self.config.time_limit;
        self.turn(Side::Client);
        loop {
            if let Some(at) = self.receiver().wrong() {
                return Err(RunError::Corrupt(at));
            }
            if let Some(why) = self.client.ended().or(self.server.ended()) {
                return Err(RunError::Lost(why));
            }
            if self.app.is_done(self.now, self.receiver().arrived()) {
                return Ok(Verdict::Finished);
            }
            let (at, event) = self.next_event();
            if at > limit || at.is_never() {
                self.now = limit;
                return Ok(Verdict::TimeLimit);
            }
            self.now = at.max(self.now);
            self.dispatch(event);
        }
    }

    /// Next event; of what happens at the same time, the first in this order.
    fn next_event(&self) -> (Instant, Event) {
        let links = self.network.links.iter().enumerate().map(|(at, link)| (link.next_event(), Event::Link(at)));
        let ends = [(self.next[1], Event::End(Side::Server)), (self.next[0], Event::End(Side::Client))];
        let mut app = [(Instant::NEVER, Event::Application); 2];
        if self.app.has_started() {
            app[0].0 = self.app.next_event();
            app[1].0 = self.app.cut_off().max(self.now);
        }
        links.chain(ends).chain(app).min_by_key(|&(at, _)| at).unwrap_or(app[0])
    }

    fn dispatch(&mut self, event: Event) {
        match event {
            Event::Link(link) => {
                if let Some(delivery) = self.network.links[link].pop(self.now) {
                    self.deliver(link, delivery.item);
                }
            }
            Event::End(side) => self.turn(side),
            Event::Application => {
                self.app.run(self.now);
                self.turn(self.sender_side());
            }
        }
    }

    /// A datagram came to the end of a link: to the next one, or to an end.
    fn deliver(&mut self, link: usize, number: u32) {
        let Some(mut arrived) = self.network.deliver(self.now, link, number) else { return };
        let (path, forward) = (arrived.path, arrived.forward);
        let side = if forward { self.sender_side().other() } else { self.sender_side() };
        let now = self.now;
        if forward && arrived.bytes.len() >= LEAST_DATA && self.sender().is_established() {
            self.tally[path.index()].arrived_bytes += arrived.bytes.len() as u64;
            self.tally[path.index()].arrived += 1;
        }
        self.end_mut(side).receive(now, path, &mut arrived.bytes);
        if side == Side::Client {
            self.open_paths();
        }
        let delivered = self.receiver().arrived();
        if forward && self.app.completes(delivered) {
            let request = self.config.paths[path.index()].acks.delay;
            self.app.arrived(now, delivered, request);
        }
        self.turn(side);
    }

    /// The client opens the paths that it may. It waits until the server can answer on them too: picoquic's server does
    /// not bear a path for which it has no connection ID of the client's.
    fn open_paths(&mut self) {
        while let Some(&path) = self.unopened.first()
            && self.client.is_confirmed()
            && self.client.allows_path()
            && self.server.has_connection_id(path)
            && self.client.open_path(self.now, path)
        {
            self.unopened.remove(0);
        }
        let client = &mut self.client;
        if client.is_confirmed() {
            self.backups.retain(|&path| !client.make_backup(path));
        }
    }

    /// The turn of one end: its application writes, its datagrams leave.
    fn turn(&mut self, side: Side) {
        let (now, is_sender) = (self.now, side == self.sender_side());
        if is_sender && self.sender().is_established() {
            if !self.app.has_started() {
                self.app.start(now);
            }
            let written = self.app.written();
            self.end_mut(side).write(now, written);
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        let is_open = self.end(side).is_established();
        let mut sent = false;
        while let Some(datagram) = self.end_mut(side).next_datagram(now, &mut buffer) {
            let is_data = is_sender && is_open && datagram.bytes.len() >= LEAST_DATA;
            if let Some(tally) = self.tally.get_mut(datagram.path.index()).filter(|_| is_data) {
                tally.packets += 1;
            }
            let carried = Carried { payload: u32::from(is_data), ecn: false, forward: is_sender };
            self.network.send_bytes(now, datagram.path, datagram.bytes, carried);
            sent = true;
        }
        self.buffer = buffer;
        let wanted = self.end(side).next_event(now);
        let at = usize::from(side == Side::Server);
        self.next[at] = self.wakes[at].next(now, wanted, sent);
    }

    /// Bytes that the receiving application has.
    pub fn delivered(&self) -> u64 {
        self.receiver().arrived()
    }

    /// The application.
    pub fn app(&self) -> &App {
        &self.app
    }

    /// The links.
    pub fn network(&self) -> &Network {
        &self.network
    }

    /// Counters of a path.
    pub fn tally(&self, path: PathId) -> Tally {
        self.tally[path.index()]
    }

    /// Time that it has run.
    pub fn elapsed(&self) -> Span {
        self.now.since(Instant::ZERO)
    }
}

/// The UDP payload of a full packet.
pub fn payload(transport: &TransportConfig) -> u16 {
    u16::try_from((transport.packet - Bytes::new(HEADERS)).get()).unwrap_or(u16::MAX)
}

/// Sets the states of both of picoquic's sources of random numbers.
#[allow(unsafe_code)]
pub fn begin_random(functions: &Functions, seed: u64) {
    random::seed(mix(seed, 0x91c0));
    // SAFETY: it only changes a state that no other run reads now.
    unsafe { (functions.public_random_seed_64)(mix(seed, 0x91c1), 1) };
}

#[derive(Clone, Copy, Debug)]
enum Event {
    Link(usize),
    End(Side),
    Application,
}
