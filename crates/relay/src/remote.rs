//! A stream of a client at the relay: its host is looked up and dialled, and then its bytes are carried.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use mio::Registry;
use mio::event::Event;
use weftway_mux::{Mux, StreamId};
use weftway_path::Instant;

use crate::classes::Class;
use crate::client::ClientId;
use crate::datagram::DatagramCounts;
use crate::dial::{Dial, Dialled};
use crate::flow::{Flow, Turn};
use crate::limits::DIAL;
use crate::pace::Pace;
use crate::policy::Policy;
use crate::refusal::{CONNECTED, Refusal};
use crate::remote_udp::{Kind, Outside, RemoteUdp};
use crate::socket::Socket;
use crate::target::{Host, Purpose, Target};
use crate::view::FlowView;

/// How far it has come.
enum Stage {
    /// This name is looked up, or waits for that.
    Name(String),
    /// It is dialled.
    Dial(Dial),
    /// It leads nowhere.
    Refused(Refusal),
    /// Its bytes are carried.
    Joined(Socket, Flow),
    /// Its datagrams are carried.
    Associated(Box<RemoteUdp>),
}

/// A stream at the relay.
pub struct Remote {
    client: ClientId,
    id: StreamId,
    purpose: Purpose,
    class: Class,
    port: u16,
    stage: Stage,
    /// When it must be connected.
    by: Instant,
}

impl Remote {
    /// A stream of `client` that was just accepted, to `target`.
    pub fn new(
        now: Instant,
        client: ClientId,
        (id, class): (StreamId, Class),
        target: Target,
        policy: &Policy,
    ) -> Self {
        let port = target.port;
        let stage = match &target.host {
            Host::Name(name) => Stage::Name(name.clone()),
            Host::Address(address) => to(vec![SocketAddr::new(*address, port)], policy),
        };
        Self { client, id, purpose: Purpose::Connection(target), class, port, stage, by: now + DIAL }
    }

    /// The same to the relay's own server of names, whatever the policy says.
    pub fn to_name_server(now: Instant, client: ClientId, (id, class): (StreamId, Class), server: SocketAddr) -> Self {
        let (port, stage) = (server.port(), Stage::Dial(Dial::new(vec![server])));
        Self { client, id, purpose: Purpose::NamesByTcp, class, port, stage, by: now + DIAL }
    }

    /// The same for datagrams of this kind, in records of `record` bytes.
    pub fn for_datagrams(client: ClientId, id: StreamId, kind: Kind, record: usize) -> Self {
        let stage = Stage::Associated(Box::new(RemoteUdp::new(id, kind, record)));
        let purpose = match kind {
            Kind::Plain => Purpose::Datagrams,
            Kind::Echo => Purpose::Echo,
            Kind::Names(_) => Purpose::Names,
        };
        let class = Class::Realtime;
        Self { client, id, purpose, class, port: 0, stage, by: Instant::NEVER }
    }

