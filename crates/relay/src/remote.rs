//! A stream of a client at the relay: its host is looked up and dialled, and then its bytes are carried.

use std::net::{IpAddr, SocketAddr};

use bytes::Bytes;
use mio::Registry;
use mio::event::Event;
use weftway_mux::{Mux, StreamId};
use weftway_path::Instant;

use crate::boundary::Boundary;
use crate::classes::Class;
use crate::client::ClientId;
use crate::datagram::DatagramCounts;
use crate::dial::{Dial, Dialled};
use crate::flow::{Flow, Turn};
use crate::limits::DIAL;
use crate::names::Found;
use crate::pace::Pace;
use crate::pipe::RemotePipe;
use crate::places::{Notice, Places};
use crate::refusal::{CONNECTED, Refusal};
use crate::remote_udp::{Kind, Outside, RemoteUdp};
use crate::socket::Socket;
use crate::target::{Host, PipeTarget, Purpose, Target};
use crate::udp::any_like;
use crate::view::FlowView;

/// Stage of a stream.
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
    /// It is a pipe.
    Piped(Box<RemotePipe>),
}

/// A stream at the relay.
pub struct Remote {
    client: ClientId,
    id: StreamId,
    purpose: Purpose,
    class: Class,
    port: u16,
    stage: Stage,
    /// Instant until which it must be connected.
    by: Instant,
}

impl Remote {
    /// A stream of `client` that was just accepted, to `target`.
    pub fn new(
        now: Instant,
        client: ClientId,
        (id, class): (StreamId, Class),
        target: Target,
        boundary: &Boundary,
    ) -> Self {
        let port = target.port;
        let stage = match &target.host {
            Host::Name(name) => Stage::Name(name.clone()),
            Host::Address(address) => to(client, (vec![*address], port), false, boundary),
        };
        Self { client, id, purpose: Purpose::Connection(target), class, port, stage, by: now + DIAL }
    }

    /// Stream to the relay's own server of names, whatever the policy says.
    pub fn to_name_server(now: Instant, client: ClientId, (id, class): (StreamId, Class), server: SocketAddr) -> Self {
        let (port, stage) = (server.port(), Stage::Dial(Dial::new(client, [server], false)));
        Self { client, id, purpose: Purpose::NamesByTcp, class, port, stage, by: now + DIAL }
    }

    /// Stream for datagrams of this kind, in records of `record` bytes.
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

    /// A pipe, which its client may have: its name is looked up first, if it has one.
    pub fn for_pipe(now: Instant, client: ClientId, (id, class): (StreamId, Class), pipe: PipeTarget) -> Self {
        let port = pipe.target.port;
        let stage = match &pipe.target.host {
            Host::Name(name) => Stage::Name(name.clone()),
            Host::Address(address) => piped(now, id, &pipe, *address),
        };
        Self { client, id, purpose: Purpose::Pipe(pipe), class, port, stage, by: now + DIAL }
    }

