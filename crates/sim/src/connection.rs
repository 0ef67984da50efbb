//! One connection, both ends. What is decided here: which packet is at hand, whether a scheduler
//! must be asked, and how its answer is carried out. Arrivals are in `arrivals`, the coming and
//! going of paths in `lifecycle`.

use weftway_cc::Share;
use weftway_host::{Carried, Decided, Host, Refusal};
use weftway_path::{
    BlockedReason, Bytes, Context, Decision, Event, Flow, Health, Instant, Offset, Packet, Path, PathId, PathSet,
    Receipt, Recovery, SendKind, Span,
};
use weftway_scenario::App;
use weftway_scenario::config::{Buffer, PathConfig, Stack, Transport};
use weftway_sched::FRAGMENT;

use crate::bottleneck::Groups;
use crate::capture::Capture;
use crate::lifecycle::Stage;
use crate::net::Net;
use crate::outbox::{Chunk, Outbox};
use crate::receiver::{MAX_BLOCKS, Reassembly, Receiver};
use crate::sender::{Assigned, PathSender, SendContext, Timer};
use crate::tally::{PathTally, Tally};
use crate::tap::{Note, Tap};
use crate::tcp::Repair;
use crate::views::Views;

/// Send memory that Linux counts per packet of window (`tcp_sndbuf_expand`): a segment with its headers and
/// bookkeeping in the next power of two, 2048 bytes, and 256 for the buffer's descriptor. A kernel that leaves room
/// for the headers of wireless devices or tunnels needs 4096 + 256.
const SEND_MEMORY_PER_PACKET: u64 = 2304;

/// Beside its subflows' send memory, the connection has the least of a socket (`tcp_wmem[0]`).
const LEAST_SEND_MEMORY: u64 = 4096;

/// What a buffer takes of the send memory beside payload (`sk_wmem_queued`, in which it comes and goes in steps of 3680
/// bytes with two packets of 1424): `sk_buff` with its clone and a head for the headers.
const BUFFER_HEAD: u64 = 832;

/// Which links a path uses.
#[derive(Clone, Copy, Debug)]
pub struct Route {
    /// Its own link in the data direction.
    pub data: usize,
    /// Its link in the other direction.
    pub acks: usize,
    /// A shared link after its own, in the data direction.
    pub via: Option<usize>,
}

/// One connection.
#[derive(Clone)]
pub struct Connection {
    pub(crate) number: u8,
    pub(crate) transport: Transport,
    /// What is kept for the scheduler.
    pub host: Host,
    pub(crate) configs: Vec<PathConfig>,
    pub(crate) routes: Vec<Route>,
    pub(crate) cc_spec: String,
    /// Whether controllers read each other's shares.
    coupled: bool,
    pub(crate) seed: u64,
    // The sender.
    pub(crate) views: Views,
    pub(crate) senders: Vec<PathSender>,
    pub(crate) shares: Vec<Share>,
    /// Which paths share a bottleneck.
    pub(crate) groups: Groups,
    pub(crate) outbox: Outbox,
    pub(crate) flow: Flow,
    /// QUIC: the most that the receiver's limit is ever beyond what it has read.
    largest_window: Option<Bytes>,
    hand: Option<(u64, SendKind)>,
    /// The end of the message in which chunks are being cut.
    cut_message_end: u64,
    /// The last packet that was not full: its path and first byte.
    small: Option<(PathId, Offset)>,
    packet: Packet,
    /// Paths that may send now.
    open: PathSet,
    /// Paths whose queue has room.
    roomy: PathSet,
    dirty: PathSet,
    /// Whether something happened since the scheduler last said `Wait`.
    pub(crate) ready: bool,
    starved: bool,
    pub(crate) meta_timer: Instant,
    meta_since: Instant,
    /// When to ask about a shut window.
    pub(crate) probe_at: Instant,
    meta_backoff: u32,
    /// Linux v1: how long the meta timer runs, as the last push found it.
    meta_interval: Span,
    last_relief: Vec<Instant>,
    /// When each path last gave back what waited in its queue.
    recalled: Vec<Instant>,
    /// How far the application writes ahead of what is acknowledged.
    send_buffer: u64,
    /// The path that took the last packet, and when.
    pushed: Option<(PathId, Instant)>,
    /// Where the fragment ends that is being sent.
    fragment: u64,
    /// How far the buffer lets it write: a full one takes more when a third of it is free.
    writable: u64,
    /// How much it writes at once, and what it has written.
    write: u64,
    written: u64,
    /// When it was last looked at, and how far it could write then.
    writing: (Instant, u64),
    // The receiver.
    pub(crate) receiver: Receiver,
    pub(crate) inbound_epoch: Vec<u8>,
    /// What a capture at the receiver sees of each subflow.
    pub(crate) captures: Vec<Capture>,
    pub(crate) blocks: Vec<[(u64, u64); MAX_BLOCKS]>,
    pub(crate) free_blocks: Vec<u32>,
    // Both.
    pub(crate) app: App,
    pub(crate) stages: Vec<Stage>,
    pub(crate) established: Option<Instant>,
    pub(crate) joined: bool,
    pub(crate) finished: Option<Instant>,
    /// The calendar source of the connection; those of its paths follow.
    pub(crate) source: usize,
    /// What was counted.
    pub tally: Tally,
    /// What was counted on each path.
    pub path_tallies: Vec<PathTally>,
    pub(crate) tap: Tap,
}

