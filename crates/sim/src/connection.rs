//! A connection, both ends, and what its paths owe. Which packet is next and who carries it is decided in
//! [`weftway_host::sending::Dispatch`], for which `port` carries packets here. Arrivals are in `arrivals`, the coming
//! and going of paths in `lifecycle`.

use weftway_host::Host;
use weftway_host::sending::{Dispatch, Flight};
use weftway_net::{AppData, Route, device_queue};
use weftway_path::{Bytes, Instant, Path, PathId, PathSet, Span};
use weftway_scenario::App;
use weftway_scenario::config::{PathConfig, TransportConfig};

use crate::ends::{self, ReceiveEnd, SendEnd};
use crate::listeners::Listeners;
use crate::net::Net;
use crate::path_manager::PathManager;
use crate::receiver::Reassembly;
use crate::sender::{ControllerSpec, PathSender, Repair, SendContext};
use crate::tally::{PathTally, Tally};
use crate::ticks::Ticks;

/// Send memory that a buffer takes beside payload (`sk_wmem_queued`, in which it comes and goes in steps of 3680 bytes
/// with two packets of 1424): `sk_buff` with its clone and a head for the headers.
const BUFFER_HEAD: u64 = 832;

/// A connection: the end that sends data, the end that receives them, and what both share.
#[derive(Clone)]
pub struct Connection {
    pub(crate) number: u8,
    pub(crate) transport: TransportConfig,
    /// The sending half above the paths, and what is kept for the scheduler.
    pub(crate) dispatch: Dispatch,
    pub(crate) configs: Vec<PathConfig>,
    pub(crate) routes: Vec<Route>,
    pub(crate) cc: ControllerSpec,
    /// The calendar source of the connection; those of its paths follow.
    pub(crate) source: usize,
    pub(crate) data: AppData,
    pub(crate) paths: PathManager,
    pub(crate) send: SendEnd,
    pub(crate) receive: ReceiveEnd,
    pub(crate) finished: Option<Instant>,
    /// Counters of the connection.
    pub tally: Tally,
    /// Counters of each path.
    pub path_tallies: Vec<PathTally>,
    pub(crate) listeners: Listeners,
    pub(crate) ticks: Ticks,
    /// True if there is something to look at before each question.
    looks_before: bool,
}

/// Parts that a connection is made from.
pub struct Parts {
    pub number: u8,
    pub transport: TransportConfig,
    pub configs: Vec<PathConfig>,
    pub routes: Vec<Route>,
    pub cc_spec: String,
    pub seed: u64,
    /// Seed of the ticks of the hosts' clocks.
    pub clock: u64,
    pub data: AppData,
    pub write: Bytes,
    pub source: usize,
}

impl Connection {
    pub(crate) fn new(parts: Parts, senders: Vec<PathSender>) -> Self {
        let Parts { number, transport, configs, routes, cc_spec, seed, clock, data, write, source } = parts;
        let paths = configs.len();
        let receive = ReceiveEnd::new(&transport, paths);
        let edge = receive.receiver.data.edge();
        let groups = weftway_net::groups(transport.bottlenecks, &routes);
        let coupled = weftway_cc::parse(&cc_spec).is_ok_and(|(entry, _)| entry.coupled);
        Self {
            number,
            dispatch: ends::dispatch(&transport, &configs, &groups, edge),
            send: SendEnd::new(&transport, groups, senders, write),
            receive,
            cc: ControllerSpec { spec: cc_spec, coupled, seed },
            source,
            data,
            paths: PathManager::new(paths, transport.races()),
            finished: None,
            tally: Tally::default(),
            path_tallies: vec![PathTally::default(); paths],
            listeners: Listeners::default(),
            ticks: Ticks::new(transport.tick, clock),
            looks_before: transport.rules.pushes_fragments,
            transport,
            configs,
            routes,
        }
    }

    /// Decisions come from the scheduler that `host` was made for.
    pub(crate) fn set_host(&mut self, host: Host) {
        self.looks_before = host.needs.device || self.transport.rules.pushes_fragments || self.data.has_records();
        self.dispatch.set_host(host);
    }

    /// State that is kept for the scheduler.
    pub fn host(&self) -> &Host {
        &self.dispatch.host
    }

    /// Time at which it was established, if it was.
    pub fn established(&self) -> Option<Instant> {
        self.paths.established
    }

    /// Application that writes the data.
    pub fn app(&self) -> &App {
        &self.data.app
    }

    /// Settings of the transport.
    pub fn transport(&self) -> &TransportConfig {
        &self.transport
    }