    /// View of it, if it is carried.
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
            Stage::Piped(pipe) => {
                let view = FlowView::new(self.id, &self.purpose, self.class, pipe.carried());
                Some(FlowView { datagrams: pipe.counts(), ..view })
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

    /// The name that is to be looked up next.
    pub fn wanted_name(&self) -> Option<&str> {
        match &self.stage {
            Stage::Name(name) => Some(name),
            Stage::Associated(udp) => udp.wanted_name(),
            _ => None,
        }
    }

    /// Takes note that [`Remote::wanted_name`] is looked up now.
    pub fn took_name(&mut self) {
        if let Stage::Associated(udp) = &mut self.stage {
            udp.took_name();
        }
    }

    /// Returns true if it waits for a name.
    pub fn wants_name(&self) -> bool {
        matches!(self.stage, Stage::Name(_))
    }

    /// Returns true if its bytes are carried, or its datagrams.
    pub fn is_joined(&self) -> bool {
        matches!(self.stage, Stage::Joined(..) | Stage::Associated(_) | Stage::Piped(_))
    }

    /// Returns true if it is a pipe, or is to be one.
    pub fn is_pipe(&self) -> bool {
        matches!(self.purpose, Purpose::Pipe(_))
    }

    /// The pipe that it is.
    pub fn pipe(&mut self) -> Option<&mut RemotePipe> {
        match &mut self.stage {
            Stage::Piped(pipe) => Some(pipe),
            _ => None,
        }
    }

    /// Its datagrams, if it is for these.
    pub fn datagrams(&mut self) -> Option<&mut RemoteUdp> {
        match &mut self.stage {
            Stage::Associated(udp) => Some(udp),
            _ => None,
        }
    }

    /// Counters of its datagrams, if it is for these.
    pub fn counts(&self) -> Option<DatagramCounts> {
        match &self.stage {
            Stage::Associated(udp) => Some(udp.counts()),
            _ => None,
        }
    }

    /// Instant of its next turn, whatever comes before.
    pub fn deadline(&self) -> Instant {
        match &self.stage {
            Stage::Dial(dial) => self.by.min(dial.next_event()),
            Stage::Joined(..) | Stage::Associated(_) => Instant::NEVER,
            Stage::Piped(pipe) => pipe.next_event(),
            Stage::Name(_) | Stage::Refused(_) => self.by,
        }
    }

    /// Takes in the result for a name. The policy judges the addresses, whatever the name is, and these are dialled.
    pub fn found(&mut self, now: Instant, name: &str, found: Found, outside: Outside<'_>) {
        let (port, boundary) = (self.port, outside.boundary);
        match (&mut self.stage, found) {
            (Stage::Associated(udp), found) => udp.found(now, name, found, outside),
            (Stage::Name(_), Found::Addresses { addresses, more }) if let Purpose::Pipe(pipe) = &self.purpose => {
                let reachable = addresses.iter().copied().find(|ip| has_route((*ip, port).into()));
                match reachable.or(addresses.first().copied()) {
                    // Those of the other family follow.
                    _ if more && reachable.is_none() => {}
                    Some(ip) => self.stage = piped(now, self.id, pipe, ip),
                    None => self.stage = Stage::Refused(Refusal::HostUnreachable),
                }
            }
            (Stage::Name(_), Found::Addresses { addresses, more }) => {
                self.stage = to(self.client, (addresses, port), more, boundary);
            }
            (Stage::Name(_), Found::Nothing) => self.stage = Stage::Refused(Refusal::HostUnreachable),
            (Stage::Name(_), Found::Silence) => self.stage = Stage::Refused(Refusal::TimedOut),
            (Stage::Dial(dial), Found::Addresses { addresses, more: false }) => {
                dial.add(allowed(addresses, port, boundary))
            }
            (Stage::Dial(dial), Found::Nothing | Found::Silence) => dial.add([]),
            (Stage::Dial(_), Found::Addresses { .. })
            | (Stage::Refused(_) | Stage::Joined(..) | Stage::Piped(_), _) => {}
        }
    }

    /// Tells its dial about its place.
    pub fn note_place(&mut self, notice: Notice) {
        if let Stage::Dial(dial) = &mut self.stage {
            match notice {
                Notice::Taken => dial.step_back(),
                Notice::Granted => dial.go_on(),
            }
        }
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
            // A turn looks which of its sockets it was.
            Stage::Name(_) | Stage::Refused(_) | Stage::Piped(_) => {}
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
        (key, registry, places): (usize, &Registry, &mut Places),
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
        if let Stage::Piped(pipe) = &mut self.stage {
            return pipe.turn(now, (key, registry), mux, buffer, pace);
        }
        // Whoever has looked at a stream is told when the client resets it.
        if mux.read(self.id).is_err() {
            return Turn::Over;
        }
        let refusal = match &mut self.stage {
            Stage::Refused(refusal) => *refusal,
            Stage::Name(_) | Stage::Dial(_) if now >= self.by => Refusal::TimedOut,
            Stage::Name(_) | Stage::Joined(..) | Stage::Associated(_) | Stage::Piped(_) => return Turn::Idle,
            Stage::Dial(dial) => match dial.turn(now, registry, key, places) {
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

/// Returns true if this machine can send datagrams there, as far as it knows.
fn has_route(target: SocketAddr) -> bool {
    std::net::UdpSocket::bind((any_like(target), 0)).and_then(|socket| socket.connect(target)).is_ok()
}

/// The stage of a pipe whose target has this address.
fn piped(now: Instant, id: StreamId, pipe: &PipeTarget, address: IpAddr) -> Stage {
    // Without a descriptor there is none.
    RemotePipe::new(now, id, pipe, address)
        .map_or(Stage::Refused(Refusal::TooMany), |pipe| Stage::Piped(Box::new(pipe)))
}

/// The stage in which those of `addresses` are dialled that may be. There may be `more`.
fn to(client: ClientId, (addresses, port): (Vec<IpAddr>, u16), more: bool, boundary: &Boundary) -> Stage {
    if addresses.is_empty() {
        return Stage::Refused(Refusal::HostUnreachable);
    }
    let allowed = allowed(addresses, port, boundary);
    if allowed.is_empty() && !more {
        return Stage::Refused(Refusal::NotAllowed);
    }
    Stage::Dial(Dial::new(client, allowed, more))
}

/// The addresses of these that may be dialled. One that is only written as an address of IPv6 is dialled as what it is.
fn allowed(addresses: Vec<IpAddr>, port: u16, boundary: &Boundary) -> Vec<SocketAddr> {
    let canonical = addresses.iter().map(IpAddr::to_canonical);
    canonical.filter(|ip| boundary.may_dial(*ip)).map(|ip| SocketAddr::new(ip, port)).collect()
}
