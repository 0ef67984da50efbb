//! What a run amounts to: one row of named figures, each defined in `docs/glossary.md`.

use serde_json::{Map, Value, json};
use weftway_link::{LinkConfig, Set, capacity};
use weftway_path::{Bytes, Instant, Span};
use weftway_scenario::config::{Direction, SimConfig, Stack, Workload};

use crate::run::Finished;
use crate::{Sim, Verdict};

/// A row: names and values, in the order of the columns.
pub type Row = Map<String, Value>;

/// The goodput of each path alone, in Mbit/s, under the same controller and seed.
pub type Singles = Vec<f64>;

/// The scenario with path `path` alone.
pub fn single(config: &SimConfig, path: usize) -> SimConfig {
    let mut alone = config.clone();
    alone.paths = vec![config.paths[path].clone()];
    alone.paths[0].role = weftway_path::Role::Active;
    alone.cross.retain_mut(|traffic| match &mut traffic.on {
        weftway_scenario::config::CrossLink::Path(on) => {
            let here = *on == path;
            *on = 0;
            here
        }
        weftway_scenario::config::CrossLink::Shared(_) => true,
    });
    alone
}

/// The figures of a finished run. `singles` is empty where aggregation means nothing.
pub fn row(config: &SimConfig, finished: &Finished, singles: &[f64]) -> Row {
    let Finished { sim, verdict, fallback } = finished;
    let conn = sim.connection(0);
    let elapsed = sim.now().since(Instant::ZERO);
    let delivered = conn.delivered();
    let goodput = mbps(delivered, elapsed);
    let mut row = Row::new();
    let mut put = |name: &str, value: Value| {
        row.insert(name.to_owned(), value);
    };
    put("verdict", json!(verdict_name(*verdict)));
    put("fct_ms", completion(config, *verdict, elapsed));
    put("goodput_mbps", rounded(goodput));
    put("delivered_bytes", json!(delivered.get()));
    put("elapsed_ms", rounded(elapsed.as_millis_f64()));
    put("aggregation_benefit", benefit(goodput, singles));
    put("best_single_mbps", singles.iter().copied().reduce(f64::max).map_or(Value::Null, rounded));
    put("efficiency", efficiency(config, delivered, elapsed));
    connection_counts(&mut put, config, sim, elapsed);
    put("fallback_decided", json!(fallback.map(|fallback| fallback.decided)));
    put("fallback_differs", json!(fallback.map(|fallback| fallback.differs)));
    messages(&mut put, sim);
    fairness(&mut put, config, sim, elapsed);
    paths(&mut put, config, sim, elapsed);
    row
}

/// Whether a run's goodput says how well paths add up: it does where the application always has
/// more to send.
pub fn aggregates(config: &SimConfig) -> bool {
    config.paths.len() > 1 && matches!(config.workload, Workload::Bulk { .. } | Workload::Duration { .. })
}

fn verdict_name(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Finished => "finished",
        Verdict::TimeLimit => "time limit",
        Verdict::NoPath => "no path",
    }
}

/// Mbit/s; zero for no time.
pub fn mbps(bytes: Bytes, span: Span) -> f64 {
    if span.is_zero() { 0.0 } else { bytes.get() as f64 * 8.0 / span.as_secs_f64() / 1e6 }
}

/// Six significant decimals: enough to compare, and no noise to look at.
pub fn rounded(value: f64) -> Value {
    if value.is_finite() { json!((value * 1e6).round() / 1e6) } else { Value::Null }
}

fn completion(config: &SimConfig, verdict: Verdict, elapsed: Span) -> Value {
    let ends = !matches!(config.workload, Workload::Duration { .. });
    if verdict == Verdict::Finished && ends { rounded(elapsed.as_millis_f64()) } else { Value::Null }
}

/// 0: as fast as the best path alone; 1: as fast as all paths alone together.
fn benefit(goodput: f64, singles: &[f64]) -> Value {
    let best = singles.iter().copied().fold(0.0, f64::max);
    let sum: f64 = singles.iter().sum();
    if singles.len() < 2 || sum - best <= sum * 1e-6 { Value::Null } else { rounded((goodput - best) / (sum - best)) }
}

