//! One connection, both ends. What is decided here: which packet is at hand, whether a scheduler
//! must be asked, and how its answer is carried out. Arrivals are in `arrivals`, the coming and
//! going of paths in `lifecycle`.

use weftway_cc::{Flavour, Setup};
use weftway_host::sending::{Assigned, Chunk};
use weftway_host::{Carried, Decided, Host, Refusal};
use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Instant, Offset, Packet, PathId, PathSet, Receipt, Recovery,
    SendKind, Span,
};
use weftway_scenario::config::{Buffer, PathConfig, Transport};
use weftway_scenario::stack::{LossRecovery, MetaTimer};
use weftway_scenario::{App, mix};
use weftway_sched::FRAGMENT;

use crate::ends::{ReceiveEnd, SendEnd};
use crate::net::{Net, Route};
use crate::path_manager::{PathManager, Stage};
use crate::question::Question;
use crate::receiver::Reassembly;
use crate::sender::{PathSender, Repair, SendContext};
use crate::tally::{PathTally, Tally};
use crate::tap::{Note, Tap};
use crate::ticks::Ticks;

/// Send memory that Linux counts per packet of window (`tcp_sndbuf_expand`): a segment with its headers and
/// bookkeeping in the next power of two, 2048 bytes, and 256 for the buffer's descriptor. A kernel that leaves room
/// for the headers of wireless devices or tunnels needs 4096 + 256.
const SEND_MEMORY_PER_PACKET: u64 = 2304;

/// Beside its subflows' send memory, the connection has the least of a socket (`tcp_wmem[0]`).
const LEAST_SEND_MEMORY: u64 = 4096;

/// What a buffer takes of the send memory beside payload (`sk_wmem_queued`, in which it comes and goes in steps of 3680
/// bytes with two packets of 1424): `sk_buff` with its clone and a head for the headers.
const BUFFER_HEAD: u64 = 832;

/// How long a shut window may stay silent before the sender asks.
pub(crate) const PROBE_AFTER: Span = Span::from_millis(200);

/// What a controller of path `id` is made from.
pub(crate) fn controller_setup(transport: &Transport, seed: u64, id: PathId) -> Setup {
    Setup {
        path: id,
        mss: transport.mss,
        initial_window: transport.initial_cwnd(),
        flavour: match transport.rules.recovery {
            LossRecovery::Tcp => Flavour::Linux,
            LossRecovery::Quic => Flavour::Quic,
        },
        seed: mix(seed, 0xcc00 + u64::from(id.get())),
        now: Instant::ZERO,
        rtt: None,
    }
}

/// One connection: the end that sends data, the end that receives them, and what both share.
#[derive(Clone)]
pub struct Connection {
    pub(crate) number: u8,
    pub(crate) transport: Transport,
    /// What is kept for the scheduler.
    pub host: Host,
    pub(crate) configs: Vec<PathConfig>,
    pub(crate) routes: Vec<Route>,
    pub(crate) cc: ControllerSpec,
    /// The calendar source of the connection; those of its paths follow.
    pub(crate) source: usize,
    pub(crate) app: App,
    pub(crate) paths: PathManager,
    pub(crate) send: SendEnd,
    pub(crate) receive: ReceiveEnd,
    pub(crate) finished: Option<Instant>,
    /// What was counted.
    pub tally: Tally,
    /// What was counted on each path.
    pub path_tallies: Vec<PathTally>,
    pub(crate) tap: Tap,
    pub(crate) ticks: Ticks,
}

/// How controllers are made.
#[derive(Clone)]
pub struct ControllerSpec {
    /// Name and switches.
    pub spec: String,
    /// Whether controllers read each other's shares.
    pub coupled: bool,
    /// The seed of their draws.
    pub seed: u64,
}

/// What a connection is made from.
pub struct Parts {
    pub number: u8,
    pub transport: Transport,
    pub configs: Vec<PathConfig>,
    pub routes: Vec<Route>,
    pub cc_spec: String,
    pub seed: u64,
    /// What the ticks of the hosts' clocks are drawn from.
    pub clock: u64,
    pub app: App,
    pub write: Bytes,
    pub source: usize,
}

