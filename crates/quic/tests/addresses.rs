//! The address of one path of a client changes, in ways that NATs and kernels have: the path carries data both ways
//! again.

use std::net::{Ipv4Addr, SocketAddr};

use weftway_mux::{Limits, Side, StreamId};
use weftway_path::{PathId, Span};
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::SimConfig;

use crate::duplex::{SIDES, config, path, read_all};

pub const SECOND: PathId = PathId::new(1);

const JUNK: &[u8] = &[7; 64 << 10];

/// An address of another host than all before.
pub fn address(host: u8) -> SocketAddr {
    SocketAddr::new(Ipv4Addr::new(192, 0, 2, host).into(), 4000)
}

/// Both ends write all that they may.
pub struct Bulk {
    pub pair: Pair,
    /// The stream of each end.
    streams: [Option<StreamId>; 2],
}

impl Bulk {
    fn new() -> Self {
        Self::over(&config(vec![path("wifi", 8, 10, 0.0), path("lte", 8, 30, 0.0)]), 1)
    }

    pub fn over(config: &SimConfig, seed: u64) -> Self {
        let pair = Pair::new(config, ("round-robin", "cubic"), seed, Limits::default()).unwrap();
        let mut bulk = Self { pair, streams: [None; 2] };
        bulk.run(Span::from_secs(1));
        bulk
    }

    pub fn run(&mut self, span: Span) {
        let end = self.pair.now() + span;
        while self.pair.now() < end {
            self.pair.step(end).unwrap();
            let now = self.pair.now();
            for (at, side) in SIDES.into_iter().enumerate() {
                if self.pair.is_busy(side) {
                    continue;
                }
                let Some(mux) = self.pair.mux(side) else { continue };
                let stream = *self.streams[at].get_or_insert_with(|| mux.open(now, 3, b"bulk", None).unwrap());
                while mux.write(now, stream, JUNK.into()).unwrap() == JUNK.len() {}
                read_all(mux, now);
                self.pair.turn(side);
            }
        }
    }

    /// The second path's datagrams come from `address`, and those to it arrive, if `leads`.
    pub fn move_to(&mut self, address: SocketAddr, leads: bool) {
        self.pair.lead(self.pair.source(SECOND), None);
        self.pair.come_from(SECOND, address);
        self.pair.lead(address, leads.then_some(SECOND));
    }

    /// What each end has had acknowledged on each path.
    fn acked(&mut self) -> [[u64; 2]; 2] {
        SIDES.map(|side| {
            let sender = self.pair.duplex(side).unwrap().sender();
            [0, 1].map(|at| sender.view(PathId::new(at)).acked.packets)
        })
    }

    /// Both paths carry data both ways after so many seconds: 2 s of 8 Mbit/s are some 1600 packets.
    pub fn check_alive(&mut self, seconds: u64, what: &str) {
        self.run(Span::from_secs(seconds));
        let before = self.acked();
        self.run(Span::from_secs(2));
        let after = self.acked();
        for (end, path) in [(0, 0), (0, 1), (1, 0), (1, 1)] {
            let count = after[end][path].saturating_sub(before[end][path]);
            assert!(count > 800, "{what}: end {end} has had {count} packets acknowledged on path {path}");
        }
    }
}

#[test]
fn an_address_may_change_at_any_time() {
    let mut bulk = Bulk::new();
    bulk.check_alive(3, "before");
    bulk.move_to(address(1), true);
    bulk.check_alive(3, "another host");
    bulk.move_to(SocketAddr::new(address(1).ip(), 4001), true);
    bulk.check_alive(3, "another port of the same host");
}

/// The second change comes before the first address is validated. So it is where an interface has no address for a
/// moment: the kernel then takes an address of another interface, to which nothing leads.
#[test]
fn an_address_may_change_again_before_anybody_has_answered_there() {
    for (ms, leads) in [(1, true), (30, true), (30, false), (100, false), (300, false), (2_000, false)] {
        let mut bulk = Bulk::new();
        let number = bulk.pair.duplex(Side::Connecting).unwrap().connection().number(SECOND);
        bulk.move_to(address(1), leads);
        bulk.run(Span::from_millis(ms));
        bulk.move_to(address(2), true);
        bulk.check_alive(3, &format!("{ms} ms, {leads}"));
        let later = bulk.pair.duplex(Side::Connecting).unwrap().connection().number(SECOND);
        assert_eq!(later, number, "{ms} ms, {leads}: it is opened anew");
    }
}

#[test]
fn an_address_may_come_back() {
    for ms in [1, 30, 100, 300, 2_000] {
        let mut bulk = Bulk::new();
        let first = bulk.pair.source(SECOND);
        bulk.move_to(address(1), false);
        bulk.run(Span::from_millis(ms));
        bulk.move_to(first, true);
        bulk.check_alive(3, &format!("{ms} ms"));
    }
}

/// At first nothing of what the other end sends there arrives.
#[test]
fn an_address_may_lead_nowhere_at_first() {
    let times = [30, 100, 300, 1_000, 3_000, 10_000];
    for ms in times.into_iter().step_by(if crate::is_full() { 1 } else { 2 }) {
        for twice in [false, true] {
            let mut bulk = Bulk::new();
            if twice {
                bulk.move_to(address(2), false);
                bulk.run(Span::from_millis(30));
            }
            bulk.move_to(address(1), false);
            bulk.run(Span::from_millis(ms));
            bulk.pair.lead(address(1), Some(SECOND));
            bulk.check_alive(8, &format!("{ms} ms, {twice}"));
        }
    }
}

/// A NAT takes the second path's address for that of the first path.
#[test]
fn what_arrives_at_the_wrong_socket_does_not_move_a_path_there() {
    let mut bulk = Bulk::new();
    bulk.pair.lead(bulk.pair.source(SECOND), Some(PathId::new(0)));
    bulk.run(Span::from_millis(500));
    bulk.pair.lead(bulk.pair.source(SECOND), Some(SECOND));
    bulk.check_alive(3, "500 ms");
}
