//! Properties of every task, whatever happens to the connection and whatever is answered.

use proptest::prelude::*;
use weftway_path::{Bytes, Decision, Event, PathId, Span};

use crate::learned::task::Task;
use crate::learned::{build_task, tasks};
use weftway_vectors::testing::{Bench, packets, path};

/// Event of the connection. Paths are numbered 0 to 5.
#[derive(Clone, Debug)]
enum Op {
    Pass {
        ms: u64,
    },
    Toggle {
        path: u8,
        srtt: u64,
        cwnd: u64,
    },
    Measure {
        path: u8,
        srtt: u64,
        deviation: u64,
    },
    Window {
        path: u8,
        cwnd: u64,
    },
    Acked {
        path: u8,
    },
    Lost {
        path: u8,
    },
    Message {
        length: u64,
        age: u64,
    },
    Edge {
        credit: u64,
        unsent: u64,
    },
    /// Asks, answers with the numbers if asked to, and sends so many packets.
    Ask {
        action: Option<Vec<f32>>,
        sends: u8,
    },
}

fn number() -> impl Strategy<Value = f32> {
    let odd = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -1.0, 0.5, 1e30, f32::MIN_POSITIVE];
    prop_oneof![4 => (0..9u8).prop_map(f32::from), 2 => 0.0..1.0f32, 1 => prop::sample::select(odd.to_vec())]
}

fn op() -> impl Strategy<Value = Op> {
    let on = 0..6u8;
    prop_oneof![
        3 => prop_oneof![0..20u64, 0..3000u64].prop_map(|ms| Op::Pass { ms }),
        1 => (on.clone(), 0..400u64, 0..40u64).prop_map(|(path, srtt, cwnd)| Op::Toggle { path, srtt, cwnd }),
        1 => (on.clone(), 0..5000u64, 0..500u64)
            .prop_map(|(path, srtt, deviation)| Op::Measure { path, srtt, deviation }),
        1 => (on.clone(), 0..1000u64).prop_map(|(path, cwnd)| Op::Window { path, cwnd }),
        3 => on.clone().prop_map(|path| Op::Acked { path }),
        1 => on.prop_map(|path| Op::Lost { path }),
        1 => (1..200u64, 0..2000u64).prop_map(|(length, age)| Op::Message { length, age }),
        1 => (0..300u64, 0..300u64).prop_map(|(credit, unsent)| Op::Edge { credit, unsent }),
        5 => (prop::option::weighted(0.9, prop::collection::vec(number(), 0..8)), 0..4u8)
            .prop_map(|(action, sends)| Op::Ask { action, sends }),
    ]
}

/// Every task as it is by default, and with each named value of each switch.
fn specs() -> Vec<String> {
    let mut specs = Vec::new();
    for entry in tasks() {
        specs.push(entry.name.to_owned());
        for param in entry.params.iter().filter(|param| param.values.contains(" | ")) {
            let of = |value: &str| format!("{}:{}={value}", entry.name, param.name);
            specs.extend(param.values.split(" | ").map(of));
        }
    }
    specs
}

/// Changes the connection; what its scheduler hears of it.
fn happen(bench: &mut Bench, op: &Op) -> Option<Event> {
    let of = |bench: &Bench, id: u8| bench.paths.iter().position(|path| path.id == PathId::new(id));
    match *op {
        Op::Pass { ms } => bench.now += Span::from_millis(ms),
        Op::Toggle { path: id, .. } if of(bench, id).is_some() => return bench.remove(PathId::new(id)),
        Op::Toggle { path: id, srtt, cwnd } => return bench.add(path(id, srtt, cwnd, 0)),
        Op::Measure { path, srtt, deviation } => {
            let at = of(bench, path)?;
            let path = &mut bench.paths[at];
            (path.srtt, path.rttvar) = (Span::from_millis(srtt), Span::from_millis(deviation));
            (path.rtt_sum, path.rtt_samples) = (path.rtt_sum + path.srtt, path.rtt_samples + 1);
        }
        Op::Window { path, cwnd } => {
            let at = of(bench, path)?;
            bench.paths[at].cwnd = packets(cwnd);
        }
        Op::Acked { path } => return bench.ack(PathId::new(path), None),
        Op::Lost { path } => return bench.lose(PathId::new(path), None),
        Op::Message { length, age } => {
            bench.flow.message_start = bench.flow.next;
            bench.flow.message_end = bench.flow.next + packets(length);
            bench.flow.message_age = Span::from_millis(age);
        }
        Op::Edge { credit, unsent } => {
            bench.flow.edge = bench.flow.next + packets(credit);
            bench.flow.unsent = packets(unsent);
        }
        Op::Ask { .. } => {}
    }
    bench.refresh();
    Some(Event::Wake)
}

