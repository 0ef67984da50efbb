//! A path at the end that sends the data: what is in flight, its congestion controller, its pacer, its probes.
//!
//! noq finds losses (RFC 9002 §6.1) and reports them, or `sending_path/reordering.rs` finds them; the window is ours.
//! Packets are known by noq's packet numbers. A probe timeout (RFC 9002 §6.2) repeats the oldest data, a moment before
//! noq would send a PING.

use std::collections::VecDeque;

use weftway_cc::{Acked, Congestion, Controller, Sent, Share, Signal};
use weftway_host::sending::{Assigned, Flight, Offered, Pace, PacedBy, Pacer, RateSampler, Sample, SentPacket};
use weftway_path::{BlockedReason, Bytes, Instant, Path, Recovery, SendKind, Span};
use weftway_scenario::config::TransportConfig;

use super::outage::Outages;
use parts::Parts;
pub(super) use queue_bound::QueueBound;
use reordering::{Latecomer, Reordering};
use standing_queue::StandingQueue;

mod parts;
mod queue_bound;
pub(crate) mod reordering;
mod silence;
mod standing_queue;
#[cfg(test)]
mod tests;

/// Time that noq is given to validate an address of the peer's. It may send three times what came from there, and a
/// challenge has 1200 bytes: that the peer sends on meanwhile is what it needs.
const VALIDATION: Span = Span::from_secs(2);

/// noq gives up an address that is not validated after three probe timeouts, the longest of which begins with a guess
/// of a third of a second, and lets nothing but probes onto the path from then on. Who was refused for so long waits in
/// vain.
const REFUSED_FOR_GOOD: Span = Span::from_secs(5);

/// Stage of a path.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    /// It does not exist.
    Absent,
    /// It is usable.
    Up,
    /// It was silent for too long. It is asked now and then whether it is alive.
    Down {
        /// Time to ask next.
        ask_at: Instant,
    },
}

/// Counters of one path.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PathTally {
    /// Packets with data, repeated ones included.
    pub packets: u64,
    /// Their data.
    pub bytes: u64,
    /// Packets declared lost.
    pub retransmissions: u64,
    /// Data that were handed back and sent here, and probes.
    pub reinjections: u64,
    /// Copies of data in flight.
    pub copies: u64,
    /// Probe timeouts.
    pub timeouts: u64,
    /// Reductions that were taken back.
    pub spurious: u64,
    /// Number of times that it was given up.
    pub given_up: u64,
}

/// A path that sends.
pub(super) struct SendingPath {
    pub cc: Box<dyn Controller>,
    /// By noq's packet number. Packets without data have no bytes and count as acknowledged.
    pub flight: Flight,
    pub queue: VecDeque<Assigned>,
    pub pacer: Pacer,
    paced_by: PacedBy,
    initial_window: Bytes,
    pub stage: Stage,
    /// Which of noq's paths it is.
    pub generation: Option<usize>,
    pub tally: PathTally,
    /// Time at which something last came back, or since when something is outstanding.
    pub last_progress: Instant,
    /// Time at which a probe is due.
    pub probe_at: Instant,
    /// Times at which it could not be used.
    pub outages: Outages,
    /// Packets that were offered to the other paths when this one fell silent.
    pub offered: Offered,
    /// Packets that left in several parts.
    pub parts: Parts,
    /// Time at which noq last let no data onto it.
    pub refused_at: Option<Instant>,
    /// Since when it has let none.
    refused_since: Option<Instant>,
    /// Length of the queue that it may keep, while there are realtime data.
    pub queue_bound: Option<QueueBound>,
    rate: RateSampler,
    last_sent: Instant,
    /// Packets sent before belong to the current episode.
    recovery_start: Option<Instant>,
    largest_acked: Option<u64>,
    /// noq's smoothed round trip, as it was told last.
    noq_srtt: Span,
    usage: Usage,
    /// Length of the queue that its window may build.
    standing_queue: Option<StandingQueue>,
    /// Loss detection, where it is not left to noq.
    pub reordering: Option<Reordering>,
}

