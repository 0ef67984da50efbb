//! A run as qlog: main schema draft 14, QUIC events draft 13, as JSON text sequences (RFC 7464).
//!
//! The vantage point is the sender of the data. What its receiver sees, and what only a simulator
//! knows, has events and fields of our own, under their own schema URIs. Which note becomes which
//! event, and how MPTCP is mapped: `docs/reference/trace-format.md`.

use std::fmt::Display;
use std::io::{self, Write};

use serde_json::{Map, Value, json};
use weftway_cc::Signal;
use weftway_host::Decided;
use weftway_link::{Reason, Verdict};
use weftway_path::{Decision, Instant, Offset, PathId};
use weftway_scenario::config::{Direction, SimConfig, Stack};

use super::golden::parts;
use super::sink::Sink;
use crate::tap::{Listener, Note};

/// What the events are: the drafts' own, then ours. A private schema is named by a URI with a
/// domain and a month, and has its namespace in it (main schema, "Event Schema URIs").
const EVENT_SCHEMAS: [&str; 4] = [
    "urn:ietf:params:qlog:events:quic-13",
    "urn:ietf:params:qlog:events:simulation",
    "https://github.com/weftway/weftway/112026/qlog/weftway",
    "https://github.com/weftway/weftway/112026/qlog/quic#weftway",
];

/// RFC 7464 §2.2: each text starts with it and ends with a line feed.
const RECORD_SEPARATOR: u8 = 0x1e;

/// What was last logged of a path's recovery: only changes are logged.
type Metrics = [Option<u64>; 3];

/// A listener that writes a run as qlog.
pub struct Qlog<W: Write> {
    out: Sink<W>,
    names: Vec<String>,
    metrics: Vec<Metrics>,
    mptcp: bool,
    /// What packets have on the wire beside their payload.
    headers: u64,
    ack_packet: u64,
}

impl<W: Write> Qlog<W> {
    /// A qlog of a run of `config` into `out`; `details` say how the run was made.
    pub fn new(
        out: W,
        config: &SimConfig,
        title: &str,
        details: impl IntoIterator<Item = (impl Display, impl Display)>,
    ) -> Self {
        let transport = &config.transport;
        let mut qlog = Self {
            out: Sink::new(out),
            names: config.paths.iter().map(|path| path.name.clone()).collect(),
            metrics: vec![Metrics::default(); config.paths.len()],
            mptcp: transport.rules.joins,
            headers: (transport.packet - transport.mss).get(),
            ack_packet: transport.ack_packet.get(),
        };
        qlog.record(&header(config, title));
        let details: Map<_, _> =
            details.into_iter().map(|(key, value)| (key.to_string(), value.to_string().into())).collect();
        qlog.event(Instant::ZERO, "simulation:scenario", None, json!({ "name": title, "details": details }));
        qlog
    }

    /// Writes out what is buffered. The first error since the start is reported here, once.
    pub fn finish(&mut self) -> io::Result<&W> {
        self.out.finish()
    }

    fn record(&mut self, value: &Value) {
        self.out.with(|out| {
            out.write_all(&[RECORD_SEPARATOR])?;
            serde_json::to_writer(&mut *out, value)?;
            out.write_all(b"\n")
        });
    }

    fn event(&mut self, now: Instant, name: &str, path: Option<PathId>, data: Value) {
        let mut event = json!({ "time": now.as_nanos() as f64 / 1e6, "name": name });
        if let Some(path) = path {
            event["tuple"] = json!(self.names[path.index()]);
        }
        event["data"] = data;
        self.record(&event);
    }

    fn sent(&mut self, now: Instant, path: PathId, index: u64, range: (Offset, u32), verdict: Verdict) {
        let (offset, bytes) = (range.0.get(), u64::from(range.1));
        let frame = json!({
            "frame_type": "stream", "stream_id": 0, "offset": offset, "raw": { "payload_length": bytes }
        });
        let mut data = json!({
            "header": packet(index), "raw": { "length": bytes + self.headers }, "frames": [frame]
        });
        if let Some(fate) = fate(verdict) {
            data["weftway_fate"] = json!(fate);
        }
        self.event(now, "quic:packet_sent", Some(path), data);
    }

