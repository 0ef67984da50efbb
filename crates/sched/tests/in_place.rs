//! A scheduler's vectors tell it from min-RTT: with min-RTT in its place its file fails.
//!
//! Nothing is exempt but min-RTT itself. A rule that min-RTT could stand in for, in every case of its file, is either not
//! exercised there or no rule of its own: then it is a name of min-RTT's.

use std::fs;
use std::path::PathBuf;

use weftway_sched::vector;

#[test]
fn every_file_fails_with_min_rtt_in_its_place() {
    let folder = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../vectors/sched");
    let mut told_apart = Vec::new();
    for file in fs::read_dir(&folder).expect("the folder can be listed") {
        let text = fs::read_to_string(file.expect("a file").path()).expect("the file can be read");
        let own = vector::run(&text).expect("its own scheduler can play it").scheduler;
        // A script that min-RTT cannot follow, because a packet is not where it should be, has failed as well.
        let fails = vector::run_in_place(&text, "min-rtt").map_or(true, |report| report.failures().next().is_some());
        if fails {
            told_apart.push(own);
        }
    }
    let alike: Vec<_> =
        weftway_sched::all().iter().map(|entry| entry.name).filter(|name| !told_apart.contains(name)).collect();
    assert_eq!(alike, ["min-rtt"], "their vectors pass with min-rtt in their place");
}
