//! Retransmissions, how the window shrinks meanwhile (RFC 6937), and the timers: retransmission timeout, tail-loss
//! probe, reordering window.

use weftway_cc::Signal;
use weftway_path::{Bytes, Health, Instant, Path, Recovery, Span};
use weftway_scenario::config::TransportConfig;

use super::{Repair, Seen, TIMER_MIN};
use crate::listeners::Note;
use crate::sender::{Outcome, PathSender, SendContext, Timer};

impl PathSender {
    /// Sends again what is marked lost, as far as the window allows
    /// (`tcp_xmit_retransmit_queue`).
    pub fn retransmit_lost(&mut self, ctx: &mut SendContext<'_>) {
        while let Some(&index) = self.tcp.lost_queue.front() {
            let due =
                self.flight.get_mut(index).is_some_and(|packet| packet.lost && !packet.retransmitted && !packet.acked);
            if due {
                if self.pipe() >= self.cwnd_packets(ctx) || !self.pacer.lets_go(ctx.now) {
                    break;
                }
                self.retransmit(ctx, index);
                if self.in_reduction(ctx.view) {
                    self.tcp.prr.out += 1;
                }
                if index == self.flight.base() && self.timer != Timer::Reorder {
                    let rto = self.tcp.rto();
                    self.arm(ctx.now, Timer::Timeout, ctx.now + rto);
                }
            }
            self.tcp.lost_queue.pop_front();
        }
        ctx.view.bytes_in_flight = Bytes::new(self.pipe() * ctx.transport.mss.get());
    }

    /// Returns true if losses wait for the pacer or the window.
    pub fn has_lost(&self) -> bool {
        !self.tcp.lost_queue.is_empty()
    }

    pub(super) fn retransmit(&mut self, ctx: &mut SendContext<'_>, index: u64) {
        let packet = self.flight.at_mut(index);
        packet.sent_at = ctx.now;
        packet.ever_retransmitted = true;
        if !packet.retransmitted {
            packet.retransmitted = true;
            self.tcp.retrans_out += 1;
        }
        let (offset, bytes) = (packet.offset, packet.bytes);
        self.rate.on_sent(ctx.now, false, packet);
        self.tcp.retransmissions.push_back((ctx.now, index));
        self.tcp.undo.retrans = self.tcp.undo.retrans.max(0) + 1;
        self.tcp.retrans_stamp.get_or_insert(ctx.now);
        let payload = Bytes::new(u64::from(bytes));
        ctx.view.sent.add(payload);
        ctx.view.retransmitted.add(payload);
        ctx.tally().retransmissions += 1;
        self.last_sent = ctx.now;
        self.put_on_wire(ctx, index, offset, bytes);
    }

    /// A tail probe was answered (`tcp_process_tlp_ack`).
    pub(super) fn finish_probe(&mut self, ctx: &mut SendContext<'_>, cum: u64, seen: &Seen) {
        let Some(high) = self.tcp.probe.high_seq.filter(|&high| cum >= high) else { return };
        if !self.tcp.probe.retrans || seen.duplicate {
            self.tcp.probe.high_seq = None;
        } else if cum > high {
            // The probe repaired a loss: reduce the window once.
            self.init_reduction(ctx, Signal::Loss);
            self.set_state(ctx, Recovery::Cwr);
            self.end_reduction(ctx);
            self.keep_open(ctx);
        } else if !seen.una_advanced && !seen.newly_sacked {
            self.tcp.probe.high_seq = None;
        }
    }

    /// The window's growth or reduction (`tcp_cong_control`).
    pub(super) fn adjust_window(&mut self, ctx: &mut SendContext<'_>, seen: &Seen, outcome: &mut Outcome) {
        let mss = ctx.transport.mss.get();
        outcome.lost = Bytes::new(seen.newly_lost * mss);
        let raises = seen.una_advanced || self.tcp.rack.reordering_seen;
        let owns = self.cc.owns_recovery();
        outcome.reducing = (self.in_reduction(ctx.view) || !raises) && !owns;
        ctx.view.bytes_in_flight = Bytes::new(self.pipe() * mss);
        self.control(ctx.now, ctx.view, ctx.shares, outcome);
        if self.in_reduction(ctx.view) && !owns {
            self.reduce(ctx, seen);
        }
    }

