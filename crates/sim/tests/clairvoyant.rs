//! The clairvoyant: no worse than the scheduler that it starts from, no better than the bound, the same every time.

use crate::setup::{bulk, lossy, path, stacks};
use weftway_path::{Bytes, Instant, Span};
use weftway_scenario::config::{MessageSize, SimConfig, Workload};
use weftway_sim::clairvoyant::{Plan, Tally, run};
use weftway_sim::measure::Singles;
use weftway_sim::run::{Finished, Job};

fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// Two paths, one of which loses 2 %.
fn config(bytes: u64) -> SimConfig {
    bulk(&stacks()[2].1, vec![path("a", 10_000, 10), lossy(path("b", 8_000, 40), 0.02)], bytes)
}

/// Messages of few packets: with more of them, one change at a time often gains nothing that lasts to the end.
fn messages(mut config: SimConfig) -> SimConfig {
    let sizes = vec![MessageSize::of(Bytes::new(6_000))];
    config.workload = Workload::Messages { sizes, period: ms(4), count: 120, deadline: None };
    config
}

fn squares(config: &SimConfig, finished: &Finished) -> f64 {
    let measured = finished.measurement(config, &Singles::default());
    measured.messages.delays.iter().map(|delay| delay.as_secs_f64() * delay.as_secs_f64()).sum()
}

#[test]
fn who_sees_the_future_does_no_worse_and_never_beats_the_bound() {
    let plan = Plan { base: "min-rtt".to_owned(), tries: u64::MAX };
    let mut sooner = 0;
    for seed in 1..4 {
        let config = config(800_000);
        let job = Job { config: &config, cc: "cubic", seed, timing: None };
        let (seen, tally) = run(&job, &plan).expect("it runs");
        let blind = job.run_named("min-rtt").expect("it runs");
        let least = Instant::ZERO + job.bound().expect("a controller").completion.expect("an end");
        assert!(seen.sim.now() <= blind.sim.now() && seen.sim.now() >= least, "seed {seed}");
        assert!(tally.tried == tally.choices && tally.tried > 100, "{tally:?}");
        sooner += u64::from(seen.sim.now() < blind.sim.now());

        let config = messages(config);
        let job = Job { config: &config, cc: "cubic", seed, timing: None };
        let (seen, tally) = run(&job, &plan).expect("it runs");
        assert!(tally.changed > 0 && tally.changed < tally.tried, "{tally:?}");
        let blind = job.run_named("min-rtt").expect("it runs");
        let (seen, blind) = (squares(&config, &seen), squares(&config, &blind));
        assert!(seen < 0.9 * blind, "seed {seed}: {seen} of {blind}");
    }
    assert!(sooner > 0, "no bulk transfer ended sooner");
}

/// Every so many questions, so that there are no more tries than asked for; without a choice, it is the base scheduler.
#[test]
fn tries_are_spread_over_the_run_and_repeat() {
    let config = messages(config(0));
    let job = Job { config: &config, cc: "cubic", seed: 1, timing: None };
    let of = |tries| run(&job, &Plan { base: "min-rtt".to_owned(), tries }).expect("it runs");
    let (once, tally) = of(20);
    assert!((10..=20).contains(&tally.tried) && tally.changed <= tally.tried, "{tally:?}");
    let row = |finished: &Finished| job.row(finished, &Singles::default());
    assert_eq!((row(&once), tally), {
        let again = of(20);
        (row(&again.0), again.1)
    });
    let single = bulk(&stacks()[2].1, vec![path("a", 10_000, 10)], 100_000);
    let job = Job { config: &single, cc: "cubic", seed: 1, timing: None };
    let plan = Plan { base: "earliest-delivery".to_owned(), tries: 400 };
    let (alone, tally) = run(&job, &plan).expect("it runs");
    assert_eq!(tally, Tally::default(), "one path is no choice");
    assert_eq!(alone.sim.now(), job.run_named("earliest-delivery").expect("it runs").sim.now());
}
