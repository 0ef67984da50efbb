//! What a host owes its scheduler and what it does about one that breaks a rule: needs of what was built, wake-ups, and
//! the counts of a fallback.

use crate::setup::{self, bulk, lossy, path, stacks};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Span};
use weftway_scenario::config::{Buffer, SimConfig, TransportConfig};
use weftway_sched::{Entry, FallbackTally, Needs, Scheduler, TransportRules};
use weftway_sim::run::{Finished, Job};
use weftway_sim::{Host, Pause, Sim, Verdict};
use weftway_vectors::testing::Episodes;

/// Time at which it asks to be woken, of the time at which it was last asked or told something.
type Alarm = fn(Instant) -> Instant;

/// Min-RTT, or nothing at all, with an alarm that never changes its mind.
#[derive(Clone)]
struct Alarmed {
    inner: Option<Box<dyn Scheduler>>,
    now: Instant,
    alarm: Alarm,
    woken: u64,
}

impl Scheduler for Alarmed {
    fn needs(&self) -> Needs {
        Needs { wake: true, events: true, ..Needs::NONE }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.now = cx.now;
        self.inner.as_mut().map_or(Decision::Wait, |inner| inner.select(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.now = cx.now;
        self.woken += u64::from(*event == Event::Wake);
    }

    fn wake(&self) -> Option<Instant> {
        Some((self.alarm)(self.now))
    }
}

/// Runs to the end, in at most so many steps.
fn steps(sim: &mut Sim, scheduler: &mut dyn Scheduler, most: u64) -> Option<Verdict> {
    sim.host(0, Host::serving(scheduler, TransportRules::NONE));
    for _ in 0..most {
        match sim.advance() {
            Pause::Decide(_) => setup::answer(sim, scheduler, 1),
            Pause::Observe(_) => sim.tell(0, scheduler),
            Pause::Done(verdict) => return Some(verdict),
        }
    }
    None
}

fn pair(transport: &TransportConfig) -> SimConfig {
    bulk(transport, vec![path("fast", 20_000, 10), lossy(path("slow", 5_000, 40), 0.01)], 300_000)
}

/// 300 kB are 220 packets: no run of them has a hundred thousand steps unless time stands still.
#[test]
fn a_wake_up_in_the_past_is_a_fault_and_time_goes_on() {
    let alarms: [(&str, Alarm); 3] = [
        ("a millisecond ago", |now| Instant::ZERO + now.since(Instant::from_millis(1))),
        ("now", |now| now),
        ("at the start", |_| Instant::ZERO),
    ];
    for (stack, transport) in stacks() {
        for (when, alarm) in alarms {
            for inner in [Some("min-rtt"), None] {
                let what = format!("{stack}, {when}, {inner:?}");
                let inner = inner.map(|name| weftway_sched::build(name).unwrap());
                let mut alarmed = Alarmed { inner, now: Instant::ZERO, alarm, woken: 0 };
                let mut sim = Sim::new(&pair(&transport), "cubic", 1).unwrap();
                let verdict = steps(&mut sim, &mut alarmed, 100_000);
                assert_eq!(verdict, Some(Verdict::Finished), "{what}: at {}", sim.now());
                let counts = &sim.connection(0).host().counts;
                assert!(counts.faults > 0, "{what}: {counts:?}");
                assert_eq!(alarmed.woken, 0, "{what}");
            }
        }
    }
}

/// Asks to be woken at one time, until it is.
#[derive(Clone)]
struct Once {
    inner: Box<dyn Scheduler>,
    at: Option<Instant>,
    acked: Vec<Instant>,
}

impl Scheduler for Once {
    fn needs(&self) -> Needs {
        Needs { wake: true, events: true, ..Needs::NONE }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.inner.select(cx)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match event {
            Event::Acked(_) => self.acked.push(cx.now),
            Event::Wake => {
                assert_eq!(self.at.take(), Some(cx.now), "woken in time, once");
            }
            _ => {}
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.at
    }
}

/// An acknowledgement comes at the very time of the wake-up and is told first: the wake-up is then due, not past.
#[test]
fn a_wake_up_that_is_due_is_no_fault() {
    for (stack, transport) in stacks() {
        let run = |at: Option<Instant>| {
            let inner = weftway_sched::build("min-rtt").unwrap();
            let mut once = Once { inner, at, acked: Vec::new() };
            let mut sim = Sim::new(&pair(&transport), "cubic", 1).unwrap();
            assert_eq!(steps(&mut sim, &mut once, 100_000), Some(Verdict::Finished), "{stack}");
            assert_eq!((once.at, sim.connection(0).host().counts.faults), (None, 0), "{stack}");
            once.acked
        };
        let acked = run(None);
        for at in [acked[0], acked[acked.len() / 2]] {
            assert_eq!(run(Some(at)), acked, "{stack}");
        }
    }
}

/// The entries that have a fallback.
fn learned() -> impl Iterator<Item = &'static Entry> {
    weftway_sched::all().iter().copied().filter(|entry| entry.params.iter().any(|param| param.name == "fallback"))
}

/// Paths that no training saw: slow, and with a loss of a tenth.
fn strange(transport: &TransportConfig) -> SimConfig {
    let path = |n: u64| lossy(path(&format!("p{n}"), 300 + 200 * n, 150 + 90 * n), 0.1);
    bulk(transport, (0..3).map(path).collect(), 200_000)
}

/// Paths as training saw many.
fn usual(transport: &TransportConfig) -> SimConfig {
    bulk(transport, vec![path("wifi", 20_000, 15), path("lte", 10_000, 40)], 4_000_000)
}

fn finished(config: &SimConfig, spec: &str) -> Finished {
    Job { config, cc: "cubic", seed: 2, timing: None }.run_named(spec).unwrap()
}

/// Whatever stands in, it gets what it needs.
#[test]
fn a_fallback_of_any_needs_breaks_no_rule() {
    for (stack, transport) in stacks() {
        for entry in learned() {
            let mut decided = 0;
            for fallback in weftway_sched::all() {
                let spec = format!("{}:fallback={}", entry.name, fallback.name);
                assert_eq!(Host::of(&spec).unwrap().needs, entry.needs.union(fallback.needs), "{spec}");
                let Finished { sim, verdict, fallback, .. } = finished(&strange(&transport), &spec);
                let counts = &sim.connection(0).host().counts;
                assert_eq!((verdict, counts.faults), (Verdict::Finished, 0), "{spec} over {stack}: {counts:?}");
                decided += fallback.unwrap().decided;
            }
            assert!(decided > 0 || !["dqn", "rlds", "pdaa3c"].contains(&entry.name), "{} over {stack}", entry.name);
        }
    }
}

/// The counts of a run, and the same by hand: the reason says who decided, and a min-RTT beside it what it would have
/// answered.
fn by_hand(config: &SimConfig, spec: &str) -> (FallbackTally, FallbackTally, u64) {
    let mut scheduler = weftway_sched::build(spec).unwrap();
    let mut beside = weftway_sched::build("min-rtt").unwrap();
    let mut sim = Sim::new(config, "cubic", 2).unwrap();
    sim.host(0, Host::of(spec).unwrap());
    let mut counted = FallbackTally::default();
    loop {
        match sim.advance() {
            Pause::Decide(_) => {
                sim.tell(0, scheduler.as_mut());
                let cx = sim.context(0);
                let decision = scheduler.select(&cx);
                let why = scheduler.explain(&cx).unwrap();
                if !why.starts_with("the fallback decides") {
                    counted.differs += u64::from(decision != beside.select(&cx));
                } else if matches!(decision, Decision::Send(_)) {
                    counted.decided += 1;
                }
                scheduler.decided(&cx, decision);
                sim.note_wake(0, scheduler.as_ref());
                sim.apply(0, decision);
            }
            Pause::Observe(_) => sim.tell(0, scheduler.as_mut()),
            Pause::Done(_) => break,
        }
    }
    (counted, scheduler.report().fallback.unwrap(), sim.connection(0).host().counts.decisions)
}

#[test]
fn what_a_fallback_decides_is_counted() {
    for (stack, transport) in stacks() {
        let mut ever = 0;
        for entry in learned() {
            let (mut decided, mut own) = (0, 0);
            for config in [strange(&transport), usual(&transport)] {
                let what = format!("{} over {stack}", entry.name);
                let (counted, said, decisions) = by_hand(&config, entry.name);
                assert_eq!(said, counted, "{what}");
                assert!(said.decided + said.differs <= decisions, "{what}: {said:?} of {decisions}");
                assert_eq!(finished(&config, entry.name).fallback, Some(said), "{what}");
                (decided, own) = (decided + said.decided, own + said.differs);
            }
            assert!(decided > 0 || !["dqn", "rlds", "pdaa3c"].contains(&entry.name), "{} over {stack}", entry.name);
            ever += own;
        }
        assert!(ever > 0, "no policy differs from its fallback over {stack}");
    }
}

/// FALCON as it comes has no model that is better than min-RTT, and leaves everything to it unless it may adapt.
#[test]
fn a_policy_that_is_its_fallback_differs_nowhere() {
    for (stack, transport) in stacks() {
        for config in [strange(&transport), usual(&transport)] {
            let FallbackTally { decided, differs } = finished(&config, "falcon:adapt=off").fallback.unwrap();
            assert!(decided > 0, "{stack}");
            assert_eq!(differs, 0, "{stack}");
        }
        assert_eq!(finished(&pair(&transport), "falcon:fallback=off").fallback, None);
        assert_eq!(finished(&pair(&transport), "min-rtt").fallback, None);
    }
}

/// A fallback that has a state of its own is asked about every decision, and stands in as if it had not been.
#[test]
fn comparing_moves_nothing() {
    for (stack, transport) in stacks() {
        for spec in ["dqn:fallback=late", "rlds:fallback=musher", "stsgat:fallback=round-robin"] {
            let config = strange(&transport);
            let mut scheduler = weftway_sched::build(spec).unwrap();
            let mut sim = Sim::new(&config, "cubic", 2).unwrap();
            sim.host(0, Host::of(spec).unwrap());
            // Nobody is told what was decided.
            setup::drive(&mut sim, scheduler.as_mut(), 1);
            let told = finished(&config, spec).sim;
            let summary = |sim: &Sim| format!("{} {:?}", sim.now(), sim.connection(0).path_tallies);
            assert_eq!(summary(&told), summary(&sim), "{spec} over {stack}");
        }
    }
}

/// An interval around a scheduler adds what it needs itself.
#[test]
fn an_interval_needs_what_is_in_it() {
    let inner = weftway_sched::build("otias").unwrap();
    let interval = weftway_sched::Interval::new(inner, Span::from_millis(100), weftway_sched::Mode::Exclusive);
    let expected = Needs { queueing: true, wake: true, events: true, ..Needs::NONE };
    assert_eq!(interval.needs(), expected);
}

/// A buffer of 256 KiB, as a small device has, under paths that hold more: the peer's window is full again and again.
#[test]
fn each_time_that_the_window_is_full_is_told_once() {
    for (stack, transport) in stacks() {
        let window = Buffer::Fixed(Bytes::new(256 << 10));
        let transport = TransportConfig { receive_buffer: window, ..transport };
        let wifi = lossy(path("wifi", 30_000, 10), 0.005);
        let mut seen = 0;
        for seed in 1..4 {
            let config = bulk(&transport, vec![wifi.clone(), path("lte", 12_000, 35)], 4_000_000);
            let mut episodes = Episodes::default();
            let job = Job { config: &config, cc: "cubic", seed, timing: None };
            let verdict = job.run(&mut episodes, TransportRules::NONE, Vec::new()).unwrap().verdict;
            assert_eq!(verdict, Verdict::Finished, "{stack}");
            assert_eq!(episodes.told, episodes.seen, "{stack}, seed {seed}");
            seen += episodes.seen;
        }
        assert!(seen > 9, "{stack}: the window is full too rarely for a test: {seen}");
    }
}
