//! The end that sends the data: a [`Carrier`] over a connection of noq.
//!
//! A turn goes: what noq told is taken in; everything that is no data leaves; then, as long as a packet may go, the
//! scheduler is asked, its path alone is opened, one record is queued, and one datagram is polled. Acknowledgements and
//! probes are never behind data, so a scheduler that waits holds up nothing else.

use bytes::BytesMut;
use noq_proto::Endpoint;
use weftway_cc::{Controller, Setup, Share};
use weftway_host::sending::{Carrier, Dispatch, Groups, Policy, Views, prepare};
use weftway_host::{Host, ask, tell};
use weftway_path::spec::SpecError;
use weftway_path::{BlockedReason, Bytes, Event, Instant, Offset, Path, PathId, PathSet, Span};
use weftway_scenario::config::{Buffer, TransportConfig};
use weftway_sched::{Needs, Scheduler};

use super::answers::Answers;
use super::connection::QuicConnection;
use super::observer::Report;
use super::realtime_state::Realtime;
use super::record::Record;
use super::sending_path::{PathTally, SendingPath, Stage};
use super::source::Source;

/// Offers of the driver to a scheduler: everything, where its front end sees what the sender's devices hold.
pub const OFFERS: Needs = weftway_host::EVERYTHING;

/// Settings of a sender.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The transport's settings.
    pub transport: TransportConfig,
    /// Controller and its switches.
    pub cc: String,
    /// The seed of controllers that draw.
    pub seed: u64,
    /// Which paths share a bottleneck, as far as it is known.
    pub groups: Groups,
    /// True if a full record is as long as every path of noq's takes by now, which is no less than the transport's
    /// `mss`. If not, it has the `mss`.
    pub fills_packets: bool,
}

/// The sender.
pub struct Sender<S> {
    /// The connection.
    pub connection: QuicConnection,
    /// Source of the data.
    pub source: S,
    pub(super) dispatch: Dispatch,
    pub(super) setting: Setting,
    pub(super) now: Instant,
    pub(super) established: bool,
    pub(super) broken: Option<String>,
    pub(super) paths: Vec<SendingPath>,
    pub(super) shares: Vec<Share>,
    /// True if anything waits for a path with room.
    pub(super) wants_room: bool,
    /// True if the last turn ended because it had sent enough: the next one is due at once.
    has_more: bool,
    /// Number of packets that this turn may still send.
    pub(super) left: u32,
    pub(super) pool: BytesMut,
    /// The payload of a full record.
    pub(super) record: Bytes,
    pub(super) reports: Vec<Report>,
    pub(super) answers: Answers,
    pub(super) realtime: Realtime,
    /// True if acknowledgements return on whichever path the peer's stack likes.
    pub(super) takes_all_trips: bool,
    /// The path that the last datagram came on, while what it owes may still have to leave.
    pub(super) heard: Option<PathId>,
}

impl<S: Source> Sender<S> {
    /// A sender over `roles.len()` paths. The controller must exist.
    pub fn new(
        connection: QuicConnection,
        source: S,
        mut setting: Setting,
        roles: &[weftway_path::Role],
    ) -> Result<Self, SpecError> {
        if roles.len() < 2 {
            setting.transport.standing_queue = None;
        }
        let transport = &setting.transport;
        let ids = || (0..roles.len()).map(|at| PathId::new(at as u8));
        let view = |(id, role): (PathId, &weftway_path::Role)| {
            let mut path = Path::new(id, transport.mss, transport.initial_cwnd());
            (path.role, path.blocked) = (*role, BlockedReason::Validation);
            path.bottleneck = setting.groups.of(id);
            path
        };
        let views = Views::new(ids().zip(roles).map(view).collect());
        let path = |id| Ok(SendingPath::new(controller(&setting, id, Instant::ZERO, None)?, transport));
        let paths = ids().map(path);
        let paths = paths.collect::<Result<Vec<_>, SpecError>>()?;
        // Both ends know the first limit.
        let edge = Offset::ZERO + receive_window(transport);
        Ok(Self {
            connection,
            source,
            dispatch: Dispatch::new(transport.mss, views, edge),
            now: Instant::ZERO,
            established: false,
            broken: None,
            shares: paths.iter().map(|path| Share { usable: false, ..path.cc.share() }).collect(),
            paths,
            wants_room: false,
            has_more: false,
            left: 0,
            pool: BytesMut::new(),
            record: setting.transport.mss,
            reports: Vec::new(),
            answers: Answers::new(roles.len()),
            realtime: Realtime::default(),
            takes_all_trips: false,
            heard: None,
            setting,
        })
    }

    /// Decisions come from the scheduler that `host` was made for.
    pub fn set_host(&mut self, host: Host) {
        self.dispatch.set_host(host);
    }

