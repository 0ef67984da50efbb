//! Paths with tiers and caps: which of them carry data, and when.

use crate::setup::{Run, down, path, run, stacks};
use weftway_link::{Change, Set};
use weftway_path::{BitRate, Bytes, Instant, Span, Thresholds, Tier};
use weftway_scenario::config::{PathConfig, PathPolicy, Policy, SimConfig, TransportConfig, Workload};
use weftway_sim::{Note, Verdict};

fn paths() -> Vec<PathConfig> {
    vec![path("wifi", 20_000, 10), path("lte", 10_000, 30)]
}

fn tier(tier: Tier) -> PathPolicy {
    PathPolicy { tier, ..PathPolicy::default() }
}

fn config(transport: &TransportConfig, paths: Vec<PathConfig>, second: PathPolicy, workload: Workload) -> SimConfig {
    let policies = vec![tier(Tier::Primary), second];
    let policy = Some(Policy { paths: policies, thresholds: Thresholds::default() });
    let time_limit = Span::from_secs(60);
    SimConfig { workload, policy, time_limit, ..SimConfig::new(transport.clone(), paths, Bytes::ZERO) }
}

fn limited(mbps: u64, megabytes: u64) -> Workload {
    Workload::Limited { rate: BitRate::from_mbps(mbps), bytes: Bytes::new(megabytes * 1_000_000) }
}

fn bulk(megabytes: u64) -> Workload {
    Workload::Bulk { bytes: Bytes::new(megabytes * 1_000_000) }
}

/// What packets with data took on the wire of each path.
fn wire(run: &Run) -> [u64; 2] {
    [0, 1].map(|path| run.sim.connection(0).path_tallies[path].wire_bytes)
}

/// Times at which packets with data left on path `path`, from the first to the last.
fn sent(run: &Run, path: u8) -> Vec<Instant> {
    let sent = run.notes.iter().filter(|(_, note)| matches!(note, Note::Sent { path: at, .. } if at.get() == path));
    sent.map(|(at, _)| *at).collect()
}

/// 12 of the 20 Mbit/s of the first path for eight seconds. Round robin would use both alike.
#[test]
fn a_secondary_path_rests_while_the_primary_suffices() {
    for (stack, transport) in stacks() {
        for scheduler in ["min-rtt", "round-robin", "wrr", "ecf", "earliest-delivery"] {
            let run = run(&config(&transport, paths(), tier(Tier::Secondary), limited(12, 12)), scheduler, "cubic");
            let [wifi, lte] = wire(&run);
            assert_eq!(run.verdict, Verdict::Finished, "{stack}, {scheduler}");
            assert!(lte * 50 <= wifi + lte, "{stack}, {scheduler}: {lte} of {}", wifi + lte);
        }
    }
}

/// A transfer of 30 MB takes 8 s over both links and 12 s over the first.
#[test]
fn a_secondary_path_helps_a_transfer_that_the_primary_does_not_suffice_for() {
    for (stack, transport) in stacks() {
        let both = run(&config(&transport, paths(), tier(Tier::Primary), bulk(30)), "min-rtt", "cubic");
        let run = run(&config(&transport, paths(), tier(Tier::Secondary), bulk(30)), "min-rtt", "cubic");
        let elapsed = |run: &Run| run.sim.now().since(Instant::ZERO).as_secs_f64();
        let begin = sent(&run, 1).first().expect("it opens").since(Instant::ZERO);
        assert!(begin > Span::from_millis(250), "{stack}: {begin:?}");
        // What the second path did not carry in the time until it opened, and half a second more.
        assert!(elapsed(&run) < elapsed(&both) + 0.5, "{stack}: {} of {} s", elapsed(&run), elapsed(&both));
    }
}

/// The first link has 5 Mbit/s from 2 to 4 s, and a stream of 12 Mbit/s needs the second one meanwhile.
#[test]
fn a_secondary_path_closes_when_it_is_not_needed_any_more() {
    for (stack, transport) in stacks() {
        let mut wifi = path("wifi", 20_000, 10);
        let rate = |ms, mbps| Change { at: Instant::from_millis(ms), set: Set::Rate(BitRate::from_mbps(mbps).into()) };
        wifi.data.changes = vec![rate(2_000, 5), rate(4_000, 20)];
        let paths = vec![wifi, path("lte", 10_000, 30)];
        for scheduler in ["min-rtt", "round-robin"] {
            let run =
                run(&config(&transport, paths.clone(), tier(Tier::Secondary), limited(12, 18)), scheduler, "cubic");
            let used = sent(&run, 1);
            let late = used.iter().filter(|at| at.as_secs_f64() > 9.0).count();
            let within = used.iter().filter(|at| (2.5..4.0).contains(&at.as_secs_f64())).count();
            assert_eq!(run.verdict, Verdict::Finished, "{stack}, {scheduler}");
            // A second and a half at 10 Mbit/s are 1250 packets.
            assert!(within > 600, "{stack}, {scheduler}: {within}");
            assert_eq!(late, 0, "{stack}, {scheduler}: {late} of {}", used.len());
        }
    }
}

