//! The client's end: local ports that speak SOCKS5 and HTTP CONNECT, and a stream for each connection to them.

use std::collections::{BTreeMap, VecDeque};
use std::io;
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::Arc;

use slab::Slab;
use weftway_mux::{Mux, OpenError, StreamId};
use weftway_path::Instant;

use crate::accounts::Accounts;
use crate::classes::Classes;
use crate::datagram::{DatagramCounts, Drops};
use crate::dscp::Dscp;
use crate::flow::{READ, Turn};
use crate::front::{Front, next_ready};
use crate::limits::{MOST_DATAGRAMS, ProxyLimits};
use crate::local::Local;
use crate::ports::{PortAddress, Ports};
use crate::socket::{Poller, Socket, parts, token};
use crate::stream::Stream;
use crate::view::FlowView;
use crate::wakes::{RunQueue, Timers};

/// The local ports of a client, and the connections to them.
pub struct Proxy {
    poller: Poller,
    ports: Ports,
    limits: ProxyLimits,
    classes: Arc<Classes>,
    accounts: Arc<Accounts>,
    /// Each with its number.
    locals: Slab<(u64, Local)>,
    by_stream: BTreeMap<StreamId, usize>,
    /// Connections that wait for a stream, the longest first.
    waiting: VecDeque<usize>,
    /// True if the mux may have a stream for them.
    may_open: bool,
    /// True if the mux may have datagrams.
    has_datagrams: bool,
    /// The connections that have not said where they want to, by the order in which they came.
    hellos: BTreeMap<u64, usize>,
    /// The number of the next connection.
    next_number: u64,
    /// Refusals of programs by name.
    refusals: BTreeMap<&'static str, u64>,
    /// Counters of closed associations.
    datagrams: DatagramCounts,
    run: RunQueue,
    timers: Timers,
    buffer: Vec<u8>,
}

impl Proxy {
    /// Listens at `addresses`, for those who have one of `accounts`; a port of 0 is one that is free.
    pub fn listen(
        addresses: &[PortAddress],
        limits: ProxyLimits,
        classes: Classes,
        accounts: Accounts,
    ) -> io::Result<Self> {
        let poller = Poller::new()?;
        let ports = Ports::listen(addresses, poller.registry())?;
        Ok(Self {
            poller,
            ports,
            limits,
            classes: Arc::new(classes),
            accounts: Arc::new(accounts),
            locals: Slab::new(),
            by_stream: BTreeMap::new(),
            waiting: VecDeque::new(),
            may_open: true,
            has_datagrams: false,
            hellos: BTreeMap::new(),
            next_number: 0,
            refusals: BTreeMap::new(),
            datagrams: DatagramCounts::default(),
            run: RunQueue::default(),
            timers: Timers::default(),
            buffer: Vec::with_capacity(READ),
        })
    }

    /// Places where it listens.
    pub fn addresses(&self) -> impl Iterator<Item = &PortAddress> {
        self.ports.addresses()
    }

