//! Repairs that MPTCP makes as a connection: the meta timer, which runs while data are not acknowledged, and with Linux
//! v1 the subflows that bring nothing any more.
//!
//! Rule of Linux v1 (`net/mptcp/protocol.c`, `pm.c` of Linux 6.18): the timer runs as long as the longest rest of a
//! timer that was pending on a subflow at the last push, and begins anew with each DATA_ACK that acknowledges
//! something. When it fires, each subflow with something outstanding is looked at. One that has heard nothing since it
//! was looked at the last time counts up. With a count above [`STALE_LOSS_COUNT`], and while another subflow brings
//! something, it is *stale*: everything that is not acknowledged is sent again through the scheduler, which passes over
//! the subflow. The first acknowledgement on it ends that. Then a subflow with nothing outstanding repeats the oldest
//! fragment; a backup does so only if every subflow with something outstanding has counted twice.
//! State: [`crate::ends::MetaTimer`]; per subflow [`crate::sender::Silence`].

use weftway_host::sending::{Chunk, Dispatch, assign};
use weftway_path::{Bytes, Health, Instant, Offset, Path, PathId, SendKind, Span};
use weftway_scenario::stack;
use weftway_sched::FRAGMENT;

use crate::connection::Connection;
use crate::listeners::Note;
use crate::net::Net;
use crate::port::Port;
use crate::sender::Timer;

/// `net.mptcp.stale_loss_cnt`: how often the meta timer may find a subflow silent.
const STALE_LOSS_COUNT: u8 = 4;

impl Connection {
    /// DATA_ACK moved: the meta timer starts afresh. Where it stands in the calendar is corrected when it fires too
    /// early. Linux v1 brings it forward if it runs for less than it did (`__mptcp_clean_una`,
    /// `mptcp_reset_rtx_timer`).
    #[inline]
    pub(crate) fn meta_progress(&mut self, net: &mut Net, now: Instant) {
        self.send.meta.restart(now);
        self.send.meta.backoff = 0;
        if !self.dispatch.outbox.has_sent() {
            self.send.meta.at = Instant::NEVER;
        } else if self.transport.rules.meta_timer == stack::MetaTimer::PendingTimers
            && self.send.meta.since + self.send.meta.runs < self.send.meta.at
        {
            self.send.meta.at = self.meta_due();
            net.calendar.lower(self.source, self.send.meta.at);
        }
    }

    #[cold]
    pub(crate) fn arm_meta(&mut self, net: &mut Net, now: Instant) {
        self.send.meta.restart(now);
        self.send.meta.at = self.meta_due();
        net.calendar.lower(self.source, self.send.meta.at);
    }

    /// The meta-level timeout: v0.9x waits twice the longest timeout of the subflows, and longer each time; Linux v1
    /// what the last push before its start found.
    fn meta_due(&self) -> Instant {
        let meta = &self.send.meta;
        if self.transport.rules.meta_timer == stack::MetaTimer::PendingTimers {
            return meta.since + meta.runs;
        }
        let longest = self.dispatch.views.set().iter().map(|id| self.send.senders[id.index()].tcp.rto()).max();
        let span = longest.unwrap_or(Span::from_secs(1)) * 2 * (1 << meta.backoff.min(10));
        meta.since + span.min(Span::from_secs(120))
    }

    /// Linux v1: each acknowledgement pushes what the window lets go, before it starts the meta timer afresh
    /// (`ack_update_msk`: `__mptcp_check_push`, then `__mptcp_data_acked`). A rest of the window that holds no whole
    /// packet does not count: Linux has filled it before.
    #[inline]
    pub(crate) fn check_push(&mut self, now: Instant) {
        let flow = &self.dispatch.flow;
        if flow.unsent > Bytes::ZERO && flow.edge.since(flow.next) >= self.transport.mss {
            self.look_at_pending_timers(now);
        }
    }

    /// Linux v1: how long the meta timer will run when it starts next: the longest *rest* of a timer that is pending on
    /// a subflow, be it a timeout or a tail-loss probe; the least timeout if there is none. Neither stale subflows
    /// count nor those that were found silent (`mptcp_timeout_from_subflow`). A push finds it out with each choice of a
    /// subflow: before that one sends, and when the one before it has sent and scheduled its probe
    /// (`mptcp_push_release`).
    // In line it costs the stacks that never ask 20 instructions a packet.
    #[inline(never)]
    pub(crate) fn look_at_pending_timers(&mut self, now: Instant) {
        let mut longest = Span::ZERO;
        for path in self.dispatch.views.usable() {
            let sender = &mut self.send.senders[path.id.index()];
            sender.end_burst(now, path, &self.transport);
            if path.health != Health::Stale && sender.timer != Timer::Idle && sender.silence.count == 0 {
                longest = longest.max(sender.timer_at.since(now));
            }
        }
        self.send.meta.interval = if longest.is_zero() { self.transport.min_rto } else { longest };
    }