    /// What it is, if it is carried.
    pub fn flow(&self) -> Option<FlowView<'_>> {
        match &self.stage {
            Stage::Joined(_, flow) => {
                let [down, up] = flow.carried();
                Some(FlowView::new(self.id, &self.purpose, self.class, [up, down]))
            }
            Stage::Associated(udp) => {
                let view = FlowView::new(self.id, &self.purpose, udp.class(), udp.carried());
                Some(FlowView { datagrams: udp.counts(), ..view })
            }
            _ => None,
        }
    }

    /// Whose it is.
    pub fn client(&self) -> ClientId {
        self.client
    }

    /// The stream.
    pub fn id(&self) -> StreamId {
        self.id
    }

    /// The name and port that are to be looked up next.
    pub fn next_name(&mut self) -> Option<(String, u16)> {
        match &mut self.stage {
            Stage::Name(name) => Some((name.clone(), self.port)),
            Stage::Associated(udp) => Some((udp.next_name()?, self.port)),
            _ => None,
        }
    }

    /// Whether it waits for a name.
    pub fn wants_name(&self) -> bool {
        matches!(self.stage, Stage::Name(_))
    }

    /// Whether its bytes are carried, or its datagrams.
    pub fn is_joined(&self) -> bool {
        matches!(self.stage, Stage::Joined(..) | Stage::Associated(_))
    }

    /// Its datagrams, if it is for these.
    pub fn datagrams(&mut self) -> Option<&mut RemoteUdp> {
        match &mut self.stage {
            Stage::Associated(udp) => Some(udp),
            _ => None,
        }
    }

    /// What became of its datagrams, if it is for these.
    pub fn counts(&self) -> Option<DatagramCounts> {
        match &self.stage {
            Stage::Associated(udp) => Some(udp.counts()),
            _ => None,
        }
    }

    /// When it is to have its turn, whatever comes before.
    pub fn deadline(&self) -> Instant {
        match &self.stage {
            Stage::Dial(dial) => self.by.min(dial.next_event()),
            Stage::Joined(..) | Stage::Associated(_) => Instant::NEVER,
            Stage::Name(_) | Stage::Refused(_) => self.by,
        }
    }

    /// A name of its was looked up. Whatever the name is, it is the addresses that the policy judges, and these are dialled.
    pub fn found(&mut self, now: Instant, name: &str, addresses: io::Result<Vec<SocketAddr>>, outside: Outside<'_>) {
        match &mut self.stage {
            Stage::Associated(udp) => udp.found(now, name, addresses, outside),
            Stage::Name(_) => {
                let to = |addresses| to(addresses, outside.policy);
                self.stage = addresses.map_or(Stage::Refused(Refusal::HostUnreachable), to);
            }
            Stage::Dial(_) | Stage::Refused(_) | Stage::Joined(..) => {}
        }
    }

    /// It leads nowhere.
    pub fn refuse(&mut self, refusal: Refusal) {
        self.stage = Stage::Refused(refusal);
    }

    /// Why it leads nowhere, if that is so.
    pub fn refusal(&self) -> Option<Refusal> {
        match self.stage {
            Stage::Refused(refusal) => Some(refusal),
            _ => None,
        }
    }

    /// Takes note of what its socket `number` tells.
    pub fn note(&mut self, number: usize, event: &Event) {
        match &mut self.stage {
            Stage::Dial(dial) => dial.note(number, event),
            Stage::Joined(socket, _) => socket.note(event),
            Stage::Associated(udp) => udp.note(number),
            Stage::Name(_) | Stage::Refused(_) => {}
        }
    }

    /// The stream has something to read, as the mux tells.
    pub fn note_readable(&mut self) {
        if let Stage::Joined(_, flow) = &mut self.stage {
            flow.note_readable();
        }
    }

    /// The stream takes more, as the mux tells.
    pub fn note_writable(&mut self) {
        if let Stage::Joined(_, flow) = &mut self.stage {
            flow.note_writable();
        }
    }

    /// Ends it, and tells the other end of the socket that this is no orderly end.
    pub fn reset(self) {
        if let Stage::Joined(socket, _) = self.stage {
            socket.reset();
        }
    }

    /// Does what can be done without waiting, as entry `key`.
    pub fn turn(
        &mut self,
        now: Instant,
        (key, registry): (usize, &Registry),
        mux: &mut Mux,
        buffer: &mut Vec<u8>,
        pace: &mut Pace,
    ) -> Turn {
        if let Stage::Joined(socket, flow) = &mut self.stage {
            return flow.turn(now, socket, mux, buffer, pace);
        }
        if let Stage::Associated(udp) = &mut self.stage {
            return udp.turn(now, mux, buffer, pace);
        }
        // Whoever has looked at a stream is told when the client resets it.
        if mux.read(self.id).is_err() {
            return Turn::Over;
        }
        let refusal = match &mut self.stage {
            Stage::Refused(refusal) => *refusal,
            Stage::Name(_) | Stage::Dial(_) if now >= self.by => Refusal::TimedOut,
            Stage::Name(_) | Stage::Joined(..) | Stage::Associated(_) => return Turn::Idle,
            Stage::Dial(dial) => match dial.turn(now, registry, key) {
                Dialled::Pending => return Turn::Idle,
                Dialled::Failed(refusal) => refusal,
                Dialled::Connected(socket) => {
                    let flow = Flow::new(self.id, Bytes::from_static(&[CONNECTED]), Bytes::new());
                    self.stage = Stage::Joined(socket, flow);
                    return Turn::More;
                }
            },
        };
        // It is not open any more if the client has reset it.
        let _ = mux.reset(self.id, refusal.code().into());
        self.stage = Stage::Refused(refusal);
        Turn::Over
    }
}

/// To those of `addresses` that the policy allows.
fn to(addresses: Vec<SocketAddr>, policy: &Policy) -> Stage {
    if addresses.is_empty() {
        return Stage::Refused(Refusal::HostUnreachable);
    }
    // One that is only written as an address of IPv6 is dialled as what it is.
    let canonical = addresses.into_iter().map(|address| match address.ip().to_canonical() {
        ip if ip == address.ip() => address,
        ip => SocketAddr::new(ip, address.port()),
    });
    let allowed: Vec<SocketAddr> = canonical.filter(|address| policy.may_dial(address.ip())).collect();
    if allowed.is_empty() { Stage::Refused(Refusal::NotAllowed) } else { Stage::Dial(Dial::new(allowed)) }
}
