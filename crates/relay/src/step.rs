//! What follows from the bytes that a local program has sent so far.

use crate::target::Target;

/// What follows from them. Counts are of the bytes that are understood; those behind are for the next step, or for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// So many bytes ask for this answer; then comes more.
    Answer(usize, &'static [u8]),
    /// So many bytes ask for a connection.
    Connect(usize, Target),
    /// So many bytes ask for a way for datagrams.
    Associate(usize),
    /// The program gets these bytes, if any, and its connection is closed.
    Refuse(Vec<u8>),
}
