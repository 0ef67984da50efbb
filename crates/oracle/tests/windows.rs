//! Runs under windows that follow the links.

use weftway_link::{Change, Loss, Set};
use weftway_oracle::controlled;
use weftway_path::{BitRate, Instant};
use weftway_scenario::config::SimConfig;
use weftway_sim::Verdict;
use weftway_sim::run::{Finished, Job};

use crate::setup::{bulk, path, stacks};

fn job(config: &SimConfig) -> Job<'_> {
    Job { config, cc: "cubic", seed: 1, timing: None }
}

fn run(config: &SimConfig) -> Finished {
    let finished = controlled(&job(config), "earliest-delivery").expect("it runs");
    assert_eq!(finished.verdict, Verdict::Finished);
    finished
}

/// Window of the first path in packets, at the end.
fn window(finished: &Finished) -> u64 {
    let path = &finished.sim.context(0).paths[0];
    path.cwnd.packets(path.mss)
}

/// 16 Mbit/s and a round trip of 20 ms: 2 MB/s for 45 ms are 90 000 B, and four packets more; at 4 Mbit/s from 400 ms on,
/// 22 500 B and four. Neither 2 % of losses nor slow start take anything from it.
#[test]
fn windows_are_what_the_links_hold_now() {
    for (name, transport) in stacks() {
        let steady = bulk(&transport, vec![path("a", 16_000, 10)], 2_000_000);
        let packets = |bytes: u64| (bytes + 4 * transport.mss.get()) / transport.mss.get();
        let finished = run(&steady);
        assert_eq!(window(&finished), packets(90_000), "{name}");
        let mut falls = steady.clone();
        let set = Set::Rate(BitRate::from_mbps(4).into());
        falls.paths[0].data.changes = vec![Change { at: Instant::from_millis(400), set }];
        assert_eq!(window(&run(&falls)), packets(22_500), "{name}");
        let mut loses = steady.clone();
        loses.paths[0].data.loss = Loss::Bernoulli(0.02);
        let lossy = run(&loses);
        assert_eq!(window(&lossy), packets(90_000), "{name}");
        let own = job(&loses).run_named("earliest-delivery").expect("it runs");
        assert!(lossy.sim.now().since(Instant::ZERO) * 3 < own.sim.now().since(Instant::ZERO) * 2, "{name}");
    }
}

/// 100 kB over 16 Mbit/s take 50 ms and more on the link; a handshake and slow start from ten packets take three round
/// trips of 200 ms beside it.
#[test]
fn the_first_window_is_the_link_s() {
    for (name, transport) in stacks() {
        let far = bulk(&transport, vec![path("a", 16_000, 100)], 100_000);
        let took = |finished: &Finished| finished.sim.now().since(Instant::ZERO).as_millis();
        let (with, without) = (took(&run(&far)), took(&job(&far).run_named("earliest-delivery").expect("it runs")));
        assert!(with + 350 < without, "{name}: {with} and {without} ms");
    }
}
