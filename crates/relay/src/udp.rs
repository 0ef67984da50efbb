//! A UDP socket that never waits, or one for pings. `mio` tells once that datagrams came, so it is remembered here
//! until none is left.

use std::io;
use std::net::SocketAddr;

use mio::net::UdpSocket;
use mio::{Interest, Registry, Token};
use rustix::buffer::spare_capacity;
use rustix::net::sockopt::set_socket_recv_buffer_size;
use rustix::net::{RecvFlags, recvfrom};

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
