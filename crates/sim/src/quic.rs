//! Loss recovery of one QUIC path: RFC 9002 in a packet-number space of its own.
//!
//! A packet is lost when three later ones have arrived, or when one that left 9/8 of a round trip
//! after it has. What it carried goes back to the connection and is scheduled again, on any path.
//! Probe timeouts send a copy of the oldest data past the window.
//! Switch: `credit_late_acks`. With it a packet that is acknowledged after it was declared lost
//! counts as delivered, and an episode whose packets all arrive is taken back; without it the
//! sender has forgotten such a packet, as some stacks do.
//! State: the start of the recovery period, the loss time, the probe count.

use weftway_cc::Signal;
use weftway_path::{Bytes, Event, Health, Instant, Recovery, Span};

use crate::flight::Flown;
use crate::rtt::{QuicRtt, publish};
use crate::sender::{Desk, Outcome, PathSender, Timer};
use crate::tap::Note;
use crate::wire::Ack;

/// kGranularity.
const GRANULARITY: Span = Span::from_millis(1);

/// The recovery state of one path.
#[derive(Clone, Debug, Default)]
pub struct Quic {
    /// Round-trip estimate.
    pub rtt: QuicRtt,
    /// Packets sent before are part of the current episode.
    recovery_start: Option<Instant>,
    largest_acked: Option<u64>,
    /// Packets below this number have been judged.
    judged: u64,
    last_sent: Instant,
    /// Packets of the current episode that have not turned up.
    episode_missing: u64,
    /// Probes that the connection must send now, whatever the window.
    pub probes: u32,
}

impl PathSender {
    /// The handshake's round trip is the first sample.
    pub fn quic_start(&mut self, desk: &mut Desk<'_>, rtt: Span) {
        self.quic.rtt.sample(rtt, Span::ZERO);
        publish(desk.view, rtt, self.quic.rtt.srtt(), self.quic.rtt.rttvar());
        self.publish(desk);
    }

    /// After a new packet: the probe timeout counts from it.
    #[inline]
    pub fn quic_sent(&mut self, desk: &mut Desk<'_>) {
        self.quic.last_sent = desk.now;
        if self.timer != Timer::Reorder {
            self.arm_probe(desk);
        }
    }

    fn arm_probe(&mut self, desk: &mut Desk<'_>) {
        if desk.view.bytes_in_flight == Bytes::ZERO {
            return self.disarm();
        }
        let pto = self.quic.rtt.pto(desk.transport.ack_delay) * (1 << desk.view.pto_count.min(10));
        // Never in the past: an acknowledgement that resets the back-off may come late.
        self.arm(Timer::Timeout, (self.quic.last_sent + pto).max(desk.now));
    }

    /// Processes an acknowledgement.
    pub fn quic_acked(&mut self, desk: &mut Desk<'_>, ack: &Ack, blocks: &[(u64, u64)]) {
        let mut outcome = Outcome { prior_in_flight: desk.view.bytes_in_flight, ..Outcome::default() };
        let mut newest: Option<(u64, Instant)> = None;
        let next = self.flight.next();
        self.take_range(desk, (self.flight.base(), ack.cum.min(next)), &mut newest, &mut outcome);
        for &(lo, hi) in blocks {
            let range = (lo.max(self.flight.base()), hi.min(next));
            self.take_range(desk, range, &mut newest, &mut outcome);
        }
        let Some((number, sent_at)) = newest else { return };
        if self.quic.largest_acked.is_none_or(|largest| number > largest) {
            self.quic.largest_acked = Some(number);
            let rtt = desk.now.since(sent_at);
            let delay = Span::from_nanos(u64::from(ack.delay_ns)).min(desk.transport.ack_delay);
            self.quic.rtt.sample(rtt, delay);
            publish(desk.view, rtt, self.quic.rtt.srtt(), self.quic.rtt.rttvar());
            outcome.rtt = Some(rtt);
        }
        self.leave_recovery(desk, sent_at);
        desk.view.pto_count = 0;
        desk.view.health = Health::Good;
        self.last_progress = desk.now;
        self.quic_losses(desk, &mut outcome);
        if ack.marked {
            self.episode(desk, Signal::Ecn, outcome.prior_in_flight, (Bytes::ZERO, sent_at));
        }
        outcome.reducing = desk.view.recovery != Recovery::Open;
        self.control(desk, &outcome);
        self.slide(desk);
        self.publish(desk);
    }

