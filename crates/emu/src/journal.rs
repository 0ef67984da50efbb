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

/// Account of a link beside its traffic.
#[derive(Default)]
struct Account {
    traffic: Traffic,
    delays: Vec<Span>,
    /// Time at which the last transmission begins that waits for others, and the bytes that are sent from then on.
    newest: Option<(Instant, u64)>,
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
            Entry::Entered { link, at, waits, bytes, snap } => {
                let up = self.subjects[link].up;
                self.accounts[link].entered(at, waits, bytes.into());
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
                if fate == Fate::UnderWay && line.fate.is_some() {
                    return Ok(()); // it is lost, which was known when it entered
                }
                if matches!(fate, Fate::QueueFull | Fate::LinkDown) && due == line.entered {
                    self.accounts[line.link].turned_away(line.bytes.into());
                }
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
            self.accounts[line.link].add(&line, fate, due);
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
    let folder = file.parent().map_or(Ok(()), fs::create_dir_all);
    let mut log = BufWriter::new(folder.and_then(|()| File::create(file)).map_err(EmuError::system(step()))?);
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

    /// A packet comes whose transmission begins when it has waited: then that of the one before it ends. With a trace
    /// several leave together, and one that waits for nobody has to wait for the trace: it is left out.
    fn entered(&mut self, at: Instant, waits: Span, bytes: u64) {
        let begins = (waits > Span::ZERO && waits < Span::MAX).then(|| at + waits);
        self.newest = match (begins, self.newest) {
            (Some(begins), Some((begun, carried))) if begins > begun => {
                self.busy_bytes += carried;
                self.busy += begins.since(begun);
                Some((begins, bytes))
            }
            (Some(_), Some((begun, carried))) => Some((begun, carried + bytes)),
            (begins, _) => begins.map(|begins| (begins, bytes)),
        };
    }

    /// The newest packet found no room.
    fn turned_away(&mut self, bytes: u64) {
        if let Some((_, carried)) = &mut self.newest {
            *carried = carried.saturating_sub(bytes);
        }
    }

    fn add(&mut self, line: &Line, fate: Fate, due: Instant) {
        let bytes = Bytes::new(u64::from(line.bytes));
        self.traffic.packets += 1;
        self.traffic.bytes += bytes;
        match fate {
            Fate::Delivered => {
                self.traffic.delivered += 1;
                self.traffic.delivered_bytes += bytes;
                self.delays.push(due.since(line.entered));
            }
            Fate::Lost => self.traffic.lost += 1,
            Fate::QueueFull | Fate::LinkDown | Fate::Vanished => self.traffic.dropped += 1,
            Fate::UnderWay => {}
        }
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
        let entered = |waits| Entry::Entered { link: 0, at: millis(0), waits, bytes: 1250, snap: (0, 0) };
        let left = |number, fate, due| Entry::Left { number, fate, due: millis(due), at: millis(due), snap: (0, 0) };
        let entries = vec![
            entered(Span::ZERO),
            entered(Span::from_millis(1)),
            left(1, Fate::Lost, 0),
            entered(Span::from_millis(2)),
            entered(Span::from_millis(3)),
            left(3, Fate::QueueFull, 0),
            left(0, Fate::Delivered, 11),
            left(2, Fate::Delivered, 13),
        ];
        Chunk { entries, snaps: Vec::new() }
    }

    fn subject() -> Subject {
        Subject { name: "wifi.up".to_owned(), up: true }
    }

    #[test]
    fn traffic_is_counted_and_its_rate_includes_what_was_lost() {
        let mut journal = Journal::new(Record { subjects: vec![subject()], ..Record::default() }).unwrap();
        journal.read(&chunk()).unwrap();
        let traffic = journal.finish().unwrap().remove(0);
        assert_eq!((traffic.packets, traffic.delivered, traffic.lost, traffic.dropped), (4, 2, 1, 1));
        // From 1 to 3 ms the lost packet and the third were sent: 2500 B in 2 ms.
        assert_eq!(traffic.busy_rate, Some(BitRate::from_mbps(10)));
        assert_eq!(traffic.least_delay, Some(Span::from_millis(11)));
    }

    #[test]
    fn the_log_has_a_line_per_packet_in_the_order_of_entering() {
        let folder = std::env::temp_dir().join(format!("weftway-journal-{}", std::process::id()));
        let file = folder.join("made/log");
        let provenance = vec!["seed 7".to_owned()];
        let record = Record { subjects: vec![subject()], log: Some(file.clone()), provenance, pcap: None };
        let mut journal = Journal::new(record).unwrap();
        journal.read(&chunk()).unwrap();
        journal.finish().unwrap();
        let text = fs::read_to_string(&file).unwrap();
        fs::remove_dir_all(&folder).unwrap();
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

    /// At 10 Mbit/s 1250 B take 1 ms. Packets enter at 0, 0 and 0, one that finds the queue full at 1, and one more at
    /// 1 when two are ahead of it; at 10 the next finds nobody. Jitter of 8 ms mixes up when they arrive.
    #[test]
    fn neither_jitter_nor_full_queues_nor_pauses_change_the_rate_when_busy() {
        let mut journal = Journal::new(Record { subjects: vec![subject()], ..Record::default() }).unwrap();
        let entered = |at, waits| Entry::Entered {
            link: 0,
            at: millis(at),
            waits: Span::from_millis(waits),
            bytes: 1250,
            snap: (0, 0),
        };
        let left = |number, fate, due| Entry::Left { number, fate, due: millis(due), at: millis(due), snap: (0, 0) };
        let mut entries = vec![entered(0, 0), entered(0, 1), entered(0, 2), entered(1, 2), left(3, Fate::QueueFull, 1)];
        entries.extend([entered(1, 2), entered(10, 0), entered(10, 1)]);
        entries.extend(
            [(1, 13), (0, 19), (4, 17), (2, 18), (5, 22), (6, 29)].map(|(n, due)| left(n, Fate::Delivered, due)),
        );
        journal.read(&Chunk { entries, snaps: Vec::new() }).unwrap();
        let traffic = journal.finish().unwrap().remove(0);
        assert_eq!((traffic.packets, traffic.delivered, traffic.dropped), (7, 6, 1));
        assert_eq!(traffic.busy_rate, Some(BitRate::from_mbps(10)));
    }

    /// A trace lets two packets of 600 B leave each 4 ms: 2.4 Mbit/s. Six come at once, of which the first two wait for
    /// the trace alone.
    #[test]
    fn packets_that_leave_together_count_over_the_time_to_the_next_ones() {
        let mut journal = Journal::new(Record { subjects: vec![subject()], ..Record::default() }).unwrap();
        let entered = |waits| Entry::Entered {
            link: 0,
            at: millis(0),
            waits: Span::from_millis(waits),
            bytes: 600,
            snap: (0, 0),
        };
        let entries = [0, 4, 4, 8, 8, 12].map(entered).to_vec();
        journal.read(&Chunk { entries, snaps: Vec::new() }).unwrap();
        assert_eq!(journal.finish().unwrap().remove(0).busy_rate, Some(BitRate::from_bps(2_400_000)));
    }

    #[test]
    fn what_never_came_out_vanished_and_what_is_inside_at_the_end_is_not_dropped() {
        let mut journal = Journal::new(Record { subjects: vec![subject()], ..Record::default() }).unwrap();
        let entered = Entry::Entered { link: 0, at: millis(0), waits: Span::ZERO, bytes: 1250, snap: (0, 0) };
        let never = Instant::NEVER;
        let inside = |number| Entry::Left { number, fate: Fate::UnderWay, due: never, at: never, snap: (0, 0) };
        let lost = Entry::Left { number: 2, fate: Fate::Lost, due: millis(0), at: millis(0), snap: (0, 0) };
        let entries = vec![entered, entered, entered, lost, inside(1), inside(2)];
        journal.read(&Chunk { entries, snaps: Vec::new() }).unwrap();
        let traffic = journal.finish().unwrap().remove(0);
        assert_eq!((traffic.packets, traffic.delivered, traffic.lost, traffic.dropped), (3, 0, 1, 1));
    }
}
