//! The server's end: connects the streams of its clients to where they lead.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd};

use mio::unix::SourceFd;
use mio::{Interest, Token};
use rustix::process::{Resource, getrlimit};
use slab::Slab;
use weftway_mux::{Accepted, Mux, Ready, StreamId};
use weftway_path::Instant;

use crate::boundary::Boundary;
use crate::classes::Class;
use crate::client::{Client, ClientId, Share};
use crate::datagram::DatagramCounts;
use crate::flow::{READ, Turn};
use crate::limits::{ClientLimits, MOST_DATAGRAMS, MOST_PIPES, RelayLimits};
use crate::names::{Answer, NameSource, Resolver, server_of_system};
use crate::pace::Way;
use crate::pipe::PipeLeave;
use crate::places::Places;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::remote::Remote;
use crate::remote_udp::{Kind, Outside};
use crate::socket::{Poller, parts};
use crate::target::{Purpose, TargetError};
use crate::udp::Udp;
use crate::view::FlowView;
use crate::wakes::Timers;

/// The token of the resolver: that of no socket, for there are never so many entries.
const ANSWERS: Token = Token(usize::MAX);
/// The token of a socket that is closed at once.
const NO_ENTRY: Token = Token(usize::MAX - 1);

/// A question for a name: of which entry, and the name as the entry has it. Keys are used again, numbers are not.
#[derive(Clone)]
struct Asked {
    key: usize,
    number: u64,
    name: String,
}

/// The streams of all clients, and their sockets.
pub struct Relay {
    poller: Poller,
    resolver: Resolver<Asked>,
    places: Places,
    boundary: Boundary,
    limits: RelayLimits,
    /// Each with its number.
    remotes: Slab<(u64, Remote)>,
    next_number: u64,
    clients: BTreeMap<ClientId, Client>,
    shares: Slab<Share>,
    timers: Timers,
    buffer: Vec<u8>,
    /// Server of clients' questions for names: without it, where the system's go.
    name_server: Option<SocketAddr>,
    /// Targets that pipes may have.
    pipes: PipeLeave,
}

impl Relay {
    /// Connects where `policy` allows it, and looks names up as this machine's files say.
    pub fn new(policy: Policy, limits: RelayLimits) -> io::Result<Self> {
        Self::with_names(policy, limits, NameSource::system())
    }

    /// Connects where `policy` allows it, and looks names up as `names` says.
    pub fn with_names(policy: Policy, limits: RelayLimits, names: NameSource) -> io::Result<Self> {
        let poller = Poller::new()?;
        let descriptors = getrlimit(Resource::Nofile).current.and_then(|most| usize::try_from(most).ok());
        let descriptors = descriptors.unwrap_or(usize::MAX);
        let resolver = Resolver::new(names, limits.names.min(descriptors / 8))?;
        poller.registry().register(&mut SourceFd(&resolver.fd().as_raw_fd()), ANSWERS, Interest::READABLE)?;
        Ok(Self {
            poller,
            resolver,
            places: Places::new(limits.dials.min(descriptors / 2)),
            boundary: Boundary::new(policy)?,
            limits,
            remotes: Slab::new(),
            next_number: 0,
            clients: BTreeMap::new(),
            shares: Slab::new(),
            timers: Timers::default(),
            buffer: Vec::with_capacity(READ),
            name_server: None,
            pipes: PipeLeave::default(),
        })
    }

