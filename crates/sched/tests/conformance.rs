//! Properties of every scheduler of the registry, on any sequence of events, with every switch:
//!
//! - answers name existing paths; a full path is only answered by entries that queue, a copy or
//!   data ahead only by entries that say so, and data only when there are some to send;
//! - asking three times is asking once;
//! - no wait that nothing would end: nothing in flight, no pacer to fire, no wake-up; and no wait with new data at hand
//!   beside an open path that may serve them, unless the entry claims that its rule waits;
//! - a wake-up moves on.

use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::collection::vec;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use weftway_path::{BitRate, BlockedReason, Decision, Event, Health, Offset, PathId, Role, Span, Starved};
use weftway_sched::{Entry, Interval, Mode, Needs, Scheduler, Timing};
use weftway_vectors::testing::{Bandit, Bench, packets, path};

#[derive(Clone, Debug)]
enum Op {
    Ask,
    Ack(u8),
    Lose(u8),
    Pass(u64),
    Srtt(u8, u64),
    Cwnd(u8, u64),
    Rate(u8, u64),
    Pace(u8, bool),
    Health(u8, u8),
    Role(u8, bool),
    Down(u8),
    Up(u8, u64),
    Congestion(u8),
    Starved(bool),
    Window(u64),
    Unsent(u64),
}

fn op() -> impl Strategy<Value = Op> {
    let path = || any::<u8>();
    prop_oneof![
        12 => Just(Op::Ask),
        8 => path().prop_map(Op::Ack),
        2 => path().prop_map(Op::Lose),
        4 => (0..150u64).prop_map(Op::Pass),
        2 => (path(), small_or(400)).prop_map(|(path, ms)| Op::Srtt(path, ms)),
        2 => (path(), small_or(40)).prop_map(|(path, window)| Op::Cwnd(path, window)),
        2 => (path(), small_or(100)).prop_map(|(path, mbps)| Op::Rate(path, mbps)),
        1 => (path(), any::<bool>()).prop_map(|(path, on)| Op::Pace(path, on)),
        1 => (path(), 0..3u8).prop_map(|(path, health)| Op::Health(path, health)),
        1 => (path(), any::<bool>()).prop_map(|(path, backup)| Op::Role(path, backup)),
        1 => path().prop_map(Op::Down),
        1 => (path(), small_or(400)).prop_map(|(path, ms)| Op::Up(path, ms)),
        1 => path().prop_map(Op::Congestion),
        1 => any::<bool>().prop_map(Op::Starved),
        1 => small_or(200).prop_map(Op::Window),
        1 => small_or(200).prop_map(Op::Unsent),
    ]
}

/// A number below `limit`, often one of the first, where rules have their edges.
fn small_or(limit: u64) -> impl Strategy<Value = u64> {
    prop_oneof![0..3u64, 0..limit]
}

/// Claims of an entry.
#[derive(Clone, Copy)]
struct Claims {
    needs: Needs,
    waits: bool,
}

/// Scheduler twice, asked once and asked three times, on one bench.
struct Twins {
    claims: Claims,
    once: Box<dyn Scheduler>,
    thrice: Box<dyn Scheduler>,
    bench: Bench,
    most: u8,
}

impl Twins {
    fn new(claims: Claims, scheduler: Box<dyn Scheduler>, paths: u8) -> Self {
        let bench = Bench::new((0..paths).map(|n| path(n, 10 + 7 * u64::from(n), 10, 0)).collect());
        Self { claims, once: scheduler.clone(), thrice: scheduler, bench, most: paths }
    }

    fn play(&mut self, op: &Op) -> Result<(), TestCaseError> {
        let event = match *op {
            Op::Ask => return self.ask(),
            Op::Ack(n) => self.id(n).and_then(|path| self.bench.ack(path, None)),
            Op::Lose(n) => self.id(n).and_then(|path| self.bench.lose(path, None)),
            Op::Pass(ms) => return self.pass(Span::from_millis(ms)),
            Op::Down(n) => self.id(n).and_then(|path| self.bench.remove(path)),
            Op::Up(n, ms) => self.bench.add(path(n % self.most, ms, 10, 0)),
            Op::Congestion(n) => self.id(n).map(Event::Congestion),
            Op::Starved(true) => Some(Event::Starved(Starved::Window)),
            Op::Starved(false) => Some(Event::Starved(Starved::SendBuffer)),
            ref change => {
                self.change(change);
                None
            }
        };
        event.iter().for_each(|event| self.observe(event));
        Ok(())
    }

