//! Progress: on a terminal a table that is kept up to date, elsewhere only what the user must know.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use weftway_transfer::{PathProgress, Progress, State};

use crate::output;
use crate::table::{Table, cut};
use crate::text::{amount, number_of, printable};

/// States of a program that carries connections. Packets go beside a tunnel: bypassed; or its kill switch stops them.
pub const CARRYING: [&str; 3] = ["relaying", "bypassed", "blocked"];

/// Time between two views on a terminal.
const REFRESH: Duration = Duration::from_millis(250);
/// Least time over which a rate is taken.
const LEAST_SECONDS: f64 = 0.5;
const BOLD: &str = "\x1b[1m";
const DIM: &str = "\x1b[2m";
const PLAIN: &str = "\x1b[0m";

/// The terminal of a program that runs. What it shows is gone when this is.
pub struct Display {
    ready: String,
    /// Address where this end has listened, if it has.
    pub listening: Option<SocketAddr>,
    told_ports: bool,
    is_terminal: bool,
    shown: Option<Instant>,
    /// Paths as they were when rates were taken last.
    before: Option<(Instant, Vec<PathProgress>)>,
    rates: Vec<f64>,
}

impl Display {
    /// `ready` is said before the address, once this end listens: `listening at`.
    pub fn new(ready: &str) -> Self {
        Self {
            ready: ready.to_owned(),
            listening: None,
            told_ports: false,
            is_terminal: output::says_on_terminal(),
            shown: None,
            before: None,
            rates: Vec::new(),
        }
    }

    /// Takes in how far it is: called ten times a second. A tunnel's `state` may be another one than that of
    /// `progress`.
    pub fn tell(&mut self, progress: &Progress, state: &str) {
        for line in self.news(progress) {
            output::say(&line);
        }
        if let Some(count) = output::newly_dropped() {
            output::say(&dropped(count));
        }
        if self.is_terminal && self.shown.is_none_or(|shown| shown.elapsed() >= REFRESH) {
            self.shown = Some(Instant::now());
            self.take_rates(&progress.paths);
            output::show(view(progress, state, &self.rates, output::size(rustix::stdio::stderr())));
        }
    }

    /// Lines that the user must know, once.
    fn news(&mut self, progress: &Progress) -> Vec<String> {
        let mut lines = Vec::new();
        if let (Some(at), None) = (progress.listening, self.listening) {
            self.listening = Some(at);
            lines.push(format!("{} {at}", self.ready));
        }
        if !progress.ports.is_empty() && !self.told_ports {
            self.told_ports = true;
            let ports: Vec<String> = progress.ports.iter().map(|port| printable(port, "")).collect();
            let ports = ports.join(", ");
            lines.push(if ports.starts_with("udp://") {
                format!("datagrams are taken at {ports}")
            } else {
                format!("programs connect to {ports} (SOCKS5 or HTTP CONNECT)")
            });
        }
        lines.extend(progress.note.as_ref().map(|note| printable(note, "")));
        lines
    }

    fn take_rates(&mut self, paths: &[PathProgress]) {
        let now = Instant::now();
        let (at, before) = match &self.before {
            Some((at, before)) => (*at, Some(&before[..])),
            None => (now, None),
        };
        let seconds = (now - at).as_secs_f64();
        if before.is_none() || seconds >= LEAST_SECONDS {
            self.rates = rates(before, paths, seconds);
            self.before = Some((now, paths.to_vec()));
        }
    }
}

impl Drop for Display {
    fn drop(&mut self) {
        output::show(Vec::new());
    }
}

/// Line of what nobody took.
fn dropped(count: u64) -> String {
    format!("{} dropped before this one: nobody took what was printed", number_of(count, "line"))
}

/// The table of paths, and below it how far all is; as much as a terminal of so many columns and lines has room for.
fn view(progress: &Progress, state: &str, rates: &[f64], (columns, lines): (usize, usize)) -> Vec<String> {
    let mut table = Table::new(["path", "Mbit/s", "data", "round trip", ""]);
    for (at, path) in progress.paths.iter().enumerate() {
        let rate = rates.get(at).copied().unwrap_or(0.0);
        let name = printable(&path.path, "");
        table.add([name, format!("{rate:.1}"), amount(path.bytes), round_trip(path), path_state(path)]);
    }
    let mut shown = table.lines_within(columns);
    let caption = format!("{DIM}{}{PLAIN}", cut(&caption(progress, state), columns));
    shown[0] = format!("{BOLD}{}{PLAIN}", shown[0]);
    shown.truncate(lines.saturating_sub(2).max(1));
    shown.push(caption);
    shown
}

fn caption(progress: &Progress, state: &str) -> String {
    if CARRYING.contains(&state) {
        let clients = match progress.listening {
            Some(_) => number_of(progress.clients, "client") + ", ",
            None => String::new(),
        };
        return format!("{state}  {clients}{}", number_of(progress.flows, "connection"));
    }
    let (whole, there) = (progress.bytes, progress.had + progress.done);
    let share = if whole > 0 { format!("{:.0} %", 100.0 * there as f64 / whole as f64) } else { String::new() };
    format!("{state}  {} of {}  {share}", amount(there), amount(whole))
}

/// The name of a state, as it is shown.
pub fn state_name(state: State) -> &'static str {
    match state {
        State::Listening => "listening",
        State::Comparing => "comparing",
        State::Connecting => "connecting",
        State::Agreeing => "agreeing",
        State::Transferring => "transferring",
        State::Relaying => "relaying",
        State::Verifying => "verifying",
        State::Done => "done",
    }
}

