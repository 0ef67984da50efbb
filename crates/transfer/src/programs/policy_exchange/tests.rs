//! Two ends in virtual time, both full: what the end with the links says of them holds a round trip later.

use weftway_link::{Limit, LinkConfig, Queue, Rate};
use weftway_mux::{Limits, Mux, Read, Ready, Side, StreamId};
use weftway_path::{BitRate, Bytes, Instant, PathId, Role, Span};
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};

use super::*;
use crate::wire::TierName;

const SIDES: [Side; 2] = [Side::Connecting, Side::Listening];
/// The longest of the links' round trips with both queues full: 60 ms, and 100 packets at 10 Mbit/s each way.
const FULL_RTT: Span = Span::from_millis(300);

fn path(name: &str, mbps: u64, ms: u64) -> PathConfig {
    let link = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    let acks = link.clone();
    PathConfig { name: name.to_owned(), role: Role::Active, data: link, acks, via: None, presence: Vec::new() }
}

/// Both ends, which write to four streams of the least urgent class as much as these take, and read whatever comes.
struct Full {
    pair: Pair,
    controls: [MuxControl; 2],
    exchanges: [PolicyExchange; 2],
    streams: [Vec<StreamId>; 2],
}

impl Full {
    fn new(has_policy: bool) -> Self {
        let transport = TransportConfig {
            path_timeout: Span::from_millis(500),
            probe_interval: Span::from_millis(250),
            ..TransportConfig::mpquic()
        };
        let paths = vec![path("wifi", 20, 10), path("lte", 10, 30)];
        let config = SimConfig::new(transport, paths, Bytes::new(1));
        Self {
            pair: Pair::with_control(&config, ("round-robin", "cubic"), 1, Limits::default()).unwrap(),
            controls: Default::default(),
            exchanges: [PolicyExchange::new(false), PolicyExchange::new(has_policy)],
            streams: Default::default(),
        }
    }

    /// The end with the links says this of both.
    fn say(&mut self, tiers: [TierName; 2]) {
        let connection = self.pair.duplex(Side::Connecting).unwrap().connection();
        let number = |at| connection.number(PathId::new(at)).unwrap();
        let terms = |at| PathTerms { number: number(at), tier: tiers[usize::from(at)], credit: None };
        let paths = vec![terms(0), terms(1)];
        self.controls[0].send(&Message::Paths { connection: 0, paths }).unwrap();
    }

    fn run_until(&mut self, until: Instant) {
        (0..2).for_each(|end| self.drive(end));
        while self.pair.step(until).unwrap() {
            (0..2).for_each(|end| self.drive(end));
        }
    }

    fn drive(&mut self, end: usize) {
        let now = self.pair.now();
        if let Some(duplex) = self.pair.duplex(SIDES[end]) {
            let (control, exchange) = (&mut self.controls[end], &mut self.exchanges[end]);
            exchange.receive(now, control, duplex.mux(), None).unwrap();
            exchange.send(now, control, duplex, None).unwrap();
            go_on(now, duplex.mux(), &mut self.streams[end]);
        }
        self.pair.turn(SIDES[end]);
    }

    /// What the other end has sent on path `at`.
    fn sent(&mut self, at: u8) -> u64 {
        self.pair.duplex(Side::Listening).unwrap().sender().tally(PathId::new(at)).bytes
    }
}

fn go_on(now: Instant, mux: &mut Mux, streams: &mut Vec<StreamId>) {
    while streams.len() < 4
        && let Ok(id) = mux.open(now, 3, b"bulk", None)
    {
        streams.push(id);
    }
    read(now, mux, streams);
    for &id in &*streams {
        while mux.write(now, id, vec![7; 16_384].into()).unwrap() == 16_384 {}
    }
}

/// Reads whatever comes, also of streams that this end has opened.
fn read(now: Instant, mux: &mut Mux, own: &[StreamId]) {
    let mut readable = own.to_vec();
    while let Some(ready) = mux.poll_ready() {
        if let Ready::Read(id) = ready {
            readable.extend((id != StreamId::CONTROL).then_some(id));
        }
    }
    readable.extend(std::iter::from_fn(|| Some(mux.accept()?.id)).collect::<Vec<_>>());
    for id in readable {
        while let Ok(Read::Bytes(bytes)) = mux.read(id) {
            let count = bytes.len();
            mux.took(now, id, count).unwrap();
        }
    }
}

#[test]
fn what_is_said_under_full_load_holds_a_round_trip_later() {
    let mut full = Full::new(true);
    full.run_until(Instant::from_millis(200));
    full.say([TierName::Primary, TierName::Primary]);
    full.run_until(Instant::from_millis(1_500));
    assert!(full.sent(1) > 400_000, "both paths are full: {}", full.sent(1));
    full.say([TierName::Primary, TierName::Backup]);
    full.run_until(Instant::from_millis(1_500) + FULL_RTT);
    let before = full.sent(1);
    full.run_until(Instant::from_millis(3_000));
    assert_eq!(full.sent(1), before);
}

