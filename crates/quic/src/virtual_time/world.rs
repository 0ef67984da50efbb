//! Two endpoints, the links between them, and what happens next.

use noq_proto::{ConnectionEvent, ConnectionHandle, DatagramEvent, EcnCodepoint, Endpoint, FourTuple};
use weftway_host::Host;
use weftway_net::AppData;
use weftway_path::spec::SpecError;
use weftway_path::{Instant, PathId, PathSet, Role, Span};
use weftway_scenario::config::{Direction, SimConfig};
use weftway_scenario::{Verdict, mix};
use weftway_sched::Scheduler;

use super::setup::{self, Crypto, Side};
use crate::driver::answers::Answers;
use crate::driver::connection::{Clock, QuicConnection, QuicEvent};
use crate::driver::observer::ObserverState;
use crate::driver::receiver::Receiver;
use crate::driver::record::Record;
use crate::driver::sender::{self, Sender, Setting};

pub(super) mod network;
pub(super) mod peer;
mod presence;
mod race;
mod source;
#[cfg(test)]
mod tests;

use network::{Datagram, Network, WireTally};
use peer::Peer;
pub use source::ScenarioSource;

/// Why a run came to nothing. None of these is the scenario's fault.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RunError {
    /// No such scheduler or controller.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// The connection cannot be begun.
    #[error("the connection cannot be opened: {0}")]
    Connect(String),
    /// An end gave the connection up.
    #[error("the connection was lost: {0}")]
    Lost(String),
    /// Data arrived that were never sent.
    #[error("the data at byte {0} are not those that were sent")]
    Corrupt(u64),
}

/// A run at its end.
#[derive(Debug)]
pub struct Finished {
    /// Verdict on its end.
    pub verdict: Verdict,
    /// Time of its end.
    pub now: Instant,
    /// Datagrams that were put on links.
    pub datagrams: u64,
}

struct SendingEnd {
    endpoint: Endpoint,
    /// Until the connection is opened.
    sender: Option<Sender<ScenarioSource>>,
    next: Instant,
}

/// Endpoint, connection and answers are noq's, and of no use where another stack receives.
struct ReceivingEnd {
    peer: Option<Box<dyn Peer>>,
    /// True if noq's client has made its key update for the peer.
    keys_updated: bool,
    endpoint: Endpoint,
    connection: Option<QuicConnection>,
    receiver: Receiver,
    next: Instant,
    answers: Answers,
}

/// A run.
pub struct World {
    config: SimConfig,
    seed: u64,
    cc: String,
    crypto: Crypto,
    now: Instant,
    clock: Clock,
    network: Network,
    sending: SendingEnd,
    receiving: ReceivingEnd,
    /// Handshakes that race for the connection.
    attempts: Vec<race::Attempt>,
    source: Option<ScenarioSource>,
    host: Host,
    presence_at: Instant,
    error: Option<RunError>,
    buffer: Vec<u8>,
}

impl World {
    /// A run of `config` under controller `cc` with this seed, whose decisions come from the scheduler that `host` was
    /// made for.
    pub fn new(config: &SimConfig, cc: &str, seed: u64, host: Host) -> Result<Self, RunError> {
        Self::begin(config, (cc, seed), host, Crypto::none(), None)
    }

    /// The same, but it is `peer` that receives. `crypto` is that of noq's end. The scenario has no race of handshakes,
    /// and no paths that come and go.
    pub fn to_peer(
        config: &SimConfig,
        (cc, seed): (&str, u64),
        host: Host,
        crypto: Crypto,
        peer: Box<dyn Peer>,
    ) -> Result<Self, RunError> {
        Self::begin(config, (cc, seed), host, crypto, Some(peer))
    }

