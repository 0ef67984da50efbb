//! Datagrams: each is of use by itself until its deadline, and is not sent once it would come too late.

use crate::setup::{bulk, down, lossy, path};
use weftway_link::{Change, Limit, Loss, Set};
use weftway_path::{BitRate, Bytes, Instant, Span};
use weftway_scenario::config::{Buffer, PathConfig, SimConfig, TransportConfig, Workload};
use weftway_scenario::measurement::{Measurement, Singles};
use weftway_sim::Verdict;
use weftway_sim::run::Job;

/// Datagrams of 1000 B each 10 ms for a second.
fn datagrams(deadline: u64, paths: Vec<PathConfig>) -> SimConfig {
    let [period, deadline, span] = [10, deadline, 1000].map(Span::from_millis);
    let workload = Workload::Datagrams { bytes: Bytes::new(1000), rate: None, period, deadline, span };
    SimConfig { workload, ..bulk(&TransportConfig::mpquic(), paths, 0) }
}

fn run(config: &SimConfig, scheduler: &str, seed: u64) -> Measurement {
    let finished = Job { config, cc: "cubic", seed, timing: None }.run_named(scheduler).unwrap();
    let measured = finished.measurement(config, &Singles::default());
    assert_eq!((measured.verdict, measured.counts.faults), (Verdict::Finished, Some(0)), "{scheduler}, seed {seed}");
    measured
}

/// Over 8 Mbit/s and 20 ms a datagram takes 1 ms and some, and 20 on the way. One that is lost is missed by the
/// acknowledgement of the next, 9/8 of a round trip of 42 after it was sent: 52 ms, and is there 21 later: some 73. With
/// a deadline of 120 ms it comes in time, with 60 it is not sent again. The others are as fast as ever.
#[test]
fn what_is_lost_is_sent_again_while_it_can_arrive_in_time() {
    let lost = |deadline| {
        let mut only = path("only", 8_000, 20);
        only.data.loss = Loss::Packets(vec![40]);
        let measured = run(&datagrams(deadline, vec![only]), "min-rtt", 1);
        let mut delays = measured.messages.delays.clone();
        delays.sort_unstable();
        let (&most, others) = delays.split_last().unwrap();
        let others = others.last().unwrap().as_millis_f64();
        // Each takes 4 bytes more than its own; to tell the receiver that one does not come takes a few.
        let arrived = measured.delivered.get() / 1004;
        (measured.counts.reinjections, (measured.messages.outstanding, arrived), most.as_millis_f64(), others)
    };
    let (again, counts, most, others) = lost(120);
    assert_eq!((again, counts), (Some(1), (0, 100)));
    assert!((65.0..80.0).contains(&most) && others < 25.0, "{most} {others}");
    let (again, counts, most, _) = lost(60);
    assert_eq!((again, counts), (Some(0), (1, 99)));
    assert!(most < 25.0, "{most}");
}

/// The window holds nine datagrams. What is sent until the receiver learns that one does not come uses it up: the limit
/// rises at once, so nothing else is missing. If it rose with the next data in order, the sender would wait for a limit
/// and the receiver for data, until the sender asks after 200 ms: 21 would be missing.
#[test]
fn what_never_comes_does_not_hold_the_limit() {
    let mut only = path("only", 8_000, 20);
    only.data.loss = Loss::Packets(vec![40]);
    let mut config = datagrams(60, vec![only]);
    config.transport.receive_buffer = Buffer::Fixed(Bytes::new(9_200));
    let measured = run(&config, "min-rtt", 1);
    assert_eq!(measured.messages.outstanding, 1);
    assert!(measured.messages.delays.iter().all(|delay| *delay < Span::from_millis(60)));
}

/// The window holds four datagrams, and is shut when the loss of one is known, 52 ms after that left: too late for it to
/// come in time. It goes again all the same, as nothing new can tell the receiver that it does not come. It is there some
/// 75 ms after it left, and with it what waits: hardly more than seven datagrams are missed.
#[test]
fn what_is_too_late_goes_again_where_it_holds_a_shut_window() {
    let mut only = path("only", 8_000, 20);
    only.data.loss = Loss::Packets(vec![40]);
    let mut config = datagrams(60, vec![only]);
    config.transport.receive_buffer = Buffer::Fixed(Bytes::new(4_100));
    let whole = run(&SimConfig { paths: vec![path("only", 8_000, 20)], ..config.clone() }, "min-rtt", 1);
    let measured = run(&config, "min-rtt", 1);
    let missed = |measured: &Measurement| {
        let late = measured.messages.delays.iter().filter(|delay| **delay > Span::from_millis(60)).count();
        late as u64 + measured.messages.outstanding
    };
    assert!((1..=8).contains(&(missed(&measured) - missed(&whole))), "{} {}", missed(&measured), missed(&whole));
}

