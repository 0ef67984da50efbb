//! Flows: streams of one connection, of which the urgent leave first and each arrives by itself.

use crate::setup::{bulk, down, lossy, path};
use weftway_link::{Limit, Loss};
use weftway_path::{Bytes, Span};
use weftway_scenario::config::FlowClass::{Bulk, Interactive};
use weftway_scenario::config::{Buffer, FlowClass, FlowKind, PathConfig, SimConfig, TransportConfig, Workload};
use weftway_scenario::measurement::{Messages, Singles};
use weftway_sim::Verdict;
use weftway_sim::run::Job;

/// Flows of one size for each class.
fn flows(mean_gap: Span, count: u64, sizes: &[(FlowClass, u64)], paths: Vec<PathConfig>) -> SimConfig {
    let kind = |&(class, bytes)| FlowKind { class, weight: 1, median: Bytes::new(bytes), sigma: 0.0 };
    let workload = Workload::Flows { mean_gap, count, kinds: sizes.iter().map(kind).collect() };
    SimConfig { workload, ..bulk(&TransportConfig::mpquic(), paths, 0) }
}

/// All flows arrive, and no decision breaks a rule: how long they took.
fn run(config: &SimConfig, scheduler: &str, seed: u64) -> Messages {
    let finished = Job { config, cc: "cubic", seed, timing: None }.run_named(scheduler).unwrap();
    let measured = finished.measurement(config, &Singles::default());
    assert_eq!((measured.verdict, measured.counts.faults), (Verdict::Finished, Some(0)), "{scheduler}, seed {seed}");
    measured.messages
}

/// The delays of one class, in milliseconds, those that arrived first first.
fn of(class: FlowClass, messages: &Messages) -> Vec<f64> {
    let all = messages.delays.iter().zip(&messages.classes);
    all.filter(|(_, other)| **other == class as u8).map(|(delay, _)| delay.as_millis_f64()).collect()
}

fn mean(delays: &[f64]) -> f64 {
    delays.iter().sum::<f64>() / delays.len() as f64
}

/// Two flows of 4000 B come at once, and fit into the first window. The urgent one leaves first, so three packets are
/// its own. When one of these is lost, it waits for a repetition. In one row of bytes the other flow would wait, too.
#[test]
fn a_lost_packet_holds_up_its_own_flow_alone() {
    let config = |lost: Option<u64>| {
        let mut only = path("only", 8_000, 20);
        only.data.loss = lost.map_or(Loss::None, |number| Loss::Packets(vec![number]));
        flows(Span::from_nanos(1), 2, &[(Interactive, 4_000), (Bulk, 4_000)], vec![only])
    };
    let delays = |lost, seed| {
        let found = run(&config(lost), "min-rtt", seed);
        [of(Interactive, &found), of(Bulk, &found)].map(|delays| delays.first().copied())
    };
    let seed = (0..64).find(|&seed| delays(None, seed).iter().all(Option::is_some)).unwrap();
    let plain = delays(None, seed).map(Option::unwrap);
    assert!(plain[0] < plain[1], "the urgent one is first: {plain:?}");
    let alone = (0..20).map(|number| delays(Some(number), seed).map(Option::unwrap)).filter(|found| {
        let later = found[0] - plain[0];
        // A repetition takes a round trip of 40 ms at least.
        later > 40.0 && found[1] == plain[1]
    });
    assert_eq!(alone.count(), 3);
}

/// 105 kB come each 100 ms on the mean: 8.4 Mbit/s over a path of 10. The same flows in both runs; small ones leave
/// before what waits of large ones if they are urgent, and share the path with them if the large ones are.
#[test]
fn urgent_flows_overtake_others() {
    let of_small = |small, large| {
        let mut only = path("only", 10_000, 20);
        only.data.queue.limit = Limit::Packets(20);
        let config = flows(Span::from_millis(100), 300, &[(small, 10_000), (large, 200_000)], vec![only]);
        let messages = run(&config, "min-rtt", 1);
        assert_eq!(messages.delays.len(), 300);
        mean(&of(small, &messages))
    };
    let (urgent, others) = (of_small(Interactive, Bulk), of_small(Bulk, Interactive));
    // 8 ms for 10 kB, 20 ms on the way, and no more than the 20 packets that wait in the queue, 20 ms.
    assert!((28.0..68.0).contains(&urgent) && others > 1.2 * urgent, "{urgent} {others}");
}

#[test]
fn every_scheduler_carries_flows_over_lossy_links_of_which_one_is_away_for_a_while() {
    let sizes = [(Interactive, 3_000), (Bulk, 60_000)];
    let paths = vec![lossy(down(path("a", 20_000, 10), 300, Some(1_500)), 0.02), lossy(path("b", 10_000, 35), 0.02)];
    let config = flows(Span::from_millis(20), 60, &sizes, paths);
    for entry in weftway_sched::all() {
        let messages = run(&config, entry.name, 3);
        assert_eq!((messages.delays.len(), messages.outstanding), (60, 0), "{}", entry.name);
    }
}

/// A record is not cut before there is room for all of it.
#[test]
fn buffers_of_one_packet_carry_flows() {
    for (send, receive) in [(1, 1 << 20), (1 << 20, 1), (1, 1)] {
        let mut config =
            flows(Span::from_millis(5), 40, &[(Interactive, 700), (Bulk, 5_000)], vec![path("a", 5_000, 5)]);
        config.transport.send_buffer = Buffer::Fixed(Bytes::new(send));
        config.transport.receive_buffer = Buffer::Fixed(Bytes::new(receive));
        assert_eq!(run(&config, "min-rtt", 1).delays.len(), 40, "{send} {receive}");
    }
}

/// Half of the flows are no larger than the median, and 95 of 100 no larger than median · e^(1.645 · sigma). What
/// arrives is what was written, and of each record its head: here at most 2 %.
#[test]
fn the_same_seed_is_the_same_run_and_brings_all_bytes() {
    let paths = vec![path("a", 20_000, 10), path("b", 10_000, 35)];
    let mut config = flows(Span::from_millis(10), 200, &[], paths);
    let kinds = vec![FlowKind { class: Bulk, weight: 1, median: Bytes::new(20_000), sigma: 1.0 }];
    config.workload = Workload::Flows { mean_gap: Span::from_millis(10), count: 200, kinds };
    let written: u64 =
        weftway_scenario::writes(&config.workload, 5).unwrap().iter().map(|(_, bytes)| bytes.get()).sum();
    let once = || {
        let finished = Job { config: &config, cc: "cubic", seed: 5, timing: None }.run_named("min-rtt").unwrap();
        finished.measurement(&config, &Singles::default())
    };
    let measured = once();
    assert_eq!(once(), measured);
    let share = measured.delivered.get() as f64 / written as f64;
    assert!((1.0..1.02).contains(&share), "{share}");
}