#[test]
fn nothing_is_sent_on_a_path_of_which_a_client_with_a_policy_has_said_nothing() {
    let mut full = Full::new(true);
    full.run_until(Instant::from_millis(1_000));
    assert_eq!([full.sent(0), full.sent(1)], [0, 0]);
    full.say([TierName::Backup, TierName::Primary]);
    full.run_until(Instant::from_millis(2_000));
    assert!(full.sent(0) == 0 && full.sent(1) > 200_000, "{} {}", full.sent(0), full.sent(1));
    // One without a policy says nothing, and nothing is waited for.
    let mut full = Full::new(false);
    full.run_until(Instant::from_millis(1_000));
    assert!(full.sent(0) > 0 && full.sent(1) > 0);
}

/// What is under way may not have been counted at the other end. It is there for a round trip of 60 ms at least.
#[test]
fn what_is_under_way_is_not_told_as_spent() {
    // More than is sent until then.
    const CREDIT: u64 = 1_500_000;
    let mut full = Full::new(true);
    full.run_until(Instant::from_millis(200));
    let connection = full.pair.duplex(SIDES[1]).unwrap().connection();
    let numbers = [0, 1].map(|at| connection.number(PathId::new(at)).unwrap());
    let terms = |at: usize, credit| PathTerms { number: numbers[at], tier: TierName::Primary, credit };
    full.exchanges[1].peer.set(vec![terms(0, None), terms(1, Some(CREDIT))]);
    // When so much of it was used.
    let mut used: Vec<(Instant, u64)> = vec![(Instant::ZERO, 0)];
    let mut told = 0;
    while full.pair.step(Instant::from_millis(2_000)).unwrap() {
        let now = full.pair.now();
        read(now, full.pair.mux(SIDES[0]).unwrap(), &[]);
        full.pair.turn(SIDES[0]);
        let duplex = full.pair.duplex(SIDES[1]).unwrap();
        for (path, bytes) in full.exchanges[1].peer.attend(duplex.sender_mut()) {
            let (_, before) = used.iter().rfind(|(at, _)| now.since(*at) >= Span::from_millis(60)).unwrap();
            assert!(path == numbers[1] && bytes <= *before, "{now:?}: {bytes} of {before}");
            told = bytes;
        }
        go_on(now, duplex.mux(), &mut full.streams[1]);
        full.pair.turn(SIDES[1]);
        let policy = full.pair.duplex(SIDES[1]).unwrap().sender_mut().policy_mut().unwrap();
        used.push((now, CREDIT - policy.left(PathId::new(1)).unwrap().get()));
    }
    assert!(told > CREDIT / 4, "{told}");
}

/// What was said of the paths of a connection that was lost is of no other one.
#[test]
fn what_is_said_of_another_connection_counts_for_nothing() {
    let mut full = Full::new(true);
    full.run_until(Instant::from_millis(200));
    let paths = vec![PathTerms { number: 0, tier: TierName::Primary, credit: None }];
    full.controls[0].send(&Message::Paths { connection: 7, paths }).unwrap();
    full.run_until(Instant::from_millis(2_000));
    assert_eq!([full.sent(0), full.sent(1)], [0, 0]);
}

#[test]
fn what_is_no_message_or_out_of_turn_is_one_error() {
    let broken = |bytes: &[u8]| {
        let [mut here, mut there] =
            SIDES.map(|side| Mux::new(side, Limits::default(), Limits::default()).unwrap().with_control().unwrap());
        here.write(Instant::ZERO, StreamId::CONTROL, bytes.to_vec().into()).unwrap();
        let record = here.cut(Instant::ZERO, 1100).unwrap();
        there.receive(Instant::ZERO, record.place, &record.payload).unwrap();
        let mut exchange = PolicyExchange::new(true);
        exchange.receive(Instant::ZERO, &mut MuxControl::default(), &mut there, None).unwrap_err().to_string()
    };
    let message = |message: &Message| crate::wire::encode(message).unwrap();
    for (bytes, word) in [
        (vec![0, 1, 0, 0], "longer than 4096"),
        (vec![0, 0, 0, 2, b'[', b']'], "makes no sense"),
        (message(&Message::Ready), "out of turn: ready"),
        (message(&Message::Spent { connection: 0, paths: vec![(0, 9)] }), "out of turn: spent"),
    ] {
        assert!(broken(&bytes).contains(word), "{}", broken(&bytes));
    }
}
