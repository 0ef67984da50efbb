//! The end that listens: connections that come, and whether they show the token.

use noq_proto::{ConnectionEvent, ConnectionHandle, FourTuple, Incoming};
use std::sync::Arc;
use weftway_path::{Instant, PathId, Span};
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::observer::ObserverState;
use weftway_quic::udp::Net;
use weftway_quic::udp::tls::{Identity, IdentityError, MAX_PATHS};

use super::control_stream::{AcceptedConnection, ControlStream};
use super::options::code;
use super::wire::{MAX_HELLO, Message, Role, TransferId, VERSION};

/// Connections that may be pending at a time: an end that connects opens one over each of its paths.
const MAX_PENDING: usize = 4 * MAX_PATHS;
/// How long one may take to show its token.
const PATIENCE: Span = Span::from_secs(10);

/// When another run of the same command comes, the run before it is given up after so long a silence: an end that is alive
/// says something every two seconds.
const SILENCE: Span = Span::from_secs(5);
/// What is heard of it later than this was not on its way when it ended.
const ON_THE_WAY: Span = Span::from_secs(1);

/// The transfer that is under way.
#[derive(Clone, Copy)]
pub(super) struct Current<'a> {
    pub id: &'a TransferId,
    /// When its other end was heard last.
    pub heard: Instant,
}

/// A connection that is not accepted yet.
struct PendingConnection {
    connection: QuicConnection,
    control: ControlStream,
    since: Instant,
    /// Whose transfer it is, and since when that is known: it has shown the token.
    known: Option<(TransferId, Instant)>,
    /// It was closed, and noq finishes.
    refused: bool,
}

/// The connections that come.
pub(super) struct Listener {
    identity: Identity,
    /// What this end does.
    role: Role,
    pending: Vec<PendingConnection>,
}

impl Listener {
    pub fn new(identity: Identity, role: Role) -> Self {
        Self { identity, role, pending: Vec::new() }
    }

    /// The configuration with which the endpoint waits.
    pub fn config(&self) -> Result<noq_proto::ServerConfig, IdentityError> {
        self.identity.server(ObserverState::new())
    }

    /// A connection comes: it is pending until it shows the token.
    pub fn accept(&mut self, net: &mut Net, now: Instant, incoming: Incoming) {
        let mut buffer = Vec::new();
        let observers = ObserverState::new();
        let config = self.identity.server(observers.clone()).ok().filter(|_| self.pending.len() < MAX_PENDING);
        let Some(config) = config else {
            let transmit = net.endpoint.refuse(incoming, &mut buffer);
            return net.respond(&transmit, &buffer);
        };
        let route = FourTuple::new(incoming.remote_address(), incoming.local_ip());
        let at = net.clock().theirs(now);
        match net.endpoint.accept(incoming, at, &mut buffer, Some(Arc::new(config))) {
            Ok((handle, inner)) => {
                let first = PathId::new(0);
                let connection = QuicConnection::new(inner, handle, net.clock(), observers, vec![route], first);
                let connection = connection.with_spare_paths(MAX_PATHS - 1);
                let control = ControlStream::new(MAX_HELLO);
                self.pending.push(PendingConnection { connection, control, since: now, known: None, refused: false });
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    net.respond(&transmit, &buffer);
                }
            }
        }
    }

    /// A datagram for a pending connection.
    pub fn handle(&mut self, net: &mut Net, now: Instant, whose: ConnectionHandle, event: ConnectionEvent) {
        if let Some(pending) = self.pending.iter_mut().find(|pending| pending.connection.handle() == whose) {
            pending.connection.handle_event(now, &mut net.endpoint, event);
        }
    }

    /// When something is due.
    pub fn next_event(&self) -> Instant {
        let due = |pending: &PendingConnection| {
            let until = pending.known.as_ref().map_or(pending.since + PATIENCE, |(_, since)| *since + SILENCE);
            pending.connection.timeout().min(until)
        };
        self.pending.iter().map(due).min().unwrap_or(Instant::NEVER)
    }

    /// Looks at all pending connections: one that has shown the token is accepted, unless a transfer is under way.
    pub fn turn(
        &mut self,
        net: &mut Net,
        now: Instant,
        current: Option<Current<'_>>,
    ) -> Option<Box<AcceptedConnection>> {
        let mut accepted = None;
        for at in (0..self.pending.len()).rev() {
            let pending = &mut self.pending[at];
            if pending.connection.timeout() <= now {
                pending.connection.handle_timeout(now, &mut net.endpoint);
            }
            let is_waiting = pending.refused || accepted.is_some();
            let checked = if is_waiting { Ok(None) } else { pending.check(now, self.role, &self.identity, current) };
            let refusal = match &checked {
                Err(refusal) => Some((refusal.code, refusal.reason.as_str())),
                Ok(_) if is_waiting || pending.known.is_some() => None,
                Ok(_) => (pending.since + PATIENCE <= now).then_some((code::REFUSED, "no token was shown")),
            };
            if let Some((code, reason)) = refusal {
                pending.refused = true;
                pending.connection.close(now, &mut net.endpoint, code, reason);
            }
            pending.connection.flush(now);
            net.send(&mut pending.connection);
            if let Ok(Some(id)) = checked {
                let PendingConnection { connection, control, .. } = self.pending.swap_remove(at);
                accepted = Some(Box::new(AcceptedConnection { connection, control, id }));
            } else if pending.connection.is_drained() {
                self.pending.swap_remove(at);
            }
        }
        accepted
    }
}

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
    /// Whose transfer it is, once it may be accepted.
    fn check(
        &mut self,
        now: Instant,
        role: Role,
        identity: &Identity,
        current: Option<Current<'_>>,
    ) -> Result<Option<TransferId>, Refusal> {
        if !self.connection.is_established() || self.connection.is_closed() {
            return Ok(None);
        }
        if self.known.is_none() {
            self.known = self.read_hello(role, identity)?.map(|id| (id, now));
        }
        let Some((id, since)) = &self.known else { return Ok(None) };
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
        self.control.send(&Message::Welcome { version: VERSION }).map_err(|error| error.to_string())?;
        self.control.exchange(&mut self.connection).map_err(|error| error.to_string())?;
        Ok(Some(id.clone()))
    }

    /// Its first message, if it came and is as it should be.
    fn read_hello(&mut self, role: Role, identity: &Identity) -> Result<Option<TransferId>, Refusal> {
        self.control.exchange(&mut self.connection).map_err(|error| error.to_string())?;
        let Some(message) = self.control.receive().map_err(|error| error.to_string())? else { return Ok(None) };
        let Message::Hello { version, token, role: theirs, transfer } = message else {
            return Err("the first message is no greeting".into());
        };
        // Before the token is right, nothing else is told.
        if !identity.pairing().token.is(&token) {
            return Err("wrong token: run `weft pair` on this machine and copy its line again".into());
        }
        if version != VERSION {
            return Err(format!("this end speaks version {VERSION} of the protocol, the other {version}").into());
        }
        if role == theirs {
            let what = if role == Role::Send { "send" } else { "receive" };
            return Err(format!("both ends want to {what}").into());
        }
        Ok(Some(transfer))
    }
}
