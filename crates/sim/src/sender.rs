//! One path at the sender: what it sent, its controller, its pacer and its timers. What differs
//! between TCP and QUIC is in `tcp` and `quic`.

mod quic;
mod tcp;

use weftway_cc::{Acked, Congestion, Controller, Sent, Share, Signal};
use weftway_host::Events;
use weftway_host::sending::{
    Assigned, Flight, Outbox, Pace, PacedBy, Pacer, Question, RangeSet, RateSampler, Sample, SentPacket,
};
use weftway_path::{
    BitRate, BlockedReason, Bytes, Event, Flow, Health, Instant, Offset, Path, PathId, PathSet, Ring, SendKind, Span,
};
use weftway_scenario::config::TransportConfig;
use weftway_scenario::stack::LossRecovery;

use crate::listeners::{Listeners, Note};
use crate::net::Net;
use crate::tally::PathTally;
use crate::ticks::Ticks;
use crate::wire::{Data, Datagram, Load};
use quic::Quic;
use tcp::Tcp;

pub use tcp::Repair;

/// `sysctl_tcp_tso_win_divisor`.
const DEFER_DIVISOR: u64 = 3;
/// A controller that names a rate paces a connection from its tenth packet on (`tcp_update_skb_after_send`).
const UNPACED_PACKETS: u64 = 10;
/// A write this long ago is no burst.
const DEFER_AFTER: Span = Span::from_millis(1);

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

/// What a path uses of its connection and of the network while something happens to it. Thin references only: it is built
/// for each packet, and what is behind them is read where it is needed.
pub struct SendContext<'a> {
    /// The time.
    pub now: Instant,
    /// The links.
    pub net: &'a mut Net,
    /// The connection's number.
    pub conn: u8,
    /// The path as schedulers see it.
    pub view: &'a mut Path,
    /// What schedulers will be told.
    pub events: &'a mut Events,
    /// The data.
    pub outbox: &'a mut Outbox,
    /// The data, as schedulers see them.
    pub flow: &'a Flow,
    /// Which paths may send.
    pub question: &'a mut Question,
    /// Which paths the scheduler is offered.
    pub offered: &'a PathSet,
    /// What all controllers publish.
    pub shares: &'a mut Vec<Share>,
    /// The transport's settings.
    pub transport: &'a TransportConfig,
    /// The counters of all paths.
    pub tallies: &'a mut Vec<PathTally>,
    /// Who listens.
    pub listeners: &'a mut Listeners,
    /// How controllers are made.
    pub cc: &'a ControllerSpec,
}

impl SendContext<'_> {
    /// The path's counters.
    #[inline(always)]
    pub fn tally(&mut self) -> &mut PathTally {
        &mut self.tallies[self.view.id.index()]
    }

    /// A decision was carried out on the path.
    #[inline(always)]
    fn count_sent(&mut self, kind: SendKind) {
        match kind {
            SendKind::Fresh | SendKind::Ahead => {}
            SendKind::Reinjection => self.tally().reinjections += 1,
            SendKind::Duplicate => self.tally().copies += 1,
        }
    }
}

/// What the path's single timer means, as in Linux (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Timer {
    /// Nothing.
    #[default]
    Idle,
    /// Retransmission timeout, or QUIC's probe timeout.
    Timeout,
    /// Tail-loss probe (RFC 8985 §7).
    TailProbe,
    /// Packets become lost by time: RACK's reordering window, QUIC's loss time.
    Reorder,
}

