//! Loss recovery of one QUIC path: RFC 9002 in a packet-number space of its own.
//!
//! A packet is lost when three later ones have arrived, or when one that left 9/8 of a round trip
//! after it has. What it carried goes back to the connection and is scheduled again, on any path.
//! Probe timeouts send a copy of the oldest data past the window. With `reinject_at_pto` the other
//! paths may carry what a silent path has.
//! A packet that is acknowledged after it was declared lost is no delivery for the controller, and
//! its data are sent again.
//! Switch: `credit_late_acks`. With it an episode is taken back when all that was declared lost has
//! arrived; without it the sender has forgotten such a packet, as some stacks do.
//! State: the start of the recovery period, the loss time, the probe count.

use weftway_cc::Signal;
use weftway_host::sending::{Offered, silent_at};
use weftway_path::{Bytes, Event, Health, Instant, Path, Recovery, Span};
use weftway_scenario::config::TransportConfig;

use crate::listeners::Note;
use crate::rtt::{QuicRtt, publish};
use crate::sender::{Outcome, PathSender, SendContext, Timer};
use crate::wire::Ack;

/// kGranularity.
const GRANULARITY: Span = Span::from_millis(1);

/// The recovery state of one path.
#[derive(Clone, Debug, Default)]
pub struct Quic {
    /// Round-trip estimate.
    pub rtt: QuicRtt,
    /// The probe timeout that follows from it, before back-off.
    pto: Span,
    /// Packets sent before are part of the current episode.
    recovery_start: Option<Instant>,
    largest_acked: Option<u64>,
    /// The gaps that the last acknowledgement with blocks told of ([`Ack::gaps`]).
    known_gaps: Option<u32>,
    /// Packets below this number have been judged.
    judged: u64,
    last_sent: Instant,
    /// Packets that were declared lost, have not turned up, and are not forgotten yet.
    missing: u64,
    /// A mark began the current episode: nothing takes that back.
    marked: bool,
    /// Probes that the connection must send now, whatever the window.
    pub probes: u32,
    /// True if what the path has is offered to the others when it falls silent.
    offers: bool,
    /// Packets that were offered to the other paths when this one fell silent.
    pub offered: Offered,
    /// Time at which the path is silent, as of the last acknowledgement ([`silent_at`]): never while all is settled or
    /// offered.
    silent_at: Instant,
}

impl PathSender {
    /// The handshake's round trip is the first sample.
    pub fn quic_start(&mut self, ctx: &mut SendContext<'_>, rtt: Span) {
        (self.quic.offers, self.quic.silent_at) = (ctx.transport.reinject_at_pto, Instant::NEVER);
        self.quic.sample(rtt, Span::ZERO, ctx.transport);
        publish(ctx.view, rtt, self.quic.rtt.srtt(), self.quic.rtt.rttvar());
        self.publish(ctx);
    }

    /// After a new packet: the probe timeout counts from it. The silence counts from the oldest one, which it is if
    /// there was none.
    #[inline]
    pub fn quic_sent(&mut self, now: Instant, view: &Path) {
        self.quic.last_sent = now;
        let silent = self.quic.silent_at;
        // A silent path is seen before its probe is due: the timer waits for that already.
        if self.timer == Timer::Timeout && self.timer_at == silent && silent > now {
            return;
        }
        self.arm_after_send(now, view);
    }

    #[inline(never)]
    fn arm_after_send(&mut self, now: Instant, view: &Path) {
        if self.quic.silent_at.is_never() && self.quic.offers {
            self.quic.silent_at = now + self.quic.pto;
        }
        if self.timer != Timer::Reorder {
            self.arm_probe(now, view);
        }
    }

    /// Sets anew when the path is silent, and the probe timeout: what is in flight or known of the round trip has
    /// changed.
    fn arm_probe_anew(&mut self, now: Instant, view: &Path) {
        if self.quic.offers {
            let (pto, srtt) = (self.quic.pto, self.quic.rtt.srtt());
            self.quic.silent_at = silent_at(self.due_at(), self.last_progress, pto, srtt);
        }
        self.arm_probe(now, view);
    }

    #[inline]
    fn arm_probe(&mut self, now: Instant, view: &Path) {
        if view.bytes_in_flight == Bytes::ZERO {
            return self.disarm();
        }
        // Never in the past: an acknowledgement that resets the back-off may come late.
        let probe = (self.quic.last_sent + self.quic.backed_off(view)).max(now);
        let silent = self.quic.silent_at;
        self.arm(now, Timer::Timeout, if silent > now { probe.min(silent) } else { probe });
    }

