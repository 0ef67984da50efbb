//! The measured cases. A and B have every feature of the transport, no loss, drop-tail queues of one
//! bandwidth-delay product and at least twenty packets; the others are B with one thing changed.

use weftway_link::{Distribution, Jitter, Limit, LinkConfig, Loss};
use weftway_path::{BitRate, Bytes, Role, Span};
use weftway_scenario::config::{PathConfig, SimConfig, TransportConfig};
use weftway_sim::run::Job;

/// A measured scenario.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scenario {
    /// 10 Mbit/s 10 ms and 5 Mbit/s 5 ms.
    A,
    /// 100 Mbit/s 10 ms and 100 Mbit/s 40 ms.
    B,
    /// B over Multipath QUIC.
    QuicCubic,
    /// QUIC with BBR.
    QuicBbr,
    /// B over the MPTCP of today's kernel with BBR.
    LinuxBbr,
    /// Linux v1 with LIA.
    LinuxLia,
    /// B's capacity on 16 paths, half of them with 10 ms and half with 40 ms.
    SixteenPaths,
    /// B's capacity on 64 paths, likewise.
    ManyPaths,
    /// B with one packet in a hundred lost.
    Lossy,
    /// B with 1 Gbit/s a path and delays that vary by 2 ms and change the order of packets.
    Reordering,
    /// Reordering with BBR.
    ReorderingBbr,
}

impl Scenario {
    /// All of them.
    pub const ALL: [Self; 11] = [
        Self::A,
        Self::B,
        Self::QuicCubic,
        Self::QuicBbr,
        Self::LinuxBbr,
        Self::LinuxLia,
        Self::SixteenPaths,
        Self::ManyPaths,
        Self::Lossy,
        Self::Reordering,
        Self::ReorderingBbr,
    ];

    /// The two whose speed in packets per second is measured, too.
    pub const TIMED: [Self; 2] = [Self::A, Self::B];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
            Self::QuicCubic => "quic-cubic",
            Self::QuicBbr => "quic-bbr",
            Self::LinuxBbr => "linux-v1-bbr",
            Self::LinuxLia => "linux-v1-lia",
            Self::SixteenPaths => "16-paths",
            Self::ManyPaths => "64-paths",
            Self::Lossy => "loss",
            Self::Reordering => "reordering",
            Self::ReorderingBbr => "reordering-bbr",
        }
    }

    /// The most instructions that a delivered packet may take: a little above what was measured last. Inlining alone
    /// moves it by up to 2 %: if a budget is exceeded, look whether the change itself costs more. A budget falls; it
    /// rises only where the model changes, so that another run is measured. Beside it the aim, where that is not
    /// reached. Counted is what `.ci/cargo budgets` compiles, without optimising crates once more together: a release
    /// has 1 to 5 % fewer. Numbers of the past are those of a release.
    pub fn most_instructions(self) -> f64 {
        match self {
            // Some 16 more each since Linux's receiver knows the round trip by echoed timestamps, and its windows
            // follow each other; some 5 since a window may come from a sibling.
            Self::A => 1_667.0,         // aim: 1 200
            Self::B => 1_564.0,         // aim: 1 200
            Self::QuicCubic => 1_904.0, // 1 705 until its window paced
            Self::QuicBbr => 2_399.0,   // 2 305 until bursts of the application had a switch
            // Some 100 more since each push looks at the timers of the subflows before it sends.
            Self::LinuxBbr => 2_542.0, // 2 245 until bursts followed the round trip
            Self::LinuxLia => 2_296.0, // aim: 1 800
            Self::SixteenPaths => 2_173.0,
            Self::ManyPaths => 2_166.0, // aim: 1.4 times B
            Self::Lossy => 1_871.0,
            Self::Reordering => 5_124.0,
            Self::ReorderingBbr => 5_895.0,
        }
    }

    /// Aim for its instructions, where somebody has said so.
    pub fn aim(self) -> Option<f64> {
        match self {
            Self::A | Self::B => Some(1_200.0),
            Self::LinuxLia | Self::Lossy => Some(1_800.0),
            Self::ManyPaths => Some((1.4 * Self::B.most_instructions()).round()),
            _ => None,
        }
    }

    /// Description of the scenario, in words.
    pub fn what(self) -> &'static str {
        match self {
            Self::A => "MPTCP v0.9x, CUBIC, 10 Mbit/s 10 ms + 5 Mbit/s 5 ms",
            Self::B => "MPTCP v0.9x, CUBIC, 100 Mbit/s 10 ms + 100 Mbit/s 40 ms",
            Self::QuicCubic => "B over Multipath QUIC",
            Self::QuicBbr => "B over Multipath QUIC under BBRv1",
            Self::LinuxBbr => "B over today's Linux under BBRv1",
            Self::LinuxLia => "B over today's Linux under LIA",
            Self::SixteenPaths => "B's capacity on 16 paths",
            Self::ManyPaths => "B's capacity on 64 paths",
            Self::Lossy => "B with 1 % of the packets lost",
            Self::Reordering => "B with 1 Gbit/s a path and packets that change their order",
            Self::ReorderingBbr => "the same under BBRv1",
        }
    }

    /// The packets of the shorter of two runs whose difference is counted: the start of a transfer is in both.
    pub fn counted(self) -> u64 {
        match self {
            Self::A | Self::B => 20_000,
            // Their windows are wider, and take longer to open.
            Self::Reordering | Self::ReorderingBbr => 60_000,
            _ => 30_000,
        }
    }

    /// Its controller.
    pub fn cc(self) -> &'static str {
        match self {
            Self::QuicBbr | Self::LinuxBbr | Self::ReorderingBbr => "bbr1",
            Self::LinuxLia => "lia",
            _ => "cubic",
        }
    }

    /// (Mbit/s, one-way ms) of its first two paths.
    pub fn paths(self) -> [(u64, u64); 2] {
        match self {
            Self::A => [(10, 10), (5, 5)],
            Self::Reordering | Self::ReorderingBbr => [(1_000, 10), (1_000, 40)],
            _ => [(100, 10), (100, 40)],
        }
    }

    fn transport(self) -> TransportConfig {
        match self {
            Self::QuicCubic | Self::QuicBbr => TransportConfig::mpquic(),
            Self::LinuxBbr | Self::LinuxLia => TransportConfig::mptcp_linux_v1(),
            _ => TransportConfig::mptcp_v09x(),
        }
    }

    /// A transfer of `packets` full packets.
    pub fn config(self, packets: u64) -> SimConfig {
        let transport = self.transport();
        let pairs = match self {
            Self::SixteenPaths => 8,
            Self::ManyPaths => 32,
            _ => 1,
        };
        let paths = (0..2 * pairs).map(|at| {
            let (mbps, ms) = self.paths()[at % 2];
            let mut path = path(at, BitRate::from_bps(mbps * 1_000_000 / pairs as u64), ms);
            match self {
                Self::Lossy => path.data.loss = Loss::Bernoulli(0.01),
                Self::Reordering | Self::ReorderingBbr => {
                    let distribution = Distribution::Normal { sd: Span::from_millis(2) };
                    path.data.jitter = Some(Jitter { distribution, reorder: true });
                }
                _ => {}
            }
            path
        });
        let bytes = Bytes::new(packets * transport.mss.get());
        let mut config = SimConfig::new(transport, paths.collect(), bytes);
        config.time_limit = Span::from_secs(1_000_000);
        config
    }
}

