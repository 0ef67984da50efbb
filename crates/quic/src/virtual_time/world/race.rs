//! `options.open = "race"`: handshakes over all paths at once, of which the first that is done stays.
//!
//! The client decides, when a handshake is done on its side. The connection of the server that belongs to it stays too.
//! The others end without a word: what they still have under way is ignored.

use noq_proto::{ConnectionEvent, ConnectionHandle};
use weftway_path::{Instant, PathId};
use weftway_scenario::config::Opening;

use super::{RunError, World};
use crate::driver::connection::QuicConnection;
use crate::virtual_time::setup::Side;

/// A handshake over one path.
pub(super) struct Attempt {
    path: PathId,
    client: QuicConnection,
    /// Once the client's first datagram has arrived.
    server: Option<QuicConnection>,
}

impl Attempt {
    /// Both ends of it, each with whether what it sends goes from the sender of the data to the receiver.
    fn ends(&mut self, upload: bool) -> impl Iterator<Item = (&mut QuicConnection, bool)> {
        let server = self.server.as_mut().map(|server| (server, !upload));
        std::iter::once((&mut self.client, upload)).chain(server)
    }

    fn timeout(&self) -> Instant {
        let server = self.server.as_ref().map_or(Instant::NEVER, QuicConnection::timeout);
        self.client.timeout().min(server)
    }
}

impl World {
    /// Returns true if the connection is opened over all paths at once.
    pub(super) fn races(&self) -> bool {
        self.config.transport.open == Opening::Race && self.config.paths.len() > 1
    }

    /// The client begins a handshake on every path that exists and has none.
    pub(super) fn begin_race(&mut self) -> Result<(), RunError> {
        for path in self.network.present.iter() {
            if self.attempts.iter().all(|attempt| attempt.path != path) {
                let client = self.connect(path)?;
                self.attempts.push(Attempt { path, client, server: None });
            }
        }
        self.advance_race()
    }

    /// Returns true if handshakes are under way, and none is done.
    pub(super) fn is_racing(&self) -> bool {
        !self.attempts.is_empty()
    }

    /// Time at which a handshake has to send again.
    pub(super) fn race_timeout(&self) -> Instant {
        self.attempts.iter().map(Attempt::timeout).min().unwrap_or(Instant::NEVER).max(self.now)
    }

    /// A client's first datagram has arrived over `path`: the server's end of that handshake.
    pub(super) fn answer_in_race(&mut self, path: PathId, server: QuicConnection) {
        if let Some(attempt) = self.attempts.iter_mut().find(|attempt| attempt.path == path) {
            attempt.server = Some(server);
        }
    }

    /// A datagram for one of the handshakes.
    pub(super) fn hear_in_race(&mut self, handle: ConnectionHandle, event: ConnectionEvent, forward: bool) {
        let to_client = forward != self.upload();
        let endpoint = if forward { &mut self.receiving.endpoint } else { &mut self.sending.endpoint };
        let ends = self
            .attempts
            .iter_mut()
            .filter_map(|attempt| if to_client { Some(&mut attempt.client) } else { attempt.server.as_mut() });
        if let Some(connection) = ends.into_iter().find(|connection| connection.handle() == handle) {
            connection.handle_event(self.now, endpoint, event);
        }
    }

    /// Timers that are due, whether a handshake is done, and what the others want to send.
    pub(super) fn advance_race(&mut self) -> Result<(), RunError> {
        let (now, upload) = (self.now, self.upload());
        let mut attempts = std::mem::take(&mut self.attempts);
        for attempt in &mut attempts {
            for (connection, forward) in attempt.ends(upload) {
                let endpoint = if forward { &mut self.sending.endpoint } else { &mut self.receiving.endpoint };
                if connection.timeout() <= now {
                    connection.handle_timeout(now, endpoint);
                }
            }
        }
        let done = attempts.iter().position(|attempt| attempt.client.is_established() && attempt.server.is_some());
        if let Some(Attempt { mut client, server: Some(server), .. }) = done.map(|at| attempts.swap_remove(at)) {
            client.keep(now, self.network.present, self.config.transport.probe_interval);
            self.adopt(Side::Server, server)?;
            return self.adopt(Side::Client, client);
        }
        for attempt in &mut attempts {
            for (connection, forward) in attempt.ends(upload) {
                connection.flush(now);
                while let Some(out) = connection.outgoing.pop_front() {
                    self.network.send(self.now, &out, forward);
                    connection.recycle(out.bytes);
                }
            }
        }
        self.attempts = attempts;
        Ok(())
    }
}
