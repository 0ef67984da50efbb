//! Arrivals of packets at a connection, and its timers.

use weftway_host::sending::may_offer;
use weftway_path::{Bytes, Instant, Offset, PathId, Span};
use weftway_scenario::config::{AckPath, Direction};
use weftway_scenario::stack::{LossRecovery, MetaTimer};

use crate::connection::Connection;
use crate::listeners::Note;
use crate::net::Net;
use crate::path_manager::Stage;
use crate::receiver::{Arrival, Receiver, Released};
use crate::sender::{Repair, Timer};
use crate::wire::{Ack, Data, Datagram, Load, stamp};

/// An acknowledgement without blocks.
const NO_SLOT: u32 = u32::MAX;

impl Connection {
    /// Data reach the receiver, `from` a path that had come up so many times when they left.
    #[inline(always)]
    pub(crate) fn on_data(&mut self, net: &mut Net, now: Instant, from: (PathId, u8), data: &Data, marked: bool) {
        if self.receive.receiver.picoquic.is_some() {
            return self.on_data_as_picoquic(net, now, from, data, marked);
        }
        self.take_data::<false>(net, now, from, data, marked);
    }

    /// Data reach a receiver that acknowledges as picoquic does.
    #[inline(never)]
    fn on_data_as_picoquic(&mut self, net: &mut Net, now: Instant, from: (PathId, u8), data: &Data, marked: bool) {
        self.take_data::<true>(net, now, from, data, marked);
    }

    /// Takes data, and acknowledges as picoquic does or not: the question costs most receivers nothing.
    #[inline(always)]
    fn take_data<const PICOQUIC: bool>(
        &mut self,
        net: &mut Net,
        now: Instant,
        from: (PathId, u8),
        data: &Data,
        marked: bool,
    ) {
        let (id, epoch) = from;
        let before = self.receive.receiver.data.next();
        let known = epoch == self.receive.receiver.paths[id.index()].epoch;
        if !known && self.is_unreadable() {
            return;
        }
        let current = known || self.meets(now, id, epoch);
        let Receiver { paths, data: reassembly, .. } = &mut self.receive.receiver;
        let at_once = current && paths[id.index()].arrive(now, data, marked, &self.transport);
        let arrival = if current && reassembly.drops() {
            self.take_in_order(now, id, data)
        } else {
            reassembly.arrive(now, data.offset, data.bytes)
        };
        self.count(id, data.bytes, arrival);
        let next = self.receive.receiver.data.next();
        self.listeners.note(now, self.number, || Note::Arrived {
            path: id,
            index: data.index,
            offset: data.offset,
            bytes: data.bytes,
            in_order_to: next,
            held: self.receive.receiver.data.held().get(),
        });
        if PICOQUIC && let Some(acks) = &mut self.receive.receiver.picoquic {
            acks.arrived(now, id, current.then_some(data.index));
        }
        let mut tell = at_once && !PICOQUIC;
        if next > before {
            tell |= self.receive.receiver.data.open(now, self.widest_rtt(id));
            if self.data.app.completes(next.get()) {
                tell |= self.complete(net, now, id, data.offset);
            }
        } else if self.data.has_records() {
            tell |= self.take_record(now, id, data.offset);
        }
        let reads = next > before && self.transport.rules.tells_of_reading;
        if reads {
            self.receive.receiver.data.set_unread(next.since(before));
        }
        if PICOQUIC {
            self.acknowledge_all(net, now, tell);
        } else if tell {
            self.send_ack_inline(net, now, id, None);
        } else {
            net.calendar.lower(self.source, self.receive.receiver.paths[id.index()].due);
        }
        if reads {
            self.read(net, now);
        }
        if !self.paths.joined() && self.transport.direction == Direction::Download {
            self.client_hears(net, now);
        }
    }

