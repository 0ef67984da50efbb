//! Messages of the ends beside data: in JSON, each behind its length, on the control stream.
//!
//! ```text
//! connecting end     Hello (version, token, what it wants; a proxy: which session it goes on with)
//! listening end      Welcome (a relay: in which session)     or it closes the connection with a reason
//! sender             Entries …, LeftOut …, Manifest (how many)
//!                                                            the manifest, in parts, and what cannot be read
//! receiver           Have …, Failed …, Ready                 what it has of each file, and what it cannot write
//! sender             Hashes …                                as they are known
//! either             Failed …                                files that will not arrive
//! either             Working                                 now and then, while there is nothing else to say
//! receiver           Done                                    all others have their names
//! proxy              Paths …                                 what its links are for, and how much the relay may send on them
//! relay              Spent …                                 how much of that it has sent
//! ```
//!
//! After the greeting a proxy and a relay use QUIC's stream no more: what they tell each other is on the control stream of their
//! mux, which is sent before all that waits and lives on when the connection is lost.

use serde::{Deserialize, Serialize};
use weftway_mux::Received;
use weftway_path::{Offset, Tier};

use crate::tree::found::FailedFile;
use crate::tree::manifest::Entry;

/// The version of all this.
pub const VERSION: u32 = 5;
/// The longest message.
pub const MAX_MESSAGE: usize = 4 << 20;
/// The longest message from an end that has not shown its token.
pub const MAX_HELLO: usize = 1024;
/// The length of a message, before it.
pub(crate) const LENGTH: usize = 4;

/// Role of an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Role {
    /// To send.
    Send,
    /// To receive.
    Receive,
    /// To have streams relayed.
    Proxy,
    /// To relay the streams of others.
    Relay,
}

impl Role {
    /// Role that the other end has to have.
    pub fn other(self) -> Self {
        match self {
            Self::Send => Self::Receive,
            Self::Receive => Self::Send,
            Self::Proxy => Self::Relay,
            Self::Relay => Self::Proxy,
        }
    }

    /// The command of an end that wants this.
    pub fn command(self) -> &'static str {
        match self {
            Self::Send => "weft send",
            Self::Receive => "weft recv",
            Self::Proxy => "weft proxy",
            Self::Relay => "weft relay",
        }
    }
}

/// Whose transfer it is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct TransferId {
    /// Hash of the names of files or target, of the machine and the role: equal for each run of the command.
    pub task: String,
    /// Another one for each run. It stays the same when this run connects again.
    pub run: String,
}

/// The streams of a proxy at its relay, which outlive a connection.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionState {
    /// Nobody guesses it. It is of use with the token alone with which it began.
    pub id: String,
    /// Records that this end received by the connection before; none: the session begins.
    pub received: Option<ReceivedRecords>,
}

/// Records that an end has received: see [`weftway_mux::Received`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReceivedRecords {
    /// Number of connections before that one.
    pub connection: u64,
    /// Everything before it.
    pub arrived: u64,
    /// And what lies between these.
    pub held: Vec<(u64, u64)>,
}

impl From<Received> for ReceivedRecords {
    fn from(received: Received) -> Self {
        let held = received.held.into_iter().map(|(from, to)| (from.get(), to.get())).collect();
        Self { connection: received.connection, arrived: received.arrived.get(), held }
    }
}

impl From<ReceivedRecords> for Received {
    fn from(received: ReceivedRecords) -> Self {
        let held = received.held.into_iter().map(|(from, to)| (Offset::new(from), Offset::new(to))).collect();
        Self { connection: received.connection, arrived: Offset::new(received.arrived), held }
    }
}

/// Terms of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTerms {
    /// Its number, which both ends know.
    pub number: u32,
    /// Tier.
    pub tier: TierName,
    /// Bytes that may be sent on it since it was opened, in IP bytes of packets with data; none: as much as it can
    /// carry.
    pub credit: Option<u64>,
}

/// Name of a tier.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TierName {
    /// Always.
    Primary,
    /// While the paths above do not suffice, or none of them works.
    Secondary,
    /// While no path above works.
    Backup,
    /// Never.
    Never,
}

impl TierName {
    /// As it is written.
    pub fn name(self) -> &'static str {
        match self {
            Self::Primary => "primary",
            Self::Secondary => "secondary",
            Self::Backup => "backup",
            Self::Never => "never",
        }
    }
}

impl From<Tier> for TierName {
    fn from(tier: Tier) -> Self {
        match tier {
            Tier::Primary => Self::Primary,
            Tier::Secondary => Self::Secondary,
            Tier::Backup => Self::Backup,
            Tier::Never => Self::Never,
        }
    }
}

impl From<TierName> for Tier {
    fn from(name: TierName) -> Self {
        match name {
            TierName::Primary => Self::Primary,
            TierName::Secondary => Self::Secondary,
            TierName::Backup => Self::Backup,
            TierName::Never => Self::Never,
        }
    }
}

