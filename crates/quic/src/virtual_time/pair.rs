//! Two ends that both send, over the links of a scenario: a [`Duplex`] each, and whatever their applications do.
//!
//! The scenario gives paths, transport and time limit; its workload does not count. Its paths are there all the time,
//! though their links may be down. The addresses of the end that connects may change ([`Pair::come_from`],
//! [`Pair::lead`]), and an end may be busy with something else for a while ([`Pair::keep_busy`]). The caller is both
//! applications: it takes a step ([`Pair::step`]), looks at the streams of each end ([`Pair::mux`]), and has them sent
//! ([`Pair::turn`]).

use std::collections::VecDeque;
use std::net::SocketAddr;

use bytes::BytesMut;
use noq_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, FourTuple};
use weftway_host::Host;
use weftway_mux::{Limits, Mux};
use weftway_path::spec::SpecError;
use weftway_path::{Instant, PathId, PathSet, Role};
use weftway_scenario::config::SimConfig;
use weftway_scenario::mix;
use weftway_sched::Scheduler;

use super::nat::Nats;
use super::setup::{self, Crypto, Side};
use super::world::RunError;
use super::world::network::{Datagram, Network};
use crate::driver::connection::{Clock, QuicConnection};
use crate::driver::duplex::{Duplex, DuplexError};
use crate::driver::observer::ObserverState;
use crate::driver::sender::Setting;

impl From<DuplexError> for RunError {
    fn from(error: DuplexError) -> Self {
        match error {
            DuplexError::Spec(error) => Self::Spec(error),
            DuplexError::Limits(error) => Self::Connect(error.to_string()),
        }
    }
}

/// An end of the pair.
struct End {
    endpoint: Endpoint,
    duplex: Option<Duplex>,
    scheduler: Box<dyn Scheduler>,
    host: Host,
    next: Instant,
    /// Its process does something else until then.
    busy_until: Option<Instant>,
    /// Datagrams that its sockets hold meanwhile.
    held: VecDeque<Arrived>,
}

/// A datagram in a socket.
struct Arrived {
    bytes: BytesMut,
    route: FourTuple,
    ecn: Option<EcnCodepoint>,
    path: PathId,
}

/// A front end over sockets reads so many datagrams from each before it looks at its timers (noq-udp's `BATCH_SIZE` on
/// Linux).
const BATCH: usize = 32;

/// Number of datagrams that find room in the sockets of an end. Linux gives a socket 208 KiB where it may have no more,
/// and counts more than the bytes.
const SOCKET_ROOM: usize = 128;

/// Both ends, and the network between them.
pub struct Pair {
    config: SimConfig,
    cc: String,
    seed: u64,
    limits: Limits,
    has_control: bool,
    now: Instant,
    clock: Clock,
    network: Network,
    nats: Nats,
    /// The one that connects, and the one that listens.
    ends: [End; 2],
    error: Option<RunError>,
    buffer: Vec<u8>,
}

fn at(side: weftway_mux::Side) -> usize {
    usize::from(side == weftway_mux::Side::Listening)
}

impl Pair {
    /// The two ends, with the same scheduler, controller and limits each. The connection is being opened.
    pub fn new(config: &SimConfig, (scheduler, cc): (&str, &str), seed: u64, limits: Limits) -> Result<Self, RunError> {
        Self::with([build(scheduler)?, build(scheduler)?], config, cc, seed, limits)
    }

    /// Pair with a control stream in both muxes ([`Mux::with_control`]).
    pub fn with_control(
        config: &SimConfig,
        (scheduler, cc): (&str, &str),
        seed: u64,
        limits: Limits,
    ) -> Result<Self, RunError> {
        Self::make([build(scheduler)?, build(scheduler)?], config, cc, seed, (limits, true))
    }