/// The path carries nothing from 300 to 600 ms. What comes meanwhile has 50 ms: it is dropped, and nothing waits for it
/// afterwards.
#[test]
fn what_is_too_late_makes_room_for_the_rest() {
    let config = datagrams(50, vec![down(path("only", 8_000, 10), 300, Some(600))]);
    let measured = run(&config, "min-rtt", 1);
    let late = measured.messages.delays.iter().filter(|delay| **delay > Span::from_millis(50)).count();
    let missed = late as u64 + measured.messages.outstanding;
    assert!((25..50).contains(&missed), "{late} {}", measured.messages.outstanding);
    assert!(measured.messages.delays.iter().all(|delay| *delay < Span::from_millis(100)), "nothing comes much later");
}

/// 2 Mbit/s over a path of 1, whose queue takes 50 ms: it carries 143 of 250 in 1.2 s, and not many more are sent. Of
/// those that are, each has waited for as long as it may, so some come a little late.
#[test]
fn an_overload_is_dropped_before_it_is_sent() {
    let mut only = path("only", 1_000, 10);
    only.data.queue.limit = Limit::Packets(5);
    let mut config = datagrams(200, vec![only]);
    if let Workload::Datagrams { period, .. } = &mut config.workload {
        *period = Span::from_millis(4);
    }
    let measured = run(&config, "min-rtt", 1);
    let row = measured.row(&config);
    let share = row["deadline_miss_rate"].as_f64().unwrap();
    assert!((0.67..0.77).contains(&share), "{share}");
    let packets: u64 = measured.paths.iter().map(|path| path.packets).sum();
    assert!((120..170).contains(&packets), "{packets}");
}

#[test]
fn every_scheduler_carries_datagrams_over_lossy_links_of_which_one_is_away_for_a_while() {
    let paths = vec![lossy(down(path("a", 20_000, 10), 300, Some(700)), 0.02), lossy(path("b", 10_000, 35), 0.02)];
    let config = datagrams(150, paths);
    for entry in weftway_sched::all() {
        let measured = run(&config, entry.name, 3);
        let written = measured.messages.delays.len() as u64 + measured.messages.outstanding;
        // It asks for copies of what was given up, and sends nothing else until some event.
        let most = if entry.name == "xlink" { 60 } else { 5 };
        assert!(written == 100 && measured.messages.outstanding <= most, "{}: {measured:?}", entry.name);
        assert_eq!(run(&config, entry.name, 3), measured, "{}", entry.name);
    }
}

/// 10 Mbit/s in bursts of 41 or 42 each 33 ms: the links fall to a trickle in turn. Nearly all come in time all the
/// same, and all where each goes over both.
#[test]
fn bursts_over_links_that_fade_in_turn() {
    let mut paths = vec![path("a", 15_000, 10), path("b", 15_000, 25)];
    for (at, path) in paths.iter_mut().enumerate() {
        let rate = |ms, kbps: u64| Change {
            at: Instant::from_millis(ms),
            set: Set::Rate(BitRate::from_bps(kbps * 1000).into()),
        };
        path.data.changes = vec![rate(200 + 400 * at as u64, 100), rate(400 + 400 * at as u64, 15_000)];
    }
    let mut config = datagrams(150, paths);
    if let Workload::Datagrams { period, rate, .. } = &mut config.workload {
        (*period, *rate) = (Span::from_millis(33), Some(BitRate::from_mbps(10)));
    }
    for scheduler in ["min-rtt", "redundant", "earliest-delivery", "round-robin"] {
        let measured = run(&config, scheduler, 1);
        // 30 bursts end after 990 ms: 1237 datagrams.
        assert_eq!(measured.messages.delays.len() as u64 + measured.messages.outstanding, 1237, "{scheduler}");
        let missed = measured.row(&config)["deadline_miss_rate"].as_f64().unwrap();
        assert!(missed <= if scheduler == "redundant" { 0.0 } else { 0.04 }, "{scheduler}: {missed}");
    }
}
