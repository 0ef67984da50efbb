//! The server's end: connects the streams of its clients to where they lead.

use std::collections::BTreeMap;
use std::io;
use std::net::SocketAddr;
use std::os::fd::{AsFd, BorrowedFd};

use mio::{Registry, Token, Waker};
use slab::Slab;
use weftway_mux::{Accepted, Mux, Ready};
use weftway_path::Instant;

use crate::classes::Class;
use crate::client::{Client, ClientId};
use crate::datagram::DatagramCounts;
use crate::flow::{READ, Turn};
use crate::limits::{ClientLimits, MOST_DATAGRAMS, RelayLimits};
use crate::pace::Way;
use crate::policy::Policy;
use crate::refusal::Refusal;
use crate::remote::Remote;
use crate::remote_udp::{Kind, Outside};
use crate::resolver::{Lookup, Resolver, server_of_system, system};
use crate::socket::{Poller, parts};
use crate::target::Purpose;
use crate::udp::Udp;
use crate::view::FlowView;
use crate::wakes::Timers;

/// The token of the resolver's waker: that of no socket, for there are never so many entries.
const ANSWERS: Token = Token(usize::MAX);
/// The token of a socket that is closed at once.
const NO_ENTRY: Token = Token(usize::MAX - 1);

/// Whose name was looked up. Keys are used again, numbers are not.
struct Asked {
    client: ClientId,
    key: usize,
    number: u64,
}

/// The streams of all clients, and their sockets.
pub struct Relay {
    poller: Poller,
    resolver: Resolver<Asked>,
    policy: Policy,
    limits: RelayLimits,
    /// Each with its number.
    remotes: Slab<(u64, Remote)>,
    next_number: u64,
    clients: BTreeMap<ClientId, Client>,
    timers: Timers,
    buffer: Vec<u8>,
    /// Where clients' questions for names go: without it, where the system's go.
    name_server: Option<SocketAddr>,
}

impl Relay {
    /// Connects where `policy` allows it, with the system's resolver.
    pub fn new(policy: Policy, limits: RelayLimits) -> io::Result<Self> {
        Self::with_lookup(policy, limits, &system())
    }

    /// The same with another resolver.
    pub fn with_lookup(policy: Policy, limits: RelayLimits, lookup: &Lookup) -> io::Result<Self> {
        let poller = Poller::new()?;
        let waker = Waker::new(poller.registry(), ANSWERS)?;
        Ok(Self {
            poller,
            resolver: Resolver::new(limits.resolvers.max(1), lookup, waker)?,
            policy,
            limits,
            remotes: Slab::new(),
            next_number: 0,
            clients: BTreeMap::new(),
            timers: Timers::default(),
            buffer: Vec::with_capacity(READ),
            name_server: None,
        })
    }

