//! The end that listens: connections that come, and whether they show a token.

use noq_proto::{ConnectionEvent, ConnectionHandle, FourTuple, Incoming};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::sync::Arc;
use weftway_path::{Instant, PathId, Span};
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::observer::ObserverState;
use weftway_udp::Net;
use weftway_udp::settings::{ETHERNET_PAYLOAD, MAX_PATHS};
use weftway_udp::tls::{Identity, IdentityError, Server};
use weftway_udp::token::{KnownToken, Token, Tokens};

use crate::connection::control_stream::{AcceptedConnection, ControlStream};
use crate::failure::code;
use crate::wire::{MAX_HELLO, Message, Role, SessionState, TransferId, VERSION};

/// Connections that may be pending at a time: an end that connects opens one over each of its paths.
const MAX_PENDING: usize = 16 * MAX_PATHS;
/// Pending connections from addresses that may be forged. Any other must first answer from its address (Retry, RFC 9000
/// §8.1.2), and has no place here until it does.
const MAX_UNCONFIRMED: usize = 8;
/// Pending connections that may come from one network whose address is confirmed: those of a few machines that start at
/// once behind one address.
const MAX_PER_NETWORK: usize = 4 * MAX_PATHS;
/// Time in which a connection has to show its token.
const PATIENCE: Span = Span::from_secs(10);

/// Silence after which a run is given up when another run of the same command comes: an end that is alive
/// says something every two seconds.
const SILENCE: Span = Span::from_secs(5);
/// Time after which nothing of an ended run is still on its way.
const ON_THE_WAY: Span = Span::from_secs(1);

/// The transfer that is under way.
#[derive(Clone, Copy)]
pub(crate) struct CurrentTransfer<'a> {
    pub id: &'a TransferId,
    /// Instant at which its other end was heard last.
    pub heard: Instant,
}

/// A connection that is not accepted yet.
struct PendingConnection {
    connection: QuicConnection,
    control: ControlStream,
    since: Instant,
    /// Network from which it comes.
    network: IpAddr,
    /// True if it was heard again after an answer to its address: the address is not forged.
    confirmed: bool,
    /// Whose transfer it is, since it has shown a token.
    known: Option<Greeted>,
    /// It was closed, and noq finishes.
    refused: bool,
}

/// Greeting of a connection that has shown a token.
struct Greeted {
    greeting: Greeting,
    since: Instant,
}

/// Greeting of an end that may be accepted.
#[derive(Clone)]
struct Greeting {
    id: TransferId,
    shown: KnownToken,
    policy: bool,
    session: Option<SessionState>,
}

/// The connections that come.
///
/// Who has no token must not keep out who has one. A place is therefore never refused while somebody without the token
/// has one: the oldest of those loses it.
pub(crate) struct Listener {
    tokens: Tokens,
    server: Server,
    /// Role of this end.
    role: Role,
    pending: Vec<PendingConnection>,
    /// Number of connections that have shown a wrong token.
    wrong_tokens: u64,
}

impl Listener {
    pub fn new(identity: &Identity, role: Role) -> Result<Self, IdentityError> {
        let (tokens, server) = (identity.tokens(), identity.server()?);
        Ok(Self { tokens, server, role, pending: Vec::new(), wrong_tokens: 0 })
    }

    /// Accepts connections as `identity` says from now on.
    pub fn set_identity(&mut self, identity: &Identity) -> Result<(), IdentityError> {
        self.server = identity.server()?;
        self.tokens = identity.tokens();
        Ok(())
    }

    /// Returns true if one that shows `token` is accepted.
    pub fn is_valid(&self, token: &Token) -> bool {
        self.tokens.has(token)
    }

    /// The configuration with which the endpoint waits.
    pub fn config(&self) -> noq_proto::ServerConfig {
        self.server.config(ObserverState::new(), ETHERNET_PAYLOAD)
    }

    /// Number of connections that have shown a wrong token.
    pub fn wrong_tokens(&self) -> u64 {
        self.wrong_tokens
    }

