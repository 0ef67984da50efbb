//! What a run leaves behind: the golden trace byte for byte, the timeline against the connection's
//! own counters, qlog against the drafts' definitions. To make the golden trace anew, say so:
//! `WEFTWAY_BLESS=1 cargo test -p weftway-sim --test logs`.

mod cddl;

use std::path::Path;
use std::sync::{Arc, Mutex};

use cddl::Schema;
use serde_json::{Value, json};
use weftway_link::{Limit, LinkConfig, Loss};
use weftway_path::{BitRate, Bytes, Instant, Role, Span};
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig, Workload};
use weftway_sim::log::{GoldenTrace, Qlog, Timeline};
use weftway_sim::{Host, Listener, PathTally, Sim, Verdict, run};

const REPLAY: &str = "cargo test -p weftway-sim --test logs";

fn path(name: &str, mbps: u64, delay_ms: u64, loss: Loss) -> PathConfig {
    let mut data =
        LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay: Span::from_millis(delay_ms), ..Default::default() };
    data.queue.limit = Limit::Packets(50);
    let acks = data.clone();
    PathConfig {
        name: name.to_owned(),
        role: Role::Active,
        data: LinkConfig { loss, ..data },
        acks,
        via: None,
        presence: vec![],
    }
}

/// Twenty-four packets over two paths. After its handshake, the fourth packet on the first path is lost.
fn tiny() -> SimConfig {
    let paths = vec![path("wifi", 10, 10, Loss::Packets(vec![4])), path("lte", 10, 14, Loss::None)];
    SimConfig::new(TransportConfig::mpquic(), paths, Bytes::new(24 * 1200))
}

/// Seconds with losses, and a path that goes and returns.
fn rough(transport: TransportConfig) -> SimConfig {
    let mut lte = path("lte", 8, 30, Loss::Bernoulli(0.02));
    lte.presence = [0, 1500, 2500].map(Instant::from_millis).to_vec();
    let paths = vec![path("wi-fi \"5 GHz\"", 10, 10, Loss::Bernoulli(0.01)), lte];
    SimConfig::new(transport, paths, Bytes::new(6_000_000))
}

/// Runs `config` under the ears of `listener`; both as they are at the end.
fn heard<L: Listener + 'static>(config: &SimConfig, scheduler: &str, seed: u64, listener: L) -> (Sim, Arc<Mutex<L>>) {
    let mut sim = Sim::new(config, "newreno", seed).unwrap();
    let mut rule = weftway_sched::build(scheduler).unwrap();
    sim.host(0, Host::of(scheduler).unwrap());
    let listener = Arc::new(Mutex::new(listener));
    sim.listen(Box::new(listener.clone()));
    assert_eq!(run::drive(&mut sim, &mut [rule.as_mut()]), Verdict::Finished);
    (sim, listener)
}

fn golden(config: &SimConfig, scheduler: &str, seed: u64) -> String {
    let version = weftway_sched::find(scheduler).expect("the scheduler is registered").version;
    let header = [
        ("title", "twenty-four packets over two paths, one lost".to_owned()),
        ("scheduler", format!("{scheduler}@{version}")),
        ("cc", "newreno".to_owned()),
        ("seed", seed.to_string()),
        ("replay", REPLAY.to_owned()),
    ];
    let (_, trace) = heard(config, scheduler, seed, GoldenTrace::new(Vec::new(), header));
    let text = trace.lock().unwrap().finish().unwrap().clone();
    String::from_utf8(text).unwrap()
}

fn qlog(config: &SimConfig, scheduler: &str, seed: u64) -> (Sim, Vec<u8>) {
    let log = Qlog::new(Vec::new(), config, "a rough ride", [("seed", seed)]);
    let (sim, log) = heard(config, scheduler, seed, log);
    let bytes = log.lock().unwrap().finish().unwrap().clone();
    (sim, bytes)
}

/// The texts of a JSON text sequence (RFC 7464): each between a record separator and a line feed.
fn texts(log: &[u8]) -> Vec<Value> {
    let log = std::str::from_utf8(log).unwrap();
    let records = log.strip_prefix('\x1e').expect("a record separator first").split('\x1e');
    records.map(|record| serde_json::from_str(record.strip_suffix('\n').expect("a line feed last")).unwrap()).collect()
}

