//! UDP socket of one path: its local end, what it receives, what it sends.
//!
//! Datagrams of one size that follow each other leave in one call (UDP_SEGMENT) and arrive in one (UDP_GRO), where the
//! kernel has it. What the kernel does not take yet waits in the socket's backlog, as it would in a device's queue.

use std::collections::VecDeque;
use std::fmt;
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, BorrowedFd};

use bytes::BytesMut;
use noq_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::io::Errno;
#[cfg(target_os = "linux")]
use rustix::net::sockopt;
use serde::Serialize;
use socket2::{Domain, Protocol, Type};

use crate::batch::Batch;

/// Bytes of buffers that are asked of the kernel for each socket: a window of 100 Mbit/s and 300 ms. It may give less.
const BUFFER: usize = 4 << 20;
/// Batches that may wait for a device. Beyond, they are dropped as by a full queue.
const BACKLOG: usize = 256;

/// Abilities of sockets.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
pub struct Sockets {
    /// Datagrams in one call to the kernel (UDP_SEGMENT); 1: it has no such thing.
    pub send_segments: usize,
    /// Datagrams that come in one call (UDP_GRO); 1: it has no such thing.
    pub receive_segments: usize,
    /// Bytes that the kernel gives of the receive buffer that is asked for.
    pub receive_buffer: usize,
    /// Bytes that are asked for.
    pub receive_buffer_wanted: usize,
}

/// Local end of a path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Local {
    /// Wherever the kernel routes it.
    Any,
    /// At this address.
    Address(IpAddr),
    /// At this interface (SO_BINDTODEVICE), whatever its address is.
    Device(String),
}

impl Local {
    /// An address, or the name of an interface.
    pub fn parse(text: &str) -> Self {
        text.parse().map_or_else(|_| Self::Device(text.to_owned()), Self::Address)
    }
}

impl Local {
    /// Returns true if it leads to addresses of this family.
    pub fn reaches(&self, remote: IpAddr) -> bool {
        match self {
            Self::Address(own) => own.is_ipv4() == remote.is_ipv4(),
            Self::Any | Self::Device(_) => true,
        }
    }
}

impl fmt::Display for Local {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Any => f.write_str("any"),
            Self::Address(address) => address.fmt(f),
            Self::Device(name) => f.write_str(name),
        }
    }
}

/// Socket that the kernel gave.
#[derive(Debug)]
struct Bound {
    socket: UdpSocket,
    state: UdpSocketState,
}

/// A socket.
#[derive(Debug)]
pub struct Socket {
    /// None: its interface or address is not there yet.
    bound: Option<Bound>,
    local: Local,
    /// Interface or address to which it is bound, or will be.
    address: SocketAddr,
    backlog: VecDeque<Batch>,
    /// Batch that is being put together.
    open: Option<Batch>,
    spare: Vec<Vec<u8>>,
    /// Its interface is gone. One that comes back under the same name is another one to the kernel.
    lost: bool,
    /// Batches that the kernel refused, or that found the backlog full.
    pub dropped: u64,
}

/// Datagrams that arrived in one call.
#[derive(Debug)]
pub struct Received {
    /// Address of the sender.
    pub from: SocketAddr,
    /// At which address.
    pub at: Option<IpAddr>,
    /// Marks.
    pub ecn: Option<EcnCodepoint>,
    /// The size of each datagram but the last.
    pub stride: usize,
    /// All of them.
    pub bytes: BytesMut,
}

impl Socket {
    /// A socket that begins at `local`, for `port` or any port if it is 0. `like` has the peer's address family.
    pub fn open(local: &Local, port: u16, like: IpAddr) -> io::Result<Self> {
        let mut socket = Self::awaiting(local, port, like);
        socket.bind()?;
        Ok(socket)
    }