    fn id(&self, n: u8) -> Option<PathId> {
        let at = (n as usize).checked_rem(self.bench.paths.len())?;
        Some(self.bench.paths[at].id)
    }

    fn change(&mut self, op: &Op) {
        let bench = &mut self.bench;
        let (Op::Srtt(n, _) | Op::Cwnd(n, _) | Op::Rate(n, _) | Op::Pace(n, _) | Op::Health(n, _) | Op::Role(n, _)) =
            *op
        else {
            match *op {
                Op::Window(n) => {
                    bench.flow.edge = bench.flow.edge.max(bench.flow.next).min(bench.flow.una + packets(n))
                }
                Op::Unsent(n) => {
                    bench.flow.unsent = packets(n);
                    bench.flow.end = bench.flow.next + bench.flow.unsent;
                }
                _ => {}
            }
            return bench.refresh();
        };
        let paths = bench.paths.len();
        let Some(at) = (n as usize).checked_rem(paths) else { return };
        let path = &mut bench.paths[at];
        match *op {
            Op::Srtt(_, ms) => (path.srtt, path.latest_rtt) = (Span::from_millis(ms), Span::from_millis(ms)),
            Op::Cwnd(_, n) => path.cwnd = packets(n),
            Op::Rate(_, n) => (path.delivery_rate, path.pacing_rate) = (BitRate::from_mbps(n), BitRate::from_mbps(n)),
            Op::Pace(_, on) => path.blocked = if on { BlockedReason::Pacing } else { BlockedReason::None },
            Op::Health(_, n) => path.health = [Health::Good, Health::Suspect, Health::Stale][n as usize],
            Op::Role(_, backup) => path.role = if backup { Role::Backup } else { Role::Active },
            _ => {}
        }
        bench.refresh();
    }

    fn observe(&mut self, event: &Event) {
        let cx = self.bench.context();
        self.once.observe(&cx, event);
        self.thrice.observe(&cx, event);
    }

    fn pass(&mut self, time: Span) -> Result<(), TestCaseError> {
        self.bench.now += time;
        if self.once.wake().is_some_and(|at| at <= self.bench.now) {
            self.observe(&Event::Wake);
            let next = self.once.wake();
            prop_assert!(next.is_none_or(|at| at > self.bench.now), "wakes at {next:?} for ever");
        }
        Ok(())
    }

    fn ask(&mut self) -> Result<(), TestCaseError> {
        let cx = self.bench.context();
        let answer = self.once.select(&cx);
        for _ in 0..3 {
            prop_assert_eq!(self.thrice.select(&cx), answer, "asked again");
        }
        prop_assert_eq!(self.once.wake(), self.thrice.wake());
        prop_assert_eq!(self.once.explain(&cx), self.thrice.explain(&cx));
        self.check(answer)?;
        let may_wait = self.claims.waits || !is_served(&self.bench.context());
        prop_assert!(may_wait || answer != Decision::Wait, "waits beside an open path, and does not say that it may");
        let events = match answer {
            Decision::Recall(path) => self.bench.recall(path),
            other => self.bench.carry(other).into_iter().collect(),
        };
        if events.is_empty() {
            // A copy, data ahead or a queue that does not exist counts as a wait.
            self.check(Decision::Wait)?;
        }
        events.iter().for_each(|event| self.observe(event));
        Ok(())
    }

    fn check(&self, answer: Decision) -> Result<(), TestCaseError> {
        let cx = self.bench.context();
        let path = match answer {
            Decision::Send(path) => {
                prop_assert!(cx.packet.is_some(), "{answer:?} without a packet");
                path
            }
            Decision::Ahead(path, _) => {
                prop_assert!(self.claims.needs.ahead, "{answer:?} not declared");
                path
            }
            Decision::Repeat(path, _) => {
                prop_assert!(self.claims.needs.copies, "{answer:?} not declared");
                path
            }
            Decision::Recall(path) => {
                prop_assert!(self.claims.needs.recall, "{answer:?} not declared");
                prop_assert!(cx.path(path).is_some(), "{answer:?} does not exist");
                return Ok(());
            }
            Decision::Wait => {
                let will_end = |path: &weftway_path::Path| {
                    path.bytes_in_flight > packets(0) || path.blocked == BlockedReason::Pacing
                };
                let could_go = cx.packet.is_some() && cx.sendable().next().is_some();
                let ends = cx.paths.iter().any(will_end) || self.once.wake().is_some();
                prop_assert!(!could_go || ends, "waits for nothing");
                return Ok(());
            }
        };
        let known = cx.path(path);
        prop_assert!(known.is_some(), "{answer:?} does not exist");
        prop_assert!(known.is_some_and(|path| path.is_open()) || self.claims.needs.queueing, "{answer:?} is blocked");
        Ok(())
    }
}

