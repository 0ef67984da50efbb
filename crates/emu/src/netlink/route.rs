//! Devices, addresses, routes and rules of a namespace, over rtnetlink (`rtnetlink(7)`).

use std::fmt;
use std::io::{self, Cursor};
use std::net::Ipv4Addr;

use neli::consts::nl::NlmF;
use neli::consts::rtnl::{FrAct, Frattr, Ifa, Ifla, RtAddrFamily, RtScope, RtTable, Rta, RtaType, Rtm, Rtn, Rtprot};
use neli::consts::socket::NlFamily;
use neli::rtnl::{
    FibmsgBuilder, Ifaddrmsg, IfaddrmsgBuilder, Ifinfomsg, IfinfomsgBuilder, RtattrBuilder, RtmsgBuilder,
};
use neli::types::{Buffer, RtBuffer};
use neli::{FromBytesWithInput, Size, ToBytes};
use weftway_path::Bytes;

use super::socket::Socket;
use crate::EmuError;

/// An address and the length of its network's prefix.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Prefix {
    /// An address of the network, or the network itself.
    pub address: Ipv4Addr,
    /// Number of leading bits that name the network, 0 to 32.
    pub length: u8,
}

/// Counters of a device since it exists.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct LinkStats {
    /// Packets received.
    pub rx_packets: u64,
    /// Packets sent.
    pub tx_packets: u64,
    /// Bytes received.
    pub rx_bytes: Bytes,
    /// Bytes sent.
    pub tx_bytes: Bytes,
    /// Packets received and dropped for want of space.
    pub rx_dropped: u64,
    /// Packets to send that were dropped.
    pub tx_dropped: u64,
}

/// The devices, addresses and routes of the namespace in which it was opened.
pub struct Route {
    socket: Socket,
}

impl Prefix {
    /// Every address: the destination of a default route.
    pub const ALL: Self = Self { address: Ipv4Addr::UNSPECIFIED, length: 0 };

    /// `address/length`.
    pub const fn new(address: Ipv4Addr, length: u8) -> Self {
        Self { address, length }
    }
}

impl fmt::Display for Prefix {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.address, self.length)
    }
}

impl Route {
    /// Opens a socket in the calling thread's namespace.
    pub fn open() -> Result<Self, EmuError> {
        Ok(Self { socket: Socket::open(NlFamily::Route)? })
    }

    /// Brings a device up, with packets of at most `mtu` bytes and a queue of `queue_len` packets.
    pub fn set_up(&self, device: &str, mtu: u32, queue_len: u32) -> Result<(), EmuError> {
        let link = IfinfomsgBuilder::default()
            .ifi_family(RtAddrFamily::Unspecified)
            .ifi_index(self.device_index(device)? as i32)
            .up()
            .rtattrs(list([attribute(Ifla::Mtu, mtu), attribute(Ifla::Txqlen, queue_len)]))
            .build()
            .expect("family and index are set");
        let done = self.socket.request(Rtm::Setlink.into(), NlmF::empty(), link);
        done.map_err(|refusal| refusal.of(format_args!("bringing {device} up")))
    }

    /// Gives a device an address; the kernel adds the route to its network.
    pub fn add_address(&self, device: &str, address: Prefix) -> Result<(), EmuError> {
        let message = address_message(self.device_index(device)?, address);
        let done = self.socket.request(Rtm::Newaddr.into(), NlmF::CREATE | NlmF::EXCL, message);
        done.map_err(|refusal| refusal.of(format_args!("adding {address} to {device}")))
    }

    /// Adds a route of a table to what a device reaches directly; `source` is the address that senders without one
    /// of their own take.
    pub fn add_route(
        &self,
        destination: Prefix,
        device: &str,
        table: u32,
        source: Option<Ipv4Addr>,
    ) -> Result<(), EmuError> {
        let mut attributes = vec![attribute(Rta::Oif, self.device_index(device)?), attribute(Rta::Table, table)];
        if destination != Prefix::ALL {
            attributes.push(attribute(Rta::Dst, destination.address.octets()));
        }
        attributes.extend(source.map(|source| attribute(Rta::Prefsrc, source.octets())));
        let route = RtmsgBuilder::default()
            .rtm_family(RtAddrFamily::Inet)
            .rtm_dst_len(destination.length)
            .rtm_src_len(0)
            .rtm_tos(0)
            .rtm_table(RtTable::Unspec) // Eight bits are too few: the attribute has the number.
            .rtm_protocol(Rtprot::Static)
            .rtm_scope(RtScope::Link)
            .rtm_type(Rtn::Unicast)
            .rtattrs(list(attributes))
            .build()
            .expect("every field is set");
        let done = self.socket.request(Rtm::Newroute.into(), NlmF::CREATE | NlmF::EXCL, route);
        done.map_err(|refusal| refusal.of(format_args!("adding a route to {destination} by {device} in table {table}")))
    }

