//! `earliest-delivery`, told by the links when packets arrive.

use weftway_link::{Change, Set};
use weftway_oracle::{Sight, sighted};
use weftway_path::{BitRate, Instant};
use weftway_scenario::config::SimConfig;
use weftway_sim::Verdict;
use weftway_sim::run::Job;

use crate::setup::{bulk, path, stacks};

/// End of a run with this sight, and the number of packets that its first path has sent.
fn run(config: &SimConfig, sight: Sight) -> (Instant, u64) {
    let finished = sighted(&Job { config, cc: "cubic", seed: 1, timing: None }, sight).expect("it runs");
    assert_eq!(finished.verdict, Verdict::Finished);
    (finished.sim.now(), finished.sim.context(0).paths[0].sent.packets)
}

/// 16 and 8 Mbit/s, 10 and 40 ms. Where nothing changes, what is and what comes are the same. If the first link falls
/// to a hundredth at 400 ms, who sees what comes decides otherwise. When a packet arrives on such a link is tested
/// beside it.
#[test]
fn what_comes_is_seen_by_the_one_sight_only() {
    for (name, transport) in stacks() {
        let steady = bulk(&transport, vec![path("a", 16_000, 10), path("b", 8_000, 40)], 2_000_000);
        assert_eq!(run(&steady, Sight::Present), run(&steady, Sight::Arrival), "{name}");
        let mut falls = steady.clone();
        let set = Set::Rate(BitRate::from_bps(160_000).into());
        falls.paths[0].data.changes = vec![Change { at: Instant::from_millis(400), set }];
        assert_ne!(run(&falls, Sight::Present), run(&falls, Sight::Arrival), "{name}");
    }
}