/// Returns true if new data are at hand and a path of those that serve them is open: active ones while one lives, then
/// backups, then those that may have failed.
fn is_served(cx: &weftway_path::Context<'_>) -> bool {
    let tier = |path: &weftway_path::Path| match (path.blocked, path.health) {
        (BlockedReason::Validation, _) => None,
        (_, Health::Good) => Some(u8::from(!path.is_active())),
        _ => Some(2),
    };
    let live = cx.paths.iter().filter_map(tier).min();
    cx.packet.is_some_and(|packet| !packet.reinjection) && cx.sendable().any(|path| tier(path) == live)
}

/// Numbers of paths, and of the sequences that are played on them.
const SIZES: [(u8, u32); 5] = [(1, 32), (2, 128), (3, 64), (16, 16), (64, 8)];

/// Seeds equal in every run and for every scheduler.
fn runner(cases: u32) -> TestRunner {
    let config = Config { cases, failure_persistence: None, ..Config::default() };
    TestRunner::new_with_rng(config, TestRng::deterministic_rng(RngAlgorithm::ChaCha))
}

fn sequence() -> impl Strategy<Value = Vec<Op>> {
    vec(op(), 1..250)
}

/// Random sequences, for each of the sizes.
struct Sequences(Vec<Vec<Vec<Op>>>);

impl Sequences {
    /// Drawn once for all schedulers: drawing takes longer than playing.
    fn draw() -> Self {
        let draw = |runner: &mut TestRunner| sequence().new_tree(runner).expect("nothing is rejected").current();
        let of_size = |(_, cases)| {
            let mut runner = runner(cases);
            (0..cases).map(|_| draw(&mut runner)).collect()
        };
        Self(SIZES.map(of_size).into())
    }

    fn check(&self, name: &str, claims: Claims, scheduler: &dyn Fn() -> Box<dyn Scheduler>) {
        for ((paths, cases), sequences) in SIZES.into_iter().zip(&self.0) {
            let play = |ops: &[Op]| {
                let mut twins = Twins::new(claims, scheduler(), paths);
                ops.iter().try_for_each(|op| twins.play(op))
            };
            if let Some(error) = sequences.iter().find_map(|ops| play(ops).err()) {
                // Once more, by what makes a sequence that fails short.
                runner(cases)
                    .run(&sequence(), |ops| play(&ops))
                    .unwrap_or_else(|short| panic!("{name} on {paths} paths: {short}"));
                panic!("{name} on {paths} paths: {error}");
            }
        }
    }
}

/// The entry as it is, with each value of each switch that has named values, and each preset.
fn variants(entry: &'static Entry) -> Vec<String> {
    let named = entry.params.iter().filter(|param| param.values.contains(" | "));
    let values =
        named.flat_map(|param| param.values.split(" | ").map(|value| format!("{}:{}={value}", entry.name, param.name)));
    let presets = entry.presets.iter().map(|preset| preset.name.to_owned());
    [entry.name.to_owned()].into_iter().chain(values).chain(presets).collect()
}

#[test]
fn the_registry_conforms() {
    let sequences = Sequences::draw();
    let specs: Vec<_> = weftway_sched::all()
        .iter()
        .copied()
        .flat_map(|entry| variants(entry).into_iter().map(move |spec| (entry, spec)))
        .collect();
    // On one thread this would take longer than all other tests of the crate.
    let next = AtomicUsize::new(0);
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                while let Some((entry, spec)) = specs.get(next.fetch_add(1, Ordering::Relaxed)) {
                    let build = || weftway_sched::build(spec).expect("a declared value");
                    let claims = Claims { needs: build().needs(), waits: entry.waits };
                    sequences.check(spec, claims, &build);
                }
            });
        }
    });
}

