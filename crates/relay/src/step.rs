//! Next step after the bytes that a local program has sent so far.

use crate::target::Target;

/// Next step. Counts are of the bytes that are understood; those behind are for the next step, or for the stream.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// More bytes are needed.
    More,
    /// Number of bytes that ask for this answer; then comes more.
    Answer(usize, &'static [u8]),
    /// Number of bytes that ask for a connection.
    Connect(usize, Target),
    /// Number of bytes that ask for a way for datagrams.
    Associate(usize),
    /// The program gets these bytes, if any, and its connection is closed.
    Refuse(Vec<u8>),
}
