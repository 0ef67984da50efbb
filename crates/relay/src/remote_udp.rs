//! The datagrams of a client's program at the relay: each is sent to where it says, if that may be. What comes from
//! somewhere that the program has sent to goes back to it, and nothing else does.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use bytes::Bytes;
use mio::Registry;
use weftway_mux::{Mux, Read, StreamId};
use weftway_path::Instant;

use crate::boundary::Boundary;
use crate::classes::Class;
use crate::datagram::{DatagramCounts, Sent, read_marked};
use crate::flow::Turn;
use crate::limits::{BURST, FOUND, JUDGED, MOST_DESTINATIONS, MOST_NAMES, MOST_WAITING, NOT_FOUND};
use crate::names::Found;
use crate::pace::{Pace, Way};
use crate::pieces::Pieces;
use crate::recent::Recent;
use crate::refusal::{ABORTED, CONNECTED};
use crate::socket::token;
use crate::socks::put_address;
use crate::target::{Host, Target};
use crate::udp::Udp;

/// Purpose of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// They lead where each says.
    Plain,
    /// They are echo requests, without what the kernel writes: sequence number and data.
    Echo,
    /// They are questions to this server of names, wherever they say that they lead.
    Names(SocketAddr),
}

/// Addresses of a name, as far as they are known.
#[derive(Clone, Debug)]
enum Name {
    /// It is looked up, or waits for that.
    Asked,
    /// These are its addresses, until then: it is looked up again.
    Known(Vec<IpAddr>, Instant),
    /// It was not found, and is not looked up until then.
    NotFound(Instant),
}

/// A destination of the program's datagrams.
#[derive(Clone, Copy, Debug)]
struct Destination {
    /// The class of what was sent there last. What comes from there is of it, too.
    class: Class,
    /// The time until which datagrams may lead there, without another look.
    judged_until: Instant,
}

/// A datagram whose name is not known yet.
#[derive(Debug)]
struct Waiting {
    name: String,
    port: u16,
    class: Class,
    data: Bytes,
}

/// Way of datagrams: what they need beside themselves.
#[derive(Clone, Copy)]
pub struct Outside<'a> {
    /// Destinations that they may have.
    pub boundary: &'a Boundary,
    /// Registry of sockets.
    pub registry: &'a Registry,
    /// The entry.
    pub key: usize,
}

/// The datagrams of a client's program.
#[derive(Debug)]
pub struct RemoteUdp {
    id: StreamId,
    kind: Kind,
    /// True if the client knows that it may send.
    is_told: bool,
    /// Sockets of IPv4 and of IPv6, once something leads there.
    sockets: [Option<Udp>; 2],
    /// The destinations that the program has sent to.
    destinations: Recent<SocketAddr, Destination>,
    names: Recent<String, Name>,
    /// Names that are to be looked up, the longest first.
    wanted: VecDeque<String>,
    waiting: VecDeque<Waiting>,
    /// Length of a record.
    record: usize,
    pieces: Pieces,
    counts: DatagramCounts,
    /// The class of the last datagram that the program sent.
    class: Class,
    /// Bytes of data from the program, and to it.
    carried: [u64; 2],
}

impl RemoteUdp {
    /// Datagrams of stream `id`.
    pub fn new(id: StreamId, kind: Kind, record: usize) -> Self {
        Self {
            id,
            kind,
            is_told: false,
            sockets: [None, None],
            destinations: Recent::new(MOST_DESTINATIONS),
            names: Recent::new(MOST_NAMES),
            wanted: VecDeque::new(),
            waiting: VecDeque::new(),
            record,
            pieces: Pieces::default(),
            counts: DatagramCounts::default(),
            class: Class::Realtime,
            carried: [0; 2],
        }
    }

    /// Counters of datagrams.
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// The class of the last datagram that the program sent.
    pub fn class(&self) -> Class {
        self.class
    }

    /// Numbers of bytes of data from the program and to it.
    pub fn carried(&self) -> [u64; 2] {
        self.carried
    }

    /// Socket `number` has datagrams.
    pub fn note(&mut self, number: usize) {
        if let Some(Some(udp)) = self.sockets.get_mut(number) {
            udp.note();
        }
    }

    /// The next name that is to be looked up.
    pub fn wanted_name(&self) -> Option<&str> {
        self.wanted.front().map(String::as_str)
    }

    /// Takes note that [`RemoteUdp::wanted_name`] is looked up now.
    pub fn took_name(&mut self) {
        self.wanted.pop_front();
    }

