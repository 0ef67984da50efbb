//! The receiver's folder: its lock, partial files, and the names that complete files get.
//!
//! A file is written below a hidden directory of the target, in the order of its bytes, so its length says what there
//! is of it. The partial file's name is a hash of name, size and time: a file that changed begins anew. When all of it
//! is there and its BLAKE3 hash is the sender's, it gets its permissions, its time and its name.
//!
//! A file's bytes are on the disk itself, and not only in memory, before it has its name. Of many small files they are
//! so before the transfer is over: one by one that would take some milliseconds each. The user may do without.
//!
//! One receiver at a time writes below a target: it holds a lock, which the system releases when the process ends,
//! however that comes about. Until a file has its name, only the receiver's user can read it; the same holds for a new
//! folder until the transfer is over.
//!
//! Nothing is reached but through a handle of the target directory (`cap_std`): neither `..` nor a symbolic link, old
//! or planted meanwhile, leads out of it.

use std::collections::{HashMap, HashSet};
use std::fs::{File, FileTimes, Permissions};
use std::io::{self, ErrorKind, Read, Seek as _};
use std::os::unix::fs::{MetadataExt as _, PermissionsExt};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, DirBuilder, DirBuilderExt, Metadata, MetadataExt, OpenOptions, OpenOptionsExt};
use portable_atomic::AtomicU64;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT, fstatvfs, fsync, openat, utimensat};

use crate::tree::manifest::{Entry, HIDDEN, Layout, Manifest};
pub use error::StoreError;
pub(crate) use error::disk;
use error::no_folder;

/// Mode of a file that is not complete: private.
const PRIVATE_FILE: u32 = 0o600;
const PRIVATE_DIR: u32 = 0o700;
/// Files of this size and more are written to the disk itself one by one, each before it gets its name.
const LARGE: u64 = 1 << 20;
/// Number of smaller files of which this is true, too. If there are more, their file system is written at the end, with
/// whatever else waits there.
const FEW: u64 = 64;
/// Partial files that nobody has gone on with for so long are removed.
const OLD: Duration = Duration::from_secs(7 * 86_400);
/// End of a partial file's name.
const PART: &str = ".part";
/// `st_blocks` counts in this unit, whatever the file system's is.
const BLOCK: u64 = 512;

/// The target directory, for one receiver.
pub struct Store {
    dir: Dir,
    parts: Dir,
    name: String,
    /// True if files are written to the disk itself.
    syncs: bool,
    /// Number of small files that got their name.
    small: AtomicU64,
    /// The file system keeps times in so many nanoseconds.
    time_unit: i64,
    /// Identity of each file of the transfer on the disk, where the file system may take two names for one.
    names: Option<Mutex<Names>>,
    /// Its lock is released when it is closed.
    lock: File,
}

/// Which file on the disk a partial file is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FileIdentity {
    device: u64,
    number: u64,
    size: u64,
}

impl FileIdentity {
    pub fn of(file: &File) -> io::Result<Self> {
        let meta = file.metadata()?;
        Ok(Self { device: meta.dev(), number: meta.ino(), size: meta.len() })
    }
}

/// The files of a transfer that have their names, by device and number.
#[derive(Default)]
struct Names(HashMap<(u64, u64), String>);

impl Names {
    /// Checks that the file `there` may be replaced by what gets the name `path`: not if it has another one. A hard
    /// link may have.
    fn check(&self, path: &str, there: &Metadata) -> Result<(), StoreError> {
        match self.0.get(&(there.dev(), there.ino())) {
            Some(other) if other != path && there.nlink() == 1 => Err(StoreError::Taken(
                path.to_owned(),
                "the target's file system does not tell this name from another one's, which differs in case",
            )),
            _ => Ok(()),
        }
    }

    /// The file `there` has the name `path`.
    fn keep(&mut self, path: &str, there: &Metadata) {
        self.0.insert((there.dev(), there.ino()), path.to_owned());
    }
}

/// Result of giving permissions. Some file systems have none, as FAT, and refuse them: that costs no file.
fn if_it_has_any(given: io::Result<()>) -> io::Result<()> {
    let is_refused = |error: &io::Error| [ErrorKind::PermissionDenied, ErrorKind::Unsupported].contains(&error.kind());
    given.or_else(|error| if is_refused(&error) { Ok(()) } else { Err(error) })
}