/// A message.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "type", rename_all = "kebab-case")]
pub enum Message {
    /// The first of all.
    Hello {
        /// [`VERSION`].
        version: u32,
        /// The token.
        token: String,
        /// Role of the end that connects.
        role: Role,
        /// Whose transfer it is. Other versions have none: they are told of the version.
        #[serde(default)]
        transfer: TransferId,
        /// True if links have a policy: nothing is sent on a path of which the other end has not been told.
        #[serde(default)]
        policy: bool,
        /// The session that a proxy goes on with.
        #[serde(default)]
        session: Option<SessionState>,
    },
    /// The token is right.
    Welcome {
        /// [`VERSION`].
        version: u32,
        /// The session of this connection, where the other end is a proxy. One that goes on, or another one that
        /// begins.
        #[serde(default)]
        session: Option<SessionState>,
    },
    /// Some entries of the manifest.
    Entries {
        /// They follow those of the last such message.
        entries: Vec<Entry>,
    },
    /// Files and folders that the sender cannot read.
    LeftOut {
        /// They are not in the manifest.
        files: Vec<FailedFile>,
    },
    /// The manifest is complete.
    Manifest {
        /// Number of its entries.
        entries: u64,
    },
    /// Bytes that the receiver has of some files: number of the entry, bytes. A file that is not named is missing.
    Have {
        /// The files.
        files: Vec<(u32, u64)>,
    },
    /// The receiver has said what it has.
    Ready,
    /// The BLAKE3 hashes of some files: number of the entry, 64 hexadecimal digits.
    Hashes {
        /// The files.
        files: Vec<(u32, String)>,
    },
    /// Entries that the sender could not read or the receiver not write: number, reason. A file whose hash was told
    /// before arrives all the same.
    Failed {
        /// The entries.
        files: Vec<(u32, String)>,
    },
    /// This end is at work: it reads or writes files, and has nothing else to say.
    Working,
    /// Terms of the connection's paths. Each such message replaces the last one.
    Paths {
        /// Number of connections before the one whose paths these are.
        connection: u64,
        /// Paths that have a policy.
        paths: Vec<PathTerms>,
    },
    /// Bytes that were sent on paths with a credit: number of the path, bytes since it was opened.
    Spent {
        /// Number of connections before the one whose paths these are.
        connection: u64,
        /// The paths.
        paths: Vec<(u32, u64)>,
    },
    /// All has come: every file that did not fail is there, with its hash.
    Done {
        /// Number of files.
        files: u64,
    },
}

impl Message {
    /// The greeting of an end that wants nothing more than to begin.
    pub fn hello(token: String, role: Role, transfer: TransferId) -> Self {
        Self::Hello { version: VERSION, token, role, transfer, policy: false, session: None }
    }

    /// The answer to it.
    pub fn welcome() -> Self {
        Self::Welcome { version: VERSION, session: None }
    }

    /// Name of it, for the user.
    pub fn name(&self) -> &'static str {
        match self {
            Self::Hello { .. } => "hello",
            Self::Welcome { .. } => "welcome",
            Self::Entries { .. } => "entries",
            Self::LeftOut { .. } => "left-out",
            Self::Manifest { .. } => "manifest",
            Self::Have { .. } => "have",
            Self::Ready => "ready",
            Self::Hashes { .. } => "hashes",
            Self::Failed { .. } => "failed",
            Self::Working => "working",
            Self::Paths { .. } => "paths",
            Self::Spent { .. } => "spent",
            Self::Done { .. } => "done",
        }
    }
}

/// Bytes that are no message.
#[derive(Debug, thiserror::Error)]
pub enum WireError {
    /// Too long.
    #[error("a message of {0} bytes is longer than {1}")]
    Length(usize, usize),
    /// Not understood.
    #[error("a message that makes no sense: {0}")]
    Content(#[from] serde_json::Error),
    /// The stream ended.
    #[error("the other end ended the control stream")]
    Ended,
}

/// A message behind its length.
pub fn encode(message: &Message) -> Result<Vec<u8>, WireError> {
    let mut bytes = vec![0; LENGTH];
    serde_json::to_writer(&mut bytes, message)?;
    let length = bytes.len() - LENGTH;
    if length > MAX_MESSAGE {
        return Err(WireError::Length(length, MAX_MESSAGE));
    }
    bytes[..LENGTH].copy_from_slice(&(length as u32).to_be_bytes());
    Ok(bytes)
}

/// Takes the first message out of `bytes`, if it is complete.
pub fn decode(bytes: &mut Vec<u8>, longest: usize) -> Result<Option<Message>, WireError> {
    let Some(head) = bytes.first_chunk::<LENGTH>() else { return Ok(None) };
    let length = u32::from_be_bytes(*head) as usize;
    if length > longest {
        return Err(WireError::Length(length, longest));
    }
    let Some(body) = bytes.get(LENGTH..LENGTH + length) else { return Ok(None) };
    let message = serde_json::from_slice(body)?;
    bytes.drain(..LENGTH + length);
    Ok(Some(message))
}

#[cfg(test)]
mod tests;
