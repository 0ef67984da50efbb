//! Paths with tiers and caps on real QUIC in virtual time: the same code as in the simulator.

use serde_json::{Map, Value};
use weftway_link::{Change, Limit, LinkConfig, Queue, Rate, Set};
use weftway_path::{BitRate, Bytes, Instant, Role, Span, Thresholds, Tier};
use weftway_quic::virtual_time::Job;
use weftway_scenario::config::{PathConfig, PathPolicy, Policy, SimConfig, TransportConfig, Workload};
use weftway_scenario::measurement::Singles;

fn path(name: &str, mbps: u64, ms: u64) -> PathConfig {
    let link = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    let (name, acks) = (name.to_owned(), link.clone());
    PathConfig { name, role: Role::Active, data: link, acks, via: None, presence: Vec::new() }
}

/// Over 20 Mbit/s with 20 ms and 10 Mbit/s with 60 ms.
fn row(second: PathPolicy, workload: Workload, scheduler: &str, change: impl Fn(&mut SimConfig)) -> Map<String, Value> {
    let paths = vec![path("wifi", 20, 10), path("lte", 10, 30)];
    let policies = vec![PathPolicy { price: Some(0), ..PathPolicy::default() }, second];
    let policy = Some(Policy { paths: policies, thresholds: Thresholds::default() });
    let plain = SimConfig::new(TransportConfig::mpquic(), paths, Bytes::ZERO);
    let mut config = SimConfig { workload, policy, time_limit: Span::from_secs(60), ..plain };
    change(&mut config);
    Job { config: &config, cc: "cubic", seed: 1 }.row(scheduler, &Singles::default()).unwrap()
}

fn number(row: &Map<String, Value>, column: &str) -> f64 {
    row[column].as_f64().unwrap_or_else(|| panic!("{column}: {}", row[column]))
}

fn tier(tier: Tier) -> PathPolicy {
    PathPolicy { tier, ..PathPolicy::default() }
}

fn limited(mbps: u64, megabytes: u64) -> Workload {
    Workload::Limited { rate: BitRate::from_mbps(mbps), bytes: Bytes::new(megabytes * 1_000_000) }
}

fn bulk(megabytes: u64) -> Workload {
    Workload::Bulk { bytes: Bytes::new(megabytes * 1_000_000) }
}

#[test]
fn a_secondary_path_rests_while_the_primary_suffices() {
    for scheduler in ["min-rtt", "round-robin", "earliest-delivery"] {
        let row = row(tier(Tier::Secondary), limited(12, 12), scheduler, |_| {});
        assert_eq!(row["verdict"], "finished", "{scheduler}");
        let (wifi, lte) = (number(&row, "path.wifi.wire_bytes"), number(&row, "path.lte.wire_bytes"));
        assert!(lte * 50.0 <= wifi + lte, "{scheduler}: {lte} of {}", wifi + lte);
    }
}

#[test]
fn a_secondary_path_helps_a_transfer_that_the_primary_does_not_suffice_for() {
    let both = row(tier(Tier::Primary), bulk(30), "min-rtt", |_| {});
    let row = row(tier(Tier::Secondary), bulk(30), "min-rtt", |_| {});
    // What the second path did not carry in the time until it opened, and half a second more.
    assert!(number(&row, "fct_ms") < number(&both, "fct_ms") + 500.0, "{} {}", row["fct_ms"], both["fct_ms"]);
}

/// The first path is down from 2 to 4 s.
#[test]
fn a_backup_path_opens_at_once_when_no_path_above_works_and_closes_again() {
    for scheduler in ["min-rtt", "round-robin"] {
        let row = row(tier(Tier::Backup), limited(4, 6), scheduler, |config| {
            let change = |ms, set| Change { at: Instant::from_millis(ms), set };
            let changes = vec![change(2_000, Set::Down), change(4_000, Set::Up)];
            (config.paths[0].data.changes, config.paths[0].acks.changes) = (changes.clone(), changes);
            config.transport.path_timeout = Span::from_millis(500);
            config.transport.probe_interval = Span::from_millis(250);
        });
        assert_eq!(row["verdict"], "finished", "{scheduler}");
        // Two seconds of 4 Mbit/s are 1 MB; until it closes there are two more.
        let lte = number(&row, "path.lte.wire_bytes");
        assert!((600_000.0..2_300_000.0).contains(&lte), "{scheduler}: {lte}");
        // 6 MB take 12 s. What waited while the path was silent is made up for.
        assert!(number(&row, "fct_ms") < 12_500.0, "{scheduler}: {}", row["fct_ms"]);
    }
}

/// A packet with data has at most 1280 bytes here.
#[test]
fn a_cap_stops_at_its_byte() {
    for scheduler in ["min-rtt", "round-robin", "redundant", "otias"] {
        let capped = PathPolicy { cap: Some(Bytes::new(1_000_000)), price: Some(4_000_000), ..PathPolicy::default() };
        let row = row(capped, bulk(10), scheduler, |_| {});
        let lte = number(&row, "path.lte.wire_bytes");
        assert_eq!(row["verdict"], "finished", "{scheduler}");
        // Packets are counted as if each had the largest header, and what a redundant scheduler has queued and does not
        // send.
        assert!((950_000.0..=1_000_000.0).contains(&lte), "{scheduler}: {lte}");
        // 4 a GB.
        assert!((number(&row, "cost") - lte * 4e-9).abs() < 1e-6, "{scheduler}: {}", row["cost"]);
    }
}

#[test]
fn a_path_that_is_never_to_be_used_is_not_opened() {
    let row = row(tier(Tier::Never), bulk(1), "round-robin", |config| {
        config.paths[1].presence = vec![Instant::NEVER];
    });
    assert_eq!((&row["verdict"], &row["path.lte.wire_bytes"]), (&"finished".into(), &0.into()));
}

#[test]
fn every_scheduler_runs_under_a_policy_without_a_fault() {
    for entry in weftway_sched::all() {
        let second = PathPolicy { tier: Tier::Secondary, cap: Some(Bytes::new(200_000)), price: None };
        let row = row(second, bulk(2), entry.name, |config| {
            let thresholds = &mut config.policy.as_mut().unwrap().thresholds;
            (thresholds.open_after, thresholds.close_after) = (Span::from_millis(50), Span::from_millis(100));
        });
        assert_eq!((&row["verdict"], &row["faults"]), (&"finished".into(), &0.into()), "{}", entry.name);
        assert!(number(&row, "path.lte.wire_bytes") <= 200_000.0, "{}", entry.name);
    }
}
