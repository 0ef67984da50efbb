//! Properties of the schedulers that learn: equal seeds repeat, draws have their odds over whole
//! runs, and nothing is ever not a number.

use weftway_path::{Decision, PathId, Span};
use weftway_sched::Scheduler;
use weftway_sched::learned::policy_file::PolicyFile;
use weftway_vectors::testing::{Bench, path};

const F: PathId = PathId::new(0);
const S: PathId = PathId::new(1);

/// Answers and reasons of a run in which both paths deliver and lose.
fn trace(scheduler: &str) -> Vec<String> {
    let mut scheduler = weftway_sched::build(scheduler).unwrap();
    let mut bench = Bench::new(vec![path(0, 20, 4, 0), path(1, 50, 6, 0)]);
    let mut lines = Vec::new();
    for turn in 0..2000 {
        bench.now += Span::from_millis(2);
        let decision = scheduler.select(&bench.context());
        lines.push(format!("{decision:?} {:?}", scheduler.explain(&bench.context())));
        let sent = bench.carry(decision);
        let on_fast = (turn % 3 == 0).then(|| bench.ack(F, None)).flatten();
        let on_slow =
            if turn % 40 == 0 { bench.lose(S, None) } else { (turn % 7 == 0).then(|| bench.ack(S, None)).flatten() };
        for event in [sent, on_fast, on_slow].iter().flatten() {
            scheduler.observe(&bench.context(), event);
        }
    }
    lines
}

#[test]
fn equal_seeds_repeat_and_others_do_not() {
    let short = "record=20:record_again=10:learn=20";
    for name in [
        "q-learning:eps=0.3",
        "lin-ucb",
        &format!("peekaboo:{short}"),
        &format!("m-peekaboo:{short}"),
        "xing:learner=exp3",
    ] {
        let runs = [1, 1, 2].map(|seed| trace(&format!("{name}:seed={seed}")));
        assert_eq!(runs[0], runs[1], "{name}");
        assert_ne!(runs[0], runs[2], "{name}");
        assert!(!runs[0].iter().any(|line| line.contains("NaN") || line.contains("inf")), "{name}");
    }
}

#[test]
fn a_sticky_wait_lets_nine_packets_by_on_average() {
    // b=0 and no acknowledgement on S: all rewards are 0, a tie, for which S has 0.9. The number of
    // packets before the first wait is geometric with mean 0.9/0.1 and deviation √0.9/0.1 = 9.5;
    // of the mean of 1000, 0.3.
    let mut scheduler = weftway_sched::build("lin-ucb:b=0:a=0").unwrap();
    let mut bench = Bench::new(vec![path(0, 20, 1, 0), path(1, 60, 1_000_000, 0)]);
    let (mut on_slow, mut waits) = (0, 0);
    while waits < 1000 {
        let decision = scheduler.select(&bench.context());
        let event = match decision {
            Decision::Wait => {
                waits += 1;
                bench.ack(F, None)
            }
            _ => bench.carry(decision),
        };
        on_slow += u32::from(decision == Decision::Send(S));
        event.iter().for_each(|event| scheduler.observe(&bench.context(), event));
    }
    let mean = f64::from(on_slow) / 1000.0;
    assert!((mean - 9.0).abs() < 1.0, "{mean}");
}

/// A run over two paths that deliver nothing at all for a while.
#[test]
fn silence_is_a_number() {
    for name in ["q-learning", "lin-ucb", "peekaboo:record=1", "m-peekaboo:record=1", "xing"] {
        let mut scheduler: Box<dyn Scheduler> = weftway_sched::build(name).unwrap();
        let mut bench = Bench::new(vec![path(0, 20, 1, 0), path(1, 60, 3, 0)]);
        for _ in 0..50 {
            bench.now += Span::from_millis(100);
            let decision = scheduler.select(&bench.context());
            let event = bench.carry(decision).or_else(|| bench.lose(F, None)).or_else(|| bench.lose(S, None));
            event.iter().for_each(|event| scheduler.observe(&bench.context(), event));
            let why = scheduler.explain(&bench.context()).unwrap_or_default();
            assert!(!why.contains("NaN") && !why.contains("inf"), "{name}: {why}");
        }
    }
}

/// The first policy that comes along is the default, and the switch names them all.
#[test]
fn policies_come_with_schedulers_that_learn_and_the_switch_names_them() {
    for entry in weftway_sched::all().iter().filter(|entry| !entry.shipped.is_empty()) {
        assert!(entry.learning.is_some(), "{} has policies and does not say what it learned", entry.name);
        let names: Vec<_> = entry.shipped.iter().map(|policy| policy.name).collect();
        let policy = entry.params.iter().find(|param| param.name == "policy").expect("a switch");
        assert_eq!((policy.default, policy.values), (names[0], names.join(" | ").as_str()), "{}", entry.name);
    }
}

/// Networks as the entries describe them are what their policies have: an LSTM, graph attention, or neither.
#[test]
fn entries_say_what_their_networks_are() {
    let kinds = [("lstm", "LSTM"), ("stsgat", "graph attention")];
    for entry in weftway_sched::all() {
        for policy in entry.shipped {
            let file = PolicyFile::parse(policy.bytes).unwrap();
            let network = file.card("network").unwrap_or_default();
            let learner = entry.learning.expect("it has learned").learner;
            for (kind, said) in kinds {
                let name = format!("{}:policy={}", entry.name, policy.name);
                assert_eq!(network.starts_with(kind), learner.contains(said), "{name}: {network}, {learner}");
            }
        }
    }
}
