//! Configuration of a simulation, in plain typed values. A scenario file becomes one of these;
//! so does a test. Nothing here is optional for lack of a default: [`SimConfig::new`] has them.

mod transport;
mod workload;

pub use workload::{FlowClass, FlowKind, MessageSize, WebObject, Workload};

use weftway_link::LinkConfig;
use weftway_path::{BitRate, Bytes, Instant, Role, Span, Thresholds, Tier};

pub use crate::options::{
    AckPath, AppLimited, Bottlenecks, Buffer, Direction, Opening, PathManager, Resumption, RtoFloor, TransportConfig,
};

/// Size of an application's write unless it says otherwise: as iperf3 and many others, rounded to a power of two.
pub const WRITE: Bytes = Bytes::new(256 << 10);

/// A simulation: a connection over its paths, and what else uses the links.
#[derive(Clone, Debug, PartialEq)]
pub struct SimConfig {
    /// The connection's transport.
    pub transport: TransportConfig,
    /// Its paths, by number.
    pub paths: Vec<PathConfig>,
    /// Links that several paths, or several connections, share, by number; in the data direction.
    pub shared: Vec<LinkConfig>,
    /// Workload of the application.
    pub workload: Workload,
    /// Most that the application hands over with one `write`. Linux v1 begins a push, and with it a choice of a
    /// subflow, with each of them (`mptcp_sendmsg`); the other stacks do not tell writes apart.
    pub write: Bytes,
    /// A second connection that shares links with this one.
    pub rival: Option<Rival>,
    /// Sources without feedback.
    pub cross: Vec<CrossTraffic>,
    /// Which of its paths the connection's scheduler is offered, and what they cost; none: all are offered.
    pub policy: Option<Policy>,
    /// The run is cut off here, finished or not.
    pub time_limit: Span,
}

impl SimConfig {
    /// Returns true if data go both ways, in a connection for each way. A scenario with a call has no rival.
    pub fn is_call(&self) -> bool {
        self.rival.is_none() && self.workload.reverse().is_some()
    }

    /// A bulk transfer of `bytes` over `paths` with the defaults of `transport`.
    pub fn new(transport: TransportConfig, paths: Vec<PathConfig>, bytes: Bytes) -> Self {
        Self {
            transport,
            paths,
            shared: Vec::new(),
            workload: Workload::Bulk { bytes },
            write: WRITE,
            rival: None,
            cross: Vec::new(),
            policy: None,
            time_limit: Span::from_secs(600),
        }
    }
}

/// A path: a link each way.
#[derive(Clone, Debug, PartialEq)]
pub struct PathConfig {
    /// Its name in the scenario.
    pub name: String,
    /// Active or backup.
    pub role: Role,
    /// The link that carries data.
    pub data: LinkConfig,
    /// The link that carries acknowledgements.
    pub acks: LinkConfig,
    /// The shared link (an index into [`SimConfig::shared`]) that data cross after their own.
    pub via: Option<usize>,
    /// Instants at which the path is added, removed, added again, and so on.
    /// Empty: from the start to the end.
    pub presence: Vec<Instant>,
}

/// Which paths a scheduler is offered.
#[derive(Clone, Debug, PartialEq)]
pub struct Policy {
    /// Policy of each path, by number.
    pub paths: Vec<PathPolicy>,
    /// Thresholds at which tiers open and close.
    pub thresholds: Thresholds,
}

/// Use of a path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathPolicy {
    /// Tier, which says when it is offered.
    pub tier: Tier,
    /// Most that it may carry in a run, in bytes on the wire.
    pub cap: Option<Bytes>,
    /// Price of a GB, in millionths.
    pub price: Option<u64>,
}

impl PathPolicy {
    /// Returns the cost of so many bytes on the wire.
    pub fn cost(&self, bytes: Bytes) -> f64 {
        // Both are whole below 2⁵³ for all that a run carries.
        bytes.get() as f64 * self.price.unwrap_or(0) as f64 / 1e15
    }
}

/// A second connection over some of the same links, always sending.
#[derive(Clone, Debug, PartialEq)]
pub struct Rival {
    /// Its transport.
    pub transport: TransportConfig,
    /// Its paths; they share links by `via`.
    pub paths: Vec<PathConfig>,
    /// Its controller.
    pub cc: String,
    /// Its scheduler.
    pub scheduler: String,
    /// Start of the connection.
    pub start: Instant,
}

/// A source without feedback on one link in the data direction.
#[derive(Clone, Debug, PartialEq)]
pub struct CrossTraffic {
    /// The link it uses.
    pub on: CrossLink,
    /// Its mean rate while on.
    pub rate: BitRate,
    /// The size of its packets on the wire.
    pub packet: Bytes,
    /// Mean time on and off, both exponential; `None`: always on.
    pub on_off: Option<(Span, Span)>,
    /// Gaps between packets are exponential (Poisson); if false, equal.
    pub poisson: bool,
}

/// Entry of cross traffic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrossLink {
    /// The data link of the path with this index.
    Path(usize),
    /// The shared link with this index.
    Shared(usize),
}