    /// Pair with these schedulers and what is kept for each: that of the end that connects, and of the one that
    /// listens.
    pub fn with(
        schedulers: [(Box<dyn Scheduler>, Host); 2],
        config: &SimConfig,
        cc: &str,
        seed: u64,
        limits: Limits,
    ) -> Result<Self, RunError> {
        Self::make(schedulers, config, cc, seed, (limits, false))
    }

    fn make(
        schedulers: [(Box<dyn Scheduler>, Host); 2],
        config: &SimConfig,
        cc: &str,
        seed: u64,
        (limits, has_control): (Limits, bool),
    ) -> Result<Self, RunError> {
        weftway_cc::parse(cc)?;
        let end = |side, (scheduler, host)| {
            let endpoint = setup::endpoint(side, &config.transport, seed);
            End {
                endpoint,
                duplex: None,
                scheduler,
                host,
                next: Instant::NEVER,
                busy_until: None,
                held: VecDeque::new(),
            }
        };
        let [connects, listens] = schedulers;
        let ends = [end(Side::Client, connects), end(Side::Server, listens)];
        let mut network = Network::new(config, seed);
        network.present = (0..config.paths.len() as u8).map(PathId::new).fold(PathSet::EMPTY, PathSet::with);
        let mut pair = Self {
            config: config.clone(),
            cc: cc.to_owned(),
            seed,
            limits,
            has_control,
            now: Instant::ZERO,
            clock: setup::clock(),
            nats: Nats::new((0..config.paths.len()).map(|at| setup::route(Side::Server, at).remote()).collect()),
            network,
            ends,
            error: None,
            buffer: Vec::new(),
        };
        pair.start()?;
        Ok(pair)
    }

    fn start(&mut self) -> Result<(), RunError> {
        let (transport, paths) = (&self.config.transport, self.config.paths.len());
        let observers = ObserverState::new();
        let server =
            setup::server_config(&Crypto::none(), setup::transport_config(transport, paths, ObserverState::new()));
        self.ends[1].endpoint.set_server_config(Some(server));
        let first = PathId::new(0);
        let client = setup::client_config(
            &Crypto::none(),
            setup::transport_config(transport, paths, observers.clone()),
            self.seed,
            first,
        );
        let remote = own_route(0).remote();
        let opened = self.ends[0].endpoint.connect(self.clock.theirs(self.now), client, remote, "weftway");
        let (handle, inner) = opened.map_err(|error| RunError::Connect(error.to_string()))?;
        let routes = (0..paths).map(own_route).collect();
        let mut connection = QuicConnection::new(inner, handle, self.clock, observers, routes, first);
        connection.keep(self.now, self.network.present, transport.probe_interval);
        self.adopt(Side::Client, connection)
    }

    fn adopt(&mut self, side: Side, connection: QuicConnection) -> Result<(), RunError> {
        let (transport, paths) = (&self.config.transport, &self.config.paths);
        let ids = (0..paths.len() as u8).map(PathId::new);
        let roles: Vec<Role> = ids.map(|id| weftway_net::role(transport, paths, id)).collect();
        let setting = Setting {
            transport: transport.clone(),
            cc: self.cc.clone(),
            seed: mix(self.seed, 0xc0 + side as u64),
            groups: weftway_net::groups(transport.bottlenecks, &self.network.routes),
            fills_packets: false,
        };
        let mux_side = if side == Side::Client { weftway_mux::Side::Connecting } else { weftway_mux::Side::Listening };
        let mut mux = Mux::new(mux_side, self.limits, self.limits).map_err(DuplexError::from)?;
        if self.has_control {
            mux = mux.with_control().map_err(|error| RunError::Connect(error.to_string()))?;
        }
        let mut duplex = Duplex::over(connection, mux, setting, &roles)?;
        let end = &mut self.ends[side as usize];
        duplex.set_host(std::mem::take(&mut end.host));
        end.duplex = Some(duplex);
        self.turn(mux_side);
        Ok(())
    }

    /// Lets the datagrams of `path` come from `address` from now on, as far as the end that listens sees.
    pub fn come_from(&mut self, path: PathId, address: SocketAddr) {
        self.nats.set_source(path, address);
    }

