//! Turns entries into the log's lines, captures, and each link's traffic.
//!
//! The log has a line per packet, in the order in which packets entered:
//!
//! ```text
//! packet,link,bytes,entered_ns,fate,due_ns,left_ns
//! 17,wifi.up,1500,20418233,delivered,30818233,30825101
//! ```
//!
//! `due_ns` is when the link said, `left_ns` when it was done. Both are empty for a packet that did not arrive.

use std::collections::VecDeque;
use std::fs::{self, File};
use std::io::{BufWriter, Write};
use std::path::Path;

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::EmuError;
use crate::entry::{Chunk, Entry, Fate, Record, Subject, Traffic};
use crate::pcap::Pcap;

/// A packet of which not everything is known yet.
struct Line {
    link: usize,
    bytes: u32,
    entered: Instant,
    fate: Option<(Fate, Instant, Instant)>,
}

/// What is kept of a link beside its traffic.
#[derive(Default)]
struct Account {
    traffic: Traffic,
    delays: Vec<Span>,
    last_due: Option<Instant>,
    /// Bytes of lost packets since the last one that arrived: they took capacity too.
    lost_bytes: u64,
    busy_bytes: u64,
    busy: Span,
}

pub struct Journal {
    subjects: Vec<Subject>,
    lines: VecDeque<Line>,
    first: u64,
    log: Option<BufWriter<File>>,
    pcaps: Option<[Pcap; 2]>,
    accounts: Vec<Account>,
}

/// Packets of which not all is known. One that so many others have entered after is gone: CoDel and failing links do
/// not tell what they drop.
const MOST_OPEN: usize = 1 << 18;

const WRITING: &str = "writing the record";

impl Journal {
    /// Makes the files.
    pub fn new(record: Record) -> Result<Self, EmuError> {
        let log = record.log.as_deref().map(|file| begin(file, &record.provenance)).transpose()?;
        let pcaps = record.pcap.as_deref().map(captures).transpose()?;
        let accounts = record.subjects.iter().map(Account::new).collect();
        Ok(Self { subjects: record.subjects, lines: VecDeque::new(), first: 0, log, pcaps, accounts })
    }

    /// Takes a chunk.
    pub fn read(&mut self, chunk: &Chunk) -> Result<(), EmuError> {
        for entry in &chunk.entries {
            self.take(entry, &chunk.snaps).map_err(EmuError::system(WRITING))?;
        }
        Ok(())
    }

    /// Writes what is left.
    pub fn finish(mut self) -> Result<Vec<Traffic>, EmuError> {
        for line in &mut self.lines {
            line.fate.get_or_insert((Fate::Vanished, Instant::NEVER, Instant::NEVER));
        }
        self.settle().map_err(EmuError::system(WRITING))?;
        if let Some(mut log) = self.log.take() {
            log.flush().map_err(EmuError::system(WRITING))?;
        }
        for pcap in self.pcaps.iter_mut().flatten() {
            pcap.flush().map_err(EmuError::system(WRITING))?;
        }
        Ok(self.accounts.into_iter().map(Account::close).collect())
    }

    fn take(&mut self, entry: &Entry, snaps: &[u8]) -> std::io::Result<()> {
        let bytes_at = |(from, length): (u32, u32)| &snaps[from as usize..(from + length) as usize];
        match *entry {
            Entry::Entered { link, at, bytes, snap, .. } => {
                let up = self.subjects[link].up;
                self.lines.push_back(Line { link, bytes, entered: at, fate: None });
                if self.lines.len() > MOST_OPEN {
                    self.lines[0].fate.get_or_insert((Fate::Vanished, Instant::NEVER, Instant::NEVER));
                    self.settle()?;
                }
                self.capture(up, at, bytes, bytes_at(snap))
            }
            Entry::Left { number, fate, due, at, snap } => {
                let place = number.checked_sub(self.first);
                let Some(line) = place.and_then(|place| self.lines.get_mut(place as usize)) else { return Ok(()) };
                line.fate = Some((fate, due, at));
                let (up, bytes) = (self.subjects[line.link].up, line.bytes);
                if fate == Fate::Delivered {
                    self.capture(!up, at, bytes, bytes_at(snap))?;
                }
                self.settle()
            }
        }
    }

    /// The client's end sees what enters an upward link and what leaves a downward one.
    fn capture(&mut self, at_client: bool, at: Instant, bytes: u32, snap: &[u8]) -> std::io::Result<()> {
        let Some([client, server]) = &mut self.pcaps else { return Ok(()) };
        let pcap = if at_client { client } else { server };
        pcap.packet(at, bytes, snap)
    }

    /// Writes the lines of which all is known, and that have none before them of which it is not.
    fn settle(&mut self) -> std::io::Result<()> {
        while let Some((fate, due, left)) = self.lines.front().and_then(|line| line.fate) {
            let Some(line) = self.lines.pop_front() else { break };
            self.accounts[line.link].add(&line, self.subjects[line.link].delay, fate, due);
            if let Some(log) = &mut self.log {
                let (name, entered) = (&self.subjects[line.link].name, line.entered.as_nanos());
                write!(log, "{},{name},{},{entered},{}", self.first, line.bytes, fate.name())?;
                match fate {
                    Fate::Delivered => writeln!(log, ",{},{}", due.as_nanos(), left.as_nanos())?,
                    _ => writeln!(log, ",,")?,
                }
            }
            self.first += 1;
        }
        Ok(())
    }
}

