//! The sender's files: their bytes for the stream, and their hashes.

use std::cell::RefCell;
use std::collections::{HashMap, VecDeque};
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant as Clock};

use bytes::BytesMut;
use portable_atomic::AtomicU64;
use weftway_host::sending::Data;
use weftway_path::{Instant, Message, Offset, Span};
use weftway_quic::driver::Source;

use crate::failure::Failure;
use crate::progress::{Progress, State, Watch};
use crate::tree::found::{self, FailedFile, FoundFiles, Root};
use crate::tree::manifest::{Layout, Manifest};

/// Bytes of a block that is read to be sent, and blocks that are kept: enough for data that are sent out of order, and
/// little enough for a processor's cache. What is lost and older is read again from the kernel's memory.
const BLOCK: u64 = 64 << 10;
const KEPT: usize = 16;
/// Bytes of a block that is read to be hashed.
const HASHED_AT_ONCE: u64 = 256 << 10;
/// Why a file is left out that has not its bytes any more.
const SHORTER: &str = "it became shorter while it was sent";

/// The stream of bytes of a transfer.
pub struct FileSource {
    manifest: Arc<Manifest>,
    layout: Layout,
    root: Root,
    cache: RefCell<Cache>,
}

#[derive(Default)]
struct Cache {
    /// File, number of the block, bytes; the one that was read last is the last.
    blocks: VecDeque<(u32, u64, Vec<u8>)>,
    /// The file that was read last.
    file: Option<(u32, File)>,
    /// Files that could not be read as they were when the manifest was made. Zeros are sent for them: where each byte
    /// of the stream belongs is agreed.
    failed: HashMap<u32, String>,
    /// Failures of which nobody has been told.
    untold: Vec<u32>,
}

impl FileSource {
    /// The files of `manifest`, at `root`. Nothing is sent before [`FileSource::begin`].
    pub fn new(manifest: Arc<Manifest>, root: Root) -> Self {
        Self { manifest, layout: Layout::default(), root, cache: RefCell::default() }
    }

    /// The receiver has said what it lacks.
    pub fn begin(&mut self, layout: Layout) {
        self.layout = layout;
    }

    /// The files that could not be read since the last call, and why.
    pub fn take_failures(&self) -> Vec<(u32, String)> {
        let mut cache = self.cache.borrow_mut();
        let untold = std::mem::take(&mut cache.untold);
        untold.into_iter().map(|entry| (entry, cache.failed[&entry].clone())).collect()
    }

    /// Appends bytes of one file.
    fn append_file(&self, entry: u32, mut from: u64, mut bytes: usize, to: &mut BytesMut) {
        let mut cache = self.cache.borrow_mut();
        while bytes > 0 && !cache.failed.contains_key(&entry) {
            let (number, at) = (from / BLOCK, (from % BLOCK) as usize);
            let block = cache.block(entry, number, || self.root.file(&self.manifest.entries[entry as usize].path));
            let part = block.get(at..block.len().min(at + bytes)).unwrap_or(&[]);
            to.extend_from_slice(part);
            (from, bytes) = (from + part.len() as u64, bytes - part.len());
            if part.is_empty() {
                cache.fail(entry, SHORTER.to_owned());
            }
        }
        to.resize(to.len() + bytes, 0);
    }
}

impl Cache {
    fn block(&mut self, entry: u32, number: u64, path: impl Fn() -> PathBuf) -> &[u8] {
        let known = self.blocks.iter().rposition(|(file, block, _)| (*file, *block) == (entry, number));
        let at = known.unwrap_or_else(|| {
            let mut bytes = if self.blocks.len() >= KEPT { self.blocks.pop_front() } else { None }
                .map_or_else(Vec::new, |(.., bytes)| bytes);
            if let Err(error) = self.read(entry, number, &path, &mut bytes) {
                self.fail(entry, error.to_string());
                bytes.clear();
            }
            self.blocks.push_back((entry, number, bytes));
            self.blocks.len() - 1
        });
        &self.blocks[at].2
    }

    fn read(&mut self, entry: u32, number: u64, path: impl Fn() -> PathBuf, into: &mut Vec<u8>) -> std::io::Result<()> {
        if self.file.as_ref().is_none_or(|(open, _)| *open != entry) {
            self.file = Some((entry, found::open(&path())?));
        }
        let Some((_, file)) = &self.file else { return Ok(()) };
        into.resize(BLOCK as usize, 0);
        let mut filled = 0;
        while filled < into.len() {
            match file.read_at(&mut into[filled..], number * BLOCK + filled as u64)? {
                0 => break,
                count => filled += count,
            }
        }
        into.truncate(filled);
        Ok(())
    }

    fn fail(&mut self, entry: u32, why: String) {
        self.failed.entry(entry).or_insert_with(|| {
            self.untold.push(entry);
            why
        });
    }
}

impl Data for FileSource {
    fn written(&mut self) -> u64 {
        self.layout.bytes()
    }

    /// The stream is one message.
    fn message_at(&mut self, _: u64) -> Option<Message> {
        Some(Message { start: 0, end: self.layout.bytes(), written: Instant::ZERO, deadline: None, class: 0 })
    }
}

impl Source for FileSource {
    type Data = Self;