/// Use of the window in a round.
#[derive(Clone, Copy, Debug, Default)]
struct Usage {
    limited: bool,
    most: Bytes,
    /// The packet with which the next round begins.
    until: u64,
}

/// Packets that one call into noq settled on a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outcome {
    pub acked: Bytes,
    pub lost: Bytes,
    pub prior_in_flight: Bytes,
    /// Times at which the oldest and the newest of the packets left that were declared lost.
    pub oldest_lost: Option<Instant>,
    pub newest_lost: Option<Instant>,
    /// Time at which the newest packet left that is lost for good: noq declared it lost, here it may have been before.
    pub newest_forgotten: Option<Instant>,
    /// The round trip of the packet with the highest number, which that is, and what was delivered meanwhile.
    pub rtt: Option<Span>,
    pub newest: (u64, Bytes),
    pub sample: Sample,
    /// True if an acknowledgement came.
    pub heard: bool,
}

impl SendingPath {
    pub fn new(cc: Box<dyn Controller>, transport: &TransportConfig) -> Self {
        Self {
            paced_by: PacedBy::new(cc.pacing_rate().is_some(), transport.pace_window),
            initial_window: transport.initial_cwnd(),
            cc,
            flight: Flight::default(),
            queue: VecDeque::new(),
            pacer: Pacer::default(),
            stage: Stage::Absent,
            generation: None,
            tally: PathTally::default(),
            last_progress: Instant::ZERO,
            probe_at: Instant::NEVER,
            outages: Outages::default(),
            offered: Offered::default(),
            parts: Parts::default(),
            refused_at: None,
            refused_since: None,
            queue_bound: None,
            rate: RateSampler::default(),
            last_sent: Instant::ZERO,
            recovery_start: None,
            largest_acked: None,
            noq_srtt: Span::ZERO,
            usage: Usage::default(),
            standing_queue: transport.standing_queue.map(StandingQueue::new),
            reordering: transport.adapts_to_reordering.then(Reordering::default),
        }
    }

    /// As new, with this controller; counts go on, and packet numbers if it is the same path of noq's.
    pub fn renew(
        &mut self,
        now: Instant,
        generation: Option<usize>,
        cc: Box<dyn Controller>,
        transport: &TransportConfig,
    ) {
        let old = std::mem::replace(self, Self::new(cc, transport));
        (self.tally, self.refused_at, self.refused_since) = (old.tally, old.refused_at, old.refused_since);
        self.outages = old.outages;
        self.outages.end(now);
        if old.generation == generation {
            (self.flight, self.largest_acked) = (old.flight, old.largest_acked);
            self.flight.clear();
        }
        (self.generation, self.stage, self.last_progress) = (generation, Stage::Up, now);
    }

    /// Packet `number` left.
    pub fn on_sent(&mut self, now: Instant, view: &mut Path, number: u64, assigned: &Assigned) {
        let idle = view.bytes_in_flight == Bytes::ZERO;
        if idle {
            self.last_progress = now;
        }
        self.refused_since = None;
        // A path that goes on at another address of the peer's has high numbers, and nothing in flight.
        self.flight.skip_to(number);
        while self.flight.next() < number {
            let mut none = SentPacket::new(now, assigned.offset, 0);
            none.acked = true;
            self.flight.push(none);
        }
        let mut packet = SentPacket::new(now, assigned.offset, assigned.bytes);
        (packet.serial, packet.chunk) = (assigned.serial, assigned.chunk);
        self.rate.on_sent(now, idle, &mut packet);
        self.flight.push(packet);
        let payload = Bytes::new(u64::from(assigned.bytes));
        view.bytes_in_flight += payload;
        view.sent.add(payload);
        view.next = view.next.max(assigned.offset + payload);
        self.last_sent = now;
        if let Some(pace) = self.pace(view) {
            self.pacer.on_sent(now, payload, pace);
        }
        self.cc.on_sent(&Sent {
            now,
            bytes: payload,
            bytes_in_flight: view.bytes_in_flight,
            after_idle: idle,
            app_limited: self.rate.is_app_limited(),
        });
        self.tally.packets += 1;
        self.tally.bytes += payload.get();
        match assigned.kind {
            SendKind::Fresh | SendKind::Ahead => {}
            SendKind::Reinjection => self.tally.reinjections += 1,
            SendKind::Duplicate => self.tally.copies += 1,
        }
    }

