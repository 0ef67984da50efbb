//! The end that sends the data: a [`Transport`] of the host crate over a connection of noq.
//!
//! A turn goes: what noq told is taken in; everything that is no data leaves; then, as long as a packet may go, the
//! scheduler is asked, its path alone is opened, one record is queued, and one datagram is polled. Acknowledgements and
//! probes are never behind data, so a scheduler that waits holds up nothing else.

use bytes::BytesMut;
use weftway_cc::{Controller, Flavour, Setup, Share, Signal};
use weftway_host::sending::{Assigned, Groups, Outbox, Views};
use weftway_host::{Carried, Host, Refusal, Transport, ask, tell};
use weftway_path::spec::SpecError;
use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Flow, Health, Instant, Offset, Packet, Path, PathId, PathSet,
    Receipt, Recovery, SendKind, Span, Starved,
};
use weftway_scenario::config::{Buffer, Transport as Settings};
use weftway_scenario::{Message, mix};
use weftway_sched::{Needs, Scheduler};

use super::connection::{News, QuicConnection};
use super::observer::{Report, What};
use super::record::{HEAD, Record};
use super::sending_path::{Outcome, PathTally, SendingPath, Stage};

/// What the driver offers to a scheduler: everything, where its front end sees what the sender's devices hold.
pub const OFFERS: Needs = weftway_host::EVERYTHING;

/// How long a shut window may stay silent before the sender asks.
const ASK_AFTER: Span = Span::from_millis(200);

/// Room for some fifty records: memory comes in pieces of this size.
const POOL: usize = 64 << 10;

/// Where the data come from.
pub trait Source {
    /// How much the application has written.
    fn written(&self) -> u64;

    /// The message that byte `at` belongs to. Data without messages are one.
    fn message_at(&mut self, at: u64) -> Option<Message>;

    /// Appends so many bytes of the data from `offset` on.
    fn append(&self, offset: Offset, bytes: usize, to: &mut BytesMut);
}

/// How a sender is set.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The transport's settings.
    pub transport: Settings,
    /// Controller and its switches.
    pub cc: String,
    /// The seed of controllers that draw.
    pub seed: u64,
    /// Which paths share a bottleneck, as far as it is known.
    pub groups: Groups,
}

/// The sender.
pub struct Sender<S> {
    /// The connection.
    pub connection: QuicConnection,
    /// Where the data come from.
    pub source: S,
    host: Host,
    setting: Setting,
    now: Instant,
    established: bool,
    broken: Option<String>,
    paths: Vec<SendingPath>,
    views: Views,
    shares: Vec<Share>,
    outbox: Outbox,
    flow: Flow,
    /// The chunk at hand, and how it would be sent.
    hand: Option<(u64, SendKind)>,
    packet: Packet,
    message_end: u64,
    ready: bool,
    starved: bool,
    /// Whether data wait to be sent again.
    again: bool,
    recalled: Vec<Instant>,
    ask_at: Instant,
    pool: BytesMut,
    reports: Vec<Report>,
}

impl<S: Source> Sender<S> {
    /// A sender over `roles.len()` paths. The controller must exist.
    pub fn new(
        connection: QuicConnection,
        source: S,
        setting: Setting,
        roles: &[weftway_path::Role],
    ) -> Result<Self, SpecError> {
        let transport = &setting.transport;
        let ids = || (0..roles.len()).map(|at| PathId::new(at as u8));
        let view = |(id, role): (PathId, &weftway_path::Role)| {
            let mut path = Path::new(id, transport.mss, transport.initial_cwnd());
            (path.role, path.blocked) = (*role, BlockedReason::Validation);
            path.bottleneck = setting.groups.of(id);
            path
        };
        let views = Views::new(ids().zip(roles).map(view).collect());
        let paths = ids().map(|id| Ok(SendingPath::new(controller(&setting, id, Instant::ZERO, None)?)));
        let paths = paths.collect::<Result<Vec<_>, SpecError>>()?;
        let (offset, bytes, none) = (Offset::ZERO, Bytes::ZERO, PathSet::EMPTY);
        let window = receive_window(transport);
        Ok(Self {
            connection,
            source,
            host: Host::default(),
            now: Instant::ZERO,
            established: false,
            broken: None,
            shares: paths.iter().map(|path| Share { usable: false, ..path.cc.share() }).collect(),
            paths,
            views,
            outbox: Outbox::default(),
            // Both ends know the first limit.
            flow: Flow { edge: offset + window, ..Flow::default() },
            hand: None,
            packet: Packet { offset, bytes, reinjection: false, carried: none, avoid: none },
            message_end: 0,
            ready: false,
            starved: false,
            again: false,
            recalled: vec![Instant::NEVER; roles.len()],
            ask_at: Instant::NEVER,
            pool: BytesMut::with_capacity(POOL),
            reports: Vec::new(),
            setting,
        })
    }

