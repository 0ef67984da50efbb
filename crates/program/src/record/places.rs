//! Sockets at interfaces and addresses, which `--path` names as in `weft send`.

use std::io::{self, IoSlice, IoSliceMut};
use std::net::{IpAddr, SocketAddr, SocketAddrV6, UdpSocket};
use std::os::fd::AsRawFd;
use std::time::Duration;

use nix::errno::Errno;
use nix::libc;
use nix::sys::socket::{
    ControlMessage, ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg, sendmsg, setsockopt, sockopt,
};
use rustix::time::{ClockId, clock_gettime};
use socket2::{Domain, Protocol, Socket, Type};

use super::wire::{Ns, SECOND_NS};
use crate::address;
use crate::failure::{Done, Failure, system_text};

/// Port beside that of `weft recv`.
pub const PORT: u16 = 4434;
/// Bytes that IP and UDP add to a packet over IPv6.
pub const IPV6_HEADER: usize = 48;
const IPV4_HEADER: usize = 28;

const BUFFER_BYTES: usize = 4 << 20;
/// Packets taken from one socket before the others have their turn.
const BATCH: usize = 256;
/// The kernel's time of a packet counts if it is at most this old: the clock on the wall may be set.
const OLDEST_NS: Ns = 10 * SECOND_NS;

/// Means by which an answer leaves from the address that was asked.
#[derive(Clone, Copy, Default)]
pub enum Back {
    /// No means: any address.
    #[default]
    Any,
    /// Over IPv4.
    V4(libc::in_pktinfo),
    /// Over IPv6.
    V6(libc::in6_pktinfo),
}

/// A packet.
pub struct Received {
    /// Its bytes.
    pub data: Vec<u8>,
    /// Time when the kernel got it.
    pub arrived_ns: Ns,
    /// Address where it came from.
    pub address: SocketAddr,
    /// Means to answer from where it went to.
    pub back: Back,
}

/// The time since this machine began.
pub fn now_ns() -> Ns {
    clock_ns(ClockId::Monotonic)
}

fn clock_ns(clock: ClockId) -> Ns {
    // Its nanoseconds are of 32 bits on some machines.
    Duration::try_from(clock_gettime(clock)).map_or(0, |now| now.as_nanos() as Ns)
}

/// Asks for more of the processor, which root is given: who sends late leaves links idle.
pub fn hurry() {
    let _ = rustix::process::setpriority_process(None, -10);
}

/// Bytes that IP and UDP add to a packet to or from this peer; IPv4's may come to a socket of both families.
pub fn header(peer: SocketAddr) -> usize {
    if peer.ip().to_canonical().is_ipv4() { IPV4_HEADER } else { IPV6_HEADER }
}

/// Addresses of `HOST[:PORT]`, best first.
pub fn addresses(text: &str) -> Done<Vec<SocketAddr>> {
    let (host, port) = address::split(text, PORT)?;
    address::resolve(host.as_deref().unwrap_or("localhost"), port)
}

/// A socket that sends over `path`, an interface or an address of this machine, and the peer's address for it.
pub fn at(path: &str, peers: &[SocketAddr]) -> Done<(UdpSocket, SocketAddr)> {
    let first = *peers.first().ok_or_else(|| Failure::input(format!("--path {path}: the peer has no address")))?;
    let Some(own) = own_address(path) else {
        let opened = opened(first).map_err(|error| cannot(path, &error))?;
        bind_device(&opened, path)?;
        return Ok((opened.into(), first));
    };
    let Some(peer) = peers.iter().find(|peer| peer.is_ipv4() == own.is_ipv4()) else {
        let version = if own.is_ipv4() { 4 } else { 6 };
        let text = format!("--path {path}: the peer, {}, has no address of that family (IPv{version})", first.ip());
        return Err(Failure::input(text));
    };
    let opened = opened(own).map_err(|error| cannot(path, &error))?;
    if opened.bind(&own.into()).is_err() {
        return Err(Failure::input(format!("--path {path}: no address of this machine; `weft doctor` lists them")));
    }
    Ok((opened.into(), *peer))
}

