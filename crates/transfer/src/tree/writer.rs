//! Writes the stream into the receiver's files, and hashes them.

use std::collections::{HashMap, HashSet};
use std::io;
use std::os::unix::fs::FileExt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use crate::tree::manifest::{Entry, Layout, Manifest, Piece};
use crate::tree::store::{FileIdentity, Store, StoreError, disk, read_into};

/// In a file with holes, a block of this size that is all zeros becomes one: the least that file systems leave out.
const HOLE: u64 = 4096;

/// Writes the stream into files.
pub struct Writer {
    store: Arc<Store>,
    manifest: Arc<Manifest>,
    layout: Arc<Layout>,
    /// It is to read nothing more.
    stop: Arc<AtomicBool>,
    /// The number of the piece that is written.
    at: usize,
    open: Option<Open>,
    /// Files that are complete, where the sender's hash is still to come.
    waiting: HashMap<u32, Hashed>,
    /// Hashes that came before their file was complete.
    expected: HashMap<u32, blake3::Hash>,
    /// Entries that do not arrive.
    given_up: HashSet<u32>,
    failures: Vec<(u32, StoreError)>,
    /// Files whose partial file had other bytes than the sender's: it is removed, and they are to be fetched again.
    again: u64,
    files: u64,
}

/// The piece that is written.
struct Open {
    /// None: this file is left out, and its bytes with it.
    part: Option<Part>,
    /// Bytes of the piece that have come.
    written: u64,
}

/// A complete partial file.
#[derive(Clone, Copy)]
struct Hashed {
    hash: blake3::Hash,
    file: FileIdentity,
}

impl Writer {
    /// Writes the files of `layout`. Nothing is made of the entries `left_out`. When `stop` is set, no file is read any
    /// more.
    pub fn new(
        store: Arc<Store>,
        manifest: Arc<Manifest>,
        layout: Arc<Layout>,
        left_out: HashSet<u32>,
        stop: Arc<AtomicBool>,
    ) -> Self {
        Self {
            store,
            manifest,
            layout,
            stop,
            at: 0,
            open: None,
            waiting: HashMap::new(),
            expected: HashMap::new(),
            given_up: left_out,
            failures: Vec::new(),
            again: 0,
            files: 0,
        }
    }

    /// Makes empty files, and counts those that are there: nothing is sent of either.
    pub fn settle_whole(&mut self) -> Result<(), StoreError> {
        let sent: HashSet<u32> = self.layout.pieces.iter().map(|piece| piece.entry).collect();
        for at in (0..self.manifest.entries.len() as u32).filter(|at| !sent.contains(at)) {
            if self.stop.load(Ordering::Relaxed) {
                break;
            }
            let entry = &self.manifest.entries[at as usize];
            if entry.dir || self.given_up.contains(&at) {
                continue;
            }
            let settled = if self.store.is_there(entry) {
                Ok(())
            } else if entry.size > 0 {
                Err(StoreError::Taken(entry.path.clone(), "it changed meanwhile"))
            } else {
                Part::open(&self.store, entry, 0, &self.stop)
                    .and_then(|part| part.finish(entry))
                    .and_then(|hashed| self.store.publish(entry, hashed.file))
            };
            match settled {
                Ok(()) => self.files += 1,
                Err(error) => self.fail(at, error)?,
            }
        }
        Ok(())
    }

    /// Leaves out a file that cannot be written. What ends the whole transfer is returned.
    fn fail(&mut self, at: u32, error: StoreError) -> Result<(), StoreError> {
        if error.ends_transfer() {
            return Err(error);
        }
        if self.given_up.insert(at) {
            self.failures.push((at, error));
        }
        Ok(())
    }

    /// The files that could not be written since the last call.
    pub fn take_failures(&mut self) -> Vec<(u32, StoreError)> {
        std::mem::take(&mut self.failures)
    }

    /// The next bytes of the stream.
    pub fn write(&mut self, mut bytes: &[u8]) -> Result<(), StoreError> {
        while let Some(&piece) = self.layout.pieces.get(self.at).filter(|_| !bytes.is_empty()) {
            let mut open = match self.open.take() {
                Some(open) => open,
                None => Open { part: self.resume(piece)?, written: 0 },
            };
            let left = usize::try_from(piece.length - open.written).unwrap_or(usize::MAX);
            let (now, rest) = bytes.split_at(left.min(bytes.len()));
            let written = open.part.as_mut().map_or(Ok(()), |part| part.write(now));
            if let Err(error) = written {
                open.part = None;
                let path = &self.manifest.entries[piece.entry as usize].path;
                self.fail(piece.entry, disk(path)(error))?;
            }
            open.written += now.len() as u64;
            bytes = rest;
            if open.written < piece.length {
                self.open = Some(open);
            } else {
                self.at += 1;
                self.complete(piece.entry, open.part)?;
            }
        }
        Ok(())
    }

    /// Opens a partial file; `None` if it is left out.
    fn resume(&mut self, piece: Piece) -> Result<Option<Part>, StoreError> {
        if self.given_up.contains(&piece.entry) {
            return Ok(None);
        }
        match Part::open(&self.store, &self.manifest.entries[piece.entry as usize], piece.from, &self.stop) {
            Ok(part) => Ok(Some(part)),
            Err(error) => self.fail(piece.entry, error).map(|()| None),
        }
    }