    /// Decisions come from the scheduler that `host` was made for.
    pub fn set_host(&mut self, host: Host) {
        self.host = host;
    }

    /// Another scheduler takes over, for which `host` was made, while data are under way. It is told which paths are up.
    pub fn switch_host(&mut self, host: Host) {
        self.host = host.following(&self.host);
        for id in self.views.set().iter() {
            self.host.events.push_rare(Event::PathUp(id));
            self.refresh(id);
        }
        self.ready = true;
    }

    /// What is kept for the scheduler.
    pub fn counts(&self) -> weftway_host::Counts {
        self.host.counts
    }

    /// What was counted of a path.
    pub fn tally(&self, path: PathId) -> &PathTally {
        &self.paths[path.index()].tally
    }

    /// How long a path could not be used so far, each time from when it was given up or closed until it was back.
    pub fn away(&self, path: PathId) -> Span {
        self.paths[path.index()].outages.total(self.now)
    }

    /// A path as schedulers see it.
    pub fn view(&self, path: PathId) -> &Path {
        self.views.get(path)
    }

    /// Everything before it has arrived.
    pub fn delivered(&self) -> Offset {
        self.outbox.una()
    }

    /// Whether the receiver has room for the first record that has not arrived.
    pub fn is_owing(&self) -> bool {
        let (una, written) = (self.outbox.una().get(), self.source.written());
        una < written && written.min(una + self.setting.transport.mss.get()) <= self.flow.edge.get()
    }

    /// The paths that can be used.
    pub fn usable(&self) -> PathSet {
        self.views.set()
    }

    /// Whether any path can be used.
    pub fn has_path(&self) -> bool {
        !self.views.set().is_empty()
    }

    /// Whether the handshake is done.
    pub fn is_established(&self) -> bool {
        self.established
    }

    /// Why the connection is over, if it is.
    pub fn broken(&self) -> Option<&str> {
        self.broken.as_deref()
    }

    /// Whether the scheduler wants to see what devices hold.
    pub fn wants_devices(&self) -> bool {
        self.host.needs.device
    }

    /// What this host's device on `path` holds.
    pub fn set_device_queue(&mut self, path: PathId, bytes: Bytes) {
        self.views.get_mut(path).device_queue = bytes;
    }

    /// Something happened outside of the connection: the application wrote.
    pub fn wake(&mut self) {
        self.ready = true;
    }

    /// Takes in what the last call into noq brought. The front end calls it after each.
    pub fn take_in(&mut self, now: Instant) {
        self.now = now;
        self.take_reports();
        // The peer opened a path anew that we took for alive: its packets are counted from the beginning.
        for id in self.views.set().iter() {
            if self.paths[id.index()].generation != self.connection.generation(id) {
                self.path_down(id, Stage::Absent);
            }
        }
        while let Some(news) = self.connection.next_news() {
            match news {
                News::Connected => self.established = true,
                News::PathUp(id) => self.path_up(id),
                News::PathClosed(id) => self.path_down(id, Stage::Absent),
                News::Lost(why) => self.broken = Some(why),
            }
        }
        while let Some(record) = self.connection.receive() {
            if let Some(Record::Limit { edge, arrived }) = Record::parse(&record) {
                self.flow.edge = self.flow.edge.max(edge);
                if arrived <= self.outbox.next() {
                    self.outbox.acknowledge_below(arrived);
                }
            }
        }
        if self.setting.groups.is_due(now) {
            self.setting.groups.look(now, &mut self.views);
        }
        self.ready = true;
    }

    /// Whatever is due now: probes, paths that are silent, questions, the scheduler's own wake-up.
    pub fn on_timer(&mut self, now: Instant) {
        self.now = now;
        self.host.woken(now);
        for at in 0..self.paths.len() {
            let id = PathId::new(at as u8);
            if self.paths[at].probe_at <= now {
                self.probe(id);
            }
            self.check_silence(id);
        }
        if self.ask_at <= now {
            self.ask_for_window();
        }
        self.ready = true;
    }