fn schema() -> Schema {
    Schema::new(include_str!("qlog.cddl"))
}

fn named<'a>(events: &'a [Value], name: &str) -> Vec<&'a Value> {
    events.iter().filter(|event| event["name"] == name).collect()
}

#[test]
fn the_golden_trace_is_what_it_was() {
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/two-paths.trace");
    let text = golden(&tiny(), "ecf", 1);
    if std::env::var_os("WEFTWAY_BLESS").is_some_and(|value| value == "1") {
        std::fs::write(&file, &text).unwrap();
    }
    let wanted = std::fs::read_to_string(&file).unwrap();
    let difference = text.lines().zip(wanted.lines()).find(|(found, wanted)| found != wanted);
    assert_eq!(difference, None, "found, and what the committed trace has");
    assert_eq!(text, wanted);
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let config = rough(TransportConfig::mpquic());
    assert_eq!(golden(&config, "blest", 3), golden(&config, "blest", 3));
    assert_eq!(qlog(&config, "blest", 3).1, qlog(&config, "blest", 3).1);
    assert_ne!(golden(&config, "blest", 3), golden(&config, "blest", 4).replace("seed: 4", "seed: 3"));
}

#[test]
fn the_timeline_adds_up_to_what_was_delivered() {
    // "redundant" sends each packet on both paths: what comes second must not count.
    for scheduler in ["redundant", "round-robin"] {
        let config = rough(TransportConfig::mpquic());
        let (sim, timeline) = heard(&config, scheduler, 5, Timeline::new(["wifi", "lte"]));
        let json = timeline.lock().unwrap().to_json();
        // A megabit per second is 125 bytes per millisecond.
        let bytes_per_mbps = json["step_ms"].as_f64().unwrap() * 125.0;
        let mut total = 0;
        for (path, tally) in sim.connection(0).path_tallies.iter().enumerate() {
            let rates = json["mbps"][path].as_array().unwrap();
            let bytes = rates.iter().map(|rate| rate.as_f64().unwrap() * bytes_per_mbps).sum::<f64>();
            assert_eq!(bytes.round() as u64, tally.delivered, "{scheduler}, path {path}");
            total += tally.delivered;
            assert!(tally.delivered > 0);
        }
        assert_eq!(total, 6_000_000);
        // It fits into 400 steps: 10 ms each up to 4 s, and twice as long each time that is not enough.
        let doublings = (sim.now().as_secs_f64() / 4.0).log2().ceil().max(0.0);
        assert_eq!(json["step_ms"], 10.0 * doublings.exp2(), "{scheduler} took {}", sim.now());
    }
}

