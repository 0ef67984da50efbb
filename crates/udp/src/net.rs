//! The sockets of one end, and noq's endpoint behind them.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::BorrowedFd;
use std::time::{Duration, Instant as StdInstant};

use bytes::BytesMut;
use noq_proto::{DatagramEvent, EcnCodepoint, Endpoint, FourTuple};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;
use weftway_path::{Instant, Span};

use crate::moderation::Moderation;
use crate::settings::ETHERNET_PAYLOAD;
use crate::socket::{Inbox, Local, Received, Socket};
use weftway_quic::driver::connection::{Clock, QuicConnection};

/// A datagram, with the addresses by which noq knows its path.
#[derive(Debug)]
pub struct Arrival {
    /// Both addresses.
    pub route: FourTuple,
    /// Marks.
    pub ecn: Option<EcnCodepoint>,
    /// The datagram.
    pub bytes: BytesMut,
}

/// Datagrams of one call, one by one.
#[derive(Debug)]
struct Pending {
    route: FourTuple,
    ecn: Option<EcnCodepoint>,
    stride: usize,
    bytes: BytesMut,
}

/// Sockets, endpoint and clock.
pub struct Net {
    /// noq's endpoint.
    pub endpoint: Endpoint,
    sockets: Vec<Socket>,
    clock: Clock,
    /// True if sockets are named to noq by [`Net::name`].
    named: bool,
    /// At which socket datagrams for an address arrive, where sockets are not named.
    origins: Vec<(IpAddr, usize)>,
    inbox: Inbox,
    pending: VecDeque<Pending>,
    response: Vec<u8>,
    /// Instant at which interfaces that were gone are looked for.
    revive_at: Instant,
    meters: Vec<Meter>,
    moderation: Moderation,
    /// Datagrams that were given to sockets since these were looked at.
    sent: usize,
    /// Which sockets may have datagrams, as [`Net::wait`] found; empty if it was not asked.
    readable: Vec<bool>,
}

/// Bytes that a socket has carried, in both directions, with IP and UDP headers.
#[derive(Clone, Copy, Debug)]
struct Meter {
    carried: u64,
    /// Beyond it nothing is sent.
    limit: u64,
    /// IP and UDP.
    headers: u64,
}

impl Meter {
    fn of(socket: &Socket) -> Self {
        Self { carried: 0, limit: u64::MAX, headers: if socket.address().is_ipv4() { 28 } else { 48 } }
    }
}

/// Interval in which they are looked for.
const REVIVE: Span = Span::from_secs(1);

impl Net {
    /// The end that connects to one of `remotes`. Each of `locals` has a socket for each of their address families, if
    /// it is no address of the other one.
    pub fn client(endpoint: Endpoint, locals: &[Local], remotes: &[SocketAddr]) -> io::Result<Self> {
        let mut families: Vec<IpAddr> = Vec::new();
        for remote in remotes {
            if families.iter().all(|family| family.is_ipv4() != remote.is_ipv4()) {
                families.push(remote.ip());
            }
        }
        let mut opened = Opened::default();
        for local in locals {
            for family in families.iter().filter(|family| local.reaches(**family)) {
                opened.open(local, 0, *family)?;
            }
        }
        if opened.sockets.is_empty() && opened.missing.is_empty() {
            let (own, their) = if families.iter().any(IpAddr::is_ipv4) { ("IPv6", "IPv4") } else { ("IPv4", "IPv6") };
            let why = format!("every --path is an {own} address, and the other end has {their} addresses only");
            return Err(io::Error::new(io::ErrorKind::InvalidInput, why));
        }
        Self::new(endpoint, opened, true)
    }

    /// The end that listens at `address`, or at its port on each of `locals`.
    pub fn server(endpoint: Endpoint, locals: &[Local], address: SocketAddr) -> io::Result<Self> {
        let any = if address.ip().is_unspecified() { Local::Any } else { Local::Address(address.ip()) };
        let locals = if locals.is_empty() { std::slice::from_ref(&any) } else { locals };
        let mut opened = Opened { port: address.port(), ..Opened::default() };
        for local in locals {
            opened.open(local, opened.port, address.ip())?;
        }
        Self::new(endpoint, opened, false)
    }