/// One path at the sender.
#[derive(Clone)]
pub struct PathSender {
    /// Its number.
    pub id: PathId,
    /// How often it has come up.
    pub epoch: u8,
    /// The link its data take.
    pub data_link: usize,
    /// Its controller.
    pub cc: Box<dyn Controller>,
    /// What says how fast packets may leave.
    paced_by: PacedBy,
    /// What it sent.
    pub flight: Flight,
    /// What of it arrived above the oldest.
    pub sacked: RangeSet,
    /// What it was given and has not sent.
    pub queue: Ring<Assigned>,
    /// Delivery rate.
    pub rate: RateSampler,
    /// Pacing.
    pub pacer: Pacer,
    /// What the timer means.
    pub timer: Timer,
    /// When it fires.
    pub timer_at: Instant,
    /// When it was set; never, if `timer_at` lies on a tick.
    timer_set: Instant,
    /// When it last sent data.
    pub last_sent: Instant,
    /// When it last heard of progress.
    pub last_progress: Instant,
    /// When it last heard anything (`rcv_tstamp`).
    pub heard_at: Instant,
    /// TCP: the timestamp of the newest acknowledgement ([`crate::wire::Ack::clock`]).
    echo: u32,
    /// Linux v1: for how long it has heard nothing.
    pub silence: Silence,
    /// How much of the window is used.
    usage: WindowUsage,
    /// TCP's recovery.
    pub tcp: Tcp,
    /// QUIC's recovery.
    pub quic: Quic,
    /// How much its queue holds.
    pub memory: SendMemory,
    /// Linux v1: the window that the peer last announced on it, as TCP takes it.
    pub send_window: Bytes,
    /// When the last buffer was begun, and how many packets more it takes at that time.
    buffer: (Instant, u64),
    /// The number after that of the last packet that was not full (`snd_sml`).
    small: u64,
    /// When that packet left, where its data end, and `small` before it: what follows at once joins it.
    open: (Instant, Offset, u64),
    /// Messages that wait for Nagle's rule share a packet, as the bytes that they are: how much room is left in the one
    /// that goes now. None where nothing waits so.
    coalescing: Option<u64>,
}

/// How often the meta timer has found a subflow silent although something was outstanding (`stale_count`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    /// How often in a row, the first look included.
    pub count: u8,
    /// When it had last heard anything at the first look (`stale_rcv_tstamp`).
    pub heard_at: Instant,
}

/// How much a path's queue holds.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendMemory {
    /// The largest window that the path has had.
    pub widest: Bytes,
    /// The most that the queue holds, sent and unsent.
    pub most: Bytes,
}

/// Window use (RFC 7661), in bytes of the window: TCP counts packets, each as a full one, and QUIC bytes (RFC 9002 §7.8).
#[derive(Clone, Debug)]
struct WindowUsage {
    /// What was in flight at most since the round began.
    max_out: u64,
    /// The packet with which the round began.
    round: u64,
    /// Whether the window was full in the round.
    limited: bool,
    /// What was used of it lately, and since when.
    used: u64,
    stamp: Instant,
}

impl PathSender {
    /// A path that has just come up, of a connection whose application writes messages, or does not.
    pub fn new(
        id: PathId,
        data_link: usize,
        cc: Box<dyn Controller>,
        transport: &TransportConfig,
        writes_messages: bool,
        now: Instant,
    ) -> Self {
        Self {
            id,
            epoch: 0,
            data_link,
            paced_by: PacedBy::new(cc.pacing_rate().is_some(), transport.pace_window),
            cc,
            flight: Flight::default(),
            sacked: RangeSet::default(),
            queue: Ring::default(),
            rate: RateSampler::default(),
            pacer: Pacer::default(),
            timer: Timer::Idle,
            timer_at: Instant::NEVER,
            timer_set: Instant::NEVER,
            last_sent: now,
            last_progress: now,
            heard_at: now,
            echo: 0,
            silence: Silence::default(),
            usage: WindowUsage { max_out: 0, round: 0, limited: false, used: 0, stamp: now },
            tcp: Tcp::default(),
            quic: Quic::default(),
            memory: SendMemory::default(),
            send_window: Bytes::ZERO,
            buffer: (Instant::ZERO, 0),
            small: 0,
            open: (Instant::NEVER, Offset::ZERO, 0),
            coalescing: (writes_messages && transport.holds_small()).then_some(0),
        }
    }

    /// An acknowledgement came on the path with this `view`; its `clock` is echoed from now on.
    #[inline]
    pub fn heard(&mut self, now: Instant, view: &mut Path, clock: u32) {
        self.heard_at = now;
        self.echo = clock;
        if view.health == Health::Stale {
            view.health = Health::Good;
        }
    }

