//! The packet log: what became of each packet, a line each.
//!
//! The thread that drives the links only appends to a chunk in memory. Another one turns chunks into lines, captures
//! and a summary.

use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::EmuError;
use crate::journal::Journal;

/// Entries per chunk.
const CHUNK: usize = 4096;

/// Of each packet, so much goes into a capture: the headers.
const SNAP: usize = 128;

/// What became of a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fate {
    /// It was handed over.
    Delivered,
    /// It was lost on the wire, after it had used capacity.
    Lost,
    /// The queue was full.
    QueueFull,
    /// The link was down.
    LinkDown,
    /// It was taken in and never came out: dropped by CoDel, or with a link that failed, or under way at the end.
    Vanished,
}

impl Fate {
    /// As the log has it.
    pub fn name(self) -> &'static str {
        match self {
            Self::Delivered => "delivered",
            Self::Lost => "lost",
            Self::QueueFull => "queue full",
            Self::LinkDown => "link down",
            Self::Vanished => "vanished",
        }
    }
}

/// A link as the log knows it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `wifi.up`.
    pub name: String,
    /// Whether it leads from the client to the server.
    pub up: bool,
    /// Its delay: the least time between entering and arriving.
    pub delay: Span,
}

/// What to write, and where.
#[derive(Clone, Debug, Default)]
pub struct Record {
    /// The links that devices lead into, by number.
    pub subjects: Vec<Subject>,
    /// The packet log.
    pub log: Option<PathBuf>,
    /// Lines at its head, without the `#`: what it is of, and how it came about.
    pub provenance: Vec<String>,
    /// A folder for `client.pcap` and `server.pcap`.
    pub pcap: Option<PathBuf>,
}

/// What went over one link.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Its name.
    pub name: String,
    /// Packets that entered.
    pub packets: u64,
    /// IP bytes that entered.
    pub bytes: Bytes,
    /// Packets that were handed over.
    pub delivered: u64,
    /// Their IP bytes.
    pub delivered_bytes: Bytes,
    /// Packets lost on the wire.
    pub lost: u64,
    /// Packets that found the queue full, or the link down, or never came out.
    pub dropped: u64,
    /// IP bytes over the time in which a packet was waiting behind another; `None` if none ever was.
    pub busy_rate: Option<BitRate>,
    /// Half of the packets handed over took no longer, queueing included.
    pub median_delay: Option<Span>,
    /// The shortest that a packet took.
    pub least_delay: Option<Span>,
}

/// One entry of a chunk. `snap` is where its bytes begin, and how many they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Entered { link: usize, at: Instant, bytes: u32, snap: (u32, u32) },
    Left { number: u64, fate: Fate, due: Instant, at: Instant, snap: (u32, u32) },
}

/// Some entries, and the first bytes of their packets.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub entries: Vec<Entry>,
    pub snaps: Vec<u8>,
}

/// Takes notes for the thread that drives the links.
#[derive(Debug)]
pub struct Recorder {
    chunk: Chunk,
    sender: Sender<Chunk>,
    snaps: bool,
}

/// A record being written.
#[derive(Debug)]
pub struct Recording {
    writer: JoinHandle<Result<Vec<Traffic>, EmuError>>,
}

/// Begins a record. The files are made at once: what cannot be written shows before anything runs.
pub fn record(record: Record) -> Result<(Recorder, Recording), EmuError> {
    let snaps = record.pcap.is_some();
    let journal = Journal::new(record)?;
    let (sender, receiver) = channel();
    let writer = thread::Builder::new().name("weftway-record".to_owned()).spawn(move || write(journal, &receiver));
    let writer = writer.map_err(EmuError::system("starting the recorder's thread"))?;
    Ok((Recorder { chunk: Chunk::default(), sender, snaps }, Recording { writer }))
}

fn write(mut journal: Journal, chunks: &Receiver<Chunk>) -> Result<Vec<Traffic>, EmuError> {
    for chunk in chunks {
        journal.read(&chunk)?;
    }
    journal.finish()
}

impl Recording {
    /// Waits until all is written; the recorder must be gone. What went over each link.
    pub fn finish(self) -> Result<Vec<Traffic>, EmuError> {
        self.writer.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))
    }
}

impl Recorder {
    /// A packet entered a link; the next in number.
    pub fn entered(&mut self, link: usize, at: Instant, packet: &[u8]) {
        let (bytes, snap) = (packet.len() as u32, self.snap(packet));
        self.note(Entry::Entered { link, at, bytes, snap });
    }

    /// Packet `number`, from 0, left it in one way or another.
    pub fn left(&mut self, number: u64, fate: Fate, due: Instant, at: Instant, packet: &[u8]) {
        let snap = self.snap(packet);
        self.note(Entry::Left { number, fate, due, at, snap });
    }

    fn snap(&mut self, packet: &[u8]) -> (u32, u32) {
        let length = if self.snaps { packet.len().min(SNAP) } else { 0 };
        let from = self.chunk.snaps.len() as u32;
        self.chunk.snaps.extend_from_slice(&packet[..length]);
        (from, length as u32)
    }

    fn note(&mut self, entry: Entry) {
        self.chunk.entries.push(entry);
        if self.chunk.entries.len() == CHUNK {
            self.hand_on();
        }
    }

    fn hand_on(&mut self) {
        let fresh = Chunk { entries: Vec::with_capacity(CHUNK), snaps: Vec::new() };
        // A writer that gave up says so at its end.
        let _ = self.sender.send(std::mem::replace(&mut self.chunk, fresh));
    }
}

impl Drop for Recorder {
    fn drop(&mut self) {
        self.hand_on();
    }
}
