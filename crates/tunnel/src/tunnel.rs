//! The client's end: a device on which packets of local programs come, and a stream for each connection, and for the
//! datagrams of each local port.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::os::fd::BorrowedFd;
use std::sync::Arc;

use slab::Slab;
use weftway_mux::{Mux, OpenError, StreamId};
use weftway_path::Instant;
use weftway_relay::parts::{MOST_DATAGRAMS, READ, RunQueue, Timers, Turn, next_ready};
use weftway_relay::{Classes, DatagramCounts, Drops, FlowView, Front, Host, Policy, ProxyLimits, Purpose, Target};

use crate::association::{Association, DatagramRules, NAMES_PORT, Owner};
use crate::device::{Device, LONGEST};
use crate::entry::{Entry, Key};
use crate::fragments::{Fragments, Malformed};
use crate::packet::{self, Ends, NotCarried, Packet};
use crate::stack::{Outside, refuse};
use crate::tcp_flow::TcpFlow;

/// Number of packets of programs that are taken before others have their turn.
const BURST: usize = 256;
/// For how many ports datagrams are carried at once: a few less than a relay allows. The one used longest ago makes
/// room.
const MOST_ASSOCIATIONS: usize = 240;
/// Numbers of streams for datagrams, and for questions for names, that are open before somebody needs them, once
/// somebody has. A question mostly comes from a port of its own. A long connection has those for datagrams opened, too:
/// once it fills the queues, the relay's word on a stream waits in them.
const SPARE: usize = 2;

/// Answerer of a question to a server of names that has no public address, which no relay asks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Names {
    /// Nobody: it leads where it says, and the relay decides.
    AsTheyAre,
    /// The server that the relay itself asks.
    Relay,
    /// This one.
    Server(SocketAddr),
}

/// Counters of packets that are not carried.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PacketCounts {
    /// They make no sense.
    pub malformed: u64,
    /// They are fragments of packets that did not become whole.
    pub fragments: u64,
    /// They lead to many, or are of another protocol.
    pub others: u64,
}

/// A device, and the streams of the programs whose packets come on it.
pub struct Tunnel<D> {
    outside: Outside<D>,
    names: Names,
    limits: ProxyLimits,
    classes: Arc<Classes>,
    /// Which servers of names a relay asks.
    public: Policy,
    /// Seed of the initial TCP sequence numbers.
    seed: u64,
    entries: Slab<Entry>,
    by_key: BTreeMap<Key, usize>,
    by_stream: BTreeMap<StreamId, usize>,
    /// Keys that wait for a stream, the longest first.
    waiting: VecDeque<usize>,
    /// Number of entries for datagrams.
    associations: usize,
    /// Entries of them that are nobody's yet, and the number of the next.
    spares: Vec<usize>,
    next_spare: u64,
    /// True if the mux may have a stream for them.
    may_open: bool,
    /// True if the mux may have datagrams.
    has_datagrams: bool,
    /// True if the device may have packets.
    has_packets: bool,
    refusals: BTreeMap<&'static str, u64>,
    counts: PacketCounts,
    /// Packets that miss fragments.
    fragments: Fragments,
    /// Counters of ports that have none any more.
    datagrams: DatagramCounts,
    run: RunQueue,
    timers: Timers,
    /// A packet that came, and what is read from a connection.
    packet: Box<[u8]>,
    buffer: Vec<u8>,
}

impl<D: Device> Tunnel<D> {
    /// Tunnel of a device whose packets may have `mtu` bytes. `seed` is a random number.
    pub fn new(device: D, mtu: usize, names: Names, limits: ProxyLimits, classes: Classes, seed: u64) -> Self {
        Self {
            outside: Outside::new(device, mtu),
            names,
            limits,
            classes: Arc::new(classes),
            public: Policy::default(),
            seed,
            entries: Slab::new(),
            by_key: BTreeMap::new(),
            by_stream: BTreeMap::new(),
            waiting: VecDeque::new(),
            associations: 0,
            spares: Vec::new(),
            next_spare: 0,
            may_open: true,
            has_datagrams: false,
            has_packets: false,
            refusals: BTreeMap::new(),
            counts: PacketCounts::default(),
            fragments: Fragments::default(),
            datagrams: DatagramCounts::default(),
            run: RunQueue::default(),
            timers: Timers::default(),
            packet: vec![0; LONGEST].into(),
            buffer: Vec::with_capacity(READ),
        }
    }

