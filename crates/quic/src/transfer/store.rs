//! The receiver's disk: partial files, their hashes, their names.
//!
//! A file is written below a hidden directory of the target, in the order of its bytes, so its length says what there is
//! of it. The partial file's name is a hash of name, size and time: a file that changed begins anew. When all of it is
//! there and its BLAKE3 hash is the sender's, it gets its permissions, its time and its name.
//!
//! Nothing is reached but through a handle of the target directory (`cap_std`): neither `..` nor a symbolic link, old or
//! planted meanwhile, leads out of it.

use std::collections::HashMap;
use std::fs::{FileTimes, Permissions};
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use cap_std::ambient_authority;
use cap_std::fs::{Dir, File, Metadata, MetadataExt, OpenOptions};

use super::manifest::{Entry, Layout, Manifest, Piece};

/// Where partial files are, below the target.
pub const HIDDEN: &str = ".weft-partial";

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
}

fn disk(path: &str) -> impl FnOnce(io::Error) -> StoreError + '_ {
    |error| StoreError::Disk(path.to_owned(), error)
}

/// The target directory.
pub struct Store {
    dir: Dir,
    parts: Dir,
}

/// The name of the partial file of `entry`.
fn part_name(entry: &Entry) -> String {
    let mut hasher = blake3::Hasher::new();
    hasher.update(&entry.size.to_be_bytes());
    hasher.update(&entry.mtime.to_be_bytes());
    hasher.update(entry.path.as_bytes());
    format!("{}.part", &hasher.finalize().to_hex()[..32])
}

fn mtime(meta: &Metadata) -> i64 {
    meta.mtime().saturating_mul(1_000_000_000).saturating_add(meta.mtime_nsec())
}

impl Store {
    /// Opens the target, and makes it if it is not there.
    pub fn open(target: &Path) -> Result<Self, StoreError> {
        let name = target.display().to_string();
        std::fs::create_dir_all(target).map_err(disk(&name))?;
        let dir = Dir::open_ambient_dir(target, ambient_authority()).map_err(disk(&name))?;
        dir.create_dir_all(HIDDEN).map_err(disk(HIDDEN))?;
        let parts = dir.open_dir(HIDDEN).map_err(disk(HIDDEN))?;
        Ok(Self { dir, parts })
    }

    /// How much is there of each entry. A file with its size and time is there whole.
    pub fn look(&self, manifest: &Manifest) -> Result<Vec<u64>, StoreError> {
        manifest.entries.iter().map(|entry| self.has(entry)).collect()
    }

    fn has(&self, entry: &Entry) -> Result<u64, StoreError> {
        let there = self.dir.symlink_metadata(&entry.path).ok();
        let taken = |why| Err(StoreError::Taken(entry.path.clone(), why));
        match there {
            Some(there) if entry.dir && !there.is_dir() => taken("the target has something else of this name"),
            Some(there) if !entry.dir && there.is_dir() => taken("the target has a directory of this name"),
            Some(there) if there.is_file() && there.len() == entry.size && mtime(&there) == entry.mtime => {
                Ok(entry.size)
            }
            _ if entry.dir => Ok(0),
            _ => {
                let part = self.parts.symlink_metadata(part_name(entry)).ok();
                let part = part.filter(|part| part.is_file() && part.len() <= entry.size).map_or(0, |part| part.len());
                // Even of a complete one the last byte is sent again: then its hash is compared, too.
                Ok(part.min(entry.size.saturating_sub(1)))
            }
        }
    }

    /// Whether the whole file has its name already.
    fn is_there(&self, entry: &Entry) -> bool {
        let there = self.dir.symlink_metadata(&entry.path);
        there.is_ok_and(|there| there.is_file() && there.len() == entry.size && mtime(&there) == entry.mtime)
    }

    fn make_parents(&self, path: &str) -> Result<(), StoreError> {
        match Path::new(path).parent() {
            Some(parent) if !parent.as_os_str().is_empty() => self.dir.create_dir_all(parent).map_err(disk(path)),
            _ => Ok(()),
        }
    }

    /// Gives a complete partial file its permissions, its time and its name.
    fn publish(&self, entry: &Entry) -> Result<(), StoreError> {
        let file = self.open_part(entry)?.into_std();
        file.set_permissions(Permissions::from_mode(entry.mode & 0o777)).map_err(disk(&entry.path))?;
        file.set_times(FileTimes::new().set_modified(time(entry.mtime))).map_err(disk(&entry.path))?;
        self.make_parents(&entry.path)?;
        self.parts.rename(part_name(entry), &self.dir, &entry.path).map_err(disk(&entry.path))
    }

    fn open_part(&self, entry: &Entry) -> Result<File, StoreError> {
        let mut options = OpenOptions::new();
        options.create(true).append(true).read(true);
        self.parts.open_with(part_name(entry), &options).map_err(disk(&entry.path))
    }

    /// Removes the hidden directory, if it is empty.
    fn tidy(&self) {
        // Partial files of other transfers stay.
        let _ = self.dir.remove_dir(HIDDEN);
    }
}

