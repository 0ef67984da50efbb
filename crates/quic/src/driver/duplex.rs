//! A connection whose both ends send: many streams and datagrams each way ([`weftway_mux`]), over all paths.
//!
//! It is a [`Sender`] whose data are the records of a [`Mux`], and which gives the mux the records that arrive. So each
//! end has schedulers, controllers, windows and losses of its own, for what it sends. What an end says of what has
//! arrived travels in records as everything else: nothing leaves beside them without a congestion window.
//!
//! The mux outlives the connection: [`Duplex::into_parts`] gives it back, and [`Duplex::over`] goes on with it.
//!
//! A front end calls [`Duplex::handle`] for each datagram, [`Duplex::on_timer`] when [`Duplex::next_event`] is due,
//! reads and writes with [`Duplex::mux`], and then has one [`Duplex::turn`].

use noq_proto::{ConnectionEvent, Endpoint, FourTuple};
use weftway_host::Host;
use weftway_mux::{Limits, LimitsError, Mux, Side};
use weftway_path::spec::SpecError;
use weftway_path::{Instant, PathSet, Role, Span};
use weftway_scenario::config::Buffer;
use weftway_sched::Scheduler;

use super::connection::QuicConnection;
use super::sender::{Sender, Setting};
use super::streams::Streams;

/// Why there can be no such connection.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DuplexError {
    /// No such controller.
    #[error(transparent)]
    Spec(#[from] SpecError),
    /// Too little memory.
    #[error(transparent)]
    Limits(#[from] LimitsError),
}

/// An end that sends and receives.
pub struct Duplex {
    sender: Sender<Streams>,
    /// Paths that were usable once, and those that were in the last turn.
    known: PathSet,
    usable: PathSet,
}

impl Duplex {
    /// The end `side` of `connection`, over `roles.len()` paths. It takes as much as `own` says, the other end as much
    /// as `peer` says: these are its buffers, whatever `setting` has. The controller must exist.
    pub fn new(
        connection: QuicConnection,
        side: Side,
        (own, peer): (Limits, Limits),
        setting: Setting,
        roles: &[Role],
    ) -> Result<Self, DuplexError> {
        Ok(Self::over(connection, Mux::new(side, own, peer)?, setting, roles)?)
    }

    /// End over a mux that is there already: a new one, or one whose connection before was lost ([`Mux::resume`]).
    pub fn over(connection: QuicConnection, mux: Mux, mut setting: Setting, roles: &[Role]) -> Result<Self, SpecError> {
        // The mux bounds what is written. What is sent ahead of the first missing record is bounded as its receiver's
        // memory is.
        let (own, peer) = mux.limits();
        setting.transport.send_buffer = Buffer::Fixed(own.send + own.send);
        setting.transport.receive_buffer = Buffer::Fixed(peer.receive);
        setting.transport.stream_window = None;
        let streams = Streams::new(mux, setting.transport.mss.get());
        let sender = Sender::new(connection, streams, setting, roles)?;
        Ok(Self { sender, known: PathSet::EMPTY, usable: PathSet::EMPTY })
    }

    /// Decisions come from the scheduler that `host` was made for.
    pub fn set_host(&mut self, host: Host) {
        self.sender.set_host(host);
    }

    /// Takes in what the connection has received before it carried anything.
    pub fn begin(&mut self, now: Instant) {
        self.sender.source.set_now(now);
        self.sender.take_in(now, None);
    }

    /// The streams, to write, read and change. What is written leaves with the next [`Duplex::turn`].
    pub fn mux(&mut self) -> &mut Mux {
        self.sender.wake();
        self.sender.source.mux_mut()
    }

    /// The streams, read-only.
    pub fn streams(&self) -> &Streams {
        &self.sender.source
    }

    /// The sending half, to look at.
    pub fn sender(&self) -> &Sender<Streams> {
        &self.sender
    }

    /// The sending half, to set its policy.
    pub fn sender_mut(&mut self) -> &mut Sender<Streams> {
        &mut self.sender
    }

    /// The connection.
    pub fn connection(&self) -> &QuicConnection {
        &self.sender.connection
    }

    /// The connection, to send what it has, or to close it.
    pub fn connection_mut(&mut self) -> &mut QuicConnection {
        &mut self.sender.connection
    }

    /// The connection, which is to be closed, and what it carried: another one may go on with it.
    pub fn into_parts(self) -> (QuicConnection, Mux) {
        (self.sender.connection, self.sender.source.into_mux())
    }

    /// Takes a datagram that came by `route`.
    pub fn handle(&mut self, now: Instant, endpoint: &mut Endpoint, event: ConnectionEvent, route: FourTuple) {
        self.sender.source.set_now(now);
        self.sender.handle(now, endpoint, event, route);
    }

    /// Whatever is due.
    pub fn on_timer(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.sender.source.set_now(now);
        self.sender.on_timer(now, endpoint);
    }

    /// Time at which something is due.
    pub fn next_event(&self) -> Instant {
        self.sender.next_event()
    }

    /// Sends what may be sent: it is in the connection's outgoing queue.
    pub fn turn(&mut self, now: Instant, scheduler: &mut dyn Scheduler) {
        self.sender.source.set_now(now);
        if let Some(rtt) = self.longest_rtt() {
            self.mux().set_rtt(rtt);
        }
        self.look_after_paths();
        self.sender.turn(now, scheduler);
    }

    /// Keeps what is no record off paths that were given up; and the peer, which learns of it, keeps its data off them.
    fn look_after_paths(&mut self) {
        let usable = self.sender.usable_or_refused();
        if usable == self.usable {
            return;
        }
        self.usable = usable;
        self.known = usable.iter().fold(self.known, PathSet::with);
        for path in self.known.iter() {
            self.sender.connection.set_backup(path, !usable.is_empty() && !usable.contains(path));
        }
    }

    /// The longest smoothed round trip of the paths in use.
    fn longest_rtt(&self) -> Option<Span> {
        let trips = self.sender.usable().iter().map(|path| self.sender.view(path).srtt);
        trips.max().filter(|trip| !trip.is_zero())
    }

    /// Why the connection is over, or has to be closed.
    pub fn broken(&self) -> Option<String> {
        let error = self.sender.source.error().map(ToString::to_string);
        error.or_else(|| self.sender.broken().map(str::to_owned))
    }
}
