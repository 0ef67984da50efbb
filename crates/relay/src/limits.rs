//! Limits of what is done at once, and of the time that it takes.

use weftway_path::{BitRate, Span};

/// Time in which a local program has to say where it wants to.
pub const HANDSHAKE: Span = Span::from_secs(10);
/// Time that it waits for a connection to the relay, and for one more stream.
pub const WAIT_FOR_STREAM: Span = Span::from_secs(10);
/// Time in which the relay has to find an address and to connect.
pub const DIAL: Span = Span::from_secs(10);
/// Time that the proxy waits for the relay's word: what that takes, and the time that a connection of long paths, or
/// one that has just lost a path, takes to carry it.
pub const WAIT_FOR_ANSWER: Span = Span::from_secs(30);
/// Time after an attempt to connect until the next address is tried beside it (RFC 8305, section 8).
pub const ATTEMPT: Span = Span::from_millis(250);
/// The most addresses of each family that a name may have. Further ones are left out.
pub const MOST_ADDRESSES: usize = 32;
/// Time in which a program that was refused has to read why.
pub const LINGER: Span = Span::from_secs(2);
/// Time after the process had no file descriptor left until another connection is accepted.
pub const NO_DESCRIPTORS: Span = Span::from_millis(100);
/// Number of datagrams that a socket brings before others have their turn.
pub const BURST: usize = 64;
/// Number of datagrams of a connection that are passed on before others have their turn.
pub const MOST_DATAGRAMS: usize = 512;
/// Number of known destinations of a program's datagrams. The one used longest ago is forgotten.
pub const MOST_DESTINATIONS: usize = 1024;
/// Number of known names of a program's datagrams. The one used longest ago is forgotten.
pub const MOST_NAMES: usize = 64;
/// Number of datagrams of a program that wait for their names.
pub const MOST_WAITING: usize = 32;
/// The time after which a name of a program's datagrams that was found is looked up again. The resolver may know it
/// still.
pub const FOUND: Span = Span::from_secs(60);
/// The time after which one that was not found is looked up again.
pub const NOT_FOUND: Span = Span::from_secs(5);
/// The time after which it is judged again whether datagrams may lead to a destination: this machine may have its
/// address by then. The judgement takes three system calls.
pub const JUDGED: Span = Span::from_secs(1);
/// Latency of a pipe, at least.
pub const LEAST_LATENCY: Span = Span::from_millis(1);
/// Latency of a pipe, at most.
pub const MOST_LATENCY: Span = Span::from_secs(10);
/// Number of pipes of a client.
pub const MOST_PIPES: usize = 16;
/// Number of sources of a pipe whose datagrams are carried at once.
pub const MOST_SOURCES: usize = 256;
/// The time after which a source of a pipe that neither sends nor gets anything is forgotten.
pub const SOURCE_IDLE: Span = Span::from_secs(120);
/// Bytes of a record, as `weft` sends them.
const RECORD: usize = 1154;

/// Limits of a proxy for local programs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ProxyLimits {
    /// Number of local connections at once. Further ones wait in the kernel's queue.
    pub connections: usize,
    /// The most of them that have not said where they want to. Where there are more the oldest goes.
    pub handshakes: usize,
    /// The bytes of a full record of the connection to the relay: a datagram has to fit into one.
    pub record: usize,
}

impl Default for ProxyLimits {
    /// Twice the streams that a relay allows by default; 512 handshakes; the records of `weft`.
    fn default() -> Self {
        Self { connections: 3072, handshakes: 512, record: RECORD }
    }
}

/// The limits of one client of a relay, or of several that share them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClientLimits {
    /// The most streams at once. Further ones are refused.
    pub connections: usize,
    /// Rate in each direction.
    pub rate: Option<BitRate>,
}

impl Default for ClientLimits {
    /// As many as the mux allows, as fast as can be.
    fn default() -> Self {
        Self { connections: usize::MAX, rate: None }
    }
}

/// The limits of what a relay does at once. The number of its streams is the mux's matter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RelayLimits {
    /// The most sockets that are being connected, for all clients; half of the descriptors that the process may have at
    /// most. Hosts that are silent make way for further ones.
    pub dials: usize,
    /// The most names that are looked up, for all clients; an eighth of the descriptors that the process may have at
    /// most. One client has a quarter of these. Further ones wait.
    pub names: usize,
    /// The most connections of programs of one client whose datagrams are carried. Further ones are refused. Some
    /// programs ask for each destination anew.
    pub associations: usize,
    /// The bytes of a full record of the connection to a client: a datagram has to fit into one.
    pub record: usize,
}

impl Default for RelayLimits {
    fn default() -> Self {
        Self { dials: 2048, names: 1024, associations: 256, record: RECORD }
    }
}
