//! How the end that connects opens a connection: handshakes over all its paths at once, and the first that is done stays
//! (as RFC 8305 does for addresses).

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use noq_proto::FourTuple;
use weftway_path::{PathId, PathSet, Span};

use super::options::{Failure, code};
use super::session::{Met, REOPEN, Session, lost};
use super::wire::{MAX_MESSAGE, Message, Role, Talk, VERSION};
use crate::driver::connection::QuicConnection;
use crate::driver::observer::Hub;
use crate::udp::tls::{self, Pairing};

/// How long the handshakes may take, before others begin.
const ATTEMPT: Span = Span::from_secs(3);

/// A handshake over one path.
struct Attempt {
    connection: QuicConnection,
    /// Whether the other end showed another certificate than the pairing has.
    mismatch: Arc<AtomicBool>,
}

impl Session<'_> {
    /// Connects to `address`.
    pub fn connect(&mut self, address: SocketAddr, pairing: &Pairing, role: Role) -> Result<Box<Met>, Failure> {
        let begin = self.net.now();
        while self.net.now() < begin + self.give_up_after {
            if let Some(connection) = self.race(address, pairing)? {
                return self.greet(connection, pairing, role);
            }
        }
        Err(Failure::NoAnswer(address))
    }

    /// Begins a handshake over path `at`.
    fn begin(&mut self, address: SocketAddr, pairing: &Pairing, at: usize) -> Result<Attempt, Failure> {
        let now = self.net.now();
        let hub = Hub::new();
        let (config, mismatch) = tls::client(pairing, hub.clone())?;
        let theirs = self.net.clock().theirs(now);
        let opened = self.net.endpoint.connect(theirs, config, address, "weftway");
        let (handle, inner) = opened.map_err(|error| Failure::Lost(error.to_string()))?;
        let routes: Vec<FourTuple> = (0..self.net.sockets().len()).map(|at| self.net.route(at, address)).collect();
        let paths = routes.iter().enumerate().fold(PathSet::EMPTY, |set, (at, _)| set.with(PathId::new(at as u8)));
        let first = PathId::new(at as u8);
        let mut connection = QuicConnection::new(inner, handle, self.net.clock(), hub, routes, first);
        connection.keep(now, paths, REOPEN);
        Ok(Attempt { connection, mismatch })
    }

    /// Shakes hands over all paths; the connection whose handshake was done first, or `None` if nobody answers in time.
    fn race(&mut self, address: SocketAddr, pairing: &Pairing) -> Result<Option<QuicConnection>, Failure> {
        let count = self.net.sockets().len();
        let mut attempts = Vec::with_capacity(count);
        for at in 0..count {
            attempts.push(self.begin(address, pairing, at)?);
        }
        let deadline = self.net.now() + ATTEMPT.min(self.give_up_after);
        let outcome = loop {
            if let Err(failure) = self.advance(&mut attempts, address) {
                break Err(failure);
            }
            if let Some(at) = attempts.iter().position(|attempt| attempt.connection.is_established()) {
                break Ok(Some(attempts.swap_remove(at).connection));
            }
            let now = self.net.now();
            if now >= deadline {
                break Ok(None);
            }
            if let Err(failure) = self.tick(now) {
                break Err(failure);
            }
            let due = attempts.iter().map(|attempt| attempt.connection.timeout());
            self.wait(due.min().unwrap_or(deadline).min(deadline), None);
        };
        for Attempt { mut connection, .. } in attempts {
            if !connection.is_closed() {
                let now = self.net.now();
                connection.close(now, &mut self.net.endpoint, code::NOT_FIRST, "another path was faster");
                self.net.send(&mut connection);
            }
            connection.forget(&mut self.net.endpoint);
        }
        outcome
    }

    /// Takes in what came for the handshakes, and sends what they want to say.
    fn advance(&mut self, attempts: &mut [Attempt], address: SocketAddr) -> Result<(), Failure> {
        let handles: Vec<_> = attempts.iter().map(|attempt| attempt.connection.handle()).collect();
        self.receive_for(
            |handle| handles.contains(&handle),
            |now, net, handle, event, _| {
                let whose = attempts.iter_mut().find(|attempt| attempt.connection.handle() == handle);
                if let Some(Attempt { connection, .. }) = whose {
                    connection.handle_event(now, &mut net.endpoint, event);
                }
            },
        );
        let now = self.net.now();
        for Attempt { connection, mismatch } in &mut *attempts {
            if connection.timeout() <= now {
                connection.handle_timeout(now, &mut self.net.endpoint);
            }
            connection.flush(now);
            self.net.send(connection);
            if mismatch.load(Ordering::Relaxed) {
                return Err(Failure::OtherIdentity(address));
            }
        }
        // One path may lead to a host that refuses; it is over when all do.
        if attempts.iter().all(|attempt| attempt.connection.is_closed()) {
            let first = attempts.first_mut();
            return Err(first.map_or(Failure::NoAnswer(address), |attempt| lost(&mut attempt.connection)));
        }
        Ok(())
    }

    /// Shows the token.
    fn greet(&mut self, mut connection: QuicConnection, pairing: &Pairing, role: Role) -> Result<Box<Met>, Failure> {
        let mut talk = Talk::new(MAX_MESSAGE);
        talk.say(&Message::Hello { version: VERSION, token: pairing.token.text(), role })?;
        connection.open_control();
        loop {
            let now = self.net.now();
            if connection.timeout() <= now {
                connection.handle_timeout(now, &mut self.net.endpoint);
            }
            if connection.is_closed() {
                return Err(lost(&mut connection));
            }
            talk.pump(&mut connection)?;
            match talk.hear()? {
                Some(Message::Welcome { version: VERSION }) => return Ok(Box::new(Met { connection, talk })),
                Some(_) => return Err(Failure::Protocol("it does not greet".to_owned())),
                None => {}
            }
            connection.flush(now);
            self.net.send(&mut connection);
            self.tick(now)?;
            self.wait(connection.timeout(), None);
            let whose = connection.handle();
            self.receive(whose, |now, net, event, _| connection.handle_event(now, &mut net.endpoint, event));
        }
    }
}