/// The name of the partial file of `entry`.
fn part_name(entry: &Entry) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&entry.size.to_be_bytes());
    hasher.update(&entry.mtime.to_be_bytes());
    hasher.update(entry.path.as_bytes());
    format!("{}{PART}", &hasher.finalize().to_hex()[..32])
}

fn mtime(meta: &Metadata) -> i64 {
    meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec())
}

fn permissions(mode: u32) -> cap_std::fs::Permissions {
    cap_std::fs::Permissions::from_std(Permissions::from_mode(mode))
}

fn private_dirs() -> DirBuilder {
    let mut builder = DirBuilder::new();
    builder.recursive(true).mode(PRIVATE_DIR);
    builder
}

impl Store {
    /// Opens the target, and makes it if it is not there. No other receiver may write into it until this value is
    /// dropped.
    pub fn open(target: &Path) -> Result<Self, StoreError> {
        let name = target.display().to_string();
        std::fs::create_dir_all(target).map_err(no_folder(target, &name))?;
        let dir = Dir::open_ambient_dir(target, ambient_authority()).map_err(disk(&name))?;
        let place = target.join(HIDDEN);
        let hidden = place.display().to_string();
        loop {
            dir.create_dir_with(HIDDEN, &private_dirs()).map_err(no_folder(&place, &hidden))?;
            let parts = match dir.open_dir(HIDDEN) {
                Err(error) if error.kind() == ErrorKind::NotFound => continue,
                parts => parts.map_err(disk(&hidden))?,
            };
            // One of an earlier version may be readable, or its user took away the right to write.
            let found = parts.dir_metadata().map_err(disk(&hidden))?;
            if found.mode() & 0o777 != PRIVATE_DIR {
                let given = dir.set_permissions(HIDDEN, permissions(PRIVATE_DIR));
                let user = rustix::process::geteuid();
                // Another user's is refused for that.
                let is_own = user.is_root() || found.uid() == user.as_raw();
                if is_own { if_it_has_any(given) } else { given }.map_err(disk(&hidden))?;
            }
            let folds_case = dir
                .symlink_metadata(HIDDEN.to_uppercase())
                .is_ok_and(|other| (other.dev(), other.ino()) == (found.dev(), found.ino()));
            if let Some(lock) = lock::lock(&dir, &parts, &name)? {
                let time_unit = time_unit(&lock);
                return Ok(Self {
                    dir,
                    parts,
                    name,
                    syncs: true,
                    small: AtomicU64::new(0),
                    time_unit,
                    names: folds_case.then(Mutex::default),
                    lock,
                });
            }
        }
    }

    /// Store whose files may be in memory only when the transfer is over.
    pub fn without_sync(mut self) -> Self {
        self.syncs = false;
        self
    }

    /// Makes the folders of `manifest`, and looks how much is there of each file: a file with its size and time is
    /// there whole, or with its hash, where the manifest has that. `take` is given this for each entry in turn; an
    /// entry that cannot be written has the reason instead. It ends early when `stop` is set.
    pub fn prepare(
        &self,
        manifest: &Manifest,
        stop: &AtomicBool,
        mut take: impl FnMut(&Entry, Result<u64, StoreError>),
    ) -> Result<(), StoreError> {
        let mut missing = HashSet::new();
        for entry in manifest.entries.iter().take_while(|_| !stop.load(Ordering::Relaxed)) {
            let parent = entry.path.rsplit_once('/').map_or("", |(parent, _)| parent);
            let had = if missing.contains(parent) {
                Err(StoreError::Taken(entry.path.clone(), "its folder could not be made"))
            } else if entry.dir {
                self.make_dir(entry).map(|()| 0)
            } else {
                self.has(entry, stop)
            };
            match had {
                Err(error) if error.ends_transfer() => return Err(error),
                Err(_) if entry.dir => drop(missing.insert(entry.path.as_str())),
                _ => {}
            }
            take(entry, had);
        }
        Ok(())
    }

    /// Makes a folder that files can be written into, whatever its permissions will be.
    fn make_dir(&self, entry: &Entry) -> Result<(), StoreError> {
        match self.dir.symlink_metadata(&entry.path) {
            Ok(there) if !there.is_dir() => {
                Err(StoreError::Taken(entry.path.clone(), "the target has something else of this name"))
            }
            Ok(there) if there.mode() & PRIVATE_DIR != PRIVATE_DIR => {
                let mode = there.mode() & 0o777 | PRIVATE_DIR;
                if_it_has_any(self.dir.set_permissions(&entry.path, permissions(mode))).map_err(disk(&entry.path))
            }
            Ok(_) => Ok(()),
            Err(error) if error.kind() == ErrorKind::NotFound => {
                self.dir.create_dir_with(&entry.path, &private_dirs()).map_err(disk(&entry.path))
            }
            Err(error) => Err(disk(&entry.path)(error)),
        }
    }