/// The first path is down from 2 to 4 s. A backup carries what it had, and rests before and after.
#[test]
fn a_backup_path_opens_at_once_when_no_path_above_works_and_closes_again() {
    for (stack, transport) in stacks() {
        let mut transport = transport;
        transport.path_timeout = Span::from_secs(1);
        let paths = vec![down(path("wifi", 20_000, 10), 2_000, Some(4_000)), path("lte", 10_000, 30)];
        for scheduler in ["min-rtt", "round-robin"] {
            let run = run(&config(&transport, paths.clone(), tier(Tier::Backup), limited(4, 6)), scheduler, "cubic");
            let used = sent(&run, 1);
            let (first, last) = (used.first().unwrap().as_secs_f64(), used.last().unwrap().as_secs_f64());
            assert_eq!(run.verdict, Verdict::Finished, "{stack}, {scheduler}");
            assert!((2.0..3.5).contains(&first), "{stack}, {scheduler}: {first}");
            assert!(last < 9.0, "{stack}, {scheduler}: {last}");
            assert!(sent(&run, 0).iter().any(|at| at.as_secs_f64() > last), "{stack}, {scheduler}");
        }
    }
}

/// The cap counts IP bytes, and another full packet does not fit. What a redundant scheduler has queued on the path,
/// and does not send because the other path has brought it, counts as well.
#[test]
fn a_cap_stops_at_its_byte() {
    for scheduler in ["min-rtt", "round-robin", "redundant", "dems", "otias"] {
        let capped = PathPolicy { cap: Some(Bytes::new(1_000_000)), ..PathPolicy::default() };
        let transport = TransportConfig::mpquic();
        let run = run(&config(&transport, paths(), capped, bulk(10)), scheduler, "cubic");
        let [_, lte] = wire(&run);
        assert_eq!(run.verdict, Verdict::Finished, "{scheduler}");
        let unsent = if scheduler == "redundant" { 50_000 } else { 0 };
        assert!((1_000_000 - 1280 - unsent..=1_000_000).contains(&lte), "{scheduler}: {lte}");
    }
}

/// What a subflow lost is repeated on it, and counts.
#[test]
fn what_mptcp_repeats_counts() {
    for (stack, transport) in stacks() {
        let capped = PathPolicy { cap: Some(Bytes::new(1_000_000)), ..PathPolicy::default() };
        let paths = vec![path("wifi", 20_000, 10), crate::setup::lossy(path("lte", 10_000, 30), 0.02)];
        let run = run(&config(&transport, paths, capped, bulk(20)), "min-rtt", "cubic");
        let [_, lte] = wire(&run);
        assert_eq!(run.verdict, Verdict::Finished, "{stack}");
        // A window may be under way when the cap is reached, of which one packet in fifty is lost.
        let most = if transport.stack == weftway_scenario::stack::Stack::Mpquic { 0 } else { 20_000 };
        assert!((980_000..=1_000_000 + most).contains(&lte), "{stack}: {lte}");
    }
}

/// With both caps used up nothing more is sent, and the run says that no path is left.
#[test]
fn a_connection_whose_caps_are_used_up_ends_without_a_path() {
    let transport = TransportConfig::mpquic();
    let capped = PathPolicy { cap: Some(Bytes::new(500_000)), ..PathPolicy::default() };
    let mut config = config(&transport, paths(), capped, bulk(10));
    config.policy.as_mut().unwrap().paths[0] = capped;
    let run = run(&config, "min-rtt", "cubic");
    assert_eq!(run.verdict, Verdict::NoPath);
    assert!(wire(&run).iter().all(|&bytes| bytes <= 500_000), "{:?}", wire(&run));
}

/// The primary path is there after three seconds: until then there is only the backup.
#[test]
fn a_backup_does_not_wait_for_ever_for_a_path_that_does_not_come() {
    let transport = TransportConfig::mpquic();
    let mut late = path("wifi", 20_000, 10);
    late.presence = vec![Instant::from_millis(3_000)];
    let mut config = config(&transport, vec![late, path("lte", 10_000, 30)], tier(Tier::Backup), bulk(6));
    config.transport.open = weftway_scenario::config::Opening::Race;
    let run = run(&config, "min-rtt", "cubic");
    assert_eq!(run.verdict, Verdict::Finished);
    let first = sent(&run, 1).first().unwrap().as_secs_f64();
    assert!((1.0..1.5).contains(&first), "{first}");
}

