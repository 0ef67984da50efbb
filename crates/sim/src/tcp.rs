//! Loss recovery of one MPTCP subflow, or of plain TCP: what Linux does today.
//!
//! SACK scoreboard; RACK (RFC 8985) decides what is lost; tail-loss probes; proportional rate
//! reduction (RFC 6937, with slow-start reduction bound); F-RTO (RFC 5682) and the Eifel test on
//! timestamps (RFC 3522) take back what was no loss. Retransmissions stay on their subflow, with
//! their number (RFC 8684 §3.3.1). Windows and what is in flight are counted in packets.
//! State: the counters of `tcp_sock` under their field names; see `TcpState` of RFC 9293 for none.
//! Not modelled: reneging, urgent data, segments larger than one packet, timer ticks.

use std::collections::VecDeque;

use weftway_cc::Signal;
use weftway_path::{Bytes, Event, Health, Instant, Recovery, Span};

use crate::rtt::{LinuxRtt, MinRtt, publish};
use crate::sender::{Desk, Outcome, PathSender, Timer};
use crate::tap::Note;
use crate::wire::Ack;

/// Least time to a timer (`TCP_TIMEOUT_MIN_US`): two ticks of a 1000 Hz clock.
const TIMER_MIN: Span = Span::from_millis(2);
/// Losses are assumed when so many packets above a hole have arrived (RFC 6675 DupThresh).
const DUP_THRESH: u64 = 3;
/// `tcp_min_rtt_wlen`.
const MIN_RTT_WINDOW: Span = Span::from_secs(300);

/// Which packets to send again after an acknowledgement.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub enum Repair {
    /// None.
    #[default]
    Nothing,
    /// Those marked lost.
    Lost,
    /// First try new data: F-RTO's second step.
    NewData,
}

/// The most recently sent packet that is known to have arrived, and what follows for the others.
#[derive(Clone, Debug, Default)]
struct Rack {
    sent_at: Instant,
    index: u64,
    rtt: Span,
    /// Reordering has been seen: wait before declaring loss.
    reordering_seen: bool,
    /// The reordering window in quarters of min_rtt.
    steps: u64,
    /// Recoveries left before the window is reset.
    persist: u32,
    /// A duplicate was reported; widen the window once this packet is acknowledged.
    widened_at: u64,
}

/// The recovery state of one subflow.
#[derive(Clone, Debug)]
pub struct Tcp {
    /// Round-trip estimate.
    pub rtt: LinuxRtt,
    min_rtt: MinRtt,
    /// Back-off of the timeout.
    pub backoff: u32,
    lost_out: u64,
    retrans_out: u64,
    high_seq: u64,
    undo_marker: Option<u64>,
    undo_retrans: i64,
    retrans_stamp: Option<Instant>,
    prior_ssthresh: Bytes,
    prr_delivered: u64,
    prr_out: u64,
    prior_cwnd: u64,
    frto: bool,
    /// Timeouts since progress (`icsk_retransmits`).
    retransmits: u32,
    tlp_high_seq: Option<u64>,
    tlp_retrans: bool,
    /// New packets left since the probe was scheduled.
    burst: bool,
    rack: Rack,
    /// Originals below this number have been judged by RACK.
    judged: u64,
    /// Packets sent again, by the time of that.
    resent: VecDeque<(Instant, u64)>,
    /// Packets marked lost and not sent again, ascending.
    lost_queue: VecDeque<u64>,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            rtt: LinuxRtt::default(),
            min_rtt: MinRtt::new(MIN_RTT_WINDOW),
            backoff: 0,
            lost_out: 0,
            retrans_out: 0,
            high_seq: 0,
            undo_marker: None,
            undo_retrans: -1,
            retrans_stamp: None,
            prior_ssthresh: Bytes::ZERO,
            prr_delivered: 0,
            prr_out: 0,
            prior_cwnd: 0,
            frto: false,
            retransmits: 0,
            tlp_high_seq: None,
            tlp_retrans: false,
            burst: false,
            rack: Rack { steps: 1, ..Rack::default() },
            judged: 0,
            resent: VecDeque::new(),
            lost_queue: VecDeque::new(),
        }
    }
}

/// What one acknowledgement told.
#[derive(Default)]
struct Seen {
    /// Send times of the first and last packet acknowledged in order and sent once.
    first_acked: Option<Instant>,
    last_acked: Option<Instant>,
    /// … and out of order.
    first_sacked: Option<Instant>,
    last_sacked: Option<Instant>,
    /// A packet that was never sent again, from before the episode, arrived (F-RTO).
    original_arrived: bool,
    resent_acked: bool,
    newly_sacked: bool,
    una_advanced: bool,
    delivered: u64,
    lost_retransmission: bool,
    /// The lowest packet that arrived later than one sent after it.
    reordered: Option<u64>,
    newly_lost: u64,
    keep_timer: bool,
    duplicate: bool,
    /// The timestamp that it echoes.
    echo: Instant,
}

impl PathSender {
    /// In flight, as Linux counts it: out − sacked − lost + retransmitted.
    #[inline]
    fn pipe(&self) -> u64 {
        self.flight.next() - self.flight.base() - self.sacked.total() - self.tcp.lost_out + self.tcp.retrans_out
    }

