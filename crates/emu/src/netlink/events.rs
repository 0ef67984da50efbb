//! Events of the MPTCP connections of a namespace: the kernel's messages to the group `mptcp_pm_events`.

use std::net::{Ipv4Addr, SocketAddrV4};
use std::os::fd::{AsFd, BorrowedFd};
use std::time::Duration;

use super::generic::{Attributes, Family, Message, value};
use super::mptcp;
use crate::EmuError;

const GROUP: &str = "mptcp_pm_events";

/// Bytes of messages that wait for their reader: some thousand events.
const CAPACITY: usize = 1 << 20;

mod attr {
    pub const TOKEN: u16 = 1;
    pub const LOC_ID: u16 = 3;
    pub const REM_ID: u16 = 4;
    pub const SADDR4: u16 = 5;
    pub const DADDR4: u16 = 7;
    pub const SPORT: u16 = 9;
    pub const DPORT: u16 = 10;
    pub const BACKUP: u16 = 11;
    pub const ERROR: u16 = 12;
    pub const IF_IDX: u16 = 15;
    pub const RESET_REASON: u16 = 16;
    pub const SERVER_SIDE: u16 = 18;
}

/// Kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PmEventKind {
    /// A connection began.
    Created,
    /// A connection can have further subflows.
    Established,
    /// A connection ended.
    Closed,
    /// The peer announced an address.
    Announced,
    /// The peer withdrew an address.
    Removed,
    /// A subflow was opened.
    SubflowEstablished,
    /// A subflow was closed.
    SubflowClosed,
    /// The peer made a subflow a backup, or no backup.
    SubflowPriority,
    /// A socket listens for connections, or for subflows at a port of their own.
    ListenerCreated,
    /// It no longer does.
    ListenerClosed,
    /// An event of a newer kernel, by its number.
    Other(u8),
}

/// An event. What the kernel says depends on the kind; the rest is `None`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PmEvent {
    /// Kind of the event.
    pub kind: PmEventKind,
    /// The connection, as this end names it.
    pub token: Option<u32>,
    /// The subflow's number of its address at this end.
    pub local_id: Option<u8>,
    /// The subflow's, or the announced address's, number at the other end.
    pub remote_id: Option<u8>,
    /// Address and port at this end.
    pub local: Option<SocketAddrV4>,
    /// Address and port at the other end; port 0 where an announcement names none.
    pub remote: Option<SocketAddrV4>,
    /// True if the subflow is a backup.
    pub backup: Option<bool>,
    /// Error number of the subflow's socket.
    pub error: Option<u8>,
    /// The device, by its number, that the subflow is bound to.
    pub device: Option<u32>,
    /// Reason of an MP_TCPRST that closed the subflow (RFC 8684 §3.6).
    pub reset_reason: Option<u32>,
    /// True if this end accepted the connection.
    pub server_side: Option<bool>,
}

/// The events of the namespace in which it was opened, from then on. Needs `CAP_NET_ADMIN`.
pub struct Events {
    family: Family,
}

impl Events {
    /// Subscribes in the calling thread's namespace.
    pub fn open() -> Result<Self, EmuError> {
        let family = mptcp::family()?;
        family.subscribe(GROUP, CAPACITY)?;
        Ok(Self { family })
    }

    /// The next event, if one comes within `timeout`; a timeout of zero does not wait, and a signal ends
    /// the wait.
    ///
    /// The error `ENOBUFS` says that events were lost because they were not read fast enough; those that follow are
    /// not.
    pub fn next(&self, timeout: Duration) -> Result<Option<PmEvent>, EmuError> {
        Ok(self.family.next(timeout)?.map(|message| PmEvent::parse(&message)))
    }
}

impl AsFd for Events {
    /// To wait for, beside others.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.family.as_fd()
    }
}

impl PmEventKind {
    fn from_command(command: u8) -> Self {
        match command {
            1 => Self::Created,
            2 => Self::Established,
            3 => Self::Closed,
            6 => Self::Announced,
            7 => Self::Removed,
            10 => Self::SubflowEstablished,
            11 => Self::SubflowClosed,
            13 => Self::SubflowPriority,
            15 => Self::ListenerCreated,
            16 => Self::ListenerClosed,
            other => Self::Other(other),
        }
    }
}

impl PmEvent {
    fn parse(message: &Message) -> Self {
        let attributes = message.attrs();
        Self {
            kind: PmEventKind::from_command(*message.cmd()),
            token: value(attributes, attr::TOKEN),
            local_id: value(attributes, attr::LOC_ID),
            remote_id: value(attributes, attr::REM_ID),
            local: address(attributes, attr::SADDR4, attr::SPORT),
            remote: address(attributes, attr::DADDR4, attr::DPORT),
            backup: value::<u8>(attributes, attr::BACKUP).map(|backup| backup != 0),
            error: value(attributes, attr::ERROR),
            device: value(attributes, attr::IF_IDX),
            reset_reason: value(attributes, attr::RESET_REASON),
            server_side: value::<u8>(attributes, attr::SERVER_SIDE).map(|server| server != 0),
        }
    }
}

/// Ports come in network byte order.
fn address(attributes: &Attributes, address: u16, port: u16) -> Option<SocketAddrV4> {
    let address: Ipv4Addr = value::<[u8; 4]>(attributes, address)?.into();
    let port = value(attributes, port).map_or(0, u16::from_be_bytes);
    Some(SocketAddrV4::new(address, port))
}
