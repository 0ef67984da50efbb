//! A path at the sender: what it sent, its controller, its pacer and its timers. What differs between TCP and QUIC is
//! in `tcp` and `quic`.

mod bursts;
mod quic;
mod tcp;
mod usage;

use weftway_cc::{Acked, Congestion, Controller, Sent, Share, Signal};
use weftway_host::Events;
use weftway_host::sending::{
    Assigned, Flight, Outbox, Pace, PacedBy, Pacer, Policy, Question, RangeSet, RateSampler, Sample, SentPacket,
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
use bursts::Bursts;
use quic::Quic;
use tcp::Tcp;
use usage::WindowUsage;

pub use tcp::Repair;

/// A controller that names a rate paces a connection from its tenth packet on (`tcp_update_skb_after_send`).
const UNPACED_PACKETS: u64 = 10;

/// Way in which controllers are made.
#[derive(Clone)]
pub struct ControllerSpec {
    /// Name and switches.
    pub spec: String,
    /// True if controllers read each other's shares.
    pub coupled: bool,
    /// The seed of their draws.
    pub seed: u64,
}

/// Parts of its connection and of the network that a path uses while something happens to it. Thin references only: it
/// is built for each packet, and what is behind them is read where it is needed.
pub struct SendContext<'a> {
    /// The time.
    pub now: Instant,
    /// The links.
    pub net: &'a mut Net,
    /// The connection's number.
    pub conn: u8,
    /// The path as schedulers see it.
    pub view: &'a mut Path,
    /// Events that schedulers will be told.
    pub events: &'a mut Events,
    /// The data.
    pub outbox: &'a mut Outbox,
    /// The data, as schedulers see them.
    pub flow: &'a Flow,
    /// Tiers and caps of the paths, if they have any.
    pub policy: &'a mut Option<Box<Policy>>,
    /// Which paths may send.
    pub question: &'a mut Question,
    /// Which paths the scheduler is offered.
    pub offered: &'a PathSet,
    /// Shares that all controllers publish.
    pub shares: &'a mut Vec<Share>,
    /// The transport's settings.
    pub transport: &'a TransportConfig,
    /// The counters of all paths.
    pub tallies: &'a mut Vec<PathTally>,
    /// Listeners to the run.
    pub listeners: &'a mut Listeners,
    /// Way in which controllers are made.
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

/// Meaning of the path's single timer, as in Linux (`icsk_pending`).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Timer {
    /// The timer does not run.
    #[default]
    Idle,
    /// Retransmission timeout, or QUIC's probe timeout.
    Timeout,
    /// Tail-loss probe (RFC 8985 §7).
    TailProbe,
    /// Packets become lost by time: RACK's reordering window, QUIC's loss time.
    Reorder,
}

/// A path at the sender.
#[derive(Clone)]
pub struct PathSender {
    /// Its number.
    pub id: PathId,
    /// Number of times that it has come up.
    pub epoch: u8,
    /// The link its data take.
    pub data_link: usize,
    /// Its controller.
    pub cc: Box<dyn Controller>,
    /// True if somebody else sets its window ([`crate::Sim::hold_window`]).
    is_held: bool,
    /// Source of the pace.
    paced_by: PacedBy,
    /// Packets that it sent.
    pub flight: Flight,
    /// Packets of these that arrived above the oldest.
    pub sacked: RangeSet,
    /// Packets that it was given and has not sent.
    pub queue: Ring<Assigned>,
    /// Delivery rate.
    pub rate: RateSampler,
    /// Pacing.
    pub pacer: Pacer,
    /// Meaning of the timer.
    pub timer: Timer,
    /// Time at which it fires.
    pub timer_at: Instant,
    /// Time at which it was set; never, if `timer_at` lies on a tick.
    timer_set: Instant,
    /// Time at which it last sent data.
    pub last_sent: Instant,
    /// Time at which it last heard of progress.
    pub last_progress: Instant,
    /// Time at which it last heard anything (`rcv_tstamp`).
    pub heard_at: Instant,
    /// TCP: the timestamp of the newest acknowledgement ([`crate::wire::Ack::clock`]).
    echo: u32,
    /// Linux v1: for how long it has heard nothing.
    pub silence: Silence,
    /// Use of the window.
    usage: WindowUsage,
    /// TCP's recovery.
    pub tcp: Tcp,
    /// QUIC's recovery.
    pub quic: Quic,
    /// Bounds on its queue.
    pub memory: SendMemory,
    /// Linux v1: the window that the peer last announced on it, as TCP takes it.
    pub send_window: Bytes,
    /// Packets that share a buffer or wait for more data.
    bursts: Bursts,
}

/// Number of times that the meta timer has found a subflow silent although something was outstanding (`stale_count`).
#[derive(Clone, Copy, Debug, Default)]
pub struct Silence {
    /// Number of times in a row, the first look included.
    pub count: u8,
    /// Time at which it had last heard anything at the first look (`stale_rcv_tstamp`).
    pub heard_at: Instant,
}