/// What a connection is made from.
pub struct Parts {
    pub number: u8,
    pub transport: Transport,
    pub configs: Vec<PathConfig>,
    pub routes: Vec<Route>,
    pub cc_spec: String,
    pub seed: u64,
    pub app: App,
    pub write: Bytes,
    pub source: usize,
}

/// See [`Connection::una`].
fn largest_window(transport: &Transport) -> Option<Bytes> {
    let window = match transport.receive_buffer {
        Buffer::Fixed(bytes) => transport.stream_window.map_or(bytes, |stream| bytes.min(stream)),
        Buffer::Auto { max } => max,
    };
    (transport.stack == Stack::Mpquic).then(|| window.max(transport.mss))
}

impl Connection {
    pub(crate) fn new(parts: Parts, senders: Vec<PathSender>) -> Self {
        let Parts { number, transport, configs, routes, cc_spec, seed, app, write, source } = parts;
        let paths = configs.len();
        let groups = Groups::new(transport.bottlenecks, &routes);
        let view = |n: usize| {
            let mut path = Path::new(PathId::new(n as u8), transport.mss, transport.initial_cwnd());
            path.role = configs[n].role;
            path.bottleneck = groups.of(path.id);
            path.blocked = BlockedReason::Validation;
            path
        };
        let views = Views::new((0..paths).map(view).collect());
        let shares = senders.iter().map(|sender| Share { usable: false, ..sender.cc.share() }).collect();
        let receiver = Receiver::new(&transport, paths);
        let edge = receiver.data.edge();
        Self {
            number,
            host: Host::default(),
            views,
            senders,
            shares,
            groups,
            outbox: Outbox::default(),
            flow: Flow { edge, ..Flow::default() },
            largest_window: largest_window(&transport),
            hand: None,
            cut_message_end: 0,
            small: None,
            packet: Packet {
                offset: Offset::ZERO,
                bytes: Bytes::ZERO,
                reinjection: false,
                carried: PathSet::EMPTY,
                avoid: PathSet::EMPTY,
            },
            open: PathSet::EMPTY,
            roomy: PathSet::EMPTY,
            dirty: PathSet::EMPTY,
            ready: false,
            starved: false,
            meta_timer: Instant::NEVER,
            meta_since: Instant::ZERO,
            probe_at: Instant::NEVER,
            meta_backoff: 0,
            meta_interval: transport.min_rto,
            last_relief: vec![Instant::ZERO; paths],
            recalled: vec![Instant::NEVER; paths],
            send_buffer: 0,
            pushed: None,
            fragment: 0,
            writable: 0,
            // Only Linux v1 tells writes apart.
            write: if transport.stack == Stack::MptcpLinuxV1 { write.get() } else { u64::MAX },
            written: 0,
            writing: (Instant::ZERO, 0),
            receiver,
            inbound_epoch: vec![0; paths],
            captures: vec![Capture::default(); paths],
            blocks: Vec::new(),
            free_blocks: Vec::new(),
            app,
            stages: vec![Stage::Absent; paths],
            established: None,
            joined: false,
            finished: None,
            source,
            tally: Tally::default(),
            path_tallies: vec![PathTally::default(); paths],
            tap: Tap::default(),
            transport,
            configs,
            routes,
            coupled: weftway_cc::parse(&cc_spec).is_ok_and(|(entry, _)| entry.coupled),
            cc_spec,
            seed,
        }
    }