    /// Paths that are not there yet are looked for, if there is another one.
    fn new(endpoint: Endpoint, opened: Opened, named: bool) -> io::Result<Self> {
        let Opened { mut sockets, missing, port } = opened;
        if !sockets.iter().any(Socket::is_bound)
            && let Some(error) = missing.into_iter().next()
        {
            return Err(error);
        }
        if !named {
            // All sockets of an end that listens have one port, also those that are bound later.
            sockets.iter_mut().for_each(|socket| socket.await_port(port));
        }
        Ok(Self {
            endpoint,
            meters: sockets.iter().map(Meter::of).collect(),
            sockets,
            clock: Clock::new(StdInstant::now()),
            named,
            origins: Vec::new(),
            inbox: Inbox::default(),
            pending: VecDeque::new(),
            response: Vec::new(),
            revive_at: Instant::ZERO,
            moderation: Moderation::default(),
            sent: 0,
            readable: Vec::new(),
        })
    }

    /// Note for the user about paths that are not there yet.
    pub fn missing(&self) -> Option<String> {
        let missing = self.sockets.iter().filter(|socket| !socket.is_bound());
        let mut names: Vec<String> = missing.map(|socket| socket.local().to_string()).collect();
        names.dedup();
        let names = names.join(", ");
        (!names.is_empty()).then(|| format!("not there yet: path {names}; it is used as soon as it is there"))
    }

    /// The sockets.
    pub fn sockets(&self) -> &[Socket] {
        &self.sockets
    }

    /// Both clocks.
    pub fn clock(&self) -> Clock {
        self.clock
    }

    /// The time.
    pub fn now(&self) -> Instant {
        self.clock.ours(StdInstant::now())
    }

    /// The addresses of the paths to `remote`: each begins at a socket of its address family. Beside them whether it
    /// can be used now.
    pub fn routes(&self, remote: SocketAddr) -> Vec<(FourTuple, bool)> {
        let sockets = self.sockets.iter().enumerate();
        let same = sockets.filter(|(_, socket)| socket.address().is_ipv4() == remote.is_ipv4());
        same.map(|(at, socket)| (FourTuple::new(remote, Some(Self::name(at, remote))), socket.is_bound())).collect()
    }

    /// The most bytes that a packet to `remote` may have for every path to carry it, as far as the interfaces of this
    /// machine tell.
    pub fn largest_payload(&self, remote: SocketAddr) -> u16 {
        let same = |socket: &&Socket| socket.is_bound() && socket.address().is_ipv4() == remote.is_ipv4();
        let sockets = self.sockets.iter().filter(same);
        sockets
            .map(|socket| socket.largest_payload(remote).unwrap_or(ETHERNET_PAYLOAD))
            .min()
            .unwrap_or(ETHERNET_PAYLOAD)
    }

    /// Local end of a path, where sockets are named.
    pub fn local(&self, route: FourTuple) -> Option<&Local> {
        let named = (0..self.sockets.len()).find(|&at| Some(Self::name(at, route.remote())) == route.local_ip());
        named.filter(|_| self.named).map(|at| self.sockets[at].local())
    }

    /// Address of socket `at` for noq. It never leaves this machine.
    fn name(at: usize, remote: SocketAddr) -> IpAddr {
        let number = at as u16 + 1;
        if remote.is_ipv4() {
            let [high, low] = number.to_be_bytes();
            Ipv4Addr::new(127, 255, high, low).into()
        } else {
            Ipv6Addr::new(0xfd00, 0, 0, 0, 0, 0, 0, number).into()
        }
    }

    /// The next datagram that has arrived.
    pub fn next_arrival(&mut self) -> Option<Arrival> {
        let pending = self.pending.front_mut()?;
        let size = pending.stride.min(pending.bytes.len());
        let bytes = pending.bytes.split_to(size);
        let arrival = Arrival { route: pending.route, ecn: pending.ecn, bytes };
        if pending.bytes.is_empty() {
            self.pending.pop_front();
        }
        Some(arrival)
    }

    /// While much is carried, sockets are looked at once in a while, which is a part of the round trip `trip`, and what
    /// comes waits until then ([`Moderation`]). Zero: they are looked at as soon as there is something.
    pub fn moderate(&mut self, trip: Span) {
        self.moderation.set_trip(trip);
    }