    /// Acknowledgements return on whichever path the peer's stack likes. A round trip there on one path and back on
    /// another then counts as one of the first: there are no others.
    pub fn take_trips_of_all_paths(&mut self) {
        self.takes_all_trips = true;
    }

    /// Another scheduler takes over, for which `host` was made, while data are under way. It is told which paths are
    /// up.
    pub fn switch_host(&mut self, host: Host) {
        self.dispatch.set_host(host.following(&self.dispatch.host));
        for id in self.dispatch.views.offered().iter() {
            self.dispatch.host.events.push_rare(Event::PathUp(id));
            self.refresh(id);
        }
        self.dispatch.question.ready = true;
    }

    /// Offers the scheduler paths as `policy` says from now on.
    pub fn set_policy(&mut self, policy: Option<Policy>) {
        self.dispatch.set_policy(policy);
        self.paths().for_each(|id| self.refresh(id));
        self.dispatch.question.ready = true;
    }

    /// The policy, if there is one.
    pub fn policy(&self) -> Option<&Policy> {
        self.dispatch.policy()
    }

    /// The policy, to change. What follows from it does so in the next turn.
    pub fn policy_mut(&mut self) -> Option<&mut Policy> {
        self.dispatch.question.ready = true;
        self.dispatch.policy_mut()
    }

    fn paths(&self) -> impl Iterator<Item = PathId> + use<S> {
        (0..self.paths.len() as u8).map(PathId::new)
    }

    /// Counts of what the scheduler was asked and did.
    pub fn counts(&self) -> weftway_host::Counts {
        self.dispatch.host.counts
    }

    /// Counters of a path.
    pub fn tally(&self, path: PathId) -> &PathTally {
        &self.paths[path.index()].tally
    }

    /// Time that a path could not be used so far, each time from when it was given up or closed until it was back.
    pub fn away(&self, path: PathId) -> Span {
        self.paths[path.index()].outages.total(self.now)
    }

    /// A path as schedulers see it.
    pub fn view(&self, path: PathId) -> &Path {
        self.dispatch.views.get(path)
    }

    /// Everything before it has arrived.
    pub fn delivered(&self) -> Offset {
        self.dispatch.outbox.una()
    }

    /// The paths that data can take: they are up, and no policy closes them.
    pub fn usable(&self) -> PathSet {
        self.dispatch.views.offered()
    }

    /// The data, to change, and the paths that may be used, to look at.
    pub fn data_and_paths(&mut self) -> (&mut S, &[Path]) {
        (&mut self.source, self.dispatch.views.usable())
    }

    /// Usable paths, and those onto which noq let no data lately: the peer should go on sending there.
    pub(super) fn usable_or_refused(&self) -> PathSet {
        let refused = |id: &PathId| self.paths[id.index()].is_refused(self.now);
        self.paths().filter(refused).fold(self.usable(), PathSet::with)
    }

    /// The paths that are up, also those that a policy closes.
    pub fn up(&self) -> PathSet {
        self.dispatch.views.set()
    }

    /// Returns true if any path can be used.
    pub fn has_path(&self) -> bool {
        !self.dispatch.views.offered().is_empty()
    }

    /// Smallest round trip of the paths in use, as far as it is known.
    pub fn shortest_trip(&self) -> Option<Span> {
        self.usable().iter().map(|path| self.view(path).min_rtt).filter(|trip| !trip.is_zero()).min()
    }

    /// Returns true if this end has sent realtime data lately.
    pub fn has_realtime(&self, now: Instant) -> bool {
        self.realtime.until > now
    }

    /// Returns true if the handshake is done.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Why the connection is over, if it is.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Returns true if the scheduler wants to see what devices hold.
    pub fn wants_devices(&self) -> bool {
        self.dispatch.host.needs.device
    }

    /// Sets what this host's device on `path` holds.
    pub fn set_device_queue(&mut self, path: PathId, bytes: Bytes) {
        self.dispatch.views.get_mut(path).device_queue = bytes;
    }

    /// Something happened outside of the connection: the application wrote.
    pub fn wake(&mut self) {
        self.dispatch.question.ready = true;
    }

    /// Whatever is due now. Ours is first: a probe with data leaves noq nothing to probe for.
    pub fn on_timer(&mut self, now: Instant, endpoint: &mut Endpoint) {
        self.fire_own(now);
        if self.connection.timeout() <= now {
            self.connection.handle_timeout(now, endpoint);
            let oldest = self.answers.oldest();
            self.answers.answer(now, &mut self.connection, oldest);
            self.take_in(now, None);
        }
    }

