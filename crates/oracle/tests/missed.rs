//! No run brings more datagrams in time than the capacity bound says: every scheduler, over links that are drawn. And
//! the bound is what a calculation by hand finds.

use crate::setup::drawn::{Draws, drawn_link, kbps, ms};
use crate::setup::{down, path};
use weftway_link::{Change, Set};
use weftway_oracle::{Missed, least_missed};
use weftway_path::{BitRate, Bytes, Instant, Span};
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig, Workload};
use weftway_sim::run::Job;

/// Datagrams of 1000 B, one in 10 ms, each of use for 100 ms; in packets of 1060 B.
fn datagrams(paths: Vec<PathConfig>, span: Span) -> SimConfig {
    let transport = TransportConfig { mss: Bytes::new(1200), packet: Bytes::new(1256), ..TransportConfig::mpquic() };
    let (bytes, rate, period, deadline) = (Bytes::new(1000), None, ms(10), ms(100));
    let workload = Workload::Datagrams { bytes, rate, period, deadline, span };
    SimConfig { workload, ..SimConfig::new(transport, paths, Bytes::ZERO) }
}

fn job(config: &SimConfig, seed: u64) -> Job<'_> {
    Job { config, cc: "bbr3", seed, timing: None }
}

fn bound(config: &SimConfig) -> (u64, u64) {
    let Missed { written, least } = least_missed(&job(config, 1)).expect("it runs").expect("datagrams");
    (written, least)
}

/// Number of datagrams that a run misses, and of those written.
fn missed(job: &Job<'_>, scheduler: &str) -> (u64, u64) {
    let finished = job.run_named(scheduler).expect("it runs");
    let app = finished.sim.connection(0).app();
    let deadline = job.config.workload.deadline().expect("a deadline");
    let late = app.delays.iter().filter(|delay| **delay > deadline).count() as u64;
    (app.delays.len() as u64 + app.outstanding(), late + app.outstanding())
}

/// 80 Mbit/s, 30 ms, and nothing from 1000 to 2000 ms. A packet takes 0.106 ms. One is missed that is written from
/// 1000 − 0.106 ms to 2000 + 0.106 − 70 ms: those of 93 of the times 10 ms apart, wherever they begin.
#[test]
fn an_outage_takes_what_is_written_in_it_and_not_of_use_after_it() {
    let outage = |path| down(path, 1000, Some(2000));
    let one = datagrams(vec![outage(path("a", 80_000, 30))], ms(3000));
    assert_eq!(bound(&one), (300, 93));
    let other = |ms| vec![outage(path("a", 80_000, 30)), path("b", 80_000, ms)];
    assert_eq!(bound(&datagrams(other(99), ms(3000))), (300, 0));
    assert_eq!(bound(&datagrams(other(100), ms(3000))), (300, 93), "a path whose delay takes all of the time");
    // Both are down from 1500 to 2000 ms only: 500 − 70 ms, and the time of a packet at each end.
    let both = vec![outage(path("a", 80_000, 30)), down(path("b", 80_000, 30), 1500, Some(2500))];
    assert_eq!(bound(&datagrams(both, ms(4000))), (400, 43));
}

/// 424 kbit/s are 53 B a millisecond, or a packet in 20 ms, half of what is written. From the first of 200 datagrams
/// until 70 ms after the last are 2060 ms: 103 packets. Two such links carry all; two
/// fast ones behind one of them are that one.
#[test]
fn a_slow_link_brings_what_it_has_work_for() {
    let slow = |name| path(name, 424, 30);
    assert_eq!(bound(&datagrams(vec![slow("a")], ms(2000))), (200, 97));
    assert_eq!(bound(&datagrams(vec![slow("a"), slow("b")], ms(2000))), (200, 0));
    let mut shared = datagrams(vec![path("a", 80_000, 10), path("b", 80_000, 15)], ms(2000));
    shared.shared = vec![slow("s").data];
    shared.paths.iter_mut().for_each(|path| path.via = Some(0));
    // 10 ms of delay before it: 2050 ms of work.
    assert_eq!(bound(&shared), (200, 98));
    let mut before = datagrams(vec![slow("a"), slow("b")], ms(2000));
    before.shared = vec![path("s", 80_000, 0).data];
    before.paths.iter_mut().for_each(|path| path.via = Some(0));
    assert_eq!(bound(&before).1, 0);
    before.paths.truncate(1);
    assert_eq!(bound(&before), (200, 97));
}