/// The question twice: the same both times, finite, and within what was declared.
fn ask(task: &mut dyn Task, bench: &Bench, spec: &str) -> Result<bool, TestCaseError> {
    let inputs = task.shape().inputs.clone();
    let (mut observation, mut again) = (vec![f32::NAN; inputs.len()], vec![f32::NAN; inputs.len()]);
    let is_due = task.question(&bench.context(), &mut observation);
    prop_assert_eq!(task.question(&bench.context(), &mut again), is_due, "{}", spec);
    if is_due {
        for ((input, observation), again) in inputs.iter().zip(&observation).zip(&again) {
            prop_assert!((input.low..=input.high).contains(observation), "{spec}: {} is {observation}", input.name);
            prop_assert_eq!(observation, again, "{}: {}", spec, &input.name);
        }
    }
    Ok(is_due)
}

/// The answer to the packet at hand, three times: the same, and on a path with room.
fn select(task: &mut dyn Task, bench: &Bench, spec: &str) -> Result<Decision, TestCaseError> {
    let decision = task.select(&bench.context());
    for _ in 0..2 {
        prop_assert_eq!(task.select(&bench.context()), decision, "{}", spec);
    }
    if let Decision::Send(path) | Decision::Ahead(path, _) | Decision::Repeat(path, _) = decision {
        let is_open = bench.context().path(path).is_some_and(|path| path.is_open());
        prop_assert!(is_open, "{spec}: {decision:?} without room");
    }
    Ok(decision)
}

fn play(spec: &str, ops: &[Op]) -> Result<(), TestCaseError> {
    let (_, mut task) = build_task(spec).unwrap();
    task.ledger().open();
    let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 0, 4, 0), path(4, 90, 3, 3)]);
    for op in ops {
        if let Some(event) = happen(&mut bench, op) {
            task.observe(&bench.context(), &event);
        }
        let Op::Ask { action, sends } = op else { continue };
        let is_due = ask(&mut *task, &bench, spec)?;
        if let Some(action) = action.as_ref().filter(|_| is_due) {
            task.mask(&bench.context(), &mut vec![false; task.shape().actions.outputs()]);
            task.answer(&bench.context(), action);
            prop_assert!(!ask(&mut *task, &bench, spec)?, "{spec}: asked again");
        }
        for _ in 0..*sends {
            let decision = select(&mut *task, &bench, spec)?;
            let _ = task.explain(&bench.context());
            let Some(event) = bench.carry(decision) else { break };
            task.observe(&bench.context(), &event);
        }
    }
    let decisions = task.ledger().decisions();
    let mut observation = vec![f32::NAN; task.shape().inputs.len()];
    task.finish(&bench.context(), &mut observation);
    prop_assert!(observation.iter().all(|observation| observation.is_finite()), "{spec}");
    for earned in task.ledger().earned() {
        prop_assert!(earned.reward.is_finite() && earned.decision < decisions, "{spec}: {earned:?}");
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn any_answers_to_any_connection_are_borne(ops in prop::collection::vec(op(), 1..120)) {
        for spec in specs() {
            play(&spec, &ops)?;
        }
    }
}

#[test]
fn a_connection_without_paths_or_data_asks_nothing_that_hurts() {
    for spec in specs() {
        let (_, mut task) = build_task(&spec).unwrap();
        let mut bench = Bench::new(Vec::new());
        bench.flow.unsent = Bytes::ZERO;
        bench.refresh();
        let mut observation = vec![0.0; task.shape().inputs.len()];
        assert!(!task.question(&bench.context(), &mut observation), "{spec}");
        assert_eq!(task.select(&bench.context()), Decision::Wait, "{spec}");
        task.finish(&bench.context(), &mut observation);
    }
}
