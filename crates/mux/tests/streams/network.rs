//! The least transport that a mux can be tested on: paths that lose, reorder and repeat records, each with a fixed
//! window, and a loss detection by later acknowledgements and by time.

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes as Payload;
use weftway_link::{Distribution, Jitter, Limit, Link, LinkConfig, Loss, Queue};
use weftway_mux::{Limits, Mux, Side};
use weftway_path::{BitRate, Bytes, Instant, Offset, Span};

/// Bytes of a packet beside its payload.
const HEAD: u64 = 60;
/// A packet is lost when one that is so much later has arrived.
const THRESHOLD: u64 = 8;

/// A path; the same in both directions.
#[derive(Clone, Copy, Debug)]
pub struct PathSpec {
    pub mbps: u64,
    /// Delay in one direction.
    pub delay: Span,
    pub loss: f64,
    /// Packets overtake one another within this.
    pub jitter: Span,
    /// The most payload of a record.
    pub mtu: usize,
}

impl PathSpec {
    pub fn rtt(&self) -> Span {
        self.delay * 2
    }

    /// Bytes that its sender has under way at most.
    fn window(&self) -> u64 {
        BitRate::from_mbps(self.mbps).bdp(self.rtt()).get().max(8 * self.mtu as u64)
    }

    fn link(&self, seed: u64) -> Link<Packet> {
        // A window may be sent at once.
        let packets = 500.max(self.window() / self.mtu as u64 + 1);
        let config = LinkConfig {
            rate: BitRate::from_mbps(self.mbps).into(),
            delay: self.delay,
            jitter: (!self.jitter.is_zero())
                .then_some(Jitter { distribution: Distribution::Uniform { half_width: self.jitter }, reorder: true }),
            loss: Loss::Bernoulli(self.loss),
            queue: Queue { limit: Limit::Packets(packets), ..Queue::default() },
            ..LinkConfig::default()
        };
        Link::new(&config, seed)
    }
}

/// Packet on a link; the payload of a record is in a table, by number.
#[derive(Clone, Copy)]
enum Packet {
    Record { serial: u64, place: Offset, payload: u64 },
    Ack { serial: u64 },
}

#[derive(Debug)]
struct Flight {
    serial: u64,
    place: Offset,
    sent: Instant,
    bytes: u64,
}

/// The sending half of a path at one end.
#[derive(Debug)]
struct Sender {
    window: u64,
    mtu: usize,
    patience: Span,
    flights: VecDeque<Flight>,
    in_flight: u64,
    next: u64,
}

/// End of a connection.
pub struct End {
    pub mux: Mux,
    again: VecDeque<Offset>,
    paths: Vec<Sender>,
}

/// Both ends, and the links between them.
pub struct Network {
    pub now: Instant,
    pub ends: [End; 2],
    /// Links of each path, one to each end.
    links: Vec<[Link<Packet>; 2]>,
    payloads: BTreeMap<u64, Payload>,
    /// Every so many records one is sent on two paths, and one that is lost is given up instead of sent again.
    pub every: u64,
    count: u64,
}

impl Network {
    pub fn new(paths: &[PathSpec], limits: Limits, seed: u64) -> Self {
        let longest = paths.iter().map(PathSpec::rtt).max().unwrap();
        let end = |side| {
            let mut mux = Mux::new(side, limits, limits).unwrap();
            mux.set_rtt(longest);
            let paths = paths.iter().map(|path| Sender {
                window: path.window(),
                mtu: path.mtu,
                patience: path.rtt() * 3,
                flights: VecDeque::new(),
                in_flight: 0,
                next: 0,
            });
            End { mux, again: VecDeque::new(), paths: paths.collect() }
        };
        let links = (0u64..).zip(paths).map(|(number, path)| [0, 1].map(|to| path.link(seed + 2 * number + to)));
        Self {
            now: Instant::ZERO,
            ends: [end(Side::Connecting), end(Side::Listening)],
            links: links.collect(),
            payloads: BTreeMap::new(),
            every: u64::MAX,
            count: 0,
        }
    }

    /// Sends what may be sent.
    pub fn flush(&mut self) {
        for from in 0..2 {
            while let Some(path) = self.ends[from].paths.iter().position(Sender::has_room) {
                if !self.send_next(from, path) {
                    break;
                }
            }
        }
    }

