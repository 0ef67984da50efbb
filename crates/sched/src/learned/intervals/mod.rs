//! Parts of schedulers that decide once an interval: the task itself (`task`), the paths as a network of fixed size
//! sees them, the intervals that were, and the data that a decision holds for.

pub(crate) mod history;
pub(crate) mod ranges;
pub(crate) mod slots;
pub(crate) mod task;