    /// When something is due.
    pub fn next_event(&self) -> Instant {
        let mut next = self.connection.timeout().min(self.host.wake()).min(self.ask_at);
        for id in (0..self.paths.len()).map(|at| PathId::new(at as u8)) {
            let path = &self.paths[id.index()];
            next = next.min(match path.stage {
                Stage::Absent => Instant::NEVER,
                Stage::Down { ask_at } => ask_at,
                Stage::Up => path.probe_at.min(self.silent_at(id)),
            });
            let release = path.pacer.release();
            if release > self.now && (self.wants_room() || !path.queue.is_empty()) {
                next = next.min(release);
            }
        }
        next
    }

    fn wants_room(&self) -> bool {
        self.hand.is_some()
            || self.flow.unsent > Bytes::ZERO
            || self.host.needs.copies && self.outbox.has_sent()
            || self.again
    }

    /// Sends what may be sent. What leaves is in the connection's outgoing queue.
    pub fn turn(&mut self, now: Instant, scheduler: &mut dyn Scheduler) {
        self.now = now;
        self.connection.flush(now);
        for at in 0..self.paths.len() {
            self.serve(PathId::new(at as u8));
        }
        while self.wants() {
            ask(self, scheduler);
        }
        if !self.host.events.is_empty() {
            tell(self, scheduler);
        }
        self.again = self.outbox.first_reinjection().is_some();
        for (at, path) in self.paths.iter_mut().enumerate() {
            let view = self.views.get(PathId::new(at as u8));
            path.end_turn(view, self.setting.transport.app_limited.is_limited(self.flow.unsent, view.mss));
        }
    }

    /// Sends what waits in the path's queue, as far as it may, and brings what is derived of the path up to date.
    fn serve(&mut self, id: PathId) {
        while self.paths[id.index()].stage == Stage::Up
            && !self.connection.is_early_spent()
            && self.paths[id.index()].may_send_queued(self.now, self.views.get(id))
        {
            let Some(assigned) = self.paths[id.index()].queue.pop_front() else { break };
            self.views.get_mut(id).queued -= Bytes::new(u64::from(assigned.bytes));
            if self.outbox.get(assigned.chunk).is_some_and(|chunk| !chunk.acked) {
                self.transmit(id, &assigned);
            }
        }
        self.refresh(id);
    }

    fn refresh(&mut self, id: PathId) {
        let (path, view) = (&mut self.paths[id.index()], self.views.get_mut(id));
        view.release = path.pacer.release();
        view.blocked = match path.stage {
            Stage::Up => path.blocked_reason(self.now, view),
            Stage::Absent | Stage::Down { .. } => BlockedReason::Validation,
        };
        if self.host.needs.queueing {
            view.queue_room = send_buffer(&self.setting.transport).saturating_sub(view.send_queue());
        }
        path.arm(self.now, view, self.setting.transport.ack_delay);
    }

    /// Whether the scheduler must be asked.
    fn wants(&mut self) -> bool {
        if !self.ready || !self.established || self.broken.is_some() || self.connection.is_early_spent() {
            return false;
        }
        let (mut open, mut roomy) = (false, false);
        for path in self.views.usable() {
            open |= path.is_open();
            roomy |= path.queue_room >= path.mss;
        }
        self.sync_flow();
        if !(open || self.host.needs.queueing && roomy) {
            self.hand = None;
            return self.recalls();
        }
        self.take_up();
        if self.hand.is_some() {
            self.starved = false;
            return true;
        }
        self.on_blocked();
        open && self.host.needs.copies && self.outbox.has_sent() || self.recalls()
    }

    /// Whether the scheduler may take back what waits in some path's queue.
    fn recalls(&self) -> bool {
        self.host.needs.recall && self.views.set().iter().any(|id| self.gives_back(id))
    }

    /// Once at a time, so that a scheduler that only takes back comes to an end.
    fn gives_back(&self, id: PathId) -> bool {
        !self.paths[id.index()].queue.is_empty() && self.recalled[id.index()] != self.now
    }

    fn take_up(&mut self) {
        let again = self.outbox.first_reinjection().map(|number| (number, SendKind::Reinjection));
        self.hand = again.or_else(|| self.next_fresh().map(|number| (number, SendKind::Fresh)));
        if let Some((number, kind)) = self.hand {
            let chunk = self.outbox.chunk(number);
            self.packet = Packet {
                offset: chunk.offset,
                bytes: Bytes::new(u64::from(chunk.bytes)),
                reinjection: kind == SendKind::Reinjection,
                carried: chunk.carried,
                avoid: PathSet::EMPTY,
            };
        }
    }