    /// Becomes readable when a socket of any client has something to do, or a name was looked up: for [`Relay::turn`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.registry().as_fd()
    }

    /// When the next turn of some client is due, whatever the sockets do: the past, if it is due now.
    pub fn next_event(&self) -> Instant {
        let is_due = self.clients.values().any(|client| !client.run.is_empty() || client.has_datagrams);
        let paced = self.clients.values().map(Client::next_event).min().unwrap_or(Instant::NEVER);
        if is_due { Instant::ZERO } else { self.timers.next().min(paced) }
    }

    /// Clients that ask the relay's own server of names ask this one.
    pub fn set_name_server(&mut self, server: SocketAddr) {
        self.name_server = Some(server);
    }

    /// A client may do so much from now on.
    pub fn limit(&mut self, client: ClientId, limits: ClientLimits) {
        self.clients.entry(client).or_default().set_limits(limits);
    }

    /// What a client was refused, and how often.
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

    /// How many bytes of data its connections have carried from a client and to it, those included that are over.
    pub fn carried(&self, client: ClientId) -> [u64; 2] {
        let over = self.clients.get(&client).map_or([0; 2], |client| client.carried);
        self.flows(client).fold(over, |sum, flow| added(sum, &flow))
    }

    /// How many streams a client has.
    pub fn streams(&self, client: ClientId) -> usize {
        self.clients.get(&client).map_or(0, |client| client.by_stream.len())
    }

    /// What became of the datagrams of a client's programs, of those included that are gone.
    pub fn datagrams(&self, client: ClientId) -> DatagramCounts {
        let mut counts = self.clients.get(&client).map_or(DatagramCounts::default(), |client| client.datagrams);
        let keys = self.clients.get(&client).into_iter().flat_map(|client| client.by_stream.values());
        keys.filter_map(|&key| self.remotes.get(key)?.1.counts()).for_each(|more| counts += more);
        counts
    }

    /// Does what can be done for a client without waiting. For all clients it is due when [`Relay::fd`] is readable or
    /// [`Relay::next_event`] has come; for one, also when its mux has taken in anything: records, or what became of records.
    pub fn turn(&mut self, now: Instant, client: ClientId, mux: &mut Mux) {
        self.clients.entry(client).or_default().set_now(now);
        self.collect(now);
        while let Some(key) = self.timers.pop(now) {
            self.wake(key);
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
        self.clients.remove(&client);
    }

    fn wake(&mut self, key: usize) {
        if let Some((_, remote)) = self.remotes.get(key)
            && let Some(client) = self.clients.get_mut(&remote.client())
        {
            client.run.push(key);
        }
    }

    /// Takes note of what sockets have to do, and of names that were looked up.
    fn collect(&mut self, now: Instant) {
        let Self { poller, remotes, clients, .. } = self;
        poller.collect(|event| {
            let (key, number) = parts(event.token());
            if let Some((_, remote)) = remotes.get_mut(key)
                && let Some(client) = clients.get_mut(&remote.client())
            {
                remote.note(number, event);
                client.run.push(key);
            }
        });
        while let Some(answer) = self.resolver.next_answer() {
            let Asked { client, key, number } = answer.tag;
            if let Some(client) = self.clients.get_mut(&client) {
                client.end_lookup();
            }
            if let Some((_, remote)) = self.remotes.get_mut(key).filter(|(other, _)| *other == number) {
                let outside = Outside { policy: &self.policy, registry: self.poller.registry(), key };
                remote.found(now, &answer.name, answer.addresses, outside);
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
                    self.clients.entry(client).or_default().has_datagrams = true;
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
        let was_joined = remote.is_joined();
        let turn = remote.turn(now, (key, self.poller.registry()), mux, &mut self.buffer, &mut client.pace);
        self.timers.set(key, remote.deadline());
        client.dials -= usize::from(!was_joined && remote.is_joined());
        if client.pace.take_refused() {
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
    }

    fn remove(&mut self, key: usize) -> Option<Remote> {
        let (_, remote) = self.remotes.try_remove(key)?;
        self.timers.set(key, Instant::NEVER);
        if let Some(client) = self.clients.get_mut(&remote.client()) {
            client.by_stream.remove(&remote.id());
            if let Some(flow) = remote.flow() {
                client.carried = added(client.carried, &flow);
            }
            client.run.remove(key);
            client.paced.remove(key);
            client.names.retain(|&other| other != key);
            client.dials -= usize::from(!remote.is_joined());
            client.associations -= usize::from(remote.counts().is_some());
            client.datagrams += remote.counts().unwrap_or_default();
        }
        Some(remote)
    }

    /// Takes as many streams as may be dialled at once. The others wait in the mux.
    fn accept(&mut self, now: Instant, client: ClientId, mux: &mut Mux) {
        while self.clients.get(&client).is_some_and(|client| client.dials < self.limits.dials)
            && let Some(Accepted { id, class, target }) = mux.accept()
        {
            let class = Class::of_number(class);
            // It may be over already.
            let _ = class.begin(mux, id);
            let purpose = str::from_utf8(&target).ok().and_then(|text| text.parse::<Purpose>().ok());
            let Some(current) = self.clients.get_mut(&client) else { return };
            let has_room = current.by_stream.len() < current.limits.connections;
            let remote = match purpose {
                Some(Purpose::Connection(target)) if has_room => {
                    Remote::new(now, client, (id, class), target, &self.policy)
                }
                Some(Purpose::NamesByTcp) if has_room => match self.name_server.or_else(server_of_system) {
                    Some(server) => Remote::to_name_server(now, client, (id, class), server),
                    None => {
                        let _ = mux.reset(id, Refusal::HostUnreachable.code().into());
                        current.refuse(Refusal::HostUnreachable);
                        continue;
                    }
                },
                Some(purpose) if has_room && current.associations < self.limits.associations => {
                    match kind(&purpose, self.name_server, self.poller.registry()) {
                        Ok(kind) => Remote::for_datagrams(client, id, kind, self.limits.record),
                        Err(refusal) => {
                            let _ = mux.reset(id, refusal.code().into());
                            current.refuse(refusal);
                            continue;
                        }
                    }
                }
                other => {
                    let refusal = if other.is_some() { Refusal::TooMany } else { Refusal::General };
                    let _ = mux.reset(id, refusal.code().into());
                    current.refuse(refusal);
                    continue;
                }
            };
            current.dials += usize::from(!remote.is_joined());
            current.associations += usize::from(remote.counts().is_some());
            let wants_name = remote.wants_name();
            let key = self.remotes.insert((self.next_number, remote));
            self.next_number += 1;
            current.by_stream.insert(id, key);
            current.names.extend(wants_name.then_some(key));
            self.step(now, key, mux);
        }
    }

    /// Passes datagrams of a client on. One of a stream that is over is for nobody.
    fn take_datagrams(&mut self, now: Instant, client: ClientId, mux: &mut Mux) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        for _ in 0..MOST_DATAGRAMS {
            if !client.has_datagrams {
                return;
            }
            let Some((id, bytes)) = mux.next_datagram() else {
                client.has_datagrams = false;
                return;
            };
            let Some(&key) = client.by_stream.get(&id) else { continue };
            let outside = Outside { policy: &self.policy, registry: self.poller.registry(), key };
            let Some(udp) = self.remotes.get_mut(key).and_then(|(_, remote)| remote.datagrams()) else { continue };
            if !client.pace.may_send(Way::FromClient, bytes.len()) {
                udp.drop_one();
            } else if udp.up(now, bytes, outside) {
                client.names.push_back(key);
            }
        }
    }

    /// Has names looked up, as many at once as a client may.
    fn look_up(&mut self, now: Instant, client: ClientId) {
        let Some(client) = self.clients.get_mut(&client) else { return };
        while client.lookups < self.limits.names
            && let Some(key) = client.names.pop_front()
        {
            let Some((number, remote)) = self.remotes.get_mut(key) else { continue };
            let Some((name, port)) = remote.next_name() else { continue };
            let tag = Asked { client: remote.client(), key, number: *number };
            if self.resolver.ask(tag, &name, port) {
                client.lookups += 1;
            } else if let Some(udp) = remote.datagrams() {
                let outside = Outside { policy: &self.policy, registry: self.poller.registry(), key };
                udp.found(now, &name, Ok(vec![]), outside);
            } else {
                remote.refuse(Refusal::General);
                client.run.push(key);
            }
        }
    }
}

/// Of which kind the datagrams of a stream are, or why there are none.
fn kind(purpose: &Purpose, name_server: Option<SocketAddr>, registry: &Registry) -> Result<Kind, Refusal> {
    match purpose {
        Purpose::Datagrams => Ok(Kind::Plain),
        Purpose::Names => name_server.or_else(server_of_system).map(Kind::Names).ok_or(Refusal::HostUnreachable),
        // The kernel may give such sockets to nobody, and the client should know.
        Purpose::Echo => match Udp::for_pings(true, registry, NO_ENTRY) {
            Ok(_) => Ok(Kind::Echo),
            Err(_) => Err(Refusal::Command),
        },
        Purpose::Connection(_) | Purpose::NamesByTcp => Err(Refusal::TooMany),
    }
}

/// With what a connection has carried.
fn added([up, down]: [u64; 2], flow: &FlowView<'_>) -> [u64; 2] {
    [up + flow.up, down + flow.down]
}