    /// Whether the path has got through what it was given up to the packet at `offset`: TCP subflows send in order.
    pub fn has_settled(&self, offset: Offset) -> bool {
        self.flight.front().is_none_or(|packet| packet.offset > offset)
            && self.queue.front().is_none_or(|assigned| assigned.offset > offset)
    }

    /// What a packet of `bytes` takes of the window: Linux counts packets, QUIC bytes.
    #[inline]
    pub fn charge(transport: &TransportConfig, bytes: u32) -> Bytes {
        match transport.rules.recovery {
            LossRecovery::Tcp => transport.mss,
            LossRecovery::Quic => Bytes::new(u64::from(bytes)),
        }
    }

    /// Repairs losses and empties the queue, as far as the window allows; whether Linux would keep back what waits.
    pub fn repair(&mut self, ctx: &mut SendContext<'_>, repair: Repair) -> bool {
        match repair {
            Repair::Nothing => {}
            Repair::NewData => {
                self.flush(ctx);
                if !self.give_up_frto() {
                    self.retransmit_lost(ctx);
                }
            }
            Repair::Lost => self.retransmit_lost(ctx),
        }
        let holds_back = self.gathers(ctx.now, ctx.view, ctx.transport);
        if !self.queue.is_empty() {
            self.flush(ctx);
        }
        holds_back
    }

    /// Whether something waits that window and pacer let go.
    #[inline(always)]
    pub fn may_flush(&self, now: Instant, view: &Path, transport: &TransportConfig) -> bool {
        !self.queue.is_empty() && self.pacer.lets_go(now) && Self::has_room(view) && !self.holds_head(transport)
    }

    /// Whether a packet of `bytes` waits as the last one (Nagle's rule, RFC 896, as Minshall has it: `tcp_nagle_check`): it
    /// is not full, and an earlier one that was not full is unacknowledged. MPTCP's last packet of a fragment is not full either.
    #[inline(always)]
    pub fn holds(&self, bytes: u32, transport: &TransportConfig) -> bool {
        u64::from(bytes) < transport.mss.get() && self.small > self.flight.base() && transport.holds_small()
    }

    #[inline]
    fn holds_head(&self, transport: &TransportConfig) -> bool {
        transport.holds_small() && self.small > self.flight.base() && self.waits_for_more(transport.mss.get())
    }

    /// Whether what waits fills no packet. Here messages stay packets of their own: so many go at once as Linux has in a full one.
    #[inline(never)]
    fn waits_for_more(&self, mss: u64) -> bool {
        let Some(head) = self.queue.front() else { return false };
        match self.coalescing {
            Some(room) => u64::from(head.bytes) > room && !self.fills(0, mss),
            None => self.queue.len() == 1 && u64::from(head.bytes) < mss,
        }
    }

    /// Whether so many bytes and what waits fill a packet.
    fn fills(&self, mut bytes: u64, mss: u64) -> bool {
        self.queue.iter().any(|packet| {
            bytes += u64::from(packet.bytes);
            bytes >= mss
        })
    }

    /// A packet that is not full has been sent. One that others followed at once was part of a larger one.
    #[inline(never)]
    fn note_small(&mut self, index: u64, bytes: u64, mss: u64) {
        match self.coalescing {
            None => {
                let Some(packet) = self.flight.get_mut(index) else { return };
                let (now, end) = (packet.sent_at, packet.offset + Bytes::new(bytes));
                if self.queue.front().is_none_or(|next| next.offset != end) {
                    self.open = (now, end, core::mem::replace(&mut self.small, index + 1));
                }
            }
            Some(room) if bytes <= room => self.coalescing = Some(room - bytes),
            Some(_) if self.fills(bytes, mss) => self.coalescing = Some(mss - bytes),
            Some(_) if !self.queue.is_empty() => {}
            _ => self.small = index + 1,
        }
    }

    /// Linux v1: data at `offset` follow in the push that sent the last packet. If that one was not full, they are in one
    /// buffer with it, and its end is no small packet (`mptcp_skb_can_collapse_to`).
    #[inline(never)]
    pub fn join_last(&mut self, now: Instant, offset: Offset) {
        let (at, end, before) = self.open;
        if at == now && end == offset && self.small == self.flight.next() {
            self.small = before;
        }
    }