    fn next_fresh(&mut self) -> Option<u64> {
        let number = match self.outbox.first_unsent() {
            Some(number) => number,
            None => self.cut()?,
        };
        (self.outbox.chunk(number).end() <= self.flow.edge).then_some(number)
    }

    /// Cuts the next chunk: a full record, or what is left of a message.
    fn cut(&mut self) -> Option<u64> {
        let (at, end) = (self.outbox.cut_at().get(), self.flow.end.get());
        if at >= end {
            return None;
        }
        if at >= self.message_end {
            self.message_end = self.source.message_at(at).map_or(end, |message| message.end);
        }
        let bytes = self.setting.transport.mss.get().min(self.message_end - at);
        // Where the send buffer ends within a record, the rest of it is waited for.
        (at + bytes <= end).then(|| self.outbox.cut(bytes as u32).0)
    }

    fn sync_flow(&mut self) {
        let una = self.outbox.una();
        let room = una + send_buffer(&self.setting.transport);
        let end = self.source.written().min(room.get()).max(self.outbox.cut_at().get());
        let next = self.outbox.next();
        let flow = &mut self.flow;
        (flow.una, flow.next, flow.end) = (una, next, Offset::new(end));
        flow.unsent = Bytes::new(end - self.outbox.cut_at().get() + self.outbox.skipped());
        let message = self.source.message_at(next.get());
        flow.message_start = message.map_or(next, |message| Offset::new(message.start));
        flow.message_end = message.map_or(flow.end, |message| Offset::new(message.end));
        flow.deadline = message.and_then(|message| message.deadline);
        flow.message_age = message.map_or(Span::ZERO, |message| self.now.since(message.written));
        flow.class = message.map_or(0, |message| message.class);
    }

    /// A path has room and nothing new may go.
    fn on_blocked(&mut self) {
        let by_window = self.outbox.is_blocked_by(self.flow.edge);
        let by_buffer = !by_window && self.outbox.cut_at().get() < self.source.written();
        if !(by_window || by_buffer) {
            self.starved = false;
            return;
        }
        if !std::mem::replace(&mut self.starved, true) {
            let why = if by_window { Starved::Window } else { Starved::SendBuffer };
            self.host.events.push(Event::Starved(why));
        }
        if by_window && self.ask_at.is_never() {
            self.ask_at = self.now + ASK_AFTER;
        }
    }

    /// The window is shut: the limit that opened it may be lost (RFC 9000 §4.1: DATA_BLOCKED), with a path that is dead and
    /// has data in flight.
    fn ask_for_window(&mut self) {
        self.ask_at = Instant::NEVER;
        if !self.outbox.is_blocked_by(self.flow.edge) {
            return;
        }
        self.ask_at = self.now + ASK_AFTER;
        let question = Record::question(self.outbox.next());
        for id in self.views.set().iter() {
            let _ = self.connection.send(self.now, id, bytes::Bytes::copy_from_slice(&question), false);
        }
    }

    /// Gives chunk `number` to path `id`.
    fn assign(&mut self, id: PathId, number: u64, kind: SendKind) {
        let before = self.outbox.carry(number, id);
        let assigned = Assigned {
            chunk: number,
            serial: self.host.next_serial(),
            kind,
            offset: before.offset,
            bytes: before.bytes,
            first: !before.carried.contains(id),
            after: self.views.get(id).next,
        };
        let payload = Bytes::new(u64::from(before.bytes));
        let path = &mut self.paths[id.index()];
        if path.queue.is_empty() && path.blocked_reason(self.now, self.views.get(id)) == BlockedReason::None {
            self.transmit(id, &assigned);
        } else {
            path.queue.push_back(assigned);
            let view = self.views.get_mut(id);
            view.queued += payload;
            view.next = view.next.max(before.offset + payload);
        }
        let receipt = Receipt { path: id, offset: before.offset, bytes: payload, serial: assigned.serial };
        self.host.events.push(Event::Sent(receipt, kind));
        self.refresh(id);
    }

