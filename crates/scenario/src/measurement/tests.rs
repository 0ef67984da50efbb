use std::collections::{BTreeMap, BTreeSet};

use serde_json::Value;
use weftway_path::BitRate;

use super::*;
use crate::config::FlowKind;

/// Wi-Fi of 8 Mbit/s and 10 ms, LTE of 4 Mbit/s and 20 ms, each way.
fn config(workload: Workload) -> SimConfig {
    let path = |name: &str, mbps, ms| {
        let delay = Span::from_millis(ms);
        let link = LinkConfig { rate: BitRate::from_mbps(mbps).into(), delay, ..LinkConfig::default() };
        let (name, data, acks) = (name.to_owned(), link.clone(), link);
        PathConfig { name, role: Role::Active, data, acks, via: None, presence: Vec::new() }
    };
    let paths = vec![path("wifi", 8, 10), path("lte", 4, 20)];
    SimConfig { workload, ..SimConfig::new(TransportConfig::mptcp_linux_v1(), paths, Bytes::ZERO) }
}

fn for_a_second() -> Workload {
    Workload::Duration { span: Span::from_secs(1) }
}

fn messages(deadline: Option<Span>) -> Workload {
    Workload::Messages { sizes: Vec::new(), period: Span::from_millis(10), count: 4, deadline }
}

/// A second, of which every backend knows so much.
fn measurement() -> Measurement {
    let path = |bytes, packets, retransmissions, srtt| PathFigures {
        delivered: Bytes::new(bytes),
        packets,
        retransmissions,
        srtt: Span::from_millis(srtt),
        wire: Some(Bytes::new(bytes + 80 * packets)),
        ..PathFigures::default()
    };
    Measurement {
        verdict: Verdict::Finished,
        elapsed: Span::from_secs(1),
        delivered: Bytes::new(900_000),
        singles: Singles::default(),
        counts: Counts::default(),
        reordering: None,
        fallback: None,
        chosen: None,
        messages: Messages::default(),
        back: None,
        paths: vec![path(700_000, 800, 6, 30), path(200_000, 200, 4, 50)],
        real_time: None,
        became_tcp: None,
        rival_delivered: None,
    }
}

/// The same, as the simulator knows it.
fn simulated() -> Measurement {
    let mut measurement = measurement();
    measurement.singles = Singles { alone: vec![6.0, 3.0], fair: vec![5.2, 2.8] };
    measurement.counts = Counts {
        arrived: Some(990),
        out_of_order: Some(99),
        reinjections: Some(3),
        copies: Some(2),
        duplicates: Some(1),
        window_drops: Some(0),
        timeouts: Some(5),
        spurious: Some(4),
        capture_out_of_order: Some(7),
        capture_retransmissions: Some(9),
        decisions: Some(1100),
        waits: Some(100),
        faults: Some(0),
    };
    measurement.reordering = Some(Reordering { mean_wait_ms: 1.25, held_max: 54_321, held_mean: 1_500.0 });
    measurement.fallback = Some(FallbackTally { decided: 12, differs: 34 });
    measurement.chosen = Some(Bytes::new(300_000));
    for (path, lost) in measurement.paths.iter_mut().zip([8, 0]) {
        path.reinjections = Some(1);
        (path.lost, path.queue_drops, path.lost_or_dropped) = (Some(lost), Some(0), Some(lost));
        path.timeouts = Some(2);
    }
    measurement
}

fn lines(row: &Row) -> String {
    row.iter().map(|(name, value)| format!("{name} {value}\n")).collect()
}