    /// A connection comes: it is pending until it shows the token.
    pub fn accept(&mut self, net: &mut Net, now: Instant, incoming: Incoming) {
        let mut buffer = Vec::new();
        let confirmed = incoming.remote_address_validated();
        let unconfirmed = self.pending.iter().filter(|pending| !pending.confirmed && !pending.refused).count();
        let incoming = if !confirmed && unconfirmed >= MAX_UNCONFIRMED {
            match net.endpoint.retry(incoming, &mut buffer) {
                Ok(transmit) => return net.respond(&transmit, &buffer),
                Err(error) => error.into_incoming(),
            }
        } else {
            incoming
        };
        if self.pending.len() >= MAX_PENDING && !self.make_room(net, now) {
            let transmit = net.endpoint.refuse(incoming, &mut buffer);
            return net.respond(&transmit, &buffer);
        }
        let observers = ObserverState::new();
        let remote = incoming.remote_address();
        let config = self.server.config(observers.clone(), net.largest_payload(remote));
        let route = FourTuple::new(remote, incoming.local_ip());
        let at = net.clock().theirs(now);
        match net.endpoint.accept(incoming, at, &mut buffer, Some(Arc::new(config))) {
            Ok((handle, inner)) => {
                let first = PathId::new(0);
                let connection = QuicConnection::new(inner, handle, net.clock(), observers, vec![route], first);
                self.pending.push(PendingConnection {
                    connection: connection.with_spare_paths(MAX_PATHS - 1),
                    control: ControlStream::new(MAX_HELLO),
                    since: now,
                    network: network_of(remote.ip()),
                    confirmed,
                    known: None,
                    refused: false,
                });
                if confirmed {
                    self.keep_share(net, now, network_of(remote.ip()));
                }
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    net.respond(&transmit, &buffer);
                }
            }
        }
    }

    /// Takes a place away from the oldest connection that has not shown the token. False if all have.
    fn make_room(&mut self, net: &mut Net, now: Instant) -> bool {
        let strangers = self.pending.iter().enumerate().filter(|(_, pending)| pending.known.is_none());
        let oldest = strangers.min_by_key(|(_, pending)| (!pending.refused, pending.since));
        let oldest = oldest.map(|(at, _)| at);
        oldest.into_iter().for_each(|at| self.evict(net, now, at));
        oldest.is_some()
    }

    /// A network that has more than its share loses its oldest connections that have not shown the token.
    fn keep_share(&mut self, net: &mut Net, now: Instant, network: IpAddr) {
        loop {
            let of_it = self.pending.iter().enumerate().filter(|(_, pending)| {
                pending.network == network && pending.confirmed && pending.known.is_none() && !pending.refused
            });
            let places: Vec<(Instant, usize)> = of_it.map(|(at, pending)| (pending.since, at)).collect();
            match places.iter().min() {
                Some(&(_, oldest)) if places.len() > MAX_PER_NETWORK => self.evict(net, now, oldest),
                _ => return,
            }
        }
    }

    fn evict(&mut self, net: &mut Net, now: Instant, at: usize) {
        let PendingConnection { mut connection, confirmed, .. } = self.pending.swap_remove(at);
        // To an address that may be forged nothing is said.
        if confirmed && !connection.is_closed() {
            connection.close(now, &mut net.endpoint, code::FULL, "too many connections wait here");
            net.send(&mut connection);
        }
        connection.forget(&mut net.endpoint);
    }

    /// A datagram for a pending connection. Records, which come before the token is shown, are not kept.
    pub fn handle(&mut self, net: &mut Net, now: Instant, whose: ConnectionHandle, event: ConnectionEvent) {
        let pending = self.pending.iter_mut().find(|pending| pending.connection.handle() == whose);
        let Some(pending) = pending else { return };
        pending.connection.handle_event(now, &mut net.endpoint, event);
        while pending.connection.receive().is_some() {}
        if pending.connection.is_established() && !pending.confirmed {
            pending.confirmed = true;
            let network = pending.network;
            self.keep_share(net, now, network);
        }
    }

    /// Instant at which something is due.
    pub fn next_event(&self) -> Instant {
        self.pending.iter().map(PendingConnection::next_event).min().unwrap_or(Instant::NEVER)
    }

    /// Looks at all pending connections: one that has shown the token is accepted, unless a transfer is under way.
    pub fn turn(
        &mut self,
        net: &mut Net,
        now: Instant,
        current: Option<CurrentTransfer<'_>>,
    ) -> Option<Box<AcceptedConnection>> {
        let mut accepted = None;
        for at in (0..self.pending.len()).rev() {
            let pending = &mut self.pending[at];
            if pending.connection.timeout() <= now {
                pending.connection.handle_timeout(now, &mut net.endpoint);
            }
            let is_waiting = pending.refused || accepted.is_some();
            let checked = if is_waiting { Ok(None) } else { pending.check(now, self.role, &self.tokens, current) };
            let refusal = match &checked {
                Err(refusal) => Some((refusal.code, refusal.reason.as_str())),
                Ok(_) if is_waiting || pending.known.is_some() => None,
                Ok(_) => (pending.since + PATIENCE <= now).then_some((code::REFUSED, "no token was shown")),
            };
            if let Some((code, reason)) = refusal {
                self.wrong_tokens += u64::from(reason == WRONG_TOKEN);
                pending.refused = true;
                pending.connection.close(now, &mut net.endpoint, code, reason);
            }
            pending.connection.flush(now);
            net.send(&mut pending.connection);
            if let Ok(Some(Greeting { id, shown, policy, session })) = checked {
                let PendingConnection { connection, control, .. } = self.pending.swap_remove(at);
                accepted = Some(Box::new(AcceptedConnection { connection, control, id, shown, policy, session }));
            } else if pending.connection.is_drained() {
                self.pending.swap_remove(at);
            }
        }
        accepted
    }
}