/// An address of this machine, of any port; one that is of a link alone names that, as in fe80::1%eth0.
fn own_address(path: &str) -> Option<SocketAddr> {
    match path.split_once('%') {
        Some((address, link)) => {
            let scope = nix::net::if_::if_nametoindex(link).ok().or_else(|| link.parse().ok())?;
            Some(SocketAddrV6::new(address.parse().ok()?, 0, 0, scope).into())
        }
        None => path.parse::<IpAddr>().ok().map(|own| SocketAddr::new(own, 0)),
    }
}

fn cannot(path: &str, error: &io::Error) -> Failure {
    Failure::input(format!("--path {path}: {}: give its address", system_text(error)))
}

#[cfg(target_os = "linux")]
fn bind_device(opened: &Socket, name: &str) -> Done {
    let listed = nix::net::if_::if_nameindex().map_err(|error| cannot(name, &error.into()))?;
    let known: Vec<_> = listed.iter().map(|one| one.name().to_string_lossy().into_owned()).collect();
    if !known.iter().any(|one| one == name) {
        let text = format!("--path {name}: there is no such interface; there is {}", known.join(", "));
        return Err(Failure::input(text));
    }
    opened.bind_device(Some(name.as_bytes())).map_err(|error| cannot(name, &error))
}

#[cfg(not(target_os = "linux"))]
fn bind_device(_: &Socket, name: &str) -> Done {
    Err(Failure::input(format!("--path {name}: only Linux binds a socket to an interface: give its address")))
}

/// A socket at `[ADDR:]PORT`.
pub fn listening(text: &str) -> Done<UdpSocket> {
    let (host, port) = address::split_listening(text, PORT)?;
    let own = address::resolve_first(host.as_deref().unwrap_or_else(|| address::all_addresses()), port)?;
    let bound = opened(own).and_then(|opened| {
        if host.is_none() && own.is_ipv6() {
            // Whatever the system's default is, it takes IPv4 as well.
            opened.set_only_v6(false)?;
        }
        opened.bind(&own.into())?;
        Ok(opened)
    });
    let bound = bound.map_err(|error| Failure::input(format!("--listen {text}: {}", system_text(&error))))?;
    ask_for_own_address(&bound, own);
    Ok(bound.into())
}

/// Lets each packet say to which address it was sent. Without that an answer leaves from any.
#[cfg(target_os = "linux")]
fn ask_for_own_address(opened: &Socket, own: SocketAddr) {
    let _ = match own {
        SocketAddr::V4(_) => setsockopt(opened, sockopt::Ipv4PacketInfo, &true),
        SocketAddr::V6(_) => setsockopt(opened, sockopt::Ipv6RecvPacketInfo, &true),
    };
}

#[cfg(not(target_os = "linux"))]
fn ask_for_own_address(_: &Socket, _: SocketAddr) {}

fn opened(like: SocketAddr) -> io::Result<Socket> {
    let opened = Socket::new(Domain::for_address(like), Type::DGRAM, Some(Protocol::UDP))?;
    opened.set_nonblocking(true)?;
    // The kernel gives what it allows; less only means more losses.
    let _ = opened.set_send_buffer_size(BUFFER_BYTES);
    let _ = opened.set_recv_buffer_size(BUFFER_BYTES);
    #[cfg(target_os = "linux")]
    let _ = setsockopt(&opened, sockopt::ReceiveTimestampns, &true);
    Ok(opened)
}

/// Takes what has come, up to a number of packets.
pub fn received(source: &UdpSocket) -> Vec<Received> {
    let behind_ns = clock_ns(ClockId::Realtime) - now_ns();
    let (mut data, mut extra) = ([0; 2048], nix::cmsg_space!(libc::timespec, libc::in6_pktinfo));
    let mut found = Vec::new();
    while found.len() < BATCH {
        // Nothing more; or an earlier packet found nobody (ICMP), which silence tells as well.
        match receive_one(source, &mut data, &mut extra, behind_ns) {
            Ok(one) => found.extend(one),
            Err(_) => break,
        }
    }
    found
}