    /// Time at which the oldest packet that was not offered to the other paths should be acknowledged.
    #[inline]
    pub fn due_at(&self) -> Instant {
        self.quic.offered.due_at(&self.flight, self.quic.settled_below(), self.quic.rtt.srtt())
    }

    /// Processes an acknowledgement.
    pub fn quic_acked(&mut self, ctx: &mut SendContext<'_>, ack: &Ack, blocks: &[(u64, u64)]) {
        let mut outcome = Outcome { prior_in_flight: ctx.view.bytes_in_flight, ..Outcome::default() };
        let missing = self.quic.missing;
        let mut newest: Option<(u64, Instant)> = None;
        let next = self.flight.next();
        let range = (self.flight.base(), ack.cum.min(next));
        if range.0 < range.1 && missing == 0 && self.sacked.is_empty() {
            newest = Some(self.take_oldest(ctx, range, &mut outcome));
        } else if range.0 < range.1 {
            self.take_range(ctx, range, &mut newest, &mut outcome);
        }
        // Blocks come highest first, and nearly all of them repeat what earlier acknowledgements told.
        let repeats = self.quic.known_gaps == Some(ack.gaps);
        let blocks = if repeats { &blocks[..blocks.len().min(1)] } else { blocks };
        if !blocks.is_empty() {
            self.quic.known_gaps = Some(ack.gaps);
        }
        let mut passed = 0;
        for &(lo, hi) in blocks {
            let range = (lo.max(self.flight.base()), hi.min(next));
            if range.0 < range.1 && !self.sacked.holds(range.0, range.1, &mut passed) {
                self.take_range(ctx, range, &mut newest, &mut outcome);
            }
        }
        let Some((number, sent_at)) = newest else {
            // Only packets that were declared lost turned up, if any did.
            self.take_back(ctx, missing);
            self.slide(ctx);
            return self.publish(ctx);
        };
        if self.quic.largest_acked.is_none_or(|largest| number > largest) {
            self.quic.largest_acked = Some(number);
            if ack.own {
                let rtt = ctx.now.since(sent_at);
                let delay = Span::from_nanos(u64::from(ack.clock)).min(ctx.transport.ack_delay);
                self.quic.sample(rtt, delay, ctx.transport);
                publish(ctx.view, rtt, self.quic.rtt.srtt(), self.quic.rtt.rttvar());
                outcome.rtt = Some(rtt);
            }
        }
        self.take_back(ctx, missing);
        self.leave_recovery(ctx, sent_at);
        ctx.view.pto_count = 0;
        ctx.view.health = Health::Good;
        self.last_progress = ctx.now;
        self.quic_losses(ctx, &mut outcome);
        if ack.marked {
            self.episode(ctx, Signal::Ecn, outcome.prior_in_flight, (Bytes::ZERO, sent_at));
        }
        outcome.reducing = ctx.view.recovery != Recovery::Open;
        self.control(ctx.now, ctx.view, ctx.shares, &outcome);
        self.slide(ctx);
        self.publish(ctx);
    }

    /// Settles and forgets the packets of one range, which are the oldest ones: nothing is settled yet. The last one
    /// and when it was sent.
    fn take_oldest(&mut self, ctx: &mut SendContext<'_>, range: (u64, u64), outcome: &mut Outcome) -> (u64, Instant) {
        let last = *self.flight.at(range.1 - 1);
        let bytes = self.flight.settle_below(range.1, |packet| {
            ctx.outbox.acknowledge(packet.chunk);
            ctx.events.push(Event::Acked(packet.receipt(self.id)));
        });
        outcome.bytes = bytes;
        ctx.view.bytes_in_flight -= bytes;
        ctx.view.acked.bytes = ctx.view.acked.bytes.plus(bytes);
        ctx.view.acked.packets += range.1 - range.0;
        self.rate.on_delivered_together(ctx.now, bytes, &last, &mut outcome.sample);
        (range.1 - 1, last.sent_at)
    }

    /// Settles the packets of one range that are not settled yet. A packet that was declared lost is settled (RFC 9002
    /// §A.7): its acknowledgement is neither a delivery nor a sample of the round trip. Its data are sent again all the
    /// same, as noq does; RFC 9000 §13.3 would rather not.
    fn take_range(
        &mut self,
        ctx: &mut SendContext<'_>,
        range: (u64, u64),
        newest: &mut Option<(u64, Instant)>,
        outcome: &mut Outcome,
    ) {
        let Self { sacked, flight, quic, rate, id, .. } = self;
        let late = ctx.transport.credit_late_acks;
        sacked.insert(range.0, range.1, |lo, hi| {
            for index in lo..hi {
                let packet = flight.at_mut(index);
                packet.acked = true;
                if packet.lost {
                    if late {
                        quic.missing = quic.missing.saturating_sub(1);
                    }
                    continue;
                }
                let payload = Bytes::new(u64::from(packet.bytes));
                ctx.view.bytes_in_flight -= payload;
                rate.on_delivered(ctx.now, packet, &mut outcome.sample);
                outcome.bytes += payload;
                ctx.view.acked.add(payload);
                ctx.outbox.acknowledge(packet.chunk);
                ctx.events.push(Event::Acked(packet.receipt(*id)));
                if newest.is_none_or(|(number, _)| index > number) {
                    *newest = Some((index, packet.sent_at));
                }
            }
        });
    }

