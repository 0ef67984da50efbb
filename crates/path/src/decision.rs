//! Answers of a scheduler.

use crate::{Offset, PathId};

/// The answer to one question.
#[must_use]
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Decision {
    /// The packet at hand goes on this path. Without room it waits in that path's queue, which
    /// only entries that declare queueing may ask for.
    Send(PathId),
    /// The first unsent packet at or after this offset goes on this path.
    Ahead(PathId, Offset),
    /// A copy of the first sent and unacknowledged packet at or after this offset that the path
    /// has not carried goes on this path. Under Multipath QUIC also of one that the path has lost and that was sent
    /// again on another since.
    Repeat(PathId, Offset),
    /// Unsent data in this path's queue go back to the connection, and the question is asked
    /// again. A path gives back once at a time; without anything to give back this is `Wait`.
    Recall(PathId),
    /// No packet is sent now, though data and perhaps room exist.
    Wait,
}