    /// Takes in what sockets have received: those that have anything as [`Net::wait`] found, with one call for each.
    /// Datagrams of one path follow each other, so that one packet acknowledges them. Whether anything came.
    pub fn receive(&mut self) -> bool {
        let now = self.now();
        if self.revive_at <= now {
            self.revive_at = now + REVIVE;
            self.sockets.iter_mut().for_each(Socket::revive);
        }
        let (mut received, mut has_more) = (0, false);
        for (at, socket) in self.sockets.iter().enumerate() {
            if self.readable.get(at) == Some(&false) {
                continue;
            }
            let (pending, origins, named) = (&mut self.pending, &mut self.origins, self.named);
            let meter = &mut self.meters[at];
            has_more |= self.inbox.receive(socket, |Received { from, at: own, ecn, stride, bytes }| {
                if bytes.is_empty() {
                    return;
                }
                let datagrams = bytes.len().div_ceil(stride);
                received += datagrams;
                meter.carried += bytes.len() as u64 + datagrams as u64 * meter.headers;
                let local = if named { Some(Self::name(at, from)) } else { own };
                if let Some(local) = local.filter(|local| !named && !origins.contains(&(*local, at))) {
                    origins.push((local, at));
                }
                let ecn = ecn.and_then(|mark| EcnCodepoint::from_bits(mark as u8));
                let route = FourTuple::new(from, local);
                let last = pending.iter().rposition(|other| other.route == route);
                let place = last.map_or(pending.len(), |last| last + 1);
                pending.insert(place, Pending { route, ecn, stride, bytes });
            });
        }
        self.readable.clear();
        self.moderation.on_look(now, received.max(std::mem::take(&mut self.sent)), has_more);
        !self.pending.is_empty()
    }

    /// Gives a datagram to noq. What it answers outside of connections leaves at once.
    pub fn handle(&mut self, now: Instant, arrival: Arrival) -> Option<DatagramEvent> {
        self.response.clear();
        let Arrival { route, ecn, bytes } = arrival;
        let event = self.endpoint.handle(self.clock.theirs(now), route, ecn, bytes, &mut self.response);
        match event {
            Some(DatagramEvent::Response(transmit)) => {
                let response = std::mem::take(&mut self.response);
                self.respond(&transmit, &response);
                self.response = response;
                None
            }
            event => event,
        }
    }

    /// Sends what noq answers outside of a connection.
    pub fn respond(&mut self, transmit: &noq_proto::Transmit, bytes: &[u8]) {
        self.push(transmit.destination, transmit.src_ip, false, &bytes[..transmit.size]);
    }

    fn push(&mut self, to: SocketAddr, own: Option<IpAddr>, ecn: bool, datagram: &[u8]) {
        let socket = match own {
            Some(own) if self.named => (0..self.sockets.len()).find(|&at| Self::name(at, to) == own),
            Some(own) => self.origins.iter().rev().find(|(address, _)| *address == own).map(|&(_, at)| at),
            None => None,
        };
        let from = own.filter(|_| !self.named);
        let at = socket.unwrap_or(0);
        if let (Some(socket), Some(meter)) = (self.sockets.get_mut(at), self.meters.get_mut(at)) {
            let bytes = datagram.len() as u64 + meter.headers;
            if meter.carried + bytes <= meter.limit {
                meter.carried += bytes;
                self.sent += 1;
                socket.push(to, from, ecn, datagram);
            }
        }
    }

    /// Bytes that the sockets at `local` have sent and received so far, with IP and UDP headers.
    pub fn carried(&self, local: &Local) -> u64 {
        let own = self.sockets.iter().zip(&self.meters).filter(|(socket, _)| socket.local() == local);
        own.map(|(_, meter)| meter.carried).sum()
    }

    /// The sockets at `local` send nothing beyond `limit` of what they carry.
    pub fn set_limit(&mut self, local: &Local, limit: u64) {
        let all = self.carried(local);
        for (socket, meter) in self.sockets.iter().zip(&mut self.meters) {
            if socket.local() == local {
                meter.limit = meter.carried + limit.saturating_sub(all);
            }
        }
    }

    /// Sends what `connection` has in its outgoing queue.
    pub fn send(&mut self, connection: &mut QuicConnection) {
        while let Some(out) = connection.outgoing.pop_front() {
            self.push(out.route.remote(), out.route.local_ip(), out.ecn, &out.bytes);
            connection.recycle(out.bytes);
        }
        self.flush();
    }

    /// Sends everything.
    pub fn flush(&mut self) {
        self.sockets.iter_mut().for_each(Socket::flush);
    }