/// Goodput over the most that the links can carry: what would arrive if every path sent full
/// packets from the end of the handshake on. Null where that says nothing.
pub fn efficiency(config: &SimConfig, delivered: Bytes, elapsed: Span) -> Value {
    // What a link that is drawn anew could carry is not known beforehand.
    if config.paths.iter().any(|path| path.data.redraw.is_some()) {
        return Value::Null;
    }
    let start = Instant::ZERO + handshake(config);
    match config.workload {
        Workload::Duration { .. } => {
            let most = carried(config, start, Instant::ZERO + elapsed);
            if most == 0 { Value::Null } else { rounded(delivered.get() as f64 / most as f64) }
        }
        Workload::Bulk { .. } if delivered > Bytes::ZERO => {
            let bound = soonest(config, start, delivered, Instant::ZERO + elapsed).since(Instant::ZERO);
            rounded(bound.as_secs_f64() / elapsed.as_secs_f64())
        }
        _ => Value::Null,
    }
}

/// The fastest handshake: two one-way trips for the side that opens, three for the other.
fn handshake(config: &SimConfig) -> Span {
    let path = |path: &weftway_scenario::config::PathConfig| match config.transport.direction {
        Direction::Upload => least_delay(&path.data) + least_delay(&path.acks),
        Direction::Download => least_delay(&path.data) + least_delay(&path.acks) * 2,
    };
    config.paths.iter().map(path).min().unwrap_or(Span::ZERO)
}

/// The least delay that a link ever has, jitter apart.
fn least_delay(link: &LinkConfig) -> Span {
    let scheduled = link.changes.iter().filter_map(|change| match change.set {
        Set::Delay(delay) => Some(delay),
        _ => None,
    });
    scheduled.fold(link.delay, Span::min)
}

/// Payload that all paths together can bring between `start` and `end`.
fn carried(config: &SimConfig, start: Instant, end: Instant) -> u64 {
    let payload = |bytes: Bytes| bytes.mul_div(config.transport.mss.get(), config.transport.packet.get()).get();
    let mut shared = vec![0; config.shared.len()];
    let mut total = 0;
    for path in &config.paths {
        let last = end - least_delay(&path.data);
        let bytes = payload(if last > start { capacity(&path.data, start, last) } else { Bytes::ZERO });
        match path.via {
            Some(via) => shared[via] += bytes,
            None => total += bytes,
        }
    }
    for (link, bytes) in config.shared.iter().zip(shared) {
        total += bytes.min(payload(capacity(link, start, end)));
    }
    total
}

/// The earliest time by which `bytes` can have been brought; at most `latest`.
fn soonest(config: &SimConfig, start: Instant, bytes: Bytes, latest: Instant) -> Instant {
    let (mut low, mut high) = (start.as_nanos(), latest.as_nanos());
    while high - low.min(high) > 1_000 {
        let middle = low + (high - low) / 2;
        if carried(config, start, Instant::from_nanos(middle)) >= bytes.get() { high = middle } else { low = middle }
    }
    Instant::from_nanos(high)
}

fn connection_counts(put: &mut impl FnMut(&str, Value), config: &SimConfig, sim: &Sim, elapsed: Span) {
    let conn = sim.connection(0);
    let (tally, host) = (&conn.tally, &conn.host.counts);
    let sum = |count: fn(&crate::PathTally) -> u64| conn.path_tallies.iter().map(count).sum::<u64>();
    let (packets, retransmissions) = (sum(|path| path.packets), sum(|path| path.retransmissions));
    let share = |part: u64, whole: u64| if whole == 0 { Value::Null } else { rounded(part as f64 / whole as f64) };
    put("ooo_packets", json!(tally.ooo_packets));
    put("ooo_share", share(tally.ooo_packets, tally.arrived));
    put("reorder_delay_ms", rounded(conn.reordering().mean_wait()));
    put("receive_buffer_max_kb", rounded(conn.reordering().held_max as f64 / 1e3));
    put("receive_buffer_mean_kb", rounded(conn.reordering().held_mean(sim.now(), elapsed) / 1e3));
    put("retransmissions", json!(retransmissions));
    put("retransmission_rate", share(retransmissions, packets));
    put("reinjections", json!(sum(|path| path.reinjections)));
    put("copies", json!(sum(|path| path.copies)));
    put("duplicates", json!(tally.duplicates));
    put("window_drops", json!(tally.window_drops));
    put("timeouts", json!(sum(|path| path.timeouts)));
    put("spurious", json!(sum(|path| path.spurious)));
    let tags = |count: fn(&crate::capture::Capture) -> u64| match config.transport.stack {
        Stack::Mpquic => Value::Null,
        _ => json!(conn.receive.captures.iter().map(count).sum::<u64>()),
    };
    put("ooo_wireshark", tags(|capture| capture.out_of_order));
    put("retx_wireshark", tags(|capture| capture.retransmissions));
    put("decisions", json!(host.decisions));
    put("waits", json!(host.waits));
    put("faults", json!(host.faults));
}

