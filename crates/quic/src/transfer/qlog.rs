//! A transfer as qlog: main schema draft 14, QUIC events draft 13, as JSON text sequences (RFC 7464), with the events that a
//! simulated run has (`docs/reference/trace-format.md`).
//!
//! The log is a scheduler around the scheduler: it writes down what the host tells it and what it answers. Without a log
//! there is none, so it costs nothing.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::{Map, Value, json};
use weftway_path::{Bytes, Context, Decision, Event, Instant, PathId, Receipt};
use weftway_sched::{FallbackTally, Needs, Scheduler};

/// The schemas of the events, as simulated runs name them.
const EVENT_SCHEMAS: [&str; 3] = [
    "urn:ietf:params:qlog:events:quic-13",
    "https://github.com/weftway/weftway/112026/qlog/weftway",
    "https://github.com/weftway/weftway/112026/qlog/quic#weftway",
];

/// RFC 7464 §2.2: each text starts with it and ends with a line feed.
const RECORD_SEPARATOR: u8 = 0x1e;

/// What was last logged of a path's recovery: only changes are logged.
type Metrics = [Option<u64>; 3];

/// A file that several schedulers may write in turn.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Lines>>);

struct Lines {
    out: BufWriter<File>,
    /// The first error: nothing is written after it.
    error: Option<io::Error>,
    /// What the paths are called.
    names: Vec<String>,
    metrics: Vec<Metrics>,
    /// What a packet holds beside its data.
    overhead: u64,
}

impl Log {
    /// A log of a transfer that this end, a client or a server, sends over paths with these names.
    pub fn create(
        file: &FilePath,
        title: &str,
        is_client: bool,
        names: Vec<String>,
        overhead: u64,
    ) -> io::Result<Self> {
        let metrics = vec![Metrics::default(); PathId::MAX_PATHS];
        let mut lines = Lines { out: BufWriter::new(File::create(file)?), error: None, names, metrics, overhead };
        lines.record(&header(title, is_client));
        Ok(Self(Arc::new(Mutex::new(lines))))
    }

    /// The scheduler, with what it is told and answers written down.
    pub fn around(&self, scheduler: Box<dyn Scheduler>) -> Box<dyn Scheduler> {
        Box::new(Logged { scheduler, log: self.clone() })
    }