    /// Waits until a datagram comes, a socket takes more, `waker` is readable, or it is `until`.
    pub fn wait(&mut self, until: Instant, waker: Option<BorrowedFd<'_>>) {
        if !self.sockets.iter().any(Socket::is_blocked) {
            let pause = until.min(self.moderation.next_look()).since(self.now());
            if !pause.is_zero() {
                std::thread::sleep(Duration::from_nanos(pause.as_nanos()));
            }
        }
        let span = Duration::from_nanos(until.since(self.now()).as_nanos()).min(Duration::from_millis(500));
        let flags = |socket: &Socket| {
            if socket.is_blocked() { PollFlags::IN | PollFlags::OUT } else { PollFlags::IN }
        };
        let fds = self.sockets.iter().filter_map(|socket| Some(PollFd::from_borrowed_fd(socket.fd()?, flags(socket))));
        let mut fds: Vec<PollFd<'_>> = fds.chain(waker.map(|fd| PollFd::from_borrowed_fd(fd, PollFlags::IN))).collect();
        let timeout = Timespec::try_from(span).ok();
        self.readable.clear();
        // A signal ends the wait early, which does no harm: then all are asked.
        if poll(&mut fds, timeout.as_ref()).is_ok() {
            let mut told = fds.iter().map(|fd| !fd.revents().is_empty());
            // One that is not there yet may be when it is asked.
            let readable = self.sockets.iter().map(|socket| socket.fd().is_none() || told.next().unwrap_or(true));
            self.readable.extend(readable);
        }
    }
}

/// Sockets on their way into a [`Net`].
#[derive(Default)]
struct Opened {
    sockets: Vec<Socket>,
    /// Errors of sockets whose interface or address is not there, or whose address family the kernel does not have.
    missing: Vec<io::Error>,
    /// The port of the first one.
    port: u16,
}

impl Opened {
    fn open(&mut self, local: &Local, port: u16, like: IpAddr) -> io::Result<()> {
        let error = match Socket::open(local, port, like) {
            Ok(socket) => {
                self.port = socket.address().port();
                self.sockets.push(socket);
                return Ok(());
            }
            Err(error) => error,
        };
        let errno = error.raw_os_error().map(Errno::from_raw_os_error);
        let place = match local {
            _ if port == 0 => format!("path {local}"),
            Local::Any => format!("UDP port {port}"),
            Local::Address(address) => format!("UDP {}", SocketAddr::new(*address, port)),
            Local::Device(name) => format!("UDP port {port} at {name}"),
        };
        let more = if errno == Some(Errno::ADDRINUSE) { ": another program has it, name another port" } else { "" };
        let explained = io::Error::new(error.kind(), format!("{place}: {error}{more}"));
        match errno {
            Some(Errno::NODEV | Errno::ADDRNOTAVAIL) => self.sockets.push(Socket::awaiting(local, port, like)),
            Some(Errno::AFNOSUPPORT) => {}
            _ => return Err(explained),
        }
        self.missing.push(explained);
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::net::UdpSocket;
    use std::sync::Arc;

    use noq_proto::EndpointConfig;

    use super::*;

    fn endpoint() -> Endpoint {
        Endpoint::new(Arc::new(EndpointConfig::default()), None, true)
    }

    fn peer() -> UdpSocket {
        UdpSocket::bind("127.0.0.1:0").unwrap()
    }

    /// The first bytes of the datagrams that one look brings.
    fn look(net: &mut Net) -> Vec<u8> {
        net.receive();
        std::iter::from_fn(|| net.next_arrival()).map(|arrival| arrival.bytes[0]).collect()
    }

    fn soon(net: &Net) -> Instant {
        net.now() + Span::from_secs(60)
    }

    #[test]
    fn datagrams_of_one_path_follow_each_other() {
        let mut net = Net::server(endpoint(), &[], ([127, 0, 0, 1], 0).into()).unwrap();
        let (to, peers) = (net.sockets()[0].address(), [peer(), peer()]);
        for byte in 0..6 {
            peers[usize::from(byte) % 2].send_to(&[byte], to).unwrap();
        }
        net.wait(soon(&net), None);
        assert_eq!(look(&mut net), [0, 2, 4, 1, 3, 5]);
    }

    #[test]
    fn sockets_that_have_nothing_are_not_asked() {
        let local = Local::Address(Ipv4Addr::LOCALHOST.into());
        let mut net = Net::client(endpoint(), &[local.clone(), local], &[([127, 0, 0, 1], 9).into()]).unwrap();
        let (peer, [first, second]) = (peer(), [0, 1].map(|at| net.sockets()[at].address()));
        peer.send_to(&[1], first).unwrap();
        net.wait(soon(&net), None);
        // Whoever asks the second one, too, finds this.
        peer.send_to(&[2], second).unwrap();
        assert_eq!(look(&mut net), [1]);
        net.wait(soon(&net), None);
        assert_eq!(look(&mut net), [2]);
        // Nobody has waited: all are asked.
        peer.send_to(&[3], second).unwrap();
        assert_eq!(look(&mut net), [3]);
    }
}
