//! Configuration of the simulator from the keys of a file.

use weftway_link::{LinkConfig, Rate, Set};
use weftway_path::{BitRate, Bytes, Instant, PathId, Span};
use weftway_sched::Mode;

use super::drive::{Drive, Drives, Measured};
use super::error::{Fault, Mistake};
use super::links::{Around, ends};
use super::names;
use super::policy;
use super::schema::{ConnectionName, DecisionTable, DriveTable, File, LinkTable, ModeName, PathTable, TransportName};
use super::text::Window;
use super::traces::Traces;
use super::traffic::least_time;
use super::transport;
use super::units::Time;
use crate::config::{Direction, PathConfig, Rival, SimConfig, Workload};
use crate::stack::LossRecovery;

/// Enough for any transfer that is worth waiting for.
const TIME_LIMIT: Span = Span::from_secs(600);

/// For so long a drive is followed where nothing ends: programs use the links as long as they like.
const LONG: Span = Span::from_secs(3600);

/// Bytes of a record before those of a datagram: kind, stream, and the count in two (`weftway_mux`).
pub const DATAGRAM_HEAD: Bytes = Bytes::new(4);

/// A datagram holds its place, by which it is known when it arrives.
const SMALLEST_DATAGRAM: Bytes = Bytes::new(8);

/// Times at which decisions are made and have effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct Timing {
    /// Interval of one decision; `None`: one for each packet.
    pub interval: Option<Span>,
    /// Use of the other paths in it.
    pub mode: Mode,
    /// Time that a decision takes to have effect.
    pub delay: Span,
}

/// Returns the configuration of the simulator.
pub(super) fn config(file: &File, traces: &mut Traces) -> Result<SimConfig, Fault> {
    let transport = transport::main(file)?;
    let workload = file.workload.workload()?;
    let paths = paths(file, ConnectionName::Main, traces)?;
    if paths.is_empty() {
        let help = "add one: [path.wifi] with rate and delay";
        return Err(Fault::new(Mistake::Missing, "no path: there is nothing to send over").help(help).key(&["path"]));
    }
    check_count(&paths, file.transport)?;
    if file.drive.is_some() && file.path.0.iter().all(|(_, path)| path.drive.is_none()) {
        let fault = Fault::value("no path is a link of this drive").help("for example drive = \"lte\" in a path");
        return Err(fault.key(&["drive"]));
    }
    if let (Workload::Call { .. }, Some(_)) = (&workload, &file.rival) {
        let reason = "a call is two connections by itself; leave out [rival], or give it another kind of workload";
        return Err(Fault::value(reason).key(&["rival"]));
    }
    if workload.has_records() && transport.rules.recovery != LossRecovery::Quic {
        let what = if workload.has_flows() { "flows are streams of one connection" } else { "datagrams keep no order" };
        let reason = format!("{what}, which MPTCP has not; give transport = \"mpquic\", or another kind of workload");
        return Err(Fault::value(reason).key(&["workload", "kind"]));
    }
    if let Workload::Datagrams { bytes, .. } = workload {
        let most = transport.mss.saturating_sub(DATAGRAM_HEAD);
        if !(SMALLEST_DATAGRAM..=most).contains(&bytes) {
            let reason =
                format!("a datagram has {} to {} bytes, which one packet holds", SMALLEST_DATAGRAM.get(), most.get());
            return Err(Fault::value(reason).key(&["workload", "size"]));
        }
    }
    check_common(file)?;
    let main: Vec<&str> = paths.iter().map(|path| path.name.as_str()).collect();
    let links = file.link.names();
    let cross = file.cross.0.iter().map(|(name, cross)| cross.source(name, &main, &links));
    Ok(SimConfig {
        cross: cross.collect::<Result<_, _>>()?,
        shared: shared(file, traces)?,
        rival: rival(file, traces)?,
        time_limit: time_limit(file.time_limit, &workload)?,
        policy: policy::policy(file, &workload)?,
        transport,
        paths,
        workload,
        write: file.workload.write(),
    })
}

