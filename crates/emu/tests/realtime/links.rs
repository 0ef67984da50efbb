//! Packets over emulated links, against what the links promise: rate, delay, and the very packets that are lost.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant as Wall};

use weftway_emu::{
    EmuError, Lab, LabPath, LabPlan, Lateness, Record, Traffic, Way, client_address, record, server_address,
};
use weftway_link::{Distribution, Jitter, Limit, LinkConfig, Loss, Rate, Trace};
use weftway_path::{BitRate, Span};

fn way(mbps: u64, millis: u64, loss: Loss, seed: u64) -> Way {
    let link = LinkConfig {
        rate: BitRate::from_mbps(mbps).into(),
        delay: Span::from_millis(millis),
        loss,
        ..LinkConfig::default()
    };
    Way { link, seeds: seed.into(), via: None }
}

fn lab(up: Way, down: Way) -> Option<Lab> {
    let path = LabPath { name: "wifi".to_owned(), up, down, presence: Vec::new() };
    match Lab::build(&LabPlan { paths: vec![path], shared: Vec::new() }) {
        Ok(lab) => Some(lab),
        Err(error @ EmuError::Missing { .. }) => {
            // Past the test harness, which keeps what a passing test prints.
            std::io::stderr().write_all(format!("skipped: {error}\n").as_bytes()).unwrap();
            None
        }
        Err(error) => panic!("{error}"),
    }
}

/// A socket at the client, connected to one at the server.
fn sockets(lab: &weftway_emu::RunningLab) -> (UdpSocket, UdpSocket) {
    let server_at = SocketAddr::from((server_address(0), 9000));
    let server = lab.server.within(|| Ok(UdpSocket::bind(server_at).unwrap())).unwrap();
    let client = lab.client.within(|| {
        let socket = UdpSocket::bind((client_address(0), 0)).unwrap();
        socket.connect(server_at).unwrap();
        Ok(socket)
    });
    server.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    (client.unwrap(), server)
}

/// 200 packets of 1000 B, 28 B of headers each, sent at once over 10 Mbit/s and 20 ms. The last leaves after 200 · 1028
/// B · 8 / 10 Mbit/s = 164.5 ms. What the link decides holds on any machine; that it comes in time, in one of three
/// tries on a busy one.
#[test]
fn a_burst_takes_the_time_of_its_bits_and_the_delay() {
    let in_time = (0..3).any(|_| {
        let Some((took, lateness)) = timed_burst() else { return true };
        let fits = lateness.is_fit() && (0.1845..0.195).contains(&took.as_secs_f64());
        if !fits {
            eprintln!("again: {took:?}, {lateness:?}");
        }
        fits
    });
    assert!(in_time);
}

/// Sends the burst: how long it took, and how late packets were. `None` without the rights.
fn timed_burst() -> Option<(Duration, Lateness)> {
    let lab = lab(way(10, 20, Loss::None, 1), way(1000, 0, Loss::None, 2))?;
    let subjects = lab.subjects().to_vec();
    let (recorder, recording) = record(Record { subjects, ..Record::default() }).unwrap();
    let lab = lab.start(Some(recorder)).unwrap();
    let (client, server) = sockets(&lab);
    let begin = Wall::now();
    (0..200).for_each(|_| assert_eq!(client.send(&[0; 1000]).unwrap(), 1000));
    let mut buffer = [0; 2000];
    (0..200).for_each(|_| assert_eq!(server.recv(&mut buffer).unwrap(), 1000));
    let took = begin.elapsed();
    let (_, report) = lab.emulator.finish().unwrap();
    let traffic = recording.finish().unwrap();
    assert_eq!((traffic[0].packets, traffic[0].delivered), (200, 200));
    // The first packet waits for nobody: 0.8224 ms for its bits, and 20 ms.
    let least = traffic[0].least_delay.unwrap();
    assert!(least.abs_diff(Span::from_micros(20_822)) < Span::from_micros(5), "{least:?}");
    let rate = traffic[0].busy_rate.unwrap().as_bps() as f64;
    assert!((rate / 10e6 - 1.0).abs() < 0.001, "{rate}");
    Some((took, report.lateness))
}