fn time(nanos: i64) -> SystemTime {
    let span = Duration::from_nanos(nanos.unsigned_abs());
    if nanos < 0 { UNIX_EPOCH - span } else { UNIX_EPOCH + span }
}

/// Writes the stream into files.
pub struct Writer {
    store: Store,
    manifest: Manifest,
    layout: Layout,
    /// The number of the piece that is written.
    at: usize,
    open: Option<Open>,
    /// The hashes of files that are complete, where the sender's is still to come.
    waiting: HashMap<u32, blake3::Hash>,
    /// Hashes that came before their file was complete.
    expected: HashMap<u32, blake3::Hash>,
    files: u64,
}

struct Open {
    file: std::fs::File,
    hasher: blake3::Hasher,
    /// How much of the piece is written.
    written: u64,
}

impl Writer {
    /// Writes the files of `layout`. Directories and empty files are made at once.
    pub fn new(store: Store, manifest: Manifest, layout: Layout) -> Result<Self, StoreError> {
        for entry in manifest.entries.iter().filter(|entry| entry.dir) {
            store.dir.create_dir_all(&entry.path).map_err(disk(&entry.path))?;
        }
        let mut writer = Self {
            store,
            manifest,
            layout,
            at: 0,
            open: None,
            waiting: HashMap::new(),
            expected: HashMap::new(),
            files: 0,
        };
        writer.settle_whole()?;
        Ok(writer)
    }

    /// Files of which nothing is sent: empty ones, and those that are there.
    fn settle_whole(&mut self) -> Result<(), StoreError> {
        let mut sent = self.layout.pieces.iter().map(|piece| piece.entry).peekable();
        for (at, entry) in self.manifest.entries.iter().enumerate() {
            if sent.next_if_eq(&(at as u32)).is_some() || entry.dir {
                continue;
            }
            if !self.store.is_there(entry) {
                if entry.size > 0 {
                    return Err(StoreError::Taken(entry.path.clone(), "it changed meanwhile"));
                }
                self.store.publish(entry)?;
            }
            self.files += 1;
        }
        Ok(())
    }