    /// The question as it stands.
    #[inline]
    pub fn context(&self, now: Instant) -> Context<'_> {
        let packet = if self.hand.is_some() { Some(&self.packet) } else { None };
        Context { now, paths: self.views.usable(), packet, flow: Some(&self.flow) }
    }

    /// What has arrived in order.
    pub fn delivered(&self) -> Bytes {
        self.receiver.data.next().since(Offset::ZERO)
    }

    /// What the receiver held out of order.
    pub fn reordering(&self) -> &Reassembly {
        &self.receiver.data
    }

    /// The smoothed round-trip time of a path.
    pub fn srtt(&self, path: usize) -> Span {
        self.views.get(PathId::new(path as u8)).srtt
    }

    /// Lends everything that path `id` needs.
    #[inline]
    pub(crate) fn send_context<'a>(
        &'a mut self,
        net: &'a mut Net,
        now: Instant,
        id: PathId,
    ) -> (&'a mut PathSender, SendContext<'a>) {
        let ctx = SendContext {
            now,
            net,
            conn: self.number,
            view: self.views.get_mut(id),
            events: &mut self.host.events,
            outbox: &mut self.outbox,
            shares: &mut self.shares,
            transport: &self.transport,
            tally: &mut self.path_tallies[id.index()],
            tap: &mut self.tap,
            coupled: self.coupled,
        };
        (&mut self.senders[id.index()], ctx)
    }

    /// Sends what path `id` owes: losses first, then what waits in its queue.
    #[inline]
    pub(crate) fn serve(&mut self, net: &mut Net, now: Instant, id: PathId, repair: Repair) {
        let (sender, mut ctx) = self.send_context(net, now, id);
        match repair {
            Repair::Nothing => {}
            Repair::NewData => {
                sender.flush(&mut ctx);
                if !sender.give_up_frto() {
                    sender.retransmit_lost(&mut ctx);
                }
            }
            Repair::Lost => sender.retransmit_lost(&mut ctx),
        }
        let holds_back = sender.gathers(now, ctx.view, ctx.transport);
        if !sender.queue.is_empty() {
            sender.flush(&mut ctx);
        }
        // Linux grants memory for the widest window that an acknowledgement did not leave full
        // (`tcp_should_expand_sndbuf`): a slow path with data waiting keeps what it began with.
        let view = ctx.view;
        let open = holds_back || view.bytes_in_flight + view.mss <= view.cwnd;
        if view.cwnd > sender.widest && open {
            sender.widest = view.cwnd;
            self.grow_send_buffer(id);
        }
        self.refresh(now, id);
    }

    /// Brings what is derived of path `id` up to date.
    #[inline]
    pub(crate) fn refresh(&mut self, now: Instant, id: PathId) {
        let usable = self.views.set().contains(id);
        let sender = &mut self.senders[id.index()];
        let view = self.views.get_mut(id);
        let more = self.flow.unsent > view.mss;
        view.blocked = sender.blocked_reason(now, view, more, &self.transport);
        view.release = sender.pacer.release();
        let open = usable && view.is_open();
        self.open = if open { self.open.with(id) } else { self.open.without(id) };
        if self.host.needs.queueing {
            if self.transport.stack == Stack::MptcpLinuxV1 {
                let buffers = sender.flight.buffers() + u64::from(!sender.queue.is_empty());
                view.overhead = Bytes::new(buffers * BUFFER_HEAD);
            }
            let room = self.room(now, id);
            let view = self.views.get_mut(id);
            view.queue_room = room;
            let roomy = usable && view.blocked != BlockedReason::Transport && view.queue_room >= view.mss;
            self.roomy = if roomy { self.roomy.with(id) } else { self.roomy.without(id) };
        }
        self.dirty = self.dirty.with(id);
    }

    /// How much more path `id` takes into its queue. Linux v1 asks for free memory, however little, at the beginning
    /// of a push and after each fragment, and not within one.
    #[inline]
    fn room(&self, now: Instant, id: PathId) -> Bytes {
        let view = self.views.get(id);
        let memory = self.senders[id.index()].send_memory;
        if self.transport.stack != Stack::MptcpLinuxV1 {
            return memory.saturating_sub(view.send_queue());
        }
        let within = self.pushed == Some((id, now)) && self.outbox.next().get() < self.fragment;
        match memory.saturating_sub(view.send_memory()) {
            Bytes::ZERO if within => view.mss,
            Bytes::ZERO => Bytes::ZERO,
            free => free.max(view.mss),
        }
    }

    /// Something happened: the scheduler may be asked again.
    #[inline]
    pub(crate) fn wake(&mut self) {
        self.ready = true;
    }

    /// Whether the scheduler must be asked now.
    #[inline]
    pub(crate) fn wants(&mut self, net: &mut Net, now: Instant) -> bool {
        if self.host.needs.device {
            self.look_at_devices(net, now);
        }
        if !self.ready || self.established.is_none() || self.finished.is_some() {
            return false;
        }
        // What is left of a fragment counts within one push only.
        if let Some((id, _)) = self.pushed.take_if(|(_, at)| *at != now) {
            self.refresh(now, id);
        }
        let room = if self.host.needs.queueing { !self.roomy.is_empty() } else { !self.open.is_empty() };
        if !room {
            self.hand = None;
            if self.recalls(now) {
                self.sync_flow(now);
                return true;
            }
            // With nothing more to send a pacer's release is not waited for; the application may have more since.
            if self.flow.unsent == Bytes::ZERO {
                self.sync_flow(now);
            } else {
                self.sync_una();
            }
            return false;
        }
        self.take_up(now);
        if self.hand.is_some() {
            return true;
        }
        self.on_blocked(net, now);
        let copies = self.host.needs.copies && !self.open.is_empty() && self.outbox.has_sent();
        copies || self.recalls(now)
    }

    /// Whether the scheduler may take back what waits in some path's queue.
    #[inline]
    fn recalls(&self, now: Instant) -> bool {
        self.host.needs.recall && self.views.set().iter().any(|id| self.gives_back(now, id))
    }

    /// Whether path `id` has something to give back, and has not given back at this time: a scheduler that only takes
    /// back comes to an end.
    fn gives_back(&self, now: Instant, id: PathId) -> bool {
        !self.senders[id.index()].queue.is_empty() && self.recalled[id.index()] != now
    }

    /// Notes what the sender's device on each path holds: what waits on the path's own link, in payload. Cross traffic
    /// on it is counted, because a device serves everybody in turn.
    fn look_at_devices(&mut self, net: &Net, now: Instant) {
        let headers = self.transport.packet - self.transport.mss;
        for id in self.views.set().iter() {
            let (packets, bytes) = net.links[self.routes[id.index()].data].backlog(now);
            let payload = bytes.saturating_sub(headers.mul_div(packets, 1));
            self.views.get_mut(id).device_queue = payload;
        }
    }

    /// Finds the packet at hand: what was handed back, else the next that was never sent.
    #[inline(always)]
    fn take_up(&mut self, now: Instant) {
        self.sync_flow(now);
        self.hand = match self.outbox.first_reinjection() {
            Some(number) => Some((number, SendKind::Reinjection)),
            None => self.next_fresh().map(|number| (number, SendKind::Fresh)),
        };
        if let Some((number, kind)) = self.hand {
            let chunk = self.outbox.chunk(number);
            self.packet = Packet {
                offset: chunk.offset,
                bytes: Bytes::new(u64::from(chunk.bytes)),
                reinjection: kind == SendKind::Reinjection,
                carried: chunk.carried,
                // A lost frame of QUIC is a frame again. MPTCP reinjects what a subflow still holds and repairs itself:
                // on another (`path_mask` of multipath-tcp/mptcp).
                avoid: if self.transport.stack == Stack::Mpquic { PathSet::EMPTY } else { chunk.carried },
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

    /// Cuts the next chunk: a full packet, or what is left of a message.
    #[inline(always)]
    fn cut(&mut self) -> Option<u64> {
        let at = self.outbox.cut_at().get();
        let mss = self.transport.mss.get();
        while self.flow.end.get() < at + mss && self.write_more() {}
        let end = self.flow.end.get();
        if at >= end {
            return None;
        }
        if at >= self.cut_message_end {
            self.cut_message_end = self.app.message_at(at).map_or(end, |message| message.end);
        }
        let mut bytes = mss.min(self.cut_message_end - at);
        if self.transport.subflow_windows {
            bytes = self.ends_within(at, bytes);
        }
        // A send buffer that ends within a packet: wait for the rest of it.
        (at + bytes <= end).then(|| self.outbox.cut(bytes as u32))
    }

    /// Linux v1: where a packet of at most `bytes` ends. A fragment's last packet ends with it; only a subflow that goes on
    /// alone joins it to the next. The rest that is less than a packet is sent when the window
    /// (`mptcp_check_allowed_size`) or what the application could write ends there, unless the last such packet is not
    /// acknowledged (Nagle's rule, RFC 896).
    fn ends_within(&self, at: u64, bytes: u64) -> u64 {
        let alone = self.views.usable().len() == 1;
        let bytes = if alone { bytes } else { bytes.min((at / FRAGMENT + 1) * FRAGMENT - at) };
        let mut most = self.flow.edge.get();
        if self.written >= self.writing.1 {
            most = most.min(self.flow.end.get());
        }
        let rest = most.saturating_sub(at);
        let short = (1..bytes).contains(&rest);
        if short && self.small.is_none_or(|(id, offset)| self.senders[id.index()].has_settled(offset)) {
            rest
        } else {
            bytes
        }
    }

    /// Everything before it has arrived, as far as the sender can tell. MPTCP's DATA_ACK comes with the window in one
    /// message. QUIC acknowledges packets on their own path and raises the limit on any: a limit that overtakes a slow
    /// path's acknowledgements tells that all but a buffer below it was read (RFC 9000 §4.1).
    #[inline]
    fn una(&self) -> Offset {
        let una = self.outbox.una();
        self.largest_window.map_or(una, |window| una.max(Offset::ZERO + self.flow.edge.since(Offset::ZERO + window)))
    }

    /// The part of the flow that acknowledgements and packets move.
    #[inline]
    fn sync_una(&mut self) {
        self.flow.una = self.una();
        self.flow.next = self.outbox.next();
    }

    /// Brings the flow up to date.
    #[inline]
    fn sync_flow(&mut self, now: Instant) {
        // The send buffer keeps what is not acknowledged, whatever the limit tells.
        let una = self.outbox.una();
        let room = una.get() + self.send_buffer;
        // Linux wakes a blocked writer when what is queued is at most twice what is free
        // (`sk_stream_is_writeable`): data come to the scheduler in portions, not in drops. What is left of a
        // grant and fills no packet would wait for more for ever.
        let left = self.writable.saturating_sub(una.get());
        let wakes = left * 3 <= self.send_buffer * 2 || left < self.transport.mss.get();
        if self.transport.stack == Stack::Mpquic || wakes {
            self.writable = self.writable.max(self.fills_fragment(room));
        }
        self.write_up(now);
        // A buffer that shrinks, because a path is gone, keeps what it holds.
        let end = self.written.max(self.outbox.cut_at().get());
        self.sync_una();
        let flow = &mut self.flow;
        flow.end = Offset::new(end);
        flow.unsent = Bytes::new(end.saturating_sub(self.outbox.cut_at().get()) + self.outbox.skipped());
        if self.app.has_messages() || flow.message_end <= flow.next {
            let message = self.app.message_at(flow.next.get());
            flow.message_start = message.map_or(flow.next, |message| Offset::new(message.start));
            flow.message_end = message.map_or(flow.end, |message| Offset::new(message.end));
            flow.deadline = message.and_then(|message| message.deadline);
            flow.message_age = message.map_or(Span::ZERO, |message| now.since(message.written));
            flow.class = message.map_or(0, |message| message.class);
        }
    }

    /// Linux v1 looks at the memory before it begins a fragment, not while it fills it: a buffer ends with a fragment, or
    /// with what the application writes at once (`mptcp_send_limit`). What did not fit begins the next write.
    #[inline]
    fn fills_fragment(&self, room: u64) -> u64 {
        let more = room.saturating_sub(self.writable);
        if self.write == u64::MAX || more == 0 {
            return room;
        }
        room.next_multiple_of(FRAGMENT).min(self.writable + more.next_multiple_of(self.write))
    }

    /// The writes of earlier instants are over, whether their pushes found a path or not. Those of this instant follow
    /// one by one, each when what was written before it is sent.
    #[inline]
    fn write_up(&mut self, now: Instant) {
        let most = self.app.written().min(self.writable);
        if self.write == u64::MAX {
            self.written = most;
            return;
        }
        if self.writing.0 != now {
            self.written = self.written.max(self.writing.1);
        }
        self.writing = (now, most);
    }

    /// One more write, if the buffer takes it.
    fn write_more(&mut self) -> bool {
        let most = self.writing.1;
        if self.write == u64::MAX || self.written >= most {
            return false;
        }
        let before = self.written;
        self.written = before.saturating_add(self.write).min(most);
        let more = Bytes::new(self.written - before);
        self.flow.end = Offset::new(self.written);
        self.flow.unsent += more;
        true
    }

    /// Linux grows a subflow's send memory with its window and never shrinks it; the connection
    /// has the sum.
    pub(crate) fn grow_send_buffer(&mut self, id: PathId) {
        match self.transport.send_buffer {
            Buffer::Fixed(bytes) => {
                self.senders[id.index()].send_memory = bytes.max(self.transport.mss);
                self.send_buffer = bytes.get();
            }
            Buffer::Auto { max } => {
                let packets = self.senders[id.index()].widest.packets(self.transport.mss).max(10);
                let windows = self.senders[id.index()].cc.send_memory_windows();
                let memory = (windows * packets * SEND_MEMORY_PER_PACKET).min(max.get());
                self.senders[id.index()].send_memory = Bytes::new(memory);
                let sum: u64 = self.senders.iter().map(|sender| sender.send_memory.get()).sum();
                self.send_buffer = sum + LEAST_SEND_MEMORY;
            }
        }
        // A buffer that takes no packet would hold everything up.
        self.send_buffer = self.send_buffer.max(self.transport.mss.get());
    }

    /// A path has room and nothing may go: says why, and relieves the window if that is the rule.
    #[cold]
    fn on_blocked(&mut self, net: &mut Net, now: Instant) {
        let written = self.app.written();
        let by_window = self.is_shut();
        let by_buffer = !by_window && self.outbox.cut_at().get() < written;
        if !(by_window || by_buffer) {
            self.starved = false;
            return;
        }
        if !self.starved {
            let why = if by_window { weftway_path::Starved::Window } else { weftway_path::Starved::SendBuffer };
            self.host.events.push(Event::Starved(why));
        }
        self.starved = true;
        if by_window && self.probe_at.is_never() {
            self.probe_at = now + crate::arrivals::PROBE_AFTER;
            net.calendar.lower(self.source, self.probe_at);
        }
        self.relieve(net, now, by_window);
    }

    /// Whether the peer's window holds back data that are ready.
    pub(crate) fn is_shut(&self) -> bool {
        self.outbox.is_blocked_by(self.flow.edge)
    }

    fn rules(&self) -> (bool, bool) {
        let rules = self.host.rules;
        let applies = self.transport.stack == Stack::MptcpV09x;
        (
            applies && self.transport.opportunistic.unwrap_or(rules.opportunistic),
            applies && self.transport.penalise.unwrap_or(rules.penalise),
        )
    }

    /// Opportunistic retransmission and penalisation (Raiciu et al., NSDI 2012; multipath-tcp/mptcp
    /// `mptcp_rcv_buf_optimization`).
    fn relieve(&mut self, net: &mut Net, now: Instant, by_window: bool) {
        let (opportunistic, penalise) = self.rules();
        if !(opportunistic || penalise) || !by_window {
            return;
        }
        let Some((number, head)) = self.outbox.chunks().next().map(|(number, chunk)| (number, *chunk)) else { return };
        // Backups help out only when they are all there is.
        let only_backups = !self.views.usable().iter().any(Path::is_active);
        let open = self.views.usable().iter().filter(|path| path.is_open() && (only_backups || path.is_active()));
        let Some(tp) = open.min_by_key(|path| path.srtt).map(|path| path.id) else { return };
        let holders = head.carried.and(self.views.set());
        let srtt = self.views.get(tp).srtt;
        if penalise && now.since(self.last_relief[tp.index()]) >= srtt {
            self.penalise(net, now, tp, holders);
        }
        if !opportunistic || head.carried.contains(tp) || !head.sent {
            return;
        }
        let mut worth = false;
        for id in holders.iter() {
            let holder = self.views.get(id);
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
        let srtt = self.views.get(tp).srtt;
        for id in holders.without(tp).iter() {
            let holder = self.views.get(id);
            if srtt < holder.srtt && holder.recovery == Recovery::Open {
                let (sender, mut ctx) = self.send_context(net, now, id);
                sender.cc.on_penalty();
                sender.publish(&mut ctx);
                self.refresh(now, id);
                self.last_relief[tp.index()] = now;
                if self.transport.penalise_first_only {
                    return;
                }
            }
        }
    }

    /// Gives chunk `number` to path `id`.
    #[inline]
    pub(crate) fn assign(&mut self, net: &mut Net, now: Instant, id: PathId, number: u64, kind: SendKind) {
        let Chunk { offset, bytes, carried, .. } = self.outbox.carry(number, id);
        if self.transport.subflow_windows && u64::from(bytes) < self.transport.mss.get() {
            // The end of a fragment joins what follows it on the same subflow.
            let ends_fragment = (offset.get() + u64::from(bytes)).is_multiple_of(FRAGMENT);
            self.small = if ends_fragment { self.small } else { Some((id, offset)) };
        }
        let (first, after) = (!carried.contains(id), self.views.get(id).next);
        let assigned = Assigned { chunk: number, serial: self.host.next_serial(), kind, offset, bytes, first, after };
        if self.meta_timer.is_never() && self.transport.stack != Stack::Mpquic {
            self.arm_meta(net, now);
        }
        let edge = self.flow.edge;
        let (sender, mut ctx) = self.send_context(net, now, id);
        if ctx.transport.subflow_windows {
            // `mptcp_check_allowed_size`: the subflow may use what the connection may.
            sender.send_window = sender.send_window.max(edge.since(offset));
        }
        let fits = ctx.view.bytes_in_flight + ctx.view.mss <= ctx.view.cwnd;
        if sender.queue.is_empty() && fits && sender.pacer.release() <= now {
            sender.send(&mut ctx, assigned, offset, bytes);
        } else {
            sender.queue.push_back(assigned);
            ctx.view.queued += PathSender::charge(ctx.transport, bytes);
            ctx.view.next = ctx.view.next.max(offset + Bytes::new(u64::from(bytes)));
        }
        // Carried out when the path has the packet, be it in its queue: the next question may come at once.
        let receipt = Receipt { path: id, offset, bytes: Bytes::new(u64::from(bytes)), serial: assigned.serial };
        self.host.events.push(Event::Sent(receipt, kind));
        if offset.get() >= self.fragment {
            self.fragment = ((offset.get() / FRAGMENT + 1) * FRAGMENT).min(self.written);
        }
        let before = self.pushed.replace((id, now)).map(|(before, _)| before);
        if let Some(before) = before.filter(|&before| before != id) {
            self.refresh(now, before);
        }
        self.refresh(now, id);
    }

    /// Carries out the scheduler's decision, or says why not.
    #[inline]
    fn carry(&mut self, net: &mut Net, now: Instant, decision: Decision) -> Result<Carried, Refusal> {
        match decision {
            Decision::Send(id) => {
                let (number, kind) = self.hand.ok_or(Refusal::NoPacket)?;
                if !self.takes(id) {
                    return Err(Refusal::Path);
                }
                if kind == SendKind::Reinjection {
                    self.outbox.took_reinjection();
                }
                self.assign(net, now, id, number, kind);
            }
            Decision::Ahead(id, _) | Decision::Repeat(id, _) if !self.takes(id) => return Err(Refusal::Path),
            Decision::Ahead(id, offset) => {
                let Some(number) = self.find_ahead(offset) else { return Ok(Carried::Nothing) };
                let fresh = self.outbox.first_unsent() == Some(number);
                let kind = if fresh { SendKind::Fresh } else { SendKind::Ahead };
                self.assign(net, now, id, number, kind);
            }
            Decision::Repeat(id, offset) => {
                let Some(number) = self.outbox.copy_from(offset, id) else { return Ok(Carried::Nothing) };
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
        self.open.contains(id) || (self.host.needs.queueing && (self.roomy.contains(id) || self.fits(id)))
    }

    /// Whether the queue of path `id` has room for the packet at hand, full or not.
    fn fits(&self, id: PathId) -> bool {
        let view = self.views.get(id);
        self.views.set().contains(id)
            && view.blocked != BlockedReason::Transport
            && view.queue_room >= self.packet.bytes
    }

    /// The first unsent chunk at or after `offset`, cutting as far as window and data allow.
    fn find_ahead(&mut self, offset: Offset) -> Option<u64> {
        if !self.host.needs.ahead {
            return None;
        }
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

    /// Takes back what waits in the queue of path `id`. The next question is about it.
    fn recall(&mut self, net: &mut Net, now: Instant, id: PathId) -> Result<Carried, Refusal> {
        if !self.host.needs.recall {
            return Err(Refusal::Unsupported);
        }
        if !self.views.set().contains(id) {
            return Err(Refusal::Path);
        }
        if !self.gives_back(now, id) {
            return Ok(Carried::Nothing);
        }
        self.recalled[id.index()] = now;
        let (sender, mut ctx) = self.send_context(net, now, id);
        sender.recall(&mut ctx);
        self.sync_flow(now);
        self.refresh(now, id);
        Ok(Carried::Queue)
    }

    /// The turn is over: nothing more is sent until something happens.
    #[inline]
    pub(crate) fn end_turn(&mut self, net: &mut Net, now: Instant) {
        let copies = self.host.needs.copies && self.outbox.has_sent();
        let fresh = self.flow.unsent > Bytes::ZERO || self.hand.is_some() || self.written < self.writing.1;
        let wants_room = fresh || copies || self.outbox.first_reinjection().is_some();
        if self.pushed.is_some_and(|(_, at)| at == now) && self.transport.stack == Stack::MptcpLinuxV1 {
            self.set_meta_interval(now);
        }
        let mut dirty = core::mem::take(&mut self.dirty);
        while let Some(id) = dirty.iter().next() {
            dirty = dirty.without(id);
            let (sender, mut ctx) = self.send_context(net, now, id);
            sender.end_burst(&mut ctx);
            sender.validate_window(&mut ctx);
            if ctx.transport.marks_app_limited && ctx.view.is_open() && sender.queue.is_empty() {
                sender.rate.on_app_limited(ctx.view.bytes_in_flight);
            }
            let at = sender.next_event(wants_room || sender.has_lost(), now);
            let source = self.source + 1 + id.index();
            net.calendar.lower(source, at);
        }
    }

    /// The connection's own next event: application, scheduler, delayed acknowledgements, meta
    /// timer, paths coming and going.
    pub(crate) fn own_next(&self) -> Instant {
        let stages = self.stages.iter().map(Stage::next_event).min().unwrap_or(Instant::NEVER);
        self.app
            .next_event()
            .min(self.host.wake())
            .min(self.meta_timer)
            .min(self.probe_at)
            .min(self.receiver.due().0)
            .min(stages)
            .min(self.app.cut_off())
    }

    /// DATA_ACK moved: the meta timer starts afresh. Where it stands in the calendar is corrected
    /// when it fires too early.
    #[inline]
    pub(crate) fn meta_progress(&mut self, now: Instant) {
        self.meta_backoff = 0;
        self.meta_since = now;
        if !self.outbox.has_sent() {
            self.meta_timer = Instant::NEVER;
        }
    }

    #[cold]
    fn arm_meta(&mut self, net: &mut Net, now: Instant) {
        self.meta_since = now;
        self.meta_timer = self.meta_due();
        net.calendar.lower(self.source, self.meta_timer);
    }

    /// The meta-level timeout: v0.9x waits twice the longest timeout of the subflows, and longer each time; Linux v1 what
    /// the last push found.
    fn meta_due(&self) -> Instant {
        if self.transport.stack == Stack::MptcpLinuxV1 {
            return self.meta_since + self.meta_interval;
        }
        let longest = self.views.set().iter().map(|id| self.senders[id.index()].rto(&self.transport)).max();
        let span = longest.unwrap_or(Span::from_secs(1)) * 2 * (1 << self.meta_backoff.min(10));
        self.meta_since + span.min(Span::from_secs(120))
    }

    /// Linux v1: the meta timer runs as long as the longest *rest* of a timer that is pending on a subflow, be it a
    /// timeout or a tail-loss probe; the least timeout if there is none (`mptcp_set_timeout`). A push sets it.
    #[inline]
    fn set_meta_interval(&mut self, now: Instant) {
        let good = self.views.usable().iter().filter(|path| path.health == Health::Good);
        let rest = good.map(|path| &self.senders[path.id.index()]).filter(|sender| sender.timer != Timer::Idle);
        let longest = rest.map(|sender| sender.timer_at.since(now)).fold(Span::ZERO, Span::max);
        self.meta_interval = if longest.is_zero() { self.transport.min_rto } else { longest };
    }

    /// The meta timer fired: the oldest data are sent again.
    pub(crate) fn meta_timeout(&mut self, net: &mut Net, now: Instant) {
        self.meta_timer = self.meta_due();
        if self.meta_timer > now {
            return;
        }
        self.meta_timer = Instant::NEVER;
        let Some((number, head)) = self.outbox.chunks().next().map(|(number, chunk)| (number, *chunk)) else { return };
        if !head.sent {
            return;
        }
        match self.transport.stack {
            Stack::MptcpV09x => self.outbox.hand_back(number),
            Stack::MptcpLinuxV1 => self.retransmit_on_idle(net, now, head.offset),
            Stack::Mpquic => {}
        }
        self.meta_backoff += 1;
        self.arm_meta(net, now);
        self.wake();
    }

    /// Linux v1: a subflow that has nothing outstanding repeats what was sent of the fragment at the head, be it the
    /// subflow that carried it before (`mptcp_subflow_get_retrans`, `__mptcp_retrans`).
    fn retransmit_on_idle(&mut self, net: &mut Net, now: Instant, head: Offset) {
        let idle = |path: &&Path| path.send_queue() == Bytes::ZERO && path.health == Health::Good && path.is_active();
        let Some(id) = self.views.usable().iter().find(idle).map(|path| path.id) else { return };
        let of_fragment = |chunk: &Chunk| chunk.sent && chunk.offset.get() / FRAGMENT == head.get() / FRAGMENT;
        let sent = self.outbox.chunks().take_while(|(_, chunk)| of_fragment(chunk));
        let fragment: Vec<u64> = sent.map(|(number, _)| number).collect();
        fragment.into_iter().for_each(|number| self.assign(net, now, id, number, SendKind::Reinjection));
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

    #[inline]
    fn carry(&mut self, decision: Decision) -> Result<Carried, Refusal> {
        self.conn.carry(self.net, self.now, decision)
    }

    #[inline]
    fn pause(&mut self) {
        self.conn.ready = false;
    }

    #[inline]
    fn wake_at(&mut self, at: Instant) {
        self.net.calendar.lower(self.conn.source, at);
    }

    fn log(&mut self, decided: Decided) {
        self.conn.tap.note(self.now, self.conn.number, || Note::Decided(decided));
    }
}