/// Bounds on a path's queue.
#[derive(Clone, Copy, Debug, Default)]
pub struct SendMemory {
    /// The largest window that the path has had.
    pub widest: Bytes,
    /// The most that the queue holds, sent and unsent.
    pub most: Bytes,
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
            is_held: false,
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
            usage: WindowUsage::new(now),
            tcp: Tcp::default(),
            quic: Quic::default(),
            memory: SendMemory::default(),
            send_window: Bytes::ZERO,
            bursts: Bursts::new(writes_messages && transport.holds_small()),
        }
    }

    /// Puts a new controller, of the same kind, in place of its own, unless its window is held.
    pub fn begin(&mut self, cc: Box<dyn Controller>) {
        if !self.is_held {
            self.cc = cc;
        }
    }

    /// Puts another controller, which does not pace, in place of its own.
    pub fn hold(&mut self, cc: Box<dyn Controller>, transport: &TransportConfig) {
        self.is_held = true;
        self.paced_by = PacedBy::new(false, transport.pace_window);
        self.cc = cc;
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

    /// Returns true if the path has got through what it was given up to the packet at `offset`: TCP subflows send in
    /// order.
    pub fn has_settled(&self, offset: Offset) -> bool {
        self.flight.front().is_none_or(|packet| packet.offset > offset)
            && self.queue.front().is_none_or(|assigned| assigned.offset > offset)
    }

    /// Part of the window that a packet of `bytes` takes: Linux counts packets, QUIC bytes.
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

    /// Returns true if something waits that window and pacer let go.
    #[inline(always)]
    pub fn may_flush(&self, now: Instant, view: &Path, transport: &TransportConfig) -> bool {
        !self.queue.is_empty() && self.pacer.lets_go(now) && Self::has_room(view) && !self.holds_head(transport)
    }

    /// Sends what waits, as far as window and pacer allow.
    #[inline(never)]
    pub fn flush(&mut self, ctx: &mut SendContext<'_>) {
        while self.may_flush(ctx.now, ctx.view, ctx.transport) {
            let Some(assigned) = self.next_queued(ctx) else { break };
            self.send_inline(ctx, assigned);
        }
        self.bursts.close_packet();
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

    /// A packet of the queue is not sent, and counts towards no cap: its data have arrived.
    #[cold]
    fn pass_over(&self, ctx: &mut SendContext<'_>, assigned: &Assigned) {
        if let Some(policy) = ctx.policy {
            policy.refund(self.id, Bytes::new(assigned.bytes.into()));
        }
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

    /// Returns true if the window has room for a packet.
    #[inline]
    pub fn has_room(view: &Path) -> bool {
        view.bytes_in_flight.plus(view.mss) <= view.cwnd
    }

    /// Sends a new packet.
    #[inline(never)]
    pub fn send(&mut self, ctx: &mut SendContext<'_>, assigned: Assigned) {
        self.send_inline(ctx, assigned);
    }

    /// Sends a new packet, for the caller that does it for each packet.
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

    /// Paces as Linux does it where a controller names a rate. The first packets leave at once.
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

    /// Paces where the window paces and says another rate than before.
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
        self.usage.restart(now);
        true
    }

    /// Copies what the controller says into the path's view and its published share.
    #[inline(always)]
    pub fn publish(&mut self, ctx: &mut SendContext<'_>) {
        self.publish_to(ctx.view, if ctx.cc.coupled { Some(&mut *ctx.shares) } else { None });
    }

    /// Copies what the controller says into `view`; the shares only where controllers read them.
    #[inline(always)]
    fn publish_to(&mut self, view: &mut Path, shares: Option<&mut [Share]>) {
        view.cwnd = self.cc.cwnd();
        view.ssthresh = self.cc.ssthresh();
        let named = if self.paced_by == PacedBy::Controller { self.cc.pacing_rate() } else { None };
        view.pacing_rate = named.unwrap_or_else(|| self.paced_by.rate(view));
        if let Some(shares) = shares {
            let (srtt, bottleneck) = (view.srtt, view.bottleneck);
            let share = self.cc.share();
            view.link_rate = share.link_rate;
            shares[self.id.index()] = Share { srtt, bottleneck, usable: true, ..share };
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

    /// Reason why a path with room may not send whose pacer has not let go.
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

    /// Returns true if the timer fires now. One that is due waits for its tick.
    pub fn fires(&mut self, now: Instant, ticks: &Ticks) -> bool {
        if self.timer_at <= now && !self.timer_set.is_never() {
            self.timer_at = ticks.expires(self.timer_set, self.timer_at);
            self.timer_set = Instant::NEVER;
        }
        self.timer_at <= now
    }

    /// Returns true if something that the path was given is to be sent, for the first time or again.
    #[inline]
    pub fn has_unsent(&self) -> bool {
        !self.queue.is_empty() || self.has_lost()
    }
}

/// Outcome of one acknowledgement.
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