    /// Sends what waits, as far as window and pacer allow.
    #[inline(never)]
    pub fn flush(&mut self, ctx: &mut SendContext<'_>) {
        while self.may_flush(ctx.now, ctx.view, ctx.transport) {
            let Some(assigned) = self.next_queued(ctx) else { break };
            self.send_inline(ctx, assigned);
        }
        if let Some(room) = &mut self.coalescing {
            *room = 0;
        }
    }

    /// Takes from the queue the first packet whose data were not acknowledged while it waited. A subflow of Linux sends
    /// what it was given, acknowledged or not: it is part of its byte stream.
    #[inline(always)]
    pub fn next_queued(&mut self, ctx: &mut SendContext<'_>) -> Option<Assigned> {
        loop {
            let assigned = self.take_queued(ctx)?;
            let sends_all = ctx.transport.rules.pushes_fragments;
            if sends_all || ctx.outbox.get(assigned.chunk).is_some_and(|chunk| !chunk.acked) {
                return Some(assigned);
            }
            self.pass_over(ctx, &assigned);
        }
    }

    /// A packet of the queue is not sent: its data have arrived.
    #[cold]
    fn pass_over(&self, ctx: &mut SendContext<'_>, assigned: &Assigned) {
        ctx.events.push(Event::Recalled(assigned.receipt(self.id)));
    }

    /// Puts a packet into the queue.
    #[inline]
    pub fn enqueue(&mut self, ctx: &mut SendContext<'_>, mut assigned: Assigned) {
        assigned.join_queue(ctx.view, Self::charge(ctx.transport, assigned.bytes));
        self.queue.push(assigned);
    }

    /// Takes the first packet out of the queue.
    #[inline(always)]
    pub fn take_queued(&mut self, ctx: &mut SendContext<'_>) -> Option<Assigned> {
        let assigned = *self.queue.pop()?;
        ctx.view.queued -= Self::charge(ctx.transport, assigned.bytes);
        Some(assigned)
    }

    /// Whether Linux keeps a single packet back for now (`tcp_tso_should_defer`): with more data
    /// behind it and an acknowledgement due soon, it waits for a third of the window, so as to send
    /// larger bursts. It does so only just after it has sent, and not during recovery.
    #[inline]
    fn defers(&self, now: Instant, view: &Path, taken: Bytes, more: bool, transport: &TransportConfig) -> bool {
        more && transport.rules.fills_bursts
            && taken.plus(view.mss).plus(view.mss) > view.cwnd
            && view.cwnd.get() > DEFER_DIVISOR * view.mss.get()
            && view.recovery < weftway_path::Recovery::Recovery
            && now.since(self.last_sent) < DEFER_AFTER
            && self.flight.front().is_some_and(|head| now.since(head.sent_at) * 2 >= view.srtt)
    }

    /// Whether Linux would keep back what waits, so as to send a third of the window at once: it leaves the window open
    /// then (`tcp_tso_should_defer`). Room for the largest burst of the pace is used at once. What waits here is sent all the
    /// same.
    #[inline]
    pub fn gathers(&self, now: Instant, view: &Path, transport: &TransportConfig) -> bool {
        let free = view.cwnd.saturating_sub(view.bytes_in_flight).get();
        transport.rules.fills_bursts
            && !self.queue.is_empty()
            && free * DEFER_DIVISOR < view.cwnd.get()
            && view.recovery < weftway_path::Recovery::Recovery
            && now.since(self.last_sent) < DEFER_AFTER
            && Self::is_less_than_a_buffer(view, free)
    }

    // In line it costs the paths that never ask.
    #[inline(never)]
    fn is_less_than_a_buffer(view: &Path, free: u64) -> bool {
        free < Self::largest_buffer(view).get()
    }

    /// The most that Linux puts into one buffer: what the pace brings in about a millisecond, two packets at least
    /// (`tcp_tso_autosize`).
    #[inline]
    fn largest_buffer(view: &Path) -> Bytes {
        weftway_cc::lengthened_quantum(view.pacing_rate, view.mss, 2, view.min_rtt)
    }