    /// Counters of packets that are not carried.
    pub fn counts(&self) -> PacketCounts {
        PacketCounts { fragments: self.fragments.lost(), ..self.counts }
    }

    /// Number of connections, and of ports with datagrams.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Returns true if there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Takes note of what streams have to do.
    fn take_ready(&mut self, mux: &mut Mux) {
        while let Some((id, is_read)) = next_ready(mux, &mut self.may_open, &mut self.has_datagrams) {
            let Some(&key) = self.by_stream.get(&id) else { continue };
            match self.entries.get_mut(key) {
                Some(Entry::Tcp(flow)) if is_read => flow.note_readable(),
                Some(Entry::Tcp(flow)) => flow.note_writable(),
                Some(Entry::Datagrams(_)) | None => {}
            }
            self.run.push(key);
        }
    }

    /// Passes datagrams on to programs. One of a stream that is over is for nobody.
    fn take_datagrams(&mut self, now: Instant, mux: &mut Mux) {
        for _ in 0..MOST_DATAGRAMS {
            if !self.has_datagrams {
                return;
            }
            let Some((id, bytes)) = mux.next_datagram() else {
                self.has_datagrams = false;
                return;
            };
            let Some(&key) = self.by_stream.get(&id) else { continue };
            if let Some(Entry::Datagrams(association)) = self.entries.get_mut(key) {
                association.down(now, bytes, &mut self.outside);
            }
        }
    }

    /// Takes packets of programs.
    fn take_packets(&mut self, now: Instant, mut mux: Option<&mut Mux>) {
        let mut bytes = std::mem::take(&mut self.packet);
        self.has_packets = (0..BURST).all(|_| match self.outside.device.receive(&mut bytes) {
            Some(length) => {
                self.take_packet(now, &bytes[..length], mux.as_deref_mut());
                true
            }
            None => false,
        });
        self.packet = bytes;
    }

    fn take_packet(&mut self, now: Instant, bytes: &[u8], mux: Option<&mut Mux>) {
        match packet::read(bytes) {
            Ok(Packet::Fragment(fragment)) => match self.fragments.take(now, &fragment) {
                Ok(Some(whole)) => match packet::read(&whole) {
                    // A fragment in fragments.
                    Ok(Packet::Fragment(_)) => self.count(NotCarried::Malformed),
                    Ok(packet) => self.take_whole(now, &whole, packet, mux),
                    Err(why) => self.count(why),
                },
                Ok(None) => {}
                Err(Malformed) => self.count(NotCarried::Malformed),
            },
            Ok(packet) => self.take_whole(now, bytes, packet, mux),
            Err(why) => self.count(why),
        }
    }

    /// Counts a packet that is not carried.
    fn count(&mut self, why: NotCarried) {
        *match why {
            NotCarried::Malformed => &mut self.counts.malformed,
            NotCarried::NotUnicast | NotCarried::Protocol => &mut self.counts.others,
        } += 1;
    }

