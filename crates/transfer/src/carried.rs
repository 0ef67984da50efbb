//! A connection that carries streams both ways, as `weft proxy` and `weft relay` have them: a [`Duplex`] on a session's
//! sockets.

use noq_proto::{ConnectionEvent, ConnectionHandle, FourTuple};
use weftway_host::sending::Groups;
use weftway_mux::{Limits, Mux, Side};
use weftway_path::{Instant, Role as PathRole};
use weftway_quic::driver::Setting;
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::duplex::Duplex;
use weftway_quic::udp::Net;
use weftway_sched::Scheduler;

use super::control_stream::{AcceptedConnection, ControlStream};
use super::options::{Failure, PathProgress};
use super::session::{Session, ended};
use super::setting::{build, transport};

/// A connection.
pub(super) struct Carried {
    duplex: Duplex,
    scheduler: Box<dyn Scheduler>,
    /// It has nothing to say any more, and stays open.
    _control: ControlStream,
}

impl Carried {
    /// Both ends take as much as [`Limits::default`] says.
    pub fn new(
        accepted: Box<AcceptedConnection>,
        side: Side,
        (scheduler, cc): &(String, String),
    ) -> Result<Self, Failure> {
        let AcceptedConnection { connection, control, .. } = *accepted;
        let paths = connection.paths().count();
        let (scheduler, host) = build(scheduler, None)?;
        let setting = Setting { transport: transport(), cc: cc.clone(), seed: 0, groups: Groups::detected(paths) };
        let limits = (Limits::default(), Limits::default());
        let roles = vec![PathRole::default(); paths];
        let mut duplex =
            Duplex::new(connection, side, limits, setting, &roles).map_err(|error| Failure::Spec(error.to_string()))?;
        duplex.set_host(host);
        Ok(Self { duplex, scheduler, _control: control })
    }

    /// noq's name for the connection.
    pub fn handle(&self) -> ConnectionHandle {
        self.duplex.connection().handle()
    }

    /// The streams.
    pub fn mux(&mut self) -> &mut Mux {
        self.duplex.mux()
    }

    /// Takes what has arrived on the session's sockets.
    pub fn receive(&mut self, session: &mut Session<'_>) {
        let whose = self.handle();
        session.receive(whose, |now, net, event, route| self.take(now, net, event, route));
    }

    /// Takes a datagram.
    pub fn take(&mut self, now: Instant, net: &mut Net, event: ConnectionEvent, route: FourTuple) {
        self.duplex.handle(now, &mut net.endpoint, event, route);
    }

    /// Whatever is due.
    pub fn on_timer(&mut self, now: Instant, net: &mut Net) {
        if self.duplex.next_event() <= now {
            self.duplex.on_timer(now, &mut net.endpoint);
        }
    }

    /// When something is due.
    pub fn next_event(&self) -> Instant {
        self.duplex.next_event()
    }

    /// Sends what may be sent. An error is the end of the connection.
    pub fn turn(&mut self, now: Instant, net: &mut Net) -> Result<(), Failure> {
        self.duplex.turn(now, self.scheduler.as_mut());
        net.send(self.duplex.connection_mut());
        match self.duplex.broken() {
            Some(why) if self.duplex.streams().error().is_some() => Err(Failure::Protocol(why)),
            Some(why) => Err(ended(self.duplex.connection(), &why)),
            None => Ok(()),
        }
    }

    /// Each path, for the user.
    pub fn paths(&self, session: &Session<'_>) -> Vec<PathProgress> {
        session.sent(self.duplex.sender())
    }

    /// The connection, to be closed.
    pub fn into_connection(self) -> QuicConnection {
        self.duplex.into_connection()
    }
}