    /// Address from which they come.
    pub fn source(&self, path: PathId) -> SocketAddr {
        self.nats.source(path)
    }

    /// Leads datagrams of the end that listens for `address` over `path` to the end of that path from now on; with none
    /// they are lost.
    pub fn lead(&mut self, address: SocketAddr, path: Option<PathId>) {
        self.nats.set_end(address, path);
    }

    /// The process of one end does something else until then, or stands still: its sockets hold what comes, and its
    /// timers wait. Then it reads some of the datagrams, looks at its timers and has its turn, again and again until
    /// none is left.
    pub fn keep_busy(&mut self, side: weftway_mux::Side, until: Instant) {
        self.ends[at(side)].busy_until = Some(until);
    }

    /// Returns true if the process of that end is busy.
    pub fn is_busy(&self, side: weftway_mux::Side) -> bool {
        self.ends[at(side)].busy_until.is_some_and(|until| until > self.now)
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// The streams of one end, once its handshake is done.
    pub fn mux(&mut self, side: weftway_mux::Side) -> Option<&mut Mux> {
        Some(self.duplex(side)?.mux())
    }

    /// An end, once its handshake is done.
    pub fn duplex(&mut self, side: weftway_mux::Side) -> Option<&mut Duplex> {
        self.ends[at(side)].duplex.as_mut().filter(|duplex| duplex.sender().is_established())
    }

    /// Lets one end send what was written, unless it is busy.
    pub fn turn(&mut self, side: weftway_mux::Side) {
        if self.is_busy(side) {
            return;
        }
        let end = &mut self.ends[at(side)];
        let Some(duplex) = &mut end.duplex else { return };
        duplex.turn(self.now, end.scheduler.as_mut());
        let connects = side == weftway_mux::Side::Connecting;
        while let Some(mut out) = duplex.connection_mut().outgoing.pop_front() {
            if !connects {
                out.path = self.nats.end(out.route.remote());
            }
            self.network.send(self.now, &out, connects);
            duplex.connection_mut().recycle(out.bytes);
        }
        end.next = duplex.next_event().max(self.now);
        if let Some(why) = duplex.broken() {
            self.error.get_or_insert(RunError::Lost(why));
        }
    }

    /// Lets the time pass until something happens, `until` at the latest: whether something happened. Both ends have
    /// taken it in; neither has sent in answer to it.
    pub fn step(&mut self, until: Instant) -> Result<bool, RunError> {
        if let Some(error) = self.error.take() {
            return Err(error);
        }
        let links = self.network.links.iter().map(weftway_link::Link::next_event).enumerate();
        let link = links.map(|(at, due)| (due, at)).min().unwrap_or((Instant::NEVER, 0));
        let due = |end: &End| end.busy_until.map_or(end.next, |until| until.max(self.now));
        let timer = (0..2).map(|at| (due(&self.ends[at]), at)).min().unwrap_or((Instant::NEVER, 0));
        let due = link.0.min(timer.0);
        if due > until || due.is_never() {
            self.now = self.now.max(until);
            return Ok(false);
        }
        self.now = due;
        if link.0 <= timer.0 {
            if let Some(delivery) = self.network.links[link.1].pop(self.now) {
                self.deliver(link.1, delivery.item, delivery.ce)?;
            }
        } else {
            self.catch_up(timer.1)?;
            let End { endpoint, duplex, next, .. } = &mut self.ends[timer.1];
            *next = Instant::NEVER;
            if let Some(duplex) = duplex {
                if duplex.next_event() <= self.now {
                    duplex.on_timer(self.now, endpoint);
                }
                *next = self.now;
            }
        }
        Ok(true)
    }

    /// An end that was busy reads some of what its sockets hold. For the rest it is due again at once.
    fn catch_up(&mut self, at: usize) -> Result<(), RunError> {
        self.ends[at].busy_until = None;
        for _ in 0..BATCH {
            let Some(arrived) = self.ends[at].held.pop_front() else { return Ok(()) };
            self.take(at, arrived)?;
        }
        self.ends[at].busy_until = Some(self.now).filter(|_| !self.ends[at].held.is_empty());
        Ok(())
    }

    fn deliver(&mut self, link: usize, number: u32, marked: bool) -> Result<(), RunError> {
        let Some(arrived) = self.network.deliver(self.now, link, number) else { return Ok(()) };
        let Datagram { bytes, path, ecn, forward, .. } = arrived;
        let ecn =
            (self.config.transport.ecn && ecn).then_some(if marked { EcnCodepoint::Ce } else { EcnCodepoint::Ect0 });
        let side = if forward { Side::Server } else { Side::Client };
        let route = if forward { listening_route(self.nats.source(path)) } else { own_route(path.index()) };
        let (arrived, end) = (Arrived { bytes, route, ecn, path }, &mut self.ends[side as usize]);
        if end.busy_until.is_none() {
            return self.take(side as usize, arrived);
        }
        if end.held.len() < SOCKET_ROOM {
            end.held.push_back(arrived);
        }
        Ok(())
    }

    fn take(&mut self, at: usize, arrived: Arrived) -> Result<(), RunError> {
        let Arrived { bytes, route, ecn, path } = arrived;
        self.buffer.clear();
        let endpoint = &mut self.ends[at].endpoint;
        match endpoint.handle(self.clock.theirs(self.now), route, ecn, bytes, &mut self.buffer) {
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, path),
            Some(DatagramEvent::ConnectionEvent(whose, event)) => {
                self.hear(at, whose, event, route);
                Ok(())
            }
            Some(DatagramEvent::Response(_)) | None => Ok(()),
        }
    }

