//! The driver tells a scheduler of a full window as often as the simulator does:
//! `each_time_that_the_window_is_full_is_told_once` there.

use weftway_host::Host;
use weftway_link::{Limit, LinkConfig, Loss, Queue, Rate};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_quic::virtual_time::Job;
use weftway_scenario::Verdict;
use weftway_scenario::config::{Buffer, PathConfig, SimConfig, TransportConfig};
use weftway_sched::TransportRules;
use weftway_vectors::testing::Episodes;

fn path(name: &str, mbps: u64, ms: u64, loss: Loss) -> PathConfig {
    let acks = LinkConfig {
        rate: Rate::Constant(BitRate::from_mbps(mbps)),
        delay: Span::from_millis(ms),
        queue: Queue { limit: Limit::Packets(100), ..Queue::default() },
        ..LinkConfig::default()
    };
    let data = LinkConfig { loss, ..acks.clone() };
    PathConfig { name: name.to_owned(), role: Role::Active, data, acks, via: None, presence: Vec::new() }
}

#[test]
fn each_time_that_the_window_is_full_is_told_once() {
    let transport =
        TransportConfig { receive_buffer: Buffer::Fixed(Bytes::new(256 << 10)), ..TransportConfig::mpquic() };
    let paths = vec![path("wifi", 30, 10, Loss::Bernoulli(0.005)), path("lte", 12, 35, Loss::None)];
    let config = SimConfig::new(transport, paths, Bytes::new(4_000_000));
    for seed in 1..4 {
        let mut episodes = Episodes::default();
        let host = Host::serving(&episodes, TransportRules::NONE);
        let mut world = Job { config: &config, cc: "cubic", seed }.world(host).unwrap();
        assert_eq!(world.run(&mut episodes).unwrap().verdict, Verdict::Finished);
        assert!(episodes.seen > 3, "seed {seed}: the window is full too rarely for a test: {episodes:?}");
        assert_eq!(episodes.told, episodes.seen, "seed {seed}");
    }
}
