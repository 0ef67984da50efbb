//! A connection that carries streams both ways, as `weft proxy` and `weft relay` have them: a [`Duplex`] on a session's
//! sockets.

use noq_proto::{ConnectionEvent, ConnectionHandle, FourTuple};
use weftway_mux::{Limits, Mux, Received, Side, StreamId};
use weftway_path::{Instant, PathId, Role as PathRole, Span};
use weftway_quic::driver::connection::QuicConnection;
use weftway_quic::driver::duplex::Duplex;
use weftway_udp::Net;
use weftway_udp::settings::KEEP_ALIVE;

use crate::connection::control_stream::AcceptedConnection;
use crate::connection::session::{Session, ended};
use crate::failure::Failure;
use crate::programs::explaining::Explained;
use crate::programs::mux_control::MuxControl;
use crate::programs::pipe_rates::LinkNow;
use crate::programs::pipe_seconds::Carrying;
use crate::programs::policy_exchange::PolicyExchange;
use crate::seen::{FlowPath, LastPacket, PathProgress, Unread};
use crate::setting::{Scheduling, build};

/// Streams that outlive a connection.
pub(crate) struct SavedStreams {
    /// The streams.
    pub mux: Mux,
    /// Messages that both ends were about to exchange.
    control: MuxControl,
}

impl SavedStreams {
    /// Streams that no connection has carried yet. This end takes as much as `own` says. The other one is thought to
    /// take as much as [`Limits::default`], of which streams and their first credit count here, and these are the same
    /// in all.
    pub fn new(side: Side, own: Limits) -> Result<Self, Failure> {
        let mux = Mux::new(side, own, Limits::default()).map_err(|error| Failure::Spec(error.to_string()))?;
        let mux = mux.with_control().map_err(|error| Failure::Spec(error.to_string()))?;
        Ok(Self { mux, control: MuxControl::default() })
    }

    /// Another connection is to carry the streams: the other end has received `theirs`.
    pub fn resume(&mut self, now: Instant, theirs: &Received) -> Result<(), Failure> {
        self.mux.resume(now, theirs).map_err(|error| Failure::Protocol(error.to_string()))
    }
}

/// A connection.
pub(crate) struct Carried {
    duplex: Duplex,
    scheduler: Explained,
    control: MuxControl,
    policy: PolicyExchange,
}

impl Carried {
    /// It carries `kept` from now on.
    pub fn new(
        now: Instant,
        accepted: Box<AcceptedConnection>,
        kept: SavedStreams,
        scheduling: &Scheduling,
    ) -> Result<Self, Failure> {
        let AcceptedConnection { connection, policy, .. } = *accepted;
        let paths = connection.paths().count();
        let (scheduler, host) = build(&scheduling.scheduler)?;
        let setting = scheduling.setting(paths);
        let roles = vec![PathRole::default(); paths];
        let SavedStreams { mux, control } = kept;
        let policy = PolicyExchange::new(policy && mux.side() == Side::Listening);
        let mut duplex =
            Duplex::over(connection, mux, setting, &roles).map_err(|error| Failure::Spec(error.to_string()))?;
        duplex.set_host(host);
        duplex.begin(now);
        Ok(Self { duplex, scheduler: Explained::new(scheduler), control, policy })
    }

    /// Another scheduler takes over, with what is under way.
    pub fn switch(&mut self, name: &str) -> Result<(), Failure> {
        let (scheduler, host) = build(name)?;
        self.scheduler = Explained::new(scheduler);
        self.duplex.sender_mut().switch_host(host);
        Ok(())
    }

    /// noq's name for the connection.
    pub fn handle(&self) -> ConnectionHandle {
        self.duplex.connection().handle()
    }

    /// The streams.
    pub fn mux(&mut self) -> &mut Mux {
        self.duplex.mux()
    }