    /// The acknowledgement itself, then what it changed.
    fn acked(&mut self, now: Instant, path: PathId, cum: u64, una: Offset, metrics: [u64; 3]) {
        let mut frame = json!({ "frame_type": "ack" });
        // MPTCP: exact. QUIC numbers below may be lost for good, so that no range is claimed.
        if self.mptcp && cum > 0 {
            frame["acked_ranges"] = if cum == 1 { json!([[0]]) } else { json!([[0, cum - 1]]) };
        }
        let data = json!({
            "header": { "packet_type": "1RTT" },
            "raw": { "length": self.ack_packet },
            "frames": [frame],
            "weftway_settled_below": cum,
            "weftway_una": una.get(),
        });
        self.event(now, "quic:packet_received", Some(path), data);
        self.metrics(now, path, metrics);
    }

    fn metrics(&mut self, now: Instant, path: PathId, [srtt_us, cwnd, in_flight]: [u64; 3]) {
        let logged = std::mem::replace(
            &mut self.metrics[path.index()],
            [Some(srtt_us).filter(|&us| us > 0), Some(cwnd), Some(in_flight)],
        );
        let current = self.metrics[path.index()];
        let values = [json!(srtt_us as f64 / 1e3), json!(cwnd), json!(in_flight)];
        let names = ["smoothed_rtt", "congestion_window", "bytes_in_flight"];
        let changed = (0..3).filter(|&n| current[n].is_some() && current[n] != logged[n]);
        let data: Map<_, _> = changed.map(|n| (names[n].to_owned(), values[n].clone())).collect();
        if !data.is_empty() {
            self.event(now, "quic:recovery_metrics_updated", Some(path), data.into());
        }
    }

    fn decided(&mut self, now: Instant, hand: Option<Offset>, decision: Decision, why: Option<&str>) {
        let (answer, path, asked) = parts(decision);
        let mut data = json!({ "answer": answer });
        if let Some(offset) = hand {
            data["offset"] = json!(offset.get());
        }
        if let Some(offset) = asked {
            data["asked"] = json!(offset.get());
        }
        if let Some(why) = why {
            data["reason"] = json!(why);
        }
        self.event(now, "weftway:decision", path, data);
    }

    fn congestion(&mut self, now: Instant, path: PathId, signal: Signal) {
        let (new, trigger) = match signal {
            Signal::Loss => ("recovery", "packet_loss"),
            Signal::Ecn => ("recovery", "ecn"),
            Signal::Timeout => ("slow_start", "retransmission_timeout"),
            Signal::Persistent => ("slow_start", "persistent_congestion"),
        };
        self.event(now, "quic:congestion_state_updated", Some(path), json!({ "new": new, "trigger": trigger }));
    }

    /// A path is a tuple; one whose ends are left out is abandoned (QUIC events, `tuple_assigned`).
    fn tuple(&mut self, now: Instant, path: PathId, up: bool) {
        let mut data = json!({ "tuple_id": self.names[path.index()] });
        if up {
            data["tuple_remote"] = json!({});
            data["tuple_local"] = json!({});
        } else {
            self.metrics[path.index()] = Metrics::default();
        }
        self.event(now, "quic:tuple_assigned", Some(path), data);
    }
}

impl<W: Write + Send> Listener for Qlog<W> {
    fn note(&mut self, now: Instant, conn: u8, note: &Note) {
        if conn != 0 {
            return;
        }
        match *note {
            Note::Decided(Decided { offset, decision, ref why }) => self.decided(now, offset, decision, why.as_deref()),
            Note::Sent { path, index, offset, bytes, verdict } => self.sent(now, path, index, (offset, bytes), verdict),
            Note::Arrived { path, index, offset, bytes, in_order_to, held } => {
                let data = json!({
                    "packet_number": index, "offset": offset.get(), "length": bytes,
                    "in_order_to": in_order_to.get(), "held": held,
                });
                self.event(now, "weftway:packet_arrived", Some(path), data);
            }
            Note::Acked { path, cum, una, cwnd, in_flight, srtt_us } => {
                self.acked(now, path, cum, una, [srtt_us, cwnd, in_flight]);
            }
            Note::Lost { path, index } => {
                self.event(now, "quic:packet_lost", Some(path), json!({ "header": packet(index) }));
            }
            Note::Timeout { path, kind } => {
                let data = json!({ "timer_type": kind, "event_type": "expired" });
                self.event(now, "quic:timer_updated", Some(path), data);
            }
            Note::Congestion { path, signal } => self.congestion(now, path, signal),
            Note::Up(path) => self.tuple(now, path, true),
            Note::Down(path) => self.tuple(now, path, false),
        }
    }
}

