//! The network of a scenario, the same for the simulator and for QUIC in virtual time: links with their seeds, which
//! links a path uses, which paths share a bottleneck, when a path exists, how its controller begins, and the data of
//! the application ([`AppData`]), which may be streams or datagrams ([`Records`]).
//!
//! Nothing here knows a transport: links carry items of any type.

mod app_data;
mod records;

use weftway_cc::{Controller, Flavour, Remembered, Setup};
use weftway_host::sending::{Groups, Policy, Terms};
use weftway_link::{Link, LinkConfig, Seeds};
use weftway_path::spec::SpecError;
use weftway_path::{Bytes, Instant, PathId, Role, Span};
use weftway_scenario::config::{Bottlenecks, PathConfig, PathManager, SimConfig, TransportConfig};
use weftway_scenario::stack::LossRecovery;
use weftway_scenario::{mix, path_seeds, shared_seeds};

pub use app_data::AppData;
pub use records::Records;

/// Which links a path uses, by number.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Its own link in the data direction.
    pub data: usize,
    /// Its link in the other direction.
    pub acks: usize,
    /// A shared link after its own, in the data direction.
    pub via: Option<usize>,
}

/// The links of a run. The shared ones come first.
pub struct Links<T> {
    seed: u64,
    /// Time by which a host takes a packet up late, on average.
    host_jitter: Span,
    /// The links, by number.
    pub links: Vec<Link<T>>,
    /// Link to which a link's packets go on, if not to an end: from a path's own link to a shared one.
    pub onward: Vec<Option<usize>>,
    shared: usize,
}

impl<T: Copy> Links<T> {
    /// The shared links of `config`.
    pub fn new(config: &SimConfig, seed: u64) -> Self {
        let host_jitter = config.transport.host_jitter;
        let links = config.shared.iter().enumerate();
        let new = |(at, link)| new_link(link, config.transport.ecn, host_jitter, shared_seeds(seed, at));
        let links: Vec<_> = links.map(new).collect();
        Self { seed, host_jitter, shared: links.len(), onward: vec![None; links.len()], links }
    }

    /// Adds the links of a path of connection `conn`, whose packets are ECN-capable or not.
    pub fn add(&mut self, conn: u8, path: &PathConfig, ecn: bool) -> Route {
        let (data_seeds, acks_seeds) = path_seeds(self.seed, conn, &path.name);
        let data = self.links.len();
        let via = path.via.filter(|&via| via < self.shared);
        // Only the last link before an end leads to a host.
        let host_jitter = if via.is_some() { Span::ZERO } else { self.host_jitter };
        self.links.push(new_link(&path.data, ecn, host_jitter, data_seeds));
        self.links.push(new_link(&path.acks, ecn, self.host_jitter, acks_seeds));
        self.onward.extend([via, None]);
        Route { data, acks: data + 1, via }
    }
}

/// A link whose packets a host takes up so late; one that marks drops instead where packets are not ECN-capable
/// (RFC 3168 §5).
fn new_link<T: Copy>(config: &LinkConfig, ecn: bool, host_jitter: Span, seeds: Seeds) -> Link<T> {
    if host_jitter == config.host_jitter && (ecn || config.ecn.is_none()) {
        return Link::of_run(config, seeds);
    }
    let marks = config.ecn.filter(|_| ecn);
    Link::of_run(&LinkConfig { ecn: marks, host_jitter, ..config.clone() }, seeds)
}

/// Bytes in a sender's device: what waits on the path's own link, in payload of packets with so many bytes of
/// `headers`. Cross traffic on it is counted, because a device serves everybody in turn.
pub fn device_queue<T: Copy>(link: &mut Link<T>, now: Instant, headers: Bytes) -> Bytes {
    link.retire(now);
    let (packets, bytes) = link.backlog(now);
    bytes.saturating_sub(headers.mul_div(packets, 1))
}

/// The paths that share a bottleneck, as the scenario says or as is found out.
pub fn groups(source: Bottlenecks, routes: &[Route]) -> Groups {
    let given = |at: usize| {
        let via = routes[at].via;
        let first = routes.iter().position(|route| via.is_some() && route.via == via);
        Some(first.unwrap_or(at) as u8)
    };
    match source {
        Bottlenecks::None => Groups::given(vec![None; routes.len()]),
        Bottlenecks::Given => Groups::given((0..routes.len()).map(given).collect()),
        Bottlenecks::Detected => Groups::detected(routes.len()),
    }
}

/// Returns true if the scenario lets a path exist at `now`.
pub fn is_present(path: &PathConfig, now: Instant) -> bool {
    path.presence.is_empty() || path.presence.iter().filter(|&&at| at <= now).count() % 2 == 1
}

/// Time at which a path of these comes or goes next.
pub fn next_presence(paths: &[PathConfig], now: Instant) -> Instant {
    let changes = paths.iter().flat_map(|path| &path.presence);
    changes.copied().filter(|&at| at > now).min().unwrap_or(Instant::NEVER)
}

/// Role of path `id`.
pub fn role(transport: &TransportConfig, paths: &[PathConfig], id: PathId) -> Role {
    match transport.path_manager {
        PathManager::Backup if id.get() > 0 => Role::Backup,
        _ => paths[id.index()].role,
    }
}

/// Which of its paths the connection is offered, if the scenario says so.
pub fn policy(config: &SimConfig) -> Option<Policy> {
    let policy = config.policy.as_ref()?;
    let terms: Vec<Terms> = policy.paths.iter().map(|path| Terms { tier: path.tier, left: path.cap }).collect();
    let overhead = config.transport.packet - config.transport.mss;
    Some(Policy::new(&terms, policy.thresholds, config.transport.mss, overhead))
}

/// Setup of a controller of path `id` when nothing is known of the path.
pub fn controller_setup(transport: &TransportConfig, seed: u64, id: PathId) -> Setup {
    Setup {
        path: id,
        mss: transport.mss,
        initial_window: transport.initial_cwnd(),
        flavour: match transport.rules.recovery {
            LossRecovery::Tcp => Flavour::Linux,
            LossRecovery::Quic => Flavour::Quic,
        },
        seed: mix(seed, 0xcc00 + u64::from(id.get())),
        now: Instant::ZERO,
        rtt: None,
    }
}

/// Controller of a path that `setup` describes, with what is remembered of an earlier connection.
pub fn controller(spec: &str, transport: &TransportConfig, setup: &Setup) -> Result<Box<dyn Controller>, SpecError> {
    let made = weftway_cc::build(spec, setup)?;
    Ok(match transport.remembered() {
        Some((window, rtt)) => weftway_cc::resume(made, Remembered { window, rtt }, setup),
        None => made,
    })
}
