//! A run of the kernel as a row with the columns of a simulated one, and as a timeline.
//!
//! What the kernel does not tell is null: what its receiver holds, what a capture would tag, decisions.

use serde_json::{Map, Value, json};
use weftway_emu::kernel::{Measured, Outcome, Sample};
use weftway_link::Counts;
use weftway_path::Span;
use weftway_scenario::config::{Direction, SimConfig, Workload};
use weftway_sim::measure::{balance, efficiency, mbps, rounded};

/// The row of a run.
pub fn row(config: &SimConfig, measured: &Measured) -> Value {
    let Measured { outcome, report, .. } = measured;
    let mut row = Map::new();
    let mut put = |name: &str, value: Value| {
        row.insert(name.to_owned(), value);
    };
    let ends = !matches!(config.workload, Workload::Duration { .. });
    let elapsed = rounded(outcome.elapsed.as_millis_f64());
    put("verdict", json!(if outcome.finished { "finished" } else { "time limit" }));
    put("fct_ms", if outcome.finished && ends { elapsed.clone() } else { Value::Null });
    put("goodput_mbps", rounded(mbps(outcome.delivered, outcome.elapsed)));
    put("delivered_bytes", json!(outcome.delivered.get()));
    put("elapsed_ms", elapsed);
    put("aggregation_benefit", Value::Null);
    put("best_single_mbps", Value::Null);
    put("efficiency", efficiency(config, outcome.delivered, outcome.elapsed));
    counts(&mut put, outcome, &data_links(config, &report.links));
    messages(&mut put, config, outcome);
    balance(&mut put, config, outcome.elapsed, &rates(outcome));
    put("utility_popov_2025", Value::Null);
    paths(&mut put, config, measured);
    put("late", json!(!report.lateness.is_fit()));
    put("late_mean_us", rounded(report.lateness.mean().as_nanos() as f64 / 1e3));
    put("late_over_1ms", json!(report.lateness.late()));
    put("fallback", json!(outcome.fallback));
    Value::Object(row)
}

/// The counts of each path's link in the direction of the data.
fn data_links(config: &SimConfig, links: &[Counts]) -> Vec<Counts> {
    let away = usize::from(config.transport.direction == Direction::Download);
    (0..config.paths.len()).map(|path| links[2 * path + away]).collect()
}

fn rates(outcome: &Outcome) -> Vec<f64> {
    outcome.last.paths.iter().map(|path| mbps(path.bytes_acked, outcome.elapsed)).collect()
}

fn counts(put: &mut impl FnMut(&str, Value), outcome: &Outcome, links: &[Counts]) {
    let sum = |value: fn(&Counts) -> u64| links.iter().map(value).sum::<u64>();
    let (sent, arrived) = (sum(|link| link.pushed), sum(|link| link.delivered));
    let share = |part: u64, whole: u64| if whole == 0 { Value::Null } else { rounded(part as f64 / whole as f64) };
    let counted = |counters: &weftway_emu::kernel::Counters, names: &[&str]| -> u64 {
        names.iter().filter_map(|name| counters.get(*name)).sum()
    };
    let is_multipath = outcome.last.connection.is_some();
    let queued = if is_multipath { "MPTcpExt.OFOQueue" } else { "TcpExt.TCPOFOQueue" };
    let out_of_order = counted(&outcome.receiver_counters, &[queued]);
    let again: u64 = outcome.last.paths.iter().map(|path| u64::from(path.total_retrans)).sum();
    let undone = ["TcpExt.TCPFullUndo", "TcpExt.TCPPartialUndo", "TcpExt.TCPLossUndo", "TcpExt.TCPDSACKUndo"];
    put("ooo_packets", json!(out_of_order));
    put("ooo_share", share(out_of_order, arrived));
    for unknown in ["reorder_delay_ms", "receive_buffer_max_kb", "receive_buffer_mean_kb"] {
        put(unknown, Value::Null);
    }
    put("retransmissions", json!(again));
    put("retransmission_rate", share(again, sent));
    put("reinjections", json!(counted(&outcome.sender_counters, &["MPTcpExt.MPTCPRetrans"])));
    put("copies", json!(0));
    put("duplicates", json!(counted(&outcome.receiver_counters, &["MPTcpExt.DuplicateData"])));
    put("window_drops", json!(counted(&outcome.receiver_counters, &["MPTcpExt.NoDSSInWindow"])));
    put("timeouts", json!(counted(&outcome.sender_counters, &["TcpExt.TCPTimeouts"])));
    put("spurious", json!(counted(&outcome.sender_counters, &undone)));
    for unknown in
        ["ooo_wireshark", "retx_wireshark", "decisions", "waits", "faults", "fallback_decided", "fallback_differs"]
    {
        put(unknown, Value::Null);
    }
}

