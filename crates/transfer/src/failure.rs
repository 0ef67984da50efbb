//! Failures of an end, and the codes by which a connection is ended.

use weftway_udp::tls::IdentityError;

use crate::tree::manifest::ManifestError;
use crate::tree::store::StoreError;
use crate::wire::WireError;
use std::net::SocketAddr;

/// Why there was no transfer.
#[derive(Debug, thiserror::Error)]
pub enum Failure {
    /// The user stopped it.
    #[error("interrupted; what has arrived is kept: run the same command again to go on")]
    Interrupted,
    /// A socket.
    #[error("{0}")]
    Socket(std::io::Error),
    /// A scheduler or a controller.
    #[error("{0}")]
    Spec(String),
    /// Files that are sent.
    #[error(transparent)]
    Manifest(#[from] ManifestError),
    /// The disk.
    #[error(transparent)]
    Store(#[from] StoreError),
    /// The log.
    #[error("{0}")]
    File(String),
    /// Identity or pairing.
    #[error(transparent)]
    Identity(#[from] IdentityError),
    /// Nobody answers.
    #[error("{0} does not answer: is the other end listening, and does UDP get through?")]
    NoAnswer(String),
    /// Every link has a cap, and has used it up.
    #[error(
        "no link may carry anything: each has used up a cap, which begins anew at midnight (UTC), or with the month"
    )]
    NoLink,
    /// The other end is at work for somebody else.
    #[error("the other end is busy with another transfer: run the same command again when it is over")]
    Busy,
    /// The other end has no room for one more connection.
    #[error(
        "the other end has no room for one more connection: too many others connect to it. Run the same command again"
    )]
    Full,
    /// Somebody else answers.
    #[error("{0} is not the machine that made this pairing line: run `weft pair` there and copy the line again")]
    OtherIdentity(SocketAddr),
    /// The other end ended it, and said why.
    #[error("the other end: {0}")]
    Refused(String),
    /// The user of the other end stopped it.
    #[error("the other end was interrupted; what has arrived is kept: run the same command again to go on")]
    OtherInterrupted,
    /// The connection broke.
    #[error("the connection was lost ({0}); what has arrived is kept: run the same command again to go on")]
    Lost(String),
    /// A connection that carries other programs' connections has ended: nothing of it is kept.
    #[error("{0}")]
    Relaying(String),
    /// The connection is alive, and data do not come on.
    #[error(
        "the connection was alive and brought nothing; what has arrived is kept: run the same command again to go on"
    )]
    Stalled,
    /// Kept parts of some files had other bytes than the sender's: another connection fetches them again.
    #[error("what was kept of {0} had other bytes than the sender's; it is fetched again")]
    Again(String),
    /// The other end does not keep to the protocol.
    #[error("the other end does not speak our protocol: {0}")]
    Protocol(String),
}

impl From<WireError> for Failure {
    fn from(error: WireError) -> Self {
        match error {
            WireError::Ended => Self::Lost(error.to_string()),
            _ => Self::Protocol(error.to_string()),
        }
    }
}

impl Failure {
    /// Returns true if the end that listens waits on, because the fault is not its own: the other one may come again.
    pub(crate) fn is_passing(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Stalled | Self::OtherInterrupted | Self::Again(_) => true,
            // The manifest is the other end's.
            Self::Refused(_) | Self::Protocol(_) | Self::Manifest(_) => true,
            _ => false,
        }
    }

    /// Text for the other end. Where files are on this machine is not its business.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Store(error) => error.told(),
            Self::Manifest(_) | Self::Protocol(_) | Self::Spec(_) | Self::Again(_) => self.to_string(),
            _ => "it failed, for a reason of its own".to_owned(),
        }
    }
}

/// Why a connection is ended.
pub(crate) mod code {
    pub const DONE: u32 = 0;
    pub const FAILED: u32 = 1;
    pub const INTERRUPTED: u32 = 2;
    pub const REFUSED: u32 = 3;
    pub const STALLED: u32 = 4;
    pub const NOT_FIRST: u32 = 5;
    pub const BUSY: u32 = 6;
    pub const SUPERSEDED: u32 = 7;
    pub const FULL: u32 = 8;
    pub const AGAIN: u32 = 9;
}
