//! Questions to servers of names, and their answers (RFC 1035): written and read with smoltcp.

use std::net::IpAddr;

use smoltcp::wire::{
    DnsFlags, DnsOpcode, DnsPacket, DnsQueryType, DnsQuestion, DnsRcode, DnsRecord, DnsRecordData, DnsRepr,
};

use crate::limits::MOST_ADDRESSES;

/// The most aliases that lead to a name.
const MOST_ALIASES: usize = 16;
/// The bytes of the longest name.
const LONGEST_NAME: usize = 255;

/// The kind of the addresses that a question is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    V4,
    V6,
}

/// Both, in the order in which they are asked for.
pub const FAMILIES: [Family; 2] = [Family::V4, Family::V6];

impl Family {
    /// The index of its part in an array of one for each family.
    pub fn index(self) -> usize {
        self as usize
    }

    fn record(self) -> DnsQueryType {
        match self {
            Self::V4 => DnsQueryType::A,
            Self::V6 => DnsQueryType::Aaaa,
        }
    }
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    /// The addresses, and the seconds for which they are valid. There may be none.
    Addresses(Vec<IpAddr>, u32),
    /// There is no such name.
    NoName,
    /// The answer did not fit into a datagram.
    Truncated,
    /// The server cannot tell.
    CannotTell,
}

/// A question for the addresses of `name`, which has no dot at its end. None if no message holds such a name.
pub fn question(id: u16, name: &str, family: Family) -> Option<Vec<u8>> {
    let mut labels = Vec::with_capacity(name.len() + 2);
    for label in name.split('.') {
        let length = u8::try_from(label.len()).ok().filter(|length| (1..=63).contains(length))?;
        labels.push(length);
        labels.extend_from_slice(label.as_bytes());
    }
    labels.push(0);
    if labels.len() > LONGEST_NAME {
        return None;
    }
    let message = DnsRepr {
        transaction_id: id,
        opcode: DnsOpcode::Query,
        flags: DnsFlags::RECURSION_DESIRED,
        question: DnsQuestion { name: &labels, type_: family.record() },
    };
    let mut bytes = vec![0; message.buffer_len()];
    message.emit(&mut DnsPacket::new_unchecked(&mut bytes[..]));
    Some(bytes)
}

/// Reads `bytes` as the answer to the question that [`question`] made. None if they answer another one, or make no
/// sense.
pub fn reply(bytes: &[u8], id: u16, name: &str, family: Family) -> Option<Reply> {
    let packet = DnsPacket::new_checked(bytes).ok()?;
    let is_answer = packet.flags().contains(DnsFlags::RESPONSE) && packet.opcode() == DnsOpcode::Query;
    if packet.transaction_id() != id || !is_answer {
        return None;
    }
    // Some servers that cannot tell leave the question out.
    if packet.question_count() == 0 && !matches!(packet.rcode(), DnsRcode::NoError | DnsRcode::NXDomain) {
        return Some(Reply::CannotTell);
    }
    let (mut rest, asked) = DnsQuestion::parse(packet.payload()).ok()?;
    let asked_name = text(&packet, asked.name)?;
    if packet.question_count() != 1 || !asked_name.eq_ignore_ascii_case(name) || asked.type_ != family.record() {
        return None;
    }
    if packet.flags().contains(DnsFlags::TRUNCATED) {
        return Some(Reply::Truncated);
    }
    match packet.rcode() {
        DnsRcode::NoError => {}
        DnsRcode::NXDomain => return Some(Reply::NoName),
        _ => return Some(Reply::CannotTell),
    }
    let (mut records, mut aliases) = (Vec::new(), Vec::new());
    for _ in 0..packet.answer_record_count() {
        // A record of another class, or one that makes no sense, ends what can be read.
        let Ok((behind, record)) = DnsRecord::parse(rest) else { break };
        rest = behind;
        let owner = text(&packet, record.name)?;
        match record.data {
            DnsRecordData::A(ip) if family == Family::V4 => records.push((owner, IpAddr::from(ip), record.ttl)),
            DnsRecordData::Aaaa(ip) if family == Family::V6 => records.push((owner, IpAddr::from(ip), record.ttl)),
            DnsRecordData::Cname(target) => aliases.push((owner, text(&packet, target)?, record.ttl)),
            _ => {}
        }
    }
    // What the name is called in the end: aliases lead there, in whatever order they stand (RFC 1034, section 4.3.1).
    let (mut last, mut ttl) = (asked_name, u32::MAX);
    for _ in 0..MOST_ALIASES {
        let Some((_, target, lives)) = aliases.iter().find(|(owner, ..)| *owner == last) else { break };
        (last, ttl) = (target.clone(), ttl.min(*lives));
    }
    let own = records.into_iter().filter(|(owner, ..)| *owner == last);
    let mut addresses: Vec<IpAddr> = Vec::new();
    for (_, address, lives) in own {
        ttl = ttl.min(lives);
        if !addresses.contains(&address) && addresses.len() < MOST_ADDRESSES {
            addresses.push(address);
        }
    }
    // The highest bit set counts as zero (RFC 2181, section 8).
    let ttl = if addresses.is_empty() || ttl > i32::MAX as u32 { 0 } else { ttl };
    Some(Reply::Addresses(addresses, ttl))
}

/// A name as text, in small letters. None if it makes no sense, or is longer than names are.
fn text<T: AsRef<[u8]>>(packet: &DnsPacket<T>, name: &[u8]) -> Option<String> {
    let mut text = String::new();
    for label in packet.parse_name(name) {
        if text.len() > LONGEST_NAME {
            return None;
        }
        if !text.is_empty() {
            text.push('.');
        }
        text.extend(label.ok()?.iter().map(|byte| char::from(byte.to_ascii_lowercase())));
    }
    Some(text)
}

/// Reads any bytes as answers, for the fuzzer.
pub fn fuzz(bytes: &[u8]) {
    let id = bytes.first_chunk().map_or(0, |id| u16::from_be_bytes(*id));
    for family in FAMILIES {
        let _ = reply(bytes, id, "a.example", family);
    }
}
