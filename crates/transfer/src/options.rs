//! Options of each program.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use weftway_path::Span;
use weftway_udp::Local;
use weftway_udp::settings::IDLE;
use weftway_udp::tls::{Identity, Pairing};

use crate::links::terms::LinkTerms;

/// Function that looks the addresses of a name up, the best one first. It may take its time.
pub type Lookup = Arc<dyn Fn() -> io::Result<Vec<SocketAddr>> + Send + Sync>;

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