    /// Pace at which packets may leave.
    fn pace(&self, view: &Path) -> Option<Pace> {
        match self.paced_by {
            PacedBy::Nothing => None,
            PacedBy::Controller => self.cc.pacing().map(|(rate, quantum)| Pace::even(rate, quantum, view.mss)),
            PacedBy::Window => {
                PacedBy::window_pace(view, |rate| weftway_cc::send_quantum(rate, view.mss, 2), self.initial_window)
            }
        }
    }

    /// Packet `number` was acknowledged: what it was, if it carried data.
    pub fn on_acked(
        &mut self,
        now: Instant,
        view: &mut Path,
        number: u64,
        outcome: &mut Outcome,
    ) -> Option<SentPacket> {
        let packet = self.flight.get_mut(number).filter(|packet| !packet.acked && !packet.lost)?;
        packet.acked = true;
        let packet = *packet;
        let payload = Bytes::new(u64::from(packet.bytes));
        view.bytes_in_flight -= payload;
        view.acked.add(payload);
        self.rate.on_delivered(now, &packet, &mut outcome.sample);
        outcome.acked += payload;
        let is_overtaken = self.largest_acked.is_some_and(|largest| number < largest);
        if let Some(reordering) = self.reordering.as_mut().filter(|_| is_overtaken) {
            reordering.on_late(now, view, packet.sent_at);
        }
        if self.largest_acked.is_none_or(|largest| number > largest) {
            self.largest_acked = Some(number);
            outcome.rtt = Some(now.since(packet.sent_at));
            outcome.newest = (number, self.rate.delivered() - packet.delivered);
        }
        Some(packet)
    }

    /// Packet `number` was acknowledged: what it was, if it was declared lost before. It counts as delivered, and a
    /// reduction is taken back as soon as all packets have arrived for which it was made.
    pub fn on_late(
        &mut self,
        now: Instant,
        view: &mut Path,
        share: &mut Share,
        number: u64,
        outcome: &mut Outcome,
    ) -> Option<SentPacket> {
        let Latecomer { packet, is_reduction_spurious } = self.reordering.as_mut()?.on_arrived(now, view, number)?;
        let payload = Bytes::new(u64::from(packet.bytes));
        view.acked.add(payload);
        self.rate.on_delivered(now, &packet, &mut outcome.sample);
        outcome.acked += payload;
        if is_reduction_spurious {
            self.on_spurious(now, view, share);
        }
        Some(packet)
    }

    /// noq declared packet `number` lost, and reports nothing more of it.
    pub fn forget(&mut self, number: u64, outcome: &mut Outcome) {
        let sent = self.reordering.as_mut().and_then(|reordering| reordering.forget(number));
        outcome.newest_forgotten = outcome.newest_forgotten.max(sent);
    }

    /// The next packet that counts as lost, where noq does not say it.
    pub fn next_lost(&mut self, now: Instant, view: &Path) -> Option<u64> {
        self.reordering.as_mut()?.next_lost(now, view, &self.flight, self.largest_acked?)
    }

    /// Time at which a packet counts as lost, where noq does not say it.
    pub fn loss_due(&self) -> Instant {
        self.reordering.as_ref().map_or(Instant::NEVER, Reordering::due)
    }