    /// The episode ends when something sent during it is acknowledged.
    fn leave_recovery(&mut self, ctx: &mut SendContext<'_>, sent_at: Instant) {
        let Some(start) = self.quic.recovery_start else { return };
        if ctx.view.recovery != Recovery::Open && sent_at > start {
            ctx.view.recovery = Recovery::Open;
            self.cc.on_recovered(ctx.now);
        }
    }

    /// Takes the reduction back if this acknowledgement brought the last of the packets that were `missing`.
    fn take_back(&mut self, ctx: &mut SendContext<'_>, missing: u64) {
        let all_arrived = missing > 0 && self.quic.missing == 0;
        if all_arrived && !self.quic.marked && ctx.view.recovery != Recovery::Open {
            ctx.view.recovery = Recovery::Open;
            ctx.tally().spurious += 1;
            self.quic.recovery_start = None;
            self.cc.on_spurious(ctx.now);
        }
    }

    /// RFC 9002 §6.1.
    #[inline]
    fn quic_losses(&mut self, ctx: &mut SendContext<'_>, outcome: &mut Outcome) {
        let Some(largest) = self.quic.largest_acked else { return };
        let mut index = self.quic.judged.max(self.flight.base());
        while index < largest && self.flight.at(index).is_settled() {
            index += 1;
        }
        self.quic.judged = index;
        if index >= largest {
            self.timer = Timer::Idle;
            return self.arm_probe_anew(ctx.now, ctx.view);
        }
        self.find_lost(ctx, index, largest, outcome);
    }

    /// Finds what is lost of the packets from `index` up to `largest`, the first of which is not settled.
    #[inline(never)]
    fn find_lost(&mut self, ctx: &mut SendContext<'_>, mut index: u64, largest: u64, outcome: &mut Outcome) {
        let longest = ctx.view.srtt.max(ctx.view.latest_rtt);
        let delay = (longest * ctx.transport.time_threshold_eighths / 8).max(GRANULARITY);
        let mut due = Instant::NEVER;
        let mut contiguous = true;
        // The newest loss; the first of a run of losses without an acknowledged packet between them
        // (RFC 9002 §7.6.2), and the longest such run.
        let (mut newest, mut run, mut longest_run): (Option<Instant>, Option<Instant>, Span) = Default::default();
        while index < largest {
            let packet = *self.flight.at(index);
            if !packet.acked && !packet.lost {
                let by_count = index + ctx.transport.packet_threshold <= largest;
                let by_time = packet.sent_at + delay;
                if by_count || by_time <= ctx.now {
                    self.lose(ctx, index, outcome);
                    newest = Some(packet.sent_at);
                    longest_run = longest_run.max(packet.sent_at.since(*run.get_or_insert(packet.sent_at)));
                } else {
                    due = due.min(by_time);
                    contiguous = false;
                }
            } else if packet.acked {
                run = None;
            }
            index += 1;
            if contiguous {
                self.quic.judged = index;
            }
        }
        if let Some(newest) = newest {
            let persistent = self.quic.pto * 3;
            let signal = if longest_run > persistent { Signal::Persistent } else { Signal::Loss };
            self.episode(ctx, signal, outcome.prior_in_flight, (outcome.lost, newest));
        }
        if due.is_never() {
            self.timer = Timer::Idle;
            self.arm_probe_anew(ctx.now, ctx.view);
        } else {
            self.arm(ctx.now, Timer::Reorder, due);
        }
    }

    fn lose(&mut self, ctx: &mut SendContext<'_>, index: u64, outcome: &mut Outcome) {
        let packet = self.flight.at_mut(index);
        packet.lost = true;
        let packet = *packet;
        let payload = Bytes::new(u64::from(packet.bytes));
        outcome.lost += payload;
        ctx.view.bytes_in_flight -= payload;
        ctx.view.lost.add(payload);
        self.quic.offered.lose(index, packet.chunk, self.id, ctx.outbox);
        ctx.events.push(Event::Lost(packet.receipt(self.id)));
        ctx.tally().retransmissions += 1;
        self.quic.missing += 1;
        ctx.listeners.note(ctx.now, ctx.conn, || Note::Lost { path: self.id, index });
    }

