//! Options of each program.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::mpsc::Receiver;

use weftway_path::Span;
use weftway_relay::PipeLeave;
use weftway_udp::Local;
use weftway_udp::settings::IDLE;
use weftway_udp::tls::{Identity, Pairing};

use crate::failure::Failure;
use crate::links::terms::Link;
use crate::setting::Scheduling;

/// Function that looks the addresses of a name up, the best one first. It may take its time.
pub type Lookup = Arc<dyn Fn() -> io::Result<Vec<SocketAddr>> + Send + Sync>;

/// Other end of a transfer: this end connects to it, or it connects to this one.
pub enum OtherEnd {
    /// This end connects.
    Connect(Connect),
    /// This end listens.
    Listen(Listen),
}

/// End that listens, as one knows it that connects.
pub struct Connect {
    /// All addresses of its name, the best one first.
    pub addresses: Vec<SocketAddr>,
    /// Line that `weft pair` printed there.
    pub pairing: Pairing,
    /// Looks the addresses up again; none if it was given by an address.
    pub lookup: Option<Lookup>,
}

impl Connect {
    /// End at these addresses, which are not looked up again.
    pub fn to(addresses: Vec<SocketAddr>, pairing: Pairing) -> Self {
        Self { addresses, pairing, lookup: None }
    }
}

impl From<Connect> for OtherEnd {
    fn from(connect: Connect) -> Self {
        Self::Connect(connect)
    }
}

/// Place where an end listens, and its identity.
pub struct Listen {
    /// Address of the place. Port 0 takes a free one.
    pub address: SocketAddr,
    /// Certificate and tokens of this end.
    pub identity: Identity,
}

impl From<Listen> for OtherEnd {
    fn from(listen: Listen) -> Self {
        Self::Listen(listen)
    }
}

/// Links of an end that sends.
#[derive(Default)]
pub struct Links {
    /// Each link with its terms. None: the kernel decides, and there is one.
    pub all: Vec<Link>,
    /// File of the bytes that links with a cap have carried.
    pub usage: Option<PathBuf>,
}

impl Links {
    /// Links without terms.
    pub fn plain(locals: Vec<Local>) -> Self {
        Self { all: locals.into_iter().map(Link::plain).collect(), usage: None }
    }

    /// Returns the local ends of links that have no terms, or why these are of no use: only an end that connects and
    /// sends may have terms.
    pub fn locals(self) -> Result<Vec<Local>, Failure> {
        if self.all.iter().any(|link| link.terms.is_some()) {
            let why = "tiers, caps and prices of paths are for the end that connects: weft send --to, weft proxy";
            return Err(Failure::Spec(why.to_owned()));
        }
        Ok(self.all.into_iter().map(|link| link.local).collect())
    }
}

/// Intervals and timeouts of an end.
#[derive(Clone, Copy, Debug)]
pub struct Times {
    /// Interval in which the user is told what is going on, and asked whether to go on.
    pub tell_every: Span,
    /// Time in which an end that connects waits for an answer.
    pub give_up_after: Span,
    /// Time in which the other end of a living connection may bring and say nothing. Then another one takes its place.
    pub stall_after: Span,
    /// Silence after which a connection of an end that connects counts as lost; at most as long as the other end says.
    pub lost_after: Span,
}

impl Default for Times {
    fn default() -> Self {
        Self {
            tell_every: Span::from_millis(100),
            give_up_after: Span::from_secs(20),
            // A connection without any sign of life is over before.
            stall_after: Span::from_secs(40),
            lost_after: IDLE,
        }
    }
}

/// Options of [`send`](crate::send).
pub struct SendOptions {
    /// Receiver.
    pub other: OtherEnd,
    /// Links of this end. Only an end that connects may have terms for them.
    pub links: Links,
    /// Scheduler and congestion controller.
    pub scheduling: Scheduling,
    /// True if the contents of files that are there are compared, and not their times.
    pub checksum: bool,
    /// File of the log (qlog).
    pub qlog: Option<PathBuf>,
    /// Intervals and timeouts.
    pub times: Times,
}

impl SendOptions {
    /// Defaults for this receiver.
    pub fn new(other: impl Into<OtherEnd>) -> Self {
        let (links, scheduling, times) = Default::default();
        Self { other: other.into(), links, scheduling, checksum: false, qlog: None, times }
    }
}

/// Options of [`receive`](crate::receive).
pub struct ReceiveOptions {
    /// Sender.
    pub other: OtherEnd,
    /// Local ends of paths. None: the kernel decides, and there is one.
    pub paths: Vec<Local>,
    /// True if files are on the disk itself, and not only in memory, when the transfer is over.
    pub sync: bool,
    /// Intervals and timeouts.
    pub times: Times,
}

impl ReceiveOptions {
    /// Defaults for this sender.
    pub fn new(other: impl Into<OtherEnd>) -> Self {
        Self { other: other.into(), paths: Vec::new(), sync: true, times: Times::default() }
    }
}

/// Options of [`proxy`](crate::proxy), of [`pipe`](crate::pipe) and of a tunnel.
pub struct ProxyOptions {
    /// Relay.
    pub relay: Connect,
    /// Links to it.
    pub links: Links,
    /// Scheduler and congestion controller of what this end sends.
    pub scheduling: Scheduling,
    /// Intervals and timeouts.
    pub times: Times,
}

impl ProxyOptions {
    /// Defaults for this relay.
    pub fn new(relay: Connect) -> Self {
        let (links, scheduling, times) = Default::default();
        Self { relay, links, scheduling, times }
    }
}

/// Options of [`relay`](crate::relay).
pub struct RelayOptions {
    /// Place where it listens.
    pub listen: Listen,
    /// Local ends of paths. None: all addresses of the place.
    pub paths: Vec<Local>,
    /// Scheduler and congestion controller of what this end sends.
    pub scheduling: Scheduling,
    /// Scheduler that takes over for clients with pipes.
    pub pipe_scheduler: Option<String>,
    /// Targets that pipes may have.
    pub pipes: PipeLeave,
    /// Later states of the identity. The relay takes each over, and leaves clients whose tokens are gone.
    pub identities: Option<Receiver<Identity>>,
    /// Intervals and timeouts.
    pub times: Times,
}

impl RelayOptions {
    /// Defaults for this place.
    pub fn new(listen: Listen) -> Self {
        let (paths, scheduling, pipe_scheduler, pipes, identities, times) = Default::default();
        Self { listen, paths, scheduling, pipe_scheduler, pipes, identities, times }
    }
}