    fn hear(&mut self, at: usize, whose: ConnectionHandle, event: ConnectionEvent, route: FourTuple) {
        let End { endpoint, duplex, next, .. } = &mut self.ends[at];
        let Some(duplex) = duplex.as_mut() else { return };
        if duplex.connection().handle() == whose {
            duplex.handle(self.now, endpoint, event, route);
            *next = self.now;
        }
    }

    fn accept(&mut self, incoming: noq_proto::Incoming, path: PathId) -> Result<(), RunError> {
        let (transport, paths) = (&self.config.transport, self.config.paths.len());
        let end = &mut self.ends[Side::Server as usize];
        if end.duplex.is_some() {
            end.endpoint.ignore(incoming);
            return Ok(());
        }
        let observers = ObserverState::new();
        let config =
            setup::server_config(&Crypto::none(), setup::transport_config(transport, paths, observers.clone()));
        self.buffer.clear();
        let accepted = end.endpoint.accept(incoming, self.clock.theirs(self.now), &mut self.buffer, Some(config));
        let (handle, inner) = accepted.map_err(|error| RunError::Connect(error.cause.to_string()))?;
        let routes = (0..paths).map(|at| listening_route(setup::route(Side::Server, at).remote())).collect();
        let connection = QuicConnection::new(inner, handle, self.clock, observers, routes, path);
        self.adopt(Side::Server, connection)
    }
}

/// The addresses of path `at`, as the end that connects sees them. The end that listens has one.
fn own_route(at: usize) -> FourTuple {
    FourTuple::new(setup::route(Side::Client, 0).remote(), setup::route(Side::Client, at).local_ip())
}

/// Route of the path to `address`, as the end that listens sees them.
fn listening_route(address: SocketAddr) -> FourTuple {
    FourTuple::new(address, setup::route(Side::Server, 0).local_ip())
}

/// A scheduler, and what is kept for it.
fn build(name: &str) -> Result<(Box<dyn Scheduler>, Host), SpecError> {
    let (entry, given) = weftway_sched::parse(name)?;
    let scheduler = entry.make(&given.given)?;
    let host = Host::serving(scheduler.as_ref(), entry.transport);
    Ok((scheduler, host))
}