    /// Sends a record on path `id`. If it cannot leave, its data wait to be sent again.
    fn transmit(&mut self, id: PathId, assigned: &Assigned) {
        let bytes = assigned.bytes as usize;
        if self.pool.capacity() - self.pool.len() < HEAD + bytes {
            self.pool.reserve(POOL);
        }
        self.pool.extend_from_slice(&Record::data_head(assigned.offset));
        self.source.append(assigned.offset, bytes, &mut self.pool);
        let record = self.pool.split().freeze();
        match self.connection.send(self.now, id, record, true) {
            Some((took, number)) if took == id => {
                self.paths[id.index()].on_sent(self.now, self.views.get_mut(id), number, assigned);
            }
            // noq does not let data onto this path any more. What left on another one may arrive; nobody waits for it.
            _ => {
                self.outbox.lose(assigned.chunk, id);
                if self.connection.is_closed() {
                    self.broken.get_or_insert_with(|| "the connection is closed".to_owned());
                }
                self.path_down(id, Stage::Down { ask_at: self.now + self.setting.transport.probe_interval });
            }
        }
    }

    /// The probe timer of path `id` fired.
    fn probe(&mut self, id: PathId) {
        let count = self.paths[id.index()].on_probe_timeout(self.now, self.views.get_mut(id));
        for _ in 0..count {
            if self.connection.is_early_spent() {
                break;
            }
            let Some(packet) = self.paths[id.index()].oldest() else { break };
            let assigned = Assigned {
                chunk: packet.chunk,
                serial: self.host.next_serial(),
                kind: SendKind::Reinjection,
                offset: packet.offset,
                bytes: packet.bytes,
                first: false,
                after: self.views.get(id).next,
            };
            self.transmit(id, &assigned);
        }
        self.refresh(id);
    }

    fn take_reports(&mut self) {
        let mut reports = std::mem::take(&mut self.reports);
        self.connection.take_reports(&mut reports);
        let mut rest = reports.as_slice();
        while let Some(first) = rest.first() {
            let count = rest.iter().take_while(|report| report.observer == first.observer).count();
            let (of_path, others) = rest.split_at(count);
            if let Some(id) = self.connection.watched(first.observer) {
                self.settle_reports(id, of_path);
            }
            rest = others;
        }
        self.reports = reports;
    }

    /// What noq told of one path in one go.
    fn settle_reports(&mut self, id: PathId, reports: &[Report]) {
        let now = self.now;
        let (path, view) = (&mut self.paths[id.index()], self.views.get_mut(id));
        let mut outcome = Outcome { prior_in_flight: view.bytes_in_flight, ..Outcome::default() };
        for report in reports {
            match report.what {
                What::Acked { number, .. } => {
                    outcome.heard = true;
                    if let Some(packet) = path.on_acked(now, view, number, &mut outcome) {
                        self.outbox.acknowledge(packet.chunk);
                        self.host.events.push(Event::Acked(packet.receipt(id)));
                    }
                }
                What::Lost { number, .. } => {
                    if let Some(packet) = path.on_lost(view, number, &mut outcome) {
                        self.outbox.lose(packet.chunk, id);
                        self.host.events.push(Event::Lost(packet.receipt(id)));
                    }
                }
                What::EndOfAcks => {
                    if let Some((latest, srtt)) = outcome.rtt.zip(self.connection.srtt(id)) {
                        SendingPath::on_rtt(view, latest, srtt);
                    }
                }
                What::Congestion { marked, persistent } => {
                    let signal = match (marked, persistent) {
                        (true, _) => Signal::Ecn,
                        (false, true) => Signal::Persistent,
                        (false, false) => Signal::Loss,
                    };
                    if path.on_congestion(now, view, signal, &outcome, &self.shares) {
                        self.host.events.push(Event::Congestion(id));
                    }
                }
                What::Spurious if self.setting.transport.credit_late_acks => {
                    path.on_spurious(now, view, &mut self.shares[id.index()]);
                }
                What::Spurious => {}
            }
        }
        if outcome.heard {
            (view.pto_count, view.health) = (0, Health::Good);
            path.last_progress = now;
        }
        if matches!(path.stage, Stage::Down { .. }) && outcome.heard && path.outages.is_over() {
            return self.path_up(id);
        }
        if path.stage == Stage::Up && (outcome.acked > Bytes::ZERO || outcome.lost > Bytes::ZERO) {
            path.finish(now, view, &outcome, &self.shares);
            path.publish(view, &mut self.shares[id.index()]);
            self.check_losses(id);
        }
    }