/// The file's first record. Tools look for schema and format in its first 256 bytes.
fn header(config: &SimConfig, title: &str) -> Value {
    let sender = match config.transport.direction {
        Direction::Upload => "client",
        Direction::Download => "server",
    };
    let mapping = match config.transport.stack {
        Stack::Mpquic => "simulated Multipath QUIC, seen by the sender of the data",
        _ => "simulated MPTCP, seen by the sender of the data: a packet is a segment, numbered on its subflow",
    };
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "description": mapping,
        "trace": {
            "vantage_point": { "name": "weftway", "type": sender },
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
            },
            "event_schemas": EVENT_SCHEMAS,
        },
    })
}

fn packet(index: u64) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": index })
}

/// What a simulator knows when a packet leaves and its sender does not.
fn fate(verdict: Verdict) -> Option<&'static str> {
    match verdict {
        Verdict::Queued => None,
        Verdict::Lost => Some("lost"),
        Verdict::Dropped(Reason::Queue) => Some("queue_full"),
        Verdict::Dropped(Reason::Down) => Some("link_down"),
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, Role};

    use super::*;
    use weftway_scenario::config::{PathConfig, Transport};

    const PATH: PathId = PathId::new(0);

    /// The records that follow from `note`, 1.5 ms into a run of `transport`.
    fn records(transport: Transport, note: &Note) -> Vec<String> {
        let path = PathConfig {
            name: "wifi".to_owned(),
            role: Role::Active,
            data: Default::default(),
            acks: Default::default(),
            via: None,
            presence: Vec::new(),
        };
        let config = SimConfig::new(transport, vec![path], Bytes::new(1));
        let mut log = Qlog::new(Vec::new(), &config, "one note", [("seed", 1)]);
        log.note(Instant::from_micros(1500), 0, note);
        let text = String::from_utf8(log.finish().unwrap().clone()).unwrap();
        text.split_terminator('\n').skip(2).map(str::to_owned).collect()
    }

    fn acked(cum: u64) -> Note {
        Note::Acked { path: PATH, cum, una: Offset::new(2400), cwnd: 12_000, in_flight: 1200, srtt_us: 20_250 }
    }

    #[test]
    fn a_record_is_framed_and_times_are_milliseconds() {
        let records = records(Transport::mpquic(), &Note::Lost { path: PATH, index: 7 });
        let event = r#"{"time":1.5,"name":"quic:packet_lost","tuple":"wifi","#;
        let data = r#""data":{"header":{"packet_type":"1RTT","packet_number":7}}}"#;
        assert_eq!(records, [format!("\x1e{event}{data}")]);
    }

    #[test]
    fn an_acknowledgement_comes_with_what_it_changed() {
        let records = records(Transport::mpquic(), &acked(2));
        assert_eq!(records.len(), 2);
        assert!(records[0].contains(r#""frames":[{"frame_type":"ack"}],"weftway_settled_below":2,"weftway_una":2400"#));
        let metrics = r#"{"smoothed_rtt":20.25,"congestion_window":12000,"bytes_in_flight":1200}"#;
        assert!(records[1].contains(metrics), "{}", records[1]);
    }

    #[test]
    fn mptcp_acknowledges_all_segments_below() {
        let frame = |cum| {
            let record = records(Transport::mptcp_linux_v1(), &acked(cum)).remove(0);
            let start = record.find(r#"{"frame_type""#).unwrap();
            record[start..record.find("],\"weftway").unwrap()].to_owned()
        };
        assert_eq!(frame(0), r#"{"frame_type":"ack"}"#);
        assert_eq!(frame(1), r#"{"frame_type":"ack","acked_ranges":[[0]]}"#);
        assert_eq!(frame(5), r#"{"frame_type":"ack","acked_ranges":[[0,4]]}"#);
    }

    #[test]
    fn a_path_that_goes_is_a_tuple_without_ends() {
        let data = |note| records(Transport::mpquic(), &note)[0].split_once(r#""data":"#).unwrap().1.to_owned();
        assert_eq!(data(Note::Up(PATH)), r#"{"tuple_id":"wifi","tuple_remote":{},"tuple_local":{}}}"#);
        assert_eq!(data(Note::Down(PATH)), r#"{"tuple_id":"wifi"}}"#);
    }
}
