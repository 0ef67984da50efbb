//! A UDP socket that never waits, or one for pings. `mio` tells once that datagrams came, so it is remembered here
//! until none is left.

use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use rustix::buffer::spare_capacity;
use rustix::net::sockopt::set_socket_recv_buffer_size;
#[cfg(target_os = "linux")]
use rustix::net::sockopt::{set_ip_recvtos, set_ip_tos, set_ipv6_recvtclass, set_ipv6_tclass};
use rustix::net::{RecvFlags, recvfrom};

use weftway_path::Span;

use crate::dscp::Dscp;

/// Address of every interface, of the family of `like`.
pub fn any_like(like: SocketAddr) -> IpAddr {
    if like.is_ipv4() { Ipv4Addr::UNSPECIFIED.into() } else { Ipv6Addr::UNSPECIFIED.into() }
}

/// A UDP socket.
#[derive(Debug)]
pub struct Udp {
    socket: UdpSocket,
    readable: bool,
}

impl Udp {
    /// Socket at `address`; a port of 0 is one that is free.
    pub fn bind(address: SocketAddr, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut socket = UdpSocket::bind(address)?;
        registry.register(&mut socket, token, Interest::READABLE)?;
        Ok(Self { socket, readable: true })
    }

    /// Has the kernel tell how datagrams that come are marked, and when they came, where it can.
    pub fn tell_marks(&self) {
        #[cfg(target_os = "linux")]
        let _ = nix::sys::socket::setsockopt(&self.socket, nix::sys::socket::sockopt::ReceiveTimestampns, &true);
        #[cfg(target_os = "linux")]
        let _ = match self.socket.local_addr() {
            Ok(SocketAddr::V4(_)) => set_ip_recvtos(&self.socket, true),
            // Those of IPv4 may come there, too.
            _ => set_ip_recvtos(&self.socket, true).and(set_ipv6_recvtclass(&self.socket, true)),
        };
    }

    /// Marks what is sent from now on, where the system can.
    pub fn mark(&self, mark: Dscp) {
        #[cfg(target_os = "linux")]
        let _ = match self.socket.local_addr() {
            Ok(SocketAddr::V4(_)) => set_ip_tos(&self.socket, mark.field()),
            _ => set_ipv6_tclass(&self.socket, mark.field().into()),
        };
        #[cfg(not(target_os = "linux"))]
        let _ = mark;
    }

    /// The next datagram, as [`Udp::receive`] has it. Its bytes are in `room`.
    pub fn receive_marked<'a>(&mut self, room: &'a mut MarkedRoom) -> Option<io::Result<Marked<'a>>> {
        if !self.readable {
            return None;
        }
        match room.receive(&self.socket) {
            Ok(Told { source, mark, waited, count }) => {
                let source = source.ok_or_else(|| io::ErrorKind::InvalidData.into());
                Some(source.map(|source| Marked { source, mark, waited, data: &room.bytes[..count] }))
            }
            Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                self.readable = false;
                None
            }
            Err(error) => Some(Err(error)),
        }
    }

    /// Has the kernel keep so many bytes that come until they are taken, or as many as it allows.
    pub fn keep(&self, bytes: usize) {
        // With fewer, more are dropped where the machine is busy.
        let _ = set_socket_recv_buffer_size(&self.socket, bytes);
    }

    /// Socket for echo requests and their replies, which the kernel gives to those whom `net.ipv4.ping_group_range`
    /// names. What it sends and brings are whole messages of ICMP; the kernel writes their identifiers and checksums.
    /// Of Linux only: other systems bring the header of IP too, and leave the identifiers.
    pub fn for_pings(is_v4: bool, registry: &Registry, token: Token) -> io::Result<Self> {
        let mut socket = ping_socket(is_v4)?;
        registry.register(&mut socket, token, Interest::READABLE)?;
        Ok(Self { socket, readable: true })
    }

    /// Address of it.
    pub fn address(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    /// Datagrams came.
    pub fn note(&mut self) {
        self.readable = true;
    }

    /// Puts the next datagram into `buffer`, which has room for each, instead of what it holds: where it came from.
    /// None if there is none. An error is one of an earlier datagram's, and says nothing of the next one.
    pub fn receive(&mut self, buffer: &mut Vec<u8>) -> Option<io::Result<SocketAddr>> {
        buffer.clear();
        if !self.readable {
            return None;
        }
        match recvfrom(&self.socket, spare_capacity(buffer), RecvFlags::empty()) {
            Ok((_, _, source)) => {
                let source = source.and_then(|source| SocketAddr::try_from(source).ok());
                Some(source.ok_or_else(|| io::ErrorKind::InvalidData.into()))
            }
            Err(error) if error == rustix::io::Errno::WOULDBLOCK => {
                self.readable = false;
                None
            }
            Err(error) => Some(Err(error.into())),
        }
    }

    /// Sends a datagram, or drops it: whether the kernel took it.
    pub fn send(&self, bytes: &[u8], to: SocketAddr) -> bool {
        self.socket.send_to(bytes, to).is_ok()
    }
}