fn receive_one(source: &UdpSocket, data: &mut [u8], extra: &mut [u8], behind_ns: Ns) -> nix::Result<Option<Received>> {
    let mut room = [IoSliceMut::new(data)];
    let told = recvmsg::<SockaddrStorage>(source.as_raw_fd(), &mut room, Some(extra), MsgFlags::empty())?;
    let (mut arrived_ns, mut back) = (now_ns(), Back::Any);
    let now = arrived_ns;
    for one in told.cmsgs().into_iter().flatten() {
        match one {
            #[cfg(target_os = "linux")]
            ControlMessageOwned::ScmTimestampns(at) => {
                let at = at.tv_sec() as Ns * SECOND_NS + at.tv_nsec() as Ns - behind_ns;
                if (now - OLDEST_NS..now).contains(&at) {
                    arrived_ns = at;
                }
            }
            #[cfg(target_os = "linux")]
            ControlMessageOwned::Ipv4PacketInfo(mut info) => {
                // The interface is left open; the address that was asked answers.
                (info.ipi_ifindex, info.ipi_addr.s_addr) = (0, 0);
                back = Back::V4(info);
            }
            #[cfg(target_os = "linux")]
            ControlMessageOwned::Ipv6PacketInfo(info) => back = Back::V6(info),
            _ => {}
        }
    }
    let (bytes, address) = (told.bytes, told.address.as_ref().and_then(socket_address));
    let data = data[..bytes].to_vec();
    Ok(address.map(|address| Received { data, arrived_ns, address, back }))
}

fn socket_address(address: &SockaddrStorage) -> Option<SocketAddr> {
    let v4 = address.as_sockaddr_in().map(|one| SocketAddr::V4((*one).into()));
    v4.or_else(|| address.as_sockaddr_in6().map(|one| SocketAddr::V6((*one).into())))
}

/// Sends; returns false if the socket has no room. What a link that is away does not take is lost, as on its way.
pub fn send(source: &UdpSocket, data: &[u8], address: SocketAddr, back: &Back) -> bool {
    let extra = match back {
        Back::Any => None,
        #[cfg(target_os = "linux")]
        Back::V4(info) => Some(ControlMessage::Ipv4PacketInfo(info)),
        #[cfg(target_os = "linux")]
        Back::V6(info) => Some(ControlMessage::Ipv6PacketInfo(info)),
        #[cfg(not(target_os = "linux"))]
        _ => None,
    };
    let (to, parts) = (SockaddrStorage::from(address), [IoSlice::new(data)]);
    let sent = sendmsg(source.as_raw_fd(), &parts, extra.as_slice(), MsgFlags::empty(), Some(&to));
    sent != Err(Errno::EAGAIN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_are_those_of_the_family_that_a_packet_takes() {
        let of = |text: &str| header(text.parse().unwrap());
        assert_eq!([of("192.0.2.1:1"), of("[::ffff:192.0.2.1]:1"), of("[2001:db8::1]:1")], [28, 28, 48]);
    }

    #[test]
    fn an_address_of_a_link_names_it() {
        assert_eq!(own_address("192.0.2.7"), "192.0.2.7:0".parse().ok());
        assert_eq!(own_address("fe80::1%7"), "[fe80::1%7]:0".parse().ok());
        assert_eq!((own_address("wlan0"), own_address("fe80::1%nowhere0")), (None, None));
    }

    #[test]
    fn an_answer_leaves_from_the_address_that_was_asked() {
        let listens = listening_at("0.0.0.0:0");
        let asks = UdpSocket::bind("127.0.0.1:0").unwrap();
        asks.send_to(b"who?", ("127.0.0.9", listens.local_addr().unwrap().port())).unwrap();
        let before = now_ns();
        let one = loop {
            if let Some(one) = received(&listens).pop() {
                break one;
            }
        };
        assert_eq!((&one.data[..], one.address), (&b"who?"[..], asks.local_addr().unwrap()));
        assert!((one.arrived_ns - before).abs() < SECOND_NS);
        assert!(send(&listens, b"me", one.address, &one.back));
        let mut data = [0; 10];
        let (_, from) = asks.recv_from(&mut data).unwrap();
        assert_eq!(from.ip().to_string(), "127.0.0.9");
    }

    fn listening_at(text: &str) -> UdpSocket {
        let own: SocketAddr = text.parse().unwrap();
        let opened = opened(own).unwrap();
        opened.bind(&own.into()).unwrap();
        ask_for_own_address(&opened, own);
        opened.into()
    }
}
