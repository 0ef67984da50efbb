//! The scenario of a recording: its links, and what was not measured, each with a comment that says so.
//!
//! `[drive]` in docs/reference/scenario-paths.md says what a drive is.

use std::fs::OpenOptions;
use std::io::{ErrorKind, Write};
use std::path::{Component, Path, PathBuf};

use weftway_scenario::Scenario;

use super::estimate;
use crate::failure::{Done, Failure};
use crate::identity;

/// The default of Linux and of most stacks, the plainest, a published rule for unequal links, and ours.
const SCHEDULERS: &str = "[\"min-rtt\", \"round-robin\", \"blest\", \"earliest-delivery\"]";

/// Workloads that may be asked for.
const WORKLOADS: [(&str, &str); 5] = [
    (BULK, "kind  = \"bulk\"\nbytes = \"20 MB\""),
    (
        "web",
        "kind     = \"web\"\ndocument = \"60 kB\"\nthink    = \"10 ms\"\nobjects  = [{ name = \"script\", bytes = \"150 kB\" }, \
         { bytes = \"60 kB\", count = 12 }, { bytes = \"20 kB\", count = 4, after = \"script\" }]",
    ),
    (
        "stream",
        "kind     = \"stream\"\nrate     = \"4 Mbit/s\"\nperiod   = \"33 ms\"\ndeadline = \"200 ms\"\nduration = \"20 s\"",
    ),
    (
        "voip",
        "kind     = \"voip\"\nsize     = \"172 B\"\nperiod   = \"20 ms\"\ndeadline = \"150 ms\"\nduration = \"30 s\"",
    ),
    (
        "call",
        "kind     = \"call\"\nrate     = \"1.5 Mbit/s\"\nperiod   = \"40 ms\"\ndeadline = \"200 ms\"\nduration = \"20 s\"",
    ),
];
const BULK: &str = "bulk";

/// Assumption for a value that nothing tells.
const NOT_MEASURED: &str = "assumed: not measured";
/// Keys, and what is assumed of them where they were not measured.
const DELAY: (&str, &str) = ("delay", "20 ms");
const LOSS: (&str, &str) = ("loss", "0 %");
/// Links of such different rates have no common number of packets: the product of delay and the run's mean rate.
const QUEUE: (&str, &str) = ("queue", "1 BDP");

/// A scenario that was written.
pub struct Written {
    /// Its file.
    pub file: PathBuf,
    /// Its links.
    pub links: Vec<String>,
    /// Assumptions.
    pub assumed: Vec<String>,
}

/// Caveats of the measurement itself.
pub struct Notes<'a> {
    /// At the top of the file.
    pub lines: &'a [String],
    /// Kind of the rates, behind each path.
    pub rate: &'a str,
}

impl Written {
    /// Files that were written, and what to do with them.
    pub fn told(&self) -> [String; 3] {
        let file = self.file.display().to_string();
        [
            format!("wrote    {file}: {}", self.links.join(", ")),
            format!("assumed  {}: the comments in the file say why", self.assumed.join("; ")),
            format!("next     weft compare {}", identity::quoted(&file)),
        ]
    }
}