    /// Packet `number` was declared lost: what it was, if it carried data.
    pub fn on_lost(&mut self, view: &mut Path, number: u64, outcome: &mut Outcome) -> Option<SentPacket> {
        let packet = self.flight.get_mut(number).filter(|packet| !packet.acked && !packet.lost)?;
        packet.lost = true;
        let packet = *packet;
        let payload = Bytes::new(u64::from(packet.bytes));
        view.bytes_in_flight -= payload;
        view.lost.add(payload);
        outcome.lost += payload;
        outcome.oldest_lost.get_or_insert(packet.sent_at);
        outcome.newest_lost = outcome.newest_lost.max(Some(packet.sent_at));
        self.tally.retransmissions += 1;
        if let Some(reordering) = &mut self.reordering {
            reordering.lose(number, packet);
        }
        Some(packet)
    }

    /// Congestion, as noq sees it. Whether a new episode begins: at most one in a round trip.
    pub fn on_congestion(
        &mut self,
        now: Instant,
        view: &mut Path,
        signal: Signal,
        outcome: &Outcome,
        siblings: &[Share],
    ) -> bool {
        let marked = (signal == Signal::Ecn).then_some(outcome.sample.newest_sent).flatten();
        let forgotten = (signal == Signal::Persistent).then_some(outcome.newest_forgotten).flatten();
        let Some(sent) = outcome.newest_lost.or(marked).or(forgotten) else { return false };
        let within = self.recovery_start.is_some_and(|start| sent <= start);
        if within && signal != Signal::Persistent {
            return false;
        }
        let congestion = Congestion {
            now,
            signal,
            bytes_in_flight: outcome.prior_in_flight,
            lost: outcome.lost,
            lost_sent: sent,
            srtt: view.srtt,
        };
        if self.cc.ignores(&congestion) {
            return false;
        }
        self.recovery_start = Some(now);
        view.recovery = Recovery::Recovery;
        if let Some(reordering) = &mut self.reordering {
            let may_arrive = |&oldest: &Instant| outcome.newest_forgotten.is_none_or(|forgotten| forgotten < oldest);
            reordering.on_reduced(outcome.oldest_lost.filter(may_arrive).filter(|_| signal == Signal::Loss));
        }
        self.cc.on_congestion(&congestion, siblings);
        true
    }

    /// Takes in that what was declared lost has arrived after all. The window is what it was at once: often nothing
    /// else is new.
    pub fn on_spurious(&mut self, now: Instant, view: &mut Path, share: &mut Share) {
        if view.recovery != Recovery::Open {
            view.recovery = Recovery::Open;
            self.recovery_start = None;
            self.tally.spurious += 1;
            self.cc.on_spurious(now);
            self.publish(view, share);
        }
    }

    /// The round trip with which the path begins.
    pub fn begin_rtt(&mut self, view: &mut Path, rtt: Span, noq_srtt: Span) {
        self.noq_srtt = noq_srtt;
        (view.srtt, view.rttvar, view.min_rtt) = (rtt, rtt / 2, rtt);
        Self::count_rtt(view, rtt);
    }

    /// An acknowledgement showed a round trip of `latest`, of this path and back on it, if any; noq's estimate is
    /// `noq_srtt` after it. What that has risen or fallen by shows the sample without the delay of the acknowledgement,
    /// which is smoothed here as RFC 9002 §5.3 has it. noq's own first sample replaces its estimate, which then shows
    /// nothing: the sample is never below the least round trip, as §5.3 has it too.
    pub fn on_rtt(&mut self, view: &mut Path, latest: Option<Span>, noq_srtt: Span) {
        let before = std::mem::replace(&mut self.noq_srtt, noq_srtt);
        let Some(latest) = latest else { return };
        if view.rtt_samples == 0 {
            return self.begin_rtt(view, latest, noq_srtt);
        }
        let risen = Span::from_nanos((8 * noq_srtt.as_nanos()).saturating_sub(7 * before.as_nanos()));
        let sample = risen.clamp(view.min_rtt.min(latest), latest);
        let error = Span::from_nanos(sample.as_nanos().abs_diff(view.srtt.as_nanos()));
        view.rttvar = (view.rttvar * 3 + error) / 4;
        view.srtt = (view.srtt * 7 + sample) / 8;
        view.min_rtt = view.min_rtt.min(latest);
        Self::count_rtt(view, latest);
    }