/// In 70 ms 84.8 kbit/s carry 0.7 packets: none fits, over however many such links. At 128 kbit/s one does.
#[test]
fn a_packet_takes_one_path() {
    let config = |bps| {
        let mut config = datagrams(["a", "b", "c"].map(|name| path(name, 80_000, 30)).to_vec(), ms(2000));
        let set = Set::Rate(BitRate::from_bps(bps).into());
        let change = Change { at: Instant::from_millis(1), set };
        config.paths.iter_mut().for_each(|path| path.data.changes = vec![change.clone()]);
        config
    };
    assert_eq!(bound(&config(84_800)), (200, 200));
    assert!(bound(&config(128_000)).1 < 200);
}

/// Two outages, both links down for 500 ms of them. Who sends everything over both links misses what the bound says,
/// and little more: what comes while the links are asked whether they work again.
#[test]
fn the_bound_is_nearly_attained_by_copies_of_everything() {
    let paths = vec![down(path("a", 20_000, 30), 1500, Some(2500)), down(path("b", 20_000, 40), 2000, Some(3000))];
    let config = datagrams(paths, ms(5000));
    let (written, least) = bound(&config);
    let (of_run, missed) = missed(&job(&config, 1), "redundant");
    assert_eq!(of_run, written);
    assert!(least >= 40 && (least..least + 60).contains(&missed), "{missed} missed, at least {least}");
}

fn world(seed: u64) -> SimConfig {
    let mut draws = Draws::of(seed);
    let paths = (0..draws.between(1, 3)).map(|at| {
        let (data, acks) = (drawn_link(&mut draws), drawn_link(&mut draws));
        PathConfig { data, acks, ..path(&format!("p{at}"), 1, 1) }
    });
    let mut config = datagrams(paths.collect(), ms(0));
    if draws.one_in(3) {
        config.shared = vec![drawn_link(&mut draws)];
        config.paths.iter_mut().for_each(|path| path.via = (!draws.one_in(3)).then_some(0));
    }
    config.workload = Workload::Datagrams {
        bytes: Bytes::new(draws.between(40, 1196)),
        rate: draws.one_in(2).then(|| kbps(draws.between(300, 12_000))),
        period: ms(draws.between(3, 40)),
        deadline: ms(draws.between(20, 250)),
        span: ms(2_500),
    };
    config
}

#[test]
fn no_scheduler_misses_less_than_the_bound() {
    let mut found = Vec::new();
    let (mut bounded, mut attained) = (0, 0);
    for seed in 0..80 {
        let config = world(seed);
        let job = job(&config, seed);
        let Some(bound) = least_missed(&job).expect("it runs") else { continue };
        bounded += u64::from(bound.least > 0);
        for scheduler in ["redundant", "deadline", "earliest-delivery", "min-rtt"] {
            let (written, missed) = missed(&job, scheduler);
            assert_eq!(written, bound.written, "world {seed}");
            attained += u64::from(bound.least > 0 && missed == bound.least);
            if missed < bound.least {
                found.push(format!("world {seed}, {scheduler}: {missed} missed, at least {}", bound.least));
            }
        }
    }
    assert!(found.is_empty(), "{} runs are better than the bound:\n{}", found.len(), found.join("\n"));
    assert!(bounded >= 20 && attained >= 10, "it says something: of {bounded} worlds; {attained} runs attain it");
}

/// Other workloads have no deadline that counts; and of what is cut off no share is known.
#[test]
fn only_whole_runs_of_datagrams_have_it() {
    let config = datagrams(vec![path("a", 8_000, 10)], ms(2000));
    let of = |config: &SimConfig| least_missed(&job(config, 1)).expect("it runs");
    assert_eq!(of(&config), Some(Missed { written: 200, least: 0 }));
    assert_eq!(of(&SimConfig { time_limit: ms(2000), ..config.clone() }), None);
    let bulk = Workload::Bulk { bytes: Bytes::new(1000) };
    assert_eq!(of(&SimConfig { workload: bulk, ..config }), None);
}
