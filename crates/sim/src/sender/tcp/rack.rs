//! RACK (RFC 8985 §6): which packets are lost, judged by when they were sent.

use weftway_path::{Bytes, Event, Instant, Recovery, Span};

use super::{DUP_THRESH, Rack, Seen, TIMER_MIN};
use crate::listeners::Note;
use crate::sender::{PathSender, SendContext, Timer};

impl PathSender {
    /// RACK (`tcp_rack_detect_loss`): marks what is lost; arms a timer for what may be.
    pub(super) fn find_losses(&mut self, ctx: &mut SendContext<'_>, seen: &mut Seen) {
        let window = self.reordering_window(ctx);
        let prior_retrans = self.tcp.retrans_out;
        let before = self.tcp.lost_out;
        let wait = self.judge(ctx, window);
        seen.newly_lost += self.tcp.lost_out.saturating_sub(before);
        if self.tcp.retrans_out < prior_retrans {
            seen.lost_retransmission = true;
        }
        if let Some(wait) = wait {
            let rto = self.tcp.rto();
            self.arm(ctx.now, Timer::Reorder, ctx.now + (wait + TIMER_MIN).min(rto));
            seen.keep_timer = true;
        }
    }

    pub(super) fn reordering_window(&self, ctx: &SendContext<'_>) -> Span {
        let rack = &self.tcp.rack;
        if !rack.reordering_seen && (ctx.view.recovery >= Recovery::Recovery || self.sacked.total() >= DUP_THRESH) {
            return Span::ZERO;
        }
        (self.tcp.min_rtt.get().min(ctx.view.srtt * 8) / 4 * rack.steps).min(ctx.view.srtt)
    }

    /// Judges the packets sent before RACK's; how long the youngest undecided one must wait. Packets that were sent
    /// once are in the order of their times: those that are due come first, and the last has longest to wait.
    pub(super) fn judge(&mut self, ctx: &mut SendContext<'_>, window: Span) -> Option<Span> {
        if self.tcp.rack.rtt.is_zero() {
            return None;
        }
        let wait = self.judge_retransmissions(ctx, window);
        let end = self.flight.next();
        let mut index = self.tcp.judged.max(self.flight.base());
        let mut rest = None;
        while index < end {
            let packet = self.flight.at(index);
            if packet.is_undecided() {
                let sent_at = packet.sent_at;
                if !self.tcp.rack.is_after(sent_at, index) {
                    break;
                }
                rest = self.tcp.rack.remaining(ctx.now, sent_at, window);
                if rest.is_some() {
                    break;
                }
                self.mark_lost(ctx, index);
            }
            index += 1;
        }
        self.tcp.judged = index;
        if rest.is_some() {
            let youngest = self.flight.at(self.youngest_undecided()).sent_at;
            rest = self.tcp.rack.remaining(ctx.now, youngest, window);
        }
        wait.max(rest)
    }

    /// The number of the last packet sent before RACK's that is neither decided nor sent again. Packet `judged` is one.
    fn youngest_undecided(&self) -> u64 {
        let first = self.tcp.judged;
        let mut top = self.sent_before_rack();
        for (lo, hi) in self.sacked.iter().rev() {
            if let Some(index) = (hi.max(first)..top).rev().find(|&index| self.flight.at(index).is_undecided()) {
                return index;
            }
            top = top.min(lo);
            if top <= first {
                break;
            }
        }
        (first..top).rev().find(|&index| self.flight.at(index).is_undecided()).unwrap_or(first)
    }

    /// Number below which packets that were sent once were sent before RACK's.
    fn sent_before_rack(&self) -> u64 {
        let rack = &self.tcp.rack;
        if rack.index >= self.flight.base() && !self.flight.at(rack.index).ever_retransmitted {
            return rack.index;
        }
        // RACK's packet was sent again, out of the order of numbers.
        let (mut low, mut high) = (self.tcp.judged, self.flight.next());
        while low < high {
            let middle = low + (high - low) / 2;
            let once = (middle..high).find(|&index| !self.flight.at(index).ever_retransmitted);
            match once {
                Some(index) if rack.is_after(self.flight.at(index).sent_at, index) => low = index + 1,
                _ => high = middle,
            }
        }
        low
    }

    pub(super) fn judge_retransmissions(&mut self, ctx: &mut SendContext<'_>, window: Span) -> Option<Span> {
        let mut wait = None;
        let mut at = 0;
        while let Some(&(sent_at, index)) = self.tcp.retransmissions.get(at) {
            let live = self
                .flight
                .get_mut(index)
                .is_some_and(|packet| packet.sent_at == sent_at && packet.retransmitted && !packet.acked);
            if live {
                if !self.tcp.rack.is_after(sent_at, index) {
                    break;
                }
                match self.tcp.rack.remaining(ctx.now, sent_at, window) {
                    None => self.mark_lost(ctx, index),
                    Some(rest) => {
                        wait = wait.max(Some(rest));
                        at += 1;
                        continue;
                    }
                }
            }
            self.tcp.retransmissions.remove(at);
        }
        wait
    }

