//! What a host owes its scheduler and what it does about one that breaks a rule: wake-ups.

mod setup;

use setup::{bulk, lossy, path, stacks};
use weftway_path::{Context, Decision, Event, Instant};
use weftway_sched::{Needs, Scheduler};
use weftway_sim::config::{SimConfig, Transport};
use weftway_sim::{Host, Pause, Sim, Verdict};

/// When it asks to be woken, of the time at which it was last asked or told something.
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
    sim.host(0, Host { needs: Needs { wake: true, events: true, ..Needs::NONE }, ..Host::default() });
    for _ in 0..most {
        match sim.advance() {
            Pause::Decide(_) => setup::answer(sim, scheduler, 1),
            Pause::Observe(_) => sim.observe(0, scheduler),
            Pause::Done(verdict) => return Some(verdict),
        }
    }
    None
}

fn pair(transport: &Transport) -> SimConfig {
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
                let tally = &sim.connection(0).tally;
                assert!(tally.faults > 0, "{what}: {tally:?}");
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
            assert_eq!((once.at, sim.connection(0).tally.faults), (None, 0), "{stack}");
            once.acked
        };
        let acked = run(None);
        for at in [acked[0], acked[acked.len() / 2]] {
            assert_eq!(run(Some(at)), acked, "{stack}");
        }
    }
}