    /// Returns true if a server cannot read data yet: they overtook the client's last handshake message, or it was
    /// lost.
    #[cold]
    fn is_unreadable(&self) -> bool {
        self.transport.rules.pads_handshakes && self.transport.direction == Direction::Upload && !self.paths.answered
    }

    /// Linux v1: what becomes of a packet's data. Nearly always nothing is missing before it on its path.
    #[inline(never)]
    fn take_in_order(&mut self, now: Instant, id: PathId, data: &Data) -> Arrival {
        if self.receive.receiver.paths[id.index()].keeps_order(data.index) {
            let (arrival, released) = self.receive.receiver.take(now, id, data);
            self.count_released(id, released);
            return arrival;
        }
        self.receive.receiver.data.arrive(now, data.offset, data.bytes)
    }

    /// A record of streams or datagrams arrives on path `id`, perhaps not for the first time. The sending end keeps it
    /// no longer: what it would send again is known by its place. Whether the sender must be told of the limit at once,
    /// for what never comes uses up the window, too.
    #[inline(never)]
    fn take_record(&mut self, now: Instant, id: PathId, at: Offset) -> bool {
        let Some(record) = self.data.record(at) else { return false };
        self.data.arrive(now, at, &record);
        self.data.acked(at);
        let has_skipped = self.data.arrived().is_some_and(|to| self.receive.receiver.data.skip(now, to));
        if self.data.app.is_done(now, 0) {
            self.finish(now);
        }
        has_skipped && self.receive.receiver.data.open(now, self.widest_rtt(id))
    }

    /// A message has arrived whole, with data on path `id`; or of flows and datagrams, the record at `at`, which may
    /// hold the end of some. Whether the sender must be told of the limit at once.
    #[inline(never)]
    fn complete(&mut self, net: &mut Net, now: Instant, id: PathId, at: Offset) -> bool {
        if self.data.has_records() {
            return self.take_record(now, id, at);
        }
        let next = self.receive.receiver.data.next().get();
        self.data.app.arrived(now, next, self.configs[id.index()].acks.delay);
        net.calendar.lower(self.source, self.data.app.next_event());
        if self.data.app.is_done(now, next) {
            self.finish(now);
        }
        false
    }

    /// The client opens the other paths when it knows that the server has its keys: with the first packet from there
    /// that says so, an acknowledgement or data (RFC 8684 §3.1). With QUIC the handshake's fourth message is earlier,
    /// unless it is lost; what the server sends then brings the connection IDs that were in it.
    #[inline(never)]
    fn client_hears(&mut self, net: &mut Net, now: Instant) {
        self.open_others(net, now);
    }

    /// Linux v1: the application reads what is in order, after the acknowledgement that its arrival caused.
    #[inline(never)]
    fn read(&mut self, net: &mut Net, now: Instant) {
        self.receive.receiver.data.set_unread(Bytes::ZERO);
        let opened = self.receive.receiver.has_opened();
        for id in self.dispatch.views.set().iter() {
            if self.receive.receiver.tells_of_reading(id, opened) {
                self.send_ack(net, now, id);
            }
        }
    }

    /// The round trip over which the receiver measures what is read: of the path of the data, or where MPTCP of today
    /// has several, the longest of its own estimates (`mptcp_rcv_space_adjust`).
    #[inline]
    fn widest_rtt(&self, id: PathId) -> Span {
        if !self.transport.rules.grows_by_longest_rtt {
            return self.dispatch.views.get(id).srtt;
        }
        self.receive.receiver.paths.iter().map(|path| path.rtt.get()).fold(Span::ZERO, Span::max)
    }

    /// Counts what path `id` had put aside, and now has shown.
    #[inline]
    pub(crate) fn count_released(&mut self, id: PathId, released: Released) {
        self.tally.window_drops += released.dropped;
        self.tally.duplicates += released.duplicates;
        self.path_tallies[id.index()].delivered += released.fresh;
    }