    /// The client has sent a datagram. Whether one more name is to be looked up.
    pub fn up(&mut self, now: Instant, bytes: Bytes, outside: Outside<'_>) -> bool {
        let Some(bytes) = self.pieces.take(bytes) else { return false };
        let Some((class, Target { host, port }, data)) = read_marked(&bytes) else {
            self.counts.dropped += 1;
            return false;
        };
        self.class = class;
        if let Kind::Names(server) = self.kind {
            self.send_to(server, Destination { class, judged_until: now }, data, outside);
            return false;
        }
        let name = match host {
            Host::Address(ip) => {
                self.send(now, (&[ip], port), (class, data), outside);
                return false;
            }
            Host::Name(name) => name,
        };
        let is_asked = match self.names.get(&name).cloned() {
            Some(Name::Known(addresses, until)) if now < until => {
                self.send(now, (&addresses, port), (class, data), outside);
                return false;
            }
            Some(Name::NotFound(until)) if now < until => {
                self.counts.dropped += 1;
                return false;
            }
            Some(Name::Asked) => true,
            Some(Name::Known(..) | Name::NotFound(_)) | None => false,
        };
        if self.waiting.len() >= MOST_WAITING || !is_asked && self.wanted.len() >= MOST_NAMES {
            self.counts.dropped += 1;
            return false;
        }
        self.waiting.push_back(Waiting { name: name.clone(), port, class, data: bytes.slice_ref(data) });
        if !is_asked {
            self.names.insert(name.clone(), Name::Asked);
            self.wanted.push_back(name);
        }
        !is_asked
    }

    /// A name was looked up: those that waited for it go.
    pub fn found(&mut self, now: Instant, name: &str, found: Found, outside: Outside<'_>) {
        let addresses = match found {
            Found::Addresses { addresses, .. } => addresses,
            Found::Nothing | Found::Silence => vec![],
        };
        let mut left = VecDeque::new();
        for waiting in std::mem::take(&mut self.waiting) {
            if waiting.name == name {
                self.send(now, (&addresses, waiting.port), (waiting.class, &waiting.data), outside);
            } else {
                left.push_back(waiting);
            }
        }
        self.waiting = left;
        let known =
            if addresses.is_empty() { Name::NotFound(now + NOT_FOUND) } else { Name::Known(addresses, now + FOUND) };
        self.names.insert(name.to_owned(), known);
    }

    /// Sends a datagram to the first of `addresses` that may be, and that there is a route to.
    fn send(
        &mut self,
        now: Instant,
        (addresses, port): (&[IpAddr], u16),
        (class, data): (Class, &[u8]),
        outside: Outside<'_>,
    ) {
        for ip in addresses.iter().map(IpAddr::to_canonical) {
            let to = SocketAddr::new(ip, if self.kind == Kind::Echo { ECHO_PORT } else { port });
            let judged_until = match self.destinations.peek(&to) {
                Some(known) if now < known.judged_until => known.judged_until,
                _ if outside.boundary.may_dial(ip) => now + JUDGED,
                _ => continue,
            };
            if self.send_to(to, Destination { class, judged_until }, data, outside) {
                return;
            }
        }
        self.counts.dropped += 1;
    }

    /// Sends a datagram, whatever the policy says. True if the kernel took it.
    fn send_to(&mut self, to: SocketAddr, destination: Destination, data: &[u8], outside: Outside<'_>) -> bool {
        let kind = self.kind;
        let sent = self.socket(to.ip(), outside).is_some_and(|udp| match kind {
            Kind::Plain | Kind::Names(_) => udp.send(data, to),
            Kind::Echo => udp.send(&echo_request(to.ip(), data), SocketAddr::new(to.ip(), 0)),
        });
        if sent {
            self.destinations.insert(to, destination);
            self.counts.up += 1;
            self.carried[0] += data.len() as u64;
        }
        sent
    }

    /// The socket of the family of `ip`. None if no descriptor is left, or the machine does not know that family.
    fn socket(&mut self, ip: IpAddr, outside: Outside<'_>) -> Option<&Udp> {
        let (number, any): (usize, IpAddr) =
            if ip.is_ipv4() { (0, Ipv4Addr::UNSPECIFIED.into()) } else { (1, Ipv6Addr::UNSPECIFIED.into()) };
        let socket = &mut self.sockets[number];
        if socket.is_none() {
            let token = token(outside.key, number);
            let opened = match self.kind {
                Kind::Plain | Kind::Names(_) => Udp::bind((any, 0).into(), outside.registry, token),
                Kind::Echo => Udp::for_pings(ip.is_ipv4(), outside.registry, token),
            };
            *socket = opened.ok();
        }
        socket.as_ref()
    }

    /// Notes that a datagram is dropped because the client has sent too many.
    pub fn drop_one(&mut self) {
        self.counts.dropped += 1;
    }

    /// Takes what has come for the program, some of it.
    pub fn turn(&mut self, now: Instant, mux: &mut Mux, buffer: &mut Vec<u8>, pace: &mut Pace) -> Turn {
        match mux.read(self.id) {
            Ok(Read::Wait) => {}
            // The client ends it, or says what no client says.
            Ok(Read::Bytes(_) | Read::End) | Err(_) => {
                let _ = mux.reset(self.id, ABORTED);
                return Turn::Over;
            }
        }
        if !self.is_told {
            self.is_told = mux.write(now, self.id, Bytes::from_static(&[CONNECTED])) == Ok(1);
        }
        let mut more = false;
        for number in 0..self.sockets.len() {
            more |= (0..BURST).all(|_| self.down(now, number, mux, buffer, pace));
        }
        buffer.clear();
        if more { Turn::More } else { Turn::Idle }
    }

