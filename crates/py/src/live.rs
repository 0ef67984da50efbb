//! A scenario's bulk transfer between two machines (`weft send --json`), told in the columns that a run of any backend
//! has.
//!
//! The scenario says how much is sent and what the links are called. What they are is up to the links: columns that
//! compare with a capacity ([`weftway_scenario::measurement`]) compare with what the scenario says of it.

use pyo3::prelude::*;
use serde::Deserialize;
use weftway_host::{OVER_SOCKETS, mismatch};
use weftway_path::{Bytes, Span};
use weftway_scenario::Variant;
use weftway_scenario::config::{SimConfig, Workload};
use weftway_scenario::measurement::{Counts, Measurement, Messages, PathFigures, Row, Singles, Verdict};
use weftway_scenario::stack::LossRecovery;
use weftway_sched::Arity;

use crate::errors::Error;
use crate::scenario::VariantView;

/// Figures that a row takes of the report of `weft send --json`.
#[derive(Deserialize)]
struct Report {
    elapsed_s: f64,
    sent_bytes: u64,
    paths: Vec<PathReport>,
}

#[derive(Deserialize)]
struct PathReport {
    path: String,
    bytes: u64,
    packets: u64,
    retransmissions: u64,
    lost: u64,
    srtt_ms: Option<f64>,
}

/// Number of bytes that a run of `variant` sends over so many links, or why it cannot: that is a refusal in the second
/// place.
#[pyfunction]
pub fn live_bytes(variant: &VariantView, scheduler: &str, links: usize) -> (Option<u64>, Option<String>) {
    match bytes(&variant.variant, scheduler, links) {
        Ok(bytes) => (Some(bytes.get()), None),
        Err(why) => (None, Some(why)),
    }
}

/// The row of a run of `variant` whose sender reports this, as JSON. `alone` is the goodput of each link alone, in
/// Mbit/s.
#[pyfunction]
pub fn live_row(variant: &VariantView, report: &str, links: Vec<String>, alone: Vec<f64>) -> Result<String, Error> {
    let report: Report = serde_json::from_str(report).map_err(Error::input)?;
    Ok(serde_json::Value::Object(row(&variant.variant.config, &links, &report, &alone)).to_string())
}

/// Number of bytes that are sent, or why this variant cannot be run over so many links with this scheduler: one line.
fn bytes(variant: &Variant, scheduler: &str, links: usize) -> Result<Bytes, String> {
    let SimConfig { transport, paths, workload, rival, cross, policy, .. } = &variant.config;
    let Workload::Bulk { bytes } = *workload else {
        return Err("between two machines only workload.kind = \"bulk\" runs".to_owned());
    };
    if transport.rules.recovery != LossRecovery::Quic {
        return Err("between two machines only transport = \"mpquic\" runs".to_owned());
    }
    if variant.timing.is_some() {
        return Err("between two machines a scheduler decides for each packet, and at once".to_owned());
    }
    if rival.is_some() || !cross.is_empty() {
        return Err(
            "between two machines nothing else is sent: leave out the second connection or cross traffic".into()
        );
    }
    if policy.is_some() {
        return Err("between two machines links have no policy: leave out tiers, caps and prices".to_owned());
    }
    if paths.len() != links {
        return Err(format!("the scenario has {} paths: give --path once for each, in its order", paths.len()));
    }
    let Ok((entry, spec)) = weftway_sched::parse(scheduler) else { return Ok(bytes) };
    if entry.arity == Arity::Pair && links < 2 {
        return Err(format!("its rule is for two paths; the scenario has {links}"));
    }
    let needs = entry.make(&spec.given).map_err(|error| error.to_string())?.needs();
    mismatch(needs, OVER_SOCKETS, "a socket").map_or(Ok(bytes), Err)
}

/// The row of a transfer whose sender reports this. `links` are its links in the order of the scenario's paths; `alone`
/// is the goodput of each alone, in Mbit/s, or empty. Time counts from the first byte of data.
fn row(config: &SimConfig, links: &[String], report: &Report, alone: &[f64]) -> Row {
    let figures = |link: &String| {
        let mut figures = PathFigures::default();
        // A path that was opened again stands there again.
        for path in report.paths.iter().filter(|path| path.path == *link) {
            figures.delivered += Bytes::new(path.bytes);
            figures.packets += path.packets;
            figures.retransmissions += path.retransmissions;
            figures.lost = Some(figures.lost.unwrap_or(0) + path.lost);
            figures.lost_or_dropped = figures.lost;
            figures.srtt = path.srtt_ms.map_or(figures.srtt, |ms| Span::from_secs_f64(ms / 1e3));
        }
        figures
    };
    let measured = Measurement {
        verdict: Verdict::Finished,
        elapsed: Span::from_secs_f64(report.elapsed_s),
        delivered: Bytes::new(report.sent_bytes),
        singles: Singles { alone: alone.to_vec(), fair: Vec::new() },
        counts: Counts::default(),
        reordering: None,
        fallback: None,
        chosen: None,
        messages: Messages::default(),
        back: None,
        paths: links.iter().map(figures).collect(),
        real_time: None,
        became_tcp: None,
        rival_delivered: None,
    };
    measured.row(config)
}