    /// Has packets from an address routed by a table.
    pub fn add_rule(&self, from: Ipv4Addr, table: u32) -> Result<(), EmuError> {
        let rule = FibmsgBuilder::default()
            .fib_family(RtAddrFamily::Inet)
            .fib_dst_len(0)
            .fib_src_len(32)
            .fib_tos(0)
            .fib_table(RtTable::Unspec)
            .fib_action(FrAct::FrActToTbl)
            .rtattrs(list([attribute(Frattr::Src, from.octets()), attribute(Frattr::Table, table)]))
            .build()
            .expect("every field is set");
        let done = self.socket.request(Rtm::Newrule.into(), NlmF::CREATE | NlmF::EXCL, rule);
        done.map_err(|refusal| refusal.of(format_args!("adding a rule from {from} to table {table}")))
    }

    /// The number of a device, as [`Endpoint::device`](super::Endpoint::device) has it.
    pub fn device_index(&self, device: &str) -> Result<u32, EmuError> {
        Ok(*self.link(device)?.ifi_index() as u32)
    }

    /// A device's counters.
    pub fn link_stats(&self, device: &str) -> Result<LinkStats, EmuError> {
        let link = self.link(device)?;
        let attributes = link.rtattrs().get_attr_handle();
        let stats = attributes.get_attr_payload_as_with_len_borrowed::<&[u8]>(Ifla::Stats64).unwrap_or_default();
        Ok(LinkStats::parse(stats))
    }

    /// Names are looked up over the socket: the thread's namespace may be another one.
    fn link(&self, device: &str) -> Result<Ifinfomsg, EmuError> {
        let step = || format!("looking up {device}");
        let question = IfinfomsgBuilder::default()
            .ifi_family(RtAddrFamily::Unspecified)
            .rtattrs(list([attribute(Ifla::Ifname, device)]))
            .build()
            .expect("the family is set");
        let answer = self.socket.get(Rtm::Getlink.into(), question).map_err(|refusal| refusal.of(step()))?;
        Ifinfomsg::from_bytes_with_input(&mut Cursor::new(&answer), answer.len())
            .map_err(|error| EmuError::system(step())(io::Error::other(error)))
    }
}

impl LinkStats {
    /// Reads `struct rtnl_link_stats64`: 64-bit numbers of which the first eight are used here.
    fn parse(bytes: &[u8]) -> Self {
        let field = |at: usize| {
            let word = bytes.get(8 * at..8 * at + 8).and_then(|word| word.try_into().ok());
            word.map_or(0, u64::from_ne_bytes)
        };
        Self {
            rx_packets: field(0),
            tx_packets: field(1),
            rx_bytes: Bytes::new(field(2)),
            tx_bytes: Bytes::new(field(3)),
            rx_dropped: field(6),
            tx_dropped: field(7),
        }
    }
}

fn address_message(index: u32, address: Prefix) -> Ifaddrmsg {
    let octets = address.address.octets();
    IfaddrmsgBuilder::default()
        .ifa_family(RtAddrFamily::Inet)
        .ifa_prefixlen(address.length)
        .ifa_scope(RtScope::Universe)
        .ifa_index(index)
        .rtattrs(list([attribute(Ifa::Local, octets), attribute(Ifa::Address, octets)]))
        .build()
        .expect("every field is set")
}

type Attribute<T> = neli::rtnl::Rtattr<T, Buffer>;

fn attribute<T: RtaType>(kind: T, value: impl Size + ToBytes) -> Attribute<T> {
    RtattrBuilder::default().rta_type(kind).rta_payload(value).build().expect("kind and value are set")
}

fn list<T>(attributes: impl IntoIterator<Item = Attribute<T>>) -> RtBuffer<T, Buffer> {
    attributes.into_iter().collect()
}
