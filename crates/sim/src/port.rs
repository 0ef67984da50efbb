//! A connection within its network, at one time: what carries the packets of [`weftway_host::sending::Dispatch`] here.

use weftway_host::Decided;
use weftway_host::sending::{Assigned, Carrier, Data, Dispatch, prepare, write_up};
use weftway_net::AppData;
use weftway_path::{Bytes, Decision, Instant, PathId, PathSet, Starved};
use weftway_scenario::stack::MetaTimer;

use crate::connection::Connection;
use crate::listeners::Note;
use crate::net::Net;
use crate::sender::PathSender;

/// A connection within its network, at one time.
pub(crate) struct Port<'a> {
    pub(crate) conn: &'a mut Connection,
    pub(crate) net: &'a mut Net,
    pub(crate) now: Instant,
}

impl Port<'_> {
    /// Returns true if the scheduler must be asked now.
    #[inline(always)]
    pub fn prepare(&mut self) -> bool {
        self.conn.begin_question(self.net, self.now);
        prepare(self)
    }
}

impl Carrier for Port<'_> {
    type Data = AppData;

    #[inline(always)]
    fn dispatch(&self) -> &Dispatch {
        &self.conn.dispatch
    }

    #[inline(always)]
    fn dispatch_mut(&mut self) -> &mut Dispatch {
        &mut self.conn.dispatch
    }

    #[inline(always)]
    fn data(&mut self) -> &mut AppData {
        &mut self.conn.data
    }

    #[inline(always)]
    fn now(&self) -> Instant {
        self.now
    }

    #[inline(always)]
    fn buffered(&mut self) -> u64 {
        let Connection { data, dispatch, send, transport, .. } = &mut *self.conn;
        let written = data.written();
        send.writer.take(self.now, dispatch.outbox.una(), written, transport)
    }

    #[inline]
    fn write_more(&mut self) -> bool {
        if self.conn.data.has_records() {
            return write_up(self);
        }
        self.conn.send.writer.write_more(&mut self.conn.dispatch.flow)
    }

    #[inline]
    fn packet_bytes(&self, at: u64, bytes: u64) -> u64 {
        if !self.conn.transport.subflow_windows {
            return bytes;
        }
        let Connection { dispatch, send, .. } = &*self.conn;
        send.writer.packet_bytes(at, bytes, &dispatch.flow, &dispatch.views, &send.senders)
    }

    /// Linux v1 cuts a packet by what window and writer are now.
    #[inline]
    fn cuts_at_once(&self) -> bool {
        self.conn.transport.subflow_windows
    }

    /// A lost frame of QUIC is a frame again. MPTCP reinjects what a subflow still holds and repairs itself: on another
    /// (`path_mask` of multipath-tcp/mptcp).
    #[inline]
    fn avoided(&self, carried: PathSet) -> PathSet {
        if self.conn.transport.rules.repeats_anywhere { PathSet::EMPTY } else { carried }
    }

    fn begin(&mut self, id: PathId, window: Bytes) {
        self.conn.begin(self.net, self.now, id, window);
    }

    #[inline(always)]
    fn place(&mut self, id: PathId, assigned: Assigned) {
        let (conn, now) = (&mut *self.conn, self.now);
        let Assigned { offset, bytes, .. } = assigned;
        if conn.transport.rules.pushes_fragments {
            if conn.transport.subflow_windows && u64::from(bytes) < conn.transport.mss.get() {
                conn.send.writer.note_small(id, offset, bytes);
            }
            if conn.send.writer.pushed != Some((id, now)) {
                conn.look_at_pending_timers(now);
            } else if conn.transport.holds_small() {
                conn.send.senders[id.index()].join_last(now, offset);
            }
        }
        if conn.send.meta.at.is_never() && conn.transport.rules.meta_timer != MetaTimer::None {
            conn.arm_meta(self.net, now);
        }
        let (sender, mut ctx) = conn.send_context(self.net, now, id);
        if ctx.transport.subflow_windows {
            // `mptcp_check_allowed_size`: the subflow may use what the connection may.
            sender.send_window = sender.send_window.max(ctx.flow.edge.since(offset));
        }
        let goes = PathSender::has_room(ctx.view) && sender.pacer.lets_go(now);
        if goes && sender.queue.is_empty() && !sender.holds(bytes, ctx.transport) {
            sender.send_inline(&mut ctx, assigned);
        } else {
            sender.enqueue(&mut ctx, assigned);
        }
        sender.look_at_room(&mut ctx);
        if conn.transport.rules.pushes_fragments
            && let Some(before) = conn.send.writer.push(now, id, offset)
        {
            conn.refresh(self.net, now, before);
        }
        if conn.transport.holds_small() {
            conn.fill_packet(self.net, now, id);
        }
        if conn.dispatch.host.needs.queueing {
            conn.refresh_queue(now, id);
        }
    }

    #[inline]
    fn has_queue(&self, id: PathId) -> bool {
        !self.conn.send.senders[id.index()].queue.is_empty()
    }

    fn take_queued(&mut self, id: PathId) -> Option<Assigned> {
        let (sender, mut ctx) = self.conn.send_context(self.net, self.now, id);
        sender.take_queued(&mut ctx)
    }

    fn refresh(&mut self, id: PathId) {
        self.conn.refresh(self.net, self.now, id);
    }

    #[inline]
    fn blocked(&mut self, why: Starved) {
        let (conn, net) = (&mut *self.conn, &mut *self.net);
        if !conn.dispatch.probe_at.is_never() {
            net.calendar.lower(conn.source, conn.dispatch.probe_at);
        }
        if why == Starved::Window || conn.transport.rules.relieves_buffer {
            conn.free_head(net, self.now, why == Starved::Window);
        }
    }

    #[inline]
    fn wake_at(&mut self, at: Instant) {
        self.net.calendar.lower(self.conn.source, at);
    }

    fn asks_why(&mut self, decision: Decision) -> bool {
        self.conn.listeners.asks_why(self.now, self.conn.number, decision)
    }

    fn log(&mut self, decided: Decided) {
        self.conn.listeners.note(self.now, self.conn.number, || Note::Decided(decided));
    }
}
