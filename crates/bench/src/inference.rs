//! Cost of one decision of each learned scheduler when it is due: the time between two questions has passed, what is
//! seen is looked up, the network answers.

use std::hint::black_box;
use std::time::Instant;

use weftway_path::{Context, Event};
use weftway_sched::Entry;

use crate::decisions::{Offer, paths};

/// Microseconds of a due decision of `scheduler` with its policy `policy` over `count` paths: the
/// least of five rounds.
pub fn microseconds(scheduler: &str, policy: &str, count: usize) -> f64 {
    const ROUND: u64 = 2_000;
    let spec = format!("{scheduler}:policy={policy}:fallback=off");
    let mut scheduler = weftway_sched::build(&spec).expect("it is shipped");
    let paths = paths(count);
    let mut least = f64::MAX;
    let mut now = weftway_path::Instant::ZERO;
    for _ in 0..5 {
        let start = Instant::now();
        for _ in 0..ROUND {
            // Longer than any interval.
            now += weftway_path::Span::from_secs(1);
            let offer = Offer::at(now);
            let cx = Context::new(now, &paths, Some(&offer.packet), Some(&offer.flow));
            scheduler.observe(&cx, &Event::Wake);
            let _ = black_box(scheduler.select(black_box(&cx)));
        }
        least = least.min(start.elapsed().as_nanos() as f64 / ROUND as f64 / 1e3);
    }
    least
}

/// Every shipped policy: its scheduler and name.
pub fn policies() -> impl Iterator<Item = (&'static str, &'static str)> {
    let of = |entry: &&'static Entry| {
        let name = entry.name;
        entry.shipped.iter().map(move |policy| (name, policy.name))
    };
    weftway_sched::all().iter().flat_map(of)
}
