//! Kind of a local program's IP packet, read from its bytes alone. Checksums are not read: the kernel of this machine
//! wrote the packet, or will write its checksum.

use std::net::{IpAddr, SocketAddr};

use smoltcp::wire::{IpProtocol, Ipv4Packet, Ipv6FragmentHeader, Ipv6Packet, TcpPacket, UdpPacket};
use weftway_relay::Dscp;

use crate::fragments::{Fragment, Id};

/// The two ends of a connection, or of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ends {
    /// On this machine.
    pub program: SocketAddr,
    /// Destination.
    pub server: SocketAddr,
}

/// An IP packet of a local program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Packet<'a> {
    /// A segment of TCP.
    Tcp {
        /// Its ends.
        ends: Ends,
        /// True if it begins a connection.
        begins: bool,
        /// True if it resets one.
        resets: bool,
    },
    /// A datagram of UDP.
    Udp {
        /// Its ends.
        ends: Ends,
        /// Payload.
        data: &'a [u8],
    },
    /// An echo request of ICMP.
    Echo {
        /// The address on this machine.
        program: IpAddr,
        /// Packet whose reply is wanted.
        server: IpAddr,
        /// The identifier.
        ident: u16,
        /// The sequence number, and what comes back.
        data: &'a [u8],
    },
    /// A part of a packet that was too long for the device.
    Fragment(Fragment<'a>),
}

/// Why a packet is not carried.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotCarried {
    /// Its lengths or versions make no sense.
    Malformed,
    /// It leads to many, or to nobody.
    NotUnicast,
    /// It is of a protocol that no relay carries.
    Protocol,
}

/// Mark (DSCP) of the packet `bytes`.
pub fn mark(bytes: &[u8]) -> Dscp {
    bytes.first_chunk().map_or(Dscp::NONE, |&head| Dscp::of_packet(head))
}

/// Kind of the packet `bytes`.
pub fn read(bytes: &[u8]) -> Result<Packet<'_>, NotCarried> {
    let (program, server, inside) = match bytes.first().map(|first| first >> 4) {
        Some(4) => v4(bytes)?,
        Some(6) => v6(bytes)?,
        _ => return Err(NotCarried::Malformed),
    };
    if !is_unicast(program) || !is_unicast(server) {
        return Err(NotCarried::NotUnicast);
    }
    let (protocol, payload) = match inside {
        Inside::Whole(protocol, payload) => (protocol, payload),
        Inside::Fragment(fragment) => return Ok(Packet::Fragment(fragment)),
    };
    let ends = |from, to| {
        let ends = Ends { program: SocketAddr::new(program, from), server: SocketAddr::new(server, to) };
        if from == 0 || to == 0 { Err(NotCarried::Malformed) } else { Ok(ends) }
    };
    match (protocol, program) {
        (IpProtocol::Tcp, _) => {
            let segment = TcpPacket::new_checked(payload).map_err(|_| NotCarried::Malformed)?;
            let ends = ends(segment.src_port(), segment.dst_port())?;
            Ok(Packet::Tcp { ends, begins: segment.syn() && !segment.ack() && !segment.rst(), resets: segment.rst() })
        }
        (IpProtocol::Udp, _) => {
            let datagram = UdpPacket::new_checked(payload).map_err(|_| NotCarried::Malformed)?;
            let ends = ends(datagram.src_port(), datagram.dst_port())?;
            Ok(Packet::Udp { ends, data: datagram.payload() })
        }
        (IpProtocol::Icmp, IpAddr::V4(_)) | (IpProtocol::Icmpv6, IpAddr::V6(_)) => {
            let request = if program.is_ipv4() { 8 } else { 128 };
            match payload {
                &[kind, 0, _, _, high, low, ref data @ ..] if kind == request && data.len() >= 2 => {
                    Ok(Packet::Echo { program, server, ident: u16::from_be_bytes([high, low]), data })
                }
                _ => Err(NotCarried::Protocol),
            }
        }
        _ => Err(NotCarried::Protocol),
    }
}

/// The part of an IP packet after its header.
enum Inside<'a> {
    Whole(IpProtocol, &'a [u8]),
    Fragment(Fragment<'a>),
}

type Parts<'a> = (IpAddr, IpAddr, Inside<'a>);

fn v4(bytes: &[u8]) -> Result<Parts<'_>, NotCarried> {
    let packet = Ipv4Packet::new_checked(bytes).map_err(|_| NotCarried::Malformed)?;
    if packet.header_len() < 20 {
        return Err(NotCarried::Malformed);
    }
    let (header, data) = bytes[..packet.total_len().into()].split_at(packet.header_len().into());
    let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
    let (protocol, more, offset) = (packet.next_header(), packet.more_frags(), packet.frag_offset().into());
    if !more && offset == 0 {
        return Ok((from, to, Inside::Whole(protocol, data)));
    }
    let protocol = protocol.into();
    let id = Id { ends: (from, to), protocol, number: packet.ident().into() };
    Ok((from, to, Inside::Fragment(Fragment { id, offset, more, header, protocol, data })))
}

fn v6(bytes: &[u8]) -> Result<Parts<'_>, NotCarried> {
    let packet = Ipv6Packet::new_checked(bytes).map_err(|_| NotCarried::Malformed)?;
    let (header, payload) = bytes[..packet.total_len()].split_at(packet.header_len());
    let (from, to) = (packet.src_addr().into(), packet.dst_addr().into());
    if packet.next_header() != IpProtocol::Ipv6Frag {
        return Ok((from, to, Inside::Whole(packet.next_header(), payload)));
    }
    let &[protocol, _, ref rest @ ..] = payload else { return Err(NotCarried::Malformed) };
    let (fragment, data) = rest.split_at_checked(6).ok_or(NotCarried::Malformed)?;
    let fragment = Ipv6FragmentHeader::new_checked(fragment).map_err(|_| NotCarried::Malformed)?;
    let id = Id { ends: (from, to), protocol: 0, number: fragment.ident() };
    let (offset, more) = (8 * usize::from(fragment.frag_offset()), fragment.more_frags());
    Ok((from, to, Inside::Fragment(Fragment { id, offset, more, header, protocol, data })))
}

fn is_unicast(address: IpAddr) -> bool {
    let is_broadcast = matches!(address, IpAddr::V4(address) if address.is_broadcast());
    let is_link_local = match address {
        IpAddr::V4(address) => address.is_link_local(),
        IpAddr::V6(address) => address.is_unicast_link_local(),
    };
    !(address.is_multicast() || address.is_unspecified() || address.is_loopback() || is_broadcast || is_link_local)
}