/// The best alone brings 6 Mbit/s, both 9: (7.2 − 6) / (9 − 6). With the same handshake it is 5.2 of 8: (7.2 − 5.2) /
/// (8 − 5.2) = 5/7. After a handshake of 10 + 2 · 10 ms, Wi-Fi can bring 960 ms · 1 MB/s and LTE 950 ms · 0.5 MB/s, of
/// which 1424/1500 are payload: 1 362 293 B. Wi-Fi is used to 0.7, LTE to 0.4: 1.1² / (2 · (0.7² + 0.4²)). The utility
/// is 7.2 − (0.03 + 0.05) − 8/800.
#[test]
fn a_row_has_these_columns_in_this_order() {
    let row = simulated().row(&config(for_a_second()));
    assert_eq!(
        lines(&row),
        r#"verdict "finished"
fct_ms null
goodput_mbps 7.2
goodput_kbytes 900.0
sent_mib 0.858307
delivered_bytes 900000
elapsed_ms 1000.0
aggregation_benefit 0.4
benefit_fair 0.714286
best_single_mbps 6.0
efficiency 0.660651
ooo_packets 99
ooo_share 0.1
reorder_delay_ms 1.25
receive_buffer_max_kb 54.321
receive_buffer_mean_kb 1.5
retransmissions 10
retransmission_rate 0.01
reinjections 3
copies 2
duplicates 1
window_drops 0
timeouts 5
spurious 4
ooo_wireshark 7
retx_wireshark 9
decisions 1100
waits 100
faults 0
fallback_decided 12
fallback_differs 34
chosen_rate_mbps 2.4
message_p50_ms null
message_p95_ms null
message_p99_ms null
deadline_miss_rate null
jain 0.930769
jain_inverse 0.930769
capacity_use 0.6
utility_popov_2025 7.11
path.wifi.bytes 700000
path.wifi.share 0.777778
path.wifi.mean_rate_mbps 5.6
path.wifi.packets 800
path.wifi.retransmissions 6
path.wifi.reinjections 1
path.wifi.lost 8
path.wifi.queue_drops 0
path.wifi.timeouts 2
path.wifi.srtt_ms 30.0
path.lte.bytes 200000
path.lte.share 0.222222
path.lte.mean_rate_mbps 1.6
path.lte.packets 200
path.lte.retransmissions 4
path.lte.reinjections 1
path.lte.lost 0
path.lte.queue_drops 0
path.lte.timeouts 2
path.lte.srtt_ms 50.0
"#
    );
}

#[test]
fn what_a_backend_does_not_know_is_null_in_the_same_columns() {
    let config = config(for_a_second());
    let (known, unknown) = (simulated().row(&config), measurement().row(&config));
    assert!(known.keys().eq(unknown.keys()));
    for column in [
        "benefit_fair",
        "best_single_mbps",
        "ooo_share",
        "reorder_delay_ms",
        "copies",
        "decisions",
        "fallback_decided",
        "chosen_rate_mbps",
        "utility_popov_2025",
    ] {
        assert!(unknown[column].is_null() && !known[column].is_null(), "{column}");
    }
}

#[test]
fn a_run_in_real_time_says_how_punctual_it_was() {
    let real_time = RealTime { late: false, mean: Span::from_nanos(12_345), over_1ms: 6 };
    let measurement = Measurement { real_time: Some(real_time), became_tcp: Some(true), ..measurement() };
    let row = lines(&measurement.row(&config(for_a_second())));
    assert!(row.ends_with("fallback true\nlate false\nlate_mean_us 12.345\nlate_over_1ms 6\n"), "{row}");
}

/// Of 1 to 3 ms, half is 2, and 95 % is 3. With a deadline of 2 ms one is late and one never came: 2 of 4.
#[test]
fn a_message_that_did_not_arrive_has_no_delay_and_missed_its_deadline() {
    let delays = [3, 1, 2].map(Span::from_millis).to_vec();
    let measurement =
        Measurement { messages: Messages { delays, outstanding: 1, ..Messages::default() }, ..measurement() };
    let figures = |workload| {
        let row = measurement.row(&config(workload));
        ["message_p50_ms", "message_p95_ms", "deadline_miss_rate"].map(|column| row[column].as_f64())
    };
    assert_eq!(figures(messages(Some(Span::from_millis(2)))), [Some(2.0), Some(3.0), Some(0.5)]);
    assert_eq!(figures(messages(None)), [Some(2.0), Some(3.0), None]);
    assert_eq!(figures(for_a_second()), [None; 3]);
}

#[test]
fn only_what_ends_by_itself_has_a_completion_time() {
    let bulk = || Workload::Bulk { bytes: Bytes::new(900_000) };
    let time = |verdict, workload| Measurement { verdict, ..measurement() }.row(&config(workload))["fct_ms"].as_f64();
    assert_eq!(time(Verdict::Finished, bulk()), Some(1000.0));
    assert_eq!(time(Verdict::TimeLimit, bulk()), None);
    assert_eq!(time(Verdict::Finished, for_a_second()), None);
}