    /// Becomes readable when a socket has something to do, for [`Proxy::turn`].
    pub fn fd(&self) -> BorrowedFd<'_> {
        self.poller.registry().as_fd()
    }

    /// Instant of the next turn, whatever the sockets do: the past, if it is due now.
    pub fn next_event(&self) -> Instant {
        if !self.run.is_empty() || self.has_datagrams {
            return Instant::ZERO;
        }
        let accept = if self.has_room() { self.ports.next_event() } else { Instant::NEVER };
        self.timers.next().min(accept)
    }

    /// The connections that are carried.
    pub fn flows(&self) -> impl Iterator<Item = FlowView<'_>> {
        self.by_stream.values().filter_map(|&key| self.locals.get(key)?.1.stage().flow(&self.classes))
    }

    /// Refusals of programs by name, and their numbers.
    pub fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        &self.refusals
    }

    /// Drops of what programs sent, and of what was for them.
    pub fn drops(&self) -> Drops {
        let mut counts = self.datagrams;
        self.by_stream
            .values()
            .filter_map(|&key| self.locals.get(key))
            .for_each(|(_, local)| counts += local.stage().datagrams());
        counts.drops()
    }

    /// Number of local connections.
    pub fn connections(&self) -> usize {
        self.locals.len()
    }

    /// Number of those that wait for a stream, or for a connection to the relay.
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    /// Does what can be done without waiting. It is due when [`Proxy::fd`] is readable, [`Proxy::next_event`] has come,
    /// or the mux has taken in anything: records, or what became of records.
    ///
    /// Without a mux, which is without a connection to the relay, programs wait for one. A connection that ends is to
    /// be told by [`Proxy::lost`] before there is another mux.
    pub fn turn(&mut self, now: Instant, mut mux: Option<&mut Mux>) {
        self.collect();
        match mux.as_deref_mut() {
            Some(mux) => {
                self.take_ready(mux);
                self.take_datagrams(mux);
            }
            None => self.lost(now),
        }
        while let Some(key) = self.timers.pop(now) {
            self.run.push(key);
        }
        self.accept(now);
        for _ in 0..self.run.len() {
            if let Some(key) = self.run.pop() {
                self.step(now, key, mux.as_deref_mut());
            }
        }
        if let Some(mux) = mux {
            self.open(now, mux);
        }
    }

    /// The connection to the relay is gone. All streams end: programs get a reset, or a refusal if they waited for the
    /// relay's word.
    pub fn lost(&mut self, now: Instant) {
        (self.may_open, self.has_datagrams) = (true, false);
        while let Some((_, key)) = self.by_stream.pop_first() {
            if self.locals.get_mut(key).is_some_and(|(_, local)| local.lose(now)) {
                self.run.push(key);
            } else if let Some(local) = self.remove(key) {
                local.reset();
            }
        }
    }

    /// Takes note of what sockets have to do.
    fn collect(&mut self) {
        let Self { poller, ports, locals, run, .. } = self;
        poller.collect(|event| {
            if ports.note(event.token()) {
                return;
            }
            let (key, number) = parts(event.token());
            if let Some((_, local)) = locals.get_mut(key) {
                local.note(number, event);
                run.push(key);
            }
        });
    }

    /// Takes note of what streams have to do.
    fn take_ready(&mut self, mux: &mut Mux) {
        while let Some((id, is_read)) = next_ready(mux, &mut self.may_open, &mut self.has_datagrams) {
            if let Some(&key) = self.by_stream.get(&id)
                && let Some((_, local)) = self.locals.get_mut(key)
            {
                if is_read {
                    local.note_readable()
                } else {
                    local.note_writable()
                }
                self.run.push(key);
            }
        }
    }

    /// Passes datagrams on to programs. One of a stream that is over is for nobody.
    fn take_datagrams(&mut self, mux: &mut Mux) {
        for _ in 0..MOST_DATAGRAMS {
            if !self.has_datagrams {
                return;
            }
            match mux.next_datagram() {
                None => self.has_datagrams = false,
                Some((id, bytes)) => {
                    let key = self.by_stream.get(&id);
                    if let Some((_, local)) = key.and_then(|&key| self.locals.get_mut(key)) {
                        local.take_datagram(bytes);
                    }
                }
            }
        }
    }

    fn has_room(&self) -> bool {
        self.locals.len() < self.limits.connections
    }

    /// Accepts connections that wait, in one turn no more than may be silent: each has a turn of its own before another
    /// takes its place.
    fn accept(&mut self, now: Instant) {
        for _ in 0..self.limits.handshakes {
            if !self.has_room() {
                return;
            }
            let Some(stream) = self.ports.accept(now) else { return };
            self.add(now, stream);
        }
    }

    /// Takes a connection. If too many have not said where they want to, the oldest of these goes: whoever opens many
    /// and says nothing keeps nobody out.
    fn add(&mut self, now: Instant, stream: Stream) {
        if self.hellos.len() >= self.limits.handshakes
            && let Some((_, &oldest)) = self.hellos.first_key_value()
        {
            self.remove(oldest);
        }
        let entry = self.locals.vacant_entry();
        let key = entry.key();
        // One that cannot be watched is closed.
        if let Ok(socket) = Socket::connected(stream, self.poller.registry(), token(key, 0)) {
            let shared = (self.classes.clone(), self.accounts.clone());
            entry.insert((self.next_number, Local::new(now, socket, self.limits.record, shared)));
            self.hellos.insert(self.next_number, key);
            self.next_number += 1;
            self.run.push(key);
        }
    }

    /// Has `key` do what it can.
    fn step(&mut self, now: Instant, key: usize, mux: Option<&mut Mux>) {
        let Some((number, local)) = self.locals.get_mut(key) else { return };
        let (was_new, wanted, stream) =
            (local.stage().is_new(), local.stage().wants().is_some(), local.stage().stream());
        let turn = local.turn(now, key, self.poller.registry(), mux, &mut self.buffer);
        if let Some(id) = stream.filter(|_| local.stage().stream() != stream) {
            self.by_stream.remove(&id);
        }
        if was_new && !local.stage().is_new() {
            self.hellos.remove(number);
        }
        match (wanted, local.stage().wants().is_some()) {
            (false, true) => self.waiting.push_back(key),
            (true, false) => self.waiting.retain(|&other| other != key),
            _ => {}
        }
        self.timers.set(key, local.deadline());
        if let Some(failure) = local.take_refused() {
            *self.refusals.entry(failure.name()).or_default() += 1;
        }
        match turn {
            Turn::Idle => {}
            Turn::More => self.run.push(key),
            Turn::Over => drop(self.remove(key)),
            Turn::Broken => {
                if let Some(local) = self.remove(key) {
                    local.reset();
                }
            }
        }
    }

    fn remove(&mut self, key: usize) -> Option<Local> {
        let (number, local) = self.locals.try_remove(key)?;
        self.datagrams += local.stage().datagrams();
        self.hellos.remove(&number);
        if local.stage().wants().is_some() {
            self.waiting.retain(|&other| other != key);
        }
        if let Some(id) = local.stage().stream() {
            self.by_stream.remove(&id);
        }
        self.run.remove(key);
        self.timers.set(key, Instant::NEVER);
        Some(local)
    }

    /// Opens streams for those that wait for one.
    fn open(&mut self, now: Instant, mux: &mut Mux) {
        while self.may_open
            && let Some(&key) = self.waiting.front()
        {
            let Some((_, local)) = self.locals.get_mut(key) else { return };
            let Some(purpose) = local.stage().wants() else { return };
            let class = self.classes.of(purpose, Dscp::NONE);
            match mux.open(now, class.number(), purpose.to_string().as_bytes(), None) {
                Ok(id) => {
                    // It is open.
                    let _ = class.begin(mux, id);
                    self.waiting.pop_front();
                    local.open(now, id);
                    self.by_stream.insert(id, key);
                    // It looks for the relay's word once, to be told when that comes.
                    self.step(now, key, Some(mux));
                }
                Err(OpenError::TooMany) => self.may_open = false,
                // No target is of that kind; its time will be over.
                Err(OpenError::Class(_) | OpenError::Target(_)) => return,
            }
        }
    }
}

impl Front for Proxy {
    fn addresses(&self) -> Vec<String> {
        self.addresses().map(ToString::to_string).collect()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.fd()
    }

    fn next_event(&self) -> Instant {
        self.next_event()
    }

    fn turn(&mut self, now: Instant, mux: Option<&mut Mux>) {
        self.turn(now, mux);
    }

    fn lost(&mut self, now: Instant) {
        self.lost(now);
    }

    fn flows(&self) -> impl Iterator<Item = FlowView<'_>> {
        self.flows()
    }

    fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        self.refusals()
    }

    fn drops(&self) -> Drops {
        self.drops()
    }
}