    /// Takes a packet, which was read from `bytes` and is no fragment.
    fn take_whole(&mut self, now: Instant, bytes: &[u8], packet: Packet<'_>, mut mux: Option<&mut Mux>) {
        let owner = match packet {
            Packet::Fragment(_) => return,
            Packet::Tcp { ends, begins, resets } => return self.take_segment(now, bytes, (ends, begins, resets)),
            Packet::Echo { program, ident, .. } => Owner::Ident(program, ident),
            Packet::Udp { ends, .. } => match self.names {
                Names::Relay if self.is_asked(ends.server) => Owner::Questions(ends, None),
                Names::Server(server) if self.is_asked(ends.server) => Owner::Questions(ends, Some(server)),
                _ => Owner::Port(ends.program),
            },
        };
        let key = self.association(now, owner, mux.as_deref_mut());
        let how = DatagramRules { record: self.limits.record, classes: &self.classes };
        if let Some(Entry::Datagrams(association)) = self.entries.get_mut(key) {
            association.up(now, bytes, &packet, mux, how);
        }
    }

    /// Returns true if questions to this server are answered by another one.
    fn is_asked(&self, server: SocketAddr) -> bool {
        server.port() == NAMES_PORT && !self.public.allows(server.ip())
    }

    fn take_segment(&mut self, now: Instant, bytes: &[u8], (ends, begins, resets): (Ends, bool, bool)) {
        if let Some(&key) = self.by_key.get(&Key::Tcp(ends)) {
            if let Some(Entry::Tcp(flow)) = self.entries.get_mut(key) {
                flow.take(now, bytes, resets, &mut self.outside);
                self.run.push(key);
            }
            return;
        }
        if !begins {
            return refuse(now, ends, bytes, &mut self.outside);
        }
        // Its kernel tries again later.
        if self.entries.len() >= self.limits.connections {
            return;
        }
        let to =
            |server: SocketAddr| Purpose::Connection(Target { host: Host::Address(server.ip()), port: server.port() });
        let purpose = match self.names {
            Names::Relay if self.is_asked(ends.server) => Purpose::NamesByTcp,
            Names::Server(server) if self.is_asked(ends.server) => to(server),
            _ => to(ends.server),
        };
        let class = self.classes.of(&purpose, packet::mark(bytes));
        self.add(now, Entry::Tcp(TcpFlow::new(now, ends, purpose, class, bytes)));
    }

    /// The association of these packets.
    fn association(&mut self, now: Instant, owner: Owner, mux: Option<&mut Mux>) -> usize {
        let entry = Entry::Datagrams(Association::new(now, owner));
        if let Some(&key) = self.by_key.get(&entry.key()) {
            return key;
        }
        let purpose = owner.purpose();
        if let Some(key) = self.take_spare(owner, &purpose) {
            self.add_spares(now, &purpose);
            return key;
        }
        if self.associations >= MOST_ASSOCIATIONS {
            let all = self.entries.iter().filter_map(|(key, entry)| match entry {
                Entry::Datagrams(association) => Some((association.last_used(), key)),
                Entry::Tcp(_) => None,
            });
            if let Some((_, oldest)) = all.min() {
                if let Some(Entry::Datagrams(association)) = self.entries.get_mut(oldest) {
                    if let Some(id) = association.stream() {
                        self.by_stream.remove(&id);
                    }
                    association.end(mux);
                }
                self.remove(oldest);
            }
        }
        let key = self.add(now, entry);
        self.add_spares(now, &purpose);
        key
    }

    /// Gives a stream that is open already to `whose`.
    fn take_spare(&mut self, owner: Owner, purpose: &Purpose) -> Option<usize> {
        let is_fit = |&key: &usize| match self.entries.get(key) {
            Some(Entry::Datagrams(association)) => association.is_open() && association.purpose() == purpose,
            _ => false,
        };
        let key = self.spares.swap_remove(self.spares.iter().position(is_fit)?);
        let entry = self.entries.get_mut(key)?;
        self.by_key.remove(&entry.key());
        if let Entry::Datagrams(association) = entry {
            association.give(owner);
        }
        self.by_key.insert(entry.key(), key);
        Some(key)
    }