/// 20 ms of speech in a packet that is played 150 ms later: 170 ms from mouth to ear, Id = 0.024 · 170 = 4.08. Of 100
/// packets 2 come late and one never: Ie,eff = 95 · 3 / 28.1 = 10.142, R = 93.2 − 4.08 − 10.142 = 78.978, and
/// MOS = 1 + 0.035 · 78.978 + 78.978 · 18.978 · 21.022 · 7e-6 = 3.9848. Played after 380 ms, Id = 9.6 + 0.11 · 222.7 =
/// 34.097, and of 3 % lost R = 48.961.
#[test]
fn speech_is_rated_by_the_e_model() {
    let delays = [vec![Span::from_millis(60); 97], vec![Span::from_millis(500); 2]].concat();
    let measurement =
        Measurement { messages: Messages { delays, outstanding: 1, ..Messages::default() }, ..measurement() };
    let voip = |deadline| {
        let (period, deadline) = (Span::from_millis(20), Span::from_millis(deadline));
        let (bytes, span) = (Bytes::new(172), Span::from_secs(2));
        let row = measurement.row(&config(Workload::Voip { bytes, period, deadline, span }));
        ["deadline_miss_rate", "r_factor", "mos"].map(|column| row[column].as_f64().unwrap())
    };
    let near = |found: [f64; 3], wanted: [f64; 3]| {
        assert!(found.iter().zip(wanted).all(|(a, b)| (a - b).abs() < 1e-3), "{found:?}");
    };
    near(voip(150), [0.03, 78.978, 3.9848]);
    assert!((voip(380)[1] - 48.961).abs() < 1e-3);
    assert!(measurement.row(&config(for_a_second())).get("mos").is_none());
}

/// Forth 10 ms and one late of two, back 30 ms and none late: the call is as slow as the way back, as late as the way
/// forth.
#[test]
fn a_call_is_as_good_as_its_worse_direction() {
    let frames = |ms, outstanding| Messages { delays: vec![Span::from_millis(ms)], outstanding, classes: vec![] };
    let (forth, back) = (frames(10, 1), Some(frames(30, 0)));
    let (rate, deadline) = (BitRate::from_mbps(1), Span::from_millis(100));
    let call = Workload::Call { rate, back: rate, period: deadline, deadline, span: deadline };
    let row = Measurement { messages: forth, back, ..measurement() }.row(&config(call));
    let found =
        ["message_p99_ms", "back_p99_ms", "call_p99_ms", "deadline_miss_rate", "back_miss_rate", "call_miss_rate"]
            .map(|column| row[column].as_f64().unwrap());
    assert_eq!(found, [10.0, 30.0, 30.0, 0.5, 0.0, 0.5]);
}

/// Interactive flows took 1 and 3 ms, those of bulk 100 ms.
#[test]
fn flows_have_figures_for_each_class() {
    let delays = [3, 100, 1].map(Span::from_millis).to_vec();
    let messages = Messages { delays, outstanding: 0, classes: vec![1, 2, 1] };
    let row = Measurement { messages, ..measurement() }.row(&config(flows()));
    let figures = |class: &str| ["mean", "p50", "p95", "p99"].map(|name| row[&format!("{class}_{name}_ms")].as_f64());
    assert_eq!(figures("interactive"), [2.0, 1.0, 3.0, 3.0].map(Some));
    assert_eq!(figures("bulk"), [Some(100.0); 4]);
    assert_eq!(row["message_p50_ms"], 3.0);
    let row = measurement().row(&config(flows()));
    assert!(row["bulk_mean_ms"].is_null() && row["interactive_p95_ms"].is_null());
    assert!(measurement().row(&config(for_a_second())).get("bulk_mean_ms").is_none());
}

fn flows() -> Workload {
    let kind = FlowKind { class: FlowClass::Bulk, weight: 1, median: Bytes::new(1000), sigma: 0.0 };
    Workload::Flows { mean_gap: Span::from_millis(1), count: 3, kinds: vec![kind] }
}

/// The type of a value, if it has one.
fn type_of(value: &Value) -> Option<ColumnType> {
    match value {
        Value::String(_) => Some(ColumnType::Text),
        Value::Number(number) if number.is_u64() => Some(ColumnType::Integer),
        Value::Number(_) => Some(ColumnType::Float),
        Value::Bool(_) => Some(ColumnType::Boolean),
        _ => None,
    }
}

