//! Why something cannot be written.

use std::io::{self, ErrorKind};
use std::path::Path;

/// The disk refuses, or brings something else than was sent.
#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    /// The system's answer.
    #[error("{0}: {1}")]
    Disk(String, io::Error),
    /// A name is taken by something that is not replaced.
    #[error("{0}: {1}")]
    Taken(String, &'static str),
    /// Another file than the sender hashed.
    #[error("{0}: its BLAKE3 hash is not the sender's; it changed while it was sent, or a disk errs. Send it again")]
    Hash(String),
    /// Another receiver writes into this folder.
    #[error("{0}: another weft recv ({1}) receives into this folder: stop that one, or give another folder")]
    Locked(String, String),
    /// The files do not fit.
    #[error("{target}: not enough room: {needed} bytes are to be written, {free} are free")]
    Room {
        /// The folder.
        target: String,
        /// Bytes that are missing of the files.
        needed: u64,
        /// Bytes that its file system has left for this user.
        free: u64,
    },
}

impl StoreError {
    /// Returns true if no other file can be written either. Otherwise only this one is left out.
    pub fn ends_transfer(&self) -> bool {
        match self {
            Self::Disk(_, error) => {
                let full = [ErrorKind::StorageFull, ErrorKind::QuotaExceeded, ErrorKind::ReadOnlyFilesystem];
                full.contains(&error.kind()) || error.raw_os_error() == Some(rustix::io::Errno::IO.raw_os_error())
            }
            Self::Taken(..) | Self::Hash(_) => false,
            Self::Locked(..) | Self::Room { .. } => true,
        }
    }

    /// Text for the other end. The target is this machine's.
    pub(crate) fn told(&self) -> String {
        match self {
            Self::Room { needed, free, .. } => {
                format!("not enough room: {needed} bytes are to be written, {free} are free")
            }
            Self::Locked(..) => "its folder is locked".to_owned(),
            Self::Disk(path, _) if path.starts_with('/') => self.reason(),
            Self::Disk(..) | Self::Taken(..) | Self::Hash(_) => self.to_string(),
        }
    }

    /// The reason without the file's name.
    pub fn reason(&self) -> String {
        let text = self.to_string();
        match self {
            Self::Disk(path, _) | Self::Taken(path, _) | Self::Hash(path) => {
                text.strip_prefix(&format!("{path}: ")).unwrap_or(&text).to_owned()
            }
            Self::Locked(..) | Self::Room { .. } => text,
        }
    }
}

pub(crate) fn disk(path: &str) -> impl FnOnce(io::Error) -> StoreError + '_ {
    |error| StoreError::Disk(path.to_owned(), error)
}

/// Error where a folder was to be made: what is there instead, if something is.
pub(crate) fn no_folder<'a>(place: &'a Path, name: &'a str) -> impl FnOnce(io::Error) -> StoreError + 'a {
    move |error| match (error.kind(), place.is_symlink(), place.exists()) {
        (ErrorKind::AlreadyExists, true, false) => StoreError::Taken(name.to_owned(), "this is a link to nothing"),
        (ErrorKind::AlreadyExists, ..) => StoreError::Taken(name.to_owned(), "this is there, and is no folder"),
        _ => disk(name)(error),
    }
}