/// Nothing of it depends on the scheduler: none breaks a rule when paths are closed and opened under it.
#[test]
fn every_scheduler_runs_under_a_policy_without_a_fault() {
    for (stack, transport) in stacks() {
        for entry in weftway_sched::all() {
            let run = std::panic::catch_unwind(|| {
                let second = PathPolicy { tier: Tier::Secondary, cap: Some(Bytes::new(400_000)), price: None };
                let mut config = config(&transport, paths(), second, bulk(3));
                config.policy.as_mut().unwrap().thresholds.close_after = Span::from_millis(100);
                run(&config, entry.name, "cubic")
            });
            let run = run.unwrap_or_else(|_| panic!("{stack}, {}", entry.name));
            assert_eq!(run.verdict, Verdict::Finished, "{stack}, {}", entry.name);
            assert_eq!(run.sim.connection(0).host().counts.faults, 0, "{stack}, {}", entry.name);
        }
    }
}

/// 4 Mbit/s in datagrams of which each is of use for 150 ms, for eight seconds.
fn datagrams() -> Workload {
    let [period, deadline, span] = [2, 150, 8_000].map(Span::from_millis);
    Workload::Datagrams { bytes: Bytes::new(1000), rate: None, period, deadline, span }
}

/// As many copies as a budget allows, and Wi-Fi that loses 0.2 %, but has room: copies keep to the policy as all else. A price closes
/// nothing.
#[test]
fn copies_of_datagrams_keep_to_tiers_and_caps() {
    let scheduler = "deadline:target=99.999:redundancy=300";
    let transport = TransportConfig::mpquic();
    let lossy = || vec![crate::setup::lossy(path("wifi", 20_000, 10), 0.002), path("lte", 10_000, 30)];
    let carried = |second: PathPolicy| {
        let run = run(&config(&transport, lossy(), second, datagrams()), scheduler, "cubic");
        assert_eq!((run.verdict, run.sim.connection(0).host().counts.faults), (Verdict::Finished, 0));
        wire(&run)
    };
    let [wifi, open] = carried(tier(Tier::Primary));
    assert!(wifi > 4_000_000 && open > 100_000, "copies go on LTE where both are open: {wifi} {open}");
    assert_eq!(carried(PathPolicy { price: Some(4_000_000), ..tier(Tier::Primary) }), [wifi, open]);
    for closed in [Tier::Secondary, Tier::Backup] {
        assert_eq!(carried(tier(closed))[1], 0, "{closed:?}");
    }
    let [_, lte] = carried(PathPolicy { cap: Some(Bytes::new(60_000)), ..PathPolicy::default() });
    // Closed once it has no room for a full packet. One whose data arrive while it waits in the path's queue is not sent,
    // and does not count.
    assert!((60_000 - transport.packet.get() + 1..=60_000).contains(&lte), "{lte}");
}

/// Wi-Fi is down from 2 to 4 s: meanwhile the backup carries the datagrams, and then rests again.
#[test]
fn a_backup_path_carries_datagrams_while_no_path_above_works() {
    let transport = TransportConfig::mpquic();
    let paths = vec![down(path("wifi", 20_000, 10), 2_000, Some(4_000)), path("lte", 10_000, 30)];
    let run = run(&config(&transport, paths, tier(Tier::Backup), datagrams()), "deadline", "cubic");
    let used = sent(&run, 1);
    let (first, last) = (used.first().unwrap().as_secs_f64(), used.last().unwrap().as_secs_f64());
    assert_eq!(run.verdict, Verdict::Finished);
    assert!((2.0..2.7).contains(&first) && (4.0..7.0).contains(&last), "{first} {last}");
    // 500 datagrams a second.
    assert!(used.iter().filter(|at| (3.0..4.0).contains(&at.as_secs_f64())).count() > 450);
}

/// Wi-Fi falls to 2 Mbit/s at 2 s: what waits makes the secondary path open, though nothing waits for longer than it is
/// of use.
#[test]
fn a_secondary_path_opens_for_datagrams_that_the_primary_does_not_suffice_for() {
    let transport = TransportConfig::mpquic();
    let mut paths = paths();
    paths[0].data.changes =
        vec![Change { at: Instant::from_millis(2_000), set: Set::Rate(BitRate::from_mbps(2).into()) }];
    let run = run(&config(&transport, paths, tier(Tier::Secondary), datagrams()), "deadline", "cubic");
    let first = sent(&run, 1).first().map(|at| at.as_secs_f64());
    assert!(first.is_some_and(|first| (2.0..3.5).contains(&first)), "{first:?}");
}
