//! The two measured scenarios: two paths, every feature of the transport, no loss, drop-tail
//! queues of one bandwidth-delay product and at least twenty packets.

use weftway_link::{Limit, LinkConfig};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_scenario::config::{PathConfig, SimConfig, Transport};
use weftway_sim::run::Job;

/// A measured scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// 10 Mbit/s 10 ms and 5 Mbit/s 5 ms.
    A,
    /// 100 Mbit/s 10 ms and 100 Mbit/s 40 ms.
    B,
}

impl Scenario {
    /// Both.
    pub const ALL: [Self; 2] = [Self::A, Self::B];

    /// Its letter.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }

    /// (Mbit/s, one-way ms) of its paths.
    pub fn paths(self) -> [(u64, u64); 2] {
        match self {
            Self::A => [(10, 10), (5, 5)],
            Self::B => [(100, 10), (100, 40)],
        }
    }

    /// A transfer of `packets` full packets.
    pub fn config(self, packets: u64) -> SimConfig {
        let transport = Transport::mptcp_v09x();
        let paths = self.paths().into_iter().enumerate().map(|(at, (mbps, ms))| path(at, mbps, ms));
        let bytes = Bytes::new(packets * transport.mss.get());
        let mut config = SimConfig::new(transport, paths.collect(), bytes);
        config.time_limit = Span::from_secs(1_000_000);
        config
    }
}

fn path(at: usize, mbps: u64, ms: u64) -> PathConfig {
    let rate = BitRate::from_mbps(mbps);
    let delay = Span::from_millis(ms);
    let mut link = LinkConfig { rate: rate.into(), delay, ..LinkConfig::default() };
    link.queue.limit = Limit::Packets((rate.bdp(delay * 2).get() / 1500).max(20));
    let name = format!("p{at}");
    PathConfig { name, role: Role::Active, data: link.clone(), acks: link, via: None, presence: Vec::new() }
}

/// What one run amounted to.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Packets that reached the receiver.
    pub packets: u64,
    /// Calendar events.
    pub events: u64,
}

/// Runs `scenario` once under `scheduler` and `cc`.
pub fn run(scenario: Scenario, scheduler: &str, cc: &str, packets: u64) -> Count {
    let config = scenario.config(packets);
    let job = Job { config: &config, cc, seed: 1, timing: None };
    let finished = job.run_named(scheduler).expect("the names are registered");
    Count { packets: finished.sim.connection(0).tally.arrived, events: finished.sim.calendar_events() }
}
