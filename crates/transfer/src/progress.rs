//! Progress of a program, as its user is told it while it is at work.

use std::net::SocketAddr;

use serde::Serialize;

use crate::seen::{Connections, LastPacket, PathProgress, PipeProgress};

/// State of a program.
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

/// Progress of a program.
#[derive(Clone, Debug, Default, PartialEq, Serialize)]
pub struct Progress {
    /// State of a program.
    pub state: State,
    /// Address where this end listens, if it does.
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
    /// Scheduler of an end that sends.
    pub scheduler: Option<String>,
    /// Congestion controller of what this end sends.
    pub cc: Option<String>,
    /// Path of one of the last packets, and the reason: of a proxy or a tunnel.
    pub last_packet: Option<LastPacket>,
    /// Places where a proxy listens for local programs.
    pub ports: Vec<String>,
    /// Pipes of `weft pipe`.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub pipes: Vec<PipeProgress>,
    /// Clients of a relay.
    pub clients: u64,
    /// Connections of programs that a proxy or a relay carries.
    pub flows: u64,
    /// Details of these connections.
    #[serde(flatten)]
    pub connections: Connections,
    /// Each path.
    pub paths: Vec<PathProgress>,
}

/// Called now and then; `false` stops the transfer.
pub type Watch<'a> = &'a mut dyn FnMut(&Progress) -> bool;