    /// Returns true if the streams have something for this end's sockets.
    pub fn has_ready(&self) -> bool {
        self.duplex.streams().mux().has_ready()
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

    /// Instant at which something is due.
    pub fn next_event(&self) -> Instant {
        self.duplex.next_event()
    }

    /// Shortest round trip, for [`Net::moderate`]: what arrives may wait for a part of it. Zero beside realtime data;
    /// none where no path is in use.
    pub fn trip(&self, now: Instant) -> Option<Span> {
        let sender = self.duplex.sender();
        if sender.has_realtime(now) { Some(Span::ZERO) } else { sender.shortest_trip() }
    }

    /// Sends what may be sent. An error is the end of the connection.
    pub fn turn(&mut self, now: Instant, net: &mut Net) -> Result<(), Failure> {
        self.duplex.turn(now, &mut self.scheduler);
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
        let Self { duplex, control, policy, .. } = self;
        policy.receive(now, control, duplex.mux(), session.metering.as_mut())?;
        session.meter(now, duplex.sender_mut())?;
        policy.send(now, control, duplex, session.metering.as_ref())
    }

    /// Paths say often that they are alive only while something is open, and seldom while the connection alone is to be
    /// kept, which is over after the silence `lost_after`. The end that connects does so for both.
    pub fn keep_alive(&mut self, is_used: bool, lost_after: Span) {
        let interval = match self.duplex.streams().mux().side() {
            Side::Connecting => Some(if is_used { KEEP_ALIVE } else { KEEP_ALIVE.max(lost_after * 2 / 3) }),
            Side::Listening => None,
        };
        self.duplex.connection_mut().set_keep_alive(interval);
    }

    /// Each path, for the user.
    pub fn paths(&self, session: &Session<'_>) -> Vec<PathProgress> {
        session.sent(self.duplex.sender())
    }

    /// By which paths stream `id` went, for the user.
    pub fn flow_paths(&self, session: &Session<'_>, id: StreamId) -> Vec<FlowPath> {
        let (connection, mux) = (self.duplex.connection(), self.duplex.streams().mux());
        let Some(bytes) = mux.path_bytes(id) else { return Vec::new() };
        let told = |path: PathId| {
            let (&sent, &received) = bytes.sent.get(path.index()).zip(bytes.received.get(path.index()))?;
            let path = session.label(connection, path).filter(|_| sent + received > 0)?;
            Some(FlowPath { path, sent, received })
        };
        connection.paths().filter_map(told).collect()
    }

    /// Links and what waits for them, for the sources of pipes.
    pub fn carrying(&self, session: &Session<'_>) -> Carrying {
        let (connection, sender) = (self.duplex.connection(), self.duplex.sender());
        let (up, usable) = (sender.up(), sender.usable());
        let link = |path: PathId| {
            let (is_up, is_open) = (up.contains(path), usable.contains(path));
            Some(LinkNow::of(session.label(connection, path)?, sender.view(path), is_up, is_open))
        };
        let waiting = self.duplex.streams().mux().unsent_datagrams();
        Carrying { links: connection.paths().filter_map(link).collect(), waiting }
    }

    /// Bytes on stream `id` that its reader leaves there, for the user.
    pub fn left_unread(&self, now: Instant, id: StreamId) -> u64 {
        self.duplex.streams().mux().left_unread(now, id)
    }

    /// Adds the memory for what arrives, for the user.
    pub fn add_memory(&self, to: &mut Unread) {
        let mux = self.duplex.streams().mux();
        to.memory += mux.limits().0.receive.get();
        to.promised += mux.limits().0.receive.get() - mux.free_memory();
    }

    /// Path of one of the last packets, and the reason, for the user.
    pub fn last_packet(&mut self, session: &Session<'_>) -> Option<LastPacket> {
        let connection = self.duplex.connection();
        self.scheduler.last(|path| session.label(connection, path))
    }

    /// The connection, to be closed, and what another one may go on with.
    pub fn into_parts(self) -> (QuicConnection, SavedStreams) {
        let (connection, mux) = self.duplex.into_parts();
        (connection, SavedStreams { mux, control: self.control })
    }
}
