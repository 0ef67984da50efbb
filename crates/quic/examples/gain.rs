//! What a second link and a scheduler bring a noq application, in virtual time: one path, two as noq uses them, two
//! behind a gate; bulk, messages, and a link that fails. `gain [SCHEDULER …]`, by default all that a gate carries.

#[path = "../tests/net/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod net;

use std::collections::HashMap;
use std::error::Error;
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::{Link, Net, clock, read_all, transport};
use noq_proto::Dir;
use weftway_host::Host;
use weftway_link::{Change, Limit, LinkConfig, Queue, Rate, Set};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_quic::gate::Gate;
use weftway_quic::virtual_time::Job;
use weftway_scenario::config::{Direction, PathConfig, SimConfig, TransportConfig};

const MBPS: [u64; 2] = [50, 10];
const DELAY_MS: [u64; 2] = [10, 50];
const QUEUE_MS: u64 = 200;

const BULK: usize = 40_000_000;
const MESSAGE: usize = 6000;
const MESSAGES: usize = 2000;
/// From one message to the next: 24 Mbit/s in all.
const EVERY: Duration = Duration::from_millis(2);
/// The first path loses everything in this time, in seconds.
const BLACKOUT: [u64; 2] = [2, 7];

/// The links with these numbers in this order, under noq's own rule or behind a gate.
fn network(order: &[usize], scheduler: Option<&str>) -> Net {
    let link = |at: usize| Link {
        mbps: MBPS[at] as f64,
        delay: Duration::from_millis(DELAY_MS[at]),
        queue: Duration::from_millis(QUEUE_MS),
    };
    let plain = Arc::new(transport(order.len() as u32));
    let client = match scheduler {
        Some(name) => Gate::new(name).expect("a gate").with_clock(clock).connection(&plain).0,
        None => Arc::clone(&plain),
    };
    Net::new(&order.iter().copied().map(link).collect::<Vec<_>>(), client, plain)
}

/// Time that a bulk transfer took, and the longest time in which nothing arrived.
fn bulk(mut net: Net, blackout: bool) -> (Duration, Duration) {
    let begin = net.now;
    let id = net.client.conn().streams().open(Dir::Uni).expect("a stream");
    let (mut left, mut got, mut streams) = (BULK, 0, Vec::new());
    let (mut last, mut gap) = (begin, Duration::ZERO);
    let data = vec![7; 1 << 16];
    let at = |s: u64| begin + Duration::from_secs(s);
    for (until, dead) in [(at(BLACKOUT[0]), false), (at(BLACKOUT[1]), blackout), (at(120), false)] {
        net.dead[0] = dead;
        let done = net.run_until(until, |net| {
            while left > 0 {
                match net.client.conn().send_stream(id).write(&data[..left.min(data.len())]) {
                    Ok(written) => left -= written,
                    Err(_) => break,
                }
            }
            let new = read_all(&mut net.server, &mut streams).iter().map(|(_, bytes, _)| bytes).sum::<usize>();
            if new > 0 {
                (gap, last, got) = (gap.max(net.now - last), net.now, got + new);
            }
            got >= BULK
        });
        if done {
            break;
        }
    }
    (last - begin, gap.max(net.now - last))
}

/// The times in ms from writing a message to reading its last byte, sorted; the first tenth, in which the windows grow,
/// is left out.
fn messages(mut net: Net) -> Vec<f64> {
    let (begin, mut written, mut streams) = (net.now, 0, Vec::new());
    let (mut started, mut times, mut got) = (HashMap::new(), Vec::new(), HashMap::new());
    while times.len() < MESSAGES && net.now < begin + Duration::from_secs(600) {
        if written < MESSAGES {
            if let Some(id) = net.client.conn().streams().open(Dir::Uni) {
                let mut stream = net.client.conn().send_stream(id);
                assert_eq!(stream.write(&[0; MESSAGE]), Ok(MESSAGE));
                stream.finish().expect("open");
                started.insert(id, (written, begin + EVERY * written as u32));
            }
            written += 1;
        }
        let until: Instant = begin + EVERY * (written as u32);
        net.run_until(until.max(net.now + Duration::from_millis(1)), |net| {
            for (id, bytes, _) in read_all(&mut net.server, &mut streams) {
                let sum = got.entry(id).or_insert(0);
                *sum += bytes;
                if *sum == MESSAGE {
                    let (index, start) = started[&id];
                    times.push((index, (net.now - start).as_secs_f64() * 1e3));
                }
            }
            false
        });
    }
    let mut settled: Vec<f64> = times.into_iter().filter(|time| time.0 >= MESSAGES / 10).map(|time| time.1).collect();
    settled.sort_by(f64::total_cmp);
    settled
}