/// A short connection of two paths, in which each is full for a while, something is lost, the peer's window closes now
/// and then, and at the end the application writes a packet at a time. It is told what it `hears`; `look` is shown the
/// answers.
fn short_script(
    scheduler: &mut dyn Scheduler,
    hears: impl Fn(&Event) -> bool,
    mut look: impl FnMut(&dyn Scheduler, &weftway_path::Context<'_>, Decision),
) {
    let mut bench = Bench::new(vec![path(0, 20, 4, 0), path(1, 50, 6, 0)]);
    for turn in 0..400_u32 {
        let is_thin = turn >= 250;
        bench.now += Span::from_millis(if is_thin { 15 } else { 3 });
        if is_thin {
            bench.flow.unsent = packets(1);
            bench.flow.end = bench.flow.next + packets(1);
            bench.flow.edge = bench.flow.end;
        } else if turn % 100 == 60 {
            (bench.flow.edge, bench.flow.end) = (bench.flow.next, bench.flow.next + packets(50));
        } else if turn % 100 == 64 {
            bench.flow.edge = bench.flow.end;
        }
        bench.refresh();
        let answer = scheduler.select(&bench.context());
        look(scheduler, &bench.context(), answer);
        let mut events = match answer {
            Decision::Recall(path) => bench.recall(path),
            other => bench.carry(other).into_iter().collect(),
        };
        if is_thin {
            // All comes back within four turns; then one packet is in flight on the faster path.
            for (path, left) in [(PathId::new(0), 1), (PathId::new(1), usize::from(turn % 4 > 0))] {
                while bench.in_flight(path).count() > left {
                    events.extend(bench.ack(path, None));
                }
            }
        }
        let back = match turn % 20 {
            _ if is_thin => None,
            19 => bench.lose(PathId::new(1), None),
            at if at % 3 == 0 => bench.ack(PathId::new(0), None),
            at if at % 7 == 0 => bench.ack(PathId::new(1), None),
            _ => None,
        };
        events.extend(back);
        let is_due = scheduler.wake().is_some_and(|at| at <= bench.now);
        events.extend(is_due.then_some(Event::Wake));
        events.retain(&hears);
        events.iter().for_each(|event| scheduler.observe(&bench.context(), event));
    }
}

#[test]
fn whoever_sends_says_why() {
    for entry in weftway_sched::all() {
        for spec in variants(entry) {
            let mut scheduler = weftway_sched::build(&spec).expect("a declared value");
            let mut sent = 0;
            short_script(
                &mut *scheduler,
                |_| true,
                |scheduler, cx, answer| {
                    if answer != Decision::Wait {
                        sent += 1;
                        let reason = scheduler.explain(cx).unwrap_or_default();
                        assert!(!reason.is_empty(), "{spec} answers {answer:?} at {:?} and does not say why", cx.now);
                    }
                },
            );
            assert!(sent > 20, "{spec} sends {sent} times");
        }
    }
}

/// The answers to a short script of one that hears `hears`.
fn answers(spec: &str, hears: impl Fn(&Event) -> bool) -> Vec<Decision> {
    let mut scheduler = weftway_sched::build(spec).expect("a declared value");
    let mut answers = Vec::new();
    short_script(&mut *scheduler, hears, |_, _, answer| answers.push(answer));
    answers
}

#[test]
fn whoever_needs_no_events_answers_alike_without_them() {
    for entry in weftway_sched::all() {
        for spec in variants(entry) {
            let needs = weftway_sched::build(&spec).expect("a declared value").needs();
            let told = |event: &Event| {
                needs.events || needs.wake && matches!(event, Event::Wake | Event::PathUp(_) | Event::PathDown(_))
            };
            assert_eq!(answers(&spec, told), answers(&spec, |_| true), "{spec} goes by what it need not be told");
        }
    }
    // The script is such that it shows: probes go by what came back when, copies by what was sent, turns by both.
    for spec in
        ["rtt-probs", "rtt-probs:probe=data", "thin-stream:probe=any", "redundant", "round-robin", "ucb1-redundancy"]
    {
        assert_ne!(answers(spec, |_| false), answers(spec, |_| true), "{spec}");
    }
}

#[test]
fn what_is_built_needs_what_its_entry_says() {
    for entry in weftway_sched::all() {
        assert_eq!(entry.make(&[]).expect("defaults are values").needs(), entry.needs, "{}", entry.name);
    }
    for entry in weftway_sched::learned::tasks() {
        let (_, task) = weftway_sched::learned::build_task(entry.name).expect("it is in the list");
        assert_eq!(task.needs(), entry.needs, "{}", entry.name);
    }
}

#[test]
fn a_fallback_brings_its_needs() {
    let learned = weftway_sched::all().iter().filter(|entry| entry.params.iter().any(|param| param.name == "fallback"));
    for entry in learned {
        for fallback in weftway_sched::all() {
            let spec = format!("{}:fallback={}", entry.name, fallback.name);
            let needs = weftway_sched::build(&spec).expect("any of the registry may stand in").needs();
            assert_eq!(needs, entry.needs.union(fallback.needs), "{spec}");
        }
    }
}

#[test]
fn hosts_of_other_schedulers_conform() {
    let sequences = Sequences::draw();
    sequences.check("bandit", Claims { needs: Needs::NONE, waits: true }, &|| Box::new(Bandit::new().0));
    for (inner, mode) in [("min-rtt", Mode::Exclusive), ("ecf", Mode::Preferred), ("round-robin", Mode::Exclusive)] {
        let inner = || weftway_sched::build(inner).expect("it is in the registry");
        let interval = || Interval::new(inner(), Span::from_millis(100), mode);
        let claims = Claims { needs: interval().needs(), waits: true };
        sequences.check("interval", claims, &|| Box::new(interval().with_decision_delay(Span::from_millis(20))));
    }
}

#[test]
fn whoever_chooses_for_an_interval_says_so_counts_what_the_path_brings_and_has_both_modes() {
    for entry in weftway_sched::all() {
        let counts = entry.make(&[]).expect("defaults are values").report().chosen_bytes.is_some();
        assert_eq!(counts, entry.timing == Timing::Interval, "{}", entry.name);
        for mode in ["exclusive", "preferred"].into_iter().filter(|_| entry.has_intervals()) {
            assert!(entry.make(&[("mode".to_owned(), mode.to_owned())]).is_ok(), "{}: {mode}", entry.name);
        }
    }
}

#[test]
fn names_and_switches_are_sound() {
    let names_of = |entry: &'static Entry| {
        let presets = entry.presets.iter().map(|preset| &preset.name);
        entry.aliases.iter().chain(presets).chain([&entry.name])
    };
    let names: Vec<_> = weftway_sched::all().iter().copied().flat_map(names_of).collect();
    for name in &names {
        assert_eq!(names.iter().filter(|other| other == &name).count(), 1, "{name} names two schedulers");
        assert_eq!(**name, weftway_path::spec::normalise(name), "{name} can never be typed");
    }
    for entry in weftway_sched::all() {
        assert!(entry.make(&[]).is_ok(), "{}'s defaults are not among its values", entry.name);
        for (what, text) in [
            ("summary", entry.summary),
            ("reference", entry.reference),
            ("goal", entry.goal),
            ("application", entry.application),
        ] {
            assert!(!text.is_empty(), "the entry of {} has no {what}", entry.name);
        }
        for preset in entry.presets {
            assert!(weftway_sched::build(preset.name).is_ok(), "{} sets what {} has not", preset.name, entry.name);
        }
        let typo = format!("{}x", entry.name);
        assert!(weftway_sched::parse(&typo).unwrap_err().to_string().contains("did you mean"), "{typo}");
        let bad = |param: &weftway_path::spec::Param| [(param.name.to_owned(), "no such value".to_owned())];
        assert!(entry.params.iter().all(|param| entry.make(&bad(param)).is_err()), "{} takes anything", entry.name);
    }
}

