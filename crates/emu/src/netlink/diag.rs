//! The sockets of a namespace, as `ss -ti` shows them: `sock_diag(7)`.

use std::io::Cursor;
use std::net::{Ipv4Addr, SocketAddrV4};

use neli::attr::Attribute;
use neli::consts::socket::NlFamily;
use neli::types::Buffer;
use neli::{FromBytesWithInput, ToBytes};
use weftway_path::Bytes;

use super::TcpInfo;
use super::generic::{Attributes, attribute, find, inside, value};
use super::socket::Socket;
use crate::EmuError;

/// `SOCK_DIAG_BY_FAMILY` of `linux/sock_diag.h`.
const BY_FAMILY: u16 = 20;

/// Lengths of `struct inet_diag_req_v2` and `struct inet_diag_msg`.
const REQUEST: usize = 56;
const MESSAGE: usize = 72;

/// Attribute of a request: a protocol whose number does not fit into eight bits.
const REQ_PROTOCOL: u16 = 3;
const IPPROTO_MPTCP: u32 = 262;

/// Attributes of an answer; the first two have to be asked for.
mod attr {
    pub const INFO: u16 = 2;
    pub const CONG: u16 = 4;
    pub const ULP_INFO: u16 = 19;
    /// Within the former.
    pub const ULP_INFO_MPTCP: u16 = 3;
}

/// Attributes of a subflow, `linux/mptcp.h`.
mod sub {
    pub const TOKEN_REM: u16 = 1;
    pub const TOKEN_LOC: u16 = 2;
    pub const MAP_SEQ: u16 = 4;
    pub const FLAGS: u16 = 8;
    pub const ID_REM: u16 = 9;
    pub const ID_LOC: u16 = 10;
}

/// An established TCP connection: a subflow of MPTCP, or plain TCP.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SubflowInfo {
    /// Address and port at this end.
    pub local: SocketAddrV4,
    /// Address and port at the other end.
    pub remote: SocketAddrV4,
    /// Index of the device that the socket is bound to; 0 for none.
    pub interface: u32,
    /// The socket's inode.
    pub inode: u32,
    /// Bytes that wait for an acknowledgement, or to be sent.
    pub send_queue: Bytes,
    /// The congestion controller's name.
    pub controller: String,
    /// Information of TCP on itself.
    pub tcp: TcpInfo,
    /// Information of MPTCP on it; `None` for plain TCP.
    pub mptcp: Option<MptcpSubflow>,
}

/// Information of MPTCP on a subflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct MptcpSubflow {
    /// The connection, as this end names it: the same in all its subflows. `None` without `CAP_NET_ADMIN`.
    pub token_loc: Option<u32>,
    /// The connection, as the other end names it; `None` or 0 where this end has no use for it.
    pub token_rem: Option<u32>,
    /// Data sequence number of the mapping that is being received.
    pub map_seq: Option<u64>,
    /// Number of the address at this end.
    pub id_loc: u8,
    /// Number of the address at the other end.
    pub id_rem: u8,
    /// Kind of the subflow.
    pub flags: SubflowFlags,
}

/// `MPTCP_SUBFLOW_FLAG_*` of `linux/mptcp.h`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub struct SubflowFlags(u32);

/// An MPTCP connection, the socket that the application has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Address and port at this end, of the first subflow.
    pub local: SocketAddrV4,
    /// Address and port at the other end, of the first subflow.
    pub remote: SocketAddrV4,
    /// The socket's inode.
    pub inode: u32,
    /// The connection, as this end names it.
    pub token: u32,
    /// Subflows beside the first.
    pub extra_subflows: u8,
    /// It has become plain TCP (RFC 8684 §3.7).
    pub fallback: bool,
}

/// The sockets of the namespace in which it was opened.
pub struct Diagnosis {
    socket: Socket,
}

