//! Runs in virtual time: what is sent arrives, the same each time, whatever the scheduler.

use proptest::prelude::*;
use proptest::test_runner::RngSeed;
use weftway_host::{Host, mismatch};
use weftway_link::{Change, Distribution, Jitter, Limit, LinkConfig, Loss, Queue, Rate, Set};
use weftway_path::{BitRate, Bytes, Context, Decision, Event, Instant, PathId, Span};
use weftway_quic::driver::OFFERS;
use weftway_quic::virtual_time::Job;
use weftway_scenario::Verdict;
use weftway_scenario::config::{Buffer, Direction, PathConfig, SimConfig, Transport};
use weftway_scenario::measurement::Singles;
use weftway_sched::{Needs, Scheduler};

fn path(name: &str, mbps: u64, ms: u64, loss: f64) -> PathConfig {
    let link = |loss| LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        loss,
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    PathConfig {
        name: name.to_owned(),
        role: weftway_path::Role::Active,
        data: link(if loss > 0.0 { Loss::Bernoulli(loss) } else { Loss::None }),
        acks: link(Loss::None),
        via: None,
        presence: Vec::new(),
    }
}

fn two_paths(bytes: u64) -> SimConfig {
    let paths = vec![path("wifi", 30, 10, 0.005), path("lte", 15, 35, 0.0)];
    SimConfig::new(Transport::mpquic(), paths, Bytes::new(bytes))
}

#[test]
fn a_bulk_transfer_arrives_over_both_paths() {
    let config = two_paths(4_000_000);
    let job = Job { config: &config, cc: "cubic", seed: 1 };
    let row = job.row("min-rtt", &Singles::default()).unwrap();
    assert_eq!(row["verdict"], "finished");
    assert_eq!(row["delivered_bytes"], 4_000_000);
    assert_eq!(row["faults"], 0);
    assert!(row["path.lte.share"].as_f64().unwrap() > 0.1, "{}", row["path.lte.share"]);
    // 45 Mbit/s bear 4 MB in 0.71 s.
    assert!(row["fct_ms"].as_f64().unwrap() > 711.0);
    assert_eq!(job.row("min-rtt", &Singles::default()).unwrap(), row, "the same again");
}

fn changes(times: &[(u64, bool)]) -> Vec<Change> {
    let change = |&(ms, up)| Change { at: Instant::from_millis(ms), set: if up { Set::Up } else { Set::Down } };
    times.iter().map(change).collect()
}

/// Both links of a path fail and return at these times, in milliseconds.
fn fail(path: &mut PathConfig, times: &[(u64, bool)]) {
    (path.data.changes, path.acks.changes) = (changes(times), changes(times));
}

fn run(config: &SimConfig, scheduler: &str, seed: u64) -> serde_json::Map<String, serde_json::Value> {
    let job = Job { config, cc: "cubic", seed };
    job.row(scheduler, &Singles::default()).unwrap_or_else(|error| panic!("{scheduler}, seed {seed}: {error}"))
}

#[test]
fn every_scheduler_runs_without_a_fault() {
    let config = two_paths(400_000);
    for entry in weftway_sched::all() {
        assert_eq!(mismatch(entry.make(&[]).unwrap().needs(), OFFERS, "the driver"), None, "{}", entry.name);
        let row = run(&config, entry.name, 2);
        assert_eq!((&row["verdict"], &row["faults"]), (&"finished".into(), &0.into()), "{}: {row:?}", entry.name);
        assert_eq!(row["delivered_bytes"], 400_000, "{}", entry.name);
    }
}

#[test]
fn every_controller_runs() {
    let config = two_paths(1_000_000);
    for entry in weftway_cc::all() {
        let row = Job { config: &config, cc: entry.name, seed: 3 }.row("min-rtt", &Singles::default()).unwrap();
        assert_eq!(row["verdict"], "finished", "{}: {row:?}", entry.name);
        // 1 MB takes 178 ms at 45 Mbit/s; one path alone and a slow start that never ends would take a second.
        assert!(row["fct_ms"].as_f64().unwrap() < 1_500.0, "{}: {}", entry.name, row["fct_ms"]);
    }
}

/// Its round trips are those of the path, there and back: acknowledgements return where the data came.
#[test]
fn each_path_has_its_own_round_trip() {
    let mut config = two_paths(400_000);
    config.paths.swap(0, 1);
    let row = run(&config, "round-robin", 1);
    let srtt = |name: &str| row[&format!("path.{name}.srtt_ms")].as_f64().unwrap();
    assert!((20.0..70.0).contains(&srtt("wifi")), "{}", srtt("wifi"));
    assert!((70.0..200.0).contains(&srtt("lte")), "{}", srtt("lte"));
}

