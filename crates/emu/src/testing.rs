//! A scenario for the tests of this crate.

use std::path::Path;
use std::sync::Arc;

use weftway_scenario::{Scenario, Variant};

const SETTINGS: &str = r#"
transport = "mptcp"
[workload]
kind = "bulk"
bytes = "2 MB"
"#;

const WIFI: &str = r#"
[path.wifi]
rate = "30 Mbit/s"
delay = "10 ms"
"#;

const LTE: &str = r#"
[path.lte]
rate = "20 Mbit/s"
delay = "35 ms"
"#;

/// A download of 2 MB over two paths, changed as with `--set`.
pub fn variant(sets: &[&str]) -> Arc<Variant> {
    parse(&[SETTINGS, WIFI, LTE], sets)
}

/// Variant with more tables.
pub fn with(tables: &str, sets: &[&str]) -> Arc<Variant> {
    parse(&[SETTINGS, WIFI, LTE, tables], sets)
}

/// Variant over TCP, and Wi-Fi alone.
pub fn tcp(sets: &[&str]) -> Arc<Variant> {
    parse(&[&SETTINGS.replace("mptcp", "tcp"), WIFI], sets)
}

fn parse(tables: &[&str], sets: &[&str]) -> Arc<Variant> {
    let sets: Vec<String> = sets.iter().map(|&set| set.to_owned()).collect();
    let scenario = Scenario::parse(&tables.concat(), "test.toml", Path::new("."), &sets).unwrap();
    Arc::new(scenario.variants().unwrap().remove(0))
}
