//! A voice beside downloads, in virtual time: how long its datagrams are under way.

use weftway_link::{Change, Limit, LinkConfig, Queue, Rate, Set};
use weftway_mux::Limits;
use weftway_path::{BitRate, Bytes, Instant, Role, Span};
use weftway_quic::virtual_time::Pair;
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};

use crate::duplex::{SIDES, read_all};

/// A fiftieth of a second of a voice, with its header.
const DATAGRAM: usize = 172;
const EVERY: Span = Span::from_millis(20);
/// What the relay does with datagrams, too.
const DEADLINE: Span = Span::from_millis(500);

/// Mbit/s and delay one way in ms; a queue of 300 packets.
fn path(name: &str, mbps: u64, ms: u64) -> PathConfig {
    let link = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        queue: Queue { limit: Limit::Packets(300), ..Queue::default() },
        ..LinkConfig::default()
    };
    PathConfig {
        name: name.to_owned(),
        role: Role::Active,
        data: link.clone(),
        acks: link,
        via: None,
        presence: Vec::new(),
    }
}

pub fn config(paths: Vec<PathConfig>) -> SimConfig {
    let transport = TransportConfig {
        path_timeout: Span::from_millis(500),
        probe_interval: Span::from_millis(250),
        ..TransportConfig::mpquic()
    };
    SimConfig::new(transport, paths, Bytes::new(1))
}

/// What became of the voice, and of the rest.
#[derive(Debug)]
struct Heard {
    /// One-way delays in order of their size.
    delays: Vec<Span>,
    sent: usize,
    /// What the downloads brought while the voice was there.
    bulk: u64,
}

impl Heard {
    /// From the first second to the twelfth.
    fn bulk_mbps(&self) -> u64 {
        self.bulk * 8 / 11_000_000
    }

    fn percentile(&self, percent: usize) -> Span {
        self.delays[(self.delays.len() * percent / 100).min(self.delays.len() - 1)]
    }
}

/// A voice from the end that listens, from the first second to `until_s`, beside so many endless downloads.
fn voice(config: &SimConfig, rules: (&str, &str), downloads: usize, until_s: u64) -> Heard {
    let mut pair = Pair::new(config, rules, 1, Limits::default()).unwrap();
    let (begin, end) = (Instant::from_millis(1000), Instant::from_millis(1000 * until_s));
    let mut next = begin;
    let mut flows = Vec::new();
    let mut open = false;
    let mut heard = Heard { delays: Vec::new(), sent: 0, bulk: 0 };
    let junk = bytes::Bytes::from(vec![7; 64 << 10]);
    while pair.now() < end + DEADLINE {
        let limit = if next < end { next } else { end + DEADLINE };
        pair.step(limit).unwrap();
        let now = pair.now();
        for (at, side) in SIDES.into_iter().enumerate() {
            let Some(mux) = pair.mux(side) else { continue };
            if at == 1 {
                if !std::mem::replace(&mut open, true) {
                    flows = (0..=downloads).map(|_| mux.open(now, 2, b"", None).unwrap()).collect();
                }
                if now < end {
                    for &flow in &flows[1..] {
                        while mux.write(now, flow, junk.clone()).unwrap() == junk.len() {}
                    }
                }
                while next <= now && next < end {
                    let mut bytes = vec![0; DATAGRAM];
                    bytes[..8].copy_from_slice(&next.since(Instant::ZERO).as_nanos().to_be_bytes()[..8]);
                    mux.send_datagram(now, flows[0], 0, Some(DEADLINE), bytes.into()).unwrap();
                    heard.sent += 1;
                    next += EVERY;
                }
            }
            let bytes = read_all(mux, now);
            heard.bulk += if now >= begin && now < end { bytes } else { 0 };
            while let Some((_, bytes)) = mux.next_datagram() {
                let sent = u64::from_be_bytes(bytes[..8].try_into().unwrap());
                heard.delays.push(now.since(Instant::ZERO + Span::from_nanos(sent)));
            }
            pair.turn(side);
        }
    }
    heard.delays.sort_unstable();
    heard
}