    /// Whether the window has room for a packet.
    #[inline]
    pub fn has_room(view: &Path) -> bool {
        view.bytes_in_flight.plus(view.mss) <= view.cwnd
    }

    /// Sends a new packet.
    #[inline(never)]
    pub fn send(&mut self, ctx: &mut SendContext<'_>, assigned: Assigned) {
        self.send_inline(ctx, assigned);
    }

    /// The same, for the caller that does it for each packet.
    #[inline(always)]
    pub fn send_inline(&mut self, ctx: &mut SendContext<'_>, assigned: Assigned) {
        let Assigned { offset, bytes, .. } = assigned;
        let now = ctx.now;
        let empty = self.flight.is_empty();
        let idle = empty || ctx.view.bytes_in_flight == Bytes::ZERO;
        // Linux asks whether anything is unacknowledged, since what it takes for lost may not be (`tcp_rate_skb_sent`).
        let tcp = ctx.transport.rules.recovery == LossRecovery::Tcp;
        let starts = if tcp { empty } else { idle };
        if empty && self.after_idle(now, ctx.transport) {
            self.publish(ctx);
        }
        if idle {
            // Silence counts from when something is outstanding.
            self.last_progress = now;
        }
        let mut packet = SentPacket::new(now, offset, bytes);
        (packet.serial, packet.chunk) = (assigned.serial, assigned.chunk);
        self.rate.on_sent(now, starts, &mut packet);
        if ctx.transport.rules.fills_bursts {
            packet.heads_buffer = self.starts_buffer(now, ctx.view);
        }
        let index = self.flight.next();
        self.flight.push(packet);
        if u64::from(bytes) < ctx.transport.mss.get() {
            self.note_small(index, bytes.into(), ctx.transport.mss.get());
        }
        let payload = Bytes::new(u64::from(bytes));
        ctx.view.bytes_in_flight = ctx.view.bytes_in_flight.plus(Self::charge(ctx.transport, bytes));
        ctx.view.sent.add(payload);
        ctx.view.next = ctx.view.next.max(offset.plus(payload));
        self.last_sent = now;
        self.put_on_wire(ctx, index, offset, bytes);
        let sent = Sent {
            now,
            bytes: payload,
            bytes_in_flight: ctx.view.bytes_in_flight,
            after_idle: idle,
            app_limited: self.rate.is_app_limited(),
        };
        self.cc.on_sent(&sent);
        ctx.count_sent(assigned.kind);
        if tcp {
            self.tcp_sent(now, ctx.view, empty);
        } else {
            self.quic_sent(now, ctx.view);
        }
    }

    /// Whether a packet begins a new buffer: packets that go at once share one.
    #[inline]
    fn starts_buffer(&mut self, now: Instant, view: &Path) -> bool {
        let (at, left) = &mut self.buffer;
        if *at == now && *left > 0 {
            *left -= 1;
            return false;
        }
        self.buffer = (now, (Self::largest_buffer(view).get() / view.mss.get()).max(1) - 1);
        true
    }

    /// Puts packet `index` on its link, for the first time or again.
    #[inline(always)]
    pub fn put_on_wire(&mut self, ctx: &mut SendContext<'_>, index: u64, offset: weftway_path::Offset, bytes: u32) {
        let payload = Bytes::new(u64::from(bytes));
        let wire = ctx.transport.data_packet(payload);
        if self.paced_by != PacedBy::Nothing {
            self.pace(ctx.now, ctx.view, ctx.transport, payload);
        }
        let (now, conn, path, epoch, settled) = (ctx.now, ctx.conn, self.id, self.epoch, self.flight.base());
        let echo = self.echo;
        let verdict = ctx.net.send_inline(now, self.data_link, wire, || {
            let load = Load::Data(Data { index, settled, offset, bytes, echo, sent_at: now });
            Datagram { conn, path, epoch, marked: false, load }
        });
        ctx.tally().on_wire(wire, verdict);
        ctx.listeners.note(ctx.now, ctx.conn, || Note::Sent { path: self.id, index, offset, bytes, verdict });
    }

