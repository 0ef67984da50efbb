//! Entries of the packet log: what became of each packet, and of all packets of a link.

use std::path::PathBuf;

use weftway_path::{BitRate, Bytes, Instant, Span};

/// Fate of a packet.
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
    /// It was taken in and never came out: dropped by CoDel, or with a link that failed.
    Vanished,
    /// It was inside when the run ended.
    UnderWay,
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
            Self::UnderWay => "under way",
        }
    }
}

/// A link as the log knows it.
#[derive(Clone, Debug)]
pub struct Subject {
    /// `wifi.up`.
    pub name: String,
    /// True if it leads from the client to the server.
    pub up: bool,
}

/// Files to write of the packets.
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

/// Traffic over one link.
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
    /// Packets that found the queue full, or the link down, or never came out; not those inside at the end.
    pub dropped: u64,
    /// IP bytes that left the queue while others waited in it, over that time; `None` if none ever did. Delay and
    /// jitter come after the queue and play no part.
    pub busy_rate: Option<BitRate>,
    /// Half of the packets handed over took no longer, queueing included.
    pub median_delay: Option<Span>,
    /// The shortest that a packet took.
    pub least_delay: Option<Span>,
}

/// An entry of a chunk. `waits` is how long the packet will be in the queue; `snap` is where its bytes begin, and how
/// many they are.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Entry {
    Entered { link: usize, at: Instant, waits: Span, bytes: u32, snap: (u32, u32) },
    Left { number: u64, fate: Fate, due: Instant, at: Instant, snap: (u32, u32) },
}

/// Some entries, and the first bytes of their packets.
#[derive(Debug, Default)]
pub(crate) struct Chunk {
    pub entries: Vec<Entry>,
    pub snaps: Vec<u8>,
}
