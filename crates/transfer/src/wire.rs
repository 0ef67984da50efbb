//! The messages on the control stream, in JSON, each behind its length.
//!
//! ```text
//! connecting end     Hello (version, token, what it wants)
//! listening end      Welcome                                 or it closes the connection with a reason
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

use serde::{Deserialize, Serialize};
use weftway_path::Tier;

use super::files::FailedFile;
use super::manifest::Entry;

/// The version of all this.
pub const VERSION: u32 = 3;
/// The longest message.
pub const MAX_MESSAGE: usize = 4 << 20;
/// The longest message from an end that has not shown its token.
pub const MAX_HELLO: usize = 1024;
/// The length of a message, before it.
pub(super) const LENGTH: usize = 4;

/// What an end wants.
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
    /// What the other end has to want.
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
    /// The same for each run of the command with the same files or target on the same machine: a hash of their names.
    pub task: String,
    /// Another one for each run. It stays the same when this run connects again.
    pub run: String,
}

/// What a path is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PathTerms {
    /// Its number, which both ends know.
    pub number: u32,
    /// When it carries data.
    pub tier: TierName,
    /// How much may be sent on it since it was opened, in IP bytes of packets with data; none: as much as it can carry.
    pub credit: Option<u64>,
}

/// When a path carries data.
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
        /// What the end that connects wants.
        role: Role,
        /// Whose transfer it is. Other versions have none: they are told of the version.
        #[serde(default)]
        transfer: TransferId,
    },
    /// The token is right.
    Welcome {
        /// [`VERSION`].
        version: u32,
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
        /// How many entries it has.
        entries: u64,
    },
    /// What the receiver has of some files: number of the entry, bytes. A file that is not named is missing.
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
    /// Entries that the sender could not read or the receiver not write: number, reason. A file whose hash was told before
    /// arrives all the same.
    Failed {
        /// The entries.
        files: Vec<(u32, String)>,
    },
    /// This end is at work: it reads or writes files, and has nothing else to say.
    Working,
    /// What the paths of the connection are for, and how much may be sent on each. Each such message replaces the last one.
    Paths {
        /// Those that have a policy.
        paths: Vec<PathTerms>,
    },
    /// How much was sent on paths with a credit: number of the path, bytes since it was opened.
    Spent {
        /// The paths.
        paths: Vec<(u32, u64)>,
    },
    /// All has come: every file that did not fail is there, with its hash.
    Done {
        /// How many files.
        files: u64,
    },
}

impl Message {
    /// What it is, for the user.
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

/// What came is no message.
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
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn message() -> impl Strategy<Value = Message> {
        let hash = prop::option::of(".*");
        let entry = (".*", any::<u64>(), any::<u32>(), any::<i64>(), any::<bool>(), any::<u64>(), hash).prop_map(
            |(path, size, mode, mtime, dir, allocated, hash)| Entry { path, size, mode, mtime, dir, allocated, hash },
        );
        let failed = (".*", ".*").prop_map(|(path, reason)| FailedFile { path, reason });
        let transfer = (".*", ".*").prop_map(|(task, run)| TransferId { task, run });
        let role = prop_oneof![Just(Role::Send), Just(Role::Receive), Just(Role::Proxy), Just(Role::Relay)];
        prop_oneof![
            (any::<u32>(), ".*", role, transfer).prop_map(|(version, token, role, transfer)| Message::Hello {
                version,
                token,
                role,
                transfer
            }),
            prop::collection::vec(failed, 0..4).prop_map(|files| Message::LeftOut { files }),
            prop::collection::vec((any::<u32>(), ".*"), 0..4).prop_map(|files| Message::Failed { files }),
            prop::collection::vec(entry, 0..4).prop_map(|entries| Message::Entries { entries }),
            prop::collection::vec(any::<(u32, u64)>(), 0..4).prop_map(|files| Message::Have { files }),
            prop::collection::vec((any::<u32>(), ".*"), 0..4).prop_map(|files| Message::Hashes { files }),
            any::<u64>().prop_map(|files| Message::Done { files }),
            (any::<u32>(), any::<Option<u64>>()).prop_map(|(number, credit)| Message::Paths {
                paths: vec![PathTerms { number, tier: TierName::Secondary, credit }]
            }),
            prop::collection::vec(any::<(u32, u64)>(), 0..4).prop_map(|paths| Message::Spent { paths }),
            Just(Message::Ready),
            Just(Message::Working),
        ]
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(2000))]

        #[test]
        fn messages_come_out_as_they_went_in_wherever_they_are_cut(
            messages in prop::collection::vec(message(), 1..5), cuts in prop::collection::vec(1usize..40, 1..200),
        ) {
            let bytes: Vec<u8> = messages.iter().flat_map(|message| encode(message).unwrap()).collect();
            let (mut buffer, mut read, mut at) = (Vec::new(), Vec::new(), 0);
            for cut in cuts.iter().chain(std::iter::repeat(&1000)) {
                if at >= bytes.len() {
                    break;
                }
                let end = bytes.len().min(at + cut);
                buffer.extend_from_slice(&bytes[at..end]);
                at = end;
                while let Some(message) = decode(&mut buffer, MAX_MESSAGE).unwrap() {
                    read.push(message);
                }
            }
            prop_assert_eq!(read, messages);
            prop_assert!(buffer.is_empty());
        }

        #[test]
        fn random_bytes_are_refused_or_waited_for(mut bytes in prop::collection::vec(any::<u8>(), 0..200)) {
            let _ = decode(&mut bytes, MAX_MESSAGE);
        }

        #[test]
        fn broken_messages_are_refused_without_a_panic(
            message in message(), at in any::<prop::sample::Index>(), with in any::<u8>(),
        ) {
            let mut bytes = encode(&message).unwrap();
            let at = at.index(bytes.len());
            bytes[at] = with;
            if let Ok(Some(Message::Entries { entries })) = decode(&mut bytes, MAX_MESSAGE) {
                let _ = crate::manifest::Manifest { entries }.check();
            }
        }
    }

    #[test]
    fn an_unknown_end_cannot_make_us_hold_much() {
        let mut bytes = (MAX_HELLO as u32 + 1).to_be_bytes().to_vec();
        assert!(matches!(decode(&mut bytes, MAX_HELLO), Err(WireError::Length(..))));
    }
}
