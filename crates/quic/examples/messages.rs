//! Messages of 6 kB over two unequal links, in virtual time: noq by itself against gates.
//! `messages [MESSAGES] [EVERY_MS] [SCHEDULER…]`

#[path = "../tests/net/mod.rs"]
#[allow(dead_code, reason = "the tests use the rest")]
mod net;

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use net::{Link, Net, clock, read_all, transport};
use noq_proto::Dir;
use weftway_quic::gate::Gate;

const MESSAGE: usize = 6000;

/// The times in ms from writing a message to reading its last byte, sorted; those of the first tenth are left out.
fn run(spec: Option<&str>, links: &[Link], messages: usize, every: Duration) -> Vec<f64> {
    let plain = Arc::new(transport(2));
    let client = match spec {
        Some(spec) => Gate::new(spec).expect("a gate").with_clock(clock).connection(&plain).0,
        None => Arc::clone(&plain),
    };
    let mut net = Net::new(links, client, plain);
    let (begin, mut written, mut streams) = (net.now, 0, Vec::new());
    let (mut started, mut times, mut got) = (HashMap::new(), Vec::new(), HashMap::new());
    while times.len() < messages && net.now < begin + Duration::from_secs(600) {
        if written < messages {
            if let Some(id) = net.client.conn().streams().open(Dir::Uni) {
                let mut stream = net.client.conn().send_stream(id);
                assert_eq!(stream.write(&[0; MESSAGE]), Ok(MESSAGE));
                stream.finish().expect("open");
                started.insert(id, (written, begin + every * written as u32));
            }
            written += 1;
        }
        let until = begin + every * (written as u32);
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
    // The first tenth, in which the windows grow, is left out.
    let mut settled: Vec<f64> = times.into_iter().filter(|time| time.0 >= messages / 10).map(|time| time.1).collect();
    settled.sort_by(f64::total_cmp);
    settled
}

fn main() {
    let mut args = std::env::args().skip(1);
    let messages = args.next().and_then(|text| text.parse().ok()).unwrap_or(2000);
    let every = Duration::from_secs_f64(args.next().and_then(|text| text.parse().ok()).unwrap_or(2.0) / 1e3);
    let link = |mbps, ms| Link { mbps, delay: Duration::from_millis(ms), queue: Duration::from_millis(200) };
    let (fast, slow) = (link(50.0, 10), link(10.0, 50));
    let carried = weftway_sched::all().iter().map(|entry| entry.name).filter(|name| Gate::new(name).is_ok());
    let named: Vec<String> = args.collect();
    let carried: Vec<&str> =
        if named.is_empty() { carried.collect() } else { named.iter().map(String::as_str).collect() };
    for (order, links) in [("fast link first", [fast, slow]), ("slow link first", [slow, fast])] {
        println!("{order}: {messages} messages of {MESSAGE} bytes, one each {every:?}");
        for spec in std::iter::once(None).chain(carried.iter().map(|name| Some(*name))) {
            let times = run(spec, &links, messages, every);
            let at = |part: f64| times.get((times.len() as f64 * part) as usize).copied().unwrap_or(f64::NAN);
            let mean = times.iter().sum::<f64>() / times.len() as f64;
            let name = spec.unwrap_or("(ungated)");
            println!(
                "  {name:20} {:6} arrived  mean {mean:7.2} ms  p50 {:7.2}  p99 {:7.2}",
                times.len(),
                at(0.5),
                at(0.99)
            );
        }
    }
}
