//! Where each path of a connection stands: absent, shaking hands, usable, given up.

use weftway_path::Instant;

/// Where each path stands between absent and usable.
#[derive(Clone)]
pub struct PathManager {
    pub stages: Vec<Stage>,
    pub established: Option<Instant>,
    pub joined: bool,
    /// QUIC: whether the end that answers knows that the handshake is done. What reaches a server before is not read
    /// (RFC 9001 §5.7), and noq does not keep it.
    pub answered: bool,
    /// Whether all paths may shake hands, and no peer has answered yet.
    pub racing: bool,
}

/// How far a path is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stage {
    /// It does not exist now.
    Absent,
    /// Its handshake is under way.
    Handshaking {
        /// When to try again.
        retry_at: Instant,
        /// Tries so far.
        tries: u32,
    },
    /// It is usable.
    Up,
    /// It was given up, and is tried now and then.
    Down {
        /// When to try again.
        retry_at: Instant,
    },
}

impl Stage {
    /// When something is due.
    pub fn next_event(&self) -> Instant {
        match self {
            Self::Handshaking { retry_at, .. } | Self::Down { retry_at } => *retry_at,
            Self::Absent | Self::Up => Instant::NEVER,
        }
    }
}
