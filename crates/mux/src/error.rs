//! Errors: the peer breaks the protocol ([`ProtocolError`], the connection is over), or the application asks for
//! what cannot be (one error for each thing that it may ask).

use thiserror::Error;
use weftway_path::{Bytes, Offset};

use crate::frame::FrameError;
use crate::id::StreamId;
use crate::limits::{LARGEST_DATAGRAM, LARGEST_TARGET, MOST_FRAMES};

/// The peer broke the protocol. Nothing that comes after it can be trusted: the connection is to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum ProtocolError {
    /// The bytes of a record are no frames.
    #[error("the record at {place:?}: {error}")]
    Frame {
        /// The record.
        place: Offset,
        /// Fault, and its place in the record.
        error: FrameError,
    },
    /// A record without a frame.
    #[error("the record at {0:?} holds no frame")]
    Empty(Offset),
    /// A record whose end has no number.
    #[error("the record at {0:?} ends beyond 2^62 - 1")]
    Place(Offset),
    /// Two records have a part of the sequence in common. The same record may come again, but only whole.
    #[error("the record at {place:?} and its {bytes} overlap another record")]
    Overlap {
        /// Place at which it begins.
        place: Offset,
        /// Length of the record.
        bytes: Bytes,
    },
    /// The peer opens a stream of this end, or speaks of one that this end has not opened.
    #[error("stream {0}: that end alone opens it, and has not")]
    NotOpened(StreamId),
    /// More streams than are allowed.
    #[error("stream {id}: that end may open {allowed}")]
    Streams {
        /// The first that is too many.
        id: StreamId,
        /// Number of streams that are allowed.
        allowed: u64,
    },
    /// A stream is opened twice, and not in the same way.
    #[error("stream {0} was opened before, with another class or target")]
    Reopened(StreamId),
    /// Bytes beyond the stream's credit.
    #[error("stream {id}: bytes up to {end}, but there is credit up to {edge}")]
    Credit {
        /// The stream.
        id: StreamId,
        /// End of the bytes.
        end: u64,
        /// End of the credit.
        edge: u64,
    },
    /// A stream has more bytes than its end says, or two ends.
    #[error("stream {id}: it ends at {size}, but has bytes up to {other} or ends there")]
    Size {
        /// The stream.
        id: StreamId,
        /// End of the stream, as was said first or is said now.
        size: u64,
        /// Offset that contradicts it.
        other: u64,
    },
    /// Gaps in the bytes that have arrived, more than a peer leaves that keeps the rule for outstanding frames.
    #[error("what has arrived has more than {MOST_FRAMES} gaps")]
    Gaps,
    /// The peer acknowledges data that were never sent.
    #[error("acknowledges everything before {arrived:?}, but the sequence ends at {next:?}")]
    Arrived {
        /// End of the data that it acknowledges.
        arrived: Offset,
        /// The first place that has no record yet.
        next: Offset,
    },
}

/// Why a stream cannot be opened.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum OpenError {
    /// As many are open as the peer allows, or as this end has memory for. [`crate::Ready::Open`] tells when to try
    /// again.
    #[error("no more streams at present")]
    TooMany,
    /// The class is not 0 to 3.
    #[error("class {0}: classes are 0 (most urgent) to 3")]
    Class(u8),
    /// The target is too long.
    #[error("a target of {0} bytes: at most {LARGEST_TARGET}")]
    Target(usize),
}

/// Why nothing can be done with a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum StreamError {
    /// It was not opened, or is over: this end has seen its end, or its reset.
    #[error("the stream is not open")]
    NotOpen,
    /// The peer has reset it. Told once; then it is not open any more.
    #[error("the other end reset the stream (code {0})")]
    Reset(u32),
    /// This end has said before that it writes no more.
    #[error("the stream was finished before")]
    Finished,
}

/// Why a datagram is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
pub enum DatagramError {
    /// As many wait as there is memory for.
    #[error("too much waits to be sent")]
    Full,
    /// The class is not 0 to 3.
    #[error("class {0}: classes are 0 (most urgent) to 3")]
    Class(u8),
    /// It is too long for every record.
    #[error("a datagram of {0} bytes: at most {LARGEST_DATAGRAM}")]
    TooLong(usize),
}
