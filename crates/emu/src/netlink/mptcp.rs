//! Path management of MPTCP: the addresses that connections use, and which of them are backups.
//!
//! The kernel has two path managers. With its own, which is the default, *endpoints* hold for every connection of the
//! namespace. With `net.mptcp.pm_type = 1` (or `net.mptcp.path_manager = userspace`) nothing happens to a connection
//! but what a program says of this one, by its token.
//!
//! `Documentation/netlink/specs/mptcp_pm.yaml` of the kernel describes the messages; RFC 8684 §3.3 and §3.4 the options
//! ADD_ADDR, REMOVE_ADDR, MP_JOIN and MP_PRIO that they cause.

use std::fmt;
use std::io::ErrorKind;
use std::net::{Ipv4Addr, SocketAddrV4};

use super::generic::{self, Attributes, Family, attribute, nested, value};
use crate::EmuError;

mod command {
    pub const ADD_ADDR: u8 = 1;
    pub const DEL_ADDR: u8 = 2;
    pub const GET_ADDR: u8 = 3;
    pub const SET_LIMITS: u8 = 5;
    pub const SET_FLAGS: u8 = 7;
    pub const ANNOUNCE: u8 = 8;
    pub const REMOVE: u8 = 9;
    pub const SUBFLOW_CREATE: u8 = 10;
    pub const SUBFLOW_DESTROY: u8 = 11;
}

/// Attributes of a command.
mod attr {
    pub const ADDR: u16 = 1;
    pub const RCV_ADD_ADDRS: u16 = 2;
    pub const SUBFLOWS: u16 = 3;
    pub const TOKEN: u16 = 4;
    pub const LOC_ID: u16 = 5;
    pub const ADDR_REMOTE: u16 = 6;
}

/// Attributes of an address.
mod addr {
    pub const FAMILY: u16 = 1;
    pub const ID: u16 = 2;
    pub const ADDR4: u16 = 3;
    pub const PORT: u16 = 5;
    pub const FLAGS: u16 = 6;
    pub const IF_IDX: u16 = 7;
}

/// Uses of an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct EndpointFlags {
    /// The peer is told of it (ADD_ADDR).
    pub signal: bool,
    /// Subflows are opened from it.
    pub subflow: bool,
    /// Its subflows send only while no other can.
    pub backup: bool,
    /// Subflows are opened from it to every address of the peer.
    pub fullmesh: bool,
}

/// A local address that MPTCP may use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Its number, 1 to 255; the kernel chooses when there is none.
    pub id: Option<u8>,
    /// The address.
    pub address: Ipv4Addr,
    /// The device, by its number, that its subflows are bound to.
    pub device: Option<u32>,
    /// Uses of the endpoint.
    pub flags: EndpointFlags,
}

/// The path management of the namespace in which it was opened. Needs `CAP_NET_ADMIN`.
pub struct PathManager {
    family: Family,
}

/// The family in which the kernel speaks of MPTCP, where it does.
pub(super) fn family() -> Result<Family, EmuError> {
    Family::open("mptcp_pm").map_err(|error| match error {
        EmuError::System { source, .. } if source.kind() == ErrorKind::NotFound => EmuError::Missing {
            what: "path management of MPTCP",
            source,
            remedy: "it needs a kernel with CONFIG_MPTCP",
        },
        other => other,
    })
}

impl EndpointFlags {
    const SIGNAL: u32 = 1;
    const SUBFLOW: u32 = 1 << 1;
    const BACKUP: u32 = 1 << 2;
    const FULLMESH: u32 = 1 << 3;

    fn bits(self) -> u32 {
        let bit = |set, bit| if set { bit } else { 0 };
        bit(self.signal, Self::SIGNAL)
            | bit(self.subflow, Self::SUBFLOW)
            | bit(self.backup, Self::BACKUP)
            | bit(self.fullmesh, Self::FULLMESH)
    }

    fn from_bits(bits: u32) -> Self {
        let has = |bit| bits & bit != 0;
        Self {
            signal: has(Self::SIGNAL),
            subflow: has(Self::SUBFLOW),
            backup: has(Self::BACKUP),
            fullmesh: has(Self::FULLMESH),
        }
    }
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.address)?;
        self.id.map_or(Ok(()), |id| write!(f, " (id {id})"))
    }
}

impl PathManager {
    /// Opens a socket in the calling thread's namespace.
    pub fn open() -> Result<Self, EmuError> {
        Ok(Self { family: family()? })
    }

    /// Bounds, per connection, the subflows beside the first, and the addresses of the peer that are accepted; at most
    /// 8 of each.
    pub fn set_limits(&self, subflows: u32, accepted_addresses: u32) -> Result<(), EmuError> {
        let limits = list([attribute(attr::RCV_ADD_ADDRS, accepted_addresses), attribute(attr::SUBFLOWS, subflows)]);
        self.call(command::SET_LIMITS, limits, "setting the limits of MPTCP")
    }

    /// Adds an endpoint.
    pub fn add_endpoint(&self, endpoint: &Endpoint) -> Result<(), EmuError> {
        let step = format_args!("adding the endpoint {endpoint}");
        self.call(command::ADD_ADDR, list([nested(attr::ADDR, endpoint.attributes())]), step)
    }

    /// Removes an endpoint, and closes its subflows. Id 0 is the address of a connection's first subflow, and the only
    /// one for which `address` counts.
    pub fn remove_endpoint(&self, id: u8, address: Ipv4Addr) -> Result<(), EmuError> {
        let mut attributes = ipv4(address);
        attributes.push(attribute(addr::ID, id));
        let step = format_args!("removing the endpoint {address} (id {id})");
        self.call(command::DEL_ADDR, list([nested(attr::ADDR, attributes)]), step)
    }

