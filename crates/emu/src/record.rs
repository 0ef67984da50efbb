//! The packet log: what became of each packet, a line each.
//!
//! The thread that drives the links only appends to a chunk in memory. Another one turns chunks into lines, captures
//! and a summary.

use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::{self, JoinHandle};

use weftway_path::{Instant, Span};

use crate::EmuError;
use crate::entry::{Chunk, Entry, Fate, Record, Traffic};
use crate::journal::Journal;

/// Entries per chunk.
const CHUNK: usize = 4096;

/// Bytes of each packet that go into a capture: the headers.
const SNAP: usize = 128;

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
    /// A packet entered a link, in whose queue it will be for so long; the next in number.
    pub fn entered(&mut self, link: usize, at: Instant, waits: Span, packet: &[u8]) {
        let (bytes, snap) = (packet.len() as u32, self.snap(packet));
        self.note(Entry::Entered { link, at, waits, bytes, snap });
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