    /// Writes out what is buffered; the first error since the start.
    pub fn finish(&self) -> io::Result<()> {
        let mut lines = self.lines();
        let flushed = lines.out.flush();
        lines.error.take().map_or(flushed, Err)
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn record(&mut self, value: &Value) {
        if self.error.is_some() {
            return;
        }
        let out = &mut self.out;
        let separated = out.write_all(&[RECORD_SEPARATOR]);
        let written = separated.and_then(|()| serde_json::to_writer(&mut *out, value).map_err(Into::into));
        self.error = written.and_then(|()| out.write_all(b"\n")).err();
    }

    fn event(&mut self, now: Instant, name: &str, path: Option<PathId>, data: Value) {
        let mut event = json!({ "time": now.as_nanos() as f64 / 1e6, "name": name });
        if let Some(path) = path {
            event["tuple"] = json!(self.name(path));
        }
        event["data"] = data;
        self.record(&event);
    }

    fn name(&self, path: PathId) -> String {
        self.names.get(path.index()).cloned().unwrap_or_else(|| path.get().to_string())
    }

    fn sent(&mut self, now: Instant, sent: Receipt) {
        let frame = json!({
            "frame_type": "stream", "stream_id": 0, "offset": sent.offset.get(), "raw": { "payload_length": sent.bytes.get() }
        });
        let data = json!({
            "header": packet(sent.serial), "raw": { "length": sent.bytes.get() + self.overhead }, "frames": [frame]
        });
        self.event(now, "quic:packet_sent", Some(sent.path), data);
    }

    /// The acknowledgement itself, then what it changed.
    fn acked(&mut self, cx: &Context<'_>, acked: Receipt) {
        let frame = json!({ "frame_type": "ack", "acked_ranges": [[acked.serial]] });
        let una = cx.flow.map_or(0, |flow| flow.una.get());
        let data = json!({ "header": { "packet_type": "1RTT" }, "frames": [frame], "weftway_una": una });
        self.event(cx.now, "quic:packet_received", Some(acked.path), data);
        self.metrics(cx, acked.path);
    }

    fn metrics(&mut self, cx: &Context<'_>, id: PathId) {
        let Some(path) = cx.path(id) else { return };
        let srtt_us = path.srtt.as_micros();
        let current = [Some(srtt_us).filter(|&us| us > 0), Some(path.cwnd.get()), Some(path.bytes_in_flight.get())];
        let Some(metrics) = self.metrics.get_mut(id.index()) else { return };
        let logged = std::mem::replace(metrics, current);
        let values = [json!(srtt_us as f64 / 1e3), json!(path.cwnd.get()), json!(path.bytes_in_flight.get())];
        let names = ["smoothed_rtt", "congestion_window", "bytes_in_flight"];
        let changed = (0..3).filter(|&n| current[n].is_some() && current[n] != logged[n]);
        let data: Map<_, _> = changed.map(|n| (names[n].to_owned(), values[n].clone())).collect();
        if !data.is_empty() {
            self.event(cx.now, "quic:recovery_metrics_updated", Some(id), data.into());
        }
    }

    /// A path is a tuple; one whose ends are left out is abandoned (QUIC events, `tuple_assigned`).
    fn tuple(&mut self, now: Instant, path: PathId, up: bool) {
        let mut data = json!({ "tuple_id": self.name(path) });
        if up {
            data["tuple_remote"] = json!({});
            data["tuple_local"] = json!({});
        }
        self.event(now, "quic:tuple_assigned", Some(path), data);
    }

    fn told(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(sent, _) => self.sent(cx.now, sent),
            Event::Acked(acked) => self.acked(cx, acked),
            Event::Lost(lost) => {
                let data = json!({ "header": packet(lost.serial) });
                self.event(cx.now, "quic:packet_lost", Some(lost.path), data);
            }
            Event::Congestion(path) => {
                let data = json!({ "new": "recovery", "trigger": "packet_loss" });
                self.event(cx.now, "quic:congestion_state_updated", Some(path), data);
                self.metrics(cx, path);
            }
            Event::PathUp(path) => self.tuple(cx.now, path, true),
            Event::PathDown(path) => self.tuple(cx.now, path, false),
            Event::Recalled(_) | Event::Starved(_) | Event::Wake => {}
        }
    }
}

/// A scheduler that is watched.
#[derive(Clone)]
struct Logged {
    scheduler: Box<dyn Scheduler>,
    log: Log,
}

impl Scheduler for Logged {
    fn needs(&self) -> Needs {
        Needs { events: true, ..self.scheduler.needs() }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.scheduler.select(cx)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.log.lines().told(cx, event);
        self.scheduler.observe(cx, event);
    }

    fn wake(&self) -> Option<Instant> {
        self.scheduler.wake()
    }

    fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        self.scheduler.decided(cx, decision);
    }

    fn fallback(&self) -> Option<FallbackTally> {
        self.scheduler.fallback()
    }

    fn chosen_bytes(&self) -> Option<Bytes> {
        self.scheduler.chosen_bytes()
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        self.scheduler.explain(cx)
    }
}

/// The file's first record. Tools look for schema and format in its first 256 bytes.
fn header(title: &str, is_client: bool) -> Value {
    json!({
        "file_schema": "urn:ietf:params:qlog:file:sequential",
        "serialization_format": "application/qlog+json-seq",
        "title": title,
        "description": "weft send: a packet's number counts the connection's decisions; its data are a record in a DATAGRAM frame",
        "trace": {
            "vantage_point": { "name": "weftway", "type": if is_client { "client" } else { "server" } },
            "common_fields": {
                "time_format": "relative_to_epoch",
                "reference_time": { "clock_type": "monotonic", "epoch": "unknown" },
            },
            "event_schemas": EVENT_SCHEMAS,
        },
    })
}

fn packet(serial: u64) -> Value {
    json!({ "packet_type": "1RTT", "packet_number": serial })
}