    /// A packet with so much payload leaves: when the next one may.
    #[inline(always)]
    fn pace(&mut self, now: Instant, view: &Path, transport: &TransportConfig, payload: Bytes) {
        let bytes = transport.paced(payload);
        if self.paced_by == PacedBy::Controller {
            if let Some((rate, quantum)) = self.cc.pacing() {
                if transport.rules.recovery == LossRecovery::Tcp {
                    self.pace_burst(now, view, transport, bytes, (rate, quantum));
                } else {
                    self.pacer.on_sent(now, bytes, Pace::even(rate, quantum, view.mss));
                }
            }
        } else if self.pacer.is_set_for(bytes, view.pacing_rate) {
            self.pacer.on_sent_alike(now);
        } else {
            self.pace_anew(now, view, transport, bytes);
        }
    }

    /// The same, as Linux does it where a controller names a rate. The first packets leave at once.
    #[inline]
    fn pace_burst(
        &mut self,
        now: Instant,
        view: &Path,
        transport: &TransportConfig,
        bytes: Bytes,
        (rate, quantum): (BitRate, Bytes),
    ) {
        if self.flight.next() < UNPACED_PACKETS {
            return self.pacer.on_sent_unpaced(now);
        }
        let longer = if transport.rules.lengthens_bursts {
            weftway_cc::lengthened_quantum(rate, view.mss, 1, view.min_rtt)
        } else {
            Bytes::ZERO
        };
        self.pacer.on_sent_in_burst(now, bytes, rate, quantum.max(longer));
    }

    /// The same, where the window paces and says another rate than before.
    #[inline(never)]
    fn pace_anew(&mut self, now: Instant, view: &Path, transport: &TransportConfig, bytes: Bytes) {
        let quantum = |rate| weftway_cc::send_quantum(rate, view.mss, 2);
        if let Some(pace) = PacedBy::window_pace(view, quantum, transport.initial_cwnd()) {
            self.pacer.on_sent(now, bytes, pace);
        }
    }

    /// After a pause the window is restarted (RFC 9293 via RFC 5681 §4.1; Linux
    /// `tcp_slow_start_after_idle_check`): halved for each timeout that passed. Whether it was.
    #[cold]
    fn after_idle(&mut self, now: Instant, transport: &TransportConfig) -> bool {
        if transport.rules.recovery == LossRecovery::Quic || self.cc.owns_recovery() {
            return false;
        }
        let rto = self.tcp.rto();
        let mut idle = now.since(self.last_sent);
        if idle <= rto || self.flight.next() == 0 {
            return false;
        }
        let restart = transport.initial_cwnd().min(self.cc.cwnd());
        let mut cwnd = self.cc.cwnd();
        while idle > rto && cwnd > restart {
            cwnd = cwnd.mul_div(1, 2);
            idle -= rto;
        }
        self.cc.set_cwnd(cwnd.max(restart));
        self.usage.stamp = now;
        self.usage.used = 0;
        true
    }

    /// Copies what the controller says into the path's view and its published share.
    #[inline(always)]
    pub fn publish(&mut self, ctx: &mut SendContext<'_>) {
        self.publish_to(ctx.view, if ctx.cc.coupled { Some(&mut *ctx.shares) } else { None });
    }

    /// The same; the shares only where controllers read them.
    #[inline(always)]
    fn publish_to(&mut self, view: &mut Path, shares: Option<&mut [Share]>) {
        view.cwnd = self.cc.cwnd();
        view.ssthresh = self.cc.ssthresh();
        let named = if self.paced_by == PacedBy::Controller { self.cc.pacing_rate() } else { None };
        view.pacing_rate = named.unwrap_or_else(|| self.paced_by.rate(view));
        if let Some(shares) = shares {
            let (srtt, bottleneck) = (view.srtt, view.bottleneck);
            shares[self.id.index()] = Share { srtt, bottleneck, usable: true, ..self.cc.share() };
        }
    }

    /// Brings up to date whether the path can take a packet now, and why not.
    #[inline(always)]
    pub fn look_at_room(&self, ctx: &mut SendContext<'_>) {
        let more = ctx.flow.unsent > ctx.view.mss;
        ctx.view.blocked = if ctx.offered.contains(self.id) {
            self.blocked_reason(ctx.now, ctx.view, more, ctx.transport)
        } else {
            BlockedReason::Transport
        };
        ctx.view.release = if self.pacer.lets_go(ctx.now) { ctx.now } else { self.pacer.release() };
        ctx.question.note(self.id, ctx.view.blocked);
    }