/// The established TCP connections of the calling thread's namespace.
pub fn diagnose() -> Result<Vec<SubflowInfo>, EmuError> {
    Diagnosis::open()?.subflows()
}

impl SubflowFlags {
    /// The peer asked that it be a backup.
    pub fn backup_rem(self) -> bool {
        self.0 & 1 << 4 != 0
    }

    /// This end asked that it be a backup.
    pub fn backup_loc(self) -> bool {
        self.0 & 1 << 5 != 0
    }

    /// It joined a connection, from whichever side.
    pub fn joined(self) -> bool {
        self.0 & (1 << 2 | 1 << 3) != 0
    }

    /// The bits, as the kernel has them.
    pub fn bits(self) -> u32 {
        self.0
    }
}

impl Diagnosis {
    /// Opens a socket in the calling thread's namespace.
    pub fn open() -> Result<Self, EmuError> {
        Ok(Self { socket: Socket::open(NlFamily::SockOrInetDiag)? })
    }

    /// The established TCP connections over IPv4, subflows of MPTCP among them.
    pub fn subflows(&self) -> Result<Vec<SubflowInfo>, EmuError> {
        let answers = self.socket.dump(BY_FAMILY, request(libc::IPPROTO_TCP as u8, &Attributes::new()));
        let answers = answers.map_err(|refusal| refusal.of("listing the TCP connections"))?;
        Ok(answers.iter().filter_map(SubflowInfo::parse).collect())
    }

    /// A connection that is bound to no device; `None` where it does not exist. The kernel finds it by its hash, where
    /// a list costs it a walk through the hash table.
    pub fn subflow(&self, local: SocketAddrV4, remote: SocketAddrV4) -> Result<Option<SubflowInfo>, EmuError> {
        self.subflow_bound(local, remote, 0)
    }

    /// As [`subflow`](Self::subflow), of a connection that is bound to the device with the index `interface`. The
    /// kernel finds a bound socket under its device only, and one that is not bound under any.
    pub fn subflow_bound(
        &self,
        local: SocketAddrV4,
        remote: SocketAddrV4,
        interface: u32,
    ) -> Result<Option<SubflowInfo>, EmuError> {
        match self.socket.get(BY_FAMILY, exact_request(local, remote, interface)) {
            Ok(answer) => Ok(SubflowInfo::parse(&answer)),
            Err(refusal) if refusal.is_absence() => Ok(None),
            Err(refusal) => Err(refusal.of(format_args!("looking up the connection from {local} to {remote}"))),
        }
    }

    /// The established MPTCP connections over IPv4.
    pub fn connections(&self) -> Result<Vec<ConnectionInfo>, EmuError> {
        let protocol = [attribute(REQ_PROTOCOL, IPPROTO_MPTCP)].into_iter().collect();
        let answers = self.socket.dump(BY_FAMILY, request(libc::IPPROTO_RAW as u8, &protocol));
        let answers = answers.map_err(|refusal| refusal.of("listing the MPTCP connections"))?;
        Ok(answers.iter().filter_map(ConnectionInfo::parse).collect())
    }
}

impl SubflowInfo {
    fn parse(answer: &Buffer) -> Option<Self> {
        let (Head { local, remote, interface, inode, send_queue }, attributes) = split(answer)?;
        let tcp = TcpInfo::parse(find(&attributes, attr::INFO)?.payload().as_ref());
        let controller = find(&attributes, attr::CONG).and_then(|name| name.get_payload_as_with_len().ok());
        let ulp = inside(&attributes, attr::ULP_INFO);
        let mptcp = ulp.and_then(|ulp| inside(&ulp, attr::ULP_INFO_MPTCP)).map(|subflow| MptcpSubflow::parse(&subflow));
        let controller = controller.unwrap_or_default();
        Some(Self { local, remote, interface, inode, send_queue, controller, tcp, mptcp })
    }
}

