//! Whole scenarios: what they become, what is wrong with them, and that nothing panics.

mod base;
mod claims;
mod docs;
mod drives;
mod files;
mod mistakes;
mod reading;
mod robustness;

use std::path::Path;

use super::{Scenario, ScenarioError};

/// The example of the reference page, with what a test puts in its place.
const PLAIN: &str = r#"title = "Two paths"
seeds = "0..3"
[path.wifi]
rate = "30 Mbit/s"
delay = "10 ms"
loss = "0.5 %"
[path.lte]
rate = { down = "20 Mbit/s", up = "5 Mbit/s" }
delay = "35 ms"
[workload]
kind = "bulk"
bytes = "20 MB"
"#;

fn parse(text: &str) -> Result<Scenario, ScenarioError> {
    with_sets(text, &[])
}

fn with_sets(text: &str, sets: &[&str]) -> Result<Scenario, ScenarioError> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    Scenario::parse(text, "test.toml", Path::new("no-such-folder"), &sets)
}

/// The plain scenario with `from` replaced by `to`.
fn plain(from: &str, to: &str) -> String {
    assert!(PLAIN.contains(from), "the plain scenario contains {from:?}");
    PLAIN.replacen(from, to, 1)
}
