//! A transfer as qlog ([`weftway_scenario::qlog`]), with the events that a simulated run has.
//!
//! The log is a scheduler around the scheduler: it writes down what the host tells it and what it answers. Without a
//! log there is none, so it costs nothing.

use std::fs::File;
use std::io;
use std::path::Path as FilePath;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use serde_json::json;
use weftway_path::{Context, Decision, Event, Instant, PathId, Receipt};
use weftway_scenario::qlog::{Head, Qlog, data_frame, packet};
use weftway_sched::{Needs, Report, Scheduler};

use crate::failure::Failure;

/// Explanation of the events of a transfer.
const DESCRIPTION: &str =
    "weft send: a packet's number counts the connection's decisions; its data are a record in a DATAGRAM frame";

/// A file that several schedulers may write in turn.
#[derive(Clone)]
pub struct Log(Arc<Mutex<Lines>>);

struct Lines {
    file: Qlog<File>,
    /// Bytes of a packet beside its data.
    overhead: u64,
}

impl Log {
    /// Log of a transfer of `root` over `paths`. `overhead` is what a packet holds beside its data.
    pub fn create(
        file: &FilePath,
        root: &FilePath,
        is_client: bool,
        paths: Vec<String>,
        overhead: u64,
    ) -> Result<Self, Failure> {
        let title = root.display().to_string();
        let head = Head { title: &title, description: DESCRIPTION, is_client, schema: None };
        let folder = file.parent().map_or(Ok(()), std::fs::create_dir_all);
        let made = folder.and_then(|()| File::create(file)).map(|made| Qlog::new(made, &head, paths));
        let file = made.map_err(|error| Failure::File(format!("{}: {error}", file.display())))?;
        Ok(Self(Arc::new(Mutex::new(Lines { file, overhead }))))
    }

    /// The scheduler, with what it is told and answers written down.
    pub fn around(&self, scheduler: Box<dyn Scheduler>) -> Box<dyn Scheduler> {
        Box::new(Logged { scheduler, log: self.clone() })
    }

    /// Writes out what is buffered; the first error since the start.
    pub fn finish(&self) -> io::Result<()> {
        self.lines().file.finish().map(|_| ())
    }

    fn lines(&self) -> MutexGuard<'_, Lines> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Lines {
    fn sent(&mut self, now: Instant, sent: Receipt) {
        let frame = data_frame(sent.offset.get(), sent.bytes.get());
        let data = json!({
            "header": packet(sent.serial), "raw": { "length": sent.bytes.get() + self.overhead }, "frames": [frame]
        });
        self.file.event(now, "quic:packet_sent", Some(sent.path), data);
    }

    /// The acknowledgement itself, then what it changed.
    fn acked(&mut self, cx: &Context<'_>, acked: Receipt) {
        let frame = json!({ "frame_type": "ack", "acked_ranges": [[acked.serial]] });
        let una = cx.flow.map_or(0, |flow| flow.una.get());
        let data = json!({ "header": { "packet_type": "1RTT" }, "frames": [frame], "weftway_una": una });
        self.file.event(cx.now, "quic:packet_received", Some(acked.path), data);
        self.metrics(cx, acked.path);
    }

    fn metrics(&mut self, cx: &Context<'_>, id: PathId) {
        if let Some(path) = cx.path(id) {
            let metrics = [path.srtt.as_micros(), path.cwnd.get(), path.bytes_in_flight.get()];
            self.file.metrics(cx.now, id, metrics);
        }
    }

    fn told(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(sent, _) => self.sent(cx.now, sent),
            Event::Acked(acked) => self.acked(cx, acked),
            Event::Lost(lost) => self.file.lost(cx.now, lost.path, lost.serial),
            Event::Congestion(path) => {
                self.file.congestion(cx.now, path, "recovery", "packet_loss");
                self.metrics(cx, path);
            }
            Event::PathUp(path) => self.file.tuple(cx.now, path, true),
            Event::PathDown(path) => self.file.tuple(cx.now, path, false),
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

#[deny(clippy::missing_trait_methods)]
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

    fn report(&self) -> Report {
        self.scheduler.report()
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        self.scheduler.explain(cx)
    }
}