/// The file of a scenario with this name, if it can be written.
pub fn target_of(name: &str, workload: Option<&str>) -> Done<PathBuf> {
    let workload = workload.unwrap_or(BULK);
    if !WORKLOADS.iter().any(|(known, _)| *known == workload) {
        let known = WORKLOADS.map(|(known, _)| known).join(", ");
        return Err(Failure::input(format!("--workload {workload}: there is {known}")));
    }
    let target = plain(&if name.ends_with(".toml") { name.to_owned() } else { format!("{name}.toml") });
    if target.symlink_metadata().is_ok() {
        return Err(taken(&target));
    }
    let folder = target.parent().filter(|folder| !folder.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if !folder.is_dir() {
        return Err(Failure::input(format!("{}: no such folder", folder.display())));
    }
    Ok(target)
}

/// A path without parts that lead nowhere.
pub fn plain(text: &str) -> PathBuf {
    Path::new(text).components().filter(|part| *part != Component::CurDir).collect()
}

fn taken(file: &Path) -> Failure {
    Failure::input(format!("{} exists already; give another name, or move it away", file.display()))
}

/// Writes a file that is not there. What another program has put there since is not overwritten.
pub fn create(file: &Path, text: &str) -> Done {
    let mut made = match OpenOptions::new().write(true).create_new(true).open(file) {
        Ok(made) => made,
        Err(error) if error.kind() == ErrorKind::AlreadyExists => return Err(taken(file)),
        Err(error) => return Err(Failure::file(file, &error)),
    };
    made.write_all(text.as_bytes()).map_err(|error| {
        let _ = std::fs::remove_file(file);
        Failure::file(file, &error)
    })
}

/// Refuses a scenario that could not be run, before it is written. The drives stay: they are what was measured.
fn check(file: &Path, text: &str) -> Done {
    let folder = file.parent().unwrap_or(Path::new(""));
    let checked = Scenario::parse(text, &file.display().to_string(), folder, &[]);
    checked.map(drop).map_err(Failure::input)
}

/// Writes the scenario of these links, whose drives lie beside it: the names of the files down and up.
pub fn write(
    name: &str,
    drives: [&Path; 2],
    links: &[String],
    paths: &[estimate::Path],
    workload: Option<&str>,
    notes: &Notes<'_>,
) -> Done<Written> {
    let file = target_of(name, workload)?;
    let mut assumed = Vec::new();
    let mut parts = head(drives, links, workload.unwrap_or(BULK), notes);
    for (link, path) in links.iter().zip(paths) {
        parts.push(format!("[path.{link}]"));
        parts.extend(path_keys(link, path, notes, &mut assumed));
        parts.push(String::new());
    }
    let why = if workload.is_some() { "as asked for" } else { "assumed: --workload gives another" };
    parts.push(format!("{:<31}# {why}; sizes and rates are assumed", "[workload]"));
    let kind = WORKLOADS.iter().find(|(known, _)| *known == workload.unwrap_or(BULK)).map_or("", |(_, text)| text);
    parts.extend([kind.to_owned(), String::new()]);
    let rest = if workload.is_some() { "transport, direction" } else { "transport, direction, workload" };
    assumed.push(rest.to_owned());
    let lines: Vec<_> = parts.iter().map(|part| part.trim_end()).collect();
    let text = lines.join("\n");
    check(&file, &text)?;
    create(&file, &text)?;
    Ok(Written { file, links: links.to_vec(), assumed })
}

fn head([down, up]: [&Path; 2], links: &[String], workload: &str, notes: &Notes<'_>) -> Vec<String> {
    let names = match links {
        [first @ .., last] if !first.is_empty() => format!("{} and {last}", first.join(", ")),
        _ => links.concat(),
    };
    let place = |file: &Path| quoted(&file.file_name().unwrap_or_default().to_string_lossy());
    let mut parts: Vec<_> = notes.lines.iter().map(|line| format!("# {line}")).collect();
    parts.extend([
        format!("title     = {}", quoted(&format!("{names} as measured: {workload}"))),
        "transport = \"mpquic\"           # assumed".to_owned(),
        format!("scheduler = {SCHEDULERS}"),
        "cc        = \"cubic\"            # assumed".to_owned(),
        "direction = \"download\"         # assumed".to_owned(),
        "seeds     = \"0..5\"".to_owned(),
        String::new(),
        "[drive]".to_owned(),
        format!("file = {{ down = {}, up = {} }}", place(down), place(up)),
        String::new(),
        "# The connection begins on the first path; assumed in the order of the drive.".to_owned(),
    ]);
    parts
}

/// The keys of a path: its link of the drive, and what was not measured.
fn path_keys(link: &str, path: &estimate::Path, notes: &Notes<'_>, assumed: &mut Vec<String>) -> Vec<String> {
    let rate = if notes.rate.is_empty() { String::new() } else { format!(" # {}", notes.rate) };
    let mut lines = vec![format!("{:<30}{rate}", format!("drive      = {}", quoted(link)))];
    let has_delay = |step: &estimate::Step| step.delay_ms.is_some();
    let has_loss = |step: &estimate::Step| step.loss_percent.is_some();
    let mut put = |key: String, value: &str| {
        lines.push(format!("{:<30} # {NOT_MEASURED}", format!("{key:<10} = {}", quoted(value))));
        assumed.push(format!("{link}.{key}"));
    };
    for ((key, value), has) in [(DELAY, &has_delay as &dyn Fn(&estimate::Step) -> bool), (LOSS, &has_loss)] {
        let is_open = |side: &(&str, &estimate::Estimate)| !side.1.steps.iter().any(has);
        let open: Vec<_> = path.directions().into_iter().filter(is_open).collect();
        match &open[..] {
            [_, _] => put(key.to_owned(), value),
            rest => rest.iter().for_each(|(side, _)| put(format!("{key}.{side}"), value)),
        }
    }
    put(QUEUE.0.to_owned(), QUEUE.1);
    lines
}

/// A text in quotation marks, as TOML has it.
fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string().replace('\x7f', "\\u007f")
}
