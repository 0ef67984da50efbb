//! What a host owes its scheduler ([`weftway_host::testing`]), on QUIC in virtual time: where one end sends, and where
//! both do.

use weftway_host::Host;
use weftway_host::testing::{Duties, Found, declarations};
use weftway_link::{Change, Limit, LinkConfig, Loss, Queue, Rate, Set};
use weftway_mux::Limits;
use weftway_path::{BitRate, Bytes, Instant, Role, Span, Thresholds, Tier};
use weftway_quic::driver::OFFERS;
use weftway_quic::virtual_time::{Job, Pair};
use weftway_scenario::Verdict;
use weftway_scenario::config::{
    Buffer, MessageSize, PathConfig, PathPolicy, Policy, SimConfig, TransportConfig, Workload,
};
use weftway_sched::TransportRules;

use crate::duplex::{SIDES, Script, finish};

fn path(name: &str, mbps: u64, ms: u64, loss: f64) -> PathConfig {
    let acks = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    let data = LinkConfig { loss: Loss::Bernoulli(loss), ..acks.clone() };
    PathConfig { name: name.to_owned(), role: Role::Active, data, acks, via: None, presence: Vec::new() }
}

/// As the simulator's test has them: a small receive buffer and losses, a path that fails, one that comes and goes,
/// messages.
fn worlds() -> Vec<(&'static str, SimConfig)> {
    let with_buffer =
        |bytes: u64| TransportConfig { receive_buffer: Buffer::Fixed(Bytes::new(bytes)), ..TransportConfig::mpquic() };
    let pair = || vec![path("fast", 20, 10, 0.01), path("slow", 4, 50, 0.01)];
    let at = Instant::from_millis;
    let mut fails = path("fails", 8, 10, 0.0);
    fails.data.changes = vec![Change { at: at(150), set: Set::Down }, Change { at: at(1_650), set: Set::Up }];
    fails.acks.changes = fails.data.changes.clone();
    let mut comes = path("comes", 8, 10, 0.0);
    comes.presence = vec![at(100), at(300), at(500)];
    let config = |transport, paths, bytes| SimConfig::new(transport, paths, Bytes::new(bytes));
    let mut messages = config(with_buffer(100_000), pair(), 0);
    messages.workload = Workload::Messages {
        sizes: vec![MessageSize::of(Bytes::new(60_000))],
        period: Span::from_millis(50),
        count: 30,
        deadline: None,
    };
    let mut tiers = config(TransportConfig::mpquic(), pair(), 1_000_000);
    let secondary = PathPolicy { tier: Tier::Secondary, cap: Some(Bytes::new(300_000)), price: None };
    let thresholds =
        Thresholds { open_after: Span::from_millis(30), close_after: Span::from_millis(60), ..Thresholds::default() };
    tiers.policy = Some(Policy { paths: vec![PathPolicy::default(), secondary], thresholds });
    let mut closes = messages.clone();
    closes.policy.clone_from(&tiers.policy);
    vec![
        ("tiers and caps", tiers),
        ("tiers that close", closes),
        ("small buffer", config(with_buffer(40_000), pair(), 1_000_000)),
        ("fails", config(TransportConfig::mpquic(), vec![path("lasts", 4, 20, 0.0), fails], 2_000_000)),
        ("comes and goes", config(TransportConfig::mpquic(), vec![path("stays", 4, 20, 0.0), comes], 1_000_000)),
        ("messages", messages),
    ]
}

#[test]
fn the_driver_meets_a_hosts_duties() {
    let mut all = Found::default();
    for (world, config) in worlds() {
        for (at, needs) in declarations(OFFERS).into_iter().enumerate() {
            for (seed, cc) in [(1, "cubic"), (2, "bbr1")] {
                let what = format!("{world}, {cc}, needs {at}");
                let mut duties = Duties::new(needs, seed, Span::ZERO);
                let mut run = Job { config: &config, cc, seed }.world(Host::new(needs, TransportRules::NONE)).unwrap();
                assert_eq!(run.run(&mut duties).unwrap().verdict, Verdict::Finished, "{what}");
                let counts = run.sender().unwrap().counts();
                let breaches = duties.breaches(counts.faults);
                assert!(breaches.is_empty(), "{what}:\n{}", breaches.join("\n"));
                all.add(&duties.found());
            }
        }
    }
    assert!(all.least() >= 10 && all.ups > all.downs, "too little was checked: {all:?}");
}

/// Where both ends send: a small receive buffer and losses, and a path that fails. A path of a [`Pair`] is there all
/// the time.
fn duplex_worlds() -> Vec<(&'static str, SimConfig, Limits)> {
    let small = Limits { receive: Bytes::new(64 << 10), streams: 2, ..Limits::default() };
    let impatient = |config: &SimConfig| {
        let transport = TransportConfig { path_timeout: Span::from_millis(500), ..config.transport.clone() };
        SimConfig { transport, ..config.clone() }
    };
    let limits = [("small buffer", small), ("fails", Limits::default())];
    let worlds = worlds();
    let found = limits.map(|(name, limits)| {
        let (_, config) = worlds.iter().find(|(world, _)| *world == name).unwrap();
        (name, impatient(config), limits)
    });
    found.into()
}

#[test]
fn both_ends_of_a_duplex_meet_a_hosts_duties() {
    let mut all = Found::default();
    let both = |opener: usize| Script { opener, class: 2, sizes: [600_000, 600_000] };
    for (world, config, limits) in duplex_worlds() {
        for (at, needs) in declarations(OFFERS).into_iter().enumerate() {
            for (seed, cc) in [(1, "cubic"), (2, "bbr1")] {
                let what = format!("{world}, {cc}, needs {at}");
                let duties = [0, 1].map(|end| Duties::new(needs, 2 * seed + end, Span::ZERO));
                let hosted = |duties: &Duties| -> (Box<dyn weftway_sched::Scheduler>, Host) {
                    (Box::new(duties.clone()), Host::new(needs, TransportRules::NONE))
                };
                let schedulers = [hosted(&duties[0]), hosted(&duties[1])];
                let mut pair = Pair::with(schedulers, &config, cc, seed, limits).unwrap();
                finish(&mut pair, vec![both(0), both(1)], &what);
                for (side, duties) in SIDES.into_iter().zip(&duties) {
                    let counts = pair.duplex(side).unwrap().sender().counts();
                    let breaches = duties.breaches(counts.faults);
                    assert!(breaches.is_empty(), "{what}, {side:?}:\n{}", breaches.join("\n"));
                    all.add(&duties.found());
                }
            }
        }
    }
    // The credit of the streams ends before the window of their connection, which is hardly ever shut.
    let Found { starved, woken, ups, downs, acked, lost, recalled, provoked, .. } = all;
    let checked = [woken, downs, acked, lost, recalled, provoked].into_iter().all(|count| count >= 10);
    assert!(starved > 0 && checked && ups > downs, "too little was checked: {all:?}");
}