    /// Probes, paths that are silent, questions, the scheduler's own wake-up.
    fn fire_own(&mut self, now: Instant) {
        self.now = now;
        self.fit_records();
        self.dispatch.host.woken(now);
        self.dispatch.fire_policy(now);
        for at in 0..self.paths.len() {
            let id = PathId::new(at as u8);
            if self.paths[at].loss_due() <= now {
                self.settle_reports(id, &[], false);
                self.refresh(id);
            }
            if self.paths[at].probe_at <= now {
                self.probe(id);
            } else if self.offer_at(id) <= now {
                self.offer(id);
                self.refresh(id);
            }
            self.check_silence(id);
        }
        if self.dispatch.probe_at <= now {
            self.ask_for_window();
        }
        self.connection.note_timeout();
        self.dispatch.question.ready = true;
    }

    /// Time at which something is due.
    pub fn next_event(&self) -> Instant {
        if self.has_more {
            return self.now;
        }
        let mut next = self.connection.timeout().min(self.dispatch.host.wake()).min(self.dispatch.probe_at);
        next = next.min(self.dispatch.policy_due());
        for id in (0..self.paths.len()).map(|at| PathId::new(at as u8)) {
            let path = &self.paths[id.index()];
            next = next.min(match path.stage {
                Stage::Absent => Instant::NEVER,
                Stage::Down { ask_at } => ask_at,
                Stage::Up => path.probe_at.min(self.give_up_at(id)).min(self.offer_at(id)).min(path.loss_due()),
            });
            let release = path.pacer.release();
            if release > self.now && (self.wants_room || !path.queue.is_empty()) {
                next = next.min(release);
            }
        }
        next
    }

    /// Sends what may be sent, or a part of it: then the next turn is due at once. What leaves is in the connection's
    /// outgoing queue.
    pub fn turn(&mut self, now: Instant, scheduler: &mut dyn Scheduler) {
        self.now = now;
        self.left = self.packets_per_turn();
        self.tell_windows();
        self.answer(now);
        self.connection.flush(now);
        self.fit_records();
        self.send_realtime();
        for at in 0..self.paths.len() {
            self.serve(PathId::new(at as u8));
        }
        while self.left > 0 && prepare(self) {
            ask(self, scheduler);
        }
        self.connection.note_timeout();
        self.has_more = self.left == 0;
        if !self.dispatch.host.events.is_empty() {
            tell(self, scheduler);
        }
        self.wants_room = self.dispatch.wants_room();
        self.dispatch.question.synced = false;
        if self.has_more {
            return;
        }
        for (at, path) in self.paths.iter_mut().enumerate() {
            let view = self.dispatch.views.get(PathId::new(at as u8));
            let app_limited = self.setting.transport.app_limited.is_limited(self.dispatch.flow.unsent, view.mss);
            path.end_turn(self.now, view, app_limited, self.wants_room);
        }
    }

    /// Sends what waits in the path's queue, as far as it may, and brings what is derived of the path up to date.
    fn serve(&mut self, id: PathId) {
        while self.left > 0
            && self.paths[id.index()].stage == Stage::Up
            && !self.connection.is_early_spent()
            && self.paths[id.index()].may_send_queued(self.now, self.dispatch.views.get(id))
        {
            let Some(assigned) = self.take_queued(id) else { break };
            if self.dispatch.outbox.get(assigned.chunk).is_some_and(|chunk| !chunk.acked) {
                self.transmit(id, &assigned);
            } else {
                self.dispatch.host.events.push(Event::Recalled(assigned.receipt(id)));
            }
        }
        self.refresh(id);
    }

    /// The window is shut: the limit that opened it may be lost (RFC 9000 §4.1: DATA_BLOCKED), with a path that is dead
    /// and has data in flight.
    fn ask_for_window(&mut self) {
        if !self.dispatch.probes_window(self.now) {
            return;
        }
        let question = Record::question(self.dispatch.outbox.next());
        for id in self.dispatch.views.offered().iter() {
            let _ = self.connection.send(self.now, id, bytes::Bytes::copy_from_slice(&question), 0);
        }
    }
}

/// A controller for a path that comes up now.
pub(super) fn controller(
    setting: &Setting,
    id: PathId,
    now: Instant,
    rtt: Option<Span>,
) -> Result<Box<dyn Controller>, SpecError> {
    let setup = Setup { now, rtt, ..weftway_net::controller_setup(&setting.transport, setting.seed, id) };
    weftway_net::controller(&setting.cc, &setting.transport, &setup)
}

/// Distance of the right edge from what was read.
pub fn receive_window(transport: &TransportConfig) -> Bytes {
    let (Buffer::Fixed(bytes) | Buffer::Auto { max: bytes }) = transport.receive_buffer;
    transport.stream_window.map_or(bytes, |stream| bytes.min(stream)).max(transport.mss)
}

/// Bytes that the application writes ahead of what is acknowledged.
pub(super) fn send_buffer(transport: &TransportConfig) -> Bytes {
    let (Buffer::Fixed(bytes) | Buffer::Auto { max: bytes }) = transport.send_buffer;
    bytes.max(transport.mss)
}