    /// The next bytes of the stream.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while let Some((&piece, false)) = self.layout.pieces.get(self.at).map(|piece| (piece, bytes.is_empty())) {
            let name = &self.manifest.entries[piece.entry as usize].path;
            let mut open = match self.open.take() {
                Some(open) => open,
                None => self.resume(piece)?,
            };
            let left = usize::try_from(piece.length - open.written).unwrap_or(usize::MAX);
            let (part, rest) = bytes.split_at(left.min(bytes.len()));
            open.file.write_all(part).map_err(disk(name))?;
            open.hasher.update(part);
            open.written += part.len() as u64;
            bytes = rest;
            if open.written < piece.length {
                self.open = Some(open);
            } else {
                self.at += 1;
                let hash = open.hasher.finalize();
                drop(open);
                self.complete(piece.entry, hash)?;
            }
        }
        Ok(())
    }

    /// Opens a partial file; what is there already is hashed.
    fn resume(&self, piece: Piece) -> Result<Open, StoreError> {
        let entry = &self.manifest.entries[piece.entry as usize];
        let mut file = self.store.open_part(entry)?.into_std();
        file.set_len(piece.from).map_err(disk(&entry.path))?;
        let mut hasher = blake3::Hasher::new();
        let (mut buffer, mut left) = (vec![0; 256 << 10], piece.from);
        while left > 0 {
            let part = buffer.len().min(usize::try_from(left).unwrap_or(usize::MAX));
            file.read_exact(&mut buffer[..part]).map_err(disk(&entry.path))?;
            hasher.update(&buffer[..part]);
            left -= part as u64;
        }
        Ok(Open { file, hasher, written: 0 })
    }

    fn complete(&mut self, entry: u32, hash: blake3::Hash) -> Result<(), StoreError> {
        match self.expected.remove(&entry) {
            Some(expected) => self.verify(entry, hash, expected),
            None => {
                self.waiting.insert(entry, hash);
                Ok(())
            }
        }
    }

    /// The sender's hash of a file.
    pub fn expect(&mut self, entry: u32, expected: blake3::Hash) -> Result<(), StoreError> {
        match self.waiting.remove(&entry) {
            Some(hash) => self.verify(entry, hash, expected),
            None => {
                self.expected.insert(entry, expected);
                Ok(())
            }
        }
    }

    fn verify(&mut self, at: u32, hash: blake3::Hash, expected: blake3::Hash) -> Result<(), StoreError> {
        let entry = &self.manifest.entries[at as usize];
        if hash != expected {
            self.store.parts.remove_file(part_name(entry)).map_err(disk(&entry.path))?;
            return Err(StoreError::Hash(entry.path.clone()));
        }
        self.store.publish(entry)?;
        self.files += 1;
        Ok(())
    }

    /// How many files are there, each with its hash.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Whether everything is there.
    pub fn is_done(&self) -> bool {
        self.at == self.layout.pieces.len() && self.waiting.is_empty()
    }

    /// Everything is there: directories get their permissions.
    pub fn finish(&self) -> Result<(), StoreError> {
        for entry in self.manifest.entries.iter().rev().filter(|entry| entry.dir) {
            let permissions = cap_std::fs::Permissions::from_std(Permissions::from_mode(entry.mode & 0o777 | 0o700));
            self.store.dir.set_permissions(&entry.path, permissions).map_err(disk(&entry.path))?;
        }
        self.store.tidy();
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(path: &str, size: u64) -> Entry {
        Entry { path: path.into(), size, mode: 0o640, mtime: 1_700_000_000_123_456_789, dir: false }
    }

    fn write(target: &Path, manifest: &Manifest, bytes: &[u8], hash: Option<&[u8]>) -> Result<Writer, StoreError> {
        let store = Store::open(target)?;
        let layout = Layout::new(manifest, &store.look(manifest)?);
        let skip = manifest.bytes() - layout.bytes();
        let mut writer = Writer::new(store, manifest.clone(), layout)?;
        writer.write(&bytes[skip as usize..])?;
        if let Some(hash) = hash {
            writer.expect(0, blake3::hash(hash))?;
        }
        Ok(writer)
    }

    #[test]
    fn a_file_has_its_name_when_its_hash_is_right() {
        let target = tempfile::tempdir().unwrap();
        let manifest = Manifest { entries: vec![file("a/b", 5)] };
        let writer = write(target.path(), &manifest, b"hello", None).unwrap();
        assert!(!writer.is_done() && !target.path().join("a/b").exists());
        drop(writer);
        // The whole partial file is there, but nobody has said its hash: it is not taken for granted.
        let error = write(target.path(), &manifest, b"hello", Some(b"other")).err().unwrap();
        assert!(matches!(error, StoreError::Hash(_)));
    }

    #[test]
    fn a_wrong_hash_leaves_nothing() {
        let target = tempfile::tempdir().unwrap();
        let manifest = Manifest { entries: vec![file("f", 5)] };
        let error = write(target.path(), &manifest, b"hello", Some(b"hullo")).err().unwrap();
        assert!(matches!(error, StoreError::Hash(name) if name == "f"));
        assert_eq!(std::fs::read_dir(target.path().join(HIDDEN)).unwrap().count(), 0);
    }

    #[test]
    fn what_was_written_is_gone_on_with() {
        let target = tempfile::tempdir().unwrap();
        let manifest = Manifest { entries: vec![file("f", 5)] };
        let store = Store::open(target.path()).unwrap();
        let layout = Layout::new(&manifest, &[]);
        Writer::new(store, manifest.clone(), layout).unwrap().write(b"hel").unwrap();
        let store = Store::open(target.path()).unwrap();
        assert_eq!(store.look(&manifest).unwrap(), [3]);
        let changed = Manifest { entries: vec![Entry { mtime: 1, ..file("f", 5) }] };
        assert_eq!(store.look(&changed).unwrap(), [0], "another file of this name");
        let writer = write(target.path(), &manifest, b"hello", Some(b"hello")).unwrap();
        assert!(writer.is_done());
        writer.finish().unwrap();
        assert_eq!(std::fs::read(target.path().join("f")).unwrap(), b"hello");
        let meta = std::fs::metadata(target.path().join("f")).unwrap();
        assert_eq!((meta.permissions().mode() & 0o777, meta.modified().unwrap()), (0o640, time(file("f", 5).mtime)));
        assert!(!target.path().join(HIDDEN).exists());
    }

    #[test]
    fn no_link_leads_out_of_the_target() {
        let (target, outside) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
        std::os::unix::fs::symlink(outside.path(), target.path().join("link")).unwrap();
        let below = Manifest { entries: vec![file("link/f", 1)] };
        assert!(write(target.path(), &below, b"x", Some(b"x")).is_err());
        // A link in place of the file is replaced, not followed.
        let victim = outside.path().join("victim");
        std::fs::write(&victim, "old").unwrap();
        std::os::unix::fs::symlink(&victim, target.path().join("f")).unwrap();
        write(target.path(), &Manifest { entries: vec![file("f", 1)] }, b"x", Some(b"x")).unwrap();
        assert_eq!(std::fs::read(target.path().join("f")).unwrap(), b"x");
        assert_eq!(std::fs::read(&victim).unwrap(), b"old");
        assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 1);
    }

    #[test]
    fn what_is_there_is_not_sent_and_a_directory_is_not_replaced() {
        let target = tempfile::tempdir().unwrap();
        let manifest = Manifest { entries: vec![file("f", 5)] };
        write(target.path(), &manifest, b"hello", Some(b"hello")).unwrap();
        assert_eq!(Store::open(target.path()).unwrap().look(&manifest).unwrap(), [5]);
        std::fs::create_dir(target.path().join("d")).unwrap();
        let error = Store::open(target.path()).unwrap().look(&Manifest { entries: vec![file("d", 1)] });
        assert!(matches!(error, Err(StoreError::Taken(..))));
    }
}
