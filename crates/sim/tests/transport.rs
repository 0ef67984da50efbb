//! Transport rules as vectors: scenarios with what must happen when, worked out by hand.
//!
//! A file in `vectors/transport` holds cases. Each has a `scenario`, as in a scenario file, the
//! working in `why`, and a `script`: one expectation a line, against everything that is noted.
//!
//! | line | meaning |
//! |---|---|
//! | `T EVENT` | it happens at T milliseconds, to 2 µs |
//! | `A..B EVENT` | it happens at least once from A to B milliseconds |
//! | `count N EVENT`, `count A..B EVENT` | it happens so often in the whole run |
//!
//! Events, which may be cut short on the right; `*` stands for any word:
//!
//! | event | meaning |
//! |---|---|
//! | `up PATH`, `down PATH` | the path becomes usable, or no longer is |
//! | `sent PATH N CHUNK` | packet N of the path leaves, with the CHUNK-th full packet of data |
//! | `arrived PATH N` | it reaches the receiver |
//! | `acked PATH N WINDOW` | everything below N has arrived on the path; the window in packets after it |
//! | `lost PATH N`, `timeout PATH KIND` | declared lost; a timer fired: `rto`, `tlp`, `pto` |
//! | `congestion PATH SIGNAL` | an episode begins |
//! | `end VERDICT` | the run is over |

use std::path::Path;

use crate::setup::{self, Run};
use serde::Deserialize;
use weftway_link::{Distribution, Jitter, Limit};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Span};
use weftway_scenario::Scenario;
use weftway_scenario::config::{Buffer, TransportConfig};
use weftway_sched::{Needs, Scheduler};
use weftway_sim::measure::Singles;
use weftway_sim::run::transport_rules;
use weftway_sim::{Note, Verdict};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    title: String,
    case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Case {
    name: String,
    /// The working, for people.
    why: String,
    scenario: String,
    script: String,
}

/// Everything that was noted, as events of a script.
fn events(run: &Run, mss: u64) -> Vec<(Instant, String)> {
    let mut events: Vec<_> =
        run.notes.iter().filter_map(|(at, note)| event(note, mss).map(|event| (*at, event))).collect();
    events.push((run.sim.now(), format!("end {:?}", run.verdict)));
    events
}

fn event(note: &Note, mss: u64) -> Option<String> {
    Some(match note {
        Note::Up(id) => format!("up {}", id.get()),
        Note::Down(id) => format!("down {}", id.get()),
        Note::Sent { path, index, offset, .. } => format!("sent {} {index} {}", path.get(), offset.get() / mss),
        Note::Arrived { path, index, .. } => format!("arrived {} {index}", path.get()),
        Note::Acked { path, cum, cwnd, .. } => format!("acked {} {cum} {}", path.get(), cwnd / mss),
        Note::Lost { path, index } => format!("lost {} {index}", path.get()),
        Note::Timeout { path, kind } => format!("timeout {} {kind}", path.get()),
        Note::Congestion { path, signal } => format!("congestion {} {signal:?}", path.get()),
        Note::Decided(_) => return None,
    })
}

/// Returns true if `event` is what `words` say, as far as they go.
fn is(event: &str, words: &[&str]) -> bool {
    let mut given = event.split(' ');
    words.iter().all(|&word| given.next().is_some_and(|given| word == "*" || word == given))
}

fn millis(text: &str) -> Instant {
    Instant::ZERO + Span::from_secs_f64(text.parse::<f64>().unwrap_or_else(|_| panic!("a time: `{text}`")) / 1e3)
}

fn range<T>(text: &str, read: impl Fn(&str) -> T) -> Option<(T, T)> {
    text.split_once("..").map(|(from, to)| (read(from), read(to)))
}

/// What is wrong with `line`, if anything is.
fn breach(line: &str, events: &[(Instant, String)]) -> Option<String> {
    let words: Vec<&str> = line.split_whitespace().collect();
    if words[0] == "count" {
        let found = events.iter().filter(|(_, event)| is(event, &words[2..])).count();
        let number = |text: &str| text.parse::<usize>().unwrap();
        let (least, most) = range(words[1], number).unwrap_or_else(|| (number(words[1]), number(words[1])));
        return (found < least || found > most).then(|| format!("it happened {found} times"));
    }
    let slack = Span::from_micros(2);
    let (from, to) = range(words[0], millis).unwrap_or_else(|| (millis(words[0]) - slack, millis(words[0]) + slack));
    let when: Vec<_> = events.iter().filter(|(_, event)| is(event, &words[1..])).map(|(at, _)| *at).collect();
    let met = when.iter().any(|&at| from <= at && at <= to);
    (!met).then(|| format!("it happened at {:?}", &when[..when.len().min(8)]))
}

