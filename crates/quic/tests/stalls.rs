//! Paths are cut in the middle of a bulk transfer: how long nothing arrives in order.

use weftway_host::Host;
use weftway_link::{Change, Limit, LinkConfig, Queue, Rate, Set};
use weftway_path::{BitRate, Bytes, Instant, Role, Span};
use weftway_quic::virtual_time::Job;
use weftway_scenario::Verdict;
use weftway_scenario::config::{Buffer, Direction, PathConfig, SimConfig, Transport};

/// A path with a rate in Mbit/s, a delay each way in milliseconds and a queue in packets, whose links go down and up again
/// at these times in seconds.
fn path(name: &str, (mbps, ms, queue): (u64, u64, u64), cuts: &[(u64, u64)]) -> PathConfig {
    let change = |s: u64, set| Change { at: Instant::from_millis(1000 * s), set };
    let link = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        queue: Queue { limit: Limit::Packets(queue), ..Queue::default() },
        changes: cuts.iter().flat_map(|&(from, to)| [change(from, Set::Down), change(to, Set::Up)]).collect(),
        ..LinkConfig::default()
    };
    let (role, acks) = (Role::Active, link.clone());
    PathConfig { name: name.to_owned(), role, data: link, acks, via: None, presence: Vec::new() }
}

/// An upload as over sockets: a path is given up after half a second of silence.
fn upload(paths: Vec<PathConfig>, megabytes: u64, reinject_at_pto: bool) -> SimConfig {
    let transport = Transport {
        direction: Direction::Upload,
        path_timeout: Span::from_millis(500),
        probe_interval: Span::from_millis(250),
        reinject_at_pto,
        ..Transport::mpquic()
    };
    SimConfig::new(transport, paths, Bytes::new(1_000_000 * megabytes))
}

/// The longest time without a byte in order, and the completion time, in milliseconds.
fn stall(config: &SimConfig, scheduler: &str, cc: &str) -> (f64, f64) {
    let job = Job { config, cc, seed: 1 };
    let entry = weftway_sched::parse(scheduler).unwrap().0;
    let mut scheduler = entry.make(&[]).unwrap();
    let mut world = job.world(Host::serving(scheduler.as_ref(), entry.transport)).unwrap();
    assert_eq!(world.run(scheduler.as_mut()).unwrap().verdict, Verdict::Finished);
    (world.receiver().tally.longest_stall.as_millis_f64(), world.elapsed().as_millis_f64())
}

/// The links of one transfer, how many MB it has, and how long it may stall, in milliseconds.
type Case = (&'static str, Vec<PathConfig>, u64, f64);

fn cases() -> Vec<Case> {
    let seconds = |times: &[u64]| times.iter().map(|&s| (s, s + 1)).collect::<Vec<_>>();
    let (wifi, lte, slow) = ((40, 10, 100), (20, 30, 100), (10, 60, 100));
    vec![
        // 1.5 round trips of the slowest path: 60 ms, and 60 ms in its queue.
        ("one of two", vec![path("a", wifi, &[(2, 6)]), path("b", lte, &[])], 30, 180.0),
        ("again and again", vec![path("a", wifi, &seconds(&[1, 3, 5, 7])), path("b", lte, &[])], 30, 180.0),
        (
            "two of three",
            vec![path("a", (20, 10, 100), &[(2, 6)]), path("b", lte, &[(2, 6)]), path("c", slow, &[])],
            20,
            360.0,
        ),
        // 800 packets wait for a second at 10 Mbit/s. With two such queues what was lost waits in the other one: 1.5 round trips.
        ("a long queue", vec![path("a", (10, 30, 800), &[(5, 10)]), path("b", (10, 20, 100), &[])], 20, 1200.0),
        ("two long queues", vec![path("a", (10, 30, 800), &[(5, 10)]), path("b", (10, 20, 800), &[])], 20, 1530.0),
        // Again 1.5 round trips, of 0.6 s and 0.9 s in the queue.
        ("a satellite", vec![path("a", (20, 300, 1500), &[(6, 11)]), path("b", (10, 30, 100), &[])], 30, 2250.0),
    ]
}

/// In turn (`round-robin`) half of what was lost waits behind the other path's second of queue, too.
const PAIRS: [(&str, &str); 3] = [("min-rtt", "cubic"), ("earliest-delivery", "cubic"), ("min-rtt", "bbr1")];

#[test]
fn a_cut_holds_up_the_data_no_longer_than_silence_takes_to_notice() {
    for (name, paths, megabytes, most) in cases() {
        for (at, (scheduler, cc)) in PAIRS.into_iter().enumerate() {
            let (stalled, took) = stall(&upload(paths.clone(), megabytes, true), scheduler, cc);
            println!("{name}, {scheduler}, {cc}: {stalled:.0} ms, {took:.0} ms in all");
            assert!(stalled <= most, "{name}, {scheduler}, {cc}: {stalled} ms, at most {most}");
            if at == 0 {
                let (without, longer) = stall(&upload(paths.clone(), megabytes, false), scheduler, cc);
                println!("{name}: {without:.0} ms without, {longer:.0} ms in all");
                assert!(without > 450.0, "{name}: {without} ms without");
                // What was sent twice takes no time that counts.
                assert!(took < 1.02 * longer, "{name}: {took} ms for {longer}");
            }
        }
    }
}

/// A queue of a second at both paths, filled with packets and buffers as over sockets, and a cut of the first one at so many
/// milliseconds.
fn cut_at(ms: u64) -> SimConfig {
    let mut paths = vec![path("a", (10, 30, 800), &[(5, 10)]), path("b", (10, 20, 800), &[])];
    let PathConfig { data, acks, .. } = &mut paths[0];
    for change in data.changes.iter_mut().chain(&mut acks.changes) {
        change.at += Span::from_millis(ms - 5000);
    }
    let mut config = upload(paths, 20, true);
    (config.transport.mss, config.transport.packet) = (Bytes::new(1406), Bytes::new(1486));
    let buffer = Buffer::Fixed(Bytes::new(32 << 20));
    (config.transport.send_buffer, config.transport.receive_buffer) = (buffer, buffer);
    config
}

/// The dead path's data wait for a second in the other queue. They are not lost at the end of it, which would take as long once
/// more (cut at 5.159 s), and what was lost before the cut and sent again on the path that dies goes on the other one,
/// too (6.4 to 6.9 s).
#[test]
fn what_is_sent_again_into_a_long_queue_arrives_the_first_time() {
    for scheduler in ["min-rtt", "earliest-delivery"] {
        for ms in [5000, 5156, 5159, 5300, 6400, 6550, 6700, 6850] {
            let (stalled, _) = stall(&cut_at(ms), scheduler, "cubic");
            println!("cut at {ms} ms, {scheduler}: {stalled:.0} ms");
            assert!(stalled <= 1200.0, "cut at {ms} ms, {scheduler}: {stalled} ms");
        }
    }
}
