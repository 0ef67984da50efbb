//! The end that listens: who comes, and who has the token.

use noq_proto::{ConnectionEvent, ConnectionHandle, FourTuple, Incoming};
use std::sync::Arc;
use weftway_path::{Instant, PathId, Span};

use super::options::code;
use super::session::Met;
use super::wire::{MAX_HELLO, Message, Role, Talk, VERSION};
use crate::driver::connection::QuicConnection;
use crate::driver::observer::Hub;
use crate::udp::Net;
use crate::udp::tls::{Identity, IdentityError, MAX_PATHS};

/// Connections that may be at the door at a time: an end that comes opens one over each of its paths.
const NEWCOMERS: usize = 4 * MAX_PATHS;
/// How long one may take to show its token.
const PATIENCE: Span = Span::from_secs(10);

/// Somebody who has not shown the token yet.
struct Newcomer {
    connection: QuicConnection,
    talk: Talk,
    since: Instant,
    /// It was sent away, and noq finishes.
    refused: bool,
}

/// The door.
pub(super) struct Listener {
    identity: Identity,
    /// What this end does.
    role: Role,
    newcomers: Vec<Newcomer>,
}

impl Listener {
    pub fn new(identity: Identity, role: Role) -> Self {
        Self { identity, role, newcomers: Vec::new() }
    }

    /// The configuration with which the endpoint waits.
    pub fn config(&self) -> Result<noq_proto::ServerConfig, IdentityError> {
        self.identity.server(Hub::new())
    }

    /// Somebody comes.
    pub fn welcome(&mut self, net: &mut Net, now: Instant, incoming: Incoming) {
        let mut buffer = Vec::new();
        let hub = Hub::new();
        let config = self.identity.server(hub.clone()).ok().filter(|_| self.newcomers.len() < NEWCOMERS);
        let Some(config) = config else {
            let transmit = net.endpoint.refuse(incoming, &mut buffer);
            return net.respond(&transmit, &buffer);
        };
        let route = FourTuple::new(incoming.remote_address(), incoming.local_ip());
        let at = net.clock().theirs(now);
        match net.endpoint.accept(incoming, at, &mut buffer, Some(Arc::new(config))) {
            Ok((handle, inner)) => {
                let first = PathId::new(0);
                let connection = QuicConnection::new(inner, handle, net.clock(), hub, vec![route], first);
                let connection = connection.with_spare_paths(MAX_PATHS - 1);
                self.newcomers.push(Newcomer { connection, talk: Talk::new(MAX_HELLO), since: now, refused: false });
            }
            Err(error) => {
                if let Some(transmit) = error.response {
                    net.respond(&transmit, &buffer);
                }
            }
        }
    }

    /// A datagram for somebody at the door.
    pub fn handle(&mut self, net: &mut Net, now: Instant, whose: ConnectionHandle, event: ConnectionEvent) {
        if let Some(newcomer) = self.newcomers.iter_mut().find(|newcomer| newcomer.connection.handle() == whose) {
            newcomer.connection.handle_event(now, &mut net.endpoint, event);
        }
    }

    /// When something is due.
    pub fn next_event(&self) -> Instant {
        let due = |newcomer: &Newcomer| newcomer.connection.timeout().min(newcomer.since + PATIENCE);
        self.newcomers.iter().map(due).min().unwrap_or(Instant::NEVER)
    }

    /// Hears everybody at the door: who has shown the token comes in.
    pub fn turn(&mut self, net: &mut Net, now: Instant) -> Option<Box<Met>> {
        let mut admitted = None;
        for at in (0..self.newcomers.len()).rev() {
            let newcomer = &mut self.newcomers[at];
            if newcomer.connection.timeout() <= now {
                newcomer.connection.handle_timeout(now, &mut net.endpoint);
            }
            let heard = if newcomer.refused { Ok(false) } else { newcomer.hear(self.role, &self.identity) };
            if let Err(why) = &heard {
                newcomer.refused = true;
                newcomer.connection.close(now, &mut net.endpoint, code::REFUSED, why);
            } else if !newcomer.refused && newcomer.since + PATIENCE <= now {
                newcomer.refused = true;
                newcomer.connection.close(now, &mut net.endpoint, code::REFUSED, "no token was shown");
            }
            newcomer.connection.flush(now);
            net.send(&mut newcomer.connection);
            if heard == Ok(true) {
                let Newcomer { connection, talk, .. } = self.newcomers.swap_remove(at);
                admitted = Some(Box::new(Met { connection, talk }));
            } else if newcomer.connection.is_drained() {
                self.newcomers.swap_remove(at);
            }
        }
        admitted
    }
}

impl Newcomer {
    /// Whether it has shown the token; or why it has to go.
    fn hear(&mut self, role: Role, identity: &Identity) -> Result<bool, String> {
        if !self.connection.is_established() || self.connection.is_closed() {
            return Ok(false);
        }
        self.talk.pump(&mut self.connection).map_err(|error| error.to_string())?;
        let Some(message) = self.talk.hear().map_err(|error| error.to_string())? else { return Ok(false) };
        let Message::Hello { version, token, role: theirs } = message else {
            return Err("the first message is no greeting".to_owned());
        };
        // Before the token is right, nothing else is told.
        if !identity.pairing().token.is(&token) {
            return Err("wrong token: run `weft pair` on this machine and copy its line again".to_owned());
        }
        if version != VERSION {
            return Err(format!("this end speaks version {VERSION} of the protocol, the other {version}"));
        }
        if role == theirs {
            let what = if role == Role::Send { "send" } else { "receive" };
            return Err(format!("both ends want to {what}"));
        }
        self.talk.trust();
        self.talk.say(&Message::Welcome { version: VERSION }).map_err(|error| error.to_string())?;
        self.talk.pump(&mut self.connection).map_err(|error| error.to_string())?;
        Ok(true)
    }
}
