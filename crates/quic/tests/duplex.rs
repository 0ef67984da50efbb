//! Many streams both ways over real QUIC packets, in virtual time: every byte arrives in its order, whatever schedules
//! it.

use std::collections::BTreeMap;

use weftway_link::{Change, Limit, LinkConfig, Loss, Queue, Rate, Set};
use weftway_mux::{Limits, Mux, Read, Ready, Side, StreamId};
use weftway_path::{BitRate, Bytes, Instant, PathId, Role, Span};
use weftway_quic::driver::OFFERS;
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};

pub const SIDES: [Side; 2] = [Side::Connecting, Side::Listening];

/// The same both ways: Mbit/s, delay in milliseconds, loss.
pub fn path(name: &str, mbps: u64, ms: u64, loss: f64) -> PathConfig {
    let link = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        loss: if loss > 0.0 { Loss::Bernoulli(loss) } else { Loss::None },
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    let (role, acks) = (Role::Active, link.clone());
    PathConfig { name: name.to_owned(), role, data: link, acks, via: None, presence: Vec::new() }
}

pub fn config(paths: Vec<PathConfig>) -> SimConfig {
    let transport = TransportConfig {
        path_timeout: Span::from_millis(500),
        probe_interval: Span::from_millis(250),
        ..TransportConfig::mpquic()
    };
    SimConfig::new(transport, paths, Bytes::new(1))
}

/// Takes all that has arrived on streams: how many bytes.
pub fn read_all(mux: &mut Mux, now: Instant) -> u64 {
    let mut read = 0;
    while let Some(ready) = mux.poll_ready() {
        let mut ids = Vec::new();
        match ready {
            Ready::Accept => ids.extend(std::iter::from_fn(|| mux.accept()).map(|accepted| accepted.id)),
            Ready::Read(id) => ids.push(id),
            _ => {}
        }
        for id in ids {
            while let Ok(Read::Bytes(bytes)) = mux.read(id) {
                let count = bytes.len();
                mux.took(now, id, count).unwrap();
                read += count as u64;
            }
        }
    }
    read
}

/// The transport as front ends over sockets set it: a path is given up after half a second of silence, and no window
/// builds a longer queue.
pub fn over_sockets() -> TransportConfig {
    TransportConfig {
        path_timeout: Span::from_millis(500),
        probe_interval: Span::from_millis(250),
        standing_queue: Some(Span::from_millis(500)),
        adapts_to_reordering: true,
        ..TransportConfig::mpquic()
    }
}

/// A stream: which end opens it, how urgent it is, and how many bytes each end writes.
#[derive(Clone, Copy, Debug)]
pub struct Script {
    pub opener: usize,
    pub class: u8,
    pub sizes: [u64; 2],
}

/// How far one end is with a stream.
#[derive(Clone, Copy, Debug, Default)]
struct Half {
    id: Option<StreamId>,
    written: u64,
    finished: bool,
    read: u64,
    /// Time at which its last byte and the end were read.
    done: Option<Instant>,
}

/// Byte `at` of what `end` writes on stream `number`.
fn byte(number: usize, end: usize, at: u64) -> u8 {
    (at ^ (at >> 8) ^ (number as u64 * 31) ^ (end as u64 * 17)) as u8
}

/// Both applications: each writes as much as it may, and reads all that is there.
pub struct Applications {
    scripts: Vec<Script>,
    halves: [Vec<Half>; 2],
    by_id: [BTreeMap<StreamId, usize>; 2],
    opened: [bool; 2],
}

impl Applications {
    pub fn new(scripts: Vec<Script>) -> Self {
        let halves = [vec![Half::default(); scripts.len()], vec![Half::default(); scripts.len()]];
        Self { scripts, halves, by_id: Default::default(), opened: [false; 2] }
    }

    pub fn drive(&mut self, pair: &mut Pair, end: usize) {
        let now = pair.now();
        if pair.mux(SIDES[end]).is_none() {
            return;
        }
        if !std::mem::replace(&mut self.opened[end], true) {
            self.open(pair, end);
        }
        while let Some(ready) = pair.mux(SIDES[end]).unwrap().poll_ready() {
            match ready {
                Ready::Open => self.open(pair, end),
                Ready::Accept => {
                    while let Some(accepted) = pair.mux(SIDES[end]).unwrap().accept() {
                        let number: usize = String::from_utf8(accepted.target.to_vec()).unwrap().parse().unwrap();
                        assert_eq!(accepted.class, self.scripts[number].class);
                        self.begin(pair, end, number, accepted.id);
                    }
                }
                Ready::Read(id) | Ready::Write(id) => {
                    if let Some(&number) = self.by_id[end].get(&id) {
                        self.go_on(pair, end, number, now);
                    }
                }
                Ready::Datagram => {}
            }
        }
    }