/// The network that an address belongs to, as far as one host may have addresses of it: a /24, or a /56 of IPv6.
fn network_of(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V4(ip) => Ipv4Addr::from_bits(ip.to_bits() & (!0 << 8)).into(),
        IpAddr::V6(ip) => Ipv6Addr::from_bits(ip.to_bits() & (!0 << 72)).into(),
    }
}

/// Message to an end whose token is not valid, or not valid any more.
pub(crate) const WRONG_TOKEN: &str = "wrong token: run `weft pair` on this machine and copy its line again";

/// Why a connection is refused.
struct Refusal {
    code: u32,
    reason: String,
}

impl<T: Into<String>> From<T> for Refusal {
    fn from(reason: T) -> Self {
        Self { code: code::REFUSED, reason: reason.into() }
    }
}

impl PendingConnection {
    /// Instant at which something is due: of a closed connection, only timers of noq.
    fn next_event(&self) -> Instant {
        let until = match &self.known {
            _ if self.refused || self.connection.is_closed() => Instant::NEVER,
            Some(known) => known.since + SILENCE,
            None => self.since + PATIENCE,
        };
        self.connection.timeout().min(until)
    }

    /// Returns its greeting, once it may be accepted. A relay answers when it knows in which session.
    fn check(
        &mut self,
        now: Instant,
        role: Role,
        tokens: &Tokens,
        current: Option<CurrentTransfer<'_>>,
    ) -> Result<Option<Greeting>, Refusal> {
        if !self.connection.is_established() || self.connection.is_closed() {
            return Ok(None);
        }
        if self.known.is_none() {
            self.known = self.read_hello(role, tokens)?.map(|greeting| Greeted { greeting, since: now });
        }
        let Some(Greeted { greeting, since }) = &self.known else { return Ok(None) };
        let Greeting { id, shown, .. } = greeting;
        // While it waited the token may have been revoked.
        if !tokens.has(&shown.token) {
            return Err(WRONG_TOKEN.into());
        }
        // A run that connects again takes its own place at once.
        if let Some(current) = current.filter(|current| current.id.run != id.run) {
            let was_before = current.id.task == id.task;
            if !was_before || current.heard > *since + ON_THE_WAY {
                return Err(Refusal { code: code::BUSY, reason: "busy with another transfer".to_owned() });
            }
            if now < *since + SILENCE {
                return Ok(None);
            }
        }
        self.control.trust();
        if role != Role::Relay {
            self.control.send(&Message::welcome()).map_err(|error| error.to_string())?;
            self.control.exchange(&mut self.connection).map_err(|error| error.to_string())?;
        }
        Ok(Some(greeting.clone()))
    }

    /// Its first message, if it came and is as it should be.
    fn read_hello(&mut self, role: Role, tokens: &Tokens) -> Result<Option<Greeting>, Refusal> {
        self.control.exchange(&mut self.connection).map_err(|error| error.to_string())?;
        let Some(message) = self.control.receive().map_err(|error| error.to_string())? else { return Ok(None) };
        let Message::Hello { version, token, role: theirs, transfer, policy, session } = message else {
            return Err("the first message is no greeting".into());
        };
        // Before the token is right, nothing else is told.
        let Some(shown) = tokens.find(&token) else { return Err(WRONG_TOKEN.into()) };
        if version != VERSION {
            return Err(format!("this end speaks version {VERSION} of the protocol, the other {version}").into());
        }
        if theirs != role.other() {
            let (own, theirs, other) = (role.command(), theirs.command(), role.other().command());
            return Err(format!("this end is `{own}`, the other `{theirs}`: it would have to be `{other}`").into());
        }
        Ok(Some(Greeting { id: transfer, shown: shown.clone(), policy, session }))
    }
}

#[cfg(test)]
mod tests;
