//! A scheduler's vectors tell it from min-RTT: with min-RTT in its place its file fails.
//!
//! Nothing is exempt but min-RTT itself. A rule that min-RTT could stand in for, in every case of its file, is either
//! not exercised there or no rule of its own: then it is a name of min-RTT's.

use weftway_vectors::{files, sched};

#[test]
fn every_file_fails_with_min_rtt_in_its_place() {
    let mut told_apart = Vec::new();
    for (_, text) in files("sched") {
        let (own, _) = sched::run(&text).expect("its own scheduler can play it");
        // A script that min-RTT cannot follow, because a packet is not where it should be, has failed as well.
        if sched::run_in_place(&text, "min-rtt").map_or(true, |(_, report)| !report.failures.is_empty()) {
            told_apart.push(own);
        }
    }
    let alike: Vec<_> =
        weftway_sched::all().iter().map(|entry| entry.name).filter(|name| !told_apart.contains(name)).collect();
    assert_eq!(alike, ["min-rtt"], "their vectors pass with min-rtt in their place");
}