    #[inline]
    fn cwnd_packets(&self, desk: &Desk<'_>) -> u64 {
        self.cc.cwnd().packets(desk.transport.mss)
    }

    fn set_cwnd_packets(&mut self, desk: &Desk<'_>, packets: u64) {
        self.cc.set_cwnd(Bytes::new(packets.max(1) * desk.transport.mss.get()));
    }

    #[inline]
    fn in_reduction(&self, desk: &Desk<'_>) -> bool {
        matches!(desk.view.recovery, Recovery::Cwr | Recovery::Recovery)
    }

    /// The handshake's round trip is the first sample.
    pub fn tcp_start(&mut self, desk: &mut Desk<'_>, rtt: Span) {
        self.tcp.rtt.sample(rtt, desk.transport.min_rto, 0, 0);
        self.tcp.min_rtt.update(desk.now, rtt);
        publish(desk.view, rtt, self.tcp.rtt.srtt(), self.tcp.rtt.rttvar());
        self.publish(desk);
    }

    /// After a new packet: timers (`tcp_event_new_data_sent`, `tcp_schedule_loss_probe`).
    #[inline]
    pub fn tcp_sent(&mut self, desk: &mut Desk<'_>, idle: bool) {
        if self.in_reduction(desk) {
            self.tcp.prr_out += 1;
        }
        if idle || self.timer == Timer::TailProbe || self.timer == Timer::Idle {
            self.rearm_timeout(desk);
        }
        self.tcp.burst = true;
    }

    /// The sender has sent what it can: a tail-loss probe is due some time after the last packet.
    #[inline]
    pub fn end_burst(&mut self, desk: &mut Desk<'_>) {
        if core::mem::take(&mut self.tcp.burst) {
            self.schedule_probe(desk, false);
        }
    }

    /// Whether nothing is missing and nothing was sent twice: an acknowledgement then only settles
    /// packets from the front.
    #[inline]
    fn is_plain(&self, desk: &Desk<'_>, ack: &Ack) -> bool {
        desk.view.recovery == Recovery::Open
            && self.sacked.is_empty()
            && self.tcp.resent.is_empty()
            && self.tcp.tlp_high_seq.is_none()
            && self.tcp.lost_out == 0
            && !ack.duplicate
            && ack.cum > self.flight.base()
    }

    /// The plain case, which is nearly every acknowledgement: the same outcome as the long way, in
    /// a third of the instructions.
    fn plain_acked(&mut self, desk: &mut Desk<'_>, cum: u64) {
        let mut outcome = Outcome { prior_in_flight: desk.view.bytes_in_flight, ..Outcome::default() };
        let cum = cum.min(self.flight.next());
        let mut packets = 0;
        let mut first = None;
        while self.flight.base() < cum {
            let Some(flown) = self.flight.pop() else { break };
            let payload = Bytes::new(u64::from(flown.bytes));
            outcome.bytes += payload;
            packets += 1;
            first.get_or_insert(flown.sent_at);
            desk.events.push(Event::Acked(flown.receipt(self.id)));
            self.rate.on_delivered(desk.now, &flown, &mut outcome.sample);
        }
        desk.view.acked.bytes += outcome.bytes;
        desk.view.acked.packets += packets;
        let (Some(first), Some(last)) = (first, outcome.sample.newest_sent) else { return };
        self.tcp.retransmits = 0;
        self.tcp.rack.advance(desk.now, last, cum - 1, false, Span::ZERO);
        self.take_rtt(desk, desk.now.since(first), desk.now.since(last), &mut outcome);
        self.last_heard(desk);
        self.set_timer(desk);
        desk.view.bytes_in_flight = Bytes::new(self.pipe() * desk.transport.mss.get());
        self.control(desk, &outcome);
        self.publish(desk);
    }

    /// Processes an acknowledgement; what to send again.
    #[inline]
    pub fn tcp_acked(&mut self, desk: &mut Desk<'_>, ack: &Ack, blocks: &[(u64, u64)]) -> Repair {
        if blocks.is_empty() && self.is_plain(desk, ack) {
            self.plain_acked(desk, ack.cum);
            return Repair::Nothing;
        }
        self.any_acked(desk, ack, blocks)
    }

    fn any_acked(&mut self, desk: &mut Desk<'_>, ack: &Ack, blocks: &[(u64, u64)]) -> Repair {
        let prior_una = self.flight.base();
        let prior_highest = self.sacked.last().map_or(prior_una, |range| range.1);
        let mut seen = Seen { duplicate: ack.duplicate, echo: ack.echo, ..Seen::default() };
        let mut outcome = Outcome { prior_in_flight: desk.view.bytes_in_flight, ..Outcome::default() };
        for &block in blocks {
            self.take_block(desk, block, prior_highest, &mut seen, &mut outcome);
        }
        self.take_cumulative(desk, ack.cum, &mut seen, &mut outcome);
        self.settle_duplicate(&seen);
        self.sample_rtt(desk, ack, &mut seen, &mut outcome);
        self.tcp.rack.reordering_seen |= seen.reordered.is_some_and(|low| low < prior_highest);
        if seen.delivered > 0 {
            self.last_heard(desk);
        }
        let mut repair = Repair::Nothing;
        self.finish_probe(desk, ack.cum, &seen);
        let dubious = seen.newly_sacked || seen.duplicate || !(seen.una_advanced || seen.delivered > 0);
        if dubious || desk.view.recovery != Recovery::Open {
            repair = self.alert(desk, &mut seen);
        }
        if !seen.keep_timer && (seen.una_advanced || self.sack_is_fresh(desk, &seen)) {
            self.set_timer(desk);
        }
        self.adjust_window(desk, &seen, &mut outcome);
        self.refresh(desk);
        if desk.view.recovery == Recovery::Open && self.tcp.retrans_out == 0 {
            self.tcp.resent.clear();
        }
        repair
    }