/// Delays of messages by nearest rank; a message that never arrived is late.
fn messages(put: &mut impl FnMut(&str, Value), sim: &Sim) {
    let app = &sim.connection(0).app;
    let mut delays = app.delays.clone();
    delays.sort_unstable();
    let applies = app.has_messages();
    let rank = |percent: usize| match delays.len() {
        n if applies && n > 0 => rounded(delays[(n * percent).div_ceil(100).max(1) - 1].as_millis_f64()),
        _ => Value::Null,
    };
    put("message_p50_ms", rank(50));
    put("message_p95_ms", rank(95));
    put("message_p99_ms", rank(99));
    let (missed, all) = (app.missed + app.outstanding(), delays.len() as u64 + app.outstanding());
    let rate =
        if applies && all > 0 && app.has_deadlines() { rounded(missed as f64 / all as f64) } else { Value::Null };
    put("deadline_miss_rate", rate);
}

fn fairness(put: &mut impl FnMut(&str, Value), config: &SimConfig, sim: &Sim, elapsed: Span) {
    let conn = sim.connection(0);
    let rates: Vec<f64> = conn.path_tallies.iter().map(|path| mbps(Bytes::new(path.delivered), elapsed)).collect();
    let losses =
        conn.path_tallies.iter().map(|path| (path.wire_lost + path.queue_dropped) as f64 / path.packets.max(1) as f64);
    let delays: f64 = (0..config.paths.len()).map(|path| conn.srtt(path).as_secs_f64()).sum();
    balance(put, config, elapsed, &rates);
    put("utility_popov_2025", rounded(rates.iter().sum::<f64>() - delays - losses.sum::<f64>()));
}

/// Jain's index over each path's share of its capacity, in the usual form and in the papers'
/// inverse (Liang et al. 2022 and Xue et al. 2024, eq. 6), and the share of all capacity that was used; `rates` are the
/// paths', in Mbit/s. The utility of Popov et al. 2025 (eq. 1), with unit weights, is beside it in a row.
pub fn balance(put: &mut impl FnMut(&str, Value), config: &SimConfig, elapsed: Span, rates: &[f64]) {
    let end = Instant::ZERO + elapsed;
    let bounds: Vec<f64> =
        config.paths.iter().map(|path| mbps(capacity(&path.data, Instant::ZERO, end), elapsed)).collect();
    let jain = |values: Vec<f64>| {
        let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
        rounded(sum * sum / (values.len() as f64 * squares))
    };
    put("jain", jain(rates.iter().zip(&bounds).map(|(rate, bound)| rate / bound).collect()));
    // Guarded: a path that carried nothing would make it infinite.
    put("jain_inverse", jain(rates.iter().zip(&bounds).map(|(rate, bound)| bound / rate.max(bound * 1e-3)).collect()));
    put("capacity_use", rounded(rates.iter().sum::<f64>() / bounds.iter().sum::<f64>()));
}

fn paths(put: &mut impl FnMut(&str, Value), config: &SimConfig, sim: &Sim, elapsed: Span) {
    let conn = sim.connection(0);
    let total: u64 = conn.path_tallies.iter().map(|path| path.delivered).sum();
    for (at, (path, tally)) in config.paths.iter().zip(&conn.path_tallies).enumerate() {
        let mut put = |name: &str, value: Value| put(&format!("path.{}.{name}", path.name), value);
        put("bytes", json!(tally.delivered));
        put("share", if total == 0 { Value::Null } else { rounded(tally.delivered as f64 / total as f64) });
        put("mean_rate_mbps", rounded(mbps(Bytes::new(tally.delivered), elapsed)));
        put("packets", json!(tally.packets));
        put("retransmissions", json!(tally.retransmissions));
        put("reinjections", json!(tally.reinjections));
        put("lost", json!(tally.wire_lost));
        put("queue_drops", json!(tally.queue_dropped));
        put("timeouts", json!(tally.timeouts));
        put("srtt_ms", rounded(conn.srtt(at).as_millis_f64()));
    }
}