    /// Has streams opened that somebody will need. Pings are not in a hurry.
    fn add_spares(&mut self, now: Instant, purpose: &Purpose) {
        let is_one = |key: &usize| matches!(self.entries.get(*key), Some(Entry::Datagrams(association)) if association.purpose() == purpose);
        let missing = SPARE.saturating_sub(self.spares.iter().filter(|key| is_one(key)).count());
        for _ in 0..missing {
            if *purpose == Purpose::Echo || self.associations + SPARE > MOST_ASSOCIATIONS {
                return;
            }
            let spare = Association::spare(now, self.next_spare, purpose.clone());
            self.next_spare += 1;
            let key = self.add(now, Entry::Datagrams(spare));
            self.spares.push(key);
        }
    }

    fn add(&mut self, now: Instant, mut entry: Entry) -> usize {
        self.associations += usize::from(matches!(entry, Entry::Datagrams(_)));
        let (name, due) = (entry.key(), entry.next_event(now));
        let key = self.entries.insert(entry);
        self.by_key.insert(name, key);
        self.timers.set(key, due);
        self.waiting.push_back(key);
        key
    }

    fn remove(&mut self, key: usize) {
        let Some(entry) = self.entries.try_remove(key) else { return };
        if let Entry::Datagrams(association) = &entry {
            self.associations -= 1;
            self.datagrams += association.counts();
        }
        self.by_key.remove(&entry.key());
        self.spares.retain(|&other| other != key);
        if let Some(id) = entry.stream() {
            self.by_stream.remove(&id);
        }
        // Also one that has given up waiting.
        self.waiting.retain(|&other| other != key);
        self.run.remove(key);
        self.timers.set(key, Instant::NEVER);
    }

    /// Has `key` do what it can.
    fn step(&mut self, now: Instant, key: usize, mux: Option<&mut Mux>) {
        let has_connections = self.entries.len() > self.associations;
        let Some(entry) = self.entries.get_mut(key) else { return };
        let (wanted, stream) = (entry.wants().is_some(), entry.stream());
        let mut has_grown_long = false;
        let (turn, refused) = match entry {
            Entry::Tcp(flow) => {
                // The constant of splitmix64: each connection has another seed.
                self.seed = self.seed.wrapping_add(0x9e37_79b9_7f4a_7c15);
                let turn = flow.turn(now, self.seed, mux, &mut self.buffer, &mut self.outside);
                has_grown_long = flow.grows_long();
                (turn, flow.take_refused())
            }
            Entry::Datagrams(association) => {
                let how = DatagramRules { record: self.limits.record, classes: &self.classes };
                if has_connections {
                    association.keep_spare(now);
                }
                let turn = association.turn(now, mux, how, &mut self.outside);
                (turn, association.take_refused())
            }
        };
        let due = entry.next_event(now);
        if let Some(id) = stream.filter(|_| entry.stream() != stream) {
            self.by_stream.remove(&id);
        }
        if wanted && entry.wants().is_none() {
            self.waiting.retain(|&other| other != key);
        }
        if let Some(failure) = refused {
            *self.refusals.entry(failure.name()).or_default() += 1;
        }
        match turn {
            Turn::Over | Turn::Broken => self.remove(key),
            Turn::More => self.run.push(key),
            Turn::Idle => {}
        }
        if turn != Turn::Over {
            self.timers.set(key, due);
        }
        if has_grown_long {
            self.add_spares(now, &Purpose::Datagrams);
        }
    }