    /// Settles the packets of one range that are not settled yet.
    fn take_range(
        &mut self,
        desk: &mut Desk<'_>,
        range: (u64, u64),
        newest: &mut Option<(u64, Instant)>,
        outcome: &mut Outcome,
    ) {
        let Self { sacked, flight, quic, rate, id, .. } = self;
        let late = desk.transport.credit_late_acks;
        sacked.insert(range.0, range.1, |lo, hi| {
            for index in lo..hi {
                let flown = flight.at_mut(index);
                flown.acked = true;
                if flown.lost {
                    if !late {
                        continue;
                    }
                    quic.turned_up(flown);
                } else {
                    let charge = Bytes::new(u64::from(flown.bytes));
                    desk.view.bytes_in_flight -= charge;
                }
                let payload = Bytes::new(u64::from(flown.bytes));
                rate.on_delivered(desk.now, flown, &mut outcome.sample);
                outcome.bytes += payload;
                desk.view.acked.add(payload);
                desk.outbox.acknowledge(flown.chunk);
                desk.events.push(Event::Acked(flown.receipt(*id)));
                if newest.is_none_or(|(number, _)| index > number) {
                    *newest = Some((index, flown.sent_at));
                }
            }
        });
    }

    /// The episode ends when something sent during it is acknowledged.
    fn leave_recovery(&mut self, desk: &mut Desk<'_>, sent_at: Instant) {
        let Some(start) = self.quic.recovery_start else { return };
        if desk.view.recovery != Recovery::Open && sent_at > start {
            desk.view.recovery = Recovery::Open;
            self.cc.on_recovered(desk.now);
        } else if desk.transport.credit_late_acks
            && self.quic.episode_missing == 0
            && desk.view.recovery != Recovery::Open
        {
            desk.view.recovery = Recovery::Open;
            desk.tally.spurious += 1;
            self.quic.recovery_start = None;
            self.cc.on_spurious(desk.now);
        }
    }

    /// RFC 9002 §6.1.
    fn quic_losses(&mut self, desk: &mut Desk<'_>, outcome: &mut Outcome) {
        let Some(largest) = self.quic.largest_acked else { return };
        let longest = desk.view.srtt.max(desk.view.latest_rtt);
        let delay = (longest * desk.transport.time_threshold_eighths / 8).max(GRANULARITY);
        let mut due = Instant::NEVER;
        let mut index = self.quic.judged.max(self.flight.base());
        let mut contiguous = true;
        // The newest loss; the first of a run of losses without an acknowledged packet between them
        // (RFC 9002 §7.6.2), and the longest such run.
        let (mut newest, mut run, mut longest_run): (Option<Instant>, Option<Instant>, Span) = Default::default();
        while index < largest {
            let flown = *self.flight.at(index);
            if !flown.acked && !flown.lost {
                let by_count = index + desk.transport.packet_threshold <= largest;
                let by_time = flown.sent_at + delay;
                if by_count || by_time <= desk.now {
                    self.lose(desk, index, outcome);
                    newest = Some(flown.sent_at);
                    longest_run = longest_run.max(flown.sent_at.since(*run.get_or_insert(flown.sent_at)));
                } else {
                    due = due.min(by_time);
                    contiguous = false;
                }
            } else if flown.acked {
                run = None;
            }
            index += 1;
            if contiguous {
                self.quic.judged = index;
            }
        }
        if let Some(newest) = newest {
            let persistent = self.quic.rtt.pto(desk.transport.ack_delay) * 3;
            let signal = if longest_run > persistent { Signal::Persistent } else { Signal::Loss };
            self.episode(desk, signal, outcome.prior_in_flight, (outcome.lost, newest));
        }
        if due.is_never() {
            self.timer = Timer::Idle;
            self.arm_probe(desk);
        } else {
            self.arm(Timer::Reorder, due);
        }
    }

