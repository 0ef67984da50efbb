//! Paths are cut in the middle of a bulk transfer: how long nothing arrives in order.

use weftway_host::Host;
use weftway_link::{Change, Limit, LinkConfig, Queue, Rate, Set};
use weftway_path::{BitRate, Bytes, Instant, Role, Span};
use weftway_quic::virtual_time::Job;
use weftway_scenario::Verdict;
use weftway_scenario::config::{Buffer, Direction, PathConfig, SimConfig, TransportConfig};

use crate::duplex::over_sockets;

/// A path with a rate in Mbit/s, a delay each way in milliseconds and a queue in packets, whose links go down and up
/// again at these times in seconds.
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

/// An upload as over sockets, or without what is done for a silent path there.
fn upload(paths: Vec<PathConfig>, megabytes: u64, reinject_at_pto: bool) -> SimConfig {
    let transport = TransportConfig { direction: Direction::Upload, reinject_at_pto, ..over_sockets() };
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
        // 800 packets would wait for a second at 10 Mbit/s. What was lost waits for the half of one in the other queue.
        ("a long queue", vec![path("a", (10, 30, 800), &[(5, 10)]), path("b", (10, 20, 100), &[])], 20, 700.0),
        ("two long queues", vec![path("a", (10, 30, 800), &[(5, 10)]), path("b", (10, 20, 800), &[])], 20, 700.0),
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

/// Paths of 10 Mbit/s with a queue of a second, filled with packets and buffers as over sockets. The first one is cut
/// at so many milliseconds, and windows build a queue of half a second at most, or one of any length.
fn cut_at(ms: u64, is_bounded: bool) -> SimConfig {
    let mut paths = vec![path("a", (10, 30, 800), &[(5, 10)]), path("b", (10, 20, 800), &[])];
    let PathConfig { data, acks, .. } = &mut paths[0];
    for change in data.changes.iter_mut().chain(&mut acks.changes) {
        change.at += Span::from_millis(ms - 5000);
    }
    let mut config = upload(paths, 20, true);
    (config.transport.mss, config.transport.packet) = (Bytes::new(1406), Bytes::new(1486));
    let buffer = Buffer::Fixed(Bytes::new(32 << 20));
    (config.transport.send_buffer, config.transport.receive_buffer) = (buffer, buffer);
    config.transport.standing_queue = config.transport.standing_queue.filter(|_| is_bounded);
    config
}

/// Whenever the cut comes, the dead path's data wait for half a second in the other queue, and nothing is lost at the
/// end of one. With full queues some were lost there, which took as long once more (cut at 5.159 s), or had been lost
/// before and sent again on the path that dies (6.4 to 6.9 s).
#[test]
fn a_cut_beside_a_queue_of_a_second_takes_half_of_one_whenever_it_comes() {
    for scheduler in ["min-rtt", "earliest-delivery"] {
        let moments = [5000, 5156, 5159, 5300, 6400, 6550, 6700, 6850];
        for ms in moments.into_iter().step_by(if crate::is_full() { 1 } else { 2 }) {
            let (stalled, took) = stall(&cut_at(ms, true), scheduler, "cubic");
            let (without, longer) = stall(&cut_at(ms, false), scheduler, "cubic");
            println!(
                "cut at {ms} ms, {scheduler}: {stalled:.0} ms, {took:.0} in all; {without:.0}, {longer:.0} without"
            );
            assert!(stalled <= 700.0, "cut at {ms} ms, {scheduler}: {stalled} ms");
            assert!(without > 900.0, "cut at {ms} ms, {scheduler}: {without} ms without");
            assert!(took < 1.005 * longer, "cut at {ms} ms, {scheduler}: {took} ms in all for {longer}");
        }
    }
}

/// Five times a second both links stand still for 45 ms, and then bring what waited, so that many acknowledgements come
/// at once. Those do not let a window grow whose packets have not left yet.
#[test]
fn a_link_that_stands_still_for_a_moment_makes_no_longer_queue() {
    let rate = |mbps| Set::Rate(Rate::Constant(BitRate::from_mbps(mbps)));
    let stop = || Set::Rate(Rate::Constant(BitRate::from_bps(1000)));
    for scheduler in ["min-rtt", "earliest-delivery"] {
        let mut config = cut_at(20_000, true);
        config.workload = upload(Vec::new(), 45, true).workload;
        for path in &mut config.paths {
            let still = |at| [(at, stop()), (at + 45, rate(100)), (at + 50, rate(10))];
            let change = |(ms, set)| Change { at: Instant::from_millis(ms), set };
            path.data.changes.splice(0..0, (0..88).flat_map(|n| still(2000 + 200 * n)).map(change));
        }
        let (stalled, _) = stall(&config, scheduler, "cubic");
        println!("{scheduler}: {stalled:.0} ms");
        assert!(stalled <= 700.0, "{scheduler}: {stalled} ms");
    }
}

/// There is no other path whose data could have to wait.
#[test]
fn a_single_path_builds_the_queue_that_its_controller_builds() {
    let mut config = upload(vec![path("a", (10, 30, 800), &[])], 10, true);
    let with = stall(&config, "min-rtt", "cubic");
    config.transport.standing_queue = None;
    assert_eq!(with, stall(&config, "min-rtt", "cubic"));
}