impl MptcpSubflow {
    fn parse(attributes: &Attributes) -> Self {
        Self {
            token_loc: value(attributes, sub::TOKEN_LOC),
            token_rem: value(attributes, sub::TOKEN_REM),
            map_seq: value(attributes, sub::MAP_SEQ),
            id_loc: value(attributes, sub::ID_LOC).unwrap_or(0),
            id_rem: value(attributes, sub::ID_REM).unwrap_or(0),
            flags: SubflowFlags(value(attributes, sub::FLAGS).unwrap_or(0)),
        }
    }
}

impl ConnectionInfo {
    /// Reads three fields of `struct mptcp_info`: the subflows, the flags and the token.
    fn parse(answer: &Buffer) -> Option<Self> {
        let (Head { local, remote, inode, .. }, attributes) = split(answer)?;
        let info = find(&attributes, attr::INFO)?.payload().as_ref();
        let token = u32::from_ne_bytes(array(info, 12)?);
        let flags = u32::from_ne_bytes(array(info, 8)?);
        Some(Self { local, remote, inode, token, extra_subflows: info[0], fallback: flags & 1 != 0 })
    }
}

/// Used part of `struct inet_diag_msg`.
struct Head {
    local: SocketAddrV4,
    remote: SocketAddrV4,
    interface: u32,
    inode: u32,
    send_queue: Bytes,
}

/// A list of established connections.
fn request(protocol: u8, attributes: &Attributes) -> Buffer {
    let mut cursor = Cursor::new(header(protocol).to_vec());
    cursor.set_position(REQUEST as u64);
    attributes.to_bytes(&mut cursor).expect("memory does not refuse");
    cursor.into_inner().into()
}

/// Request for one connection of TCP.
fn exact_request(local: SocketAddrV4, remote: SocketAddrV4, interface: u32) -> Buffer {
    let mut bytes = header(libc::IPPROTO_TCP as u8);
    bytes[8..10].copy_from_slice(&local.port().to_be_bytes());
    bytes[10..12].copy_from_slice(&remote.port().to_be_bytes());
    bytes[12..16].copy_from_slice(&local.ip().octets());
    bytes[28..32].copy_from_slice(&remote.ip().octets());
    bytes[44..48].copy_from_slice(&interface.to_ne_bytes());
    bytes[48..56].fill(0xff); // Any cookie.
    bytes.to_vec().into()
}

/// `struct inet_diag_req_v2`: established connections over IPv4, with what [`attr`] asks for.
fn header(protocol: u8) -> [u8; REQUEST] {
    const ESTABLISHED: u32 = 1 << 1;
    let mut bytes = [0; REQUEST];
    bytes[0] = libc::AF_INET as u8;
    bytes[1] = protocol;
    bytes[2] = 1 << (attr::INFO - 1) | 1 << (attr::CONG - 1);
    bytes[4..8].copy_from_slice(&ESTABLISHED.to_ne_bytes());
    bytes
}

/// The fixed part of an answer and its attributes; `None` where it is too short.
fn split(answer: &Buffer) -> Option<(Head, Attributes)> {
    let bytes = answer.as_ref();
    let mut rest = Cursor::new(bytes.get(MESSAGE..)?);
    let attributes = Attributes::from_bytes_with_input(&mut rest, bytes.len() - MESSAGE).ok()?;
    let socket = |port, address| {
        let address: Ipv4Addr = array::<4>(bytes, address)?.into();
        Some(SocketAddrV4::new(address, u16::from_be_bytes(array(bytes, port)?)))
    };
    let number = |at| array(bytes, at).map(u32::from_ne_bytes);
    let send_queue = Bytes::new(number(60)?.into());
    let (local, remote) = (socket(4, 8)?, socket(6, 24)?);
    Some((Head { local, remote, interface: number(40)?, inode: number(68)?, send_queue }, attributes))
}

fn array<const N: usize>(bytes: &[u8], at: usize) -> Option<[u8; N]> {
    bytes.get(at..at + N)?.try_into().ok()
}
