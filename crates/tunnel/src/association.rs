//! The datagrams of a local port, the echo requests of an identifier, or the questions of a port to a server of names:
//! they have a stream, as the datagrams of a program of `weft proxy` have. It lives as long as it is used.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use weftway_mux::{Mux, Read, StreamId};
use weftway_path::{Instant, Span};
use weftway_relay::parts::{
    ABORTED, ECHO_PORT, Pieces, Sent, Turn, WAIT_FOR_ANSWER, WAIT_FOR_STREAM, mark, put_address, read,
};
use weftway_relay::{
    Class, Classes, DEADLINE, DatagramCounts, Failure, FlowView, Host, Purpose, Refusal, Target, Transport,
};

use crate::device::Device;
use crate::packet::{self, Ends, Packet};
use crate::reply::{self, Unreachable};
use crate::stack::Outside;
use crate::tcp_flow::{Word, learn};

/// Number of packets that wait for a stream. Further ones are dropped.
const MOST_HELD: usize = 16;
/// Lifetime of a stream that is not used: that of questions, of echo requests, and of all else (RFC 4787, REQ-5).
const IDLE_NAMES: Span = Span::from_secs(10);
const IDLE_ECHO: Span = Span::from_secs(30);
const IDLE: Span = Span::from_secs(120);
/// The port of servers of names.
pub const NAMES_PORT: u16 = 53;

/// Owner of datagrams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Owner {
    /// A port of UDP.
    Port(SocketAddr),
    /// An identifier of echo requests.
    Ident(IpAddr, u16),
    /// Questions of a port to a server of names, which another one answers in its place: that one, or the relay's.
    Questions(Ends, Option<SocketAddr>),
    /// Nobody's yet: its stream is open before somebody needs it, and the first datagram does not wait for the relay's
    /// word. Each has a number.
    Spare(u64),
}

impl Owner {
    /// Target of their stream.
    pub fn purpose(&self) -> Purpose {
        match self {
            Self::Port(_) | Self::Questions(_, Some(_)) | Self::Spare(_) => Purpose::Datagrams,
            Self::Ident(..) => Purpose::Echo,
            Self::Questions(_, None) => Purpose::Names,
        }
    }
}

/// Stage.
#[derive(Debug)]
enum Stage {
    /// It waits for a stream.
    Waiting,
    /// It waits for the relay's word on its stream.
    Opening(StreamId),
    /// Its datagrams are carried.
    Open(StreamId),
    Over,
}

/// The datagrams of a local port.
#[derive(Debug)]
pub struct Association {
    owner: Owner,
    purpose: Purpose,
    stage: Stage,
    until: Instant,
    last_used: Instant,
    /// Packets that wait, and since when.
    held: Vec<(Instant, Vec<u8>)>,
    class: Class,
    pieces: Pieces,
    counts: DatagramCounts,
    carried: [u64; 2],
    refused: Option<Failure>,
}

/// Way of its datagrams: what they need beside themselves.
#[derive(Clone, Copy)]
pub struct DatagramRules<'a> {
    /// Length of a record.
    pub record: usize,
    /// Class of the datagrams.
    pub classes: &'a Classes,
}

impl Association {
    /// It begins now.
    pub fn new(now: Instant, owner: Owner) -> Self {
        Self {
            owner,
            purpose: owner.purpose(),
            stage: Stage::Waiting,
            until: now + WAIT_FOR_STREAM,
            last_used: now,
            held: Vec::new(),
            class: Class::Realtime,
            pieces: Pieces::default(),
            counts: DatagramCounts::default(),
            carried: [0; 2],
            refused: None,
        }
    }

    /// Association that is nobody's yet, for this.
    pub fn spare(now: Instant, number: u64, purpose: Purpose) -> Self {
        Self { purpose, ..Self::new(now, Owner::Spare(number)) }
    }

    /// If it is nobody's yet, it lives as long as if it were used now.
    pub fn keep_spare(&mut self, now: Instant) {
        if matches!(self.owner, Owner::Spare(_)) {
            self.last_used = now;
        }
    }

    /// Owner of datagrams.
    pub fn owner(&self) -> Owner {
        self.owner
    }

    /// Target of its stream.
    pub fn purpose(&self) -> &Purpose {
        &self.purpose
    }