    #[inline]
    fn count(&mut self, id: PathId, bytes: u32, arrival: Arrival) {
        self.tally.arrived += 1;
        let path = &mut self.path_tallies[id.index()];
        path.arrived += 1;
        match arrival {
            Arrival::Duplicate => self.tally.duplicates += 1,
            Arrival::Dropped => self.tally.window_drops += 1,
            Arrival::Aside => {
                self.tally.ooo_packets += 1;
                self.tally.ooo_bytes += u64::from(bytes);
            }
            Arrival::Held => {
                self.tally.ooo_packets += 1;
                self.tally.ooo_bytes += u64::from(bytes);
                path.delivered += u64::from(bytes);
            }
            Arrival::InOrder(_) => path.delivered += u64::from(bytes),
        }
    }

    /// Sends an acknowledgement for what arrived on path `id`.
    #[inline(never)]
    pub(crate) fn send_ack(&mut self, net: &mut Net, now: Instant, id: PathId) {
        self.send_ack_inline(net, now, id, None);
    }

    /// Sends an acknowledgement for data that ask for it; or on path and in a packet `by`, which others share.
    #[inline(always)]
    fn send_ack_inline(&mut self, net: &mut Net, now: Instant, id: PathId, by: Option<(PathId, Bytes)>) {
        let quic = self.transport.rules.recovery == LossRecovery::Quic;
        let edge = self.receive.receiver.announce(id);
        let inbound = &mut self.receive.receiver.paths[id.index()];
        let slot = if inbound.has_gaps() { self.receive.describe_gaps(id, quic) } else { NO_SLOT };
        let inbound = &mut self.receive.receiver.paths[id.index()];
        let highest = if slot == NO_SLOT { 0 } else { inbound.highest() };
        let report = inbound.report(now);
        inbound.capture.ack(now, report.cum);
        let (epoch, gaps) = (inbound.epoch, inbound.gaps);
        let (una, conn) = (self.receive.receiver.data.next(), self.number);
        // picoquic tells no delay, and the sender takes round trips from acknowledgements on any path.
        let picoquic = by.is_some() && self.transport.ack_path == AckPath::Picoquic;
        let own = picoquic || by.is_none_or(|(by, _)| by == id);
        let delay = if picoquic { Span::ZERO } else { report.delay };
        let (by, bytes) = by.unwrap_or_else(|| (self.return_path(id), self.transport.ack_packet));
        let link = self.routes[by.index()].acks;
        let verdict = net.send_inline(now, link, bytes, || {
            let load = Load::Ack(Ack {
                cum: report.cum,
                slot,
                highest,
                gaps,
                duplicate: report.duplicate,
                marked: report.marked,
                own,
                echo: report.echo,
                clock: if quic { u32::try_from(delay.as_nanos()).unwrap_or(u32::MAX) } else { stamp(now) },
                una,
                edge,
            });
            Datagram { conn, path: id, epoch, marked: false, load }
        });
        if slot != NO_SLOT && verdict != weftway_link::Verdict::Queued {
            self.receive.forget_gaps(slot);
        }
    }

    /// picoquic: acknowledges what has come on all paths, if that is due, or at once if the sender `must` be told of
    /// the limit.
    #[inline(never)]
    pub(crate) fn acknowledge_all(&mut self, net: &mut Net, now: Instant, mut must: bool) {
        while let Some(acks) = &mut self.receive.receiver.picoquic
            && let Some(by) = acks.next(now, self.dispatch.views.set(), must)
        {
            must = false;
            let mut bytes = self.transport.ack_packet;
            for id in self.dispatch.views.set().iter() {
                self.send_ack_inline(net, now, id, Some((by, bytes)));
                bytes = Bytes::ZERO;
            }
        }
        let due = self.receive.receiver.due().0;
        net.calendar.lower(self.source, due);
    }