    /// Makes the subflows of an endpoint backups, or no backups, in every connection (MP_PRIO).
    ///
    /// The endpoint is found by its id if it has one, else by its address. Its `fullmesh` flag must be what the kernel
    /// has: the command sets both.
    pub fn set_backup(&self, endpoint: &Endpoint, backup: bool) -> Result<(), EmuError> {
        let flags = EndpointFlags { backup, fullmesh: endpoint.flags.fullmesh, ..Default::default() };
        // An id is heeded only in an address without a family.
        let mut attributes = match endpoint.id {
            Some(id) => list([attribute(addr::ID, id)]),
            None => ipv4(endpoint.address),
        };
        attributes.push(attribute(addr::FLAGS, flags.bits()));
        let step = format_args!("setting the priority of the endpoint {endpoint}");
        self.call(command::SET_FLAGS, list([nested(attr::ADDR, attributes)]), step)
    }

    /// The endpoints.
    pub fn endpoints(&self) -> Result<Vec<Endpoint>, EmuError> {
        let messages = self.family.dump(command::GET_ADDR).map_err(|refusal| refusal.of("listing the endpoints"))?;
        Ok(messages.iter().filter_map(|message| Endpoint::parse(message.attrs())).collect())
    }

    /// Tells the peer of a connection of an address (ADD_ADDR). The userspace path manager only, as all that follows.
    pub fn announce(&self, token: u32, id: u8, address: Ipv4Addr) -> Result<(), EmuError> {
        let flags = EndpointFlags { signal: true, ..Default::default() };
        let endpoint = Endpoint { id: Some(id), address, device: None, flags };
        let request = list([attribute(attr::TOKEN, token), nested(attr::ADDR, endpoint.attributes())]);
        self.call(command::ANNOUNCE, request, format_args!("announcing {endpoint}"))
    }

    /// Tells the peer that an address is no longer there (REMOVE_ADDR), and closes its subflows.
    pub fn withdraw(&self, token: u32, id: u8) -> Result<(), EmuError> {
        let request = list([attribute(attr::TOKEN, token), attribute(attr::LOC_ID, id)]);
        self.call(command::REMOVE, request, format_args!("withdrawing the address with id {id}"))
    }

    /// Opens a subflow of a connection (MP_JOIN) from an endpoint with an id; of its flags only `backup` counts.
    pub fn create_subflow(&self, token: u32, local: &Endpoint, remote: SocketAddrV4) -> Result<(), EmuError> {
        let flags = EndpointFlags { backup: local.flags.backup, ..Default::default() };
        let local = Endpoint { flags, ..*local };
        let request = subflow(token, local.attributes(), remote);
        self.call(command::SUBFLOW_CREATE, request, format_args!("opening a subflow from {local} to {remote}"))
    }

    /// Closes a subflow of a connection.
    pub fn destroy_subflow(&self, token: u32, local: SocketAddrV4, remote: SocketAddrV4) -> Result<(), EmuError> {
        let request = subflow(token, endpoint_of(local), remote);
        self.call(command::SUBFLOW_DESTROY, request, format_args!("closing the subflow from {local} to {remote}"))
    }

    /// Makes one subflow of a connection a backup, or no backup (MP_PRIO).
    pub fn set_subflow_backup(
        &self,
        token: u32,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        backup: bool,
    ) -> Result<(), EmuError> {
        let flags = EndpointFlags { backup, ..Default::default() };
        let mut attributes = endpoint_of(local);
        attributes.push(attribute(addr::FLAGS, flags.bits()));
        let step = format_args!("setting the priority of the subflow from {local} to {remote}");
        self.call(command::SET_FLAGS, subflow(token, attributes, remote), step)
    }

    fn call(&self, command: u8, attributes: Attributes, step: impl fmt::Display) -> Result<(), EmuError> {
        self.family.call(command, attributes).map_err(|refusal| refusal.of(step))
    }
}

impl Endpoint {
    fn attributes(&self) -> Attributes {
        let mut attributes = ipv4(self.address);
        attributes.push(attribute(addr::FLAGS, self.flags.bits()));
        if let Some(id) = self.id {
            attributes.push(attribute(addr::ID, id));
        }
        if let Some(device) = self.device {
            attributes.push(attribute(addr::IF_IDX, device));
        }
        attributes
    }

    /// `None` for an address of IPv6.
    fn parse(attributes: &Attributes) -> Option<Self> {
        let inside = generic::inside(attributes, attr::ADDR)?;
        Some(Self {
            id: value(&inside, addr::ID),
            address: value::<[u8; 4]>(&inside, addr::ADDR4)?.into(),
            device: value(&inside, addr::IF_IDX),
            flags: EndpointFlags::from_bits(value(&inside, addr::FLAGS).unwrap_or(0)),
        })
    }
}

fn subflow(token: u32, local: Attributes, remote: SocketAddrV4) -> Attributes {
    list([attribute(attr::TOKEN, token), nested(attr::ADDR, local), nested(attr::ADDR_REMOTE, endpoint_of(remote))])
}

fn endpoint_of(socket: SocketAddrV4) -> Attributes {
    let mut attributes = ipv4(*socket.ip());
    attributes.push(attribute(addr::PORT, socket.port()));
    attributes
}

fn ipv4(address: Ipv4Addr) -> Attributes {
    list([attribute(addr::FAMILY, libc::AF_INET as u16), attribute(addr::ADDR4, address.octets())])
}

fn list(attributes: impl IntoIterator<Item = neli::genl::Nlattr<u16, neli::types::Buffer>>) -> Attributes {
    attributes.into_iter().collect()
}