/// Delays of messages by nearest rank, as in a simulated row; a message that never arrived is late.
fn messages(put: &mut impl FnMut(&str, Value), config: &SimConfig, outcome: &Outcome) {
    let (has_messages, deadline) = match config.workload {
        Workload::Messages { deadline, .. } => (true, deadline),
        Workload::Stream { deadline, .. } => (true, Some(deadline)),
        Workload::RequestResponse { .. } => (true, None),
        _ => (false, None),
    };
    let mut delays: Vec<Span> = outcome.message_delays.iter().flatten().copied().collect();
    delays.sort_unstable();
    let rank = |percent: usize| match delays.len() {
        n if has_messages && n > 0 => rounded(delays[(n * percent).div_ceil(100).max(1) - 1].as_millis_f64()),
        _ => Value::Null,
    };
    put("message_p50_ms", rank(50));
    put("message_p95_ms", rank(95));
    put("message_p99_ms", rank(99));
    let all = outcome.message_delays.len();
    let missed = |deadline: Span| {
        let in_time = delays.iter().filter(|delay| **delay <= deadline).count();
        rounded((all - in_time) as f64 / all as f64)
    };
    put("deadline_miss_rate", deadline.filter(|_| has_messages && all > 0).map_or(Value::Null, missed));
}

fn paths(put: &mut impl FnMut(&str, Value), config: &SimConfig, measured: &Measured) {
    let Measured { outcome, report, .. } = measured;
    let total: u64 = outcome.last.paths.iter().map(|path| path.bytes_acked.get()).sum();
    let links = data_links(config, &report.links);
    for ((path, subflow), link) in config.paths.iter().zip(&outcome.last.paths).zip(links) {
        let bytes = subflow.bytes_acked;
        let mut put = |name: &str, value: Value| put(&format!("path.{}.{name}", path.name), value);
        put("bytes", json!(bytes.get()));
        put("share", if total == 0 { Value::Null } else { rounded(bytes.get() as f64 / total as f64) });
        put("mean_rate_mbps", rounded(mbps(bytes, outcome.elapsed)));
        put("packets", json!(link.pushed));
        put("retransmissions", json!(subflow.total_retrans));
        put("reinjections", Value::Null);
        put("lost", json!(link.lost));
        put("queue_drops", json!(link.dropped_queue));
        put("timeouts", Value::Null);
        put("srtt_ms", rounded(subflow.srtt.as_millis_f64()));
    }
}

/// How long a step of a timeline lasts at first, and the most steps, as in a simulated one.
const FIRST_STEP: Span = Span::from_millis(10);
const MAX_STEPS: u64 = 400;

/// What a run looked like over time, in the form of a simulated run's timeline. Rates are of what was acknowledged.
pub fn timeline(config: &SimConfig, outcome: &Outcome) -> Value {
    let mut step = FIRST_STEP;
    while outcome.elapsed.as_nanos() / step.as_nanos() >= MAX_STEPS {
        step = step * 2;
    }
    let steps = outcome.elapsed.as_nanos() / step.as_nanos() + 1;
    let ends: Vec<Option<&Sample>> = (1..=steps).map(|number| last_before(&outcome.samples, step * number)).collect();
    let per_path = |value: &dyn Fn(usize) -> Value| (0..config.paths.len()).map(value).collect::<Vec<_>>();
    let gauge = |value: fn(&weftway_emu::kernel::Subflow) -> f64| {
        let of = |path: usize| {
            let at =
                |sample: &Option<&Sample>| sample.and_then(|s| s.paths.get(path)).filter(|p| p.open > 0).map(value);
            json!(ends.iter().map(at).collect::<Vec<_>>())
        };
        per_path(&of)
    };
    let acked = |path: usize| {
        let bytes =
            |sample: &Option<&Sample>| sample.map_or(0, |s| s.paths.get(path).map_or(0, |p| p.bytes_acked.get()));
        let totals: Vec<u64> = std::iter::once(0).chain(ends.iter().map(bytes)).collect();
        let rate = |pair: &[u64]| pair[1].saturating_sub(pair[0]) as f64 * 8.0 / 1e6 / step.as_secs_f64();
        json!(totals.windows(2).map(rate).collect::<Vec<_>>())
    };
    json!({
        "step_ms": step.as_millis_f64(),
        "paths": config.paths.iter().map(|path| path.name.as_str()).collect::<Vec<_>>(),
        "mbps": per_path(&acked),
        "srtt_ms": gauge(|path| path.srtt.as_millis_f64()),
        "cwnd_kb": gauge(|path| path.cwnd.get() as f64 / 1e3),
        "inflight_kb": gauge(|path| path.bytes_in_flight.get() as f64 / 1e3),
        "events": [],
    })
}

/// The last sample taken by `end`.
fn last_before(samples: &[Sample], end: Span) -> Option<&Sample> {
    samples[..samples.partition_point(|sample| sample.at <= end)].last()
}