    /// Writes the counters into the path's view.
    pub fn refresh(&mut self, desk: &mut Desk<'_>) {
        desk.view.bytes_in_flight = Bytes::new(self.pipe() * desk.transport.mss.get());
        self.publish(desk);
    }

    fn last_heard(&mut self, desk: &mut Desk<'_>) {
        self.last_progress = desk.now;
        desk.view.pto_count = 0;
        if desk.view.health != Health::Good {
            desk.view.health = Health::Good;
        }
    }

    /// One SACK block: marks what is new of it.
    fn take_block(&mut self, desk: &mut Desk<'_>, block: (u64, u64), prior_highest: u64, seen: &mut Seen, outcome: &mut Outcome) {
        let (lo, hi) = (block.0.max(self.flight.base()), block.1.min(self.flight.next()));
        let Self { sacked, flight, tcp, rate, id, .. } = self;
        sacked.insert(lo, hi, |lo, hi| {
            for index in lo..hi {
                let flown = flight.at_mut(index);
                flown.acked = true;
                if !flown.resent {
                    if index < prior_highest && !flown.again {
                        seen.reordered = Some(seen.reordered.map_or(index, |low| low.min(index)));
                    }
                    if !flown.again {
                        seen.original_arrived |= index < tcp.high_seq;
                        seen.first_sacked.get_or_insert(flown.sent_at);
                        seen.last_sacked = Some(flown.sent_at);
                    }
                }
                tcp.rack.advance(desk.now, flown.sent_at, index, flown.again, tcp.min_rtt.get());
                tcp.forget_loss(flown);
                rate.on_delivered(desk.now, flown, &mut outcome.sample);
                let payload = Bytes::new(u64::from(flown.bytes));
                outcome.bytes += payload;
                desk.view.acked.add(payload);
                desk.events.push(Event::Acked(flown.receipt(*id)));
                seen.delivered += 1;
                seen.newly_sacked = true;
            }
        });
    }

    /// The cumulative part: settles packets (`tcp_clean_rtx_queue`).
    fn take_cumulative(&mut self, desk: &mut Desk<'_>, cum: u64, seen: &mut Seen, outcome: &mut Outcome) {
        let cum = cum.min(self.flight.next());
        while self.flight.base() < cum {
            let index = self.flight.base();
            let Some(mut flown) = self.flight.pop() else { break };
            seen.una_advanced = true;
            if flown.again {
                seen.resent_acked = true;
            } else if !flown.acked {
                seen.first_acked.get_or_insert(flown.sent_at);
                seen.last_acked = Some(flown.sent_at);
                seen.original_arrived |= index < self.tcp.high_seq;
                if self.sacked.first().is_some_and(|range| index < range.0) {
                    seen.reordered = Some(seen.reordered.map_or(index, |low| low.min(index)));
                }
            }
            if flown.acked {
                continue;
            }
            self.tcp.rack.advance(desk.now, flown.sent_at, index, flown.again, self.tcp.min_rtt.get());
            self.tcp.forget_loss(&mut flown);
            self.rate.on_delivered(desk.now, &flown, &mut outcome.sample);
            let payload = Bytes::new(u64::from(flown.bytes));
            outcome.bytes += payload;
            desk.view.acked.add(payload);
            desk.events.push(Event::Acked(flown.receipt(self.id)));
            seen.delivered += 1;
        }
        self.sacked.remove_below(cum);
        if seen.una_advanced {
            let base = self.flight.base();
            self.tcp.retransmits = 0;
            self.tcp.judged = self.tcp.judged.max(base);
            while self.tcp.lost_queue.front().is_some_and(|&index| index < base) {
                self.tcp.lost_queue.pop_front();
            }
        }
    }

    fn settle_duplicate(&mut self, seen: &Seen) {
        if seen.duplicate {
            if self.tcp.undo_marker.is_some() && self.tcp.undo_retrans > 0 {
                self.tcp.undo_retrans -= 1;
            }
            self.tcp.rack.widen(self.flight.base(), self.flight.next());
        }
    }