/// Returns the timing of decisions, if not for each packet at once.
pub(super) fn timing(table: &DecisionTable) -> Result<Timing, Fault> {
    if table.interval.is_some_and(|interval| interval.is_zero()) {
        let reason = "an interval is more than no time; leave it out to decide for each packet";
        return Err(Fault::value(reason).key(&["decision", "interval"]));
    }
    Ok(Timing {
        interval: table.interval.map(Time::get),
        mode: match table.mode {
            ModeName::Preferred => Mode::Preferred,
            ModeName::Exclusive => Mode::Exclusive,
        },
        delay: table.delay.map_or(Span::ZERO, Time::get),
    })
}

/// Checks that links with draws in common draw at the same times.
fn check_common(file: &File) -> Result<(), Fault> {
    let of_path = |(name, table): (&'_ String, &'_ PathTable)| {
        ["down", "up"].map(|side| (["path", name, "redraw", side].map(str::to_owned), table.way(side == "down").redraw))
    };
    let of_link =
        |(name, table): (&String, &LinkTable)| (["link", name, "redraw", ""].map(str::to_owned), table.redraw.clone());
    let paths = file.path.0.iter().map(|(name, table)| (name, table)).flat_map(of_path);
    let links = file.link.0.iter().map(|(name, table)| (name, table)).map(of_link);
    let mut seen: Vec<(String, Time, String)> = Vec::new();
    for (place, redraw) in paths.chain(links) {
        let Some((every, name)) = redraw.and_then(|redraw| Some((redraw.every, redraw.common?))) else { continue };
        match seen.iter().find(|(known, ..)| *known == name) {
            Some((_, other, at)) if *other != every => {
                let reason = format!(
                    "draws in common come at the same times: `every` is {} s here, and {} s for `{at}`",
                    every.get().as_secs_f64(),
                    other.get().as_secs_f64()
                );
                return Err(Fault::value(reason).key(&place.each_ref().map(String::as_str)));
            }
            Some(_) => {}
            None => seen.push((name, every, place[1].clone())),
        }
    }
    Ok(())
}

/// Checks that a connection over `transport` can have these paths.
fn check_count(paths: &[PathConfig], transport: TransportName) -> Result<(), Fault> {
    let count = paths.len();
    if let Some(path) = paths.get(PathId::MAX_PATHS) {
        let reason = format!("{count} paths; a connection has at most {}", PathId::MAX_PATHS);
        return Err(Fault::value(reason).key(&["path", &path.name]));
    }
    if let (TransportName::Tcp, Some(second)) = (transport, paths.get(1)) {
        let reason = format!("TCP uses one path, and here are {count}");
        return Err(Fault::value(reason).help("mptcp and mpquic use several").key(&["path", &second.name]));
    }
    Ok(())
}

fn paths(file: &File, connection: ConnectionName, traces: &mut Traces) -> Result<Vec<PathConfig>, Fault> {
    let own = file.path.0.iter().filter(|(_, table)| table.connection == connection);
    let end = time_limit(file.time_limit, &file.workload.workload()?)?;
    let found = own.map(|(name, table)| path(file, (name, table), end, traces)).collect::<Result<Vec<_>, _>>()?;
    // On a drive one link may be dead throughout a run; if all are, there is nothing to run.
    let carries = |path: &PathConfig| {
        let later = path.data.changes.iter().map(|change| &change.set);
        let rates = later.filter_map(|set| if let Set::Rate(rate) = set { Some(rate) } else { None });
        rates.chain([&path.data.rate]).any(|rate| *rate != Rate::Constant(BitRate::ZERO))
    };
    match &file.drive {
        Some(drive) if !found.is_empty() && !found.iter().any(carries) => {
            Err(dead(drive, file.direction == Direction::Download, traces)?)
        }
        _ => Ok(found),
    }
}

/// The mistake that no link carries data in the run of a drive.
fn dead(drive: &DriveTable, download: bool, traces: &mut Traces) -> Result<Fault, Fault> {
    let mut place = "this run".to_owned();
    if let Some(name) = drive.file.side(download) {
        let drives = traces.drives(&name)?;
        place = format!("run {} of `{name}`", run(&drives, drive, &name)?.0);
    }
    let fault = Fault::value(format!("in {place} no link of a path carries anything"));
    let help = "a link may be dead throughout, but not all: take another run, or add a path with a rate of its own";
    Ok(fault.help(help).key(&["drive", "run"]))
}

