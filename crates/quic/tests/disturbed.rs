//! Bulk both ways over two paths, and in any order: ends that stand still, links that are cut, addresses that change
//! and lead nowhere for a while. Both paths carry data again afterwards, over the same connection.

use proptest::prelude::*;
use weftway_link::{Change, Set};
use weftway_path::{Bytes, Instant, Span};
use weftway_scenario::config::SimConfig;

use crate::addresses::{Bulk, SECOND, address};
use crate::duplex::{SIDES, over_sockets, path};

#[derive(Clone, Copy, Debug)]
enum Disturbance {
    /// An end stands still for so many milliseconds.
    Busy { end: usize, ms: u64 },
    /// A path is down for so many milliseconds.
    Cut { path: usize, ms: u64 },
    /// The second path has another address, to which what the listening end sends leads at once, or not yet.
    Move { leads: bool },
    /// It leads to its address.
    Lead,
}

use Disturbance::*;

fn disturbance() -> impl Strategy<Value = Disturbance> {
    let ms = || prop_oneof![3 => 1_u64..60, 2 => 60_u64..700, 1 => 700_u64..4000];
    prop_oneof![
        3 => (0_usize..2, ms()).prop_map(|(end, ms)| Busy { end, ms }),
        2 => (0_usize..2, ms()).prop_map(|(path, ms)| Cut { path, ms }),
        2 => any::<bool>().prop_map(|leads| Move { leads }),
        1 => Just(Lead),
    ]
}

/// The first disturbance comes after a second and its gap. A path that is down is not cut once more.
fn config(all: &[(u64, Disturbance)]) -> SimConfig {
    let mut paths = vec![path("wifi", 8, 10, 0.0), path("lte", 8, 30, 0.0)];
    let (mut at, mut up) = (1000, [0, 0]);
    for &(gap, disturbance) in all {
        at += gap;
        if let Cut { path, ms } = disturbance
            && at >= up[path]
        {
            up[path] = at + ms;
            let changes = [(at, Set::Down), (at + ms, Set::Up)];
            for (ms, set) in changes {
                let change = Change { at: Instant::from_millis(ms), set };
                paths[path].data.changes.push(change.clone());
                paths[path].acks.changes.push(change);
            }
        }
    }
    SimConfig::new(over_sockets(), paths, Bytes::new(1))
}

fn check(all: &[(u64, Disturbance)], seed: u64) {
    let mut bulk = Bulk::over(&config(all), seed);
    for (number, &(gap, disturbance)) in all.iter().enumerate() {
        bulk.run(Span::from_millis(gap));
        match disturbance {
            Busy { end, ms } => {
                let until = bulk.pair.now() + Span::from_millis(ms);
                bulk.pair.keep_busy(SIDES[end], until);
            }
            Cut { .. } => {}
            Move { leads } => bulk.move_to(address(1 + number as u8), leads),
            Lead => bulk.pair.lead(bulk.pair.source(SECOND), Some(SECOND)),
        }
    }
    bulk.pair.lead(bulk.pair.source(SECOND), Some(SECOND));
    bulk.check_alive(14, "at the end");
}

proptest! {
    #![proptest_config(crate::histories(6))]

    #[test]
    fn both_paths_carry_data_again(
        all in prop::collection::vec((0_u64..1500, disturbance()), 1..12),
        seed in 0_u64..1000,
    ) {
        check(&all, seed);
    }
}
