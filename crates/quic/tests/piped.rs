//! Datagrams of a pipe while a link is cut and comes back, and while its address changes, in virtual time: how many do
//! not arrive in time.

use weftway_link::{Change, Set};
use weftway_mux::{Limits, Side, StreamId};
use weftway_path::{Instant, PathId, Span};
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::SimConfig;

use crate::addresses::address;
use crate::duplex::{SIDES, over_sockets, path, read_all};

/// 1000 bytes each 5 ms: 1.6 Mbit/s. The class is that of pipes.
const DATAGRAM: usize = 1000;
const EVERY: Span = Span::from_millis(5);
const CLASS: u8 = 1;
const LATENCY: Span = Span::from_millis(200);
/// What comes in so long may be late or lost, after each event.
const MISSED: Span = Span::from_millis(250);

/// Datagrams that one end sends from the first second on.
struct Stream {
    pair: Pair,
    sender: Side,
    flow: Option<StreamId>,
    next: Instant,
    /// Time that each took, as far as it has arrived.
    took: Vec<Option<Span>>,
}

impl Stream {
    fn new(config: &SimConfig, sender: Side) -> Self {
        let pair = Pair::new(config, ("deadline", "cubic"), 1, Limits::default()).unwrap();
        Self { pair, sender, flow: None, next: Instant::from_millis(1000), took: Vec::new() }
    }

    fn run(&mut self, until_ms: u64) {
        let end = Instant::from_millis(until_ms);
        while self.pair.now() < end {
            self.pair.step(end.min(self.next)).unwrap();
            let now = self.pair.now();
            for side in SIDES {
                let Some(mux) = self.pair.mux(side) else { continue };
                while side == self.sender && self.next <= now {
                    let flow = *self.flow.get_or_insert_with(|| mux.open(now, CLASS, b"pipe", None).unwrap());
                    let mut bytes = vec![0; DATAGRAM];
                    bytes[..8].copy_from_slice(&(self.took.len() as u64).to_be_bytes());
                    mux.send_datagram(now, flow, CLASS, Some(LATENCY), bytes.into()).unwrap();
                    self.took.push(None);
                    self.next += EVERY;
                }
                read_all(mux, now);
                while let Some((_, bytes)) = mux.next_datagram() {
                    let number = u64::from_be_bytes(bytes[..8].try_into().unwrap());
                    let sent = Instant::from_millis(1000) + EVERY * number;
                    self.took[number as usize].get_or_insert(now.since(sent));
                }
                self.pair.turn(side);
            }
        }
    }

    /// The datagrams of `path` come from another address from now on, and none arrives at the one before.
    fn move_to(&mut self, path: PathId, host: u8, port: u16) {
        let mut to = address(host);
        to.set_port(port);
        self.pair.lead(self.pair.source(path), None);
        self.pair.come_from(path, to);
        self.pair.lead(to, Some(path));
    }

    /// Times of all that did not arrive in time, in milliseconds.
    fn missed(&self) -> Vec<u64> {
        let times = (0..).map(|number| 1000 + number * EVERY.as_millis());
        let missed = self.took.iter().zip(times).filter(|(took, _)| took.is_none_or(|took| took > LATENCY));
        missed.map(|(_, at)| at).collect()
    }
}

/// One of two links is cut at 4 s and back at 8 s; at 12 s it has an address of another host, and at 16 s a NAT gives it
/// another port.
#[test]
fn a_cut_a_return_another_address_and_another_port_cost_a_quarter_of_a_second_at_most() {
    for (sender, victim) in SIDES.into_iter().flat_map(|side| [(side, 0), (side, 1)]) {
        let mut paths = vec![path("wifi", 8, 10, 0.0), path("lte", 6, 30, 0.0)];
        let changes =
            [(4000, Set::Down), (8000, Set::Up)].map(|(ms, set)| Change { at: Instant::from_millis(ms), set });
        (paths[victim].data.changes, paths[victim].acks.changes) = (changes.to_vec(), changes.to_vec());
        let config = SimConfig { transport: over_sockets(), ..crate::duplex::config(paths) };
        let (mut stream, victim) = (Stream::new(&config, sender), PathId::new(victim as u8));
        stream.run(12_000);
        stream.move_to(victim, 1, 4000);
        stream.run(16_000);
        stream.move_to(victim, 1, 4001);
        stream.run(20_000);
        let missed = stream.missed();
        // The last ones are under way.
        let missed: Vec<u64> = missed.into_iter().filter(|&at| at < 19_800).collect();
        for event in [4000, 8000, 12_000, 16_000] {
            // What was sent shortly before is under way.
            let near = missed.iter().filter(|&&at| (event - 200..event + 1000).contains(&at)).count() as u64;
            assert!(EVERY * near <= MISSED, "{sender:?}, {victim:?}: {near} at {event} ms of {missed:?}");
        }
        let near = |at: &u64| [4000, 8000, 12_000, 16_000].iter().any(|event| (event - 200..event + 1000).contains(at));
        assert!(missed.iter().all(near), "{sender:?}, {victim:?}: {missed:?}");
    }
}