    /// Round-trip samples (`tcp_ack_update_rtt`): never of a packet that was sent twice.
    fn sample_rtt(&mut self, desk: &mut Desk<'_>, ack: &Ack, seen: &mut Seen, outcome: &mut Outcome) {
        let since = |at: Instant| desk.now.since(at);
        let (mut sequence, mut newest) = (None, None);
        if let (Some(first), Some(last), false) = (seen.first_acked, seen.last_acked, seen.resent_acked) {
            (sequence, newest) = (Some(since(first)), Some(since(last)));
        }
        if let (Some(first), Some(last)) = (seen.first_sacked, seen.last_sacked) {
            sequence = sequence.or(Some(since(first)));
            newest = Some(since(last));
        }
        if sequence.is_none() && seen.una_advanced {
            sequence = Some(since(ack.echo));
            newest = sequence;
        }
        let (Some(sequence), Some(newest)) = (sequence, newest) else { return };
        self.take_rtt(desk, sequence, newest, outcome);
    }

    /// Takes a sample: of the oldest packet acknowledged, delayed acknowledgements and all, for
    /// the estimator; of the newest for minimum and controller.
    #[inline]
    fn take_rtt(&mut self, desk: &mut Desk<'_>, sequence: Span, newest: Span, outcome: &mut Outcome) {
        outcome.rtt = Some(newest);
        let min = self.tcp.min_rtt.update(desk.now, newest);
        self.tcp.rtt.sample(sequence, desk.transport.min_rto, self.flight.base(), self.flight.next());
        self.tcp.backoff = 0;
        publish(desk.view, newest, self.tcp.rtt.srtt(), self.tcp.rtt.rttvar());
        desk.view.min_rtt = min;
    }

    /// A SACK of something sent after the head lets the timeout start afresh.
    fn sack_is_fresh(&self, desk: &Desk<'_>, seen: &Seen) -> bool {
        match (seen.first_sacked, self.flight.front()) {
            (Some(sacked), Some(head)) => desk.now.since(sacked) > desk.now.since(head.sent_at),
            _ => false,
        }
    }

    /// `tcp_fastretrans_alert`: moves the recovery state, and says what to send again.
    fn alert(&mut self, desk: &mut Desk<'_>, seen: &mut Seen) -> Repair {
        let done = self.flight.base() >= self.tcp.high_seq;
        match desk.view.recovery {
            Recovery::Open => self.tcp.retrans_stamp = None,
            Recovery::Cwr if done && self.flight.base() != self.tcp.high_seq => {
                self.end_reduction(desk);
                self.set_state(desk, Recovery::Open);
            }
            Recovery::Recovery if done => {
                self.try_undo_recovery(desk, seen);
                self.end_reduction(desk);
            }
            _ => {}
        }
        match desk.view.recovery {
            Recovery::Recovery => {
                if seen.una_advanced && self.try_undo_partial(desk, seen) {
                    return Repair::Nothing;
                }
                self.find_losses(desk, seen);
                if desk.view.recovery != Recovery::Recovery {
                    // The episode was taken back; what is evidently lost begins another.
                    if self.tcp.lost_out == 0 {
                        return Repair::Nothing;
                    }
                    self.enter_recovery(desk);
                }
                return Repair::Lost;
            }
            Recovery::Loss => {
                let repair = self.process_loss(desk, seen);
                self.find_losses(desk, seen);
                if !(desk.view.recovery == Recovery::Open || seen.lost_retransmission) {
                    return repair;
                }
            }
            _ => {}
        }
        if desk.view.recovery <= Recovery::Disorder {
            self.try_undo_dsack(desk);
        }
        self.find_losses(desk, seen);
        if self.tcp.lost_out == 0 {
            self.try_to_open(desk);
            return Repair::Nothing;
        }
        self.enter_recovery(desk);
        Repair::Lost
    }

    fn set_state(&mut self, desk: &mut Desk<'_>, state: Recovery) {
        desk.view.recovery = state;
    }

    fn try_to_open(&mut self, desk: &mut Desk<'_>) {
        if !self.any_resent() {
            self.tcp.retrans_stamp = None;
        }
        if desk.view.recovery != Recovery::Cwr {
            self.keep_open(desk);
        }
    }

    fn any_resent(&self) -> bool {
        self.tcp.retrans_out > 0 || self.flight.front().is_some_and(|head| head.again)
    }

    fn keep_open(&mut self, desk: &mut Desk<'_>) {
        let left_out = !self.sacked.is_empty() || self.tcp.lost_out > 0;
        let state = if left_out || self.any_resent() { Recovery::Disorder } else { Recovery::Open };
        if desk.view.recovery != state {
            self.set_state(desk, state);
            self.tcp.high_seq = self.flight.next();
        }
    }

    /// Remembers where an episode began, to take it back.
    fn init_undo(&mut self) {
        self.tcp.undo_marker = Some(self.flight.base());
        self.tcp.undo_retrans = if self.tcp.retrans_out > 0 { self.tcp.retrans_out as i64 } else { -1 };
    }

    fn current_ssthresh(&self, desk: &Desk<'_>) -> Bytes {
        let (cwnd, ssthresh) = (self.cc.cwnd(), self.cc.ssthresh());
        if self.in_reduction(desk) { ssthresh } else { ssthresh.max(cwnd.mul_div(3, 4)) }
    }

