//! Inputs that an entry does not name do not move its answers: two of it, one of which sees that
//! quantity changed on every path, decide alike over a whole run.

use weftway_path::{BitRate, Context, Decision, Flow, Path, Span};
use weftway_sched::{Entry, Input};
use weftway_vectors::testing::{Bench, packets, path};

/// A quantity, the inputs of which any may look at it, and how it is changed.
type Change = (&'static str, &'static [Input], fn(&mut Path), fn(&mut Flow));

const NOTHING: fn(&mut Flow) = |_| {};

const CHANGES: &[Change] = &[
    ("round-trip times", &[Input::Rtt, Input::MinRtt], change_times, NOTHING),
    ("losses", &[Input::Loss], change_losses, NOTHING),
    ("rates", &[Input::Rate], change_rates, NOTHING),
    ("windows", &[Input::Cwnd, Input::InFlight], change_windows, NOTHING),
    ("bottlenecks", &[Input::Bottleneck], change_bottleneck, NOTHING),
    ("the device's queue", &[Input::Queue], change_device, NOTHING),
    ("the peer's window", &[Input::Window], |_| {}, |flow| flow.edge += packets(100_000)),
    ("the backlog", &[Input::Queue, Input::Size], |_| {}, change_backlog),
];

/// Another order of the paths by time.
fn change_times(path: &mut Path) {
    let other = Span::from_millis(7 + 41 * (u64::from(path.id.get()) + 1) % 97);
    (path.srtt, path.latest_rtt, path.min_rtt, path.max_rtt) = (other, other, other, other);
    (path.rttvar, path.rtt_sum) = (other / 5, other * path.rtt_samples);
}

fn change_losses(path: &mut Path) {
    let more = 3 + 11 * (u64::from(path.id.get()) + 1) % 7;
    path.lost.packets += more;
    path.lost.bytes += packets(more);
    path.retransmitted.packets += more;
}

fn change_rates(path: &mut Path) {
    let other = BitRate::from_mbps(1 + 29 * (u64::from(path.id.get()) + 1) % 31);
    (path.delivery_rate, path.pacing_rate) = (other, other);
}

/// Every path stays as open or full as it was.
fn change_windows(path: &mut Path) {
    let more = packets(5 + 17 * (u64::from(path.id.get()) + 1) % 23);
    path.cwnd += more;
    if !path.is_open() {
        path.bytes_in_flight += more;
    }
}

fn change_bottleneck(path: &mut Path) {
    path.bottleneck = Some(path.id.get() % 2);
}

fn change_device(path: &mut Path) {
    path.device_queue += packets(60 >> (2 * path.id.get()));
}

fn change_backlog(flow: &mut Flow) {
    flow.unsent += packets(3);
    flow.end += packets(3);
}

/// The two's answers to the same questions, until they differ.
fn first_difference(entry: &Entry, change: &Change) -> Option<(usize, Decision, Decision)> {
    let (mut plain, mut other) = (entry.make(&[]).ok()?, entry.make(&[]).ok()?);
    let mut bench = Bench::new(vec![path(0, 20, 6, 3), path(1, 60, 9, 2), path(2, 35, 4, 4)]);
    bench.flow.unsent = packets(40);
    bench.flow.end = bench.flow.next + packets(40);
    bench.flow.edge = bench.flow.next + packets(48);
    for turn in 0..400 {
        bench.now += Span::from_millis(3);
        let event = match turn % 5 {
            0 | 1 | 3 => {
                bench.refresh();
                let answer = plain.select(&bench.context());
                let changed = seen(&bench, change, |cx| other.select(cx));
                if changed != answer {
                    return Some((turn, answer, changed));
                }
                bench.carry(answer)
            }
            2 => bench.ack(bench.paths[turn / 5 % 3].id, None),
            _ if turn % 35 == 4 => bench.lose(bench.paths[turn % 3].id, None),
            _ => bench.ack(bench.paths[turn / 10 % 3].id, None),
        };
        if let Some(event) = event {
            plain.observe(&bench.context(), &event);
            seen(&bench, change, |cx| other.observe(cx, &event));
        }
    }
    None
}

/// Shows the bench as it stands with the quantity changed.
fn seen<T>(bench: &Bench, change: &Change, show: impl FnOnce(&Context<'_>) -> T) -> T {
    let mut paths = bench.paths.clone();
    paths.iter_mut().for_each(change.2);
    let mut flow = bench.flow;
    change.3(&mut flow);
    show(&Context::new(bench.now, &paths, bench.packet.as_ref(), Some(&flow)))
}

#[test]
fn what_is_not_named_does_not_move_answers() {
    let mut found = Vec::new();
    for entry in weftway_sched::all() {
        for change in CHANGES.iter().filter(|change| !change.1.iter().any(|input| entry.inputs.contains(input))) {
            if let Some((turn, plain, other)) = first_difference(entry, change) {
                found.push(format!("{} decides by {}: turn {turn}, {plain:?} or {other:?}", entry.name, change.0));
            }
        }
    }
    assert!(found.is_empty(), "inputs that are not named:\n{}", found.join("\n"));
}

#[test]
fn the_changes_are_seen() {
    // A change that nobody ever noticed would prove nothing of the others.
    for change in CHANGES.iter().filter(|change| !change.1.contains(&Input::Bottleneck)) {
        let notices = |entry: &&&Entry| first_difference(entry, change).is_some();
        assert!(weftway_sched::all().iter().find(notices).is_some(), "nobody decides by {}", change.0);
    }
}
