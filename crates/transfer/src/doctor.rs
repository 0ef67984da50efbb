//! Links and sockets of this machine, and their abilities.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr};

use nix::ifaddrs::getifaddrs;
use nix::net::if_::InterfaceFlags;
use serde::Serialize;
use weftway_udp::socket::{Local, Socket, Sockets};

/// An interface.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct Interface {
    /// Its name.
    pub name: String,
    /// Its addresses.
    pub addresses: Vec<IpAddr>,
    /// True if it is up and has a carrier.
    pub up: bool,
    /// True if it leads nowhere else.
    pub loopback: bool,
    /// Why a socket cannot be bound to it (SO_BINDTODEVICE), if it cannot.
    pub bind_obstacle: Option<String>,
}

/// All interfaces, by name.
pub fn interfaces() -> std::io::Result<Vec<Interface>> {
    let mut found: BTreeMap<String, Interface> = BTreeMap::new();
    for entry in getifaddrs()? {
        let flags = entry.flags;
        let known = found.entry(entry.interface_name.clone()).or_insert_with(|| Interface {
            name: entry.interface_name.clone(),
            up: flags.contains(InterfaceFlags::IFF_UP | InterfaceFlags::IFF_RUNNING),
            loopback: flags.contains(InterfaceFlags::IFF_LOOPBACK),
            ..Interface::default()
        });
        let address = entry.address.as_ref();
        let v4 = address.and_then(|address| address.as_sockaddr_in()).map(|address| IpAddr::V4(address.ip()));
        let v6 = address.and_then(|address| address.as_sockaddr_in6()).map(|address| IpAddr::V6(address.ip()));
        known.addresses.extend(v4.or(v6));
    }
    let mut interfaces: Vec<Interface> = found.into_values().collect();
    for interface in &mut interfaces {
        let opened = Socket::open(&Local::Device(interface.name.clone()), 0, Ipv4Addr::UNSPECIFIED.into());
        interface.bind_obstacle = opened.err().map(|error| error.to_string());
    }
    Ok(interfaces)
}

/// Abilities of sockets.
pub fn sockets() -> std::io::Result<Sockets> {
    Socket::open(&Local::Any, 0, Ipv4Addr::UNSPECIFIED.into())?.abilities()
}