fn check(file: &str, case: &Case) -> Vec<String> {
    let what = format!("{file}, `{}`", case.name);
    assert!(!case.why.trim().is_empty(), "{what}: say why");
    let scenario = Scenario::parse(&case.scenario, file, Path::new(""), &[]).unwrap_or_else(|error| panic!("{error}"));
    let variant = scenario.variants().unwrap().remove(0);
    let run = setup::run(&variant.config, &scenario.schedulers[0], &scenario.controllers[0]);
    let events = events(&run, variant.config.transport.mss.get());
    let lines = case.script.lines().map(str::trim).filter(|line| !line.is_empty());
    lines.filter_map(|line| breach(line, &events).map(|why| format!("{what}: `{line}`: {why}"))).collect()
}

#[test]
fn the_vectors_hold() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../vectors/transport");
    let mut files: Vec<_> = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut breaches = Vec::new();
    let mut cases = 0;
    for path in files {
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        let file: File =
            toml::from_str(&std::fs::read_to_string(&path).unwrap()).unwrap_or_else(|e| panic!("{name}: {e}"));
        assert!(!file.title.is_empty());
        cases += file.case.len();
        breaches.extend(file.case.iter().flat_map(|case| check(&name, case)));
    }
    assert!(cases >= 30, "only {cases} cases");
    assert!(breaches.is_empty(), "\n{}", breaches.join("\n"));
}

/// A window of 60 kB that the slow path's packets shut, on path 0 of 10 ms and path 1 of `slow` ms;
/// copies sent, and the widest window of the slow path.
fn shut_window(slow: u64, opportunistic: bool, penalise: bool) -> (u64, u64) {
    let receive =
        TransportConfig { receive_buffer: Buffer::Fixed(Bytes::new(60_000)), ..TransportConfig::mptcp_v09x() };
    relieved(receive, 2_000_000, slow, opportunistic, penalise)
}

/// The same with a full send buffer of 60 kB in place of the window.
fn full_buffer(size: u64, opportunistic: bool, penalise: bool) -> (u64, u64) {
    let send = TransportConfig { send_buffer: Buffer::Fixed(Bytes::new(60_000)), ..TransportConfig::mptcp_v09x() };
    relieved(send, size, 100, opportunistic, penalise)
}

fn relieved(mut transport: TransportConfig, size: u64, slow: u64, opportunistic: bool, penalise: bool) -> (u64, u64) {
    (transport.opportunistic, transport.penalise) = (Some(opportunistic), Some(penalise));
    // The fast path takes 25 kB in flight and 15 kB in its queue: the rest of the window is the slow one's.
    let mut paths = vec![setup::path("fast", 10_000, 10), setup::path("slow", 10_000, slow)];
    paths.iter_mut().for_each(|path| path.data.queue.limit = Limit::Packets(10));
    let run = setup::run(&setup::bulk(&transport, paths, size), "min-rtt", "newreno");
    assert_eq!(run.verdict, Verdict::Finished);
    let windows = run.notes.iter().filter_map(|(_, note)| match note {
        Note::Acked { path, cwnd, .. } if path.get() == 1 => Some(*cwnd),
        _ => None,
    });
    let copies = run.sim.connection(0).path_tallies.iter().map(|path| path.copies).sum();
    (copies, windows.max().unwrap_or(0))
}

/// The fast path repeats what a path more than four times slower holds back.
#[test]
fn opportunistic_retransmission_wants_a_path_four_times_faster() {
    assert_eq!(shut_window(100, false, false).0, 0, "switched off");
    let (far, near) = (shut_window(100, true, false).0, shut_window(15, true, false).0);
    // A holder whose window has fallen to four packets counts as slow whatever its round trip.
    assert!(far > 0 && near * 4 < far, "{far} copies of what 100 ms hold back, {near} at 15 ms");
}

/// Penalisation halves the slow path's window again and again while it holds up the connection.
#[test]
fn penalisation_keeps_the_slow_window_small() {
    let (_, free) = shut_window(100, false, false);
    let (copies, punished) = shut_window(100, false, true);
    assert!(punished < free && copies == 0, "{punished} against {free} bytes, {copies} copies");
}

/// `__mptcp_next_segment` does both for an application that waits for room in the send buffer, too, all of which is
/// sent; for one that has written all it has, neither.
#[test]
fn a_full_send_buffer_is_relieved_as_a_shut_window_is() {
    assert_eq!(full_buffer(2_000_000, false, false).0, 0, "switched off");
    let (copies, free) = full_buffer(2_000_000, true, false);
    assert!(copies > 0, "nothing is repeated");
    let (_, punished) = full_buffer(2_000_000, false, true);
    assert!(punished < free, "{punished} against {free} bytes");
    assert_eq!(full_buffer(50_000, true, true).0, 0, "nobody waits for room");
}

/// Goodput in Mbit/s, and packets dropped beyond the window, of Linux v1 on paths of which two often lose to short
/// queues and the receive window is what limits the connection.
fn limited_by_the_window(scheduler: &str, subflow_windows: bool) -> (f64, u64) {
    limited_with(weftway_sched::build(scheduler).unwrap().as_mut(), scheduler, subflow_windows)
}

