//! Policy: tiers of paths, and when they open.

use schemars::JsonSchema;
use serde::Deserialize;

use crate::units::Time;

/// Condition under which a path is offered to the scheduler.
#[derive(Clone, Copy, Debug, PartialEq, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum TierName {
    /// Always.
    Primary,
    /// While the paths above do not suffice, or none of them works.
    Secondary,
    /// While no path above works.
    Backup,
    /// Never.
    Never,
}

/// Thresholds at which tiers open and close.
#[derive(Clone, Debug, Default, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct PolicyTable {
    /// Secondary paths open when data have waited for so long without a pause.
    pub open_after: Option<Time>,
    /// And when what waits would take longer than this on the paths that are open.
    pub open_delay: Option<Time>,
    /// A tier closes when it was not needed for so long.
    pub close_after: Option<Time>,
}