    fn complete(&mut self, at: u32, part: Option<Part>) -> Result<(), StoreError> {
        let Some(part) = part.filter(|_| !self.given_up.contains(&at)) else { return Ok(()) };
        match part.finish(&self.manifest.entries[at as usize]) {
            Ok(hashed) => match self.expected.remove(&at) {
                Some(expected) => self.verify(at, hashed, expected),
                None => {
                    self.waiting.insert(at, hashed);
                    Ok(())
                }
            },
            Err(error) => self.fail(at, error),
        }
    }

    /// The sender's hash of a file.
    pub fn expect(&mut self, at: u32, expected: blake3::Hash) -> Result<(), StoreError> {
        if self.given_up.contains(&at) {
            return Ok(());
        }
        match self.waiting.remove(&at) {
            Some(hashed) => self.verify(at, hashed, expected),
            None => {
                self.expected.insert(at, expected);
                Ok(())
            }
        }
    }

    /// The sender has no hash of a file: it could not read it.
    pub fn give_up(&mut self, at: u32) -> Result<(), StoreError> {
        let is_written = self.layout.pieces.get(self.at).is_none_or(|piece| piece.entry > at);
        let is_settled = self.expected.contains_key(&at) || is_written && !self.waiting.contains_key(&at);
        if is_settled || !self.given_up.insert(at) {
            return Ok(());
        }
        self.waiting.remove(&at);
        if self.layout.pieces.get(self.at).is_some_and(|piece| piece.entry == at)
            && let Some(open) = &mut self.open
        {
            open.part = None;
        }
        self.store.remove_part(&self.manifest.entries[at as usize])
    }

    fn verify(&mut self, at: u32, hashed: Hashed, expected: blake3::Hash) -> Result<(), StoreError> {
        let entry = &self.manifest.entries[at as usize];
        let settled = if hashed.hash == expected {
            self.store.publish(entry, hashed.file)
        } else if self.is_resumed(at) {
            let removed = self.store.remove_part(entry);
            self.again += u64::from(removed.is_ok());
            return removed.or_else(|error| self.fail(at, error));
        } else {
            self.store.remove_part(entry).and_then(|()| Err(StoreError::Hash(entry.path.clone())))
        };
        match settled {
            Ok(()) => self.files += 1,
            Err(error) => self.fail(at, error)?,
        }
        Ok(())
    }

    /// Returns true if a part of the file was there before this transfer.
    fn is_resumed(&self, at: u32) -> bool {
        let piece = self.layout.pieces.binary_search_by_key(&at, |piece| piece.entry);
        piece.is_ok_and(|piece| self.layout.pieces[piece].from > 0)
    }

    /// Number of files that are to be fetched again: what was kept of them was not the sender's.
    pub fn again(&self) -> u64 {
        self.again
    }

    /// Number of files that are there, each with its hash.
    pub fn files(&self) -> u64 {
        self.files
    }

    /// Returns true if all has come.
    pub fn is_done(&self) -> bool {
        self.at == self.layout.pieces.len() && self.waiting.is_empty()
    }

    /// All has come: everything is written to the disk itself, and folders get their permissions, those below others
    /// first.
    pub fn finish(&mut self) -> Result<(), StoreError> {
        self.store.sync(&self.manifest)?;
        for at in (0..self.manifest.entries.len()).rev() {
            let entry = &self.manifest.entries[at];
            if entry.dir
                && !self.given_up.contains(&(at as u32))
                && let Err(error) = self.store.finish_dir(entry)
            {
                self.fail(at as u32, error)?;
            }
        }
        Ok(())
    }
}

/// A partial file that is written.
struct Part {
    file: std::fs::File,
    hasher: blake3::Hasher,
    /// Bytes of it that are there.
    at: u64,
    /// True if it has holes at the sender.
    sparse: bool,
}

impl Part {
    /// Opens the partial file of `entry`; its first `from` bytes are hashed, what is behind them is dropped.
    fn open(store: &Store, entry: &Entry, from: u64, stop: &AtomicBool) -> Result<Self, StoreError> {
        let mut file = store.open_part(entry)?;
        file.set_len(from).map_err(disk(&entry.path))?;
        let mut hasher = blake3::Hasher::new();
        read_into(&mut hasher, &mut file, from, stop).map_err(disk(&entry.path))?;
        Ok(Self { file, hasher, at: from, sparse: entry.stored() < entry.size })
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        if self.sparse {
            self.write_around_holes(bytes)?;
        } else {
            self.file.write_all_at(bytes, self.at)?;
        }
        self.hasher.update(bytes);
        self.at += bytes.len() as u64;
        Ok(())
    }

    /// Leaves out whole blocks of zeros.
    fn write_around_holes(&self, bytes: &[u8]) -> io::Result<()> {
        // What is before `begin` is done; from there to `end` it is to be written.
        let (mut begin, mut end) = (0, 0);
        while end < bytes.len() {
            let block = ((HOLE - (self.at + end as u64) % HOLE) as usize).min(bytes.len() - end);
            if bytes[end..end + block].iter().all(|&byte| byte == 0) {
                self.file.write_all_at(&bytes[begin..end], self.at + begin as u64)?;
                begin = end + block;
            }
            end += block;
        }
        self.file.write_all_at(&bytes[begin..], self.at + begin as u64)
    }

    fn finish(self, entry: &Entry) -> Result<Hashed, StoreError> {
        // A hole at its end was not written.
        self.file.set_len(self.at).map_err(disk(&entry.path))?;
        let file = FileIdentity::of(&self.file).map_err(disk(&entry.path))?;
        Ok(Hashed { hash: self.hasher.finalize(), file })
    }
}