    fn begin(
        config: &SimConfig,
        (cc, seed): (&str, u64),
        host: Host,
        crypto: Crypto,
        peer: Option<Box<dyn Peer>>,
    ) -> Result<Self, RunError> {
        weftway_cc::parse(cc)?;
        let upload = config.transport.direction == Direction::Upload;
        let (sends, receives) = if upload { (Side::Client, Side::Server) } else { (Side::Server, Side::Client) };
        let transport = &config.transport;
        let count = config.paths.len();
        let source = ScenarioSource::new(AppData::of(config, seed), seed);
        let mut world = Self {
            now: Instant::ZERO,
            clock: setup::clock(),
            network: Network::new(config, seed),
            sending: SendingEnd {
                endpoint: setup::endpoint(sends, transport, seed),
                sender: None,
                next: Instant::NEVER,
            },
            receiving: ReceivingEnd {
                peer,
                keys_updated: false,
                endpoint: setup::endpoint(receives, transport, seed),
                connection: None,
                receiver: Receiver::new(sender::receive_window(transport), transport.mss, count),
                next: Instant::NEVER,
                answers: Answers::new(count),
            },
            attempts: Vec::new(),
            source: Some(source),
            host,
            presence_at: Instant::ZERO,
            error: None,
            buffer: Vec::new(),
            seed,
            cc: cc.to_owned(),
            crypto,
            config: config.clone(),
        };
        world.look_at_presence();
        world.start()?;
        Ok(world)
    }

    /// Lets the network bring this share of datagrams twice from now on.
    pub fn copy_datagrams(&mut self, share: f64) {
        self.network.copies.set_share(share);
    }

    /// Number of datagrams that the network copied.
    pub fn copied(&self) -> u64 {
        self.network.copies.made
    }

    fn upload(&self) -> bool {
        self.config.transport.direction == Direction::Upload
    }

    fn paths(&self) -> impl Iterator<Item = PathId> + use<> {
        (0..self.config.paths.len() as u8).map(PathId::new)
    }

    /// The client opens the connection, on the first path that exists or on all of them; the server waits.
    fn start(&mut self) -> Result<(), RunError> {
        let config = setup::transport_config(&self.config.transport, self.config.paths.len(), ObserverState::new());
        let upload = self.upload();
        let server = if upload { &mut self.receiving.endpoint } else { &mut self.sending.endpoint };
        server.set_server_config(Some(setup::server_config(&self.crypto, config)));
        if self.races() {
            return self.begin_race();
        }
        let Some(first) = self.network.present.iter().next() else { return Ok(()) };
        if let Some(peer) = &mut self.receiving.peer
            && !upload
        {
            peer.connect(self.now, first).map_err(RunError::Connect)?;
            self.after_peer(None);
            return Ok(());
        }
        let mut connection = self.connect(first)?;
        let kept = if self.receiving.peer.is_some() { PathSet::EMPTY.with(first) } else { self.network.present };
        connection.keep(self.now, kept, self.config.transport.probe_interval);
        self.adopt(Side::Client, connection)
    }

    /// The client's end of a connection that is opened on path `first`.
    fn connect(&mut self, first: PathId) -> Result<QuicConnection, RunError> {
        let observer_state = ObserverState::new();
        let config = setup::transport_config(&self.config.transport, self.config.paths.len(), observer_state.clone());
        let config = setup::client_config(&self.crypto, config, self.seed, first);
        let client = if self.upload() { &mut self.sending.endpoint } else { &mut self.receiving.endpoint };
        let remote = setup::route(Side::Client, first.index()).remote();
        let opened = client.connect(self.clock.theirs(self.now), config, remote, "weftway");
        let (handle, inner) = opened.map_err(|error| RunError::Connect(error.to_string()))?;
        Ok(QuicConnection::new(inner, handle, self.clock, observer_state, self.addresses(Side::Client), first))
    }

    fn addresses(&self, side: Side) -> Vec<noq_proto::FourTuple> {
        (0..self.config.paths.len()).map(|at| setup::route(side, at)).collect()
    }

    /// The connection of one side is there.
    fn adopt(&mut self, side: Side, connection: QuicConnection) -> Result<(), RunError> {
        if (side == Side::Client) != self.upload() {
            self.receiving.connection = Some(connection);
            self.after_receiving(None);
            return Ok(());
        }
        let Some(source) = self.source.take() else { return Ok(()) };
        let roles: Vec<Role> =
            self.paths().map(|id| weftway_net::role(&self.config.transport, &self.config.paths, id)).collect();
        let setting = Setting {
            transport: self.config.transport.clone(),
            cc: self.cc.clone(),
            seed: mix(self.seed, 0xc0),
            groups: weftway_net::groups(self.config.transport.bottlenecks, &self.network.routes),
            fills_packets: false,
        };
        let mut sender = Sender::new(connection, source, setting, &roles)?;
        sender.set_host(std::mem::take(&mut self.host));
        sender.set_policy(weftway_net::policy(&self.config));
        if self.receiving.peer.is_some() {
            sender.take_trips_of_all_paths();
        }
        sender.take_in(self.now, None);
        self.sending.sender = Some(sender);
        Ok(())
    }