/// The packets carry numbers, and the draws are worked out here: PCG-XSH-RR, a number a packet, lost if it is below
/// 5 % of 2³².
#[test]
fn the_packets_lost_are_those_that_the_seed_says() {
    const SEED: u64 = 7;
    const PACKETS: u32 = 3000;
    let Some(lab) = lab(way(50, 5, Loss::Bernoulli(0.05), SEED), way(50, 5, Loss::None, 2)) else { return };
    let lab = lab.start(None).unwrap();
    let (client, server) = sockets(&lab);
    let reader = std::thread::spawn(move || {
        let mut arrived = Vec::new();
        let mut buffer = [0; 100];
        while let Ok(4) = server.recv(&mut buffer) {
            arrived.push(u32::from_be_bytes(buffer[..4].try_into().unwrap()));
        }
        arrived
    });
    for number in 0..PACKETS {
        client.send(&number.to_be_bytes()).unwrap();
        if number % 50 == 0 {
            std::thread::sleep(Duration::from_millis(2));
        }
    }
    let mut draws = Losses::new(SEED);
    let expected: Vec<u32> = (0..PACKETS).filter(|_| f64::from(draws.next()) >= 0.05 * 4_294_967_296.0).collect();
    assert_eq!(reader.join().unwrap(), expected);
}

/// Sends 50 packets of 1472 + 28 B at once up a link: the numbers of those that arrived, as they came, and what the
/// record says.
fn burst(link: LinkConfig) -> Option<(Vec<u8>, Traffic)> {
    let lab = lab(Way { link, seeds: 5.into(), via: None }, way(1000, 0, Loss::None, 2))?;
    let subjects = lab.subjects().to_vec();
    let (recorder, recording) = record(Record { subjects, ..Record::default() }).unwrap();
    let lab = lab.start(Some(recorder)).unwrap();
    let (client, server) = sockets(&lab);
    for number in 0..50 {
        client.send(&[number; 1472]).unwrap();
    }
    let mut buffer = [0; 2000];
    let mut arrived = Vec::new();
    while server.recv(&mut buffer).is_ok() {
        arrived.push(buffer[0]);
    }
    lab.emulator.finish().unwrap();
    Some((arrived, recording.finish().unwrap().remove(0)))
}

fn slow() -> LinkConfig {
    LinkConfig { rate: BitRate::from_mbps(2).into(), ..LinkConfig::default() }
}

/// A packet takes 6 ms of the link: the burst is over before the first has left, and the queue has room for ten.
#[test]
fn a_full_queue_drops_the_rest() {
    let mut link = slow();
    link.queue.limit = Limit::Packets(10);
    let Some((arrived, traffic)) = burst(link) else { return };
    assert_eq!(arrived, (0..10).collect::<Vec<_>>());
    assert_eq!((traffic.packets, traffic.delivered, traffic.dropped, traffic.lost), (50, 10, 40, 0));
}

/// An opportunity for 1500 B every 4 ms: 1500 · 8 / 4 ms = 3 Mbit/s.
#[test]
fn a_trace_says_when_packets_leave() {
    let trace = Trace::parse(&(1..=250).map(|k| format!("{}\n", 4 * k)).collect::<String>()).unwrap();
    let link = LinkConfig { rate: Rate::Trace(Arc::new(trace)), ..LinkConfig::default() };
    let Some((arrived, traffic)) = burst(link) else { return };
    assert_eq!(arrived, (0..50).collect::<Vec<_>>());
    assert_eq!(traffic.busy_rate, Some(BitRate::from_mbps(3)));
}

/// Ten milliseconds of jitter and six between packets: that neighbours keep their order by chance all of 49 times does
/// not happen.
#[test]
fn jitter_keeps_the_order_unless_it_may_not() {
    let jittery = |reorder| {
        let distribution = Distribution::Normal { sd: Span::from_millis(10) };
        let jitter = Some(Jitter { distribution, reorder });
        burst(LinkConfig { jitter, delay: Span::from_millis(40), ..slow() })
    };
    let Some((kept, _)) = jittery(false) else { return };
    assert_eq!(kept, (0..50).collect::<Vec<_>>());
    let (mut mixed, _) = jittery(true).unwrap();
    assert!(!mixed.is_sorted());
    mixed.sort_unstable();
    assert_eq!(mixed, kept);
}

/// The stream of a link's losses: O'Neill's `pcg_basic`, seeded by SplitMix64.
struct Losses {
    state: u64,
}

impl Losses {
    const STREAM: u64 = 1;

    fn new(seed: u64) -> Self {
        let mut z = seed.wrapping_add(Self::STREAM.wrapping_mul(0x9E37_79B9_7F4A_7C15));
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        let mut losses = Self { state: 0 };
        losses.next();
        losses.state = losses.state.wrapping_add(z ^ (z >> 31));
        losses.next();
        losses
    }

    fn next(&mut self) -> u32 {
        let old = self.state;
        self.state = old.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(Self::STREAM << 1 | 1);
        ((((old >> 18) ^ old) >> 27) as u32).rotate_right((old >> 59) as u32)
    }
}