    fn count_rtt(view: &mut Path, latest: Span) {
        view.latest_rtt = latest;
        view.max_rtt = view.max_rtt.max(latest);
        view.rtt_sum += latest;
        view.rtt_samples += 1;
    }

    /// Everything that one call into noq settled is told: the controller learns of it.
    pub fn finish(&mut self, now: Instant, view: &mut Path, outcome: &Outcome, siblings: &[Share]) {
        let newest = outcome.sample.newest_sent;
        let over = self.recovery_start.zip(newest).is_some_and(|(start, sent)| sent > start);
        if view.recovery != Recovery::Open && over {
            view.recovery = Recovery::Open;
            self.cc.on_recovered(now);
        }
        let (rate, interval) = self.rate.finish(now, view.min_rtt, &outcome.sample);
        view.delivery_rate = rate.unwrap_or(view.delivery_rate);
        if let Some((bound, rtt)) = self.queue_bound.as_mut().zip(outcome.rtt) {
            let (number, delivered) = outcome.newest;
            bound.on_acked(now, number, (rtt, delivered), self.flight.next(), view.mss);
        }
        if let Some((standing, rtt)) = self.standing_queue.as_mut().zip(outcome.rtt) {
            // Where many packets are acknowledged at once, those that follow them have not left yet.
            let used = if self.usage.limited { self.cc.cwnd() } else { outcome.prior_in_flight };
            if standing.on_acked((rtt, outcome.newest.1), view.min_rtt, used) {
                self.cc.leave_slow_start();
            }
        }
        self.cc.on_acked(
            &Acked {
                now,
                bytes: outcome.acked,
                lost: outcome.lost,
                prior_in_flight: outcome.prior_in_flight,
                bytes_in_flight: view.bytes_in_flight,
                rtt: outcome.rtt,
                srtt: view.srtt,
                min_rtt: view.min_rtt,
                newest_sent: newest.unwrap_or(Instant::ZERO),
                delivered: self.rate.delivered(),
                prior_delivered: outcome.sample.prior_delivered,
                rate,
                interval,
                app_limited: outcome.sample.app_limited,
                cwnd_limited: self.is_limited(view),
                recovery: view.recovery,
                reducing: view.recovery != Recovery::Open,
            },
            siblings,
        );
        while self.flight.front().is_some_and(|packet| packet.acked || packet.lost) {
            self.flight.pop();
        }
    }

    /// Returns true if the window is what limits the path, and may grow. In slow start it may grow to twice what was
    /// used.
    fn is_limited(&self, view: &Path) -> bool {
        if self.standing_queue.is_some_and(|standing| standing.is_full()) {
            return false;
        }
        let cwnd = self.cc.cwnd();
        self.usage.limited || cwnd < view.ssthresh && cwnd < self.usage.most + self.usage.most
    }

    /// The sender stops for now: notes how well the window was used, and whether the application limits a path that has
    /// room.
    pub fn end_turn(&mut self, now: Instant, view: &Path, app_limited: bool, has_data: bool) {
        let used = self.paced_by.used(view);
        let limited = used + view.mss > view.cwnd && !self.is_bounded(view);
        // A round in which the window was full once stays limited by it (`tcp_cwnd_validate`).
        let more = !self.usage.limited && used > self.usage.most;
        if self.flight.base() >= self.usage.until || limited || more {
            self.usage = Usage { limited, most: used, until: self.flight.next() };
        }
        if app_limited && view.is_open() && self.queue.is_empty() {
            self.rate.on_app_limited(view.bytes_in_flight);
        }
        let waits = if self.queue.is_empty() {
            has_data && self.blocked_reason(now, view) == BlockedReason::Pacing
        } else {
            has_window(view, view.bytes_in_flight) && self.pacer.release() > now
        };
        self.pacer.await_release(waits);
    }