    /// QUIC: a packet on path `by` asks for acknowledgements at once. Those of all paths that owe one return on it, in
    /// one packet.
    pub(crate) fn send_all_acks(&mut self, net: &mut Net, now: Instant, by: PathId) {
        let mut bytes = self.transport.ack_packet;
        for id in (0..self.configs.len()).map(|at| PathId::new(at as u8)) {
            if self.receive.receiver.paths[id.index()].owes() {
                self.send_ack_inline(net, now, id, Some((by, bytes)));
                bytes = Bytes::ZERO;
            }
        }
    }

    /// The sender asks what the window is.
    pub(crate) fn on_question(&mut self, net: &mut Net, now: Instant, id: PathId) {
        self.receive.receiver.data.asked();
        self.send_ack(net, now, id);
    }

    fn return_path(&self, id: PathId) -> PathId {
        match self.transport.ack_path {
            AckPath::Same | AckPath::Picoquic => id,
            AckPath::Fastest => {
                self.dispatch.views.usable().iter().min_by_key(|path| path.srtt).map_or(id, |path| path.id)
            }
        }
    }

    /// An acknowledgement reaches the sender, of a path that had come up so many times when it left.
    #[inline(always)]
    pub(crate) fn on_ack(&mut self, net: &mut Net, now: Instant, from: (PathId, u8), ack: &Ack) {
        if ack.slot == NO_SLOT {
            self.process_ack(net, now, from, ack, &[]);
        } else {
            self.on_ack_with_blocks(net, now, from, ack);
        }
    }

    #[inline(never)]
    fn on_ack_with_blocks(&mut self, net: &mut Net, now: Instant, from: (PathId, u8), ack: &Ack) {
        // Out of the way while the path looks at its blocks.
        let mut described = core::mem::take(&mut self.receive.described);
        let quic = self.transport.rules.recovery == LossRecovery::Quic;
        let blocks = described[ack.slot as usize].blocks(ack, quic);
        self.process_ack(net, now, from, ack, blocks);
        self.receive.described = described;
        self.receive.forget_gaps(ack.slot);
    }

    #[inline(always)]
    fn process_ack(&mut self, net: &mut Net, now: Instant, from: (PathId, u8), ack: &Ack, blocks: &[(u64, u64)]) {
        let (id, epoch) = from;
        if !self.paths.joined() && self.transport.direction == Direction::Upload {
            self.client_hears(net, now);
        }
        self.take_edge(from, ack);
        let quic = self.transport.rules.recovery == LossRecovery::Quic;
        let progress = !quic && ack.una > self.dispatch.outbox.una();
        if progress {
            self.dispatch.outbox.acknowledge_below(ack.una);
        }
        let pushes = self.transport.rules.meta_timer == MetaTimer::PendingTimers;
        let (sender, mut ctx) = self.send_context(net, now, id);
        // What left before a path went down belongs to the past.
        if epoch != sender.epoch {
            if progress {
                self.meta_progress(net, now);
            }
            return self.wake();
        }
        sender.heard(now, ctx.view, ack.clock);
        let repair = if !quic && blocks.is_empty() && sender.is_plain(ctx.view, ack) {
            sender.plain_acked(&mut ctx, ack.cum);
            Repair::Nothing
        } else {
            self.settle(net, now, id, ack, blocks)
        };
        if pushes {
            self.check_push(now);
        }
        if progress {
            self.meta_progress(net, now);
        }
        if self.send.groups.is_due(now) {
            self.send.groups.look(now, &mut self.dispatch.views);
        }
        self.listeners.note(now, self.number, || {
            let view = self.dispatch.views.get(id);
            Note::Acked {
                path: id,
                cum: ack.cum,
                una: ack.una,
                cwnd: view.cwnd.get(),
                in_flight: view.bytes_in_flight.get(),
                srtt_us: view.srtt.as_micros(),
            }
        });
        self.serve(net, now, id, repair);
        self.wake();
    }