/// The same with `scheduler`, under the transport rules of the scheduler `name`.
fn limited_with(scheduler: &mut dyn Scheduler, name: &str, subflow_windows: bool) -> (f64, u64) {
    let transport = TransportConfig {
        receive_buffer: Buffer::Fixed(Bytes::new(610 << 10)),
        subflow_windows,
        ..TransportConfig::mptcp_linux_v1()
    };
    let mut paths = vec![setup::path("a", 52_000, 2), setup::path("b", 65_000, 12), setup::path("c", 6_200, 4)];
    for (path, packets) in paths.iter_mut().zip([10, 510, 5]) {
        path.data.queue.limit = Limit::Packets(packets);
    }
    let config = setup::bulk(&transport, paths, 20_000_000);
    let job = weftway_sim::run::Job { config: &config, cc: "newreno", seed: 1, timing: None };
    let finished = job.run(scheduler, transport_rules(name).unwrap(), Vec::new()).unwrap();
    assert_eq!(finished.verdict, Verdict::Finished);
    let row = job.row(&finished, &Singles::default());
    (row["goodput_mbps"].as_f64().unwrap(), row["window_drops"].as_u64().unwrap())
}

/// Linux 6.18 brought 26 to 29 Mbit/s of the 123 on such links, with 640 to 870 packets counted as `NoDSSInWindow` and
/// 65 standstills of a least timeout each, two thirds of the time. Without the disagreement about the edge the window
/// alone limits the transfer.
#[test]
fn a_subflows_stale_window_makes_the_connection_stand_still() {
    let run = |subflow_windows| limited_by_the_window("linux-v1", subflow_windows);
    let ((held_up, drops), (free, none)) = (run(true), run(false));
    println!("with the subflow's window {held_up:.1} Mbit/s, {drops} drops; without {free:.1}, {none}");
    assert!(drops > 50 && none == 0);
    assert!(held_up < 0.6 * free, "{held_up:.1} of {free:.1} Mbit/s");
}

/// A scheduler that sends no packet beyond the edge that the receiver has announced.
#[derive(Clone)]
struct BelowTheEdge(Box<dyn Scheduler>);

impl Scheduler for BelowTheEdge {
    fn needs(&self) -> Needs {
        Needs { flow: true, ..self.0.needs() }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let (Some(packet), Some(flow)) = (cx.packet, cx.flow) else { return self.0.select(cx) };
        if packet.offset.plus(packet.bytes) > flow.announced_edge() { Decision::Wait } else { self.0.select(cx) }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.0.observe(cx, event);
    }
}

/// A receiver keeps all that lies below the edge that it has announced: a rule that sends nothing beyond it loses hardly
/// anything there, and the same rule without that loses much. `earliest-delivery` heeds the edge by itself.
#[test]
fn what_goes_beyond_the_announced_edge_is_what_the_receiver_drops() {
    let (_, beyond) = limited_by_the_window("linux-v1", true);
    let mut heeds = BelowTheEdge(weftway_sched::build("linux-v1").unwrap());
    let (_, below) = limited_with(&mut heeds, "linux-v1", true);
    let (_, own) = limited_by_the_window("earliest-delivery", true);
    println!(
        "{beyond} packets dropped; where nothing goes beyond the announced edge {below}, by a rule's own doing {own}"
    );
    assert!(beyond > 50 && below * 10 < beyond && own * 10 < beyond);
}

/// A path on which packets overtake one another, under QUIC; which of its packets with data are lost is drawn.
fn reordering(cc: &str, loss: f64) -> Run {
    let mut path = setup::lossy(setup::path("thin", 20_000, 10), loss);
    let distribution = Distribution::Normal { sd: Span::from_micros(2236) };
    path.data.jitter = Some(Jitter { distribution, reorder: true });
    setup::run(&setup::bulk(&TransportConfig::mpquic(), vec![path], 5_000_000), "min-rtt", cc)
}

/// A packet that is lost for good keeps episodes from being taken back for two probe timeouts, and no longer. At 2 %
/// loss most episodes are begun by packets that are only late.
#[test]
fn a_loss_is_not_held_against_later_episodes() {
    let run = reordering("bbr1", 0.02);
    let begun = run.notes.iter().filter(|(_, note)| matches!(note, Note::Congestion { .. })).count() as f64;
    let taken_back = run.sim.connection(0).path_tallies[0].spurious as f64;
    assert!(begun > 300.0 && taken_back / begun > 0.7, "{taken_back} of {begun}");
}

/// Nothing is lost, but many packets come too late to count. noq sends their data again, every time.
#[test]
fn data_that_were_declared_lost_are_sent_again() {
    let run = reordering("bbr1", 0.0);
    let tally = &run.sim.connection(0).path_tallies[0];
    assert!(tally.retransmissions > 500, "{}", tally.retransmissions);
    // Those that the end of the run overtook wait still.
    assert!(tally.reinjections + 50 >= tally.retransmissions, "{} of {}", tally.reinjections, tally.retransmissions);
}