/// The links of each path, up and down, when ordinary programs use them: either way may carry data.
pub(super) fn ways(file: &File, traces: &mut Traces) -> Result<Vec<[LinkConfig; 2]>, Fault> {
    let own = file.path.0.iter().filter(|(_, table)| table.connection == ConnectionName::Main);
    own.map(|(name, table)| {
        let mut side = |side| way(file.drive.as_ref(), (name, table), (side, true, LONG), traces);
        Ok([side("up")?, side("down")?])
    })
    .collect()
}

/// Returns a direction of a path, with `data` if it carries the data; a drive is followed until `end`.
fn way(
    drive: Option<&DriveTable>,
    (name, table): (&str, &PathTable),
    (side, data, end): (&'static str, bool, Span),
    traces: &mut Traces,
) -> Result<LinkConfig, Fault> {
    let there = measured(drive, (name, table), (side, end), traces)?;
    let back = measured(drive, (name, table), (if side == "down" { "up" } else { "down" }, Span::ZERO), traces)?;
    let delays = [&there, &back].into_iter().flatten().filter_map(|measured| measured.delay);
    let round_trip = Some(delays.fold(table.round_trip(), |sum, delay| sum + delay));
    table.link(side == "down", data).config(&mut Around {
        at: ["path", name],
        side,
        round_trip,
        measured: there,
        traces,
    })
}

/// Returns what the path's drive says of one direction, if the path has one and the direction was measured.
fn measured(
    drive: Option<&DriveTable>,
    (name, table): (&str, &PathTable),
    (side, end): (&'static str, Span),
    traces: &mut Traces,
) -> Result<Option<Measured>, Fault> {
    let Some(link) = &table.drive else { return Ok(None) };
    let Some(drive) = drive else {
        let fault = Fault::new(Mistake::Missing, "this path is a link of a drive, and there is no [drive]");
        return Err(fault.help("[drive] names the file and the run").key(&["path", name, "drive"]));
    };
    let Some(file) = drive.file.side(side == "down") else { return Ok(None) };
    let drives = traces.drives(&file).map_err(|fault| fault.key(&["drive", "file", side]))?;
    let links: Vec<&str> = drives.links().iter().map(String::as_str).collect();
    let place = names::position("link of the drive", link, &links).map_err(|mut fault| {
        fault.reason += &format!(" in `{file}`");
        fault.key(&["path", name, "drive"])
    })?;
    let (number, run) = run(&drives, drive, &file).map_err(|fault| fault.key(&["drive", "run"]))?;
    if let Some(other) = drive.file.side(side != "down").filter(|other| *other != file) {
        let drives = traces.drives(&other).map_err(|fault| fault.key(&["drive", "file"]))?;
        let (_, other_run) = self::run(&drives, drive, &other).map_err(|fault| fault.key(&["drive", "run"]))?;
        if other_run.begins() != run.begins() {
            let (begins, other_begins) = (run.begins(), other_run.begins());
            let reason = format!("run {number} begins at {begins} in `{file}`, at {other_begins} in `{other}`");
            let fault =
                Fault::value(reason).help("both directions are on one clock: let both files begin at the same `at_s`");
            return Err(fault.key(&["drive", "file"]));
        }
    }
    let start = drive.start.map_or(Span::ZERO, Time::get);
    Ok(Some(run.measured(place, start, end)))
}

/// The run that a scenario names, or the only one, and its number.
fn run<'a>(drives: &'a Drives, drive: &DriveTable, file: &str) -> Result<(u64, &'a Drive), Fault> {
    let numbers: Vec<u64> = drives.runs().map(|(number, _)| number).collect();
    let (first, last) = (numbers.first().copied().unwrap_or_default(), numbers.last().copied().unwrap_or_default());
    let Some(number) = drive.run.map(|run| run.0).or((numbers.len() == 1).then_some(first)) else {
        let reason = format!("`{file}` holds {} runs: which one?", numbers.len());
        return Err(Fault::new(Mistake::Missing, reason).help("for example run = 12"));
    };
    let fault = || Fault::value(format!("`{file}` has no run {number}"));
    drives
        .run(number)
        .map(|run| (number, run))
        .ok_or_else(|| fault().help(format!("its runs are numbered from {first} to {last}")))
}

fn path(file: &File, (name, table): (&str, &PathTable), end: Span, traces: &mut Traces) -> Result<PathConfig, Fault> {
    names::section("path", name)?;
    let (data, acks) = match file.direction {
        Direction::Download => ("down", "up"),
        Direction::Upload => ("up", "down"),
    };
    let mut side = |side| way(file.drive.as_ref(), (name, table), (side, side == data, end), traces);
    Ok(PathConfig {
        name: name.to_owned(),
        role: policy::role(table),
        data: side(data)?,
        acks: side(acks)?,
        via: table.via.as_ref().map(|via| link(file, name, via)).transpose()?,
        presence: policy::presence(
            table,
            table.present.as_deref().map_or(Ok(Vec::new()), |windows| presence(windows, name))?,
        ),
    })
}

fn link(file: &File, path: &str, via: &str) -> Result<usize, Fault> {
    names::position("link", via, &file.link.names()).map_err(|fault| fault.key(&["path", path, "via"]))
}

/// The instants at which a path is added and removed in turn.
fn presence(windows: &[Window], name: &str) -> Result<Vec<Instant>, Fault> {
    let fault = |reason: &str| Fault::value(reason).key(&["path", name, "present"]);
    let mut instants: Vec<Instant> = windows.iter().flat_map(|window| <[Instant; 2]>::from(ends(window))).collect();
    if instants.is_empty() {
        return Err(fault("a path that never exists; leave it out"));
    }
    if instants.windows(2).any(|pair| pair[1] <= pair[0]) {
        return Err(fault("these stretches of time overlap or are out of order"));
    }
    instants.retain(|instant| !instant.is_never());
    Ok(instants)
}

fn shared(file: &File, traces: &mut Traces) -> Result<Vec<LinkConfig>, Fault> {
    let links = file.link.0.iter().map(|(name, table)| {
        names::section("link", name)?;
        let (side, round_trip, measured) = ("", None, None);
        table.config(&mut Around { at: ["link", name], side, round_trip, measured, traces })
    });
    links.collect()
}

fn rival(file: &File, traces: &mut Traces) -> Result<Option<Rival>, Fault> {
    let paths = paths(file, ConnectionName::Rival, traces)?;
    let Some(table) = &file.rival else {
        let stray = file.path.0.iter().find(|(_, table)| table.connection == ConnectionName::Rival);
        return match stray {
            Some((name, _)) => {
                let fault = Fault::new(Mistake::Missing, "this path is the rival's, and there is no [rival]");
                Err(fault.key(&["path", name, "connection"]))
            }
            None => Ok(None),
        };
    };
    if paths.is_empty() {
        let help = "give its paths connection = \"rival\"";
        return Err(Fault::new(Mistake::Missing, "the rival has no path").help(help).key(&["rival"]));
    }
    check_count(&paths, table.transport.unwrap_or(file.transport))?;
    let scheduler = table.scheduler.clone().unwrap_or_else(|| "min-rtt".to_owned());
    let cc = table.cc.clone().unwrap_or_else(|| "cubic".to_owned());
    names::registered(&scheduler).map_err(|fault| fault.key(&["rival", "scheduler"]))?;
    names::controller(&cc).map_err(|fault| fault.key(&["rival", "cc"]))?;
    let start = table.start.map_or(Instant::ZERO, super::links::instant);
    Ok(Some(Rival { transport: transport::rival(file, table)?, paths, cc, scheduler, start }))
}

fn time_limit(given: Option<Time>, workload: &Workload) -> Result<Span, Fault> {
    let least = least_time(workload);
    match given.map(Time::get) {
        // Twice the time it takes anyway leaves room for bad schedulers.
        None => Ok(TIME_LIMIT.max(least * 2)),
        Some(limit) if limit.is_zero() || limit < least => {
            let reason = format!("the workload alone takes {} s", least.as_secs_f64());
            Err(Fault::value(reason).key(&["time_limit"]))
        }
        Some(limit) => Ok(limit),
    }
}