    /// Path `id` as schedulers see it, usable or not.
    pub fn view(&self, id: PathId) -> &Path {
        self.dispatch.views.get(id)
    }

    /// Packets that path `id` has sent and that are not settled.
    pub fn flight(&self, id: PathId) -> &Flight {
        &self.send.senders[id.index()].flight
    }

    /// Links that path `id` takes.
    pub fn route(&self, id: PathId) -> Route {
        self.routes[id.index()]
    }

    /// Bytes that have arrived in order.
    pub fn delivered(&self) -> Bytes {
        self.receive.receiver.data.delivered()
    }

    /// Reassembly of the receiver, with what it held out of order.
    pub fn reordering(&self) -> &Reassembly {
        &self.receive.receiver.data
    }

    /// The smoothed round-trip time of a path.
    pub fn srtt(&self, path: usize) -> Span {
        self.dispatch.views.get(PathId::new(path as u8)).srtt
    }

    /// Lends everything that path `id` needs.
    #[inline(always)]
    pub(crate) fn send_context<'a>(
        &'a mut self,
        net: &'a mut Net,
        now: Instant,
        id: PathId,
    ) -> (&'a mut PathSender, SendContext<'a>) {
        let Dispatch { host, outbox, flow, policy, views, question, .. } = &mut self.dispatch;
        let SendEnd { senders, shares, .. } = &mut self.send;
        let (view, offered) = views.get_mut_with_offered(id);
        let ctx = SendContext {
            now,
            net,
            conn: self.number,
            offered,
            view,
            events: &mut host.events,
            outbox,
            flow,
            policy,
            question,
            shares,
            transport: &self.transport,
            tallies: &mut self.path_tallies,
            listeners: &mut self.listeners,
            cc: &self.cc,
        };
        (&mut senders[id.index()], ctx)
    }

    /// Data have joined the queue of path `id`: with them, what waits for Nagle's rule may fill a packet.
    #[cold]
    pub(crate) fn fill_packet(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let (sender, mut ctx) = self.send_context(net, now, id);
        sender.flush(&mut ctx);
    }

    /// Sends what path `id` owes: losses first, then what waits in its queue.
    #[inline(always)]
    pub(crate) fn serve(&mut self, net: &mut Net, now: Instant, id: PathId, repair: Repair) {
        let may_flush = self.send.senders[id.index()].may_flush(now, self.dispatch.views.get(id), &self.transport);
        if repair != Repair::Nothing || may_flush {
            self.serve_owed(net, now, id, repair);
        } else {
            self.serve_path(net, now, id, None);
        }
    }

    /// Serves a path that sends.
    #[inline(never)]
    fn serve_owed(&mut self, net: &mut Net, now: Instant, id: PathId, repair: Repair) {
        self.serve_path(net, now, id, Some(repair));
    }

    #[inline(always)]
    fn serve_path(&mut self, net: &mut Net, now: Instant, id: PathId, repair: Option<Repair>) {
        let (sender, mut ctx) = self.send_context(net, now, id);
        let holds_back = match repair {
            Some(repair) => sender.repair(&mut ctx, repair),
            None => sender.gathers(now, ctx.view, ctx.transport),
        };
        sender.look_at_room(&mut ctx);
        // Linux grants memory for the widest window that an acknowledgement did not leave full
        // (`tcp_should_expand_sndbuf`): a slow path with data waiting keeps what it began with.
        let view = &*ctx.view;
        if view.cwnd > sender.memory.widest && (holds_back || PathSender::has_room(view)) {
            sender.memory.widest = view.cwnd;
            self.send.writer.grow_buffer(id, &mut self.send.senders, &self.transport);
        }
        if self.dispatch.host.needs.queueing {
            self.refresh_queue(now, id);
        }
    }

    /// Brings what is derived of path `id` up to date.
    pub(crate) fn refresh(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let (sender, mut ctx) = self.send_context(net, now, id);
        sender.look_at_room(&mut ctx);
        if self.dispatch.host.needs.queueing {
            self.refresh_queue(now, id);
        }
    }

    /// Refreshes what a scheduler that queues sees of path `id` beside.
    #[inline(never)]
    pub(crate) fn refresh_queue(&mut self, now: Instant, id: PathId) {
        if self.transport.rules.fills_bursts {
            let sender = &self.send.senders[id.index()];
            let buffers = sender.flight.buffers() + u64::from(!sender.queue.is_empty());
            self.dispatch.views.get_mut(id).overhead = Bytes::new(buffers * BUFFER_HEAD);
        }
        let room = self.queue_room(now, id);
        self.dispatch.set_queue_room(id, room);
    }

    /// Bytes that path `id` still takes into its queue. Linux v1 asks for free memory, however little, at the beginning
    /// of a push and after each fragment, and not within one.
    #[inline]
    fn queue_room(&self, now: Instant, id: PathId) -> Bytes {
        let view = self.dispatch.views.get(id);
        let memory = self.send.senders[id.index()].memory.most;
        if !self.transport.rules.pushes_fragments {
            return memory.saturating_sub(view.send_queue());
        }
        let within = self.send.writer.is_within_fragment(now, id, self.dispatch.outbox.next());
        match memory.saturating_sub(view.send_memory()) {
            Bytes::ZERO if within => view.mss,
            Bytes::ZERO => Bytes::ZERO,
            free => free.max(view.mss),
        }
    }

    /// Something happened: the scheduler may be asked again, if the connection is established and not finished.
    #[inline]
    pub(crate) fn wake(&mut self) {
        self.dispatch.question.ready = self.paths.established.is_some() && self.finished.is_none();
    }

    /// The connection has done what it was for: nothing more is asked.
    pub(crate) fn finish(&mut self, now: Instant) {
        self.finished.get_or_insert(now);
        self.dispatch.question.ready = false;
    }

    /// Before each question: brings up to date what time alone has changed.
    #[inline(always)]
    pub(crate) fn begin_question(&mut self, net: &mut Net, now: Instant) {
        if self.looks_before {
            self.look_before_question(net, now);
        }
    }

    /// The scheduler sees what devices hold, datagrams may be too late, or a push may be over.
    #[inline(always)]
    fn look_before_question(&mut self, net: &mut Net, now: Instant) {
        if self.dispatch.host.needs.device {
            self.look_at_devices(net, now);
        }
        self.data.set_now(now, self.dispatch.views.usable().iter());
        // What is left of a fragment counts within one push only.
        if let Some((id, _)) = self.send.writer.pushed
            && self.dispatch.question.ready
            && self.send.writer.pushed.take_if(|(_, at)| *at != now).is_some()
            && (self.dispatch.host.needs.queueing || !self.dispatch.question.changed.contains(id))
        {
            self.refresh(net, now, id);
        }
    }

    /// Notes what the sender's device on each path holds.
    fn look_at_devices(&mut self, net: &mut Net, now: Instant) {
        let headers = self.transport.packet - self.transport.mss;
        for id in self.dispatch.views.set().iter() {
            let link = &mut net.links[self.routes[id.index()].data];
            self.dispatch.views.get_mut(id).device_queue = device_queue(link, now, headers);
        }
    }

    /// The turn is over: nothing more is sent until something happens.
    #[inline(always)]
    pub(crate) fn end_turn(&mut self, net: &mut Net, now: Instant) {
        let mut changed = core::mem::take(&mut self.dispatch.question.changed);
        self.send.head_of_line.changed = self.send.head_of_line.changed.or(changed);
        let untouched = self.dispatch.question.open.minus(changed);
        if !untouched.is_empty() && self.transport.app_limited.is_limited(self.dispatch.flow.unsent, self.transport.mss)
        {
            self.limit_untouched(untouched);
        }
        while let Some(id) = changed.iter().next() {
            changed = changed.without(id);
            let source = self.source + 1 + id.index();
            let (sender, mut ctx) = self.send_context(net, now, id);
            sender.end_turn(&mut ctx);
            let (mut at, release) = (sender.timer_at, sender.pacer.release());
            if release > now && (sender.has_unsent() || self.dispatch.wants_room() || self.send.writer.has_more()) {
                at = at.min(release);
            }
            net.calendar.lower(source, at);
        }
        self.dispatch.question.synced = false;
    }

    /// With nothing left to send the application limits every path that has room, also one of which nothing was heard
    /// and on which nothing was sent in this turn.
    #[inline(never)]
    fn limit_untouched(&mut self, paths: PathSet) {
        for id in paths.iter() {
            let sender = &mut self.send.senders[id.index()];
            if sender.queue.is_empty() {
                sender.rate.on_app_limited(self.dispatch.views.get(id).bytes_in_flight);
            }
        }
    }

    /// The connection's own next event: application, scheduler, delayed acknowledgements (the first of which is due at
    /// `acks`), meta timer, paths coming and going.
    pub(crate) fn own_next(&self, acks: Instant) -> Instant {
        self.data
            .app
            .next_event()
            .min(self.dispatch.host.wake())
            .min(self.send.meta.at)
            .min(self.dispatch.probe_at)
            .min(self.dispatch.policy_due())
            .min(acks)
            .min(self.paths.due())
            .min(self.data.app.cut_off())
    }
}