    /// Why the path cannot take a packet now.
    #[inline(always)]
    fn blocked_reason(&self, now: Instant, view: &Path, more: bool, transport: &TransportConfig) -> BlockedReason {
        if transport.rules.spares_failing
            && (view.recovery == weftway_path::Recovery::Loss || view.health != weftway_path::Health::Good)
        {
            return BlockedReason::Transport;
        }
        let taken = view.bytes_in_flight.plus(view.queued);
        if taken.plus(view.mss) > view.cwnd || self.defers(now, view, taken, more, transport) {
            return BlockedReason::Congestion;
        }
        // MPTCP's pacer delays what waits in the subflow; QUIC's blocks the path.
        if transport.rules.pacer_blocks && self.pacer.release() > now {
            return self.blocked_by_pacer(view, transport);
        }
        BlockedReason::None
    }

    /// The same, of a path with room whose pacer has not let go.
    #[inline(never)]
    fn blocked_by_pacer(&self, view: &Path, transport: &TransportConfig) -> BlockedReason {
        let blocks = self.paced_by.blocks(view, transport.initial_cwnd());
        if blocks { BlockedReason::Pacing } else { BlockedReason::None }
    }

    /// The sender stops sending, for now.
    #[inline(always)]
    pub fn end_turn(&mut self, ctx: &mut SendContext<'_>) {
        self.end_burst(ctx.now, ctx.view, ctx.transport);
        if self.validate_window(ctx.now, ctx.view, ctx.transport) {
            let shares = if ctx.cc.coupled { Some(&mut **ctx.shares) } else { None };
            self.restart_unused(ctx.now, ctx.view, shares, ctx.transport);
        }
        let has_room = ctx.view.is_open() && self.queue.is_empty();
        if has_room && ctx.transport.app_limited.is_limited(ctx.flow.unsent, ctx.view.mss) {
            self.rate.on_app_limited(ctx.view.bytes_in_flight);
        }
    }

    /// Notes how well the window was used. Whether it was not used for so long that it must shrink
    /// ([`PathSender::restart_unused`]).
    #[inline]
    fn validate_window(&mut self, now: Instant, view: &Path, transport: &TransportConfig) -> bool {
        let out = match transport.rules.recovery {
            LossRecovery::Tcp => (self.flight.next() - self.flight.base()) * transport.mss.get(),
            LossRecovery::Quic => self.paced_by.used(view).get(),
        };
        let limited = view.blocked == BlockedReason::Congestion || view.bytes_in_flight.plus(transport.mss) > view.cwnd;
        // QUIC keeps lost packets for a while, in case they turn up. They are settled all the same (RFC 9002 §A.7).
        let round_over = || {
            let settled = match transport.rules.recovery {
                LossRecovery::Tcp => self.flight.base(),
                LossRecovery::Quic => self.quic.settled_below().max(self.flight.base()),
            };
            settled >= self.usage.round
        };
        if limited || (!self.usage.limited && out > self.usage.max_out) || round_over() {
            self.usage.limited = limited;
            self.usage.max_out = out;
            self.usage.round = self.flight.next();
        }
        if self.window_limited(view) {
            self.usage.used = 0;
            self.usage.stamp = now;
            return false;
        }
        self.usage.used = self.usage.used.max(out);
        transport.rules.recovery == LossRecovery::Tcp
            && view.recovery == weftway_path::Recovery::Open
            && now.since(self.usage.stamp) >= self.tcp.rto()
            && !self.cc.owns_recovery()
    }

    /// A window that was not filled for a whole timeout shrinks towards what was used
    /// (`tcp_cwnd_application_limited`, RFC 7661's aim).
    #[cold]
    fn restart_unused(
        &mut self,
        now: Instant,
        view: &mut Path,
        shares: Option<&mut [Share]>,
        transport: &TransportConfig,
    ) {
        let used = Bytes::new(self.usage.used).max(transport.initial_cwnd());
        let cwnd = self.cc.cwnd();
        if used < cwnd {
            self.cc.set_cwnd((cwnd + used).mul_div(1, 2));
            self.publish_to(view, shares);
        }
        self.usage.used = 0;
        self.usage.stamp = now;
    }