fn path(at: usize, rate: BitRate, ms: u64) -> PathConfig {
    let delay = Span::from_millis(ms);
    let mut link = LinkConfig { rate: rate.into(), delay, ..LinkConfig::default() };
    link.queue.limit = Limit::Packets((rate.bdp(delay * 2).get() / 1500).max(20));
    let name = format!("p{at}");
    PathConfig { name, role: Role::Active, data: link.clone(), acks: link, via: None, presence: Vec::new() }
}

/// A scheduler that is counted in a scenario beside min-RTT.
#[derive(Clone, Copy, Debug)]
pub struct Rule {
    /// Scenario.
    pub scenario: Scenario,
    /// Scheduler.
    pub scheduler: &'static str,
    /// Most instructions that a delivered packet may take: a little above what was measured last.
    pub most: f64,
    /// Aim for them, where somebody has said so.
    pub aim: Option<f64>,
}

/// The schedulers that are counted beside min-RTT.
pub const RULES: [Rule; 6] = [
    Rule { scenario: Scenario::B, scheduler: "round-robin", most: 2_154.0, aim: None },
    Rule { scenario: Scenario::B, scheduler: "ecf", most: 1_842.0, aim: None },
    Rule { scenario: Scenario::B, scheduler: "blest", most: 2_126.0, aim: None },
    // 9 063 until forecasts were kept, 4 535 until they held while nothing changes.
    Rule { scenario: Scenario::B, scheduler: "earliest-delivery", most: 4_410.0, aim: Some(3_000.0) },
    // A question looks at every path's health, and at what each faster path lets go; 9 362 and 28 038 until it left
    // those forecasts alone that nothing changed.
    Rule { scenario: Scenario::SixteenPaths, scheduler: "earliest-delivery", most: 6_680.0, aim: Some(5_500.0) },
    Rule { scenario: Scenario::ManyPaths, scheduler: "earliest-delivery", most: 16_230.0, aim: Some(12_000.0) },
];

/// Counts of one run.
#[derive(Clone, Copy, Debug)]
pub struct Count {
    /// Packets that reached the receiver.
    pub packets: u64,
    /// Calendar events.
    pub events: u64,
}

/// Runs `scenario` once under `scheduler`.
pub fn run(scenario: Scenario, scheduler: &str, packets: u64) -> Count {
    let config = scenario.config(packets);
    let job = Job { config: &config, cc: scenario.cc(), seed: 1, timing: None };
    let finished = job.run_named(scheduler).expect("the names are registered");
    Count { packets: finished.sim.connection(0).tally.arrived, events: finished.sim.calendar_events() }
}