    /// A new episode, unless the packet was sent before the current one began.
    fn episode(&mut self, ctx: &mut SendContext<'_>, signal: Signal, prior: Bytes, lost: (Bytes, Instant)) {
        let within = self.quic.recovery_start.is_some_and(|start| lost.1 <= start);
        if within && signal != Signal::Persistent || self.cc.ignores(&Self::congested(ctx, signal, prior, lost)) {
            return;
        }
        self.quic.recovery_start = Some(ctx.now);
        self.quic.marked = signal == Signal::Ecn;
        ctx.view.recovery = Recovery::Recovery;
        self.congestion(ctx, signal, prior, lost);
    }

    /// Forgets what is settled: acknowledged packets, and lost ones that nobody expects any more, two probe timeouts
    /// after they were sent (noq, msquic).
    fn slide(&mut self, ctx: &mut SendContext<'_>) {
        while let Some(front) = self.flight.front() {
            if !front.acked {
                let expected = || ctx.now.since(front.sent_at) <= self.quic.rtt.pto(Span::ZERO) * 2;
                if !front.lost || ctx.transport.credit_late_acks && expected() {
                    break;
                }
                self.quic.missing = self.quic.missing.saturating_sub(1);
            }
            self.flight.pop();
        }
        self.sacked.remove_below(self.flight.base());
    }

    /// The timer fired. After a probe timeout, [`Quic::probes`] packets may pass the window.
    pub fn quic_timer(&mut self, ctx: &mut SendContext<'_>) {
        let timer = self.timer;
        self.disarm();
        if timer == Timer::Reorder {
            let mut outcome = Outcome { prior_in_flight: ctx.view.bytes_in_flight, ..Outcome::default() };
            self.quic_losses(ctx, &mut outcome);
            outcome.reducing = ctx.view.recovery != Recovery::Open;
            self.control(ctx.now, ctx.view, ctx.shares, &outcome);
            self.slide(ctx);
        } else if timer == Timer::Timeout && ctx.now < self.quic.last_sent + self.quic.backed_off(ctx.view) {
            // Only silent.
            self.arm_probe(ctx.now, ctx.view);
        } else if timer == Timer::Timeout && ctx.view.bytes_in_flight > Bytes::ZERO {
            ctx.tally().timeouts += 1;
            ctx.view.pto_count += 1;
            if ctx.view.pto_count >= 2 {
                ctx.view.health = Health::Suspect;
            }
            self.quic.probes = 1 + u32::from(ctx.view.pto_count > 1);
            self.quic.last_sent = ctx.now;
            self.arm_probe(ctx.now, ctx.view);
            ctx.listeners.note(ctx.now, ctx.conn, || Note::Timeout { path: self.id, kind: "pto" });
        }
        self.publish(ctx);
    }

    /// The path is silent: what it has in flight may go on the others, other than what was offered to them before, and
    /// what waits. It takes no new data while another path can, until something is heard of it. No packet counts as
    /// lost (RFC 9002 §6.2).
    pub fn offer_all(&mut self, ctx: &mut SendContext<'_>) {
        ctx.view.health = Health::Suspect;
        self.quic.offered.offer(&self.flight, self.id, ctx.outbox);
        self.quic.silent_at = Instant::NEVER;
        while let Some(assigned) = self.take_queued(ctx) {
            ctx.events.push(Event::Recalled(assigned.receipt(self.id)));
            ctx.outbox.lose(assigned.chunk, self.id);
        }
    }

    /// Everything in flight was offered to the other paths.
    pub fn note_offered(&mut self) {
        self.quic.offered.add_all(&self.flight);
        self.quic.silent_at = Instant::NEVER;
    }
}

impl Quic {
    /// The probe timeout, doubled for each in a row.
    #[inline]
    fn backed_off(&self, view: &Path) -> Span {
        match view.pto_count {
            0 => self.pto,
            count => self.pto * (1 << count.min(10)),
        }
    }

    /// All packets below this number are acknowledged or lost.
    #[inline]
    pub fn settled_below(&self) -> u64 {
        match self.largest_acked {
            Some(largest) if self.judged >= largest => largest + 1,
            _ => self.judged,
        }
    }

    /// Takes a round-trip sample.
    fn sample(&mut self, rtt: Span, delay: Span, transport: &TransportConfig) {
        self.rtt.sample(rtt, delay);
        self.pto = self.rtt.pto(transport.ack_delay);
    }
}