    /// Socket that is bound once its interface or address is there: see [`Socket::revive`].
    pub fn awaiting(local: &Local, port: u16, like: IpAddr) -> Self {
        let any = if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() };
        let own = match local {
            Local::Address(address) => *address,
            Local::Any | Local::Device(_) => any,
        };
        let address = SocketAddr::new(own, port);
        let (backlog, local) = (VecDeque::new(), local.clone());
        Self { bound: None, local, address, backlog, open: None, spare: Vec::new(), lost: false, dropped: 0 }
    }

    /// It takes this port when it is bound.
    pub(super) fn await_port(&mut self, port: u16) {
        if !self.is_bound() {
            self.address.set_port(port);
        }
    }

    fn bind(&mut self) -> io::Result<()> {
        let socket = socket2::Socket::new(Domain::for_address(self.address), Type::DGRAM, Some(Protocol::UDP))?;
        if let Local::Device(name) = &self.local {
            bind_device(&socket, name)?;
        }
        if self.address == SocketAddr::new(Ipv6Addr::UNSPECIFIED.into(), self.address.port()) {
            // Whatever the system's default is, one that is bound to all addresses takes IPv4 as well.
            socket.set_only_v6(false)?;
        }
        socket.bind(&self.address.into())?;
        let socket = UdpSocket::from(socket);
        let state = UdpSocketState::new((&socket).into())?;
        // The kernel gives what it allows; less only means more losses.
        let _ = state.set_send_buffer_size((&socket).into(), BUFFER);
        let _ = state.set_recv_buffer_size((&socket).into(), BUFFER);
        self.address = socket.local_addr()?;
        (self.bound, self.lost) = (Some(Bound { socket, state }), false);
        Ok(())
    }

    /// Local end.
    pub fn local(&self) -> &Local {
        &self.local
    }

    /// Its own address.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Returns true if its interface and its address were there.
    pub fn is_bound(&self) -> bool {
        self.bound.is_some()
    }

    /// For waiting.
    pub fn fd(&self) -> Option<BorrowedFd<'_>> {
        self.bound.as_ref().map(|bound| bound.socket.as_fd())
    }

    /// The most bytes that a datagram to `remote` may have for this machine's interfaces to send it in one piece.
    pub fn largest_payload(&self, remote: SocketAddr) -> io::Result<u16> {
        let socket = socket2::Socket::new(Domain::for_address(self.address), Type::DGRAM, Some(Protocol::UDP))?;
        if let Local::Device(name) = &self.local {
            bind_device(&socket, name)?;
        }
        socket.bind(&SocketAddr::new(self.address.ip(), 0).into())?;
        socket.connect(&remote.into())?;
        mtu(&socket, remote.is_ipv4())
    }

    /// Returns true if anything waits for room in the kernel.
    pub fn is_blocked(&self) -> bool {
        !self.backlog.is_empty()
    }

    /// Work that the kernel does for it.
    pub fn abilities(&self) -> io::Result<Sockets> {
        // Linux tells twice what it gives: its own book-keeping counts (socket(7)).
        let doubled = if cfg!(target_os = "linux") { 2 } else { 1 };
        let bound = self.bound.as_ref().ok_or(io::ErrorKind::NotConnected)?;
        Ok(Sockets {
            send_segments: self.segments(),
            receive_segments: bound.state.gro_segments().get(),
            receive_buffer: bound.state.recv_buffer_size((&bound.socket).into())? / doubled,
            receive_buffer_wanted: BUFFER,
        })
    }

    /// Number of datagrams that one call sends.
    pub fn segments(&self) -> usize {
        self.bound.as_ref().map_or(1, |bound| bound.state.max_gso_segments().get())
    }

    /// Adds a datagram to what is to be sent.
    pub fn push(&mut self, to: SocketAddr, from: Option<IpAddr>, ecn: bool, datagram: &[u8]) {
        let ecn = ecn.then_some(EcnCodepoint::Ect0);
        let transmit = Transmit { destination: to, ecn, contents: datagram, segment_size: None, src_ip: from };
        let segments = self.segments();
        match &mut self.open {
            Some(open) if open.takes(&transmit, segments) => open.push(datagram),
            _ => {
                self.finish_batch();
                self.open = Some(Batch::new(&transmit, self.spare.pop().unwrap_or_default()));
            }
        }
    }

    /// Binds to an interface or address that was gone or not there yet, if it is there now.
    pub fn revive(&mut self) {
        if !self.lost && self.is_bound() {
            return;
        }
        let mut socket = Self::awaiting(&self.local, self.address.port(), self.address.ip());
        if socket.bind().is_ok() {
            *self = Self { dropped: self.dropped, ..socket };
        }
    }

    fn finish_batch(&mut self) {
        let Some(batch) = self.open.take() else { return };
        if self.backlog.len() < BACKLOG {
            self.backlog.push_back(batch);
        } else {
            self.dropped += 1;
            self.recycle(batch);
        }
        if self.backlog.len() == 1 {
            self.drain();
        }
    }

    fn recycle(&mut self, batch: Batch) {
        self.spare.push(batch.into_room());
    }

    /// Sends everything that was added, as far as the kernel takes it.
    pub fn flush(&mut self) {
        self.finish_batch();
        self.drain();
    }

    fn drain(&mut self) {
        while let Some(batch) = self.backlog.pop_front() {
            match self.transmit(&batch) {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    self.backlog.push_front(batch);
                    return;
                }
                // A path that is gone is found out by its silence; an oversized probe of the MTU is lost, as it should.
                Err(error) => {
                    self.dropped += 1;
                    match error.raw_os_error().map(Errno::from_raw_os_error) {
                        Some(Errno::NODEV) => self.lost = true,
                        Some(Errno::INVAL) => self.forget_refusals(),
                        _ => {}
                    }
                }
                Ok(()) => {}
            }
            self.recycle(batch);
        }
    }

    /// The kernel refuses in the same way (EINVAL) what goes to or from an address that cannot be, and segments and
    /// marks that it does not know. noq-udp uses neither of these any more after the first refusal.
    fn forget_refusals(&mut self) {
        if let Some(bound) = &mut self.bound
            && let Ok(state) = UdpSocketState::new((&bound.socket).into())
        {
            bound.state = state;
        }
    }

    fn transmit(&self, batch: &Batch) -> io::Result<()> {
        // What would take a path that is not there is lost.
        let Some(bound) = &self.bound else { return Ok(()) };
        let send = |transmit: &Transmit<'_>| bound.state.try_send((&bound.socket).into(), transmit);
        let whole = batch.transmit();
        match (send(&whole), whole.segment_size) {
            // The device cannot segment: noq-udp has noted it.
            (Err(error), Some(size)) if error.kind() != io::ErrorKind::WouldBlock => {
                let single = |contents| Transmit { contents, segment_size: None, ..whole.clone() };
                whole.contents.chunks(size).try_for_each(|datagram| send(&single(datagram)))
            }
            (result, _) => result,
        }
    }
}