    fn init_reduction(&mut self, desk: &mut Desk<'_>, signal: Signal) {
        self.tcp.high_seq = self.flight.next();
        self.tcp.tlp_high_seq = None;
        self.tcp.prior_cwnd = self.cwnd_packets(desk);
        self.tcp.prr_delivered = 0;
        self.tcp.prr_out = 0;
        let lost = Bytes::new(self.tcp.lost_out * desk.transport.mss.get());
        let newest = self.tcp.rack.sent_at;
        let prior = Bytes::new((self.pipe() + self.tcp.lost_out) * desk.transport.mss.get());
        self.congestion(desk, signal, prior, (lost, newest));
    }

    fn enter_recovery(&mut self, desk: &mut Desk<'_>) {
        self.init_undo();
        if !self.in_reduction(desk) {
            self.tcp.prior_ssthresh = self.current_ssthresh(desk);
            self.init_reduction(desk, Signal::Loss);
        }
        self.tcp.rack.age();
        self.set_state(desk, Recovery::Recovery);
    }

    fn end_reduction(&mut self, desk: &mut Desk<'_>) {
        if !self.cc.owns_recovery() {
            let ssthresh = self.cc.ssthresh();
            let settled = desk.view.recovery == Recovery::Cwr || self.tcp.undo_marker.is_some();
            if ssthresh < Bytes::MAX && settled {
                self.cc.set_cwnd(ssthresh);
            }
        }
        self.cc.on_recovered(desk.now);
    }

    /// Whether the echoed timestamp is older than the first retransmission: what was
    /// acknowledged is the original (the Eifel test; timestamps tick in milliseconds).
    fn may_undo(&self, seen: &Seen) -> bool {
        self.tcp.undo_marker.is_some() && (self.tcp.undo_retrans == 0 || self.delayed(seen))
    }

    fn delayed(&self, seen: &Seen) -> bool {
        let tick = |at: Instant| at.as_micros() / 1000;
        seen.una_advanced && self.tcp.retrans_stamp.is_some_and(|stamp| tick(seen.echo) < tick(stamp))
    }

    fn undo(&mut self, desk: &mut Desk<'_>, unmark: bool) {
        if unmark {
            for flown in self.flight.iter_mut() {
                flown.lost = false;
            }
            self.tcp.lost_out = 0;
            self.tcp.lost_queue.clear();
            self.tcp.judged = self.flight.base();
        }
        self.cc.on_spurious(desk.now);
        desk.tally.spurious += 1;
        self.tcp.undo_marker = None;
    }

    fn try_undo_recovery(&mut self, desk: &mut Desk<'_>, seen: &Seen) {
        if self.may_undo(seen) {
            self.undo(desk, false);
        }
        self.set_state(desk, Recovery::Open);
        self.cc.on_recovered(desk.now);
    }

    fn try_undo_partial(&mut self, desk: &mut Desk<'_>, seen: &Seen) -> bool {
        if self.tcp.undo_marker.is_none() || !self.delayed(seen) {
            return false;
        }
        self.tcp.rack.reordering_seen = true;
        if self.tcp.retrans_out > 0 {
            return true;
        }
        if !self.any_resent() {
            self.tcp.retrans_stamp = None;
        }
        self.undo(desk, true);
        self.keep_open(desk);
        false
    }

    fn try_undo_dsack(&mut self, desk: &mut Desk<'_>) {
        if self.tcp.undo_marker.is_some() && self.tcp.undo_retrans == 0 {
            self.undo(desk, false);
        }
    }

    fn try_undo_loss(&mut self, desk: &mut Desk<'_>, seen: &Seen, frto: bool) -> bool {
        if !(frto || self.may_undo(seen)) {
            return false;
        }
        self.undo(desk, true);
        self.tcp.retransmits = 0;
        self.set_state(desk, Recovery::Open);
        self.cc.on_recovered(desk.now);
        true
    }