    fn data(&mut self) -> &mut Self {
        self
    }

    fn append(&self, offset: Offset, bytes: usize, to: &mut BytesMut) {
        let (mut at, mut left) = (offset.get(), bytes);
        while left > 0
            && let Some(number) = self.layout.at(at)
        {
            let piece = self.layout.pieces[number];
            let part = left.min(usize::try_from(piece.end() - at).unwrap_or(usize::MAX));
            self.append_file(piece.entry, piece.from + (at - piece.start), part, to);
            (at, left) = (at + part as u64, left - part);
        }
    }
}

/// The hashes of the files, computed on a thread of its own, ahead of what is sent. That also brings the files into
/// memory before they are needed.
pub struct Hasher {
    results: Receiver<(u32, Result<Hashed, String>)>,
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// Bytes by which it may be ahead: more would push out of memory what is to be sent.
const AHEAD: u64 = 256 << 20;

impl Hasher {
    /// Hashes the files of which something is sent.
    pub fn start(manifest: Arc<Manifest>, root: Root, layout: &Layout) -> Self {
        let (sender, results) = channel();
        let (sent, stop) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (pieces, until, halt) = (layout.pieces.clone(), sent.clone(), stop.clone());
        let thread = std::thread::spawn(move || {
            for piece in pieces {
                let entry = &manifest.entries[piece.entry as usize];
                let mut pace = |done: u64| {
                    let at = piece.start + done.saturating_sub(piece.from);
                    while at > until.load(Ordering::Relaxed) + AHEAD && !halt.load(Ordering::Relaxed) {
                        std::thread::sleep(Duration::from_millis(5));
                    }
                    !halt.load(Ordering::Relaxed)
                };
                let hash = hash_file(&root.file(&entry.path), entry.size, &mut pace);
                let Some(hash) = hash.transpose() else { return };
                if sender.send((piece.entry, hash.map_err(|error| error.to_string()))).is_err() {
                    return;
                }
            }
        });
        Self { results, sent, stop, thread: Some(thread) }
    }

    /// Notes that so many bytes of the stream were sent.
    pub fn sent(&self, offset: u64) {
        self.sent.store(offset, Ordering::Relaxed);
    }

    /// Returns true if more hashes may come than there are by now.
    pub fn is_at_work(&self) -> bool {
        self.thread.as_ref().is_some_and(|thread| !thread.is_finished())
    }

    /// The next hash.
    pub fn next(&self) -> Option<(u32, Result<Hashed, String>)> {
        self.results.try_recv().ok()
    }
}

impl Drop for Hasher {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            // A hash that panicked is one that never came: the other end gives up waiting for it.
            let _ = thread.join();
        }
    }
}

/// A file of the sender's, read to its end.
pub struct Hashed {
    /// Hash of the bytes that the manifest has.
    pub hash: blake3::Hash,
    /// True if there are more by now.
    pub grew: bool,
}

/// Hashes all files before anything is sent, so that the receiver compares contents. One that cannot be read is left
/// out.
pub fn read_all(found: &mut FoundFiles, tell_every: Span, watch: Watch<'_>) -> Result<(), Failure> {
    let FoundFiles { manifest, root, failed, .. } = found;
    let (bytes, files) = (manifest.bytes(), manifest.files());
    let mut progress = Progress { state: State::Comparing, bytes, files, ..Progress::default() };
    let (every, mut told) = (Duration::from_nanos(tell_every.as_nanos()), None::<Clock>);
    let mut goes_on = |done| {
        if told.is_some_and(|told| told.elapsed() < every) {
            return true;
        }
        (told, progress.done) = (Some(Clock::now()), done);
        watch(&progress)
    };
    let (mut before, mut stopped) = (0, false);
    manifest.entries.retain_mut(|entry| {
        if stopped || entry.dir {
            return true;
        }
        match hash_file(&root.file(&entry.path), entry.size, &mut |done| goes_on(before + done)) {
            Ok(Some(hashed)) => {
                entry.hash = Some(hashed.hash.to_hex().to_string());
                before += entry.size;
            }
            Ok(None) => stopped = true,
            Err(error) => {
                failed.push(FailedFile { path: entry.path.clone(), reason: error.to_string() });
                return false;
            }
        }
        true
    });
    if stopped { Err(Failure::Interrupted) } else { Ok(()) }
}

/// Hashes the first `size` bytes; `None` if `pace` says to stop.
fn hash_file(path: &Path, size: u64, pace: &mut dyn FnMut(u64) -> bool) -> std::io::Result<Option<Hashed>> {
    let mut hasher = blake3::Hasher::new();
    let mut file = found::open(path)?;
    let (mut buffer, mut done) = (vec![0; HASHED_AT_ONCE as usize], 0);
    while done < size {
        if !pace(done) {
            return Ok(None);
        }
        let most = HASHED_AT_ONCE.min(size - done) as usize;
        match file.read(&mut buffer[..most])? {
            0 => return Err(std::io::Error::other(SHORTER)),
            count => {
                hasher.update(&buffer[..count]);
                done += count as u64;
            }
        }
    }
    Ok(Some(Hashed { hash: hasher.finalize(), grew: file.metadata()?.len() > size }))
}
