//! Fragments of IP: packets that were too long for the device, which the kernel of this machine has cut; and packets
//! for programs that are too long for it, which are cut here.
//!
//! A packet with fragments that overlap is dropped as a whole, with those that are still to come (RFC 5722; RFC 1858
//! and 3128 say why for IPv4). A fragment that is repeated as it was is ignored (RFC 8200, section 4.5).

use std::collections::{BTreeMap, VecDeque};
use std::net::IpAddr;

use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6FragmentHeader, Ipv6Packet};
use weftway_path::{Instant, Span};

/// The most packets that miss fragments at once: of 64 KiB each, so that they hold 1 MiB at most. The oldest makes
/// room.
const MOST_PARTIAL: usize = 16;
/// The most fragments of a packet: with the shortest packets that links carry (576 bytes, RFC 791), 64 KiB have 119.
const MOST_PARTS: usize = 128;
/// Time that a packet waits for its fragments: Linux waits as long (`net.ipv4.ipfrag_time`).
const PATIENCE: Span = Span::from_secs(30);
/// The longest packet, and the longest payload of IPv6.
const LONGEST: usize = u16::MAX as usize;
/// The header of IPv6 without extensions, and its fragment header.
const HEADER_V6: usize = 40;
const FRAGMENT_HEADER: usize = 8;

/// The fields that all fragments of a packet share.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Id {
    /// Source and destination.
    pub ends: (IpAddr, IpAddr),
    /// The protocol, for IPv4 (RFC 791). 0 for IPv6, which does not compare it (RFC 8200, section 4.5).
    pub protocol: u8,
    /// The number that its sender gave it.
    pub number: u32,
}

/// A fragment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Fragment<'a> {
    /// The packet that it is a part of.
    pub id: Id,
    /// Offset of its data in those of the packet, in bytes.
    pub offset: usize,
    /// Others follow it in the packet.
    pub more: bool,
    /// The header before its data, without the fragment header of IPv6.
    pub header: &'a [u8],
    /// Protocol of the packet's data. It counts in the first fragment.
    pub protocol: u8,
    /// Its data.
    pub data: &'a [u8],
}

/// A fragment that makes no sense, and is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Malformed;

/// A packet that misses fragments.
#[derive(Debug)]
struct Partial {
    id: Id,
    since: Instant,
    /// Header and protocol of the first fragment, once it is there.
    first: Option<(Vec<u8>, u8)>,
    /// Data by their offsets. None overlap.
    parts: BTreeMap<usize, Vec<u8>>,
    /// Length of the data, once the last fragment is there.
    length: Option<usize>,
    /// Its fragments contradict each other, so it never becomes whole.
    is_broken: bool,
}

/// Packets that miss fragments, the oldest first.
#[derive(Debug, Default)]
pub struct Fragments {
    partial: VecDeque<Partial>,
    lost: u64,
}

impl Fragments {
    /// Takes a fragment: the whole packet, if nothing is missing any more.
    pub fn take(&mut self, now: Instant, fragment: &Fragment<'_>) -> Result<Option<Vec<u8>>, Malformed> {
        let Fragment { id, offset, more, header, data, .. } = *fragment;
        // Of all but the last the lengths are multiples of eight: offsets count these.
        let is_cut = more && data.len() % 8 != 0;
        if data.is_empty() || is_cut || header.len() + offset + data.len() > LONGEST {
            return Err(Malformed);
        }
        while self.partial.front().is_some_and(|oldest| now.since(oldest.since) > PATIENCE) {
            self.drop_oldest();
        }
        let found = self.partial.iter().position(|partial| partial.id == id);
        let at = found.unwrap_or_else(|| {
            if self.partial.len() >= MOST_PARTIAL {
                self.drop_oldest();
            }
            self.partial.push_back(Partial::new(now, id));
            self.partial.len() - 1
        });
        let Some(partial) = self.partial.get_mut(at) else { return Ok(None) };
        self.lost += partial.add(fragment);
        let whole = partial.whole();
        if whole.is_some() {
            self.partial.remove(at);
        }
        Ok(whole)
    }

    /// Number of fragments that were dropped, as their packets did not become whole.
    pub fn lost(&self) -> u64 {
        self.lost
    }

    fn drop_oldest(&mut self) {
        self.lost += self.partial.pop_front().map_or(0, |oldest| oldest.parts.len() as u64);
    }
}

impl Partial {
    fn new(since: Instant, id: Id) -> Self {
        Self { id, since, first: None, parts: BTreeMap::new(), length: None, is_broken: false }
    }