    fn has(&self, entry: &Entry, stop: &AtomicBool) -> Result<u64, StoreError> {
        match self.dir.symlink_metadata(&entry.path) {
            Ok(there) if there.is_dir() => {
                return Err(StoreError::Taken(entry.path.clone(), "the target has a directory of this name"));
            }
            Ok(there) if self.is_whole(&there, entry) && self.is_same(entry, stop) => {
                if let Some(mut names) = self.names() {
                    names.check(&entry.path, &there)?;
                    names.keep(&entry.path, &there);
                }
                return Ok(entry.size);
            }
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(disk(&entry.path)(error)),
            _ => {}
        }
        let part = self.parts.symlink_metadata(part_name(entry)).ok();
        let part = part.filter(|part| part.is_file() && part.len() <= entry.size).map_or(0, |part| part.len());
        // Even of a complete one the last byte is sent again: then its hash is compared, too.
        Ok(part.min(entry.size.saturating_sub(1)))
    }

    /// The names of this transfer, if the file system may take two for one.
    fn names(&self) -> Option<MutexGuard<'_, Names>> {
        Some(self.names.as_ref()?.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Returns true if a file has the right size, and the right time unless contents are compared.
    fn is_whole(&self, there: &Metadata, entry: &Entry) -> bool {
        let kept = entry.mtime.saturating_sub(entry.mtime.rem_euclid(self.time_unit));
        there.is_file() && there.len() == entry.size && (entry.hash.is_some() || mtime(there) == kept)
    }

    /// Returns true if a file of the right size has the bytes that the manifest says, if it says so. One that cannot be
    /// read has not.
    fn is_same(&self, entry: &Entry, stop: &AtomicBool) -> bool {
        let Some(hash) = &entry.hash else { return true };
        let Ok(file) = self.dir.open(&entry.path) else { return false };
        let mut hasher = blake3::Hasher::new();
        let whole = read_into(&mut hasher, &mut file.into_std(), entry.size, stop);
        whole.is_ok() && hasher.finalize().to_hex().as_str() == hash
    }

    /// Removes partial files that are not of `manifest` and that nobody has gone on with for a week: how many, and
    /// their bytes.
    pub(crate) fn remove_old_parts(&self, manifest: &Manifest, now: SystemTime) -> io::Result<(u64, u64)> {
        let (mut count, mut bytes) = (0, 0);
        let mut wanted = None;
        for found in self.parts.entries()? {
            let found = found?;
            let (name, meta) = (found.file_name(), found.metadata()?);
            let age = now.duration_since(meta.modified()?.into_std()).unwrap_or_default();
            let is_part = name.to_str().is_some_and(|name| name.ends_with(PART));
            if !is_part || !meta.is_file() || age < OLD {
                continue;
            }
            let wanted: &HashSet<String> =
                wanted.get_or_insert_with(|| manifest.entries.iter().map(part_name).collect());
            if !name.to_str().is_some_and(|name| wanted.contains(name)) {
                self.parts.remove_file(&name)?;
                (count, bytes) = (count + 1, bytes + meta.len());
            }
        }
        Ok((count, bytes))
    }

    /// Refuses files that do not fit. Of a sparse one only what is no hole takes room, and what a partial file takes
    /// already is not needed again.
    pub fn check_room(&self, manifest: &Manifest, layout: &Layout) -> Result<(), StoreError> {
        let system = fstatvfs(&self.dir).map_err(|error| StoreError::Disk(self.name.clone(), error.into()))?;
        let blocks = if rustix::process::geteuid().is_root() { system.f_bfree } else { system.f_bavail };
        let free = blocks.saturating_mul(system.f_frsize);
        let missing = layout.pieces.iter().map(|piece| {
            let entry = &manifest.entries[piece.entry as usize];
            let part = if piece.from > 0 { self.parts.symlink_metadata(part_name(entry)).ok() } else { None };
            let taken = part.map_or(0, |part| part.blocks().saturating_mul(BLOCK));
            entry.stored().saturating_sub(taken).min(piece.length)
        });
        let needed = missing.fold(0, u64::saturating_add);
        // Some network file systems do not know their size.
        if needed > free && system.f_blocks > 0 {
            return Err(StoreError::Room { target: self.name.clone(), needed, free });
        }
        Ok(())
    }

    /// Returns true if the whole file has its name already, of which [`Store::prepare`] has said so. Where contents
    /// were compared, it gets its time and permissions.
    pub(crate) fn is_there(&self, entry: &Entry) -> bool {
        if !self.dir.symlink_metadata(&entry.path).is_ok_and(|there| self.is_whole(&there, entry)) {
            return false;
        }
        if entry.hash.is_some()
            && let Ok(file) = self.dir.open(&entry.path)
        {
            // One that belongs to somebody else keeps them.
            let _ = give_attributes(&file.into_std(), entry);
        }
        true
    }

    /// The partial file of `entry`, for writing.
    pub(crate) fn open_part(&self, entry: &Entry) -> Result<File, StoreError> {
        let name = part_name(entry);
        // One that was to get its name has its final permissions: perhaps none to write.
        let _ = self.parts.set_permissions(&name, permissions(PRIVATE_FILE));
        let mut options = OpenOptions::new();
        options.create(true).read(true).write(true).mode(PRIVATE_FILE);
        self.parts.open_with(&name, &options).map(cap_std::fs::File::into_std).map_err(disk(&entry.path))
    }

    pub(crate) fn remove_part(&self, entry: &Entry) -> Result<(), StoreError> {
        match self.parts.remove_file(part_name(entry)) {
            Err(error) if error.kind() != ErrorKind::NotFound => Err(disk(&entry.path)(error)),
            _ => Ok(()),
        }
    }

    /// Gives the complete partial file `hashed` its permissions, its time and its name.
    pub(crate) fn publish(&self, entry: &Entry, hashed: FileIdentity) -> Result<(), StoreError> {
        let name = part_name(entry);
        let file = self.parts.open(&name).map_err(disk(&entry.path))?.into_std();
        if FileIdentity::of(&file).map_err(disk(&entry.path))? != hashed || hashed.size != entry.size {
            return Err(StoreError::Taken(
                entry.path.clone(),
                "another program changed its partial file. Send it again",
            ));
        }
        if let Some((parent, _)) = entry.path.rsplit_once('/') {
            self.dir.create_dir_with(parent, &private_dirs()).map_err(disk(&entry.path))?;
        }
        let is_due = || entry.size >= LARGE || self.small.fetch_add(1, Ordering::Relaxed) < FEW;
        if self.syncs && entry.size > 0 && is_due() {
            file.sync_data().map_err(disk(&entry.path))?;
        }
        if let Some(names) = self.names()
            && let Ok(there) = self.dir.symlink_metadata(&entry.path)
        {
            names.check(&entry.path, &there)?;
        }
        give_attributes(&file, entry).map_err(disk(&entry.path))?;
        let renamed = match self.parts.rename(&name, &self.dir, &entry.path) {
            Err(error) if error.kind() == ErrorKind::CrossesDevices => self.publish_elsewhere(&file, entry),
            renamed => renamed,
        };
        renamed.map_err(|error| {
            // It stays a partial file.
            let _ = file.set_permissions(Permissions::from_mode(PRIVATE_FILE));
            disk(&entry.path)(error)
        })?;
        if let Some(mut names) = self.names() {
            names.keep(&entry.path, &self.dir.symlink_metadata(&entry.path).map_err(disk(&entry.path))?);
        }
        Ok(())
    }

    /// Gives a complete partial file its name in a folder on another file system, as a mount point below the target is:
    /// a copy beside its place gets the name, and the partial file goes.
    fn publish_elsewhere(&self, mut part: &File, entry: &Entry) -> io::Result<()> {
        let (folder, name) = entry.path.rsplit_once('/').unwrap_or((".", &entry.path));
        let folder = self.dir.open_dir(folder)?;
        let beside = format!(".{}", part_name(entry));
        // A copy may be left of a receiver that was killed.
        let _ = folder.remove_file(&beside);
        let mut options = OpenOptions::new();
        options.create_new(true).write(true).mode(PRIVATE_FILE);
        let copied = folder.open_with(&beside, &options).and_then(|copy| {
            let mut copy = copy.into_std();
            part.rewind()?;
            if io::copy(&mut part, &mut copy)? != entry.size {
                return Err(io::Error::other("its partial file changed while it was copied"));
            }
            give_attributes(&copy, entry)?;
            if self.syncs {
                copy.sync_data()?;
            }
            folder.rename(&beside, &folder, name)
        });
        if copied.is_err() {
            let _ = folder.remove_file(&beside);
        } else {
            // The file has its name: if the partial file stays, it is removed as an old one.
            let _ = self.parts.remove_file(part_name(entry));
        }
        copied
    }

    /// Gives a folder its permissions and its time: nothing is written into it any more.
    pub(crate) fn finish_dir(&self, entry: &Entry) -> Result<(), StoreError> {
        let dir = self.dir.open_dir(&entry.path).map_err(disk(&entry.path))?;
        let at = Timespec {
            tv_sec: entry.mtime.div_euclid(1_000_000_000),
            tv_nsec: entry.mtime.rem_euclid(1_000_000_000) as _,
        };
        let times = Timestamps { last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT }, last_modification: at };
        utimensat(&dir, ".", &times, AtFlags::empty()).map_err(|error| disk(&entry.path)(error.into()))?;
        let given = self.dir.set_permissions(&entry.path, permissions(entry.mode & 0o777));
        if_it_has_any(given).map_err(disk(&entry.path))
    }