#[test]
fn a_path_that_dies_gives_its_data_to_the_others_and_returns() {
    let mut config = two_paths(12_000_000);
    fail(&mut config.paths[0], &[(500, false), (5_000, true)]);
    (config.transport.path_timeout, config.transport.probe_interval) = (Span::from_millis(300), Span::from_millis(100));
    let row = run(&config, "min-rtt", 1);
    assert_eq!(row["verdict"], "finished", "{row:?}");
    // 1.9 MB in half a second, 15 Mbit/s alone for 4.5 s bring 8.4 MB, both together the rest: some 5.5 s.
    let fct = row["fct_ms"].as_f64().unwrap();
    assert!((5_000.0..7_500.0).contains(&fct), "{fct}");
    // More than it had brought when it failed.
    assert!(row["path.wifi.bytes"].as_u64().unwrap() > 2_000_000, "{row:?}");
}

/// A path that is removed and added again is opened anew: noq counts its packets from the beginning.
#[test]
fn a_path_that_is_removed_is_opened_again() {
    for direction in [Direction::Upload, Direction::Download] {
        let mut config = two_paths(12_000_000);
        config.transport.direction = direction;
        config.paths[1].presence = [100, 800, 1_500].map(Instant::from_millis).to_vec();
        let row = run(&config, "min-rtt", 1);
        assert_eq!((&row["verdict"], &row["faults"]), (&"finished".into(), &0.into()), "{row:?}");
        // 12 MB take 3.2 s of wifi alone. In 0.7 s LTE brings at most 1.3 MB.
        assert!(row["path.lte.bytes"].as_u64().unwrap() > 1_400_000, "{direction:?}: {}", row["path.lte.bytes"]);
        // The first path, on which the connection was opened, goes as well as any other.
        config.paths.swap(0, 1);
        config.paths[0].presence[0] = Instant::ZERO;
        let row = run(&config, "min-rtt", 1);
        assert_eq!((&row["verdict"], &row["faults"]), (&"finished".into(), &0.into()), "{row:?}");
        assert!(row["path.lte.bytes"].as_u64().unwrap() > 1_400_000, "{direction:?}: {}", row["path.lte.bytes"]);
    }
}

#[test]
fn all_paths_die_and_return() {
    for first in [300, 301, 317, 350] {
        let mut config = two_paths(4_000_000);
        fail(&mut config.paths[0], &[(first, false), (6_000, true)]);
        fail(&mut config.paths[1], &[(320, false), (7_000, true)]);
        let row = run(&config, "min-rtt", 1);
        assert_eq!((&row["verdict"], &row["delivered_bytes"]), (&"finished".into(), &4_000_000.into()), "{row:?}");
        assert!(row["fct_ms"].as_f64().unwrap() < 10_000.0, "{}", row["fct_ms"]);
    }
}

/// Sends one packet each 50 ms, and waits between.
#[derive(Clone, Default)]
struct Slow {
    next: Instant,
}