    fn open(&mut self, pair: &mut Pair, end: usize) {
        let now = pair.now();
        for number in 0..self.scripts.len() {
            let script = self.scripts[number];
            if script.opener == end && self.halves[end][number].id.is_none() {
                let mux = pair.mux(SIDES[end]).unwrap();
                let Ok(id) = mux.open(now, script.class, number.to_string().as_bytes(), None) else { return };
                self.begin(pair, end, number, id);
            }
        }
    }

    fn begin(&mut self, pair: &mut Pair, end: usize, number: usize, id: StreamId) {
        self.halves[end][number].id = Some(id);
        self.by_id[end].insert(id, number);
        self.go_on(pair, end, number, pair.now());
    }

    fn go_on(&mut self, pair: &mut Pair, end: usize, number: usize, now: Instant) {
        let (half, size) = (&mut self.halves[end][number], self.scripts[number].sizes[end]);
        let (Some(id), mux) = (half.id, pair.mux(SIDES[end]).unwrap()) else { return };
        while half.written < size {
            let until = size.min(half.written + 20_000);
            let bytes: Vec<u8> = (half.written..until).map(|at| byte(number, end, at)).collect();
            let (count, wanted) = (bytes.len(), mux.write(now, id, bytes.into()).unwrap());
            half.written += wanted as u64;
            if wanted < count {
                break;
            }
        }
        if half.written == size && !std::mem::replace(&mut half.finished, true) {
            mux.finish(id).unwrap();
        }
        while half.done.is_none() {
            match mux.read(id).unwrap() {
                Read::Bytes(bytes) => {
                    let count = bytes.len();
                    for (at, &got) in (half.read..).zip(bytes) {
                        assert_eq!(got, byte(number, 1 - end, at), "stream {number}, end {end}, byte {at}");
                    }
                    half.read += count as u64;
                    mux.took(now, id, count).unwrap();
                }
                Read::Wait => break,
                Read::End => {
                    assert_eq!(half.read, self.scripts[number].sizes[1 - end], "stream {number}, end {end}");
                    half.done = Some(now);
                }
            }
        }
    }

    pub fn is_done(&self) -> bool {
        self.halves.iter().flatten().all(|half| half.done.is_some())
    }

    /// Time at which the last of an end's streams was read, in seconds.
    fn done_at(&self, end: usize) -> f64 {
        let latest = self.halves[end].iter().filter_map(|half| half.done).max();
        latest.map_or(f64::INFINITY, |at| at.since(Instant::ZERO).as_secs_f64())
    }
}

/// Runs until all is read: the applications at the end.
fn run(config: &SimConfig, scheduler: &str, cc: &str, seed: u64, scripts: Vec<Script>) -> Applications {
    let mut pair = Pair::new(config, (scheduler, cc), seed, Limits::default()).unwrap();
    finish(&mut pair, scripts, &format!("{scheduler}, {cc}"))
}

/// Goes on until all is read: the applications at the end.
pub fn finish(pair: &mut Pair, scripts: Vec<Script>, what: &str) -> Applications {
    let mut applications = Applications::new(scripts);
    let limit = Instant::from_millis(120_000);
    while !applications.is_done() {
        let more = pair.step(limit).unwrap_or_else(|error| panic!("{what}: {error}"));
        assert!(more, "{what}: not done after 120 s: {:?}", applications.halves);
        for (end, side) in SIDES.into_iter().enumerate() {
            applications.drive(pair, end);
            pair.turn(side);
        }
    }
    applications
}

/// Streams of sizes, classes and openers drawn from a seed.
fn draw(count: u64, seed: u64) -> Vec<Script> {
    let draw = |at| weftway_scenario::mix(seed, at);
    let size = |draw: u64| [0, 1 + draw % 200, draw % 3000, draw % 40_000][(draw >> 32) as usize % 4];
    let script = |at: u64| {
        let [first, second, third] = [0, 1, 2].map(|part| draw(4 * at + part));
        Script { opener: first as usize & 1, class: (first >> 8) as u8 & 3, sizes: [size(second), size(third)] }
    };
    (0..count).map(script).collect()
}