    /// The path is usable from now on.
    fn path_up(&mut self, id: PathId) {
        if self.paths[id.index()].stage == Stage::Up {
            return;
        }
        let rtt = self.connection.srtt(id);
        let Ok(cc) = controller(&self.setting, id, self.now, rtt) else { return };
        let path = &mut self.paths[id.index()];
        path.renew(self.now, self.connection.generation(id), cc);
        let mut view = Path::new(id, self.setting.transport.mss, self.setting.transport.initial_cwnd());
        view.role = self.views.get(id).role;
        view.bottleneck = self.setting.groups.of(id);
        if let Some(rtt) = rtt {
            SendingPath::on_rtt(&mut view, rtt, rtt);
        }
        path.publish(&mut view, &mut self.shares[id.index()]);
        *self.views.get_mut(id) = view;
        self.views.set_usable(id, true);
        self.host.events.push_rare(Event::PathUp(id));
        self.refresh(id);
        self.ready = true;
    }

    /// The path is not usable any more: its data go to the others.
    fn path_down(&mut self, id: PathId, stage: Stage) {
        let was = std::mem::replace(&mut self.paths[id.index()].stage, stage);
        if was != Stage::Up {
            return;
        }
        let (path, view) = (&mut self.paths[id.index()], self.views.get_mut(id));
        let (outbox, events) = (&mut self.outbox, &mut self.host.events);
        path.outages.begin(self.now);
        path.surrender(id, view, |receipt, chunk| {
            events.push(Event::Lost(receipt));
            outbox.lose(chunk, id);
        });
        path.queue.drain(..).for_each(|assigned| outbox.lose(assigned.chunk, id));
        view.queued = Bytes::ZERO;
        (view.recovery, view.health) = (Recovery::Open, Health::Good);
        self.views.set_usable(id, false);
        self.shares[id.index()].usable = false;
        self.refresh(id);
        self.host.events.push_rare(Event::PathDown(id));
        self.ready = true;
    }

    /// The path is gone: its address, or its interface.
    pub fn remove_path(&mut self, now: Instant, id: PathId) {
        self.now = now;
        self.path_down(id, Stage::Absent);
    }

    /// The path is there again, and noq never closed it: whether it is alive is to be seen.
    pub fn revive_path(&mut self, now: Instant, id: PathId) {
        self.now = now;
        if self.paths[id.index()].stage == Stage::Absent && self.connection.has_path(id) {
            self.paths[id.index()].stage = Stage::Down { ask_at: now };
        }
    }

    /// When a path has been silent for too long with data outstanding.
    fn silent_at(&self, id: PathId) -> Instant {
        let (path, view) = (&self.paths[id.index()], self.views.get(id));
        if view.bytes_in_flight == Bytes::ZERO {
            return Instant::NEVER;
        }
        path.last_progress + self.patience(id)
    }

    /// How long nothing has to come back for a path to be given up.
    fn patience(&self, id: PathId) -> Span {
        // Its own round trip may still be under way.
        let own = SendingPath::pto(self.views.get(id), self.setting.transport.ack_delay) * 3;
        self.setting.transport.path_timeout.max(own)
    }

    /// Gives a path up that answers and loses most of what it is given, if there is another one.
    fn check_losses(&mut self, id: PathId) {
        let period = self.patience(id);
        let loses_most = self.paths[id.index()].outages.loses_most(self.now, self.views.get(id), period);
        if loses_most && !self.views.set().without(id).is_empty() {
            self.give_up(id, true);
        }
    }

    fn give_up(&mut self, id: PathId, loses_most: bool) {
        let interval = self.setting.transport.probe_interval;
        let ask_at = self.paths[id.index()].outages.give_up(self.now, self.views.get(id), loses_most, interval);
        self.path_down(id, Stage::Down { ask_at });
    }

    fn check_silence(&mut self, id: PathId) {
        let again = self.now + self.setting.transport.probe_interval;
        match self.paths[id.index()].stage {
            Stage::Up if self.silent_at(id) <= self.now => self.give_up(id, false),
            Stage::Down { ask_at } if ask_at <= self.now => {
                self.connection.ping(id);
                self.paths[id.index()].outages.ask();
                self.paths[id.index()].stage = Stage::Down { ask_at: again };
            }
            _ => {}
        }
    }

