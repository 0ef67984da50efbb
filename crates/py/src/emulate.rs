//! Commands over emulated links, for Python.

use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use pyo3::prelude::*;
use serde_json::{Value, json};
use weftway_emu::{
    BINS_US, Command, EmuError, EmulatorReport, Exit, Finished, LabPlan, Lateness, Order, Record, Session, Traffic,
};
use weftway_path::Span;

use crate::errors::Error;
use crate::scenario::VariantView;

/// Two commands at work over the paths of a scenario.
#[pyclass(frozen, module = "weftway._native")]
pub struct Emulation {
    session: Mutex<Option<Session>>,
}

#[pymethods]
impl Emulation {
    /// Sets up the paths of `variant` and starts the server's command, then the client's. `log` and `pcap` say where
    /// packets are recorded; `provenance` is the head of the log. What the
    /// server prints goes to standard error; with `quiet` the client's output does, too.
    #[new]
    #[pyo3(signature = (variant, seed, client, server = None, log = None, pcap = None, provenance = Vec::new(), quiet = false))]
    #[expect(clippy::too_many_arguments, reason = "keywords on the Python side")]
    fn new(
        py: Python<'_>,
        variant: &Bound<'_, VariantView>,
        seed: u64,
        client: Vec<OsString>,
        server: Option<Vec<OsString>>,
        log: Option<PathBuf>,
        pcap: Option<PathBuf>,
        provenance: Vec<String>,
        quiet: bool,
    ) -> PyResult<Self> {
        let plan = LabPlan::either_way(&variant.get().variant, seed);
        let command = |argv, quiet| Command { argv, quiet, ..Command::default() };
        let record = Record { log, pcap, provenance, ..Record::default() };
        let order = Order { client: command(client, quiet), server: server.map(|argv| command(argv, true)), record };
        let mut interrupt = Ok(());
        let session = py.detach(|| {
            Session::start(&plan, order, &mut || {
                interrupt = Python::attach(|py| py.check_signals());
                interrupt.is_ok()
            })
        });
        interrupt?;
        Ok(Self { session: Mutex::new(Some(session.map_err(Error::from)?)) })
    }

    /// Waits at most `seconds`: the exit code of the client's command, if it has ended.
    fn wait(&self, py: Python<'_>, seconds: f64) -> Option<i32> {
        let patience = Duration::try_from_secs_f64(seconds).unwrap_or_default();
        py.detach(|| self.lock().as_mut().and_then(|session| session.wait(patience)).map(Exit::code))
    }

    /// State of the links when this was called before, as JSON: none before the first answer.
    fn links(&self) -> String {
        let session = self.lock();
        let moment = session.as_ref().map(Session::links).unwrap_or_default();
        let names = session.as_ref().map_or(&[][..], Session::names);
        let links = names.iter().zip(&moment.links).map(|(name, link)| {
            json!({
                "link": name,
                "delivered_bytes": link.counts.delivered_bytes.get(),
                "lost": link.counts.lost,
                "dropped": link.counts.dropped_queue + link.counts.dropped_down,
                "waiting": link.waiting,
                "waiting_bytes": link.waiting_bytes.get(),
            })
        });
        json!({ "at_s": moment.at.as_nanos() as f64 / 1e9, "links": links.collect::<Vec<_>>() }).to_string()
    }

    /// Ends what still runs: what happened, as JSON.
    fn finish(&self, py: Python<'_>) -> PyResult<String> {
        let session = self.lock().take();
        let Some(session) = session else { return Ok("null".to_owned()) };
        let finished = py.detach(|| session.finish()).map_err(Error::from)?;
        Ok(told(&finished).to_string())
    }
}

impl Emulation {
    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Session>> {
        self.session.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Abilities of this machine, as JSON: names, whether they are there, and if not, why.
#[pyfunction]
pub fn probe() -> String {
    let probe = weftway_emu::probe();
    let parts = probe.parts.iter().map(|part| match &part.state {
        Ok(known) => json!({ "part": part.name, "there": true, "note": known }),
        Err(absence) => json!({ "part": part.name, "there": false, "note": absence.reason, "remedy": absence.remedy }),
    });
    Value::Array(parts.collect()).to_string()
}

fn told(finished: &Finished) -> Value {
    json!({
        "client": finished.client.code(),
        "server": finished.server.map(Exit::code),
        "server_was_asked": finished.server_was_asked,
        "links": finished.traffic.iter().map(traffic).collect::<Vec<_>>(),
        "emulator": report(&finished.report),
    })
}

fn traffic(link: &Traffic) -> Value {
    let millis = |span: Option<Span>| span.map(|span| (span.as_millis_f64() * 1e6).round() / 1e6);
    json!({
        "link": link.name,
        "packets": link.packets,
        "bytes": link.bytes.get(),
        "delivered": link.delivered,
        "delivered_bytes": link.delivered_bytes.get(),
        "lost": link.lost,
        "dropped": link.dropped,
        "busy_rate_mbps": link.busy_rate.map(|rate| rate.as_bps() as f64 / 1e6),
        "least_delay_ms": millis(link.least_delay),
        "median_delay_ms": millis(link.median_delay),
    })
}

/// Punctuality of the emulator.
fn report(report: &EmulatorReport) -> Value {
    let lateness: &Lateness = &report.lateness;
    let micros = |span: Span| (span.as_nanos() as f64 / 1e2).round() / 10.0;
    json!({
        "elapsed_ms": report.elapsed.as_millis_f64(),
        "packets": lateness.packets(),
        "late_mean_us": micros(lateness.mean()),
        "late_max_us": micros(lateness.max()),
        "late_over_1ms": lateness.late(),
        "fit": lateness.is_fit(),
        "bins_us": BINS_US,
        "bins": lateness.bins(),
        "refused": report.refused,
        "devices_lost": report.devices_lost,
        "realtime": report.realtime,
    })
}

impl From<EmuError> for Error {
    fn from(error: EmuError) -> Self {
        Self::Emulation(error.to_string())
    }
}
