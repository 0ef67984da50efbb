//! Loss recovery of one MPTCP subflow, or of plain TCP: what Linux does today.
//!
//! SACK scoreboard; RACK (RFC 8985) decides what is lost; tail-loss probes; proportional rate
//! reduction (RFC 6937, with slow-start reduction bound); F-RTO (RFC 5682) and the Eifel test on
//! timestamps (RFC 3522) take back what was no loss. Retransmissions stay on their subflow, with
//! their number (RFC 8684 §3.3.1). Windows and what is in flight are counted in packets.
//! State: the counters of `tcp_sock`, under their field names where they have one.
//! Not modelled: reneging, urgent data, segments larger than one packet.

mod rack;
mod recovery;
mod sending;

use std::collections::VecDeque;

use weftway_host::sending::SentPacket;
use weftway_path::{Bytes, Event, Health, Instant, Path, Recovery, Span};
use weftway_scenario::config::{RtoFloor, TransportConfig};
use weftway_scenario::stack::MetaTimer;

use crate::rtt::{LinuxRtt, MinRtt, publish};
use crate::sender::{Outcome, PathSender, SendContext, Timer};
use crate::wire::{Ack, stamp};

/// Least time to a timer (`TCP_TIMEOUT_MIN_US`).
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
    /// Repairs packets marked lost.
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
    backoff: u32,
    /// The timeout with its back-off. It changes with a sample and with the back-off.
    rto: Span,
    lost_out: u64,
    retrans_out: u64,
    high_seq: u64,
    undo: Undo,
    retrans_stamp: Option<Instant>,
    prr: Prr,
    frto: bool,
    /// Timeouts since progress (`icsk_retransmits`).
    retransmits: u32,
    probe: TailProbe,
    /// The timer is set anew when the turn is over: then what is sent in it has left.
    moved_on: bool,
    rack: Rack,
    /// Originals below this number have been judged by RACK.
    judged: u64,
    /// Packets sent again, by the time of that.
    retransmissions: VecDeque<(Instant, u64)>,
    /// Packets marked lost and not sent again, ascending.
    lost_queue: VecDeque<u64>,
}

/// State by which a reduction that proves needless is taken back (`undo_marker`, `undo_retrans`).
#[derive(Clone, Debug)]
struct Undo {
    /// The oldest packet in flight when the episode began.
    marker: Option<u64>,
    /// Retransmissions of the episode of which no duplicate was reported; −1 if none was made.
    retrans: i64,
}

/// Proportional rate reduction (RFC 6937).
#[derive(Clone, Debug, Default)]
struct Prr {
    delivered: u64,
    out: u64,
    prior_cwnd: u64,
}

/// The tail-loss probe (RFC 8985 §7).
#[derive(Clone, Debug, Default)]
struct TailProbe {
    /// Number of the next packet when the probe was sent; none without a probe.
    high_seq: Option<u64>,
    /// True if the probe was a retransmission.
    retrans: bool,
    /// New packets left since the probe was scheduled.
    burst: bool,
}

impl Default for Tcp {
    fn default() -> Self {
        Self {
            rtt: LinuxRtt::default(),
            min_rtt: MinRtt::new(MIN_RTT_WINDOW),
            backoff: 0,
            rto: LinuxRtt::default().rto(),
            lost_out: 0,
            retrans_out: 0,
            high_seq: 0,
            undo: Undo { marker: None, retrans: -1 },
            retrans_stamp: None,
            prr: Prr::default(),
            frto: false,
            retransmits: 0,
            probe: TailProbe::default(),
            moved_on: false,
            rack: Rack { steps: 1, ..Rack::default() },
            judged: 0,
            retransmissions: VecDeque::new(),
            lost_queue: VecDeque::new(),
        }
    }
}