/// The same transfer and blackout under the driver of `weft send`: the longest time, in steps of 50 ms, in which
/// nothing more was delivered.
fn driven(scheduler: &str) -> Result<Duration, Box<dyn Error>> {
    const STEP_MS: u64 = 50;
    let link = |at: usize, blackout: bool| LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(MBPS[at])),
        delay: Span::from_millis(DELAY_MS[at]),
        queue: Queue { limit: Limit::Bytes(Bytes::new(MBPS[at] * QUEUE_MS * 125)), ..Queue::default() },
        changes: [Set::Down, Set::Up]
            .into_iter()
            .zip(BLACKOUT)
            .filter(|_| blackout)
            .map(|(set, s)| Change { at: weftway_path::Instant::from_millis(1000 * s), set })
            .collect(),
        ..LinkConfig::default()
    };
    let path = |at: usize| PathConfig {
        name: at.to_string(),
        role: Role::Active,
        data: link(at, at == 0),
        acks: link(at, at == 0),
        via: None,
        presence: Vec::new(),
    };
    let transport = TransportConfig {
        direction: Direction::Upload,
        path_timeout: Span::from_millis(500),
        probe_interval: Span::from_millis(250),
        ..TransportConfig::mpquic()
    };
    let mut config = SimConfig::new(transport, vec![path(0), path(1)], Bytes::new(BULK as u64));
    let (entry, spec) = weftway_sched::parse(scheduler)?;
    let (mut before, mut since, mut gap) = (0, 0, 0);
    for ms in (1000 * BLACKOUT[0] - 500..1000 * BLACKOUT[1] + 1000).step_by(STEP_MS as usize) {
        config.time_limit = Span::from_millis(ms);
        let mut scheduler = entry.make(&spec.given)?;
        let mut world =
            Job { config: &config, cc: "cubic", seed: 1 }.world(Host::serving(scheduler.as_ref(), entry.transport))?;
        world.run(scheduler.as_mut())?;
        let delivered = world.receiver().next().get();
        if delivered > before || since == 0 {
            (before, since) = (delivered, ms);
        }
        gap = gap.max(ms - since);
    }
    Ok(Duration::from_millis(gap + STEP_MS))
}

fn main() -> Result<(), Box<dyn Error>> {
    let named: Vec<String> = std::env::args().skip(1).collect();
    let carried = weftway_sched::all().iter().map(|entry| entry.name).filter(|name| Gate::new(name).is_ok());
    let gates: Vec<&str> =
        if named.is_empty() { carried.collect() } else { named.iter().map(String::as_str).collect() };
    let runs = [(1, None), (2, None)].into_iter().chain(gates.iter().map(|&name| (2, Some(name))));
    println!(
        "links of {MBPS:?} Mbit/s and {DELAY_MS:?} ms; bulk {BULK} bytes; {MESSAGES} messages of {MESSAGE} bytes, one each {EVERY:?};"
    );
    println!(
        "silence: the longest in which nothing arrives, the first link dead from {} to {} s",
        BLACKOUT[0], BLACKOUT[1]
    );
    println!("bulk: Mbit/s, and beside it the part of what noq's rule reaches with two paths");
    println!("{:24} {:>16} {:>16} {:>16} {:>9}", "", "bulk", "messages p99 ms", "slow link first", "silence");
    let mut two = None;
    for (paths, scheduler) in runs {
        let order = &[0, 1][..paths];
        let (time, _) = bulk(network(order, scheduler), false);
        let rate = BULK as f64 * 8e-6 / time.as_secs_f64();
        if paths == 2 && scheduler.is_none() {
            two = Some(rate);
        }
        let of_two = two.map_or("–".to_owned(), |two| format!("{:.2}", rate / two));
        let p99 = |order: &[usize]| {
            let times = messages(network(order, scheduler));
            times.get((times.len() as f64 * 0.99) as usize).copied().unwrap_or(f64::NAN)
        };
        let (_, silence) = bulk(network(order, scheduler), true);
        let (sorted, turned) = (p99(order), p99(if paths == 1 { order } else { &[1, 0] }));
        let name = scheduler.unwrap_or(if paths == 1 { "one path" } else { "two paths, noq's rule" });
        println!("{name:24} {rate:8.1} ({of_two:>5}) {sorted:16.1} {turned:16.1} {:7.2} s", silence.as_secs_f64());
    }
    for scheduler in ["min-rtt", "earliest-delivery"] {
        let silence = driven(scheduler)?.as_secs_f64();
        println!("{:24} {:>16} {:>16} {:>16} {silence:7.2} s", format!("{scheduler}, driven"), "", "", "");
    }
    Ok(())
}