impl Connection {
    pub(crate) fn new(parts: Parts, senders: Vec<PathSender>) -> Self {
        let Parts { number, transport, configs, routes, cc_spec, seed, clock, app, write, source } = parts;
        let paths = configs.len();
        let receive = ReceiveEnd::new(&transport, paths);
        let edge = receive.receiver.data.edge();
        let coupled = weftway_cc::parse(&cc_spec).is_ok_and(|(entry, _)| entry.coupled);
        Self {
            number,
            host: Host::default(),
            send: SendEnd::new(&transport, &configs, &routes, senders, write, edge),
            receive,
            cc: ControllerSpec { spec: cc_spec, coupled, seed },
            source,
            app,
            paths: PathManager {
                stages: vec![Stage::Absent; paths],
                established: None,
                joined: false,
                answered: false,
                racing: transport.races(),
            },
            finished: None,
            tally: Tally::default(),
            path_tallies: vec![PathTally::default(); paths],
            tap: Tap::default(),
            ticks: Ticks::new(transport.tick, clock),
            transport,
            configs,
            routes,
        }
    }

    /// The question as it stands.
    #[inline]
    pub fn context(&self, now: Instant) -> Context<'_> {
        let packet = if self.send.question.hand.is_some() { Some(&self.send.question.packet) } else { None };
        let (paths, open) = (self.send.views.usable(), self.send.question.open);
        debug_assert_eq!(open, PathSet::open(paths), "the paths that may send are kept");
        Context { now, paths, open, packet, flow: Some(&self.send.flow) }
    }

    /// What has arrived in order.
    pub fn delivered(&self) -> Bytes {
        self.receive.receiver.data.next().since(Offset::ZERO)
    }

    /// What the receiver held out of order.
    pub fn reordering(&self) -> &Reassembly {
        &self.receive.receiver.data
    }

    /// The smoothed round-trip time of a path.
    pub fn srtt(&self, path: usize) -> Span {
        self.send.views.get(PathId::new(path as u8)).srtt
    }

    /// Lends everything that path `id` needs.
    #[inline(always)]
    pub(crate) fn send_context<'a>(
        &'a mut self,
        net: &'a mut Net,
        now: Instant,
        id: PathId,
    ) -> (&'a mut PathSender, SendContext<'a>) {
        let SendEnd { senders, views, outbox, shares, flow, question, .. } = &mut self.send;
        let ctx = SendContext {
            now,
            net,
            conn: self.number,
            usable: views.set().contains(id),
            view: views.get_mut(id),
            events: &mut self.host.events,
            outbox,
            flow,
            question,
            shares,
            transport: &self.transport,
            tally: &mut self.path_tallies[id.index()],
            tap: &mut self.tap,
            coupled: self.cc.coupled,
        };
        (&mut senders[id.index()], ctx)
    }

    /// Sends what path `id` owes: losses first, then what waits in its queue.
    #[inline(always)]
    pub(crate) fn serve(&mut self, net: &mut Net, now: Instant, id: PathId, repair: Repair) {
        let may_flush = self.send.senders[id.index()].may_flush(now, self.send.views.get(id), &self.transport);
        if repair != Repair::Nothing || may_flush {
            self.serve_owed(net, now, id, repair);
        } else {
            self.serve_path(net, now, id, None);
        }
    }

    /// The same, of a path that sends.
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
            self.grow_send_buffer(id);
        }
        if self.host.needs.queueing {
            self.refresh_queue(now, id);
        }
    }

    /// Brings what is derived of path `id` up to date.
    pub(crate) fn refresh(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let (sender, mut ctx) = self.send_context(net, now, id);
        sender.look_at_room(&mut ctx);
        if self.host.needs.queueing {
            self.refresh_queue(now, id);
        }
    }

    /// What a scheduler that queues sees of path `id` beside.
    #[inline(never)]
    fn refresh_queue(&mut self, now: Instant, id: PathId) {
        if self.transport.rules.fills_bursts {
            let sender = &self.send.senders[id.index()];
            let buffers = sender.flight.buffers() + u64::from(!sender.queue.is_empty());
            self.send.views.get_mut(id).overhead = Bytes::new(buffers * BUFFER_HEAD);
        }
        let room = self.room(now, id);
        let usable = self.send.views.set().contains(id);
        let view = self.send.views.get_mut(id);
        view.queue_room = room;
        let roomy = usable && view.blocked != BlockedReason::Transport && view.queue_room >= view.mss;
        self.send.question.roomy = self.send.question.roomy.put(id, roomy);
    }

    /// How much more path `id` takes into its queue. Linux v1 asks for free memory, however little, at the beginning
    /// of a push and after each fragment, and not within one.
    #[inline]
    fn room(&self, now: Instant, id: PathId) -> Bytes {
        let view = self.send.views.get(id);
        let memory = self.send.senders[id.index()].memory.most;
        if !self.transport.rules.pushes_fragments {
            return memory.saturating_sub(view.send_queue());
        }
        let within =
            self.send.writer.pushed == Some((id, now)) && self.send.outbox.next().get() < self.send.writer.fragment;
        match memory.saturating_sub(view.send_memory()) {
            Bytes::ZERO if within => view.mss,
            Bytes::ZERO => Bytes::ZERO,
            free => free.max(view.mss),
        }
    }

    /// Something happened: the scheduler may be asked again, if the connection is established and not finished.
    #[inline]
    pub(crate) fn wake(&mut self) {
        self.send.question.ready = self.paths.established.is_some() && self.finished.is_none();
    }

    /// The connection has done what it was for: nothing more is asked.
    pub(crate) fn finish(&mut self, now: Instant) {
        self.finished.get_or_insert(now);
        self.send.question.ready = false;
    }

    /// Whether the scheduler must be asked now.
    #[inline(always)]
    pub(crate) fn wants(&mut self, net: &mut Net, now: Instant) -> bool {
        if self.host.needs.device {
            self.look_at_devices(net, now);
        }
        if !self.send.question.ready {
            return false;
        }
        if !self.send.question.paced.is_empty() && self.send.question.looked_at != now {
            self.look_at_pacers(net, now);
        }
        // What is left of a fragment counts within one push only.
        if let Some((id, _)) = self.send.writer.pushed.take_if(|(_, at)| *at != now)
            && (self.host.needs.queueing || !self.send.question.dirty.contains(id))
        {
            self.refresh(net, now, id);
        }
        let room = if self.host.needs.queueing {
            !self.send.question.roomy.is_empty()
        } else {
            !self.send.question.open.is_empty()
        };
        if !room {
            self.send.question.hand = None;
            if self.recalls(now) {
                self.sync_flow(now);
                return true;
            }
            // With nothing more to send a pacer's release is not waited for; the application may have more since.
            if self.send.flow.unsent == Bytes::ZERO {
                self.sync_flow(now);
            } else {
                self.sync_una();
            }
            return false;
        }
        self.take_up(now);
        if self.send.question.hand.is_some() {
            // An episode in which nothing may go is over when a packet may.
            self.send.question.starved = false;
            return true;
        }
        self.wants_without_packet(net, now)
    }

    /// Whether the scheduler must be asked though it has no packet: for a copy, or to take something back.
    #[inline(never)]
    fn wants_without_packet(&mut self, net: &mut Net, now: Instant) -> bool {
        self.on_blocked(net, now);
        let copies = self.host.needs.copies && !self.send.question.open.is_empty() && self.send.outbox.has_sent();
        copies || self.recalls(now)
    }

    /// Paths whose pacer has let go meanwhile can send.
    #[inline(never)]
    fn look_at_pacers(&mut self, net: &mut Net, now: Instant) {
        self.send.question.looked_at = now;
        for id in self.send.question.paced.iter() {
            if self.send.views.get(id).release <= now {
                self.refresh(net, now, id);
            }
        }
    }

    /// Whether the scheduler may take back what waits in some path's queue.
    #[inline]
    fn recalls(&self, now: Instant) -> bool {
        self.host.needs.recall && self.send.views.set().iter().any(|id| self.gives_back(now, id))
    }

    /// Whether path `id` has something to give back, and has not given back at this time: a scheduler that only takes
    /// back comes to an end.
    fn gives_back(&self, now: Instant, id: PathId) -> bool {
        !self.send.senders[id.index()].queue.is_empty() && self.send.question.recalled[id.index()] != now
    }

    /// Notes what the sender's device on each path holds: what waits on the path's own link, in payload. Cross traffic
    /// on it is counted, because a device serves everybody in turn.
    fn look_at_devices(&mut self, net: &mut Net, now: Instant) {
        let headers = self.transport.packet - self.transport.mss;
        for id in self.send.views.set().iter() {
            let link = &mut net.links[self.routes[id.index()].data];
            link.retire(now);
            let (packets, bytes) = link.backlog(now);
            let payload = bytes.saturating_sub(headers.mul_div(packets, 1));
            self.send.views.get_mut(id).device_queue = payload;
        }
    }

    /// Finds the packet at hand: what was handed back, else the next that was never sent.
    #[inline(always)]
    fn take_up(&mut self, now: Instant) {
        if self.send.question.synced {
            self.sync_sent(now);
        } else {
            self.sync_flow(now);
            self.send.question.synced = true;
        }
        let found = match self.send.outbox.first_reinjection() {
            Some(number) => Some((number, *self.send.outbox.chunk(number), SendKind::Reinjection)),
            None => self.next_fresh().map(|(number, chunk)| (number, chunk, SendKind::Fresh)),
        };
        self.send.question.hand = found.map(|(number, _, kind)| (number, kind));
        if let Some((_, chunk, kind)) = found {
            self.send.question.packet = Packet {
                offset: chunk.offset,
                bytes: Bytes::new(u64::from(chunk.bytes)),
                reinjection: kind == SendKind::Reinjection,
                carried: chunk.carried,
                // A lost frame of QUIC is a frame again. MPTCP reinjects what a subflow still holds and repairs itself:
                // on another (`path_mask` of multipath-tcp/mptcp).
                avoid: if self.transport.rules.repeats_anywhere { PathSet::EMPTY } else { chunk.carried },
            };
        }
    }

    #[inline(always)]
    fn next_fresh(&mut self) -> Option<(u64, Chunk)> {
        let edge = self.send.flow.edge;
        if let Some(number) = self.send.outbox.first_unsent() {
            let chunk = *self.send.outbox.chunk(number);
            return (chunk.end() <= edge).then_some((number, chunk));
        }
        let bytes = self.next_bytes()?;
        let (number, chunk) = self.send.outbox.next_cut(bytes);
        let fits = chunk.end() <= edge;
        // A chunk is cut when a path takes it: until then nothing changes what it will be. Linux v1 cuts it at once, by
        // what window and writer are now.
        if !fits || self.transport.subflow_windows {
            self.send.outbox.cut(bytes);
        }
        fits.then_some((number, chunk))
    }

    /// Cuts the next chunk.
    fn cut(&mut self) -> Option<(u64, Chunk)> {
        self.next_bytes().map(|bytes| self.send.outbox.cut(bytes))
    }

    /// How many bytes the next chunk has: a full packet, or what is left of a message.
    #[inline(always)]
    fn next_bytes(&mut self) -> Option<u32> {
        let at = self.send.outbox.cut_at().get();
        let mss = self.transport.mss.get();
        while self.send.flow.end.get() < at + mss && self.write_more() {}
        let end = self.send.flow.end.get();
        if at >= end {
            return None;
        }
        if at >= self.send.writer.message_end {
            self.send.writer.message_end = self.app.message_at(at).map_or(end, |message| message.end);
        }
        let mut bytes = mss.min(self.send.writer.message_end - at);
        if self.transport.subflow_windows {
            bytes = self.ends_within(at, bytes);
        }
        // A send buffer that ends within a packet: wait for the rest of it.
        (at + bytes <= end).then_some(bytes as u32)
    }

    /// Linux v1: where a packet of at most `bytes` ends. A fragment's last packet ends with it; only a subflow that goes on
    /// alone joins it to the next. The rest that is less than a packet is sent when the window
    /// (`mptcp_check_allowed_size`) or what the application could write ends there, unless the last such packet is not
    /// acknowledged: with `TCP_NODELAY`, too, since the kernel sends few of them in either case.
    fn ends_within(&self, at: u64, bytes: u64) -> u64 {
        let alone = self.send.views.usable().len() == 1;
        let bytes = if alone { bytes } else { bytes.min((at / FRAGMENT + 1) * FRAGMENT - at) };
        let mut most = self.send.flow.edge.get();
        if self.send.writer.written >= self.send.writer.writing.1 {
            most = most.min(self.send.flow.end.get());
        }
        let rest = most.saturating_sub(at);
        let short = (1..bytes).contains(&rest);
        if short && self.send.writer.small.is_none_or(|(id, offset)| self.send.senders[id.index()].has_settled(offset))
        {
            rest
        } else {
            bytes
        }
    }

    /// The part of the flow that acknowledgements and packets move. MPTCP's DATA_ACK comes with the window in one message.
    /// QUIC acknowledges packets on their own path and raises the limit on any: a limit that overtakes a slow path's
    /// acknowledgements tells that all but a buffer below it was read (RFC 9000 §4.1). The send buffer keeps it all the same.
    #[inline]
    fn sync_una(&mut self) {
        let (flow, outbox) = (&mut self.send.flow, &self.send.outbox);
        (flow.una, flow.next) = (outbox.una(), outbox.next());
        if let Some(window) = self.send.largest_window {
            flow.acked = Some(flow.una);
            flow.una = flow.una.max(Offset::ZERO + flow.edge.since(Offset::ZERO + window));
        }
    }

    /// Brings the flow up to date after a packet of this turn: nothing was acknowledged or written meanwhile, but what
    /// Linux v1 writes while it sends.
    #[inline(always)]
    fn sync_sent(&mut self, now: Instant) {
        let (flow, outbox) = (&mut self.send.flow, &self.send.outbox);
        flow.next = outbox.next();
        flow.unsent = Bytes::new(flow.end.get().saturating_sub(outbox.cut_at().get()) + outbox.skipped());
        if self.app.has_messages() || flow.message_end <= flow.next {
            self.find_message(now);
        }
    }

    /// Brings the flow up to date.
    #[inline(never)]
    fn sync_flow(&mut self, now: Instant) {
        // The send buffer keeps what is not acknowledged, whatever the limit tells.
        let una = self.send.outbox.una();
        let room = una.get() + self.send.writer.buffer;
        // Linux wakes a blocked writer when what is queued is at most twice what is free
        // (`sk_stream_is_writeable`): data come to the scheduler in portions, not in drops. What is left of a
        // grant and fills no packet would wait for more for ever.
        let left = self.send.writer.writable.saturating_sub(una.get());
        let wakes = left * 3 <= self.send.writer.buffer * 2 || left < self.transport.mss.get();
        if !self.transport.rules.writer_waits || wakes {
            self.send.writer.writable = self.send.writer.writable.max(self.fills_fragment(room));
        }
        self.write_up(now);
        // A buffer that shrinks, because a path is gone, keeps what it holds.
        let end = self.send.writer.written.max(self.send.outbox.cut_at().get());
        self.sync_una();
        let flow = &mut self.send.flow;
        flow.end = Offset::new(end);
        flow.unsent = Bytes::new(end.saturating_sub(self.send.outbox.cut_at().get()) + self.send.outbox.skipped());
        if self.app.has_messages() || flow.message_end <= flow.next {
            self.find_message(now);
        }
    }

    /// Looks up the message that the next byte lies in.
    #[inline(never)]
    fn find_message(&mut self, now: Instant) {
        let flow = &mut self.send.flow;
        let message = self.app.message_at(flow.next.get());
        flow.message_start = message.map_or(flow.next, |message| Offset::new(message.start));
        flow.message_end = message.map_or(flow.end, |message| Offset::new(message.end));
        flow.deadline = message.and_then(|message| message.deadline);
        flow.message_age = message.map_or(Span::ZERO, |message| now.since(message.written));
        flow.class = message.map_or(0, |message| message.class);
    }

    /// Linux v1 looks at the memory before it begins a fragment, not while it fills it: a buffer ends with a fragment, or
    /// with what the application writes at once (`mptcp_send_limit`). What did not fit begins the next write.
    #[inline]
    fn fills_fragment(&self, room: u64) -> u64 {
        let more = room.saturating_sub(self.send.writer.writable);
        if self.send.writer.at_once == u64::MAX || more == 0 {
            return room;
        }
        room.next_multiple_of(FRAGMENT).min(self.send.writer.writable + more.next_multiple_of(self.send.writer.at_once))
    }

    /// The writes of earlier instants are over, whether their pushes found a path or not. Those of this instant follow
    /// one by one, each when what was written before it is sent.
    #[inline]
    fn write_up(&mut self, now: Instant) {
        let most = self.app.written().min(self.send.writer.writable);
        if self.send.writer.at_once == u64::MAX {
            self.send.writer.written = most;
            return;
        }
        if self.send.writer.writing.0 != now {
            self.send.writer.written = self.send.writer.written.max(self.send.writer.writing.1);
        }
        self.send.writer.writing = (now, most);
    }

    /// One more write, if the buffer takes it.
    fn write_more(&mut self) -> bool {
        let most = self.send.writer.writing.1;
        if self.send.writer.at_once == u64::MAX || self.send.writer.written >= most {
            return false;
        }
        let before = self.send.writer.written;
        self.send.writer.written = before.saturating_add(self.send.writer.at_once).min(most);
        let more = Bytes::new(self.send.writer.written - before);
        self.send.flow.end = Offset::new(self.send.writer.written);
        self.send.flow.unsent += more;
        true
    }

    /// Linux grows a subflow's send memory with its window and never shrinks it; the connection
    /// has the sum.
    pub(crate) fn grow_send_buffer(&mut self, id: PathId) {
        match self.transport.send_buffer {
            Buffer::Fixed(bytes) => {
                self.send.senders[id.index()].memory.most = bytes.max(self.transport.mss);
                self.send.writer.buffer = bytes.get();
            }
            Buffer::Auto { max } => {
                let packets = self.send.senders[id.index()].memory.widest.packets(self.transport.mss).max(10);
                let windows = self.send.senders[id.index()].cc.send_memory_windows();
                let memory = (windows * packets * SEND_MEMORY_PER_PACKET).min(max.get());
                self.send.senders[id.index()].memory.most = Bytes::new(memory);
                let sum: u64 = self.send.senders.iter().map(|sender| sender.memory.most.get()).sum();
                self.send.writer.buffer = sum + LEAST_SEND_MEMORY;
            }
        }
        // A buffer that takes no packet would hold everything up.
        self.send.writer.buffer = self.send.writer.buffer.max(self.transport.mss.get());
    }

    /// A path has room and nothing may go: says why, and relieves the window if that is the rule.
    #[inline]
    fn on_blocked(&mut self, net: &mut Net, now: Instant) {
        let written = self.app.written();
        let by_window = self.is_shut();
        let by_buffer = !by_window && self.send.outbox.cut_at().get() < written;
        if !(by_window || by_buffer) {
            self.send.question.starved = false;
            return;
        }
        if !self.send.question.starved {
            let why = if by_window { weftway_path::Starved::Window } else { weftway_path::Starved::SendBuffer };
            self.host.events.push(Event::Starved(why));
        }
        self.send.question.starved = true;
        if by_window && self.send.probe_at.is_never() {
            self.send.probe_at = now + PROBE_AFTER;
            net.calendar.lower(self.source, self.send.probe_at);
        }
        if by_window || self.transport.rules.relieves_buffer {
            self.relieve(net, now, by_window);
        }
    }

    /// Whether the peer's window holds back data that are ready.
    pub(crate) fn is_shut(&self) -> bool {
        self.send.outbox.is_blocked_by(self.send.flow.edge)
    }

    fn rules(&self) -> (bool, bool) {
        let rules = self.host.rules;
        let applies = self.transport.rules.relieves_window;
        (
            applies && self.transport.opportunistic.unwrap_or(rules.opportunistic),
            applies && self.transport.penalise.unwrap_or(rules.penalise),
        )
    }

    /// Opportunistic retransmission and penalisation (Raiciu et al., NSDI 2012; multipath-tcp/mptcp
    /// `mptcp_rcv_buf_optimization`), where the window is shut, or the send buffer keeps the application waiting and all
    /// it holds is sent. Of a send buffer only one that is full penalises (`sk_stream_memory_free`).
    fn relieve(&mut self, net: &mut Net, now: Instant, by_window: bool) {
        let (opportunistic, penalise) = self.rules();
        if !(opportunistic || penalise) {
            return;
        }
        let full = self.send.writer.writable >= self.send.outbox.una().get() + self.send.writer.buffer;
        let Some((number, head)) = self.send.outbox.chunks().next().map(|(number, chunk)| (number, *chunk)) else {
            return;
        };
        let Some(tp) = self.send.fastest_open() else { return };
        let holders = head.carried.and(self.send.views.set());
        let srtt = self.send.views.get(tp).srtt;
        if penalise && (by_window || full) && now.since(self.send.relief.last[tp.index()]) >= srtt {
            self.penalise(net, now, tp, holders);
        }
        if !opportunistic || head.carried.contains(tp) || !head.sent {
            return;
        }
        let mut worth = false;
        for id in holders.iter() {
            let holder = self.send.views.get(id);
            if holder.cwnd.get() <= 4 * holder.mss.get() {
                worth = true;
                break;
            }
            worth = srtt * 4 < holder.srtt;
            if !worth {
                break;
            }
        }
        if worth {
            self.assign(net, now, tp, number, SendKind::Duplicate);
        }
    }

    pub(crate) fn penalise(&mut self, net: &mut Net, now: Instant, tp: PathId, holders: PathSet) {
        let srtt = self.send.views.get(tp).srtt;
        for id in holders.without(tp).iter() {
            let holder = self.send.views.get(id);
            if srtt < holder.srtt && holder.recovery == Recovery::Open {
                let (sender, mut ctx) = self.send_context(net, now, id);
                sender.cc.on_penalty();
                sender.publish(&mut ctx);
                self.refresh(net, now, id);
                self.send.relief.last[tp.index()] = now;
                if self.transport.penalise_first_only {
                    return;
                }
            }
        }
    }

    /// Gives chunk `number` to path `id`.
    #[inline(never)]
    pub(crate) fn assign(&mut self, net: &mut Net, now: Instant, id: PathId, number: u64, kind: SendKind) {
        let chunk = self.send.outbox.carry(number, id);
        self.assign_chunk(net, now, id, number, chunk, kind);
    }

    /// Gives `chunk`, which has number `number`, to path `id`.
    #[inline(always)]
    fn assign_chunk(&mut self, net: &mut Net, now: Instant, id: PathId, number: u64, chunk: Chunk, kind: SendKind) {
        let Chunk { offset, bytes, carried, .. } = chunk;
        if self.transport.subflow_windows && u64::from(bytes) < self.transport.mss.get() {
            // The end of a fragment joins what follows it on the same subflow.
            let ends_fragment = (offset.get() + u64::from(bytes)).is_multiple_of(FRAGMENT);
            self.send.writer.small = if ends_fragment { self.send.writer.small } else { Some((id, offset)) };
        }
        let serial = self.host.next_serial();
        if self.send.meta.at.is_never() && self.transport.rules.meta_timer != MetaTimer::None {
            self.arm_meta(net, now);
        }
        let (sender, mut ctx) = self.send_context(net, now, id);
        if ctx.transport.subflow_windows {
            // `mptcp_check_allowed_size`: the subflow may use what the connection may.
            sender.send_window = sender.send_window.max(ctx.flow.edge.since(offset));
        }
        let (first, after) = (!carried.contains(id), ctx.view.next);
        let assigned = Assigned { chunk: number, serial, kind, offset, bytes, first, after };
        let goes = PathSender::has_room(ctx.view) && sender.pacer.release() <= now;
        if goes && sender.queue.is_empty() && !sender.holds(bytes, ctx.transport) {
            sender.send_inline(&mut ctx, assigned);
        } else {
            sender.queue.push(assigned);
            ctx.view.queued += PathSender::charge(ctx.transport, bytes);
            ctx.view.next = ctx.view.next.max(offset + Bytes::new(u64::from(bytes)));
        }
        // Carried out when the path has the packet, be it in its queue: the next question may come at once.
        let receipt = Receipt { path: id, offset, bytes: Bytes::new(u64::from(bytes)), serial };
        ctx.events.push(Event::Sent(receipt, kind));
        sender.look_at_room(&mut ctx);
        if self.transport.rules.pushes_fragments {
            self.pushed(net, now, id, offset);
        }
        if self.host.needs.queueing {
            self.refresh_queue(now, id);
        }
    }

    /// Linux v1: path `id` has taken data at `offset`. The memory of the path that took the last is looked at again.
    fn pushed(&mut self, net: &mut Net, now: Instant, id: PathId, offset: Offset) {
        let writer = &mut self.send.writer;
        if offset.get() >= writer.fragment {
            writer.fragment = ((offset.get() / FRAGMENT + 1) * FRAGMENT).min(writer.written);
        }
        let before = writer.pushed.replace((id, now)).map(|(before, _)| before);
        if let Some(before) = before.filter(|&before| before != id) {
            self.refresh(net, now, before);
        }
    }

    /// Carries out the scheduler's decision, or says why not.
    #[inline(always)]
    fn carry(&mut self, net: &mut Net, now: Instant, decision: Decision) -> Result<Carried, Refusal> {
        match decision {
            Decision::Send(id) => {
                let (number, kind) = self.send.question.hand.ok_or(Refusal::NoPacket)?;
                if !self.takes(id) {
                    return Err(Refusal::Path);
                }
                if kind == SendKind::Reinjection {
                    self.send.outbox.took_reinjection();
                }
                let Question { packet, .. } = &self.send.question;
                let chunk = if number == self.send.outbox.end() {
                    self.send.outbox.cut_for(packet.bytes.get() as u32, id)
                } else {
                    self.send.outbox.carry(number, id)
                };
                self.assign_chunk(net, now, id, number, chunk, kind);
            }
            Decision::Ahead(id, _) | Decision::Repeat(id, _) if !self.takes(id) => return Err(Refusal::Path),
            Decision::Ahead(id, offset) => {
                let Some(number) = self.find_ahead(offset) else { return Ok(Carried::Nothing) };
                let fresh = self.send.outbox.first_unsent() == Some(number);
                let kind = if fresh { SendKind::Fresh } else { SendKind::Ahead };
                self.assign(net, now, id, number, kind);
            }
            Decision::Repeat(id, offset) => {
                let Some(number) = self.send.outbox.copy_from(offset, id) else { return Ok(Carried::Nothing) };
                self.assign(net, now, id, number, SendKind::Duplicate);
            }
            Decision::Recall(id) => return self.recall(net, now, id),
            Decision::Wait => return Ok(Carried::Nothing),
        }
        Ok(Carried::Packet)
    }

    /// Whether path `id` takes a packet from this scheduler.
    #[inline]
    fn takes(&self, id: PathId) -> bool {
        self.send.question.open.contains(id)
            || (self.host.needs.queueing && (self.send.question.roomy.contains(id) || self.fits(id)))
    }

    /// Whether the queue of path `id` has room for the packet at hand, full or not.
    fn fits(&self, id: PathId) -> bool {
        let view = self.send.views.get(id);
        self.send.views.set().contains(id)
            && view.blocked != BlockedReason::Transport
            && view.queue_room >= self.send.question.packet.bytes
    }

    /// The first unsent chunk at or after `offset`, cutting as far as window and data allow.
    fn find_ahead(&mut self, offset: Offset) -> Option<u64> {
        if !self.host.needs.ahead {
            return None;
        }
        loop {
            if let Some(number) = self.send.outbox.unsent_from(offset) {
                return (self.send.outbox.chunk(number).end() <= self.send.flow.edge).then_some(number);
            }
            if self.send.outbox.cut_at() >= self.send.flow.edge {
                return None;
            }
            self.cut()?;
        }
    }

    /// Takes back what waits in the queue of path `id`. The next question is about it.
    fn recall(&mut self, net: &mut Net, now: Instant, id: PathId) -> Result<Carried, Refusal> {
        if !self.host.needs.recall {
            return Err(Refusal::Unsupported);
        }
        if !self.send.views.set().contains(id) {
            return Err(Refusal::Path);
        }
        if !self.gives_back(now, id) {
            return Ok(Carried::Nothing);
        }
        self.send.question.recalled[id.index()] = now;
        let (sender, mut ctx) = self.send_context(net, now, id);
        sender.recall(&mut ctx);
        self.sync_flow(now);
        self.refresh(net, now, id);
        Ok(Carried::Queue)
    }

    /// The turn is over: nothing more is sent until something happens.
    #[inline(always)]
    pub(crate) fn end_turn(&mut self, net: &mut Net, now: Instant) {
        let copies = self.host.needs.copies && self.send.outbox.has_sent();
        let fresh = self.send.flow.unsent > Bytes::ZERO
            || self.send.question.hand.is_some()
            || self.send.writer.written < self.send.writer.writing.1;
        let wants_room = fresh || copies || self.send.outbox.first_reinjection().is_some();
        if self.transport.rules.meta_timer == MetaTimer::PendingTimers
            && self.send.writer.pushed.is_some_and(|(_, at)| at == now)
        {
            self.look_at_pending_timers(now);
        }
        let mut dirty = core::mem::take(&mut self.send.question.dirty);
        self.send.relief.changed = self.send.relief.changed.or(dirty);
        while let Some(id) = dirty.iter().next() {
            dirty = dirty.without(id);
            let source = self.source + 1 + id.index();
            let (sender, mut ctx) = self.send_context(net, now, id);
            sender.end_turn(&mut ctx);
            let at = sender.next_event(wants_room || sender.has_lost(), now);
            net.calendar.lower(source, at);
        }
        self.send.question.synced = false;
    }

    /// The connection's own next event: application, scheduler, delayed acknowledgements, meta
    /// timer, paths coming and going.
    pub(crate) fn own_next(&self) -> Instant {
        let stages = self.paths.stages.iter().map(Stage::next_event).min().unwrap_or(Instant::NEVER);
        self.app
            .next_event()
            .min(self.host.wake())
            .min(self.send.meta.at)
            .min(self.send.probe_at)
            .min(self.receive.receiver.due().0)
            .min(stages)
            .min(self.app.cut_off())
    }
}

/// A connection within its network, at the time of a question.
pub(crate) struct Port<'a> {
    pub(crate) conn: &'a mut Connection,
    pub(crate) net: &'a mut Net,
    pub(crate) now: Instant,
}

impl weftway_host::Transport for Port<'_> {
    #[inline]
    fn host(&self) -> &Host {
        &self.conn.host
    }

    #[inline]
    fn host_mut(&mut self) -> &mut Host {
        &mut self.conn.host
    }

    #[inline]
    fn context(&self) -> Context<'_> {
        self.conn.context(self.now)
    }

    #[inline(always)]
    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal> {
        self.conn.carry(self.net, self.now, decision)
    }

    #[inline]
    fn pause(&mut self) {
        self.conn.send.question.ready = false;
    }

    #[inline]
    fn wake_at(&mut self, at: Instant) {
        self.net.calendar.lower(self.conn.source, at);
    }

    fn log(&mut self, decided: Decided) {
        self.conn.tap.note(self.now, self.conn.number, || Note::Decided(decided));
    }
}