/// Contents of one acknowledgement.
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
    retransmitted_acked: bool,
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
    fn cwnd_packets(&self, ctx: &SendContext<'_>) -> u64 {
        self.cc.cwnd().packets(ctx.transport.mss)
    }

    fn set_cwnd_packets(&mut self, ctx: &SendContext<'_>, packets: u64) {
        self.cc.set_cwnd(Bytes::new(packets.max(1) * ctx.transport.mss.get()));
    }

    #[inline]
    fn in_reduction(&self, view: &Path) -> bool {
        matches!(view.recovery, Recovery::Cwr | Recovery::Recovery)
    }

    /// The handshake's round trip is the first sample.
    pub fn tcp_start(&mut self, ctx: &mut SendContext<'_>, rtt: Span) {
        // Its last message left about half of that ago.
        self.echo = stamp(ctx.now - rtt.mul_div(1, 2));
        self.tcp.rtt.sample(rtt, ctx.transport.min_rto, 0, 0);
        self.tcp.back_off(0, ctx.transport);
        self.tcp.min_rtt.update(ctx.now, rtt);
        publish(ctx.view, rtt, self.tcp.rtt.srtt(), self.tcp.rtt.rttvar());
        self.publish(ctx);
    }

    /// After a new packet: timers (`tcp_event_new_data_sent`, `tcp_schedule_loss_probe`).
    #[inline]
    pub fn tcp_sent(&mut self, now: Instant, view: &Path, idle: bool) {
        if self.in_reduction(view) {
            self.tcp.prr.out += 1;
        }
        if !self.tcp.moved_on && (idle || self.timer == Timer::TailProbe || self.timer == Timer::Idle) {
            self.rearm_timeout(now);
        }
        self.tcp.probe.burst = true;
    }

    /// The sender has sent what it can: a tail-loss probe is due some time after the last packet.
    #[inline]
    pub fn end_burst(&mut self, now: Instant, view: &Path, transport: &TransportConfig) {
        let moved_on = core::mem::take(&mut self.tcp.moved_on);
        if core::mem::take(&mut self.tcp.probe.burst) {
            self.schedule_probe(now, view, transport, false);
        } else if moved_on {
            self.set_timer(now, view, transport);
        }
    }

    /// Returns true if nothing is missing and nothing was sent twice: an acknowledgement then only settles packets from
    /// the front.
    #[inline]
    pub fn is_plain(&self, view: &Path, ack: &Ack) -> bool {
        view.recovery == Recovery::Open
            && self.sacked.is_empty()
            && self.tcp.retransmissions.is_empty()
            && self.tcp.probe.high_seq.is_none()
            && self.tcp.lost_out == 0
            && !ack.duplicate
            && !ack.marked
            && ack.cum > self.flight.base()
    }

    /// The plain case, which is nearly every acknowledgement: the same outcome as the long way, in
    /// a third of the instructions.
    #[inline(always)]
    pub fn plain_acked(&mut self, ctx: &mut SendContext<'_>, cum: u64) {
        let mut outcome = Outcome { prior_in_flight: ctx.view.bytes_in_flight, ..Outcome::default() };
        let (una, cum) = (self.flight.base(), cum.min(self.flight.next()));
        if cum <= una {
            return;
        }
        // Nothing was sent twice: the last one was sent last.
        let (first, newest) = (self.flight.at(una).sent_at, *self.flight.at(cum - 1));
        let last = newest.sent_at;
        outcome.bytes = if ctx.events.keeps_all() {
            let tell = |packet: &SentPacket| ctx.events.push(Event::Acked(packet.receipt(self.id)));
            self.flight.settle_below(cum, tell)
        } else {
            self.flight.settle_below(cum, |packet| debug_assert!(packet.sent_at <= last))
        };
        ctx.view.acked.bytes = ctx.view.acked.bytes.plus(outcome.bytes);
        ctx.view.acked.packets += cum - una;
        self.rate.on_delivered_together(ctx.now, outcome.bytes, &newest, &mut outcome.sample);
        self.tcp.retransmits = 0;
        self.tcp.rack.advance(ctx.now, last, cum - 1, false, Span::ZERO);
        let (now, transport) = (ctx.now, ctx.transport);
        outcome.rtt = Some(now.since(last));
        self.take_rtt(now, ctx.view, transport, (now.since(first), now.since(last)));
        self.last_heard(now, ctx.view);
        // Linux v1 looks at what is pending while the turn goes on.
        if transport.rules.meta_timer == MetaTimer::PendingTimers {
            self.set_timer(now, ctx.view, transport);
        } else {
            self.tcp.moved_on = true;
        }
        ctx.view.bytes_in_flight = Bytes::new(self.pipe() * transport.mss.get());
        self.control(now, ctx.view, ctx.shares, &outcome);
        self.publish(ctx);
    }

    /// Processes an acknowledgement; what to send again.
    #[inline(never)]
    pub fn tcp_acked(&mut self, ctx: &mut SendContext<'_>, ack: &Ack, blocks: &[(u64, u64)]) -> Repair {
        let prior_una = self.flight.base();
        let prior_highest = self.sacked.last().map_or(prior_una, |range| range.1);
        let mut seen = Seen { duplicate: ack.duplicate, echo: ack.echo, ..Seen::default() };
        let mut outcome = Outcome { prior_in_flight: ctx.view.bytes_in_flight, ..Outcome::default() };
        for &block in blocks {
            self.take_block(ctx, block, prior_highest, &mut seen, &mut outcome);
        }
        self.take_cumulative(ctx, ack.cum, &mut seen, &mut outcome);
        self.settle_duplicate(&seen);
        self.sample_rtt(ctx, ack, &mut seen, &mut outcome);
        self.tcp.rack.reordering_seen |= seen.reordered.is_some_and(|low| low < prior_highest);
        if seen.delivered > 0 {
            self.last_heard(ctx.now, ctx.view);
        }
        let mut repair = Repair::Nothing;
        self.finish_probe(ctx, ack.cum, &seen);
        let dubious = seen.newly_sacked || seen.duplicate || !(seen.una_advanced || seen.delivered > 0);
        if ack.marked && ctx.view.recovery <= Recovery::Disorder {
            self.enter_cwr(ctx);
        }
        if dubious || ctx.view.recovery != Recovery::Open {
            repair = self.alert(ctx, &mut seen);
        }
        if !seen.keep_timer && (seen.una_advanced || self.sack_is_fresh(ctx, &seen)) {
            self.set_timer(ctx.now, ctx.view, ctx.transport);
        }
        self.adjust_window(ctx, &seen, &mut outcome);
        self.refresh(ctx);
        if ctx.view.recovery == Recovery::Open && self.tcp.retrans_out == 0 {
            self.tcp.retransmissions.clear();
        }
        repair
    }

    /// Writes the counters into the path's view.
    pub fn refresh(&mut self, ctx: &mut SendContext<'_>) {
        let (mss, pipe) = (ctx.transport.mss.get(), self.pipe());
        ctx.view.bytes_in_flight = Bytes::new(pipe * mss);
        ctx.view.retained = Bytes::new((self.flight.next() - self.flight.base()).saturating_sub(pipe) * mss);
        self.publish(ctx);
    }

    #[inline]
    fn last_heard(&mut self, now: Instant, view: &mut Path) {
        self.last_progress = now;
        view.pto_count = 0;
        view.health = Health::Good;
    }

    /// Takes one SACK block: marks what is new of it.
    fn take_block(
        &mut self,
        ctx: &mut SendContext<'_>,
        block: (u64, u64),
        prior_highest: u64,
        seen: &mut Seen,
        outcome: &mut Outcome,
    ) {
        let (lo, hi) = (block.0.max(self.flight.base()), block.1.min(self.flight.next()));
        let Self { sacked, flight, tcp, rate, id, .. } = self;
        sacked.insert(lo, hi, |lo, hi| {
            for index in lo..hi {
                let packet = flight.at_mut(index);
                packet.acked = true;
                if !packet.retransmitted {
                    if index < prior_highest && !packet.ever_retransmitted {
                        seen.reordered = Some(seen.reordered.map_or(index, |low| low.min(index)));
                    }
                    if !packet.ever_retransmitted {
                        seen.original_arrived |= index < tcp.high_seq;
                        seen.first_sacked.get_or_insert(packet.sent_at);
                        seen.last_sacked = Some(packet.sent_at);
                    }
                }
                tcp.rack.advance(ctx.now, packet.sent_at, index, packet.ever_retransmitted, tcp.min_rtt.get());
                tcp.forget_loss(packet);
                rate.on_delivered(ctx.now, packet, &mut outcome.sample);
                let payload = Bytes::new(u64::from(packet.bytes));
                outcome.bytes += payload;
                ctx.view.acked.add(payload);
                ctx.events.push(Event::Acked(packet.receipt(*id)));
                seen.delivered += 1;
                seen.newly_sacked = true;
            }
        });
    }

    /// The cumulative part: settles packets (`tcp_clean_rtx_queue`).
    fn take_cumulative(&mut self, ctx: &mut SendContext<'_>, cum: u64, seen: &mut Seen, outcome: &mut Outcome) {
        let cum = cum.min(self.flight.next());
        while self.flight.base() < cum {
            let index = self.flight.base();
            let Some(mut packet) = self.flight.pop().copied() else { break };
            seen.una_advanced = true;
            if packet.ever_retransmitted {
                seen.retransmitted_acked = true;
            } else if !packet.acked {
                seen.first_acked.get_or_insert(packet.sent_at);
                seen.last_acked = Some(packet.sent_at);
                seen.original_arrived |= index < self.tcp.high_seq;
                if self.sacked.first().is_some_and(|range| index < range.0) {
                    seen.reordered = Some(seen.reordered.map_or(index, |low| low.min(index)));
                }
            }
            if packet.acked {
                continue;
            }
            self.tcp.rack.advance(ctx.now, packet.sent_at, index, packet.ever_retransmitted, self.tcp.min_rtt.get());
            self.tcp.forget_loss(&mut packet);
            self.rate.on_delivered(ctx.now, &packet, &mut outcome.sample);
            let payload = Bytes::new(u64::from(packet.bytes));
            outcome.bytes += payload;
            ctx.view.acked.add(payload);
            ctx.events.push(Event::Acked(packet.receipt(self.id)));
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
            if self.tcp.undo.marker.is_some() && self.tcp.undo.retrans > 0 {
                self.tcp.undo.retrans -= 1;
            }
            self.tcp.rack.widen(self.flight.base(), self.flight.next());
        }
    }

    /// Round-trip samples (`tcp_ack_update_rtt`): never of a packet that was sent twice.
    fn sample_rtt(&mut self, ctx: &mut SendContext<'_>, ack: &Ack, seen: &mut Seen, outcome: &mut Outcome) {
        let since = |at: Instant| ctx.now.since(at);
        let (mut sequence, mut newest) = (None, None);
        if let (Some(first), Some(last), false) = (seen.first_acked, seen.last_acked, seen.retransmitted_acked) {
            (sequence, newest) = (Some(since(first)), Some(since(last)));
        }
        if let (Some(first), Some(last)) = (seen.first_sacked, seen.last_sacked) {
            sequence = sequence.or(Some(since(first)));
            newest = Some(since(last));
        }
        if sequence.is_none() && seen.una_advanced {
            // By the timestamps alone: in whole milliseconds, at least one (`tcp_rtt_tsopt_us`).
            let millis = u64::from(stamp(ctx.now).wrapping_sub(stamp(ack.echo))).max(1);
            (sequence, newest) = (Some(Span::from_millis(millis)), Some(Span::from_millis(millis)));
        }
        let (Some(sequence), Some(newest)) = (sequence, newest) else { return };
        outcome.rtt = Some(newest);
        self.take_rtt(ctx.now, ctx.view, ctx.transport, (sequence, newest));
    }

    /// Takes a sample: of the oldest packet acknowledged, delayed acknowledgements and all, for
    /// the estimator; of the newest for minimum and controller.
    #[inline(always)]
    fn take_rtt(
        &mut self,
        now: Instant,
        view: &mut Path,
        transport: &TransportConfig,
        (sequence, newest): (Span, Span),
    ) {
        let min = self.tcp.min_rtt.update(now, newest);
        self.tcp.rtt.sample(sequence, transport.min_rto, self.flight.base(), self.flight.next());
        self.tcp.back_off(0, transport);
        publish(view, newest, self.tcp.rtt.srtt(), self.tcp.rtt.rttvar());
        view.min_rtt = min;
    }

    /// A SACK of something sent after the head lets the timeout start afresh.
    fn sack_is_fresh(&self, ctx: &SendContext<'_>, seen: &Seen) -> bool {
        match (seen.first_sacked, self.flight.front()) {
            (Some(sacked), Some(head)) => ctx.now.since(sacked) > ctx.now.since(head.sent_at),
            _ => false,
        }
    }
}

impl Tcp {
    /// The retransmission timeout.
    #[inline]
    pub fn rto(&self) -> Span {
        self.rto
    }

    /// Takes the timeout that follows from the samples, doubled `times` times.
    #[inline]
    fn back_off(&mut self, times: u32, transport: &TransportConfig) {
        let base = match transport.rto_floor {
            RtoFloor::Linux => self.rtt.rto(),
            RtoFloor::Rfc6298 => self.rtt.rto_rfc6298(transport.min_rto),
        };
        self.backoff = times;
        // Linux counts it in ticks before it doubles it.
        let base = if times == 0 { base } else { transport.whole_ticks(base) };
        self.rto = (base * (1 << times.min(16))).min(Span::from_secs(120));
    }

    /// A packet arrived: it is neither lost nor in flight a second time.
    fn forget_loss(&mut self, packet: &mut SentPacket) {
        if packet.lost {
            packet.lost = false;
            self.lost_out -= 1;
        }
        if packet.retransmitted {
            packet.retransmitted = false;
            self.retrans_out -= 1;
        }
    }
}
