//! What a host owes its scheduler ([`weftway_host::testing`]), in each stack, with what the scheduler may declare.

use weftway_host::testing::{Duties, Found, declarations};
use weftway_path::{Bytes, Instant, Span, Thresholds, Tier};
use weftway_scenario::config::{
    Buffer, MessageSize, PathConfig, PathPolicy, Policy, SimConfig, TransportConfig, Workload,
};
use weftway_sched::{Needs, TransportRules};
use weftway_sim::{Host, Sim, Verdict};

use crate::setup::{bulk, down, drive, lossy, path, stacks};

/// A slow and a fast path with losses and a small receive buffer; one that fails for a second and a half; one that
/// comes and goes by the scenario; messages with pauses; a policy that opens and closes a path.
fn worlds(transport: &TransportConfig) -> Vec<(&'static str, SimConfig)> {
    let pair = || vec![lossy(path("fast", 20_000, 10), 0.01), lossy(path("slow", 4_000, 50), 0.01)];
    let with_buffer = |bytes: u64| {
        let buffer = Buffer::Fixed(Bytes::new(bytes));
        TransportConfig { receive_buffer: buffer, ..transport.clone() }
    };
    let small = bulk(&with_buffer(40_000), pair(), 1_000_000);
    let fails = vec![path("lasts", 4_000, 20), down(path("fails", 8_000, 10), 150, Some(1_650))];
    let at = Instant::from_millis;
    let comes = PathConfig { presence: vec![at(100), at(300), at(500)], ..path("comes", 8_000, 10) };
    let fails = bulk(transport, fails, 2_000_000);
    let comes = bulk(transport, vec![path("stays", 4_000, 20), comes], 1_000_000);
    let mut messages = bulk(&with_buffer(100_000), pair(), 0);
    messages.workload = Workload::Messages {
        sizes: vec![MessageSize::of(Bytes::new(60_000))],
        period: Span::from_millis(50),
        count: 30,
        deadline: None,
    };
    let mut tiers = bulk(transport, pair(), 1_000_000);
    let secondary = PathPolicy { tier: Tier::Secondary, cap: Some(Bytes::new(300_000)), price: None };
    let thresholds =
        Thresholds { open_after: Span::from_millis(30), close_after: Span::from_millis(60), ..Thresholds::default() };
    tiers.policy = Some(Policy { paths: vec![PathPolicy::default(), secondary], thresholds });
    let mut closes = messages.clone();
    closes.policy.clone_from(&tiers.policy);
    vec![
        ("small buffer", small),
        ("fails", fails),
        ("comes and goes", comes),
        ("messages", messages),
        ("tiers and caps", tiers),
        ("tiers that close", closes),
    ]
}

fn audit(config: &SimConfig, cc: &str, needs: Needs, seed: u64, what: &str) -> Found {
    let mut duties = Duties::new(needs, seed, Span::ZERO);
    let mut sim = Sim::new(config, cc, seed).unwrap();
    sim.host(0, Host::new(needs, TransportRules::NONE));
    assert_eq!(drive(&mut sim, &mut duties, 1), Verdict::Finished, "{what}");
    let breaches = duties.breaches(sim.connection(0).host().counts.faults);
    assert!(breaches.is_empty(), "{what}:\n{}", breaches.join("\n"));
    duties.found()
}

#[test]
fn the_simulator_meets_a_hosts_duties() {
    for (stack, transport) in stacks() {
        let mut all = Found::default();
        for (world, config) in worlds(&transport) {
            for (at, needs) in declarations(weftway_host::EVERYTHING).into_iter().enumerate() {
                for (seed, cc) in [(1, "cubic"), (2, "bbr1"), (3, "newreno")] {
                    let what = format!("{stack}, {world}, {cc}, needs {at}");
                    all.add(&audit(&config, cc, needs, seed, &what));
                }
            }
        }
        assert!(all.least() >= 10 && all.ups > all.downs, "{stack}: too little was checked: {all:?}");
    }
}
