//! The recovery states (`tcp_fastretrans_alert`): when an episode begins and ends, and when it turns
//! out to have been none.

use weftway_cc::Signal;
use weftway_path::{Bytes, Recovery};

use super::{Repair, Seen};
use crate::sender::{PathSender, SendContext};
use crate::wire::{is_before, stamp};

impl PathSender {
    /// `tcp_fastretrans_alert`: moves the recovery state, and says what to send again.
    pub(super) fn alert(&mut self, ctx: &mut SendContext<'_>, seen: &mut Seen) -> Repair {
        let done = self.flight.base() >= self.tcp.high_seq;
        match ctx.view.recovery {
            Recovery::Open => self.tcp.retrans_stamp = None,
            Recovery::Cwr if done && self.flight.base() != self.tcp.high_seq => {
                self.end_reduction(ctx);
                self.set_state(ctx, Recovery::Open);
            }
            Recovery::Recovery if done => {
                self.try_undo_recovery(ctx, seen);
                self.end_reduction(ctx);
            }
            _ => {}
        }
        match ctx.view.recovery {
            Recovery::Recovery => {
                if seen.una_advanced && self.try_undo_partial(ctx, seen) {
                    return Repair::Nothing;
                }
                self.find_losses(ctx, seen);
                if ctx.view.recovery != Recovery::Recovery {
                    // The episode was taken back; what is evidently lost begins another.
                    if self.tcp.lost_out == 0 {
                        return Repair::Nothing;
                    }
                    self.enter_recovery(ctx);
                }
                return Repair::Lost;
            }
            Recovery::Loss => {
                let repair = self.process_loss(ctx, seen);
                self.find_losses(ctx, seen);
                if !(ctx.view.recovery == Recovery::Open || seen.lost_retransmission) {
                    return repair;
                }
            }
            _ => {}
        }
        if ctx.view.recovery <= Recovery::Disorder {
            self.try_undo_dsack(ctx);
        }
        self.find_losses(ctx, seen);
        if self.tcp.lost_out == 0 {
            self.try_to_open(ctx);
            return Repair::Nothing;
        }
        self.enter_recovery(ctx);
        Repair::Lost
    }

    pub(super) fn set_state(&mut self, ctx: &mut SendContext<'_>, state: Recovery) {
        ctx.view.recovery = state;
    }

    pub(super) fn try_to_open(&mut self, ctx: &mut SendContext<'_>) {
        if !self.any_retransmitted() {
            self.tcp.retrans_stamp = None;
        }
        if ctx.view.recovery != Recovery::Cwr {
            self.keep_open(ctx);
        }
    }

    pub(super) fn any_retransmitted(&self) -> bool {
        self.tcp.retrans_out > 0 || self.flight.front().is_some_and(|head| head.ever_retransmitted)
    }

    pub(super) fn keep_open(&mut self, ctx: &mut SendContext<'_>) {
        let left_out = !self.sacked.is_empty() || self.tcp.lost_out > 0;
        let state = if left_out || self.any_retransmitted() { Recovery::Disorder } else { Recovery::Open };
        if ctx.view.recovery != state {
            self.set_state(ctx, state);
            self.tcp.high_seq = self.flight.next();
        }
    }

    /// Remembers where an episode began, to take it back.
    pub(super) fn init_undo(&mut self) {
        self.tcp.undo.marker = Some(self.flight.base());
        self.tcp.undo.retrans = if self.tcp.retrans_out > 0 { self.tcp.retrans_out as i64 } else { -1 };
    }

    pub(super) fn init_reduction(&mut self, ctx: &mut SendContext<'_>, signal: Signal) {
        self.tcp.high_seq = self.flight.next();
        self.tcp.probe.high_seq = None;
        self.tcp.prr.prior_cwnd = self.cwnd_packets(ctx);
        self.tcp.prr.delivered = 0;
        self.tcp.prr.out = 0;
        let lost = Bytes::new(self.tcp.lost_out * ctx.transport.mss.get());
        let newest = self.tcp.rack.sent_at;
        let prior = Bytes::new((self.pipe() + self.tcp.lost_out) * ctx.transport.mss.get());
        self.congestion(ctx, signal, prior, (lost, newest));
    }

    /// A mark arrived: the window is reduced once a round trip, and nothing is sent again
    /// (`tcp_enter_cwr`; RFC 3168 §6.1.2).
    pub(super) fn enter_cwr(&mut self, ctx: &mut SendContext<'_>) {
        self.tcp.undo.marker = None;
        self.init_reduction(ctx, Signal::Ecn);
        self.set_state(ctx, Recovery::Cwr);
    }