    /// Opens streams for those that wait for one.
    fn open(&mut self, now: Instant, mux: &mut Mux) {
        while self.may_open
            && let Some(&key) = self.waiting.front()
        {
            let Some((purpose, class)) = self.entries.get(key).and_then(Entry::wants) else {
                self.waiting.pop_front();
                continue;
            };
            match mux.open(now, class.number(), purpose.to_string().as_bytes(), None) {
                Ok(id) => {
                    // It is open.
                    let _ = class.begin(mux, id);
                    self.waiting.pop_front();
                    match self.entries.get_mut(key) {
                        Some(Entry::Tcp(flow)) => flow.open(now, id),
                        Some(Entry::Datagrams(association)) => association.open(now, id),
                        None => {}
                    }
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

impl<D: Device> Front for Tunnel<D> {
    fn addresses(&self) -> Vec<String> {
        Vec::new()
    }

    fn fd(&self) -> BorrowedFd<'_> {
        self.outside.device.fd()
    }

    fn next_event(&self) -> Instant {
        if !self.run.is_empty() || self.has_datagrams || self.has_packets { Instant::ZERO } else { self.timers.next() }
    }

    fn turn(&mut self, now: Instant, mut mux: Option<&mut Mux>) {
        match mux.as_deref_mut() {
            Some(mux) => {
                self.take_ready(mux);
                self.take_datagrams(now, mux);
            }
            None => self.lost(now),
        }
        self.take_packets(now, mux.as_deref_mut());
        while let Some(key) = self.timers.pop(now) {
            self.run.push(key);
        }
        for _ in 0..self.run.len() {
            if let Some(key) = self.run.pop() {
                self.step(now, key, mux.as_deref_mut());
            }
        }
        if let Some(mux) = mux {
            self.open(now, mux);
        }
    }

    fn lost(&mut self, now: Instant) {
        (self.may_open, self.has_datagrams) = (true, false);
        while let Some((_, key)) = self.by_stream.pop_first() {
            let failure = match self.entries.get_mut(key) {
                Some(Entry::Tcp(flow)) => {
                    flow.lose(now, &mut self.outside);
                    flow.take_refused()
                }
                Some(Entry::Datagrams(_)) | None => None,
            };
            if let Some(failure) = failure {
                *self.refusals.entry(failure.name()).or_default() += 1;
            }
            self.remove(key);
        }
    }

    fn flows(&self) -> impl Iterator<Item = FlowView<'_>> {
        self.by_stream.values().filter_map(|&key| self.entries.get(key)?.view())
    }

    fn refusals(&self) -> &BTreeMap<&'static str, u64> {
        &self.refusals
    }

    fn drops(&self) -> Drops {
        let mut datagrams = self.datagrams;
        for (_, entry) in &self.entries {
            if let Entry::Datagrams(association) = entry {
                datagrams += association.counts();
            }
        }
        let PacketCounts { malformed, fragments, others } = self.counts();
        let packets = [("malformed", malformed), ("fragment", fragments), ("not_carried", others)];
        let mut drops = datagrams.drops();
        drops.extend(packets.into_iter().filter(|&(_, count)| count > 0));
        drops
    }

    fn failure(&self) -> Option<&str> {
        self.outside.device.failure()
    }
}

#[cfg(test)]
mod tests {
    use std::fs::File;
    use std::os::fd::AsFd;

    use weftway_path::Span;

    use super::*;
    use crate::reply;

    struct Nothing(File);

    impl Device for Nothing {
        fn fd(&self) -> BorrowedFd<'_> {
            self.0.as_fd()
        }

        fn receive(&mut self, _: &mut [u8]) -> Option<usize> {
            None
        }

        fn failure(&self) -> Option<&str> {
            None
        }

        fn send(&mut self, _: &[u8], _: Option<u16>) {}
    }

    /// Without a relay, datagrams of more and more ports.
    #[test]
    fn who_makes_room_waits_no_more() {
        let device = Nothing(File::open("/dev/null").unwrap());
        let limits = ProxyLimits::default();
        let mut tunnel = Tunnel::new(device, 1500, Names::AsTheyAre, limits, Classes::default(), 7);
        let (mut packet, server) = (Vec::new(), SocketAddr::from(([203, 0, 113, 9], 7000)));
        for port in 1..=1000 {
            let now = Instant::ZERO + Span::from_millis(port.into());
            assert!(reply::datagram(&mut packet, ([198, 18, 77, 1], port).into(), server, b"hello"));
            tunnel.take_packet(now, &packet, None);
        }
        assert!(tunnel.waiting.len() <= tunnel.len(), "{} of {} wait", tunnel.waiting.len(), tunnel.len());
    }
}