/// The round trip of a path, where it is known.
pub fn round_trip(path: &PathProgress) -> String {
    path.srtt_ms.map(|ms| format!("{ms:.1} ms")).unwrap_or_default()
}

/// Says if data can take a path; of one with a cap what is left of it.
fn path_state(path: &PathProgress) -> String {
    let policy = path.policy.as_ref();
    let state = match policy {
        _ if !path.up => "down".to_owned(),
        Some(policy) if !policy.open => format!("closed ({})", policy.tier),
        _ => String::new(),
    };
    match policy.and_then(|policy| policy.left) {
        Some(left) => format!("{state} {} left", amount(left)).trim_start().to_owned(),
        None => state,
    }
}

/// Rates at which each path carried between two moments, in Mbit/s.
pub fn rates(before: Option<&[PathProgress]>, after: &[PathProgress], seconds: f64) -> Vec<f64> {
    let Some(before) = before.filter(|_| seconds > 0.0) else { return vec![0.0; after.len()] };
    let earlier = before.iter().map(carried).chain(std::iter::repeat(0));
    after
        .iter()
        .zip(earlier)
        .map(|(path, earlier)| 8e-6 * carried(path).saturating_sub(earlier) as f64 / seconds)
        .collect()
}

/// Bytes that a path carried: both ways where that is known, otherwise the data that this end knows of.
fn carried(path: &PathProgress) -> u64 {
    path.carried.unwrap_or(path.bytes)
}

#[cfg(test)]
mod tests {
    use weftway_transfer::LinkProgress;

    use super::*;

    fn path(bytes: u64) -> PathProgress {
        PathProgress { path: "wlan0".into(), up: true, bytes, srtt_ms: Some(12.5), ..PathProgress::default() }
    }

    fn progress() -> Progress {
        let policy = LinkProgress { tier: "backup".into(), left: Some(7_000_000), ..LinkProgress::default() };
        let closed = PathProgress { policy: Some(policy), ..path(2_000_000) };
        Progress {
            paths: vec![path(1000), closed],
            bytes: 4_000_000,
            had: 1_000_000,
            done: 1_000_000,
            ..Progress::default()
        }
    }

    #[test]
    fn what_the_user_must_know_is_told_once() {
        let mut display = Display::new("listening at");
        let ports = vec!["127.0.0.1:1080".to_owned(), "unix:/a\x1b".to_owned()];
        let at = "127.0.0.1:4433".parse().ok();
        let first = Progress { listening: at, ports, note: Some("hello\x07".into()), ..Progress::default() };
        let told = [
            "listening at 127.0.0.1:4433",
            "programs connect to 127.0.0.1:1080, unix:/a\\x1b (SOCKS5 or HTTP CONNECT)",
            "hello\\x07",
        ];
        assert_eq!(display.news(&first), told);
        assert_eq!(display.news(&Progress { note: None, ..first }), [""; 0]);
        assert_eq!(display.listening, at);
        let pipe = Progress { ports: vec!["udp://127.0.0.1:9000".to_owned()], ..Progress::default() };
        assert_eq!(Display::new("").news(&pipe), ["datagrams are taken at udp://127.0.0.1:9000"]);
    }

    #[test]
    fn a_terminal_has_a_table_that_fits() {
        let shown = view(&progress(), "transferring", &[1.5], (80, 24));
        assert_eq!(shown[0], format!("{BOLD}path   Mbit/s    data  round trip{PLAIN}"));
        assert_eq!(shown[1], "wlan0     1.5  1.0 kB     12.5 ms");
        assert_eq!(shown[2], "wlan0     0.0  2.0 MB     12.5 ms  closed (backup) 7.0 MB left");
        assert_eq!(shown[3], format!("{DIM}transferring  2.0 MB of 4.0 MB  50 %{PLAIN}"));
        let narrow = view(&progress(), "transferring", &[], (10, 3));
        assert_eq!(narrow.len(), 2);
    }

    #[test]
    fn of_what_carries_connections_these_are_told() {
        let carried = Progress { flows: 3, clients: 1, listening: "[::]:1".parse().ok(), ..Progress::default() };
        assert_eq!(caption(&carried, "relaying"), "relaying  1 client, 3 connections");
        assert_eq!(caption(&Progress { listening: None, ..carried }, "blocked"), "blocked  3 connections");
    }

    #[test]
    fn rates_are_of_both_ways_where_these_are_known() {
        let known = |carried| PathProgress { carried: Some(carried), ..path(0) };
        assert_eq!(
            rates(Some(&[known(0), path(500_000)]), &[known(250_000), path(0), path(125_000)], 1.0),
            [2.0, 0.0, 1.0]
        );
        assert_eq!(rates(None, &[path(9)], 1.0), [0.0]);
        assert_eq!(rates(Some(&[]), &[path(9)], 0.0), [0.0]);
    }

    #[test]
    fn dropped_lines_are_told() {
        assert_eq!(dropped(1), "1 line dropped before this one: nobody took what was printed");
    }

    #[test]
    fn states_have_the_names_of_their_json() {
        for state in [State::Listening, State::Comparing, State::Connecting, State::Agreeing, State::Transferring] {
            assert_eq!(serde_json::json!(state), state_name(state));
        }
        for state in [State::Relaying, State::Verifying, State::Done] {
            assert_eq!(serde_json::json!(state), state_name(state));
        }
    }
}
