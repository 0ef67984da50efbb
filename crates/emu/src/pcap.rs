//! A capture that Wireshark and tcpdump read: pcap with nanoseconds, raw IP packets.

use std::fs::File;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use std::time::{SystemTime, UNIX_EPOCH};

use weftway_path::Instant;

use crate::EmuError;

/// Times in nanoseconds, numbers in the order of this machine's bytes.
const MAGIC: u32 = 0xa1b2_3c4d;
/// LINKTYPE_RAW: a packet begins with its IP header.
const RAW_IP: u32 = 101;
const LONGEST: u32 = 65_535;

/// A capture being written. Its times count from when it was made.
#[derive(Debug)]
pub struct Pcap {
    file: BufWriter<File>,
    zero_ns: u64,
}

impl Pcap {
    /// Makes the file.
    pub fn create(path: &Path) -> Result<Self, EmuError> {
        let step = || format!("writing {}", path.display());
        let mut file = BufWriter::new(File::create(path).map_err(EmuError::system(step()))?);
        file.write_all(&header()).map_err(EmuError::system(step()))?;
        let zero = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        Ok(Self { file, zero_ns: zero.as_nanos() as u64 })
    }

    /// A packet of `bytes`, of which `snap` is the beginning.
    pub fn packet(&mut self, at: Instant, bytes: u32, snap: &[u8]) -> io::Result<()> {
        let ns = self.zero_ns + at.as_nanos();
        let words = [(ns / 1_000_000_000) as u32, (ns % 1_000_000_000) as u32, snap.len() as u32, bytes];
        words.iter().try_for_each(|word| self.file.write_all(&word.to_ne_bytes()))?;
        self.file.write_all(snap)
    }

    /// Hands everything to the operating system.
    pub fn flush(&mut self) -> io::Result<()> {
        self.file.flush()
    }
}

/// Magic, version 2.4, no time zone, no accuracy, the longest packet, the kind of packets.
fn header() -> [u8; 24] {
    let mut header = [0; 24];
    header[..4].copy_from_slice(&MAGIC.to_ne_bytes());
    header[4..6].copy_from_slice(&2u16.to_ne_bytes());
    header[6..8].copy_from_slice(&4u16.to_ne_bytes());
    header[16..20].copy_from_slice(&LONGEST.to_ne_bytes());
    header[20..].copy_from_slice(&RAW_IP.to_ne_bytes());
    header
}