    fn lose(&mut self, desk: &mut Desk<'_>, index: u64, outcome: &mut Outcome) {
        let flown = self.flight.at_mut(index);
        flown.lost = true;
        let payload = Bytes::new(u64::from(flown.bytes));
        outcome.lost += payload;
        desk.view.bytes_in_flight -= payload;
        desk.view.lost.add(payload);
        desk.tally.retransmissions += 1;
        desk.outbox.hand_back(flown.chunk);
        desk.events.push(Event::Lost(flown.receipt(self.id)));
        self.quic.episode_missing = self.quic.episode_missing.saturating_add(1);
        desk.tap.note(desk.now, desk.conn, || Note::Lost { path: self.id, index });
    }

    /// A new episode, unless the packet was sent before the current one began.
    fn episode(&mut self, desk: &mut Desk<'_>, signal: Signal, prior: Bytes, lost: (Bytes, Instant)) {
        let within = self.quic.recovery_start.is_some_and(|start| lost.1 <= start);
        if within && signal != Signal::Persistent {
            return;
        }
        self.quic.recovery_start = Some(desk.now);
        let missing = self.flight.iter().filter(|flown| flown.lost && !flown.acked).count() as u64;
        // A mark is not taken back, whatever turns up.
        self.quic.episode_missing = if signal == Signal::Ecn { u64::MAX } else { missing };
        desk.view.recovery = Recovery::Recovery;
        self.congestion(desk, signal, prior, lost);
    }

    /// Forgets what is settled: acknowledged packets, and lost ones for which nobody waits.
    fn slide(&mut self, desk: &mut Desk<'_>) {
        let patience = self.quic.rtt.pto(desk.transport.ack_delay) * 3;
        while let Some(front) = self.flight.front() {
            let forgotten = !desk.transport.credit_late_acks || desk.now.since(front.sent_at) > patience;
            if !(front.acked || front.lost && forgotten) {
                break;
            }
            self.flight.pop();
        }
        self.sacked.remove_below(self.flight.base());
    }

    /// The timer fired. After a probe timeout, [`Quic::probes`] packets may pass the window.
    pub fn quic_timer(&mut self, desk: &mut Desk<'_>) {
        let timer = self.timer;
        self.disarm();
        if timer == Timer::Reorder {
            let mut outcome = Outcome { prior_in_flight: desk.view.bytes_in_flight, ..Outcome::default() };
            self.quic_losses(desk, &mut outcome);
            outcome.reducing = desk.view.recovery != Recovery::Open;
            self.control(desk, &outcome);
            self.slide(desk);
        } else if timer == Timer::Timeout && desk.view.bytes_in_flight > Bytes::ZERO {
            desk.tally.timeouts += 1;
            desk.view.pto_count += 1;
            if desk.view.pto_count >= 2 {
                desk.view.health = Health::Suspect;
            }
            self.quic.probes = 1 + u32::from(desk.view.pto_count > 1);
            self.quic.last_sent = desk.now;
            self.arm_probe(desk);
            desk.tap.note(desk.now, desk.conn, || Note::Timeout { path: self.id, kind: "pto" });
        }
        self.publish(desk);
    }

    /// The oldest packet that is neither acknowledged nor lost: what a probe repeats.
    pub fn oldest_unsettled(&self) -> Option<&Flown> {
        self.flight.iter().find(|flown| !flown.acked && !flown.lost)
    }
}

impl Quic {
    fn turned_up(&mut self, flown: &Flown) {
        if self.recovery_start.is_some_and(|start| flown.sent_at <= start) {
            self.episode_missing = self.episode_missing.saturating_sub(1);
        }
    }
}