    /// Becomes readable when a socket of any client has something to do, or a name was looked up: for
    /// [`Relay::collect`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.registry().as_fd()
    }

    /// Instant of the next turn of some client, whatever the sockets do: the past, if it is due now.
    pub fn next_event(&self) -> Instant {
        let paced = self.clients.values().map(|client| self.next_turn(client)).min().unwrap_or(Instant::NEVER);
        let due = self.timers.next().min(paced).min(self.resolver.next_event()).min(self.places.next_event());
        if self.clients.values().any(Client::is_busy) { Instant::ZERO } else { due }
    }

    /// The time at which the streams of a client go on that wait for the pace of its share.
    fn next_turn(&self, client: &Client) -> Instant {
        self.shares.get(client.share).map_or(Instant::NEVER, |share| client.next_event(share))
    }

    /// Clients that ask the relay's own server of names ask this one.
    pub fn set_name_server(&mut self, server: SocketAddr) {
        self.name_server = Some(server);
    }

    /// Allows pipes to these targets.
    pub fn allow_pipes(&mut self, pipes: PipeLeave) {
        self.pipes = pipes;
    }

    /// Sets what a client, and those that share with it, may do from now on.
    pub fn limit(&mut self, client: ClientId, limits: ClientLimits) {
        let share = self.enter(client);
        if let Some(share) = self.shares.get_mut(share) {
            share.set_limits(limits);
        }
    }

    /// Has a client that has no stream yet share the limits of `other`. What is free goes to the one that has its turn
    /// first: their owner is to give turns in changing order.
    pub fn share(&mut self, client: ClientId, other: ClientId) {
        let (share, before) = (self.enter(other), self.enter(client));
        if let Some(client) = self.clients.get_mut(&client).filter(|_| share != before) {
            client.share = share;
            self.shares[share].clients += 1;
            self.leave(before);
        }
    }

    /// The share of a client, which has one of its own if it is new.
    fn enter(&mut self, client: ClientId) -> usize {
        let shares = &mut self.shares;
        let own = || Client { share: shares.insert(Share { clients: 1, ..Share::default() }), ..Client::default() };
        self.clients.entry(client).or_insert_with(own).share
    }

    /// Takes note that one client fewer has this share.
    fn leave(&mut self, share: usize) {
        if let Some(left) = self.shares.get_mut(share) {
            left.clients -= 1;
            if left.clients == 0 {
                self.shares.remove(share);
            }
        }
    }

    /// Refusals of a client, and their numbers.
    pub fn refusals(&self, client: ClientId) -> impl Iterator<Item = (Refusal, u64)> {
        self.clients
            .get(&client)
            .into_iter()
            .flat_map(|client| client.refusals.iter().map(|(&kind, &count)| (kind, count)))
    }

    /// The connections of a client that are carried.
    pub fn flows(&self, client: ClientId) -> impl Iterator<Item = FlowView<'_>> {
        let keys = self.clients.get(&client).into_iter().flat_map(|client| client.by_stream.values());
        keys.filter_map(|&key| self.remotes.get(key)?.1.flow())
    }

    /// Numbers of bytes that its connections have carried from a client and to it, those included that are over.
    pub fn carried(&self, client: ClientId) -> [u64; 2] {
        let over = self.clients.get(&client).map_or([0; 2], |client| client.carried);
        self.flows(client).fold(over, |sum, flow| added(sum, &flow))
    }

    /// Number of a client's streams.
    pub fn streams(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |client| client.by_stream.len())
    }

    /// Returns true if a client has pipes.
    pub fn has_pipes(&self, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|client| client.pipes > 0)
    }

    /// Counters of the datagrams of a client's programs, of those included that are gone.
    pub fn datagrams(&self, client: ClientId) -> DatagramCounts {
        let mut counts = self.clients.get(&client).map_or(DatagramCounts::default(), |client| client.datagrams);
        let keys = self.clients.get(&client).into_iter().flat_map(|client| client.by_stream.values());
        keys.filter_map(|&key| self.remotes.get(key)?.1.flow()).for_each(|flow| counts += flow.datagrams);
        counts
    }

    /// Takes note of what sockets of all clients have to do, of names that were looked up, and of the time: once before
    /// the turns of clients, when [`Relay::fd`] is readable or [`Relay::next_event`] has come.
    pub fn collect(&mut self, now: Instant) {
        let Self { poller, remotes, clients, .. } = self;
        let mut are_answered = self.resolver.next_event() <= now;
        poller.collect(|event| {
            are_answered |= event.token() == ANSWERS;
            let (key, number) = parts(event.token());
            if let Some((_, remote)) = remotes.get_mut(key)
                && let Some(client) = clients.get_mut(&remote.client())
            {
                remote.note(number, event);
                client.run.push(key);
            }
        });
        if are_answered {
            self.resolver.turn(now);
            self.take_answers(now);
            // A lookup has ended or is silent by now: there may be room for names that wait, of any client.
            for client in self.clients.values_mut() {
                client.run_next_name();
            }
        }
        self.places.turn(now);
        self.tell_places();
        while let Some(key) = self.timers.pop(now) {
            self.wake(key);
        }
    }

    /// Returns true if a client's turn is due: what [`Relay::collect`] brought has something for it, or its time has
    /// come. It is also due when its mux has taken in anything: records, or what became of records.
    pub fn is_due(&self, now: Instant, client: ClientId) -> bool {
        self.clients.get(&client).is_some_and(|client| client.is_busy() || self.next_turn(client) <= now)
    }

    /// Does what can be done for a client without waiting. [`Relay::is_due`] says when.
    pub fn turn(&mut self, now: Instant, client: ClientId, mux: &mut Mux) {
        let share = self.enter(client);
        if let (Some(client), Some(share)) = (self.clients.get_mut(&client), self.shares.get_mut(share)) {
            client.set_now(now, share);
        }
        self.take_ready(client, mux);
        for _ in 0..self.clients.get(&client).map_or(0, |client| client.run.len()) {
            if let Some(key) = self.clients.get_mut(&client).and_then(|client| client.run.pop()) {
                self.step(now, key, mux);
            }
        }
        self.accept(now, client, mux);
        self.take_datagrams(now, client, mux);
        self.look_up(now, client);
    }

    /// The connection to a client is gone: its streams end, and whoever is at their other ends gets a reset.
    pub fn gone(&mut self, client: ClientId) {
        let keys: Vec<usize> =
            self.clients.get(&client).map_or(vec![], |client| client.by_stream.values().copied().collect());
        for remote in keys.into_iter().filter_map(|key| self.remove(key)) {
            remote.reset();
        }
        if let Some(client) = self.clients.remove(&client) {
            self.leave(client.share);
        }
    }

    fn wake(&mut self, key: usize) {
        if let Some((_, remote)) = self.remotes.get(key)
            && let Some(client) = self.clients.get_mut(&remote.client())
        {
            client.run.push(key);
        }
    }

    /// Takes note of names that were looked up.
    fn take_answers(&mut self, now: Instant) {
        while let Some(Answer { tag: Asked { key, number, name }, found }) = self.resolver.next_answer() {
            if let Some((_, remote)) = self.remotes.get_mut(key).filter(|(other, _)| *other == number) {
                let outside = Outside { boundary: &self.boundary, registry: self.poller.registry(), key };
                remote.found(now, &name, found, outside);
                self.wake(key);
            }
        }
    }

    /// Tells dials who has a place.
    fn tell_places(&mut self) {
        while let Some((key, notice)) = self.places.next_told() {
            if let Some((_, remote)) = self.remotes.get_mut(key) {
                remote.note_place(notice);
                self.wake(key);
            }
        }
    }

    /// Takes note of what streams have to do.
    fn take_ready(&mut self, client: ClientId, mux: &mut Mux) {
        while let Some(ready) = mux.poll_ready() {
            let (id, note): (_, fn(&mut Remote)) = match ready {
                Ready::Read(id) => (id, Remote::note_readable),
                Ready::Write(id) => (id, Remote::note_writable),
                Ready::Datagram => {
                    if let Some(client) = self.clients.get_mut(&client) {
                        client.has_datagrams = true;
                    }
                    continue;
                }
                // Accepting is tried in each turn, and a relay opens nothing.
                Ready::Accept | Ready::Open => continue,
            };
            let key = self.clients.get(&client).and_then(|client| client.by_stream.get(&id)).copied();
            if let Some(key) = key
                && let Some((_, remote)) = self.remotes.get_mut(key)
            {
                note(remote);
                self.wake(key);
            }
        }
    }

    /// Has `key` do what it can.
    fn step(&mut self, now: Instant, key: usize, mux: &mut Mux) {
        let Some((_, remote)) = self.remotes.get_mut(key) else { return };
        let Some(client) = self.clients.get_mut(&remote.client()) else { return };
        let Some(share) = self.shares.get_mut(client.share) else { return };
        let was_joined = remote.is_joined();
        let outside = (key, self.poller.registry(), &mut self.places);
        let turn = remote.turn(now, outside, mux, &mut self.buffer, &mut share.pace);
        self.timers.set(key, remote.deadline());
        if !was_joined && remote.is_joined() {
            self.places.leave(key);
        }
        if share.pace.take_refused() {
            client.paced.push(key);
        }
        if turn == Turn::Over
            && let Some(refusal) = remote.refusal()
        {
            client.refuse(refusal);
        }
        match turn {
            Turn::Idle => {}
            Turn::More => self.wake(key),
            Turn::Over => drop(self.remove(key)),
            Turn::Broken => {
                if let Some(remote) = self.remove(key) {
                    remote.reset();
                }
            }
        }
        self.tell_places();
    }

    fn remove(&mut self, key: usize) -> Option<Remote> {
        let (_, remote) = self.remotes.try_remove(key)?;
        self.timers.set(key, Instant::NEVER);
        self.places.leave(key);
        if let Some(client) = self.clients.get_mut(&remote.client()) {
            client.by_stream.remove(&remote.id());
            if let Some(share) = self.shares.get_mut(client.share) {
                share.streams -= 1;
            }
            if let Some(flow) = remote.flow() {
                client.carried = added(client.carried, &flow);
            }
            client.run.remove(key);
            client.paced.remove(key);
            client.names.retain(|&other| other != key);
            client.associations -= usize::from(remote.counts().is_some());
            client.datagrams += remote.flow().map(|flow| flow.datagrams).unwrap_or_default();
            client.pipes -= usize::from(remote.is_pipe());
        }
        Some(remote)
    }

    /// Takes all streams that have come.
    fn accept(&mut self, now: Instant, client: ClientId, mux: &mut Mux) {
        while let Some(Accepted { id, class, target }) = mux.accept() {
            let class = Class::of_number(class);
            // It may be over already.
            let _ = class.begin(mux, id);
            let purpose = str::from_utf8(&target).map_err(|_| TargetError::Form).and_then(str::parse::<Purpose>);
            let remote = match purpose {
                Ok(purpose) => self.admit(now, client, (id, class), purpose),
                Err(TargetError::PipeVersion) => Err(Refusal::Command),
                Err(_) => Err(Refusal::General),
            };
            let Some(current) = self.clients.get_mut(&client) else { return };
            let Some(share) = self.shares.get_mut(current.share) else { return };
            let remote = match remote {
                Ok(remote) => remote,
                Err(refusal) => {
                    let _ = mux.reset(id, refusal.code().into());
                    current.refuse(refusal);
                    continue;
                }
            };
            current.associations += usize::from(remote.counts().is_some());
            current.pipes += usize::from(remote.is_pipe());
            let wants_name = remote.wants_name();
            let key = self.remotes.insert((self.next_number, remote));
            self.next_number += 1;
            current.by_stream.insert(id, key);
            share.streams += 1;
            current.names.extend(wants_name.then_some(key));
            self.step(now, key, mux);
        }
    }

    /// Begins a stream of a client that was just accepted, or says why it is refused.
    fn admit(
        &self,
        now: Instant,
        client: ClientId,
        (id, class): (StreamId, Class),
        purpose: Purpose,
    ) -> Result<Remote, Refusal> {
        let current = self.clients.get(&client).ok_or(Refusal::General)?;
        let share = self.shares.get(current.share).ok_or(Refusal::General)?;
        if share.streams >= share.limits.connections {
            return Err(Refusal::TooMany);
        }
        let name_server = || self.name_server.or_else(server_of_system).ok_or(Refusal::HostUnreachable);
        let kind = match purpose {
            Purpose::Connection(target) => return Ok(Remote::new(now, client, (id, class), target, &self.boundary)),
            Purpose::NamesByTcp => return Ok(Remote::to_name_server(now, client, (id, class), name_server()?)),
            Purpose::Pipe(pipe) if !self.pipes.allows(&pipe.target) => return Err(Refusal::NotAllowed),
            Purpose::Pipe(_) if current.pipes >= MOST_PIPES => return Err(Refusal::TooMany),
            Purpose::Pipe(pipe) => return Ok(Remote::for_pipe(now, client, (id, class), pipe)),
            _ if current.associations >= self.limits.associations => return Err(Refusal::TooMany),
            Purpose::Datagrams => Kind::Plain,
            Purpose::Names => Kind::Names(name_server()?),
            Purpose::Echo => {
                // The kernel may give such sockets to nobody, and the client should know.
                Udp::for_pings(true, self.poller.registry(), NO_ENTRY).map_err(|_| Refusal::Command)?;
                Kind::Echo
            }
        };
        Ok(Remote::for_datagrams(client, id, kind, self.limits.record))
    }

    /// Passes datagrams of a client on. One of a stream that is over is for nobody.
    fn take_datagrams(&mut self, now: Instant, client: ClientId, mux: &mut Mux) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        let Some(share) = self.shares.get_mut(client.share) else { return };
        for _ in 0..MOST_DATAGRAMS {
            if !client.has_datagrams {
                return;
            }
            let Some((place, id, bytes)) = mux.next_datagram_at() else {
                client.has_datagrams = false;
                return;
            };
            let Some(&key) = client.by_stream.get(&id) else { continue };
            let outside = Outside { boundary: &self.boundary, registry: self.poller.registry(), key };
            let Some((_, remote)) = self.remotes.get_mut(key) else { continue };
            if let Some(pipe) = remote.pipe() {
                if share.pace.may_send(Way::FromClient, bytes.len()) {
                    pipe.up(now, mux, place, bytes);
                } else {
                    pipe.drop_one();
                }
                self.timers.set(key, remote.deadline());
                continue;
            }
            let Some(udp) = remote.datagrams() else { continue };
            if !share.pace.may_send(Way::FromClient, bytes.len()) {
                udp.drop_one();
            } else if udp.up(now, bytes, outside) {
                client.names.push_back(key);
            }
        }
    }

    /// Has names looked up, as far as there is room.
    fn look_up(&mut self, now: Instant, client: ClientId) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        while let Some(&key) = client.names.front() {
            if let Some((number, remote)) = self.remotes.get_mut(key)
                && let Some(name) = remote.wanted_name()
            {
                let tag = Asked { key, number: *number, name: name.to_owned() };
                if !self.resolver.ask(now, remote.client(), &tag, name) {
                    break;
                }
                remote.took_name();
            }
            client.names.pop_front();
        }
        self.take_answers(now);
    }
}

/// With what a connection has carried.
fn added([up, down]: [u64; 2], flow: &FlowView<'_>) -> [u64; 2] {
    [up + flow.up, down + flow.down]
}
