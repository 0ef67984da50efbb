//! Tiers of paths, where a policy names them.

use crate::Span;

/// Condition on which a policy offers a path to the scheduler.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug, Default)]
pub enum Tier {
    /// Always.
    #[default]
    Primary,
    /// While the tiers above do not suffice, or none of their paths works.
    Secondary,
    /// While no path of the tiers above works.
    Backup,
    /// Never. The path is not opened.
    Never,
}

/// Thresholds at which tiers open and close.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Thresholds {
    /// Secondary paths open when data have waited so long without a pause.
    pub open_after: Span,
    /// And when what waits would take longer than this on the paths that are open; none: only `open_after` counts.
    pub open_delay: Option<Span>,
    /// A tier closes when it was not needed for so long.
    pub close_after: Span,
}

impl Default for Thresholds {
    /// A quarter of a second is more than a burst of a stream waits, and little of a transfer that is worth a second
    /// link.
    fn default() -> Self {
        Self { open_after: Span::from_millis(250), open_delay: None, close_after: Span::from_secs(2) }
    }
}