    /// Copies what the controller says to where schedulers and siblings see it.
    pub fn publish(&self, view: &mut Path, share: &mut Share) {
        view.cwnd = self.window(view);
        view.ssthresh = self.cc.ssthresh();
        view.pacing_rate = self.cc.pacing_rate().unwrap_or_else(|| self.paced_by.rate(view));
        let own = self.cc.share();
        view.link_rate = own.link_rate;
        *share = Share { srtt: view.srtt, bottleneck: view.bottleneck, usable: true, ..own };
    }

    /// The window of everything but realtime data.
    fn window(&self, view: &Path) -> Bytes {
        let cwnd = self.cc.cwnd();
        let Some(bound) = &self.queue_bound else { return cwnd };
        bound.window().min(cwnd - Self::reserve(cwnd, view)).max(cwnd.min(view.mss + view.mss))
    }

    /// Bytes of a window that are kept for realtime data.
    fn reserve(cwnd: Bytes, view: &Path) -> Bytes {
        Bytes::new((3 * view.mss.get()).min(cwnd.get() / 4))
    }

    /// Returns true if what limits the path is how long its queue may be, and not its controller.
    fn is_bounded(&self, view: &Path) -> bool {
        let cwnd = self.cc.cwnd();
        self.queue_bound.as_ref().is_some_and(|bound| bound.window() < cwnd - Self::reserve(cwnd, view))
    }

    /// Returns true if there is room for so many bytes of realtime data.
    pub fn has_room(&self, view: &Path, bytes: Bytes) -> bool {
        let window = view.cwnd + Self::reserve(self.cc.cwnd(), view);
        self.stage == Stage::Up && view.bytes_in_flight + bytes <= window
    }

    /// Returns true if a packet that the path takes now leaves at once.
    pub fn sends_at_once(&self, now: Instant, view: &Path) -> bool {
        let waits = !self.queue.is_empty() || self.pacer.release() > now;
        !waits && self.blocked_reason(now, view) == BlockedReason::None
    }

    /// noq let no data onto it: whether it has been so for so long that it will not change.
    pub fn on_refused(&mut self, now: Instant) -> bool {
        self.refused_at = Some(now);
        let since = *self.refused_since.get_or_insert(now);
        let for_good = since + REFUSED_FOR_GOOD <= now;
        if for_good {
            self.refused_since = None;
        }
        for_good
    }

    /// Returns true if noq let no data onto it lately: the peer's address changed, and is not validated yet (RFC 9000
    /// §8.2).
    pub fn is_refused(&self, now: Instant) -> bool {
        self.refused_at.is_some_and(|at| now < at + VALIDATION)
    }

    /// Why the path cannot take a packet now.
    pub fn blocked_reason(&self, now: Instant, view: &Path) -> BlockedReason {
        if !has_window(view, view.bytes_in_flight + view.queued) {
            BlockedReason::Congestion
        } else if self.pacer.release() > now && self.paced_by.blocks(view, self.initial_window) {
            BlockedReason::Pacing
        } else {
            BlockedReason::None
        }
    }

    /// Returns true if the next packet of the queue may leave.
    pub fn may_send_queued(&self, now: Instant, view: &Path) -> bool {
        !self.queue.is_empty() && has_window(view, view.bytes_in_flight) && self.pacer.release() <= now
    }
}

/// Returns true if the window of which `used` is used has room for a packet. One may leave in any case: packets may be
/// longer than those that the controller reckons with, which are QUIC's least.
fn has_window(view: &Path, used: Bytes) -> bool {
    used == Bytes::ZERO || used + view.mss <= view.cwnd
}