    /// `tcp_process_loss`: F-RTO, and the end of the Loss state.
    fn process_loss(&mut self, desk: &mut Desk<'_>, seen: &Seen) -> Repair {
        let recovered = self.flight.base() >= self.tcp.high_seq;
        if seen.una_advanced && self.try_undo_loss(desk, seen, false) {
            return Repair::Nothing;
        }
        if self.tcp.frto {
            if seen.original_arrived && self.try_undo_loss(desk, seen, true) {
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
            self.try_undo_recovery(desk, seen);
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

    /// RACK (`tcp_rack_detect_loss`): marks what is lost; arms a timer for what may be.
    fn find_losses(&mut self, desk: &mut Desk<'_>, seen: &mut Seen) {
        let window = self.reordering_window(desk);
        let prior_retrans = self.tcp.retrans_out;
        let before = self.tcp.lost_out;
        let wait = self.judge(desk, window);
        seen.newly_lost += self.tcp.lost_out.saturating_sub(before);
        if self.tcp.retrans_out < prior_retrans {
            seen.lost_retransmission = true;
        }
        if let Some(wait) = wait {
            let rto = self.rto(desk.transport);
            self.arm(Timer::Reorder, desk.now + (wait + TIMER_MIN).min(rto));
            seen.keep_timer = true;
        }
    }

    fn reordering_window(&self, desk: &Desk<'_>) -> Span {
        let rack = &self.tcp.rack;
        if !rack.reordering_seen && (desk.view.recovery >= Recovery::Recovery || self.sacked.total() >= DUP_THRESH) {
            return Span::ZERO;
        }
        (self.tcp.min_rtt.get().min(desk.view.srtt * 8) / 4 * rack.steps).min(desk.view.srtt)
    }

    /// Judges every packet sent before RACK's; how long the youngest undecided one must wait.
    fn judge(&mut self, desk: &mut Desk<'_>, window: Span) -> Option<Span> {
        if self.tcp.rack.rtt.is_zero() {
            return None;
        }
        let mut wait = self.judge_resent(desk, window);
        let end = self.flight.next();
        let mut index = self.tcp.judged.max(self.flight.base());
        let mut contiguous = true;
        while index < end {
            let flown = *self.flight.at(index);
            if !flown.acked && !flown.lost && !flown.again {
                if !self.tcp.rack.is_after(flown.sent_at, index) {
                    break;
                }
                match self.tcp.rack.remaining(desk.now, flown.sent_at, window) {
                    None => self.mark_lost(desk, index),
                    Some(rest) => {
                        wait = wait.max(Some(rest));
                        contiguous = false;
                    }
                }
            }
            index += 1;
            if contiguous {
                self.tcp.judged = index;
            }
        }
        wait
    }

    fn judge_resent(&mut self, desk: &mut Desk<'_>, window: Span) -> Option<Span> {
        let mut wait = None;
        let mut at = 0;
        while let Some(&(sent_at, index)) = self.tcp.resent.get(at) {
            let live = self.flight.get_mut(index).is_some_and(|flown| flown.sent_at == sent_at && flown.resent && !flown.acked);
            if live {
                if !self.tcp.rack.is_after(sent_at, index) {
                    break;
                }
                match self.tcp.rack.remaining(desk.now, sent_at, window) {
                    None => self.mark_lost(desk, index),
                    Some(rest) => {
                        wait = wait.max(Some(rest));
                        at += 1;
                        continue;
                    }
                }
            }
            self.tcp.resent.remove(at);
        }
        wait
    }

    /// `tcp_mark_skb_lost`.
    fn mark_lost(&mut self, desk: &mut Desk<'_>, index: u64) {
        let flown = self.flight.at_mut(index);
        if flown.acked {
            return;
        }
        let payload = Bytes::new(u64::from(flown.bytes));
        if flown.lost {
            if !flown.resent {
                return;
            }
            flown.resent = false;
            self.tcp.retrans_out -= 1;
        } else {
            flown.lost = true;
            self.tcp.lost_out += 1;
        }
        let receipt = flown.receipt(self.id);
        let queue = &mut self.tcp.lost_queue;
        let place = queue.partition_point(|&other| other < index);
        if queue.get(place) != Some(&index) {
            queue.insert(place, index);
        }
        desk.view.lost.add(payload);
        desk.events.push(Event::Lost(receipt));
        desk.tap.note(desk.now, desk.conn, || Note::Lost { path: self.id, index });
    }

    /// Sends again what is marked lost, as far as the window allows
    /// (`tcp_xmit_retransmit_queue`).
    pub fn retransmit_lost(&mut self, desk: &mut Desk<'_>) {
        while let Some(&index) = self.tcp.lost_queue.front() {
            let due = self.flight.get_mut(index).is_some_and(|flown| flown.lost && !flown.resent && !flown.acked);
            if due {
                if self.pipe() >= self.cwnd_packets(desk) || self.pacer.release() > desk.now {
                    break;
                }
                self.retransmit(desk, index);
                if self.in_reduction(desk) {
                    self.tcp.prr_out += 1;
                }
                if index == self.flight.base() && self.timer != Timer::Reorder {
                    let rto = self.rto(desk.transport);
                    self.arm(Timer::Timeout, desk.now + rto);
                }
            }
            self.tcp.lost_queue.pop_front();
        }
        desk.view.bytes_in_flight = Bytes::new(self.pipe() * desk.transport.mss.get());
    }

    /// Whether losses wait for the pacer or the window.
    pub fn has_lost(&self) -> bool {
        !self.tcp.lost_queue.is_empty()
    }

    fn retransmit(&mut self, desk: &mut Desk<'_>, index: u64) {
        let idle = self.pipe() == 0;
        let flown = self.flight.at_mut(index);
        flown.sent_at = desk.now;
        flown.again = true;
        if !flown.resent {
            flown.resent = true;
            self.tcp.retrans_out += 1;
        }
        let (offset, bytes) = (flown.offset, flown.bytes);
        self.rate.on_sent(desk.now, idle, flown);
        self.tcp.resent.push_back((desk.now, index));
        self.tcp.undo_retrans = self.tcp.undo_retrans.max(0) + 1;
        self.tcp.retrans_stamp.get_or_insert(desk.now);
        let payload = Bytes::new(u64::from(bytes));
        desk.view.sent.add(payload);
        desk.view.retransmitted.add(payload);
        desk.tally.retransmissions += 1;
        self.last_sent = desk.now;
        self.put_on_wire(desk, index, offset, bytes);
    }

    /// A tail probe was answered (`tcp_process_tlp_ack`).
    fn finish_probe(&mut self, desk: &mut Desk<'_>, cum: u64, seen: &Seen) {
        let Some(high) = self.tcp.tlp_high_seq.filter(|&high| cum >= high) else { return };
        if !self.tcp.tlp_retrans || seen.duplicate {
            self.tcp.tlp_high_seq = None;
        } else if cum > high {
            // The probe repaired a loss: reduce the window once.
            self.init_reduction(desk, Signal::Loss);
            self.set_state(desk, Recovery::Cwr);
            self.end_reduction(desk);
            self.keep_open(desk);
        } else if !seen.una_advanced && !seen.newly_sacked {
            self.tcp.tlp_high_seq = None;
        }
    }

    /// The window's growth or reduction (`tcp_cong_control`).
    fn adjust_window(&mut self, desk: &mut Desk<'_>, seen: &Seen, outcome: &mut Outcome) {
        let mss = desk.transport.mss.get();
        outcome.lost = Bytes::new(seen.newly_lost * mss);
        let raises = seen.una_advanced || self.tcp.rack.reordering_seen;
        let owns = self.cc.owns_recovery();
        outcome.reducing = (self.in_reduction(desk) || !raises) && !owns;
        desk.view.bytes_in_flight = Bytes::new(self.pipe() * mss);
        self.control(desk, outcome);
        if self.in_reduction(desk) && !owns {
            self.reduce(desk, seen);
        }
    }

    /// Proportional rate reduction (`tcp_cwnd_reduction`).
    fn reduce(&mut self, desk: &mut Desk<'_>, seen: &Seen) {
        if seen.delivered == 0 || self.tcp.prior_cwnd == 0 {
            return;
        }
        let ssthresh = self.cc.ssthresh().packets(desk.transport.mss);
        let pipe = self.pipe();
        self.tcp.prr_delivered += seen.delivered;
        let (delivered, out) = (self.tcp.prr_delivered, self.tcp.prr_out);
        let mut count = if pipe > ssthresh {
            ((ssthresh * delivered).div_ceil(self.tcp.prior_cwnd)).saturating_sub(out)
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
        self.set_cwnd_packets(desk, pipe + count);
    }

    fn set_timer(&mut self, desk: &mut Desk<'_>) {
        if !self.schedule_probe(desk, true) {
            self.rearm_timeout(desk);
        }
    }

    /// `tcp_rearm_rto`: the timeout counts from when the oldest packet was sent, if another timer
    /// ran in between.
    fn rearm_timeout(&mut self, desk: &mut Desk<'_>) {
        let Some(head) = self.flight.front() else { return self.disarm() };
        let rto = self.rto(desk.transport);
        let at = match self.timer {
            Timer::Reorder | Timer::TailProbe => (head.sent_at + rto).max(desk.now + Span::from_micros(1)),
            _ => desk.now + rto,
        };
        self.arm(Timer::Timeout, at);
    }

    /// `tcp_schedule_loss_probe`.
    fn schedule_probe(&mut self, desk: &mut Desk<'_>, advancing: bool) -> bool {
        let out = self.flight.next() - self.flight.base();
        if out == 0 || !self.sacked.is_empty() || !matches!(desk.view.recovery, Recovery::Open | Recovery::Cwr) {
            return false;
        }
        let rto = self.rto(desk.transport);
        let mut wait = if desk.view.srtt.is_zero() { Span::from_secs(1) } else { desk.view.srtt * 2 };
        if !desk.view.srtt.is_zero() {
            wait += if out == 1 { desk.transport.min_rto } else { TIMER_MIN };
        }
        let left = match self.flight.front() {
            Some(head) if !advancing => (head.sent_at + rto).since(desk.now),
            _ => rto,
        };
        if !left.is_zero() {
            wait = wait.min(left);
        }
        self.arm(Timer::TailProbe, desk.now + wait);
        true
    }

    /// The timer fired; what to send again. `can_send` tells whether new data wait.
    pub fn tcp_timer(&mut self, desk: &mut Desk<'_>, new_data: bool) -> Repair {
        let timer = self.timer;
        self.disarm();
        if self.flight.is_empty() {
            return Repair::Nothing;
        }
        let repair = match timer {
            Timer::Idle => Repair::Nothing,
            Timer::TailProbe => self.tail_probe(desk, new_data),
            Timer::Reorder => self.reorder_timeout(desk),
            Timer::Timeout => self.timeout(desk),
        };
        self.refresh(desk);
        repair
    }

    fn tail_probe(&mut self, desk: &mut Desk<'_>, new_data: bool) -> Repair {
        desk.tap.note(desk.now, desk.conn, || Note::Timeout { path: self.id, kind: "tlp" });
        self.timer = Timer::TailProbe;
        let mut repair = Repair::Nothing;
        if self.tcp.tlp_high_seq.is_none() {
            self.tcp.tlp_retrans = !new_data;
            if new_data {
                repair = Repair::NewData;
            } else {
                let last = self.flight.next() - 1;
                let sent = self.flight.at(last).acked;
                if !sent {
                    self.retransmit(desk, last);
                }
            }
            self.tcp.tlp_high_seq = Some(self.flight.next() + u64::from(new_data));
        }
        self.rearm_timeout(desk);
        repair
    }

    fn reorder_timeout(&mut self, desk: &mut Desk<'_>) -> Repair {
        let mut seen = Seen::default();
        let prior = self.pipe();
        self.find_losses(desk, &mut seen);
        if self.pipe() != prior && desk.view.recovery != Recovery::Recovery {
            if desk.view.recovery < Recovery::Loss {
                self.enter_recovery(desk);
                if !self.cc.owns_recovery() {
                    seen.delivered = 1;
                    self.reduce(desk, &seen);
                }
            }
        }
        if self.timer == Timer::Idle {
            self.timer = Timer::Reorder;
            self.rearm_timeout(desk);
        }
        Repair::Lost
    }

    /// `tcp_retransmit_timer`, `tcp_enter_loss`.
    fn timeout(&mut self, desk: &mut Desk<'_>) -> Repair {
        desk.tap.note(desk.now, desk.conn, || Note::Timeout { path: self.id, kind: "rto" });
        desk.tally.timeouts += 1;
        let prior = desk.view.bytes_in_flight;
        let new_recovery = desk.view.recovery < Recovery::Recovery;
        self.mark_timeout(desk);
        let fresh = desk.view.recovery <= Recovery::Disorder
            || self.tcp.high_seq <= self.flight.base()
            || (desk.view.recovery == Recovery::Loss && self.tcp.retransmits == 0);
        if fresh {
            self.tcp.prior_ssthresh = self.current_ssthresh(desk);
            self.tcp.prior_cwnd = self.cwnd_packets(desk);
            let lost = Bytes::new(self.tcp.lost_out * desk.transport.mss.get());
            self.congestion(desk, Signal::Timeout, prior, (lost, self.last_sent));
            self.init_undo();
        }
        self.set_cwnd_packets(desk, self.pipe() + 1);
        self.set_state(desk, Recovery::Loss);
        self.tcp.high_seq = self.flight.next();
        self.tcp.frto = new_recovery || self.tcp.retransmits > 0;
        self.tcp.retransmits += 1;
        self.tcp.tlp_high_seq = None;
        desk.view.pto_count += 1;
        desk.view.health = Health::Suspect;
        let head = self.flight.base();
        self.retransmit(desk, head);
        if self.tcp.lost_queue.front() == Some(&head) {
            self.tcp.lost_queue.pop_front();
        }
        self.tcp.backoff += 1;
        let rto = self.rto(desk.transport);
        self.arm(Timer::Timeout, desk.now + rto);
        Repair::Nothing
    }

    /// `tcp_timeout_mark_lost`: everything but what was sent too recently to be late.
    fn mark_timeout(&mut self, desk: &mut Desk<'_>) {
        let window = self.reordering_window(desk);
        for index in self.flight.base()..self.flight.next() {
            let flown = self.flight.at(index);
            let recent = index != self.flight.base()
                && !self.tcp.rack.rtt.is_zero()
                && self.tcp.rack.remaining(desk.now, flown.sent_at, window).is_some();
            if !recent {
                self.mark_lost(desk, index);
            }
        }
    }
}

impl Tcp {
    /// A packet arrived: it is neither lost nor in flight a second time.
    fn forget_loss(&mut self, flown: &mut crate::flight::Flown) {
        if flown.lost {
            flown.lost = false;
            self.lost_out -= 1;
        }
        if flown.resent {
            flown.resent = false;
            self.retrans_out -= 1;
        }
    }
}

impl Rack {
    /// A packet sent at `sent_at` has arrived (`tcp_rack_advance`).
    #[inline]
    fn advance(&mut self, now: Instant, sent_at: Instant, index: u64, again: bool, min_rtt: Span) {
        let rtt = now.since(sent_at);
        if again && min_rtt < Span::MAX && rtt < min_rtt {
            // The original arrived after all.
            return;
        }
        self.rtt = rtt.max(Span::from_nanos(1));
        if (sent_at, index) > (self.sent_at, self.index) {
            self.sent_at = sent_at;
            self.index = index;
        }
    }

    /// Whether RACK's packet was sent after this one.
    #[inline]
    fn is_after(&self, sent_at: Instant, index: u64) -> bool {
        (self.sent_at, self.index) > (sent_at, index)
    }

    /// How long a packet may still take; `None`: it is lost.
    #[inline]
    fn remaining(&self, now: Instant, sent_at: Instant, window: Span) -> Option<Span> {
        let due = sent_at + self.rtt + window;
        (due > now).then(|| due.since(now))
    }

    /// Sixteen recoveries after the last duplicate the window is narrow again.
    fn age(&mut self) {
        if self.persist > 0 {
            self.persist -= 1;
            if self.persist == 0 {
                self.steps = 1;
            }
        }
    }

    /// A duplicate arrived: at most once a round trip the window widens by a quarter of min_rtt.
    fn widen(&mut self, una: u64, next: u64) {
        if una >= self.widened_at {
            self.steps = (self.steps + 1).min(255);
            self.persist = 16;
            self.widened_at = next;
            self.reordering_seen = true;
        }
    }
}