    /// Whether the window is what limits the path (`tcp_is_cwnd_limited`).
    #[inline]
    pub fn window_limited(&self, view: &Path) -> bool {
        if view.cwnd < view.ssthresh {
            // In slow start a window may grow to twice what was in use.
            return self.usage.limited || view.cwnd.get() < 2 * self.usage.max_out;
        }
        self.usage.limited
    }

    /// Hands an acknowledgement's outcome to the controller.
    #[inline(always)]
    pub fn control(&mut self, now: Instant, view: &mut Path, shares: &[Share], outcome: &Outcome) {
        let (rate, interval) = self.rate.finish(now, view.min_rtt, &outcome.sample);
        if let Some(rate) = rate {
            view.delivery_rate = rate;
        }
        let acked = Acked {
            now,
            bytes: outcome.bytes,
            lost: outcome.lost,
            prior_in_flight: outcome.prior_in_flight,
            bytes_in_flight: view.bytes_in_flight,
            rtt: outcome.rtt,
            srtt: view.srtt,
            min_rtt: view.min_rtt,
            newest_sent: outcome.sample.newest_sent.unwrap_or(Instant::ZERO),
            delivered: self.rate.delivered(),
            prior_delivered: outcome.sample.prior_delivered,
            rate,
            interval,
            app_limited: outcome.sample.app_limited,
            cwnd_limited: self.window_limited(view),
            recovery: view.recovery,
            reducing: outcome.reducing,
        };
        self.cc.on_acked(&acked, shares);
    }

    /// Tells the controller that a congestion episode starts.
    pub fn congestion(&mut self, ctx: &mut SendContext<'_>, signal: Signal, prior: Bytes, lost: (Bytes, Instant)) {
        let congestion = Self::congested(ctx, signal, prior, lost);
        self.cc.on_congestion(&congestion, ctx.shares);
        ctx.events.push(Event::Congestion(self.id));
        ctx.listeners.note(ctx.now, ctx.conn, || Note::Congestion { path: self.id, signal });
    }

    /// The start of a congestion episode, as the controller is told.
    fn congested(ctx: &SendContext<'_>, signal: Signal, prior: Bytes, lost: (Bytes, Instant)) -> Congestion {
        Congestion {
            now: ctx.now,
            signal,
            bytes_in_flight: prior,
            lost: lost.0,
            lost_sent: lost.1,
            srtt: ctx.view.srtt,
        }
    }

    /// Sets the timer.
    #[inline]
    pub fn arm(&mut self, now: Instant, timer: Timer, at: Instant) {
        (self.timer, self.timer_at, self.timer_set) = (timer, at, now);
    }

    /// Stops the timer.
    #[inline]
    pub fn disarm(&mut self) {
        (self.timer, self.timer_at) = (Timer::Idle, Instant::NEVER);
    }

    /// Whether the timer fires now. One that is due waits for its tick.
    pub fn fires(&mut self, now: Instant, ticks: &Ticks) -> bool {
        if self.timer_at <= now && !self.timer_set.is_never() {
            self.timer_at = ticks.expires(self.timer_set, self.timer_at);
            self.timer_set = Instant::NEVER;
        }
        self.timer_at <= now
    }

    /// Whether something that the path was given is to be sent, for the first time or again.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.queue.is_empty() || self.has_lost()
    }
}

/// What one acknowledgement amounted to.
#[derive(Clone, Copy, Debug, Default)]
pub struct Outcome {
    /// Payload newly acknowledged.
    pub bytes: Bytes,
    /// Payload newly declared lost.
    pub lost: Bytes,
    /// In flight before.
    pub prior_in_flight: Bytes,
    /// The round-trip sample for controllers.
    pub rtt: Option<Span>,
    /// The rate sample.
    pub sample: Sample,
    /// The engine sets the window itself.
    pub reducing: bool,
}