    /// The meta timer fired: the oldest data are sent again.
    pub(crate) fn meta_timeout(&mut self, net: &mut Net, now: Instant) {
        self.send.meta.at = self.ticks.expires(self.send.meta.since, self.meta_due());
        if self.send.meta.at > now {
            return;
        }
        self.send.meta.at = Instant::NEVER;
        let Some((number, head)) = self.dispatch.outbox.chunks().next().map(|(number, chunk)| (number, *chunk)) else {
            return;
        };
        if !head.sent {
            return;
        }
        match self.transport.rules.meta_timer {
            stack::MetaTimer::LongestTimeout => self.dispatch.outbox.hand_back(number),
            stack::MetaTimer::PendingTimers => {
                self.look_for_silence(net, now);
                self.retransmit_on_idle(net, now, head.offset);
            }
            stack::MetaTimer::None => {}
        }
        self.send.meta.backoff += 1;
        self.arm_meta(net, now);
        // What was handed back, or waits to be sent, is pushed now (`mptcp_check_and_set_pending`).
        let pushes = self.dispatch.flow.unsent > Bytes::ZERO || self.dispatch.outbox.first_reinjection().is_some();
        if pushes && self.transport.rules.meta_timer == stack::MetaTimer::PendingTimers {
            self.look_at_pending_timers(now);
        }
        self.wake();
    }

    /// Linux v1: counts for how long each subflow with something outstanding has heard nothing (`mptcp_pm_chk_stale`).
    fn look_for_silence(&mut self, net: &mut Net, now: Instant) {
        for id in self.dispatch.views.set().iter() {
            if self.dispatch.views.get(id).send_queue() == Bytes::ZERO {
                continue;
            }
            let sender = &mut self.send.senders[id.index()];
            let heard = sender.heard_at;
            let silence = &mut sender.silence;
            if silence.count == 0 {
                (silence.count, silence.heard_at) = (1, heard);
            } else if silence.heard_at == heard {
                silence.count = silence.count.saturating_add(1);
                self.look_whether_stale(net, now, id);
            } else {
                silence.count = 0;
            }
        }
    }

    /// Linux v1: path `id` is stale if it has been silent for long enough and another one brings something
    /// (`mptcp_pm_subflow_chk_stale`). Then all that is not acknowledged is sent again, what other paths carry included
    /// (`__mptcp_retransmit_pending_data`); what waits on the path waits there for its return.
    fn look_whether_stale(&mut self, net: &mut Net, now: Instant, id: PathId) {
        let Dispatch { views, outbox, .. } = &mut self.dispatch;
        let senders = &self.send.senders;
        if views.get(id).health == Health::Stale || senders[id.index()].silence.count <= STALE_LOSS_COUNT {
            return;
        }
        let brings = |other: &Path| {
            let count = senders[other.id.index()].silence.count;
            other.id != id && other.health != Health::Stale && count < STALE_LOSS_COUNT - 1
        };
        if !views.usable().iter().any(brings) {
            return;
        }
        views.get_mut(id).health = Health::Stale;
        let sent: Vec<u64> = outbox.chunks().filter(|(_, chunk)| chunk.sent).map(|(number, _)| number).collect();
        sent.into_iter().for_each(|number| outbox.hand_back(number));
        self.listeners.note(now, self.number, || Note::Timeout { path: id, kind: "stale" });
        self.refresh(net, now, id);
    }

    /// Linux v1: a subflow that has nothing outstanding repeats what was sent of the fragment at the head, be it the
    /// subflow that carried it before (`mptcp_subflow_get_retrans`, `__mptcp_retrans`). What was handed back is none of
    /// that until it is sent.
    fn retransmit_on_idle(&mut self, net: &mut Net, now: Instant, head: Offset) {
        let Some(id) = self.idle_path() else { return };
        let of_fragment = |chunk: &Chunk| chunk.sent && chunk.offset.get() / FRAGMENT == head.get() / FRAGMENT;
        let sent = self.dispatch.outbox.chunks().take_while(|(_, chunk)| of_fragment(chunk) && !chunk.waiting);
        let fragment: Vec<u64> = sent.map(|(number, _)| number).collect();
        let mut port = Port { conn: self, net, now };
        fragment.into_iter().for_each(|number| assign(&mut port, id, number, SendKind::Reinjection));
    }

    /// The first active subflow with nothing outstanding; a backup if all that have something are silent.
    fn idle_path(&self) -> Option<PathId> {
        let (idle, busy): (Vec<&Path>, Vec<&Path>) =
            self.dispatch.views.usable().iter().partition(|path| path.send_queue() == Bytes::ZERO);
        if let Some(path) = idle.iter().find(|path| path.is_active()) {
            return Some(path.id);
        }
        let silent = busy.iter().all(|path| self.send.senders[path.id.index()].silence.count > 1);
        idle.first().filter(|_| silent).map(|path| path.id)
    }
}