    /// Adds a fragment, and returns how many are dropped by that.
    fn add(&mut self, fragment: &Fragment<'_>) -> u64 {
        let Fragment { offset, more, header, protocol, data, .. } = *fragment;
        if self.is_broken {
            return 1;
        }
        let end = offset + data.len();
        if self.parts.get(&offset).is_some_and(|known| known == data) && more == (self.length != Some(end)) {
            return 0;
        }
        let before = self.parts.range(..=offset).next_back().map_or(0, |(&at, known)| at + known.len());
        let is_before_others = self.parts.range(offset..).next().is_none_or(|(&at, _)| end <= at);
        // Nothing is behind the last one.
        let last = self.parts.last_key_value().map_or(0, |(&at, known)| at + known.len());
        let is_fit =
            if more { self.length.is_none_or(|length| end < length) } else { self.length.is_none() && end > last };
        if before > offset || !is_before_others || !is_fit || self.parts.len() >= MOST_PARTS {
            self.is_broken = true;
            return std::mem::take(&mut self.parts).len() as u64 + 1;
        }
        if offset == 0 {
            self.first = Some((header.to_vec(), protocol));
        }
        if !more {
            self.length = Some(end);
        }
        self.parts.insert(offset, data.to_vec());
        0
    }

    /// The packet, if nothing is missing. The checksum of its header is not written: nothing reads it.
    fn whole(&mut self) -> Option<Vec<u8>> {
        let length = self.length?;
        if self.parts.values().map(Vec::len).sum::<usize>() != length {
            return None;
        }
        let (mut packet, protocol) = self.first.take()?;
        let head = packet.len();
        self.parts.values().for_each(|part| packet.extend_from_slice(part));
        if self.id.ends.0.is_ipv4() {
            let total = u16::try_from(packet.len()).ok()?;
            let mut ip = Ipv4Packet::new_unchecked(&mut packet[..]);
            ip.set_total_len(total);
            ip.clear_flags();
            ip.set_frag_offset(0);
        } else {
            let payload = u16::try_from(packet.len() - head).ok()?;
            let mut ip = Ipv6Packet::new_unchecked(&mut packet[..]);
            ip.set_payload_len(payload);
            ip.set_next_header(IpProtocol::from(protocol));
        }
        Some(packet)
    }
}

/// Hands `packet` to `send` in fragments of at most `mtu` bytes; it has no options and no extension headers. `number`
/// is its own.
pub fn cut(packet: &[u8], mtu: usize, number: u32, mut send: impl FnMut(&[u8])) {
    let is_v4 = packet.first().is_some_and(|first| first >> 4 == 4);
    let head = if is_v4 { 20 } else { HEADER_V6 };
    let Some((header, data)) = packet.split_at_checked(head) else { return };
    let room = mtu.saturating_sub(head + if is_v4 { 0 } else { FRAGMENT_HEADER }) / 8 * 8;
    let mut fragment = Vec::with_capacity(mtu);
    for (part, offset) in data.chunks(room.max(8)).zip((0u16..).step_by(room.max(8))) {
        let more = usize::from(offset) + part.len() < data.len();
        fragment.clear();
        fragment.extend_from_slice(header);
        if is_v4 {
            let total = head + part.len();
            fragment.extend_from_slice(part);
            let mut ip = Ipv4Packet::new_unchecked(&mut fragment[..]);
            ip.set_total_len(total as u16);
            // Two packets of 65 536 may have the same number: their fragments are handed over one behind the other.
            ip.set_ident(number as u16);
            ip.set_dont_frag(false);
            ip.set_more_frags(more);
            ip.set_frag_offset(offset);
            ip.fill_checksum();
        } else {
            fragment.resize(HEADER_V6 + FRAGMENT_HEADER, 0);
            let mut ip = Ipv6Packet::new_unchecked(&mut fragment[..]);
            let protocol = ip.next_header();
            ip.set_next_header(IpProtocol::Ipv6Frag);
            ip.set_payload_len((FRAGMENT_HEADER + part.len()) as u16);
            fragment[HEADER_V6] = protocol.into();
            let mut ip = Ipv6FragmentHeader::new_unchecked(&mut fragment[HEADER_V6 + 2..]);
            ip.set_frag_offset(offset / 8);
            ip.set_more_frags(more);
            ip.set_ident(number);
            fragment.extend_from_slice(part);
        }
        send(&fragment);
    }
}