/// No datagram waits longer in the kernel, as far as is believed.
#[cfg(target_os = "linux")]
const MOST_WAITED: Span = Span::from_secs(2);

/// Room for a datagram and its mark.
pub struct MarkedRoom {
    bytes: Vec<u8>,
    #[cfg(target_os = "linux")]
    control: Vec<u8>,
}

/// A datagram.
pub struct Marked<'a> {
    /// Where it came from.
    pub source: SocketAddr,
    /// Its mark, if the kernel tells it.
    pub mark: Dscp,
    /// How long it has waited in the kernel, if that tells it: this program may have had no turn for a while.
    pub waited: Span,
    /// Its data.
    pub data: &'a [u8],
}

/// What a call tells of a datagram; the number of its bytes.
struct Told {
    source: Option<SocketAddr>,
    mark: Dscp,
    waited: Span,
    count: usize,
}

impl MarkedRoom {
    /// Room for datagrams of so many bytes.
    pub fn new(bytes: usize) -> Self {
        Self {
            bytes: vec![0; bytes],
            #[cfg(target_os = "linux")]
            control: nix::cmsg_space!(u8, i32, nix::sys::time::TimeSpec),
        }
    }

    #[cfg(target_os = "linux")]
    fn receive(&mut self, socket: &UdpSocket) -> io::Result<Told> {
        use std::os::fd::AsRawFd;

        use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

        let parts = &mut [io::IoSliceMut::new(&mut self.bytes)];
        let fd = socket.as_raw_fd();
        let message = recvmsg::<SockaddrStorage>(fd, parts, Some(&mut self.control), MsgFlags::empty())?;
        let source = message.address.and_then(|address| {
            let v4 = address.as_sockaddr_in().map(|address| SocketAddr::from(std::net::SocketAddrV4::from(*address)));
            v4.or_else(|| Some(std::net::SocketAddrV6::from(*address.as_sockaddr_in6()?).into()))
        });
        let mut told = Told { source, mark: Dscp::NONE, waited: Span::ZERO, count: message.bytes };
        for one in message.cmsgs().into_iter().flatten() {
            match one {
                ControlMessageOwned::Ipv4Tos(field) => told.mark = Dscp::of_field(field),
                ControlMessageOwned::Ipv6TClass(field) => told.mark = Dscp::of_field(field as u8),
                ControlMessageOwned::ScmTimestampns(came) => told.waited = since(came.into()),
                _ => {}
            }
        }
        Ok(told)
    }

    #[cfg(not(target_os = "linux"))]
    fn receive(&mut self, socket: &UdpSocket) -> io::Result<Told> {
        let (count, _, source) = recvfrom(socket, &mut self.bytes[..], RecvFlags::empty())?;
        let source = source.and_then(|source| SocketAddr::try_from(source).ok());
        Ok(Told { source, mark: Dscp::NONE, waited: Span::ZERO, count })
    }
}

/// Time since the system's clock showed this. Whoever sets that clock meanwhile makes it wrong, but for one turn only.
#[cfg(target_os = "linux")]
fn since(clock: std::time::Duration) -> Span {
    let now = std::time::SystemTime::UNIX_EPOCH.elapsed().unwrap_or_default();
    Span::from_nanos(now.saturating_sub(clock).as_nanos().min(MOST_WAITED.as_nanos().into()) as u64)
}

#[cfg(target_os = "linux")]
fn ping_socket(is_v4: bool) -> io::Result<UdpSocket> {
    use rustix::net::{AddressFamily, SocketFlags, SocketType, ipproto, socket_with};

    let (family, protocol) =
        if is_v4 { (AddressFamily::INET, ipproto::ICMP) } else { (AddressFamily::INET6, ipproto::ICMPV6) };
    let flags = SocketFlags::NONBLOCK | SocketFlags::CLOEXEC;
    let socket = socket_with(family, SocketType::DGRAM, flags, Some(protocol))?;
    Ok(UdpSocket::from_std(std::net::UdpSocket::from(socket)))
}

#[cfg(not(target_os = "linux"))]
fn ping_socket(_: bool) -> io::Result<UdpSocket> {
    Err(io::ErrorKind::Unsupported.into())
}