/// The path is cut for four seconds.
fn cut(mut path: PathConfig) -> PathConfig {
    let changes = [(4000, Set::Down), (8000, Set::Up)].map(|(ms, set)| Change { at: Instant::from_millis(ms), set });
    (path.data.changes, path.acks.changes) = (changes.to_vec(), changes.to_vec());
    path
}

pub fn best() -> PathConfig {
    path("best", 60, 5)
}

pub fn other() -> PathConfig {
    path("other", 16, 15)
}

fn ms(ms: u64) -> Span {
    Span::from_millis(ms)
}

/// Alone a datagram takes 5 ms and what its packet takes at 60 Mbit/s: some 250 bytes, 33 µs. Without a bound the
/// downloads keep the queue of the best path full, which is 300 packets or 60 ms; on the other path alone the way takes
/// 15 ms.
#[test]
fn downloads_delay_a_voice_by_no_more_than_five_milliseconds() {
    let alone = voice(&config(vec![best()]), ("min-rtt", "cubic"), 0, 12);
    assert!((ms(5)..ms(6)).contains(&alone.percentile(99)), "{alone:?}");
    for (scheduler, cc) in
        [("min-rtt", "cubic"), ("min-rtt", "bbr3"), ("round-robin", "newreno"), ("earliest-delivery", "cubic")]
    {
        let beside = voice(&config(vec![best(), other()]), (scheduler, cc), 4, 12);
        assert_eq!(beside.delays.len(), beside.sent, "{scheduler}, {cc}: none is lost");
        let (p99, most) = (beside.percentile(99), alone.percentile(99) + ms(5));
        assert!(p99 <= most, "{scheduler}, {cc}: {p99:?}");
        // Of 76 Mbit/s; the downloads alone have 70.2 under CUBIC, as headers take a part of them.
        assert!(beside.bulk_mbps() > 65, "{scheduler}, {cc}: {} Mbit/s", beside.bulk_mbps());
    }
}

/// While the best link is away the other one's 15 ms count. Until it is noticed that it is away, a duplicate has come
/// by the other link: a datagram that is sent again takes a probe timeout longer, at least 25 ms.
#[test]
fn a_voice_alone_does_not_notice_that_a_link_is_cut() {
    let heard = voice(&config(vec![cut(best()), other()]), ("min-rtt", "cubic"), 0, 12);
    assert_eq!(heard.delays.len(), heard.sent);
    assert!((ms(15)..ms(17)).contains(&heard.percentile(100)), "{:?}", heard.percentile(100));
}

#[test]
fn a_voice_beside_downloads_loses_nothing_when_a_link_is_cut() {
    for paths in [vec![cut(best()), other()], vec![best(), cut(other())]] {
        let heard = voice(&config(paths), ("min-rtt", "cubic"), 2, 12);
        assert_eq!(heard.delays.len(), heard.sent);
    }
}

/// The rate of a link falls to a tenth for four seconds: the bound follows.
#[test]
fn a_link_that_becomes_slower_delays_a_voice_for_a_moment_only() {
    let mut slower = best();
    let rate = |mbps| Set::Rate(Rate::Constant(BitRate::from_mbps(mbps)));
    slower.data.changes =
        [(4000, rate(6)), (8000, rate(60))].map(|(ms, set)| Change { at: Instant::from_millis(ms), set }).to_vec();
    let heard = voice(&config(vec![slower]), ("min-rtt", "cubic"), 2, 12);
    // What was in flight, some 12 ms of 60 Mbit/s, takes 120 ms at a tenth.
    assert!(heard.percentile(95) < ms(15), "{:?}", heard.percentile(95));
    assert!(heard.percentile(100) < ms(200), "{:?}", heard.percentile(100));
    assert_eq!(heard.delays.len(), heard.sent);
    // Seven seconds of 60 and four of 6 Mbit/s are 40.4 Mbit/s.
    assert!(heard.bulk_mbps() > 33, "{}", heard.bulk_mbps());
}