#[test]
fn the_timeline_shows_a_path_that_goes_and_returns() {
    let (_, timeline) = heard(&rough(TransportConfig::mpquic()), "round-robin", 5, Timeline::new(["wifi", "lte"]));
    let json = timeline.lock().unwrap().to_json();
    let keys: Vec<_> = json.as_object().unwrap().keys().map(String::as_str).collect();
    let wanted = "step_ms paths mbps srtt_ms cwnd_kb inflight_kb receive_buffer_kb ooo_kb events decisions";
    assert_eq!(keys.join(" "), wanted);
    let of_lte = |kind: &str| {
        let events = json["events"].as_array().unwrap().iter();
        let times = events.filter(|event| event["path"] == "lte" && event["kind"] == kind);
        times.map(|event| event["t_ms"].as_f64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!(of_lte("down"), [1500.0]);
    let up = of_lte("up");
    assert!(up.len() == 2 && up[1] > 2500.0, "{up:?}");
    // While it is away it has no window and carries nothing.
    let away = (2000.0 / json["step_ms"].as_f64().unwrap()) as usize;
    assert_eq!((&json["cwnd_kb"][1][away], &json["mbps"][1][away]), (&Value::Null, &json!(0.0)));
    assert!(json["cwnd_kb"][0][away].is_number());
}

#[test]
fn qlog_is_what_the_drafts_define() {
    let schema = schema();
    for transport in [TransportConfig::mpquic(), TransportConfig::mptcp_linux_v1(), TransportConfig::mptcp_v09x()] {
        let (_, log) = qlog(&rough(transport), "ecf", 2);
        let texts = texts(&log);
        schema.check(&texts[0], "QlogFileSeq").unwrap();
        let start = String::from_utf8_lossy(&log[..256]).into_owned();
        assert!(start.contains("\"file_schema\":") && start.contains("\"serialization_format\":"), "{start}");
        for event in &texts[1..] {
            schema.check(event, "Event").unwrap();
        }
        let times: Vec<_> = texts[1..].iter().map(|event| event["time"].as_f64().unwrap()).collect();
        assert!(times.is_sorted());
    }
}

#[test]
fn qlog_has_everything_that_was_counted() {
    let (sim, log) = qlog(&rough(TransportConfig::mpquic()), "ecf", 2);
    let (connection, events) = (sim.connection(0), &texts(&log)[1..]);
    let count = |name: &str| named(events, name).len() as u64;
    let total = |counter: fn(&PathTally) -> u64| connection.path_tallies.iter().map(counter).sum::<u64>();
    assert_eq!(count("quic:packet_sent"), total(|path| path.packets));
    assert_eq!(count("quic:packet_lost"), total(|path| path.retransmissions));
    assert_eq!(count("weftway:packet_arrived"), connection.tally.arrived);
    assert_eq!(count("weftway:decision"), connection.host().counts.decisions);
    let lost = named(events, "quic:packet_sent").iter().filter(|event| event["data"]["weftway_fate"] == "lost").count();
    assert_eq!(lost as u64, total(|path| path.wire_lost));
    assert!(lost > 0 && count("quic:congestion_state_updated") > 0);
}

#[test]
fn qlog_logs_a_metric_when_it_changes() {
    let config = SimConfig { workload: Workload::Bulk { bytes: Bytes::new(300_000) }, ..tiny() };
    let (_, log) = qlog(&config, "ecf", 1);
    let events = &texts(&log)[1..];
    for tuple in ["wifi", "lte"] {
        let of_path =
            named(events, "quic:recovery_metrics_updated").into_iter().filter(|event| event["tuple"] == tuple);
        let windows: Vec<_> = of_path.filter_map(|event| event["data"]["congestion_window"].as_u64()).collect();
        assert!(!windows.is_empty() && windows.windows(2).all(|pair| pair[0] != pair[1]), "{tuple}: {windows:?}");
    }
}

#[test]
fn the_check_refuses_what_the_drafts_do_not_define() {
    let schema = schema();
    let sent = json!({
        "time": 1.5, "name": "quic:packet_sent", "tuple": "wifi",
        "data": { "header": { "packet_type": "1RTT", "packet_number": 3 }, "raw": { "length": 1280 } },
    });
    schema.check(&sent, "Event").unwrap();
    let spoil = |change: &dyn Fn(&mut Value)| {
        let mut event = sent.clone();
        change(&mut event);
        assert!(schema.check(&event, "Event").is_err(), "{event}");
    };
    spoil(&|event| event["name"] = json!("transport:packet_sent"));
    spoil(&|event| event["time"] = json!("1.5"));
    spoil(&|event| event["path"] = json!("wifi"));
    spoil(&|event| event["data"]["header"] = json!({ "packet_number": 3 }));
    spoil(&|event| event["data"]["header"]["packet_type"] = json!("1rtt"));
    spoil(&|event| event["data"]["header"]["packet_number"] = json!(-1));
    spoil(&|event| event["data"]["header"]["packet_number_length"] = json!(256));
    spoil(&|event| event["data"]["frames"] = json!([{ "frame_type": "stream" }]));
    spoil(&|event| event["data"]["frames"] = json!([{ "frame_type": "ack", "acked_ranges": [[1, 2, 3]] }]));
    spoil(&|event| event["data"]["frames"] = json!([{ "frame_type": "ack", "acked_ranges": [] }]));
    spoil(&|event| event["data"]["weftway_fate"] = json!("eaten"));
    assert!(schema.check(&json!({ "file_schema": "x", "serialization_format": "y" }), "QlogFileSeq").is_err());
}