    /// Runs to the end with `scheduler`.
    pub fn run(&mut self, scheduler: &mut dyn Scheduler) -> Result<Finished, RunError> {
        let limit = Instant::ZERO + self.config.time_limit;
        self.turn(scheduler);
        loop {
            if let Some(error) = self.error.take() {
                return Err(error);
            }
            if self.is_done() {
                return Ok(self.finished(Verdict::Finished));
            }
            let (at, event) = self.next_event();
            if at > limit || at.is_never() {
                self.now = limit;
                let usable = self.sending.sender.as_ref().is_some_and(Sender::has_path);
                return Ok(self.finished(if usable { Verdict::TimeLimit } else { Verdict::NoPath }));
            }
            debug_assert!(at >= self.now, "time never goes back");
            self.now = at;
            self.dispatch(event, scheduler);
        }
    }

    fn finished(&self, verdict: Verdict) -> Finished {
        Finished { verdict, now: self.now, datagrams: self.network.count }
    }

    fn is_done(&self) -> bool {
        let delivered = self.receiving.receiver.next().get();
        self.sending.sender.as_ref().is_some_and(|sender| sender.source.data.app.is_done(self.now, delivered))
    }

    /// Next event; of what happens at the same time, the first in this order.
    fn next_event(&self) -> (Instant, Happening) {
        let mut next = (Instant::NEVER, Happening::Presence);
        let mut look = |at: Instant, event: Happening| {
            if at < next.0 {
                next = (at, event);
            }
        };
        for (at, link) in self.network.links.iter().enumerate() {
            look(link.next_event(), Happening::Link(at));
        }
        look(self.receiving.next, Happening::Receiver);
        look(self.sending.next, Happening::Sender);
        look(self.race_timeout(), Happening::Race);
        if let Some(sender) = self.sending.sender.as_ref().filter(|sender| sender.is_established()) {
            look(sender.source.data.app.next_event(), Happening::Application);
            look(sender.source.data.app.cut_off().max(self.now), Happening::Application);
        }
        look(self.presence_at, Happening::Presence);
        next
    }

    fn dispatch(&mut self, event: Happening, scheduler: &mut dyn Scheduler) {
        let now = self.now;
        match event {
            Happening::Link(link) => {
                if let Some(delivery) = self.network.links[link].pop(now) {
                    self.deliver(link, delivery.item, delivery.ce, scheduler);
                }
            }
            Happening::Receiver if self.receiving.peer.is_some() => self.after_peer(None),
            Happening::Receiver => {
                let Some(connection) = &mut self.receiving.connection else { return };
                connection.handle_timeout(now, &mut self.receiving.endpoint);
                self.after_receiving(None);
            }
            Happening::Sender => {
                let Some(sender) = &mut self.sending.sender else { return };
                sender.on_timer(now, &mut self.sending.endpoint);
                self.turn(scheduler);
            }
            Happening::Application => {
                let Some(sender) = &mut self.sending.sender else { return };
                sender.source.data.app.run(now);
                sender.source.data.take_written(now);
                sender.wake();
                self.turn(scheduler);
            }
            Happening::Race => self.turn_of_race(scheduler),
            Happening::Presence => {
                self.look_at_presence();
                self.turn(scheduler);
            }
        }
    }

