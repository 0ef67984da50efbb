//! qlog files: main schema draft 14, QUIC events draft 13, as JSON text sequences (RFC 7464).
//!
//! What every backend's log has in common. Which event means what: `docs/reference/trace-format.md`.

use std::io::{self, Write};

use serde_json::{Map, Value, json};
use weftway_path::{Instant, PathId};

use crate::sink::Sink;

/// QUIC's events, then ours. A private schema is named by a URI with a domain and a month, and has its namespace in it
/// (main schema, "Event Schema URIs").
const EVENT_SCHEMAS: [&str; 3] = [
    "urn:ietf:params:qlog:events:quic-13",
    "https://github.com/weftway/weftway/112026/qlog/weftway",
    "https://github.com/weftway/weftway/112026/qlog/quic#weftway",
];

/// The schema of what a simulated run is called and how it was made.
pub const SIMULATION: &str = "urn:ietf:params:qlog:events:simulation";

/// RFC 7464 §2.2: each text starts with it and ends with a line feed.
const RECORD_SEPARATOR: u8 = 0x1e;

/// Figures of a path's recovery as last logged: only changes are logged.
type Metrics = [Option<u64>; 3];

/// Head of a file.
#[derive(Clone, Copy, Debug)]
pub struct Head<'a> {
    /// Name of the run.
    pub title: &'a str,
    /// Reading of the events.
    pub description: &'a str,
    /// The sender of the data, who sees the events, is the client.
    pub is_client: bool,
    /// Another schema that the file uses.
    pub schema: Option<&'a str>,
}

/// A qlog file that is written.
#[derive(Debug)]
pub struct Qlog<W: Write> {
    out: Sink<W>,
    /// Names of the paths.
    names: Vec<String>,
    metrics: Vec<Metrics>,
}

impl<W: Write> Qlog<W> {
    /// A file with this head, about paths with these names.
    pub fn new(out: W, head: &Head<'_>, names: Vec<String>) -> Self {
        let mut qlog = Self { out: Sink::new(out), metrics: vec![Metrics::default(); names.len()], names };
        qlog.record(&head.record());
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

    /// An event, of a path or of the connection.
    pub fn event(&mut self, now: Instant, name: &str, path: Option<PathId>, data: Value) {
        let mut event = json!({ "time": now.as_nanos() as f64 / 1e6, "name": name });
        if let Some(path) = path {
            event["tuple"] = json!(self.name(path));
        }
        event["data"] = data;
        self.record(&event);
    }

    /// A path without a name goes by its number.
    fn name(&self, path: PathId) -> String {
        self.names.get(path.index()).cloned().unwrap_or_else(|| path.get().to_string())
    }

    /// Logs the changes of a path's smoothed round-trip time (µs), window and bytes in flight.
    pub fn metrics(&mut self, now: Instant, path: PathId, [srtt_us, cwnd, in_flight]: [u64; 3]) {
        if self.metrics.len() <= path.index() {
            self.metrics.resize(path.index() + 1, Metrics::default());
        }
        let current = [Some(srtt_us).filter(|&us| us > 0), Some(cwnd), Some(in_flight)];
        let logged = std::mem::replace(&mut self.metrics[path.index()], current);
        let values = [json!(srtt_us as f64 / 1e3), json!(cwnd), json!(in_flight)];
        let names = ["smoothed_rtt", "congestion_window", "bytes_in_flight"];
        let changed = (0..3).filter(|&n| current[n].is_some() && current[n] != logged[n]);
        let data: Map<_, _> = changed.map(|n| (names[n].to_owned(), values[n].clone())).collect();
        if !data.is_empty() {
            self.event(now, "quic:recovery_metrics_updated", Some(path), data.into());
        }
    }

    /// A packet was declared lost.
    pub fn lost(&mut self, now: Instant, path: PathId, number: u64) {
        self.event(now, "quic:packet_lost", Some(path), json!({ "header": packet(number) }));
    }

    /// A controller entered this state for this reason.
    pub fn congestion(&mut self, now: Instant, path: PathId, new: &str, trigger: &str) {
        self.event(now, "quic:congestion_state_updated", Some(path), json!({ "new": new, "trigger": trigger }));
    }

    /// A path came or went. It is a tuple; one whose ends are left out is abandoned (QUIC events, `tuple_assigned`).
    pub fn tuple(&mut self, now: Instant, path: PathId, up: bool) {
        let mut data = json!({ "tuple_id": self.name(path) });
        if up {
            data["tuple_remote"] = json!({});
            data["tuple_local"] = json!({});
        } else if let Some(metrics) = self.metrics.get_mut(path.index()) {
            *metrics = Metrics::default();
        }
        self.event(now, "quic:tuple_assigned", Some(path), data);
    }
}

impl Head<'_> {
    /// The file's first record. Tools look for schema and format in its first 256 bytes.
    fn record(&self) -> Value {
        let (quic, ours) = EVENT_SCHEMAS.split_at(1);
        let schemas: Vec<&str> = quic.iter().copied().chain(self.schema).chain(ours.iter().copied()).collect();
        json!({
            "file_schema": "urn:ietf:params:qlog:file:sequential",
            "serialization_format": "application/qlog+json-seq",
            "title": self.title,
            "description": self.description,
            "trace": {
                "vantage_point": { "name": "weftway", "type": if self.is_client { "client" } else { "server" } },
                "common_fields": {
                    "time_format": "relative_to_epoch",
                    "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
                },
                "event_schemas": schemas,
            },
        })
    }
}

/// The header of a packet with this number.
pub fn packet(number: u64) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": number })
}

/// The frame that carries these data.
pub fn data_frame(offset: u64, bytes: u64) -> Value {
    json!({ "frame_type": "stream", "stream_id": 0, "offset": offset, "raw": { "payload_length": bytes } })
}