/// Room for what one call receives, shared by all sockets.
pub struct Inbox {
    buffers: Vec<Vec<u8>>,
    meta: Vec<RecvMeta>,
    /// Memory for what each buffer brought, used again when nobody has a part of it any more: the allocator gives so
    /// much memory back to the kernel each time, and fresh pages cost more than the copy.
    rooms: Vec<BytesMut>,
}

/// Bytes that a buffer may hold.
const ROOM: usize = 1 << 16;
/// Bytes below which a datagram has memory of its own. A connection may keep a part of a datagram, and all of the
/// memory with it.
const LARGE: usize = ROOM / 4;

impl Default for Inbox {
    fn default() -> Self {
        Self {
            buffers: vec![vec![0; ROOM]; BATCH_SIZE],
            meta: vec![RecvMeta::default(); BATCH_SIZE],
            rooms: vec![BytesMut::new(); BATCH_SIZE],
        }
    }
}

impl Inbox {
    /// Receives from `socket` into `into`; returns true if there may be more.
    pub fn receive(&mut self, socket: &Socket, mut into: impl FnMut(Received)) -> bool {
        let mut slices = self.buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut slices: [IoSliceMut<'_>; BATCH_SIZE] =
            std::array::from_fn(|_| slices.next().unwrap_or_else(|| IoSliceMut::new(&mut [])));
        let Some(bound) = &socket.bound else { return false };
        // Errors here are those of earlier datagrams that found no receiver (ICMP): silence tells the same.
        let received = bound.state.recv((&bound.socket).into(), &mut slices, &mut self.meta);
        let Ok(count) = received else { return false };
        for ((meta, buffer), room) in self.meta.iter().zip(&self.buffers).zip(&mut self.rooms).take(count) {
            let datagrams = &buffer[..meta.len];
            let bytes = if meta.len < LARGE {
                BytesMut::from(datagrams)
            } else {
                room.reserve(ROOM);
                room.extend_from_slice(datagrams);
                room.split()
            };
            into(Received { from: meta.addr, at: meta.dst_ip, ecn: meta.ecn, stride: meta.stride.max(1), bytes });
        }
        count == BATCH_SIZE
    }
}

/// Bytes that a packet on the way of a connected socket may have, without headers.
#[cfg(target_os = "linux")]
fn mtu(socket: &socket2::Socket, is_ipv4: bool) -> io::Result<u16> {
    let (mtu, headers) = if is_ipv4 { (sockopt::ip_mtu(socket)?, 28) } else { (sockopt::ipv6_mtu(socket)?, 48) };
    Ok(u16::try_from(mtu.saturating_sub(headers)).unwrap_or(u16::MAX))
}

#[cfg(not(target_os = "linux"))]
fn mtu(_: &socket2::Socket, _: bool) -> io::Result<u16> {
    Err(io::ErrorKind::Unsupported.into())
}

#[cfg(target_os = "linux")]
fn bind_device(socket: &socket2::Socket, name: &str) -> io::Result<()> {
    socket.bind_device(Some(name.as_bytes()))
}

#[cfg(not(target_os = "linux"))]
fn bind_device(_: &socket2::Socket, _: &str) -> io::Result<()> {
    Err(io::Error::new(io::ErrorKind::Unsupported, "only Linux binds a socket to an interface: give its address"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Nobody has port 0. The kernel refuses it as it refuses what it does not know (EINVAL).
    #[test]
    fn an_address_that_cannot_be_answered_spoils_nothing() {
        let local = Local::Address(Ipv4Addr::LOCALHOST.into());
        let mut socket = Socket::open(&local, 0, Ipv4Addr::LOCALHOST.into()).unwrap();
        let peer = Socket::open(&local, 0, Ipv4Addr::LOCALHOST.into()).unwrap();
        let segments = socket.segments();
        for to in [([127, 0, 0, 1], 0).into(), peer.address()] {
            socket.push(to, None, true, &[7; 100]);
            socket.flush();
        }
        assert_eq!((socket.dropped, socket.segments()), (1, segments));
        let (mut inbox, mut marks) = (Inbox::default(), Vec::new());
        while marks.is_empty() {
            inbox.receive(&peer, |received| marks.push(received.ecn));
        }
        assert_eq!(marks, [Some(EcnCodepoint::Ect0)]);
    }

    #[test]
    fn what_is_held_stays_as_it_came_and_other_memory_is_used_again() {
        let local = Local::Address(Ipv4Addr::LOCALHOST.into());
        let socket = Socket::open(&local, 0, Ipv4Addr::LOCALHOST.into()).unwrap();
        let peer = UdpSocket::bind("127.0.0.1:0").unwrap();
        let mut inbox = Inbox::default();
        let mut exchange = |byte: u8, bytes: usize| {
            peer.send_to(&vec![byte; bytes], socket.address()).unwrap();
            let mut received = None;
            while received.is_none() {
                inbox.receive(&socket, |arrived| received = Some(arrived.bytes));
            }
            received.unwrap()
        };
        let held = exchange(1, LARGE + 3);
        let other = exchange(2, LARGE + 5);
        assert!(held == vec![1; LARGE + 3] && other == vec![2; LARGE + 5]);
        let place = other.as_ptr();
        drop(other);
        let third = exchange(3, LARGE);
        assert_eq!(third.as_ptr(), place);
        assert!(held == vec![1; LARGE + 3] && third == vec![3; LARGE]);
        // A small one does not hold on to the memory of a large one.
        let small = exchange(4, LARGE - 1);
        assert_eq!((small.len(), small.capacity()), (LARGE - 1, LARGE - 1));
    }
}