#[test]
fn the_check_finds_faults() {
    /// Names a path that is not there, a different one each time.
    #[derive(Clone)]
    struct Wild(u8);
    impl Scheduler for Wild {
        fn select(&mut self, _: &weftway_path::Context<'_>) -> Decision {
            self.0 += 1;
            Decision::Repeat(PathId::new(self.0), Offset::ZERO)
        }
    }
    /// Never sends.
    #[derive(Clone)]
    struct Idle;
    impl Scheduler for Idle {
        fn select(&mut self, _: &weftway_path::Context<'_>) -> Decision {
            Decision::Wait
        }
    }
    let idle = |waits| {
        let mut twins = Twins::new(Claims { needs: Needs::NONE, waits }, Box::new(Idle), 2);
        twins.bench.paths[0].bytes_in_flight = packets(1);
        twins.play(&Op::Ask)
    };
    assert!(idle(true).is_ok() && idle(false).is_err());
    let mut twins = Twins::new(Claims { needs: Needs::NONE, waits: false }, Box::new(Wild(5)), 1);
    assert!(twins.play(&Op::Ask).is_err());
    assert!(twins.check(Decision::Send(PathId::new(9))).is_err());
    assert!(twins.check(Decision::Repeat(PathId::new(0), Offset::ZERO)).is_err());
    assert!(twins.check(Decision::Wait).is_err());
    assert!(twins.check(Decision::Send(PathId::new(0))).is_ok());
}
