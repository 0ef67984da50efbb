//! The workload of flows over real QUIC packets: each stream arrives whole, whatever schedules it and whatever is lost.

use weftway_host::Host;
use weftway_link::{Change, LinkConfig, Loss, Set};
use weftway_path::{BitRate, Bytes, Instant, Role, Span};
use weftway_quic::virtual_time::{Job, row};

use weftway_scenario::Verdict;
use weftway_scenario::config::{FlowClass, FlowKind, PathConfig, SimConfig, TransportConfig, Workload};
use weftway_scenario::measurement::Singles;

fn path(name: &str, mbps: u64, ms: u64, loss: f64) -> PathConfig {
    let delay = Span::from_millis(ms);
    let acks = LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay, ..LinkConfig::default() };
    let data = LinkConfig { loss: Loss::Bernoulli(loss), ..acks.clone() };
    PathConfig { name: name.to_owned(), role: Role::Active, data, acks, via: None, presence: Vec::new() }
}

fn config() -> SimConfig {
    let kind = |class, weight, bytes, sigma| FlowKind { class, weight, median: Bytes::new(bytes), sigma };
    let kinds = vec![kind(FlowClass::Interactive, 3, 4_000, 1.0), kind(FlowClass::Bulk, 1, 60_000, 0.5)];
    let mut paths = vec![path("wifi", 20, 10, 0.02), path("lte", 10, 35, 0.02)];
    let cut = [(300, Set::Down), (1500, Set::Up)].map(|(ms, set)| Change { at: Instant::from_millis(ms), set });
    (paths[0].data.changes, paths[0].acks.changes) = (cut.to_vec(), cut.to_vec());
    let workload = Workload::Flows { mean_gap: Span::from_millis(20), count: 60, kinds };
    SimConfig { workload, ..SimConfig::new(TransportConfig::mpquic(), paths, Bytes::ZERO) }
}

#[test]
fn every_scheduler_carries_flows_over_lossy_links_of_which_one_is_away_for_a_while() {
    let config = config();
    let job = Job { config: &config, cc: "cubic", seed: 3 };
    for entry in weftway_sched::all() {
        let row = job.row(entry.name, &Singles::default()).unwrap();
        assert_eq!((&row["verdict"], &row["faults"]), (&"finished".into(), &0.into()), "{}", entry.name);
        let [interactive, bulk] = ["interactive_p99_ms", "bulk_p99_ms"].map(|name| row[name].as_f64().unwrap());
        // Those of bulk are fifteen times as large, and leave later.
        assert!(interactive < bulk, "{}: {interactive} {bulk}", entry.name);
    }
}

/// Datagrams with a deadline arrive as in the simulator: nothing waits for one that does not come any more.
#[test]
fn every_scheduler_carries_datagrams() {
    let mut config = config();
    let [period, deadline, span] = [10, 150, 2000].map(Span::from_millis);
    config.workload = Workload::Datagrams { bytes: Bytes::new(1000), rate: None, period, deadline, span };
    let job = Job { config: &config, cc: "cubic", seed: 3 };
    for entry in weftway_sched::all() {
        let row = job.row(entry.name, &Singles::default()).unwrap();
        assert_eq!((&row["verdict"], &row["faults"]), (&"finished".into(), &0.into()), "{}", entry.name);
        let [missed, most] = ["deadline_miss_rate", "message_p99_ms"].map(|name| row[name].as_f64().unwrap());
        // A link is away for 1.2 s of 2. A rule that stays there misses as much; what waits for it takes longer.
        assert!(missed < 0.7 && most < 1000.0, "{}: {missed} {most}", entry.name);
    }
}

/// A copy of a record that has arrived brings nothing, also when the sender does not keep it any more.
#[test]
fn datagrams_that_come_twice_change_nothing() {
    let config = config();
    let job = Job { config: &config, cc: "cubic", seed: 4 };
    for scheduler in ["min-rtt", "redundant"] {
        let mut built = weftway_sched::build(scheduler).unwrap();
        let mut world = job.world(Host::of(scheduler).unwrap()).unwrap();
        world.copy_datagrams(0.3);
        let finished = world.run(built.as_mut()).unwrap();
        assert_eq!(finished.verdict, Verdict::Finished, "{scheduler}");
        let found = row(&config, &world, &finished, &Singles::default());
        assert!(world.copied() > 50 && found["message_p50_ms"].is_number(), "{}", world.copied());
    }
}
