//! Labels for the estimate of `foreseen`: when packets arrive, as the links know it.

use crate::setup::{bulk, path, stacks};
use weftway_oracle::arrivals;
use weftway_sched::learned::foreseen::Foreseen;
use weftway_sim::run::Job;

/// Two paths of 8 Mbit/s, 10 and 40 ms: a packet takes some 1.5 ms and the delay at least, and as long as the largest
/// queue allows at most. What the rule predicts is within a factor of two of that, mostly.
#[test]
fn a_packet_takes_the_delay_the_queue_and_its_own_time() {
    let rule = Foreseen::new(None).expect("no policy, nothing to refuse");
    for (_, transport) in stacks() {
        let config = bulk(&transport, vec![path("a", 8_000, 10), path("b", 8_000, 40)], 600_000);
        let job = Job { config: &config, cc: "cubic", seed: 1, timing: None };
        let rows = arrivals(&job, rule.clone(), 4).expect("it runs");
        let width = Foreseen::inputs().len() + 1;
        assert!(rows.len().is_multiple_of(width) && rows.len() > 50 * width);
        let took = rows.chunks_exact(width).map(|row| 32.0 * (row[0] + row[width - 1]).exp2());
        let took: Vec<f32> = took.collect();
        // The smaller delay and a millisecond; both are within the 1 % of an approximate logarithm.
        assert!(took.iter().all(|ms| *ms > 10.8), "{took:?}");
        assert!(took.iter().any(|ms| *ms < 15.0) && took.iter().any(|ms| *ms > 40.8));
        let near = rows.chunks_exact(width).filter(|row| row[width - 1].abs() < 1.0).count();
        assert!(near * width * 10 > rows.len() * 8, "{near} of {}", rows.len() / width);
        assert_eq!(rows, arrivals(&job, rule.clone(), 4).expect("it runs"), "the same each time");
    }
}