    pub(super) fn enter_recovery(&mut self, ctx: &mut SendContext<'_>) {
        self.init_undo();
        if !self.in_reduction(ctx.view) {
            self.init_reduction(ctx, Signal::Loss);
        }
        self.tcp.rack.age();
        self.set_state(ctx, Recovery::Recovery);
    }

    pub(super) fn end_reduction(&mut self, ctx: &mut SendContext<'_>) {
        if !self.cc.owns_recovery() {
            let ssthresh = self.cc.ssthresh();
            let settled = ctx.view.recovery == Recovery::Cwr || self.tcp.undo.marker.is_some();
            if ssthresh < Bytes::MAX && settled {
                self.cc.set_cwnd(ssthresh);
            }
        }
        self.cc.on_recovered(ctx.now);
    }

    /// Returns true if the echoed timestamp is older than the first retransmission: what was acknowledged is the
    /// original (the Eifel test; timestamps tick in milliseconds).
    pub(super) fn may_undo(&self, seen: &Seen) -> bool {
        self.tcp.undo.marker.is_some() && (self.tcp.undo.retrans == 0 || self.delayed(seen))
    }

    pub(super) fn delayed(&self, seen: &Seen) -> bool {
        seen.una_advanced && self.tcp.retrans_stamp.is_some_and(|first| is_before(stamp(seen.echo), stamp(first)))
    }

    pub(super) fn undo(&mut self, ctx: &mut SendContext<'_>, unmark: bool) {
        if unmark {
            for packet in self.flight.iter_mut() {
                packet.lost = false;
            }
            self.tcp.lost_out = 0;
            self.tcp.lost_queue.clear();
            self.tcp.judged = self.flight.base();
        }
        self.cc.on_spurious(ctx.now);
        ctx.tally().spurious += 1;
        self.tcp.undo.marker = None;
    }

    pub(super) fn try_undo_recovery(&mut self, ctx: &mut SendContext<'_>, seen: &Seen) {
        if self.may_undo(seen) {
            self.undo(ctx, false);
        }
        self.set_state(ctx, Recovery::Open);
        self.cc.on_recovered(ctx.now);
    }

    pub(super) fn try_undo_partial(&mut self, ctx: &mut SendContext<'_>, seen: &Seen) -> bool {
        if self.tcp.undo.marker.is_none() || !self.delayed(seen) {
            return false;
        }
        self.tcp.rack.reordering_seen = true;
        if self.tcp.retrans_out > 0 {
            return true;
        }
        if !self.any_retransmitted() {
            self.tcp.retrans_stamp = None;
        }
        self.undo(ctx, true);
        self.keep_open(ctx);
        false
    }

    pub(super) fn try_undo_dsack(&mut self, ctx: &mut SendContext<'_>) {
        if self.tcp.undo.marker.is_some() && self.tcp.undo.retrans == 0 {
            self.undo(ctx, false);
        }
    }

    pub(super) fn try_undo_loss(&mut self, ctx: &mut SendContext<'_>, seen: &Seen, frto: bool) -> bool {
        if !(frto || self.may_undo(seen)) {
            return false;
        }
        self.undo(ctx, true);
        self.tcp.retransmits = 0;
        self.set_state(ctx, Recovery::Open);
        self.cc.on_recovered(ctx.now);
        true
    }

    /// `tcp_process_loss`: F-RTO, and the end of the Loss state.
    pub(super) fn process_loss(&mut self, ctx: &mut SendContext<'_>, seen: &Seen) -> Repair {
        let recovered = self.flight.base() >= self.tcp.high_seq;
        if seen.una_advanced && self.try_undo_loss(ctx, seen, false) {
            return Repair::Nothing;
        }
        if self.tcp.frto {
            if seen.original_arrived && self.try_undo_loss(ctx, seen, true) {
                return Repair::Nothing;
            }
            if self.flight.next() > self.tcp.high_seq {
                if seen.newly_sacked || !seen.una_advanced {
                    self.tcp.frto = false;
                }
            } else if seen.una_advanced && !recovered {
                self.tcp.high_seq = self.flight.next();
                return Repair::NewData;
            }
        }
        if recovered {
            self.try_undo_recovery(ctx, seen);
            return Repair::Nothing;
        }
        Repair::Lost
    }

    /// F-RTO found no new data to send: recover as usual.
    pub fn give_up_frto(&mut self) -> bool {
        let sent_new = self.flight.next() > self.tcp.high_seq;
        if !sent_new {
            self.tcp.frto = false;
        }
        sent_new
    }
}