    /// Settles what an acknowledgement that is not plain tells path `id`; what to send again.
    #[inline(always)]
    fn settle(&mut self, net: &mut Net, now: Instant, id: PathId, ack: &Ack, blocks: &[(u64, u64)]) -> Repair {
        let (sender, mut ctx) = self.send_context(net, now, id);
        let repair = if ctx.transport.rules.recovery == LossRecovery::Quic {
            sender.quic_acked(&mut ctx, ack, blocks);
            Repair::Nothing
        } else {
            sender.tcp_acked(&mut ctx, ack, blocks)
        };
        if sender.has_lost() && repair == Repair::Nothing { Repair::Lost } else { repair }
    }

    /// The right edge that an acknowledgement brings. Linux v1 adds DATA_ACK to the send window of the *subflow*, which
    /// keeps a larger window against a smaller one of a duplicate acknowledgement (`tcp_may_update_window`). So new
    /// data acknowledged may be added to an old window, and the edge lie beyond the receiver's. What the receiver has
    /// announced is kept beside it.
    #[inline]
    fn take_edge(&mut self, from: (PathId, u8), ack: &Ack) {
        let mut edge = ack.edge;
        let (id, epoch) = from;
        if self.transport.subflow_windows {
            self.dispatch.flow.announced = self.dispatch.flow.announced.max(edge);
        }
        if self.transport.subflow_windows && epoch == self.send.senders[id.index()].epoch {
            let sender = &mut self.send.senders[id.index()];
            let window = ack.edge.since(ack.una);
            if ack.cum > sender.flight.base() || window > sender.send_window {
                sender.send_window = window;
            }
            edge = ack.una + sender.send_window;
        }
        self.dispatch.flow.edge = self.dispatch.flow.edge.max(edge);
    }

    /// The timer of path `id`, or its pacer.
    pub(crate) fn on_path_timer(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let due = self.send.senders[id.index()].fires(now, &self.ticks);
        let mut repair = Repair::Nothing;
        if due && self.paths.stage(id) == Stage::Up {
            repair = self.fire(net, now, id);
        } else if self.send.senders[id.index()].has_lost() {
            repair = Repair::Lost;
        }
        self.serve(net, now, id, repair);
        self.wake();
        // The turn's end lowers it to what is next.
        let next_look = self.check_silence(net, now, id);
        net.calendar.set(self.source + 1 + id.index(), next_look);
    }

    fn fire(&mut self, net: &mut Net, now: Instant, id: PathId) -> Repair {
        let timeout = self.send.senders[id.index()].timer == Timer::Timeout;
        let (sender, mut ctx) = self.send_context(net, now, id);
        if ctx.transport.rules.recovery == LossRecovery::Quic {
            sender.quic_timer(&mut ctx);
            let probes = sender.quic.probes > 0;
            if probes && !self.paths.joined() {
                self.repeat_handshake(net, now, id);
            }
            if timeout {
                self.find_silent(net, now, id);
            }
            return Repair::Nothing;
        }
        let waiting = !sender.queue.is_empty();
        let repair = sender.tcp_timer(&mut ctx, waiting);
        if timeout && ctx.transport.rules.reinjects_at_timeout {
            self.reinject(id);
        }
        if repair == Repair::NewData {
            self.force_one(net, now, id);
            return Repair::Nothing;
        }
        repair
    }

    /// A tail-loss probe with new data passes the window.
    fn force_one(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let (sender, mut ctx) = self.send_context(net, now, id);
        if let Some(assigned) = sender.next_queued(&mut ctx) {
            sender.send(&mut ctx, assigned);
            sender.sent_probe();
        }
    }

    /// QUIC: path `id` is silent, or its probe timer fired. What it has may go on the others, if there are any.
    fn find_silent(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let senders = &self.send.senders;
        let (due, last_progress) = (senders[id.index()].due_at(), |other: PathId| senders[other.index()].last_progress);
        let offers = self.transport.reinject_at_pto && may_offer(&self.dispatch.views, id, due, last_progress);
        if offers {
            let (sender, mut ctx) = self.send_context(net, now, id);
            sender.offer_all(&mut ctx);
        }
        self.send_probes(net, now, id);
        if offers {
            self.send.senders[id.index()].note_offered();
        }
    }