    /// The sender's turn.
    fn turn(&mut self, scheduler: &mut dyn Scheduler) {
        let Some(sender) = &mut self.sending.sender else { return };
        if sender.is_established() && !sender.source.data.app.has_started() {
            sender.source.data.app.start(self.now);
            sender.source.data.take_written(self.now);
        }
        if sender.wants_devices() {
            let headers = self.config.transport.packet - self.config.transport.mss;
            for (at, route) in self.network.routes.iter().enumerate() {
                let held = weftway_net::device_queue(&mut self.network.links[route.data], self.now, headers);
                sender.set_device_queue(PathId::new(at as u8), held);
            }
        }
        let (source, paths) = sender.data_and_paths();
        source.data.set_now(self.now, paths.iter());
        sender.turn(self.now, scheduler);
        if let Some(why) = sender.broken() {
            self.error.get_or_insert_with(|| RunError::Lost(why.to_owned()));
        }
        self.put_out(true);
        if let Some(sender) = &self.sending.sender {
            self.sending.next = sender.next_event().max(self.now);
        }
    }

    /// Puts onto links what the connection of one end wants to send.
    fn put_out(&mut self, forward: bool) {
        loop {
            let connection = if forward {
                self.sending.sender.as_mut().map(|sender| &mut sender.connection)
            } else {
                self.receiving.connection.as_mut()
            };
            let Some(connection) = connection else { return };
            let Some(out) = connection.outgoing.pop_front() else { return };
            self.network.send(self.now, &out, forward);
            connection.recycle(out.bytes);
        }
    }

    /// A datagram came to the end of a link: to the next one, or to an endpoint.
    fn deliver(&mut self, link: usize, number: u32, marked: bool, scheduler: &mut dyn Scheduler) {
        let Some(arrived) = self.network.deliver(self.now, link, number) else { return };
        let Datagram { mut bytes, path, ecn, forward, .. } = arrived;
        if let Some(peer) = self.receiving.peer.as_mut().filter(|_| forward) {
            peer.receive(self.now, path, &mut bytes);
            self.after_peer(Some(path));
            return self.advance_application(path, scheduler);
        }
        let ecn = match (self.config.transport.ecn && ecn, marked) {
            (true, true) => Some(EcnCodepoint::Ce),
            (true, false) => Some(EcnCodepoint::Ect0),
            (false, _) => None,
        };
        let side = if forward == self.upload() { Side::Server } else { Side::Client };
        let addresses = setup::route(side, path.index());
        let endpoint = if forward { &mut self.receiving.endpoint } else { &mut self.sending.endpoint };
        self.buffer.clear();
        let event = endpoint.handle(self.clock.theirs(self.now), addresses, ecn, bytes, &mut self.buffer);
        match event {
            Some(DatagramEvent::NewConnection(incoming)) => self.accept(incoming, path, forward),
            Some(DatagramEvent::ConnectionEvent(whose, event)) => self.hear(whose, event, addresses, forward),
            // A stateless answer: nothing in a run calls for one.
            Some(DatagramEvent::Response(_)) | None => {}
        }
        if self.is_racing() {
            self.turn_of_race(scheduler);
        } else if forward {
            self.after_receiving(Some(path));
            self.advance_application(path, scheduler);
        } else {
            self.open_beside_peer();
            self.turn(scheduler);
        }
    }

    /// A datagram for a connection. One that lost the race is not listened to.
    fn hear(&mut self, whose: ConnectionHandle, event: ConnectionEvent, route: FourTuple, forward: bool) {
        if self.is_racing() {
            return self.hear_in_race(whose, event, forward);
        }
        let (now, receiving, sending) = (self.now, &mut self.receiving, &mut self.sending);
        if forward {
            if let Some(connection) = receiving.connection.as_mut().filter(|connection| connection.handle() == whose) {
                connection.handle_event(now, &mut receiving.endpoint, event);
            }
        } else if let Some(sender) = sending.sender.as_mut().filter(|sender| sender.connection.handle() == whose) {
            sender.handle(now, &mut sending.endpoint, event, route);
        }
    }

    fn turn_of_race(&mut self, scheduler: &mut dyn Scheduler) {
        if let Err(error) = self.advance_race() {
            self.error.get_or_insert(error);
        }
        if !self.is_racing() {
            self.turn(scheduler);
        }
    }

