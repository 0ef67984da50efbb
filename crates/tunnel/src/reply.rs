//! Packets for local programs: datagrams, echo replies, and what ICMP says of a packet that led nowhere.

use std::net::{IpAddr, SocketAddr};

use smoltcp::phy::ChecksumCapabilities;
use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv4Repr, Ipv6Packet, Ipv6Repr, UdpPacket, checksum};

/// Hops that packets that are made here may travel.
const HOP_LIMIT: u8 = 64;
/// The bytes of a header of UDP.
const UDP_HEADER: usize = 8;
/// Bytes of a packet of IPv4 that are quoted (RFC 792: its header and 8 bytes; RFC 1812: no more than 576 in all), and
/// so many of IPv6 (RFC 4443: no more than 1280 in all).
const QUOTED_V4: usize = 548;
const QUOTED_V6: usize = 1232;

/// Why a packet led nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unreachable {
    /// No route to its network.
    Network,
    /// No route to its host.
    Host,
    /// It is not allowed.
    Prohibited,
}

impl Unreachable {
    /// Its code in IPv4 (RFC 792, RFC 1812) and IPv6 (RFC 4443).
    fn codes(self) -> (u8, u8) {
        match self {
            Self::Network => (0, 0),
            Self::Host => (1, 3),
            Self::Prohibited => (13, 1),
        }
    }
}

/// Puts a packet with these bytes from `from` to `to` into `packet`. None of it if they are of different families.
fn wrap(packet: &mut Vec<u8>, (from, to): (IpAddr, IpAddr), protocol: IpProtocol, length: usize) -> Option<usize> {
    packet.clear();
    match (from, to) {
        (IpAddr::V4(src_addr), IpAddr::V4(dst_addr)) => {
            let repr =
                Ipv4Repr { src_addr, dst_addr, next_header: protocol, payload_len: length, hop_limit: HOP_LIMIT };
            packet.resize(repr.buffer_len() + length, 0);
            repr.emit(&mut Ipv4Packet::new_unchecked(&mut packet[..]), &ChecksumCapabilities::default());
            Some(repr.buffer_len())
        }
        (IpAddr::V6(src_addr), IpAddr::V6(dst_addr)) => {
            let repr =
                Ipv6Repr { src_addr, dst_addr, next_header: protocol, payload_len: length, hop_limit: HOP_LIMIT };
            packet.resize(repr.buffer_len() + length, 0);
            repr.emit(&mut Ipv6Packet::new_unchecked(&mut packet[..]));
            Some(repr.buffer_len())
        }
        _ => None,
    }
}

/// A datagram for a program. False if there is no such packet.
pub fn datagram(packet: &mut Vec<u8>, from: SocketAddr, to: SocketAddr, data: &[u8]) -> bool {
    let length = UDP_HEADER + data.len();
    let Ok(field) = u16::try_from(length) else { return false };
    let Some(at) = wrap(packet, (from.ip(), to.ip()), IpProtocol::Udp, length) else { return false };
    let mut datagram = UdpPacket::new_unchecked(&mut packet[at..]);
    datagram.set_src_port(from.port());
    datagram.set_dst_port(to.port());
    datagram.set_len(field);
    datagram.payload_mut().copy_from_slice(data);
    datagram.fill_checksum(&from.ip().into(), &to.ip().into());
    true
}

/// The reply to an echo request: `data` begins with its sequence number. False if there is no such packet.
pub fn echo(packet: &mut Vec<u8>, from: IpAddr, to: IpAddr, ident: u16, data: &[u8]) -> bool {
    let kind = if to.is_ipv4() { 0 } else { 129 };
    let [high, low] = ident.to_be_bytes();
    icmp(packet, (from, to), &[kind, 0, 0, 0, high, low], data)
}

/// Tells the program that sent `original` that it leads nowhere. False if there is no such packet.
pub fn unreachable(packet: &mut Vec<u8>, original: &[u8], (from, to): (IpAddr, IpAddr), why: Unreachable) -> bool {
    let (v4, v6) = why.codes();
    let (kind, code, most) = if to.is_ipv4() { (3, v4, QUOTED_V4) } else { (1, v6, QUOTED_V6) };
    icmp(packet, (from, to), &[kind, code, 0, 0, 0, 0, 0, 0], &original[..original.len().min(most)])
}

fn icmp(packet: &mut Vec<u8>, (from, to): (IpAddr, IpAddr), head: &[u8], data: &[u8]) -> bool {
    let length = head.len() + data.len();
    if length + 40 > usize::from(u16::MAX) {
        return false;
    }
    let protocol = if to.is_ipv4() { IpProtocol::Icmp } else { IpProtocol::Icmpv6 };
    let Some(at) = wrap(packet, (from, to), protocol, length) else { return false };
    let message = &mut packet[at..];
    message[..head.len()].copy_from_slice(head);
    message[head.len()..].copy_from_slice(data);
    let body = checksum::data(message);
    let sum = match (from, to) {
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            let pseudo = checksum::pseudo_header(&from.into(), &to.into(), protocol, length as u32);
            checksum::combine(&[body, pseudo])
        }
        _ => body,
    };
    message[2..4].copy_from_slice(&(!sum).to_be_bytes());
    true
}