    /// QUIC probes repeat the oldest data on the same path.
    fn send_probes(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let count = core::mem::take(&mut self.send.senders[id.index()].quic.probes);
        for _ in 0..count {
            // What is neither acknowledged nor lost.
            let Some(packet) = self.send.senders[id.index()].flight.oldest_unsettled(0).copied() else { return };
            if !self.dispatch.may_repeat(id) {
                return;
            }
            let assigned = self.dispatch.repeat(id, &packet);
            let (sender, mut ctx) = self.send_context(net, now, id);
            sender.send(&mut ctx, assigned);
        }
    }

    /// MPTCP v0.9x: after a timeout, everything in the subflow's queue is offered to the others as well, once: what is
    /// acknowledged selectively, too (`mptcp_reinject_data` does not look at that).
    fn reinject(&mut self, id: PathId) {
        if self.dispatch.views.usable().len() < 2 {
            return;
        }
        let only_here: Vec<u64> = self.send.senders[id.index()]
            .flight
            .iter()
            .map(|packet| packet.chunk)
            .filter(|&number| {
                self.dispatch.outbox.get(number).is_some_and(|chunk| chunk.carried.without(id).is_empty())
            })
            .collect();
        only_here.into_iter().for_each(|number| self.dispatch.outbox.hand_back(number));
    }

    /// The connection's own timer: whatever of it is due.
    pub(crate) fn on_own_timer(&mut self, net: &mut Net, now: Instant) {
        self.data.app.run(now);
        self.data.take_written(now);
        if self.data.app.cut_off() <= now {
            self.finish(now);
        }
        self.dispatch.host.woken(now);
        self.dispatch.fire_policy(now);
        let acks = loop {
            let (due, id) = self.receive.receiver.due();
            if due > now {
                break due;
            }
            let fires = self.ticks.at_or_after(due);
            if fires > now {
                self.receive.receiver.paths[id.index()].due = fires;
                continue;
            }
            if self.receive.receiver.picoquic.is_some() {
                self.acknowledge_all(net, now, false);
                continue;
            }
            self.send_ack(net, now, id);
        };
        if self.send.meta.at <= now {
            self.meta_timeout(net, now);
        }
        if self.paths.is_due(now) {
            self.look_at_stages(net, now);
        }
        if self.dispatch.probe_at <= now {
            self.probe_window(net, now);
        }
        self.wake();
        let next = self.own_next(acks).max(now + Span::from_nanos(1));
        net.calendar.set(self.source, next);
    }

    /// The window is shut, and the message that opened it may be lost: asks for another. TCP does so when nothing is in
    /// flight. What QUIC has in flight may be on a path that is dead, as the message was (RFC 9000 §4.1: DATA_BLOCKED).
    fn probe_window(&mut self, net: &mut Net, now: Instant) {
        // What is sent and not acknowledged by Linux v1 is repeated by its own timer; it asks when all is acknowledged
        // (`mptcp_sendmsg_frag`).
        let repeats = self.transport.subflow_windows && self.dispatch.outbox.has_sent();
        let asks = self.transport.rules.recovery == LossRecovery::Quic || !repeats && self.dispatch.is_quiet();
        if !asks {
            self.dispatch.probe_at = Instant::NEVER;
            return;
        }
        if !self.dispatch.probes_window(now) {
            return;
        }
        // On every path: any of them may be dead, and nothing in flight would tell.
        for id in self.dispatch.views.set().iter() {
            let epoch = self.send.senders[id.index()].epoch;
            let datagram = Datagram { conn: self.number, path: id, epoch, marked: false, load: Load::Ping };
            let _ = net.send(now, self.routes[id.index()].data, self.transport.ack_packet, datagram);
        }
    }
}