    /// `tcp_mark_skb_lost`.
    pub(super) fn mark_lost(&mut self, ctx: &mut SendContext<'_>, index: u64) {
        let packet = self.flight.at_mut(index);
        if packet.acked {
            return;
        }
        let payload = Bytes::new(u64::from(packet.bytes));
        if packet.lost {
            if !packet.retransmitted {
                return;
            }
            packet.retransmitted = false;
            self.tcp.retrans_out -= 1;
        } else {
            packet.lost = true;
            self.tcp.lost_out += 1;
        }
        let receipt = packet.receipt(self.id);
        let queue = &mut self.tcp.lost_queue;
        let place = queue.partition_point(|&other| other < index);
        if queue.get(place) != Some(&index) {
            queue.insert(place, index);
        }
        ctx.view.lost.add(payload);
        ctx.events.push(Event::Lost(receipt));
        ctx.listeners.note(ctx.now, ctx.conn, || Note::Lost { path: self.id, index });
    }
}

impl Rack {
    /// A packet sent at `sent_at` has arrived (`tcp_rack_advance`).
    #[inline]
    pub(super) fn advance(&mut self, now: Instant, sent_at: Instant, index: u64, retransmitted: bool, min_rtt: Span) {
        let rtt = now.since(sent_at);
        if retransmitted && min_rtt < Span::MAX && rtt < min_rtt {
            // The original arrived after all.
            return;
        }
        self.rtt = rtt.max(Span::from_nanos(1));
        if (sent_at, index) > (self.sent_at, self.index) {
            self.sent_at = sent_at;
            self.index = index;
        }
    }

    /// Returns true if RACK's packet was sent after this one.
    #[inline]
    pub(super) fn is_after(&self, sent_at: Instant, index: u64) -> bool {
        (self.sent_at, self.index) > (sent_at, index)
    }

    /// Time that a packet may still take; `None`: it is lost.
    #[inline]
    pub(super) fn remaining(&self, now: Instant, sent_at: Instant, window: Span) -> Option<Span> {
        let due = sent_at + self.rtt + window;
        (due > now).then(|| due.since(now))
    }

    /// Sixteen recoveries after the last duplicate the window is narrow again.
    pub(super) fn age(&mut self) {
        if self.persist > 0 {
            self.persist -= 1;
            if self.persist == 0 {
                self.steps = 1;
            }
        }
    }

    /// A duplicate arrived: at most once a round trip the window widens by a quarter of min_rtt.
    pub(super) fn widen(&mut self, una: u64, next: u64) {
        if una >= self.widened_at {
            self.steps = (self.steps + 1).min(255);
            self.persist = 16;
            self.widened_at = next;
            self.reordering_seen = true;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// RFC 8985 §6.2 step 1: the arrival of a retransmission sooner than min_rtt after it was sent tells nothing of it,
    /// because it was the original that arrived. At min_rtt it counts.
    #[test]
    fn a_retransmission_counts_from_the_least_round_trip_time_on() {
        let (sent, min_rtt) = (Instant::from_millis(100), Span::from_millis(40));
        let after = |ms: u64, retransmitted| {
            let mut rack = Rack::default();
            rack.advance(sent + Span::from_millis(ms), sent, 7, retransmitted, min_rtt);
            (rack.rtt, rack.index)
        };
        assert_eq!(after(39, true), (Span::ZERO, 0));
        assert_eq!(after(40, true), (Span::from_millis(40), 7));
        assert_eq!(after(39, false), (Span::from_millis(39), 7));
    }

    /// RFC 8985 §6.2 step 4: each round trip with a duplicate widens the window by a step; after sixteen recoveries
    /// without one it is narrow again.
    #[test]
    fn the_reordering_window_widens_once_a_round_trip_and_lasts_sixteen_recoveries() {
        let mut rack = Rack { steps: 1, ..Rack::default() };
        for (una, next, steps) in [(5, 20, 2), (19, 30, 2), (20, 40, 3)] {
            rack.widen(una, next);
            assert_eq!(rack.steps, steps, "una {una}");
        }
        (0..15).for_each(|_| rack.age());
        assert_eq!(rack.steps, 3);
        rack.age();
        assert_eq!(rack.steps, 1);
    }

    /// A packet that was sent at the same time or before the newest that has arrived, and has a lower number, came
    /// first.
    #[test]
    fn packets_sent_at_once_are_told_apart_by_their_numbers() {
        let at = Instant::from_millis(5);
        let mut rack = Rack::default();
        rack.advance(Instant::from_millis(9), at, 7, false, Span::ZERO);
        assert!(rack.is_after(at, 6) && !rack.is_after(at, 7) && !rack.is_after(at, 8));
        assert!(rack.is_after(Instant::from_millis(4), 8) && !rack.is_after(Instant::from_millis(6), 6));
        rack.advance(Instant::from_millis(10), at, 3, false, Span::ZERO);
        assert_eq!(rack.index, 7, "an older packet does not replace a younger one");
    }
}
