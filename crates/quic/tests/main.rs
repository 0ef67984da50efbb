//! The driver and the gate in virtual time, in one program, which is linked once. `cargo test FILE::` runs the tests of
//! one file. `many.rs`, which runs on sockets, has a program of its own.

mod addresses;
mod busy;
mod disturbed;
mod download;
mod duplex;
mod duties;
mod flows;
mod gate;
mod lossy;
mod net;
mod piped;
mod policy;
mod stalls;
mod starved;
mod virtual_time;
mod voice;

use proptest::prelude::ProptestConfig;
use proptest::test_runner::RngSeed;

/// Returns true if this is one of the runs at night, which look at more cases.
fn is_full() -> bool {
    std::env::var_os("WEFTWAY_TESTS").is_some_and(|value| value == "full")
}

/// Histories: so many, the same each time, or at night fifty times as many others each time.
fn histories(count: u32) -> ProptestConfig {
    let (cases, rng_seed) = if is_full() { (50 * count, RngSeed::Random) } else { (count, RngSeed::Fixed(1)) };
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}