    fn send_next(&mut self, from: usize, path: usize) -> bool {
        let (now, end) = (self.now, &mut self.ends[from]);
        let mtu = end.paths[path].mtu;
        while let Some(place) = end.again.pop_front() {
            let Some(payload) = end.mux.payload(place) else { continue };
            if payload.len() > mtu {
                end.mux.abandon(now, place);
                continue;
            }
            self.send(from, path, place, payload);
            return true;
        }
        // A record is what was told of it before, and leaving out what did not fit does not change it.
        let Some(next) = end.mux.peek(now, mtu) else { return false };
        let record = end.mux.cut(now, next.bytes).unwrap();
        assert_eq!(record.payload.len(), next.bytes);
        self.count += 1;
        if self.count.is_multiple_of(self.every) {
            let other = (path + 1) % self.links.len();
            if record.payload.len() <= self.ends[from].paths[other].mtu {
                self.send(from, other, record.place, record.payload.clone());
            }
        }
        self.send(from, path, record.place, record.payload);
        true
    }

    fn send(&mut self, from: usize, path: usize, place: Offset, payload: Payload) {
        let sender = &mut self.ends[from].paths[path];
        let (serial, bytes) = (sender.next, payload.len() as u64);
        sender.next += 1;
        sender.in_flight += bytes;
        sender.flights.push_back(Flight { serial, place, sent: self.now, bytes });
        let number = self.payloads.last_key_value().map_or(0, |(&last, _)| last + 1);
        self.payloads.insert(number, payload);
        let packet = Packet::Record { serial, place, payload: number };
        let _ = self.links[path][1 - from].push(self.now, Bytes::new(bytes + HEAD), packet);
    }

    /// Goes to what happens next, at `until` at the latest.
    pub fn step(&mut self, until: Instant) {
        let links = self.links.iter().flatten().map(Link::next_event);
        let timers = self.ends.iter().flat_map(|end| &end.paths).map(Sender::timer);
        self.now = links.chain(timers).fold(until, Instant::min).max(self.now);
        for path in 0..self.links.len() {
            for to in 0..2 {
                while let Some(delivery) = self.links[path][to].pop(self.now) {
                    self.deliver(path, to, delivery.item);
                }
                let lost = self.ends[to].paths[path].expire(self.now);
                self.lose(to, lost);
            }
        }
    }

    fn deliver(&mut self, path: usize, to: usize, packet: Packet) {
        match packet {
            Packet::Record { serial, place, payload } => {
                let payload = self.payloads.remove(&payload).unwrap();
                self.ends[to].mux.receive(self.now, place, &payload).unwrap();
                let _ = self.links[path][1 - to].push(self.now, Bytes::new(HEAD), Packet::Ack { serial });
            }
            Packet::Ack { serial } => {
                let end = &mut self.ends[to];
                if let Some(flight) = end.paths[path].remove(serial) {
                    end.mux.acked(flight.place);
                }
                let lost = end.paths[path].passed_by(serial);
                self.lose(to, lost);
            }
        }
    }

    fn lose(&mut self, end: usize, lost: Vec<Offset>) {
        for place in lost {
            self.count += 1;
            let give_up = self.count.is_multiple_of(self.every);
            let end = &mut self.ends[end];
            if give_up {
                end.mux.abandon(self.now, place);
            } else if end.mux.lost(self.now, self.now, place) {
                end.again.push_back(place);
            }
        }
    }

    /// Tells whether nothing is under way or waits.
    pub fn is_quiet(&mut self) -> bool {
        let now = self.now;
        let quiet = |end: &mut End| end.mux.una() == end.mux.next_place() && end.mux.peek(now, 1200).is_none();
        self.ends.iter_mut().all(quiet)
    }
}

impl Sender {
    fn has_room(&self) -> bool {
        self.in_flight + self.mtu as u64 <= self.window
    }

    fn timer(&self) -> Instant {
        self.flights.front().map_or(Instant::NEVER, |flight| flight.sent + self.patience)
    }

    fn remove(&mut self, serial: u64) -> Option<Flight> {
        let at = self.flights.iter().position(|flight| flight.serial == serial)?;
        let flight = self.flights.remove(at)?;
        self.in_flight -= flight.bytes;
        Some(flight)
    }

    fn passed_by(&mut self, serial: u64) -> Vec<Offset> {
        let passed = |flight: &Flight| flight.serial + THRESHOLD <= serial;
        self.take_while(passed)
    }

    fn expire(&mut self, now: Instant) -> Vec<Offset> {
        let patience = self.patience;
        self.take_while(|flight| flight.sent + patience <= now)
    }

    fn take_while(&mut self, is_lost: impl Fn(&Flight) -> bool) -> Vec<Offset> {
        let mut lost = Vec::new();
        while self.flights.front().is_some_and(&is_lost)
            && let Some(flight) = self.flights.pop_front()
        {
            self.in_flight -= flight.bytes;
            lost.push(flight.place);
        }
        lost
    }
}
