//! Report of a recording, and the files that it becomes: a drive for each direction, and their scenario.

use std::path::PathBuf;

use serde_json::{Value, json};

use super::estimate::{self, Estimate, Step};
use super::probes::{SINGLE_BYTES, SINGLES_NS, STEP_NS, TRAIN};
use super::recording::Recorded;
use super::scenario::{self, Notes, Written};
use super::wire::{FULL_BYTES, SECOND_NS};
use crate::failure::{Done, Failure};
use crate::table::Table;
use crate::text::NOTHING;

const UPPER: &str = "upper bounds: what a few packets back to back reached; --load measures";
const MEASURED: &str = "what arrived of the load";
const SIDES: [&str; 2] = ["down", "up"];

/// A column of a link in a drive: the name, the value, and its digits after the point.
type Column = (&'static str, fn(&Step) -> Option<f64>, usize);

const COLUMNS: [Column; 3] = [
    ("mbps", |step| step.mbps, 3),
    ("delay_ms", |step| step.delay_ms, 2),
    ("loss_percent", |step| step.loss_percent, 2),
];

/// Measurement, and the files that have it.
pub struct Report {
    /// Names of links.
    links: Vec<String>,
    paths: Vec<estimate::Path>,
    /// Duration of the measurement.
    pub seconds: f64,
    load: bool,
    /// The scenario.
    pub scenario: Written,
    /// The drives, down and up.
    files: [PathBuf; 2],
    /// Caveats for a reader of the numbers.
    pub caveats: Vec<String>,
    /// Why the other end's records end before the recording did.
    pub cut: Option<String>,
}

/// Names of the links that are measured over these interfaces and addresses: as a scenario may call a path.
pub fn link_names(paths: &[String]) -> Done<Vec<String>> {
    let plain = |one: char| if one.is_ascii_alphanumeric() || "_-".contains(one) { one } else { '-' };
    let mut names: Vec<String> = Vec::new();
    for path in paths {
        let name: String = path.chars().map(plain).collect();
        if names.contains(&name) {
            let text = format!("--path {path}: two paths are the link `{name}`; a link is measured once");
            return Err(Failure::input(text));
        }
        names.push(name);
    }
    Ok(names)
}

/// The file for the drive of each direction.
fn drive_files(name: &str) -> [PathBuf; 2] {
    SIDES.map(|side| scenario::plain(&format!("{name}.{side}.csv")))
}

/// The drive of links with these steps, as many as are known of each.
fn drive_text(links: &[String], steps: &[&[Step]]) -> String {
    let count = steps.iter().map(|steps| steps.len()).min().unwrap_or(0);
    let mut rows: Vec<_> = (0..count).map(|at| format!("{:.1}", at as f64 * STEP_NS as f64 / 1e9)).collect();
    let mut head = "at_s".to_owned();
    for (link, own) in links.iter().zip(steps) {
        let own = own.get(..count).unwrap_or_default();
        for (name, of, digits) in COLUMNS.iter().filter(|(_, of, _)| own.iter().any(|step| of(step).is_some())) {
            head += &format!(",{link}_{name}");
            for (row, step) in rows.iter_mut().zip(own) {
                row.push(',');
                row.push_str(&of(step).map(|value| format!("{value:.digits$}")).unwrap_or_default());
            }
        }
    }
    std::iter::once(head).chain(rows).map(|line| line + "\n").collect()
}

/// Bytes that probes take in this time on a path and direction, in bytes of IP packets.
pub fn probe_bytes(seconds: u32, header: usize) -> u64 {
    let step = TRAIN as usize * (FULL_BYTES + header) + SINGLES_NS.len() * (SINGLE_BYTES + header);
    step as u64 * u64::from(seconds) * (SECOND_NS / STEP_NS).unsigned_abs()
}

/// Refuses a name whose files are there, before anything is measured.
pub fn free(name: &str, workload: Option<&str>) -> Done {
    scenario::target_of(name, workload)?;
    for file in drive_files(name) {
        if file.symlink_metadata().is_ok() {
            let text = format!("{} exists already; give another name with --out, or move it away", file.display());
            return Err(Failure::input(text));
        }
    }
    Ok(())
}

/// Writes the drives and their scenario.
pub fn write(recorded: &Recorded, name: &str, workload: Option<&str>) -> Done<Report> {
    let paths = estimate::paths(recorded);
    let links = link_names(&paths.iter().map(|path| path.name.clone()).collect::<Vec<_>>())?;
    let count = paths.first().map_or(0, |path| path.up.steps.len());
    refuse_nothing(recorded, &paths, count)?;
    let files = drive_files(name);
    let sides = |side: usize| paths.iter().map(|path| &path.directions()[side].1.steps[..]).collect::<Vec<_>>();
    for (side, file) in files.iter().enumerate() {
        scenario::create(file, &drive_text(&links, &sides(side)))?;
    }
    let (load, seconds) = (recorded.plan.load, count as f64 * STEP_NS as f64 / 1e9);
    let caveats = caveats(recorded, &paths, seconds);
    let how = if load { "with load: the rate is what arrived" } else { "with probes" };
    let lines = [vec![format!("Recorded by weft record, {seconds} s, {how}.")], caveats.clone()].concat();
    let notes = Notes { lines: &lines, rate: if load { MEASURED } else { UPPER } };
    let scenario = scenario::write(name, [&files[0], &files[1]], &links, &paths, workload, &notes)?;
    let cut = recorded.missing.clone().filter(|_| count < recorded.steps());
    Ok(Report { links, paths, seconds, load, scenario, files, caveats, cut })
}

/// Refuses a recording in which nothing was measured.
fn refuse_nothing(recorded: &Recorded, paths: &[estimate::Path], count: usize) -> Done {
    if count == 0 {
        let over = "it was over before the first half second was measured; nothing is written";
        let text = match (&recorded.spent, &recorded.missing) {
            (Some(spent), _) => format!("{spent}: its cap was spent before the first half second; --cap allows more"),
            (None, Some(missing)) => format!("{missing}; {over}"),
            (None, None) => over.to_owned(),
        };
        return Err(Failure::run(text));
    }
    for path in paths {
        for (side, one) in path.directions() {
            if one.mean_mbps().is_none() {
                return Err(Failure::run(format!(
                    "{}: nothing tells of its rate {side}: no train arrived whole. Nothing is written; record for longer, or with \
                     --load",
                    path.name
                )));
            }
        }
    }
    Ok(())
}

/// Caveats for a reader of the numbers.
fn caveats(recorded: &Recorded, paths: &[estimate::Path], seconds: f64) -> Vec<String> {
    let mut found = Vec::new();
    if !recorded.plan.load {
        found.push(format!("The rates are {UPPER}."));
    }
    for path in paths {
        let name = &path.name;
        for (side, one) in path.directions() {
            if one.slow {
                let text = "this machine sent no faster than the link; its rate is no bound.";
                found.push(format!("{name} {side}: {text}"));
            }
            if one.not_full > 0 {
                let (not_full, steps) = (one.not_full, one.steps.len());
                let text = format!("not always full in {not_full} of {steps} steps; there it may carry more.");
                found.push(format!("{name} {side}: {text}"));
            }
        }
    }
    if let Some(spent) = &recorded.spent {
        found.push(format!("{spent}: its cap was spent after {seconds} s."));
    }
    let missing: Vec<_> = recorded.lines.iter().filter(|line| !line.is_complete).map(|line| &line.name[..]).collect();
    if !missing.is_empty() {
        let names = missing.join(", ");
        found.push(format!("The other end's last records of {names} did not arrive; {seconds} s are written."));
    }
    found
}

/// Names of the columns, on several lines: with probes, and with load.
const PROBES_HEAD: [[&str; 7]; 3] =
    [["", "Mbit/s", "", "", "", "", ""], ["", "at most", "", "", "round trip", "lost", "out"], LAST_OF_HEAD];
const LOAD_HEAD: [[&str; 7]; 2] = [["", "Mbit/s", "", "", "round trip", "lost", "out"], LAST_OF_HEAD];
const LAST_OF_HEAD: [&str; 7] = ["link", "mean", "least", "most", "ms", "%", "%"];

/// The lines of a table with a row for each direction of each path.
pub fn table(report: &Report) -> Vec<String> {
    let width = report.links.iter().map(String::len).chain(["link".len()]).max().unwrap_or(0);
    let head = if report.load { &LOAD_HEAD[..] } else { &PROBES_HEAD };
    let mut table = Table::new(head[0]);
    head[1..].iter().for_each(|line| table.add(line.map(str::to_owned)));
    for (link, path) in report.links.iter().zip(&report.paths) {
        for (side, one) in path.directions() {
            let name = if side == SIDES[0] { link } else { "" };
            let rates: Vec<_> = one.steps.iter().filter_map(|step| step.mbps).collect();
            let (least, most) = (rates.iter().copied().reduce(f64::min), rates.iter().copied().reduce(f64::max));
            let out = rates.iter().filter(|rate| **rate == 0.0).count() as f64 * 100.0 / one.steps.len() as f64;
            let numbers = [one.mean_mbps(), least, most, one.rtt_ms, loss(one), Some(out)].map(shown);
            let [mean, least, most, rtt, loss, out] = numbers;
            table.add([format!("{name:<width$}  {side}"), mean, least, most, rtt, loss, out]);
        }
    }
    let title = format!("{} s, {}", report.seconds, if report.load { "load" } else { "probes" });
    std::iter::once(title).chain(table.lines()).collect()
}

fn loss(one: &Estimate) -> Option<f64> {
    (one.probes_sent > 0).then(|| 100.0 * one.probes_lost as f64 / one.probes_sent as f64)
}

fn shown(value: Option<f64>) -> String {
    value.map_or_else(|| NOTHING.to_owned(), |value| format!("{value:.1}"))
}

/// Report for `--json`: an object for each direction of each path.
pub fn records(report: &Report) -> Vec<Value> {
    let mut found = Vec::new();
    for (link, path) in report.links.iter().zip(&report.paths) {
        for ((side, one), file) in path.directions().into_iter().zip(&report.files) {
            let unloaded = if one.slow { "at least" } else { "at most" };
            found.push(json!({
                "link": link,
                "path": path.name,
                "direction": side,
                "seconds": report.seconds,
                "load": report.load,
                "rate_mbps": one.mean_mbps(),
                "rate_is": if report.load { "measured" } else { unloaded },
                "rtt_ms": one.rtt_ms,
                "loss_percent": loss(one),
                "not_full_steps": one.not_full,
                "steps": one.steps.len(),
                "drive": file.to_string_lossy(),
                "scenario": report.scenario.file.to_string_lossy(),
                "caveats": report.caveats,
            }));
        }
    }
    found
}

#[cfg(test)]
#[path = "report_tests.rs"]
mod tests;