#[test]
fn the_schema_has_every_column_of_every_run_and_the_type_of_its_values() {
    let schema: BTreeMap<String, ColumnType> = schema().into_iter().collect();
    let span = Span::from_millis(20);
    let delayed = || Messages { delays: vec![span; 2], outstanding: 1, classes: vec![1, 2] };
    let real_time = RealTime { late: false, mean: span, over_1ms: 6 };
    let whole = Measurement { messages: delayed(), back: Some(delayed()), real_time: Some(real_time), ..simulated() };
    let whole = Measurement { became_tcp: Some(false), rival_delivered: Some(Bytes::new(7)), ..whole };
    let speech = Workload::Voip { bytes: Bytes::new(160), period: span, deadline: span, span };
    let both = BitRate::from_mbps(1);
    let call = Workload::Call { rate: both, back: both, period: span, deadline: span, span };
    let mut told = BTreeSet::new();
    let bulk = Workload::Bulk { bytes: Bytes::new(900_000) };
    for workload in [for_a_second(), messages(Some(span)), speech, call, flows(), datagrams(span), bulk] {
        let policy = Policy { paths: vec![PathPolicy::default(); 2], thresholds: Thresholds::default() };
        for (column, value) in whole.row(&SimConfig { policy: Some(policy), ..config(workload) }) {
            let name = column.replace("path.wifi.", "path.*.").replace("path.lte.", "path.*.");
            let declared = schema.get(&name).unwrap_or_else(|| panic!("{column} is in no schema"));
            assert!(
                type_of(&value).is_none_or(|found| found == *declared),
                "{column} is {value}, and not {declared:?}"
            );
            told.extend(type_of(&value).map(|_| name));
        }
    }
    // Each was compared with a value once.
    assert!(schema.keys().eq(told.iter()), "{schema:?} {told:?}");
}

fn datagrams(deadline: Span) -> Workload {
    Workload::Datagrams { bytes: Bytes::new(1000), rate: None, period: deadline, deadline, span: deadline }
}

/// Of ten datagrams two come after 30 ms and one does not come. 26 packets are sent, of which 4 copies and 2 for what
/// was lost: 6 of 20 more.
#[test]
fn datagrams_are_late_or_lost_and_cost_what_is_sent_more() {
    let delays = [10, 20, 30, 31, 12, 12, 12, 12, 90].map(Span::from_millis).to_vec();
    let config = config(datagrams(Span::from_millis(30)));
    let paths = [16, 10].map(|packets| PathFigures { packets, ..PathFigures::default() });
    let counts = Counts { copies: Some(4), reinjections: Some(2), ..Counts::default() };
    let messages = Messages { delays, outstanding: 1, ..Messages::default() };
    let row = Measurement { messages, counts, paths: paths.to_vec(), ..nothing(&config) }.row(&config);
    let figures = ["late_share", "lost_share", "deadline_miss_rate", "overhead"].map(|name| row[name].as_f64());
    assert_eq!(figures, [0.2, 0.1, 0.3, 0.3].map(Some));
}

/// 100 delays of 1 to 100 ms: 50 of them keep 50 ms; of those that are no matter of luck, twice as long, 99 keep 198.
#[test]
fn a_bound_has_the_figures_of_a_run() {
    let config = config(messages(None));
    let delays: Vec<_> = (1..=100).rev().map(Span::from_millis).collect();
    let tail = delays.iter().map(|&delay| delay * 2).collect();
    let known = Bound { completion: Some(Span::from_secs(2)), delays, tail, delivered: None };
    let row = bound(&known, &config);
    let figures = ["bound_fct_ms", "bound_p50_ms", "bound_p95_ms", "bound_p99_ms"].map(|name| row[name].as_f64());
    assert_eq!(figures, [2000.0, 50.0, 190.0, 198.0].map(Some));
    assert_eq!(row["bound_bytes"], Value::Null);
    // If not all of them can arrive, which delay 99 of 100 keep is not known.
    let row = bound(&Bound { completion: None, ..known }, &config);
    assert!(row.values().all(Value::is_null), "{row:?}");
    let row = bound(&Bound { delivered: Some(Bytes::new(7)), ..Bound::default() }, &self::config(for_a_second()));
    assert_eq!(row["bound_bytes"], 7);
}