    /// Whether path `id` takes a packet from this scheduler.
    fn takes(&self, id: PathId) -> bool {
        let view = self.views.get(id);
        self.views.set().contains(id)
            && (view.is_open() || self.host.needs.queueing && view.queue_room >= view.mss.min(self.packet.bytes))
    }

    /// The first unsent chunk at or after `offset`, cutting as far as window and data allow.
    fn find_ahead(&mut self, offset: Offset) -> Option<u64> {
        loop {
            if let Some(number) = self.outbox.unsent_from(offset) {
                return (self.outbox.chunk(number).end() <= self.flow.edge).then_some(number);
            }
            if self.outbox.cut_at() >= self.flow.edge {
                return None;
            }
            self.cut()?;
        }
    }

    /// Takes back what waits in the queue of path `id`.
    fn recall(&mut self, id: PathId) -> Result<Carried, Refusal> {
        if !self.views.set().contains(id) {
            return Err(Refusal::Path);
        }
        if !self.gives_back(id) {
            return Ok(Carried::Nothing);
        }
        self.recalled[id.index()] = self.now;
        let (path, view) = (&mut self.paths[id.index()], self.views.get_mut(id));
        if let Some(head) = path.queue.front() {
            view.next = head.after;
        }
        for Assigned { chunk, serial, kind, offset, bytes, first, .. } in path.queue.drain(..) {
            let bytes = Bytes::new(u64::from(bytes));
            view.queued -= bytes;
            self.outbox.recall(chunk, id, first, kind == SendKind::Reinjection);
            self.host.events.push(Event::Recalled(Receipt { path: id, offset, bytes, serial }));
        }
        self.sync_flow();
        self.refresh(id);
        Ok(Carried::Queue)
    }
}

impl<S: Source> Transport for Sender<S> {
    fn host(&self) -> &Host {
        &self.host
    }

    fn host_mut(&mut self) -> &mut Host {
        &mut self.host
    }

    fn context(&self) -> Context<'_> {
        let packet = self.hand.is_some().then_some(&self.packet);
        Context::new(self.now, self.views.usable(), packet, Some(&self.flow))
    }

    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal> {
        match decision {
            Decision::Send(id) => {
                let (number, kind) = self.hand.ok_or(Refusal::NoPacket)?;
                if !self.takes(id) {
                    return Err(Refusal::Path);
                }
                if kind == SendKind::Reinjection {
                    self.outbox.took_reinjection();
                }
                self.assign(id, number, kind);
            }
            Decision::Ahead(id, _) | Decision::Repeat(id, _) if !self.takes(id) => return Err(Refusal::Path),
            Decision::Ahead(id, offset) => {
                let Some(number) = self.find_ahead(offset) else { return Ok(Carried::Nothing) };
                let fresh = self.outbox.first_unsent() == Some(number);
                self.assign(id, number, if fresh { SendKind::Fresh } else { SendKind::Ahead });
            }
            Decision::Repeat(id, offset) => {
                let Some(number) = self.outbox.copy_from(offset, id) else { return Ok(Carried::Nothing) };
                self.assign(id, number, SendKind::Duplicate);
            }
            Decision::Recall(id) => return self.recall(id),
            Decision::Wait => return Ok(Carried::Nothing),
        }
        Ok(Carried::Packet)
    }

    fn pause(&mut self) {
        self.ready = false;
    }
}

/// A controller for a path that comes up now.
fn controller(
    setting: &Setting,
    id: PathId,
    now: Instant,
    rtt: Option<Span>,
) -> Result<Box<dyn Controller>, SpecError> {
    let setup = Setup {
        path: id,
        mss: setting.transport.mss,
        initial_window: setting.transport.initial_cwnd(),
        flavour: Flavour::Quic,
        seed: mix(setting.seed, 0xcc00 + u64::from(id.get())),
        now,
        rtt,
    };
    weftway_cc::build(&setting.cc, &setup)
}

/// How far the right edge is ahead of what was read.
pub fn receive_window(transport: &Settings) -> Bytes {
    let (Buffer::Fixed(bytes) | Buffer::Auto { max: bytes }) = transport.receive_buffer;
    transport.stream_window.map_or(bytes, |stream| bytes.min(stream)).max(transport.mss)
}

/// How far the application writes ahead of what is acknowledged.
fn send_buffer(transport: &Settings) -> Bytes {
    let (Buffer::Fixed(bytes) | Buffer::Auto { max: bytes }) = transport.send_buffer;
    bytes.max(transport.mss)
}
