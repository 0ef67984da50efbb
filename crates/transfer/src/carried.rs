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
use super::options::Failure;
use super::peer_policy::PeerPolicy;
use super::seen::PathProgress;
use super::session::{Session, ended};
use super::setting::{build, transport};
use super::wire::{Message, PathTerms, WireError};

/// A connection.
pub(super) struct Carried {
    duplex: Duplex,
    scheduler: Box<dyn Scheduler>,
    /// What it says of links and their caps.
    control: ControlStream,
    /// What this end has said of its links.
    told: Vec<PathTerms>,
    /// What the other end has said of its own.
    peer: PeerPolicy,
}

impl Carried {
    /// This end takes as much as `own` says. The other one is thought to take as much as [`Limits::default`], of which streams
    /// and their first credit count here, and these are the same in all.
    pub fn new(
        accepted: Box<AcceptedConnection>,
        side: Side,
        (scheduler, cc): &(String, String),
        own: Limits,
    ) -> Result<Self, Failure> {
        let AcceptedConnection { connection, control, .. } = *accepted;
        let paths = connection.paths().count();
        let (scheduler, host) = build(scheduler, None)?;
        let groups = Groups::detected(paths);
        let setting = Setting { transport: transport(), cc: cc.clone(), seed: 0, groups, fills_packets: true };
        let limits = (own, Limits::default());
        let roles = vec![PathRole::default(); paths];
        let mut duplex =
            Duplex::new(connection, side, limits, setting, &roles).map_err(|error| Failure::Spec(error.to_string()))?;
        duplex.set_host(host);
        Ok(Self { duplex, scheduler, control, told: Vec::new(), peer: PeerPolicy::default() })
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

    /// The links of this end carry what their policy says, from the beginning of the connection.
    pub fn begin_policy(&mut self, session: &mut Session<'_>) {
        session.begin_metering(self.duplex.sender_mut());
    }

    /// Both ends tell each other what links may carry, and keep to it.
    pub fn keep_policy(&mut self, now: Instant, session: &mut Session<'_>) -> Result<(), Failure> {
        if session.listener.is_none() && session.metering.is_none() {
            return Ok(());
        }
        self.exchange()?;
        while let Some(message) = self.control.receive()? {
            match (message, &mut session.metering) {
                (Message::Paths { paths }, None) => self.peer.set(paths),
                (Message::Spent { paths }, Some(metering)) => {
                    paths.into_iter().for_each(|(number, bytes)| metering.spent(number, bytes));
                }
                (other, _) => {
                    return Err(Failure::Protocol(format!("a message comes out of turn: {}", other.name())));
                }
            }
        }
        session.meter(now, self.duplex.sender_mut())?;
        if let Some(metering) = &session.metering {
            let terms = metering.terms(self.duplex.connection());
            if terms != self.told {
                self.control.send(&Message::Paths { paths: terms.clone() })?;
                self.told = terms;
            }
        }
        let spent = self.peer.attend(self.duplex.sender_mut());
        if !spent.is_empty() {
            self.control.send(&Message::Spent { paths: spent })?;
        }
        if self.control.queued() > 0 { self.exchange() } else { Ok(()) }
    }

    /// Where the stream is over, so is the connection, which says why.
    fn exchange(&mut self) -> Result<(), Failure> {
        match self.control.exchange(self.duplex.connection_mut()) {
            Ok(()) | Err(WireError::Ended) => Ok(()),
            Err(error) => Err(error.into()),
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
