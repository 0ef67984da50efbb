//! What a transfer is told, and what it tells.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::mpsc::Receiver;

use serde::{Deserialize, Serialize};
use weftway_path::Span;
use weftway_udp::Local;
use weftway_udp::settings::IDLE;
use weftway_udp::tls::{Identity, IdentityError, Pairing};

use super::files::{FailedFile, Skipped};
use super::links::LinkTerms;
use super::manifest::ManifestError;
use super::seen::{LastPacket, PathProgress, Seen};
use super::store::StoreError;
use super::whereabouts::Lookup;
use super::wire::{Role, WireError};

/// Who opens the connection.
pub enum OtherEnd {
    /// This end.
    Connect {
        /// Where the other one listens: all addresses of its name, the best one first.
        addresses: Vec<SocketAddr>,
        /// What `weft pair` printed there.
        pairing: Pairing,
    },
    /// The other one.
    Listen {
        /// Where it is awaited. Port 0 takes a free one.
        address: SocketAddr,
        /// Who this is.
        identity: Identity,
    },
}

/// How a transfer is set.
pub struct Options {
    /// Who opens the connection.
    pub other: OtherEnd,
    /// Looks the addresses of the other end up again, if it was given by a name.
    pub lookup: Option<Lookup>,
    /// Where paths begin on this machine. None: the kernel decides, and there is one.
    pub paths: Vec<Local>,
    /// What some of them are for: of use to an end that connects and sends.
    pub terms: Vec<(Local, LinkTerms)>,
    /// Where it is counted what links with a cap carry.
    pub usage: Option<PathBuf>,
    /// The scheduler and its switches; of use to the sender.
    pub scheduler: String,
    /// The congestion controller and its switches; of use to the sender.
    pub cc: String,
    /// Schedulers that take over while this end is at work.
    pub switch: Option<Receiver<String>>,
    /// What becomes of the identity while this end listens. A relay takes it over, and leaves clients whose tokens are gone.
    pub identities: Option<Receiver<Identity>>,
    /// Whether the sender compares the contents of files that are there, and not their times.
    pub checksum: bool,
    /// Whether files are on the receiver's disk itself, and not only in memory, when the transfer is over.
    pub sync: bool,
    /// Where the sender writes what happens, as qlog.
    pub qlog: Option<PathBuf>,
    /// How often the user is told what is going on, and asked whether to go on.
    pub tell_every: Span,
    /// How long the end that connects waits for an answer.
    pub give_up_after: Span,
    /// How long the other end of a connection that is alive may bring and say nothing. Then another one takes its place.
    pub stall_after: Span,
    /// How long a connection of an end that connects may be without any sign of life until it counts as lost; at most as
    /// long as the other end says.
    pub lost_after: Span,
}

impl Options {
    /// What is used where nothing else is said.
    pub fn new(other: OtherEnd) -> Self {
        Self {
            other,
            lookup: None,
            paths: Vec::new(),
            terms: Vec::new(),
            usage: None,
            scheduler: "earliest-delivery".to_owned(),
            // Radio links lose packets that no queue dropped.
            cc: "cubic:random_loss=2".to_owned(),
            switch: None,
            identities: None,
            checksum: false,
            sync: true,
            qlog: None,
            tell_every: Span::from_millis(100),
            give_up_after: Span::from_secs(20),
            // A connection without any sign of life is over before.
            stall_after: Span::from_secs(40),
            lost_after: IDLE,
        }
    }
}

/// What is going on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum State {
    /// Nobody has come yet.
    #[default]
    Listening,
    /// The sender reads its files, to compare them.
    Comparing,
    /// Nobody has answered yet.
    Connecting,
    /// The ends tell each other what there is, and the receiver looks.
    Agreeing,
    /// Data travel.
    Transferring,
    /// Connections of other programs are carried.
    Relaying,
    /// All data have arrived; hashes and names are missing.
    Verifying,
    /// Everything is there.
    Done,
}

/// How far a transfer is.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// What is going on.
    pub state: State,
    /// Where this end listens, if it does.
    pub listening: Option<SocketAddr>,
    /// Something to tell the user, once: the other end went away.
    pub note: Option<String>,
    /// Bytes of all files.
    pub bytes: u64,
    /// Bytes that the receiver had before.
    pub had: u64,
    /// Bytes that have arrived in this transfer.
    pub done: u64,
    /// Files.
    pub files: u64,
    /// What schedules what this end sends: of an end that sends.
    pub scheduler: Option<String>,
    /// Where one of the last packets went, and why: of a proxy or a tunnel.
    pub last_packet: Option<LastPacket>,
    /// Where a proxy listens for local programs.
    pub ports: Vec<String>,
    /// Clients of a relay.
    pub clients: u64,
    /// Connections of programs that a proxy or a relay carries.
    pub flows: u64,
    /// What is known of these.
    #[serde(flatten)]
    pub seen: Seen,
    /// Each path.
    pub paths: Vec<PathProgress>,
}

/// Called now and then; `false` stops the transfer.
pub type Watch<'a> = &'a mut dyn FnMut(&Progress) -> bool;

/// A transfer at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// What this end did.
    pub role: Role,
    /// The other end.
    pub peer: String,
    /// Files, those that were there before included.
    pub files: u64,
    /// Bytes of all files that are there.
    pub bytes: u64,
    /// Bytes that were there before.
    pub had_bytes: u64,
    /// Bytes that travelled.
    pub sent_bytes: u64,
    /// From the first byte of data to the last name.
    pub elapsed_s: f64,
    /// `sent_bytes` in that time.
    pub goodput_mbps: f64,
    /// `sent_bytes`, divided by the bytes of the path that carried most: how many times the share of the best path all of
    /// them brought. None if nothing travelled.
    pub ratio_to_best_path: Option<f64>,
    /// The scheduler, the last one if there were several; only the sender knows it.
    pub scheduler: Option<String>,
    /// The congestion controller; only the sender knows it.
    pub cc: Option<String>,
    /// Symbolic links, devices, sockets and FIFOs that were not sent; only the sender knows them.
    pub skipped: Vec<Skipped>,
    /// Files and folders that could not be read or written. All others are there.
    pub failed: Vec<FailedFile>,
    /// Each path.
    pub paths: Vec<PathProgress>,
}

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
    /// What is sent.
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
    /// What was kept of some files had other bytes than the sender's: another connection fetches them again.
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
    /// Whether the end that listens waits on, because the fault is not its own: the other one may come again.
    pub(super) fn is_passing(&self) -> bool {
        match self {
            Self::Lost(_) | Self::Stalled | Self::OtherInterrupted | Self::Again(_) => true,
            // The manifest is the other end's.
            Self::Refused(_) | Self::Protocol(_) | Self::Manifest(_) => true,
            _ => false,
        }
    }

    /// What the other end is told. Where files are on this machine is not its business.
    pub(super) fn told(&self) -> String {
        match self {
            Self::Store(error) => error.told(),
            Self::Manifest(_) | Self::Protocol(_) | Self::Spec(_) | Self::Again(_) => self.to_string(),
            _ => "it failed, for a reason of its own".to_owned(),
        }
    }
}

/// Why a connection is ended.
pub(super) mod code {
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