fn begin(file: &Path, provenance: &[String]) -> Result<BufWriter<File>, EmuError> {
    let step = || format!("writing {}", file.display());
    let mut log = BufWriter::new(File::create(file).map_err(EmuError::system(step()))?);
    let mut head = || {
        provenance.iter().try_for_each(|line| writeln!(log, "# {line}"))?;
        writeln!(log, "packet,link,bytes,entered_ns,fate,due_ns,left_ns")
    };
    head().map_err(EmuError::system(step()))?;
    Ok(log)
}

fn captures(folder: &Path) -> Result<[Pcap; 2], EmuError> {
    fs::create_dir_all(folder).map_err(EmuError::system(format!("making {}", folder.display())))?;
    Ok([Pcap::create(&folder.join("client.pcap"))?, Pcap::create(&folder.join("server.pcap"))?])
}

impl Account {
    fn new(subject: &Subject) -> Self {
        Self { traffic: Traffic { name: subject.name.clone(), ..Traffic::default() }, ..Self::default() }
    }

    fn add(&mut self, line: &Line, delay: Span, fate: Fate, due: Instant) {
        let bytes = Bytes::new(u64::from(line.bytes));
        self.traffic.packets += 1;
        self.traffic.bytes += bytes;
        match fate {
            Fate::Delivered => {
                self.traffic.delivered += 1;
                self.traffic.delivered_bytes += bytes;
                self.arrived(line, delay, due);
            }
            Fate::Lost => {
                self.traffic.lost += 1;
                self.lost_bytes += u64::from(line.bytes);
            }
            Fate::QueueFull | Fate::LinkDown | Fate::Vanished => self.traffic.dropped += 1,
        }
    }

    fn arrived(&mut self, line: &Line, delay: Span, due: Instant) {
        self.delays.push(due.since(line.entered));
        let carried = std::mem::take(&mut self.lost_bytes) + u64::from(line.bytes);
        // It was waiting if it entered before the one ahead of it had left.
        if let Some(last) = self.last_due.filter(|&last| line.entered + delay < last && last < due) {
            self.busy_bytes += carried;
            self.busy += due.since(last);
        }
        self.last_due = Some(due);
    }

    fn close(mut self) -> Traffic {
        self.delays.sort_unstable();
        self.traffic.median_delay = self.delays.get(self.delays.len() / 2).copied();
        self.traffic.least_delay = self.delays.first().copied();
        let bits = u128::from(self.busy_bytes) * 8 * 1_000_000_000;
        let rate = bits.checked_div(u128::from(self.busy.as_nanos()));
        self.traffic.busy_rate = rate.map(|rate| BitRate::from_bps(rate as u64));
        self.traffic
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn millis(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Four packets of 1250 B enter a link of 10 Mbit/s (1 ms each) and 10 ms at 0: the second is lost, the fourth
    /// finds the queue full.
    fn chunk() -> Chunk {
        let entered = Entry::Entered { link: 0, at: millis(0), bytes: 1250, snap: (0, 0) };
        let left = |number, fate, due| Entry::Left { number, fate, due: millis(due), at: millis(due), snap: (0, 0) };
        let entries = vec![
            entered,
            entered,
            left(1, Fate::Lost, 0),
            entered,
            entered,
            left(3, Fate::QueueFull, 0),
            left(0, Fate::Delivered, 11),
            left(2, Fate::Delivered, 13),
        ];
        Chunk { entries, snaps: Vec::new() }
    }

    fn subject() -> Subject {
        Subject { name: "wifi.up".to_owned(), up: true, delay: Span::from_millis(10) }
    }

    #[test]
    fn traffic_is_counted_and_its_rate_includes_what_was_lost() {
        let mut journal = Journal::new(Record { subjects: vec![subject()], ..Record::default() }).unwrap();
        journal.read(&chunk()).unwrap();
        let traffic = journal.finish().unwrap().remove(0);
        assert_eq!((traffic.packets, traffic.delivered, traffic.lost, traffic.dropped), (4, 2, 1, 1));
        // From 11 to 13 ms the lost packet and the third passed: 2500 B in 2 ms.
        assert_eq!(traffic.busy_rate, Some(BitRate::from_mbps(10)));
        assert_eq!(traffic.least_delay, Some(Span::from_millis(11)));
    }

    #[test]
    fn the_log_has_a_line_per_packet_in_the_order_of_entering() {
        let file = std::env::temp_dir().join(format!("weftway-journal-{}", std::process::id()));
        let provenance = vec!["seed 7".to_owned()];
        let record = Record { subjects: vec![subject()], log: Some(file.clone()), provenance, pcap: None };
        let mut journal = Journal::new(record).unwrap();
        journal.read(&chunk()).unwrap();
        journal.finish().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_file(&file).unwrap();
        assert_eq!(
            text,
            "# seed 7\n\
             packet,link,bytes,entered_ns,fate,due_ns,left_ns\n\
             0,wifi.up,1250,0,delivered,11000000,11000000\n\
             1,wifi.up,1250,0,lost,,\n\
             2,wifi.up,1250,0,delivered,13000000,13000000\n\
             3,wifi.up,1250,0,queue full,,\n"
        );
    }

    #[test]
    fn what_never_came_out_vanished() {
        let mut journal = Journal::new(Record { subjects: vec![subject()], ..Record::default() }).unwrap();
        let entered = Entry::Entered { link: 0, at: millis(0), bytes: 1250, snap: (0, 0) };
        journal.read(&Chunk { entries: vec![entered], snaps: Vec::new() }).unwrap();
        assert_eq!(journal.finish().unwrap()[0].dropped, 1);
    }
}
