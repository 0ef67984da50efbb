//! Which receiver writes into a target: one at a time holds its lock.

use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::path::Path;

use cap_std::fs::{Dir, MetadataExt, OpenOptions, OpenOptionsExt};
use rustix::fs::{FlockOperation, flock};

use super::{FileIdentity, PRIVATE_FILE, StoreError, disk};
use crate::tree::manifest::HIDDEN;

/// The file below [`HIDDEN`] that is locked, with the number of the process that holds the lock.
pub const LOCK: &str = "lock";
/// The lock of `parts`, or `None` if a receiver that ended has just removed it.
pub fn lock(dir: &Dir, parts: &Dir, name: &str) -> Result<Option<File>, StoreError> {
    let mut options = OpenOptions::new();
    options.create(true).read(true).write(true).mode(PRIVATE_FILE);
    let mut file = match parts.open_with(LOCK, &options) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        opened => opened.map_err(disk(HIDDEN))?.into_std(),
    };
    let ours = FileIdentity::of(&file).map_err(disk(HIDDEN))?;
    match flock(&file, FlockOperation::NonBlockingLockExclusive) {
        Err(rustix::io::Errno::WOULDBLOCK) => {
            let mut holder = String::new();
            let known = file.read_to_string(&mut holder).is_ok() && holder.trim().parse::<u32>().is_ok();
            let holder = if known { format!("process {}", holder.trim()) } else { "its process is unknown".to_owned() };
            return Err(StoreError::Locked(name.to_owned(), holder));
        }
        result => result.map_err(|error| StoreError::Disk(format!("{name}: it cannot be locked"), error.into()))?,
    }
    let path = Path::new(HIDDEN).join(LOCK);
    let there = dir.symlink_metadata(path).ok();
    if there.is_none_or(|meta| (meta.dev(), meta.ino()) != (ours.device, ours.number)) {
        return Ok(None);
    }
    file.set_len(0).and_then(|()| writeln!(file, "{}", std::process::id())).map_err(disk(HIDDEN))?;
    Ok(Some(file))
}