#[test]
fn bulk_both_ways_fills_both_paths() {
    let config = config(vec![path("wifi", 30, 10, 0.0), path("lte", 15, 35, 0.0)]);
    let bulk = |opener| Script { opener, class: 3, sizes: if opener == 0 { [8_000_000, 0] } else { [0, 8_000_000] } };
    let done = run(&config, "min-rtt", "cubic", 1, vec![bulk(0), bulk(1)]);
    for end in 0..2 {
        // 45 Mbit/s bear 8 MB in 1.42 s; headers and the other direction's acknowledgements take a part, slow start its
        // time. The better path alone needs 2.13 s.
        let took = done.done_at(end);
        assert!((1.42..2.1).contains(&took), "{took}");
    }
}

#[test]
fn every_scheduler_carries_streams_of_all_kinds_over_lossy_links() {
    let config = config(vec![path("wifi", 30, 10, 0.02), path("lte", 15, 35, 0.01)]);
    for entry in weftway_sched::all() {
        assert!(weftway_host::mismatch(entry.make(&[]).unwrap().needs(), OFFERS, "").is_none(), "{}", entry.name);
        run(&config, entry.name, "cubic", 7, draw(60, 11));
    }
}

#[test]
fn every_controller_carries_them() {
    let config = config(vec![path("wifi", 30, 10, 0.02), path("lte", 15, 35, 0.01)]);
    for entry in weftway_cc::all() {
        run(&config, "min-rtt", entry.name, 3, draw(60, 12));
    }
}

#[test]
fn a_path_that_is_cut_takes_nothing_along() {
    let mut paths = vec![path("wifi", 30, 10, 0.0), path("lte", 15, 35, 0.0)];
    let cut = [(300, Set::Down), (2300, Set::Up)].map(|(ms, set)| Change { at: Instant::from_millis(ms), set });
    (paths[0].data.changes, paths[0].acks.changes) = (cut.to_vec(), cut.to_vec());
    let bulk = |opener| Script { opener, class: 2, sizes: [3_000_000, 3_000_000] };
    let done = run(&config(paths), "min-rtt", "cubic", 1, vec![bulk(0), bulk(1)]);
    assert!(done.done_at(0) < 5.0 && done.done_at(1) < 5.0, "{} {}", done.done_at(0), done.done_at(1));
}

#[test]
fn the_same_seed_the_same_run() {
    let config = config(vec![path("wifi", 30, 10, 0.02), path("lte", 15, 35, 0.01)]);
    let times = || {
        run(&config, "earliest-delivery", "cubic", 5, draw(40, 13))
            .halves
            .map(|halves| halves.into_iter().map(|half| half.done).collect::<Vec<_>>())
    };
    assert_eq!(times(), times());
}

/// A stream of both ends that is not over, after a second.
#[test]
fn the_paths_of_a_stream_are_counted_at_both_ends() {
    let config = config(vec![path("wifi", 30, 10, 0.01), path("lte", 15, 35, 0.0)]);
    let mut pair = Pair::new(&config, ("min-rtt", "cubic"), 1, Limits::default()).unwrap();
    let mut applications = Applications::new(vec![Script { opener: 0, class: 2, sizes: [20_000_000, 20_000_000] }]);
    while pair.step(Instant::from_millis(1000)).unwrap() {
        for (end, side) in SIDES.into_iter().enumerate() {
            applications.drive(&mut pair, end);
            pair.turn(side);
        }
    }
    let ids = [0, 1].map(|end| applications.halves[end][0].id.unwrap());
    let counts = [0, 1].map(|end| *pair.mux(SIDES[end]).unwrap().path_bytes(ids[end]).unwrap());
    for end in 0..2 {
        for at in 0..2 {
            let sent = counts[end].sent[at];
            let carried = pair.duplex(SIDES[end]).unwrap().sender().tally(PathId::new(at as u8)).bytes;
            // A record of 1154 B has some heads of frames.
            assert!(sent <= carried && sent > carried / 100 * 98, "end {end}, path {at}: {sent} of {carried}");
            let arrived = counts[1 - end].received[at];
            assert!(arrived > 300_000 && arrived < sent, "end {end}, path {at}: {arrived} of {sent}");
        }
        assert_eq!(counts[end].sent[2..], [0; 6]);
    }
}