    /// Proportional rate reduction (`tcp_cwnd_reduction`).
    pub(super) fn reduce(&mut self, ctx: &mut SendContext<'_>, seen: &Seen) {
        if seen.delivered == 0 || self.tcp.prr.prior_cwnd == 0 {
            return;
        }
        let ssthresh = self.cc.ssthresh().packets(ctx.transport.mss);
        let pipe = self.pipe();
        self.tcp.prr.delivered += seen.delivered;
        let (delivered, out) = (self.tcp.prr.delivered, self.tcp.prr.out);
        let mut count = if pipe > ssthresh {
            ((ssthresh * delivered).div_ceil(self.tcp.prr.prior_cwnd)).saturating_sub(out)
        } else {
            let mut count = delivered.saturating_sub(out).max(seen.delivered);
            if seen.una_advanced && seen.newly_lost == 0 {
                count += 1;
            }
            count.min(ssthresh - pipe)
        };
        if out == 0 {
            count = count.max(1);
        }
        self.set_cwnd_packets(ctx, pipe + count);
    }

    #[inline]
    pub(super) fn set_timer(&mut self, now: Instant, view: &Path, transport: &TransportConfig) {
        if !self.schedule_probe(now, view, transport, true) {
            self.rearm_timeout(now);
        }
    }

    /// `tcp_rearm_rto`: the timeout counts from when the oldest packet was sent, if another timer
    /// ran in between.
    #[inline]
    pub(super) fn rearm_timeout(&mut self, now: Instant) {
        let Some(head) = self.flight.front() else { return self.disarm() };
        let rto = self.tcp.rto();
        let at = match self.timer {
            Timer::Reorder | Timer::TailProbe => (head.sent_at + rto).max(now + Span::from_micros(1)),
            _ => now + rto,
        };
        self.arm(now, Timer::Timeout, at);
    }

    /// `tcp_schedule_loss_probe`.
    #[inline]
    pub(super) fn schedule_probe(
        &mut self,
        now: Instant,
        view: &Path,
        transport: &TransportConfig,
        advancing: bool,
    ) -> bool {
        let out = self.flight.next() - self.flight.base();
        if out == 0 || !self.sacked.is_empty() || !matches!(view.recovery, Recovery::Open | Recovery::Cwr) {
            return false;
        }
        let rto = self.tcp.rto();
        let mut wait = if view.srtt.is_zero() { Span::from_secs(1) } else { view.srtt * 2 };
        if !view.srtt.is_zero() {
            wait += if out == 1 { transport.min_rto } else { TIMER_MIN };
        }
        let left = match self.flight.front() {
            Some(head) if !advancing => (head.sent_at + rto).since(now),
            _ => rto,
        };
        if !left.is_zero() {
            wait = wait.min(left);
        }
        self.arm(now, Timer::TailProbe, now + wait);
        true
    }

    /// The timer fired; what to send again. `can_send` tells whether new data wait.
    pub fn tcp_timer(&mut self, ctx: &mut SendContext<'_>, new_data: bool) -> Repair {
        let timer = self.timer;
        self.disarm();
        if self.flight.is_empty() {
            return Repair::Nothing;
        }
        let repair = match timer {
            Timer::Idle => Repair::Nothing,
            Timer::TailProbe => self.tail_probe(ctx, new_data),
            Timer::Reorder => self.reorder_timeout(ctx),
            Timer::Timeout => self.timeout(ctx),
        };
        self.refresh(ctx);
        repair
    }