impl Scheduler for Slow {
    fn needs(&self) -> Needs {
        Needs { wake: true, events: true, ..Needs::NONE }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        match cx.sendable().next() {
            Some(path) if cx.packet.is_some() && self.next <= cx.now => Decision::Send(path.id),
            _ => Decision::Wait,
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        if matches!(event, Event::Sent(..)) {
            self.next = cx.now + Span::from_millis(50);
        }
    }

    fn wake(&self) -> Option<Instant> {
        Some(self.next)
    }
}

/// Whatever waits is data: nothing is lost, no acknowledgement is late, no probe fires.
#[test]
fn a_scheduler_that_waits_holds_up_nothing_but_data() {
    let mut config = two_paths(60_000);
    config.paths[0].data.loss = Loss::None;
    let job = Job { config: &config, cc: "newreno", seed: 1 };
    let mut scheduler = Slow::default();
    let mut world = job.world(Host::serving(&scheduler, weftway_sched::TransportRules::NONE)).unwrap();
    let finished = world.run(&mut scheduler).unwrap();
    assert_eq!(finished.verdict, Verdict::Finished);
    // 50 packets, 50 ms apart.
    let elapsed = world.elapsed().as_millis_f64();
    assert!((2_450.0..2_600.0).contains(&elapsed), "{elapsed}");
    let sender = world.sender().unwrap();
    for id in [0, 1].map(PathId::new) {
        assert_eq!((sender.tally(id).timeouts, sender.tally(id).retransmissions), (0, 0), "{id:?}");
    }
    // 20.7 ms, and an acknowledgement may wait for 25 ms: one packet comes at a time.
    let srtt = sender.view(PathId::new(0)).srtt;
    assert!(srtt < Span::from_millis(46), "{srtt:?}");
}

#[derive(Clone, Debug)]
struct Line {
    mbps: u64,
    ms: u64,
    loss: u8,
    jitter: u64,
    queue: u64,
    /// When its links fail and return, in turn, in milliseconds.
    fails: Vec<u64>,
    /// When the path is removed and added again.
    removed: Option<(u64, u64)>,
}

fn line() -> impl Strategy<Value = Line> {
    let fails = prop::collection::btree_set(0u64..4_000, 0..4);
    let removed = prop::option::weighted(0.3, (1u64..3_000, 1u64..3_000));
    let link = (1u64..40, 1u64..80, 0u8..10, 0u64..20, 10u64..200);
    (link, fails, removed).prop_map(|((mbps, ms, loss, jitter, queue), fails, removed)| Line {
        mbps,
        ms,
        loss,
        jitter,
        queue,
        fails: fails.into_iter().collect(),
        removed,
    })
}

/// Histories: the same 200 each time, or with `WEFTWAY_TESTS=full` 10 000 others each time.
///
/// Known and not solved: of others about one in 7000 does not end, most of them after paths were removed one after the
/// other while all links were down; and in about one in 40 000 noq ends the connection ("unsent packet acked").
fn histories() -> ProptestConfig {
    let full = std::env::var_os("WEFTWAY_TESTS").is_some_and(|value| value == "full");
    let (cases, rng_seed) = if full { (10_000, RngSeed::Random) } else { (200, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(histories())]

    /// Losses, reordering, copies, failures: every byte arrives once and in order, and is what was sent.
    #[test]
    fn what_is_sent_arrives(
        lines in prop::collection::vec(line(), 1..4),
        scheduler in 0usize..1_000,
        cc in 0usize..100,
        seed in 0u64..1_000,
        bytes in 1u64..600_000,
        window in 20_000u64..2_000_000,
        upload in any::<bool>(),
    ) {
        let mut config = SimConfig::new(Transport::mpquic(), Vec::new(), Bytes::new(bytes));
        config.transport.receive_buffer = Buffer::Fixed(Bytes::new(window));
        config.transport.direction = if upload { Direction::Upload } else { Direction::Download };
        for (at, line) in lines.iter().enumerate() {
            let mut one = path(&format!("p{at}"), line.mbps, line.ms, f64::from(line.loss) / 100.0);
            for link in [&mut one.data, &mut one.acks] {
                link.queue.limit = Limit::Packets(line.queue);
                link.jitter = (line.jitter > 0).then(|| Jitter {
                    distribution: Distribution::Uniform { half_width: Span::from_millis(line.jitter) },
                    reorder: true,
                });
            }
            // A path that fails an odd number of times returns in the end.
            let mut times: Vec<_> = line.fails.iter().enumerate().map(|(at, &ms)| (ms, at % 2 == 1)).collect();
            times.push((4_000, true));
            fail(&mut one, &times);
            if let Some((from, span)) = line.removed {
                one.presence = [0, from, from + span].map(Instant::from_millis).to_vec();
            }
            config.paths.push(one);
        }
        let entries: Vec<_> = weftway_sched::all().iter()
            .filter(|entry| lines.len() > 1 || entry.arity != weftway_sched::Arity::Pair).collect();
        let entry = entries[scheduler % entries.len()];
        let controllers = weftway_cc::all();
        let cc = controllers[cc % controllers.len()].name;
        let job = Job { config: &config, cc, seed };
        let row = job.row(entry.name, &Singles::default()).unwrap();
        prop_assert_eq!(&row["verdict"], "finished", "{} over {}: {:?}", entry.name, cc, row);
        prop_assert_eq!(&row["delivered_bytes"], bytes);
        prop_assert_eq!(&row["faults"], 0, "{}", entry.name);
        let of_paths: u64 = (0..lines.len()).map(|at| row[&format!("path.p{at}.bytes")].as_u64().unwrap()).sum();
        prop_assert_eq!(of_paths, bytes, "each byte was brought first by one path");
    }
}