    /// Returns true if its datagrams are carried.
    pub fn is_open(&self) -> bool {
        matches!(self.stage, Stage::Open(_))
    }

    /// It is somebody's now.
    pub fn give(&mut self, owner: Owner) {
        self.owner = owner;
    }

    /// Target and class of the stream that it waits for, if it does.
    pub fn wants(&self) -> Option<(&Purpose, Class)> {
        matches!(self.stage, Stage::Waiting).then_some((&self.purpose, Class::Realtime))
    }

    /// Its stream.
    pub fn stream(&self) -> Option<StreamId> {
        match self.stage {
            Stage::Opening(id) | Stage::Open(id) => Some(id),
            Stage::Waiting | Stage::Over => None,
        }
    }

    /// Instant of its last use.
    pub fn last_used(&self) -> Instant {
        self.last_used
    }

    /// View of it, if it is carried.
    pub fn view(&self) -> Option<FlowView<'_>> {
        match self.stage {
            Stage::Open(id) if !matches!(self.owner, Owner::Spare(_)) => {
                let view = FlowView::new(id, &self.purpose, self.class, self.carried);
                Some(FlowView { datagrams: self.counts, ..view })
            }
            _ => None,
        }
    }

    /// Counters of its datagrams.
    pub fn counts(&self) -> DatagramCounts {
        self.counts
    }

    /// Why it was refused, once.
    pub fn take_refused(&mut self) -> Option<Failure> {
        self.refused.take()
    }

    fn drop_late(&mut self, now: Instant) {
        let held = self.held.len();
        self.held.retain(|(since, _)| now.since(*since) <= DEADLINE);
        self.counts.late += (held - self.held.len()) as u64;
    }

    /// It has a stream now. Packets that have waited too long for it are dropped.
    pub fn open(&mut self, now: Instant, id: StreamId) {
        self.drop_late(now);
        self.stage = Stage::Opening(id);
        self.until = now + WAIT_FOR_ANSWER;
    }

    /// Instant of its next turn, whatever comes before.
    pub fn next_event(&self) -> Instant {
        match self.stage {
            Stage::Waiting | Stage::Opening(_) => self.until,
            Stage::Open(_) => self.last_used + self.idle(),
            Stage::Over => Instant::NEVER,
        }
    }

    fn idle(&self) -> Span {
        match self.owner {
            Owner::Port(_) | Owner::Spare(_) => IDLE,
            Owner::Ident(..) => IDLE_ECHO,
            Owner::Questions(..) => IDLE_NAMES,
        }
    }

    /// The program has sent this packet, which was read from `bytes`.
    pub fn up(
        &mut self,
        now: Instant,
        bytes: &[u8],
        packet: &Packet<'_>,
        mux: Option<&mut Mux>,
        how: DatagramRules<'_>,
    ) {
        self.last_used = now;
        if matches!(self.stage, Stage::Waiting) {
            self.drop_late(now);
        }
        match (&self.stage, mux) {
            (&Stage::Open(id), Some(mux)) => self.send(now, id, (bytes, packet), mux, how),
            (Stage::Waiting | Stage::Opening(_), _) if self.held.len() < MOST_HELD => {
                self.held.push((now, bytes.to_vec()))
            }
            _ => self.counts.no_room += 1,
        }
    }

    fn send(
        &mut self,
        now: Instant,
        id: StreamId,
        (bytes, packet): (&[u8], &Packet<'_>),
        mux: &mut Mux,
        how: DatagramRules<'_>,
    ) {
        let (to, data) = match *packet {
            Packet::Udp { ends, data } => (ends.server, data),
            Packet::Echo { server, data, .. } => (SocketAddr::new(server, ECHO_PORT), data),
            Packet::Tcp { .. } | Packet::Fragment(_) => return,
        };
        let to = match self.owner {
            Owner::Questions(_, Some(server)) => server,
            _ => to,
        };
        let target = Target { host: Host::Address(to.ip()), port: to.port() };
        self.class = how.classes.decide(Transport::Udp, &target, packet::mark(bytes)).class;
        let mut marked = Vec::with_capacity(32 + data.len());
        put_address(&mut marked, to);
        mark(&mut marked, self.class);
        marked.extend_from_slice(data);
        let sent = self.pieces.send(now, mux, (id, how.record), self.class, marked);
        self.counts.count(sent, |counts| &mut counts.up);
        if sent == Sent::Yes {
            self.carried[0] += data.len() as u64;
        }
    }

    /// The relay has sent a datagram.
    pub fn down<D: Device>(&mut self, now: Instant, bytes: Bytes, outside: &mut Outside<D>) {
        self.last_used = now;
        let Some(bytes) = self.pieces.take(bytes) else { return };
        let Some((Target { host: Host::Address(ip), port }, data)) = read(&bytes) else {
            self.counts.dropped += 1;
            return;
        };
        let packet = &mut outside.buffer;
        let is_one = match self.owner {
            Owner::Port(program) => reply::datagram(packet, SocketAddr::new(ip, port), program, data),
            Owner::Ident(program, ident) => reply::echo(packet, ip, program, ident, data),
            Owner::Questions(Ends { program, server }, _) => reply::datagram(packet, server, program, data),
            Owner::Spare(_) => false,
        };
        if is_one {
            outside.send();
            self.counts.down += 1;
            self.carried[1] += data.len() as u64;
        } else {
            self.counts.dropped += 1;
        }
    }

    /// It makes room for another one.
    pub fn end(&mut self, mux: Option<&mut Mux>) {
        if let (Some(id), Some(mux)) = (self.stream(), mux) {
            let _ = mux.reset(id, ABORTED);
        }
        self.stage = Stage::Over;
    }

    /// Does what can be done without waiting. What becomes of its stream needs the mux that this belongs to.
    pub fn turn<D: Device>(
        &mut self,
        now: Instant,
        mux: Option<&mut Mux>,
        how: DatagramRules<'_>,
        outside: &mut Outside<D>,
    ) -> Turn {
        let is_late = now >= self.next_event();
        let failure = match (&self.stage, mux) {
            (Stage::Over, _) => return Turn::Over,
            (Stage::Waiting, mux) if is_late => {
                if mux.is_some() {
                    Failure::NoStream
                } else {
                    Failure::NoConnection
                }
            }
            (&Stage::Opening(id), Some(mux)) if is_late => {
                let _ = mux.reset(id, ABORTED);
                Failure::NoAnswer
            }
            (&Stage::Opening(id), Some(mux)) => match learn(now, id, mux) {
                Word::None => return Turn::Idle,
                Word::Refused(failure) => failure,
                Word::Connected => {
                    self.stage = Stage::Open(id);
                    for (_, bytes) in std::mem::take(&mut self.held) {
                        if let Ok(packet) = crate::packet::read(&bytes) {
                            self.send(now, id, (&bytes, &packet), mux, how);
                        }
                    }
                    return Turn::Idle;
                }
            },
            (Stage::Open(_), mux) if is_late => {
                self.end(mux);
                return Turn::Over;
            }
            (&Stage::Open(id), Some(mux)) => {
                if matches!(mux.read(id), Ok(Read::Wait)) {
                    return Turn::Idle;
                }
                // The relay ends it, or says what no relay says.
                self.end(Some(mux));
                return Turn::Over;
            }
            _ => return Turn::Idle,
        };
        self.refused = Some(failure);
        self.refuse(failure, outside);
        Turn::Over
    }

    /// Tells the program of each packet that waits that it leads nowhere.
    fn refuse<D: Device>(&mut self, failure: Failure, outside: &mut Outside<D>) {
        let why = match failure {
            Failure::Refused(Refusal::Command | Refusal::NotAllowed) => Unreachable::Prohibited,
            Failure::Refused(Refusal::HostUnreachable) => Unreachable::Host,
            // There are too many, or the relay is away: they are lost.
            _ => return,
        };
        for (_, bytes) in std::mem::take(&mut self.held) {
            let ends = match crate::packet::read(&bytes) {
                Ok(Packet::Udp { ends, .. }) => (ends.server.ip(), ends.program.ip()),
                Ok(Packet::Echo { program, server, .. }) => (server, program),
                _ => continue,
            };
            if reply::unreachable(&mut outside.buffer, &bytes, ends, why) {
                outside.send();
            }
        }
    }
}