    fn accept(&mut self, incoming: noq_proto::Incoming, path: PathId, forward: bool) {
        let is_open = if forward { self.receiving.connection.is_some() } else { self.sending.sender.is_some() };
        let endpoint = if forward { &mut self.receiving.endpoint } else { &mut self.sending.endpoint };
        if is_open {
            // It lost the race before it arrived.
            return endpoint.ignore(incoming);
        }
        let observer_state = ObserverState::new();
        let config = setup::transport_config(&self.config.transport, self.config.paths.len(), observer_state.clone());
        let config = setup::server_config(&self.crypto, config);
        self.buffer.clear();
        let accepted = endpoint.accept(incoming, self.clock.theirs(self.now), &mut self.buffer, Some(config));
        let result = match accepted {
            Ok((handle, inner)) => {
                let routes = self.addresses(Side::Server);
                let server = QuicConnection::new(inner, handle, self.clock, observer_state, routes, path);
                if self.is_racing() {
                    self.answer_in_race(path, server);
                    return;
                }
                self.adopt(Side::Server, server)
            }
            Err(error) => Err(RunError::Connect(error.cause.to_string())),
        };
        if let Err(error) = result {
            self.error.get_or_insert(error);
        }
    }

    /// The receiver takes the records out, and answers on the path that brought them.
    fn after_receiving(&mut self, from: Option<PathId>) {
        let mut limit_due = false;
        while let Some(record) = self.receiving.connection.as_mut().and_then(QuicConnection::receive) {
            limit_due |= self.take_record(&record, from);
        }
        let (now, end) = (self.now, &mut self.receiving);
        let Some(connection) = &mut end.connection else { return };
        while let Some(event) = connection.poll_event() {
            if let QuicEvent::Lost(why) = event {
                self.error.get_or_insert(RunError::Lost(why));
            }
        }
        let path = from.unwrap_or_else(|| end.answers.oldest());
        from.into_iter().for_each(|path| end.answers.heard(now, path));
        if limit_due {
            let limit = Record::limit(end.receiver.edge(), end.receiver.next());
            let _ = connection.send(now, path, bytes::Bytes::copy_from_slice(&limit), 0);
        }
        end.answers.answer(now, connection, path);
        end.next = connection.timeout().max(now);
        self.put_out(false);
    }

    /// A record has arrived. Whether the sender is to be told of a new limit.
    fn take_record(&mut self, record: &[u8], from: Option<PathId>) -> bool {
        let (now, end) = (self.now, &mut self.receiving);
        match (Record::parse(record), from) {
            (Some(Record::Data(offset, data)), Some(path)) => {
                let mut source = self.sending.sender.as_mut().map(|sender| &mut sender.source);
                if source.as_mut().is_some_and(|source| !source.take(now, offset, data)) {
                    self.error.get_or_insert(RunError::Corrupt(offset.get()));
                }
                let limit_due = end.receiver.arrive(now, path, offset, data.len());
                match source.and_then(|source| source.data.arrived()) {
                    Some(to) => end.receiver.skip(now, to) | limit_due,
                    None => limit_due,
                }
            }
            (Some(Record::Question), _) => {
                end.receiver.asked();
                true
            }
            _ => false,
        }
    }

    /// Gives the application what has arrived in order.
    fn advance_application(&mut self, path: PathId, scheduler: &mut dyn Scheduler) {
        let delivered = self.receiving.receiver.next().get();
        let request = self.config.paths[path.index()].acks.delay;
        let Some(sender) = &mut self.sending.sender else { return };
        if !sender.source.data.app.completes(delivered) {
            return;
        }
        sender.source.data.app.arrived(self.now, delivered, request);
        if sender.source.data.app.next_event() <= self.now {
            self.dispatch(Happening::Application, scheduler);
        }
    }

    /// The sender, once the connection is open at its end.
    pub fn sender(&self) -> Option<&Sender<ScenarioSource>> {
        self.sending.sender.as_ref()
    }

    /// The receiver.
    pub fn receiver(&self) -> &Receiver {
        &self.receiving.receiver
    }

    /// Counters of the links for the data of a path.
    pub fn wire(&self, path: PathId) -> WireTally {
        self.network.wire[path.index()]
    }

    /// Time that it has run.
    pub fn elapsed(&self) -> Span {
        self.now.since(Instant::ZERO)
    }
}

#[derive(Clone, Copy, Debug)]
enum Happening {
    Link(usize),
    Receiver,
    Sender,
    Application,
    Race,
    Presence,
}
