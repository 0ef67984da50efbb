//! Which stream is meant. Each end numbers those that it opens by itself, so that both may open at once and never mean
//! two streams by one name.

use core::fmt;

/// The largest number that a frame can hold: offsets, places and numbers of streams end there.
pub const MAX: u64 = (1 << 62) - 1;

/// The ends of a connection.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Side {
    /// The end that began the connection.
    Connecting,
    /// The end that waited for it.
    Listening,
}

impl Side {
    /// The other end.
    pub fn other(self) -> Self {
        match self {
            Self::Connecting => Self::Listening,
            Self::Listening => Self::Connecting,
        }
    }
}

/// A stream, by the end that opened it and how many that end had opened before.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct StreamId(u64);

impl StreamId {
    /// The stream that both ends have from the beginning: see [`Mux::with_control`](crate::Mux::with_control).
    pub const CONTROL: Self = Self(0);

    /// Stream `number` of those that `opener` opens; the first is 0. Numbers end at 2^61 − 1, and larger ones are taken
    /// for it.
    pub fn new(opener: Side, number: u64) -> Self {
        Self(number.min(MAX >> 1) << 1 | opener as u64)
    }

    /// As a frame holds it.
    pub(crate) fn from_wire(number: u64) -> Self {
        Self(number)
    }

    /// As a frame holds it: twice the number, and one more if the listening end opened it.
    pub(crate) fn wire(self) -> u64 {
        self.0
    }

    /// The end that opened it.
    pub fn opener(self) -> Side {
        if self.0 & 1 == 0 { Side::Connecting } else { Side::Listening }
    }

    /// Number of streams that its opener had opened before.
    pub fn number(self) -> u64 {
        self.0 >> 1
    }
}

impl fmt::Display for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let opener = if self.opener() == Side::Connecting { "connecting" } else { "listening" };
        write!(f, "{} of the {opener} end", self.number())
    }
}

impl fmt::Debug for StreamId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}