    /// Passes the next datagram of a socket on: false if there is none.
    fn down(&mut self, now: Instant, number: usize, mux: &mut Mux, buffer: &mut Vec<u8>, pace: &mut Pace) -> bool {
        let Some(received) = self.sockets[number].as_mut().and_then(|udp| udp.receive(buffer)) else { return false };
        // What tells of a datagram that did not arrive is in nobody's interest.
        let Ok(mut source) = received else { return true };
        if self.kind == Kind::Echo {
            source.set_port(ECHO_PORT);
            if !take_reply(buffer, source.ip()) {
                self.counts.dropped += 1;
                return true;
            }
        }
        let Some(&Destination { class, .. }) = self.destinations.peek(&source) else {
            self.counts.dropped += 1;
            return true;
        };
        if !pace.may_send(Way::ToClient, buffer.len()) {
            self.counts.dropped += 1;
            return true;
        }
        let mut bytes = Vec::with_capacity(32 + buffer.len());
        put_address(&mut bytes, source);
        bytes.extend_from_slice(buffer);
        let sent = self.pieces.send(now, mux, (self.id, self.record), class, bytes);
        self.counts.count(sent, |counts| &mut counts.down);
        if sent == Sent::Yes {
            self.carried[1] += buffer.len() as u64;
        }
        true
    }
}

/// The port that stands for echo requests where an address needs one: that of the service of this name.
pub const ECHO_PORT: u16 = 7;
/// Beginning of a message of ICMP before the sequence number: type, code, checksum, identifier.
const BEFORE_SEQUENCE: usize = 6;

/// An echo request (RFC 792, RFC 4443) with this sequence number and data. The kernel writes the identifier and the
/// checksum.
fn echo_request(to: IpAddr, data: &[u8]) -> Vec<u8> {
    let kind = if to.is_ipv4() { 8 } else { 128 };
    [&[kind, 0, 0, 0, 0, 0], data].concat()
}

/// Leaves the sequence number and data of an echo reply. Whether it is one.
fn take_reply(message: &mut Vec<u8>, from: IpAddr) -> bool {
    let kind = if from.is_ipv4() { 0 } else { 129 };
    let is_reply = message.starts_with(&[kind, 0]) && message.len() >= BEFORE_SEQUENCE + 2;
    message.drain(..BEFORE_SEQUENCE.min(message.len()));
    is_reply
}

#[cfg(test)]
mod tests {
    use weftway_mux::Side;

    use super::*;
    use crate::policy::Policy;
    use crate::socket::Poller;

    #[test]
    fn an_echo_request_and_its_reply_have_a_sequence_number_and_data() {
        let (v4, v6) = (IpAddr::from([192, 0, 2, 1]), IpAddr::from(Ipv6Addr::LOCALHOST));
        assert_eq!(echo_request(v4, &[0, 1, 9]), [8, 0, 0, 0, 0, 0, 0, 1, 9]);
        assert_eq!(echo_request(v6, &[0, 1, 9]), [128, 0, 0, 0, 0, 0, 0, 1, 9]);
        let taken = |message: &[u8], from| {
            let mut message = message.to_vec();
            take_reply(&mut message, from).then_some(message)
        };
        assert_eq!(taken(&[0, 0, 7, 7, 5, 5, 0, 1, 9], v4), Some(vec![0, 1, 9]));
        assert_eq!(taken(&[129, 0, 7, 7, 5, 5, 0, 1], v6), Some(vec![0, 1]));
        // A request, an error, one of the other family, and what is too short.
        for (message, from) in [
            (&[8, 0, 7, 7, 5, 5, 0, 1][..], v4),
            (&[3, 1, 7, 7, 0, 0, 0, 0], v4),
            (&[129, 0, 7, 7, 5, 5, 0, 1], v4),
            (&[0, 0, 7, 7, 5, 5, 0], v4),
            (&[], v6),
        ] {
            assert_eq!(taken(message, from), None);
        }
    }

    #[test]
    fn a_destination_is_judged_again_after_a_second() {
        let allow = |allowed: &[&str]| Boundary::new(Policy::parse(allowed, &[""; 0]).unwrap()).unwrap();
        let (open, closed) = (allow(&["127.0.0.0/8"]), allow(&[]));
        let (server, poller) = (std::net::UdpSocket::bind("127.0.0.1:0").unwrap(), Poller::new().unwrap());
        let mut datagram = vec![];
        put_address(&mut datagram, server.local_addr().unwrap());
        let mut udp = RemoteUdp::new(StreamId::new(Side::Connecting, 0), Kind::Plain, 1154);
        // Each time but the last the policy is another one than before: it counts once a second has passed.
        for (ms, boundary, up) in [(0, &open, 1), (999, &closed, 2), (1000, &closed, 2), (1001, &open, 3)] {
            let outside = Outside { boundary, registry: poller.registry(), key: 0 };
            udp.up(Instant::from_millis(ms), Bytes::copy_from_slice(&datagram), outside);
            assert_eq!(udp.counts().up, up, "{ms}");
        }
    }
}
