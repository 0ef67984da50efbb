//! The file as a whole.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::Deserialize;
use serde::de::IgnoredAny;

use super::transport::{StackName, TransportName};
use super::{
    Claim, CrossTable, Directed, Figure, LinkTable, PathTable, PolicyTable, Published, RivalTable, Uncertain,
    WorkloadTable,
};
use crate::forms::{Named, OneOrMany};
use crate::options::{Direction, Options};
use crate::text::{Count, Seeds};
use crate::units::Time;

/// A scenario: paths, what is sent over them, and what to compare.
#[derive(Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct File {
    /// A file, named from the folder of this one, whose keys hold where this one does not have them.
    #[expect(dead_code, reason = "it is followed before keys are read")]
    pub base: Option<String>,
    /// Columns of `base` whose figures, published numbers and claims are of another column here:
    /// `{ goodput_mbps = "chosen_rate_mbps" }`.
    #[expect(dead_code, reason = "it is followed before keys are read")]
    pub base_metric: Option<BTreeMap<String, String>>,
    /// Subject, in a line.
    #[serde(default)]
    pub title: String,
    /// Subject and reasons, in a few sentences.
    #[serde(default)]
    pub description: String,
    /// Which transport carries the connection.
    #[serde(default)]
    pub transport: TransportName,
    /// Which MPTCP: of the out-of-tree kernels that the papers used, or of today's.
    pub stack: Option<StackName>,
    /// The seeds to run, half-open: "0..30".
    #[serde(default)]
    pub seeds: Seeds,
    /// The scheduler or schedulers, with their switches: "ecf:beta=0.5".
    pub scheduler: Option<OneOrMany>,
    /// The congestion controller or controllers.
    pub cc: Option<OneOrMany>,
    /// On what to run: the simulator, the QUIC stack, the kernel.
    pub backend: Option<OneOrMany>,
    /// Direction of the data: to the side that opens the connection (download), or from it.
    #[serde(default)]
    pub direction: Direction,
    /// A run that has not finished by then is cut off.
    pub time_limit: Option<Time>,
    /// Settings of the transport.
    #[serde(default)]
    pub options: Options,
    /// The paths, by name; their order in the file numbers them.
    #[serde(default)]
    pub path: Named<PathTable>,
    /// Links that several paths share, by name; a path crosses one by `via`.
    #[serde(default)]
    pub link: Named<LinkTable>,
    /// Measured links: which run of which file.
    pub drive: Option<DriveTable>,
    /// Workload of the application.
    pub workload: WorkloadTable,
    /// A second connection that always sends.
    pub rival: Option<RivalTable>,
    /// Sources without feedback, by name.
    #[serde(default)]
    pub cross: Named<CrossTable>,
    /// Decide once per interval, not once per packet.
    pub decision: Option<DecisionTable>,
    /// Thresholds at which tiers of paths open and close.
    pub policy: Option<PolicyTable>,
    /// Values to compare: each key is the path of a key of this file, each value a list of its
    /// values; all combinations run. Keys joined by ", " vary together.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, serde_json::Value>")]
    #[expect(dead_code, reason = "its values are read with their places; here it is only known to be a table")]
    pub vary: Named<IgnoredAny>,
    /// Ranges that a measurement leaves open: the path of a key of this file, and from where to where its value may
    /// lie, as in "20 Mbit/s..30 Mbit/s". `weft advise` tries values in between; a run takes no notice.
    #[serde(default)]
    #[schemars(with = "BTreeMap<String, String>")]
    #[expect(dead_code, reason = "its ends are read as the keys that they are of")]
    pub range: Named<IgnoredAny>,
    /// Charts for the report, by name.
    #[serde(default)]
    pub figure: Named<Figure>,
    /// Published numbers, shown beside ours.
    pub published: Option<Published>,
    /// Claims that are checked after the runs, by name.
    #[serde(default)]
    pub expect: Named<Claim>,
    /// Values that a paper leaves open, by the path of their key; keys joined by ", " are drawn together.
    #[serde(default)]
    pub uncertain: Named<Uncertain>,
}

/// A run in which several links were measured on one clock.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DriveTable {
    /// The file.
    pub file: Directed<String>,
    /// Which of its runs; not needed if it holds one.
    pub run: Option<Count>,
    /// Time in the run at which the connection begins.
    pub start: Option<Time>,
}

/// Decide once per interval.
#[derive(Clone, Debug, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecisionTable {
    /// Interval between decisions.
    pub interval: Option<Time>,
    /// Use of other paths in an interval.
    #[serde(default)]
    pub mode: ModeName,
    /// Time that a decision takes to have effect.
    pub delay: Option<Time>,
}

/// Use in an interval of paths that were not chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ModeName {
    /// Send when the chosen one has no room.
    #[default]
    Preferred,
    /// Stay silent.
    Exclusive,
}