    /// Writes what is not there yet to the disk itself: names, and the bytes of small files.
    pub(crate) fn sync(&self, manifest: &Manifest) -> Result<(), StoreError> {
        if !self.syncs {
            return Ok(());
        }
        let dirs = || manifest.entries.iter().filter(|entry| entry.dir);
        let written = if self.small.load(Ordering::Relaxed) > FEW || dirs().count() as u64 > FEW {
            sync_file_system(&self.lock)
        } else {
            let paths = dirs().map(|entry| entry.path.as_str()).chain(["."]);
            // What is not there was told already.
            let mut opened = paths.filter_map(|path| self.dir.open_dir(path).ok());
            opened.try_for_each(|dir| fsync(openat(&dir, ".", OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?))
        };
        written.map_err(|error| StoreError::Disk(self.name.clone(), error.into()))
    }
}

#[cfg(target_os = "linux")]
fn sync_file_system(file: &File) -> rustix::io::Result<()> {
    rustix::fs::syncfs(file)
}

#[cfg(not(target_os = "linux"))]
fn sync_file_system(_: &File) -> rustix::io::Result<()> {
    rustix::fs::sync();
    Ok(())
}

impl Drop for Store {
    fn drop(&mut self) {
        // Partial files stay for the next transfer; the directory goes if there are none. A lock that is left behind by
        // a process that was killed does no harm.
        let _ = self.parts.remove_file(lock::LOCK);
        let _ = self.dir.remove_dir(HIDDEN);
    }
}

/// In how many nanoseconds the file system of `file` keeps times: NTFS in 100, FAT in 2 s. It leaves out the rest.
fn time_unit(file: &File) -> i64 {
    // In 2001, for FAT begins in 1980. The last of every unit.
    let last = 1_000_000_001_999_999_999;
    let kept = file.set_times(FileTimes::new().set_modified(time(last))).and_then(|()| file.metadata());
    let lost =
        kept.map_or(0, |kept| last.saturating_sub(kept.mtime().saturating_mul(1_000_000_000)) - kept.mtime_nsec());
    if (0..2_000_000_000).contains(&lost) { lost + 1 } else { 1 }
}

/// Hashes the next `bytes` of a file. It ends early, with an error, when `stop` is set.
pub(crate) fn read_into(hasher: &mut blake3::Hasher, file: &mut File, bytes: u64, stop: &AtomicBool) -> io::Result<()> {
    let mut left = bytes;
    let mut buffer = vec![0; usize::try_from(left).unwrap_or(usize::MAX).min(256 << 10)];
    while left > 0 {
        if stop.load(Ordering::Relaxed) {
            return Err(io::Error::other("it is interrupted"));
        }
        let part = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
        file.read_exact(&mut buffer[..part])?;
        hasher.update(&buffer[..part]);
        left -= part as u64;
    }
    Ok(())
}

/// Its time and its permissions.
fn give_attributes(file: &File, entry: &Entry) -> io::Result<()> {
    file.set_times(FileTimes::new().set_modified(time(entry.mtime)))?;
    if_it_has_any(file.set_permissions(Permissions::from_mode(entry.mode & 0o777)))
}

fn time(nanos: i64) -> SystemTime {
    let span = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
}

mod error;
mod lock;
#[cfg(test)]
mod tests;