    /// `tcp_send_loss_probe`: new data, or the last packet again. The timeout counts from the probe, and from the
    /// oldest packet if an earlier probe is not answered yet.
    pub(super) fn tail_probe(&mut self, ctx: &mut SendContext<'_>, new_data: bool) -> Repair {
        ctx.listeners.note(ctx.now, ctx.conn, || Note::Timeout { path: self.id, kind: "tlp" });
        let mut repair = Repair::Nothing;
        if self.tcp.probe.high_seq.is_some() {
            self.timer = Timer::TailProbe;
        } else {
            self.tcp.probe.retrans = !new_data;
            if new_data {
                repair = Repair::NewData;
            } else {
                let last = self.flight.next() - 1;
                let arrived = self.flight.at(last).acked;
                if !arrived {
                    self.retransmit(ctx, last);
                }
            }
            self.tcp.probe.high_seq = Some(self.flight.next() + u64::from(new_data));
        }
        self.rearm_timeout(ctx.now);
        repair
    }

    /// Notes that what was sent last was a probe: it schedules no other (`tcp_write_xmit` with `push_one`).
    pub fn sent_probe(&mut self) {
        self.tcp.probe.burst = false;
    }

    pub(super) fn reorder_timeout(&mut self, ctx: &mut SendContext<'_>) -> Repair {
        let mut seen = Seen::default();
        let prior = self.pipe();
        self.find_losses(ctx, &mut seen);
        if self.pipe() != prior && ctx.view.recovery != Recovery::Recovery && ctx.view.recovery < Recovery::Loss {
            self.enter_recovery(ctx);
            if !self.cc.owns_recovery() {
                seen.delivered = 1;
                self.reduce(ctx, &seen);
            }
        }
        if self.timer == Timer::Idle {
            self.timer = Timer::Reorder;
            self.rearm_timeout(ctx.now);
        }
        Repair::Lost
    }

    /// `tcp_retransmit_timer`, `tcp_enter_loss`.
    pub(super) fn timeout(&mut self, ctx: &mut SendContext<'_>) -> Repair {
        ctx.listeners.note(ctx.now, ctx.conn, || Note::Timeout { path: self.id, kind: "rto" });
        ctx.tally().timeouts += 1;
        let prior = ctx.view.bytes_in_flight;
        let new_recovery = ctx.view.recovery < Recovery::Recovery;
        self.mark_timeout(ctx);
        let fresh = ctx.view.recovery <= Recovery::Disorder
            || self.tcp.high_seq <= self.flight.base()
            || (ctx.view.recovery == Recovery::Loss && self.tcp.retransmits == 0);
        if fresh {
            self.tcp.prr.prior_cwnd = self.cwnd_packets(ctx);
            let lost = Bytes::new(self.tcp.lost_out * ctx.transport.mss.get());
            self.congestion(ctx, Signal::Timeout, prior, (lost, self.last_sent));
            self.init_undo();
        }
        self.set_cwnd_packets(ctx, self.pipe() + 1);
        self.set_state(ctx, Recovery::Loss);
        self.tcp.high_seq = self.flight.next();
        self.tcp.frto = new_recovery || self.tcp.retransmits > 0;
        self.tcp.retransmits += 1;
        self.tcp.probe.high_seq = None;
        ctx.view.pto_count += 1;
        if ctx.view.health == Health::Good {
            ctx.view.health = Health::Suspect;
        }
        let head = self.flight.base();
        self.retransmit(ctx, head);
        if self.tcp.lost_queue.front() == Some(&head) {
            self.tcp.lost_queue.pop_front();
        }
        self.tcp.back_off(self.tcp.backoff + 1, ctx.transport);
        let rto = self.tcp.rto();
        self.arm(ctx.now, Timer::Timeout, ctx.now + rto);
        Repair::Nothing
    }

    /// `tcp_timeout_mark_lost`: everything but what was sent too recently to be late.
    pub(super) fn mark_timeout(&mut self, ctx: &mut SendContext<'_>) {
        let window = self.reordering_window(ctx);
        for index in self.flight.base()..self.flight.next() {
            let packet = self.flight.at(index);
            let recent = index != self.flight.base()
                && !self.tcp.rack.rtt.is_zero()
                && self.tcp.rack.remaining(ctx.now, packet.sent_at, window).is_some();
            if !recent {
                self.mark_lost(ctx, index);
            }
        }
    }
}
