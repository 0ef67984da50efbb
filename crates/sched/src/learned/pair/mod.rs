//! Parts of schedulers that decide about a pair of paths: wait for the full fast path F, or send on the slow one S?

pub(crate) mod blocked;
pub(crate) mod context;
pub(crate) mod meters;
pub(crate) mod policy;
pub(crate) mod records;
pub(crate) mod reward;
pub(crate) mod roles;
pub(crate) mod scale;

/// Actions to choose from ([`crate::Learning::actions`]).
pub(crate) const ACTIONS: &str = "while the fast path is full: wait for it, or send on the slow one";
/// Reward of those that are paid by [`reward`] ([`crate::Learning::reward`]).
pub(crate) const REWARD: &str = "throughputs less round-trip times of the pair";
