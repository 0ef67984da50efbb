//! Length of the queue that this connection may keep at a path's bottleneck while realtime data are under way.
//!
//! A controller that waits for losses fills the queue, and everything behind it waits. While there are realtime data,
//! the window of all other data is bounded, so that a packet waits no longer than [`TARGET`] for what this connection
//! has sent:
//!
//! ```text
//! w = f · base / rtt + extra           once a round, as in FAST TCP (Jin, Wei and Low, 2004)
//!   rtt    the least round trip of the round, and f what the path delivered meanwhile
//!   base   the least round trip of the last five to ten seconds
//!   extra  what the path delivers in `target` at the best rate of that time, but no more than in twice that at the present one
//! ```
//!
//! `f / rtt` is the rate at which the path delivers, so the bound is right after one round, and grows by `target /
//! base` a round where the queue is shorter, and by a packet at least: a part of one is no room, so a window of three
//! would stay so for ever. Every five seconds the target is 0 for a round: the queue drains, and shows the base anew.
//!
//! A round trip has the queues of both directions, and both ends may bound theirs. At `f · (base + target) / rtt` each
//! end would take the other's queue for its own, and one that has little of its link's rate would keep that little. So
//! the best rate counts for `extra`, and it grows until its own link is full.
//!
//! A queue that stays for [`PATIENCE`] rounds, however small the window, is not ours: others fill it, or the route is
//! another one. Then its round trip is the new base.
//!
//! A round has packets that were sent under one bound. All numbers are whole, and the time comes with each call.

use weftway_path::{Bytes, Instant, Span};

/// Time that a packet waits behind what this connection has sent, in the long run. It is half of the 5 ms by which bulk
/// may delay a voice; the other half is for bursts, and for a rate that varies.
pub const TARGET: Span = Span::from_micros(2500);
/// A base counts for one to two of these.
const PERIOD: Span = Span::from_secs(5);
/// After so many rounds with a long queue the base is another one.
const PATIENCE: u32 = 8;

/// The bound of one path.
#[derive(Clone, Debug)]
pub struct QueueBound {
    window: Bytes,
    /// The least round trip of this period, and of the one before.
    least: [Span; 2],
    /// Most bytes delivered in [`TARGET`], in the same periods.
    most: [Bytes; 2],
    period_ends: Instant,
    /// The least round trip of this round, and what was delivered meanwhile.
    round: Option<(Span, Bytes)>,
    /// The first packet of this round, and the last.
    packets: (u64, u64),
    long_rounds: u32,
}

impl QueueBound {
    /// Bound of a path with this base. The first round trip that is told is a round: nothing is bounded before.
    pub fn new(now: Instant, base: Span) -> Self {
        Self {
            window: Bytes::new(u64::MAX),
            least: [base; 2],
            most: [Bytes::ZERO; 2],
            period_ends: now + PERIOD,
            round: None,
            packets: (0, 0),
            long_rounds: 0,
        }
    }

    /// Bytes that may be in flight.
    pub fn window(&self) -> Bytes {
        self.window
    }

    /// Packet `number` was acknowledged after `rtt`, in which the path delivered `delivered` with it. The next that is
    /// sent is packet `next`, and has `mss` bytes at most.
    pub fn on_acked(&mut self, now: Instant, number: u64, (rtt, delivered): (Span, Bytes), next: u64, mss: Bytes) {
        self.least[0] = self.least[0].min(rtt);
        let (first, _) = self.packets;
        if number < first {
            return;
        }
        match &mut self.round {
            Some(least) if rtt >= least.0 => {}
            Some(least) => *least = (rtt, delivered),
            None => {
                self.round = Some((rtt, delivered));
                // One round trip from its first packet, but for the first round of all.
                self.packets.1 = if first == 0 { 0 } else { next };
            }
        }
        if number >= self.packets.1
            && let Some((rtt, delivered)) = self.round.take()
        {
            self.end_round(now, rtt, delivered, mss);
            self.packets.0 = next.max(1);
        }
    }

    fn end_round(&mut self, now: Instant, rtt: Span, delivered: Bytes, mss: Bytes) {
        let base = self.least[0].min(self.least[1]);
        let is_bounded = self.window.get() < u64::MAX;
        let is_long = is_bounded && rtt > base + TARGET * 2;
        self.long_rounds = if is_long { self.long_rounds + 1 } else { 0 };
        if self.long_rounds >= PATIENCE {
            (self.least, self.long_rounds) = ([rtt; 2], 0);
            self.window = keeping(delivered, rtt, rtt + TARGET);
            return;
        }
        let in_target = keeping(delivered, rtt, TARGET);
        self.most[0] = self.most[0].max(in_target);
        let extra = self.most[0].max(self.most[1]).min(in_target + in_target);
        let window = keeping(delivered, rtt, base) + extra;
        // A sender that had less to send says nothing about what would be too much.
        self.window = if rtt > base + TARGET { window } else { self.window.max(window).max(delivered + mss) };
        if now >= self.period_ends {
            (self.least, self.period_ends) = ([rtt, self.least[0]], now + PERIOD);
            self.most = [in_target, self.most[0]];
            if is_bounded {
                self.window = keeping(delivered, rtt, base);
            }
        }
    }
}

/// Bytes in flight where the path delivers `delivered` in `rtt`, and a round trip takes `wanted`.
fn keeping(delivered: Bytes, rtt: Span, wanted: Span) -> Bytes {
    delivered.mul_div(wanted.as_nanos(), rtt.as_nanos().max(1))
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Span = Span::from_millis(10);
    const MSS: Bytes = Bytes::new(1200);

    /// Packet `number` comes back at `at_ms` after `rtt_ms`, over a link of 60 Mbit/s that was busy all the time; 100
    /// more are in flight.
    fn acked(bound: &mut QueueBound, at_ms: u64, number: u64, rtt_ms: u64) -> u64 {
        let delivered = Bytes::new(7500 * rtt_ms);
        bound.on_acked(Instant::from_millis(at_ms), number, (Span::from_millis(rtt_ms), delivered), number + 100, MSS);
        bound.window().get()
    }

    /// 7500 bytes a millisecond: 12.5 ms of them are 93 750.
    #[test]
    fn the_first_round_trip_says_how_much_keeps_the_queue_short() {
        let mut bound = QueueBound::new(Instant::ZERO, BASE);
        assert_eq!(acked(&mut bound, 70, 5, 12), u64::MAX, "2 ms of a queue are short");
        let mut bound = QueueBound::new(Instant::ZERO, BASE);
        assert_eq!(acked(&mut bound, 70, 5, 70), 93_750);
    }

    /// What was sent before the bound says nothing about it. A round lasts from the first packet that says something to
    /// those that are in flight then, and its least round trip counts.
    #[test]
    fn a_round_has_packets_that_were_sent_under_one_bound() {
        let mut bound = QueueBound::new(Instant::ZERO, BASE);
        acked(&mut bound, 70, 5, 70);
        assert_eq!(acked(&mut bound, 71, 104, 71), 93_750, "in flight when the bound was made");
        assert_eq!(acked(&mut bound, 140, 105, 20), 93_750);
        assert_eq!(acked(&mut bound, 150, 204, 15), 93_750, "the round is not over");
        // 15 ms were the least: 7500 · 15 bytes were delivered, of which 12.5 of 15 are to stay.
        assert_eq!(acked(&mut bound, 151, 205, 30), 93_750);
        // A short queue lets it grow: 7500 · 10 bytes in 10 ms would be too few, 12.5 ms of them are the same again.
        assert_eq!(acked(&mut bound, 160, 305, 10), 93_750);
        assert_eq!(acked(&mut bound, 170, 405, 10), 93_750);
        // The link brings twice as much.
        bound.on_acked(Instant::from_millis(180), 505, (BASE, Bytes::new(150_000)), 605, MSS);
        bound.on_acked(Instant::from_millis(190), 605, (BASE, Bytes::new(150_000)), 705, MSS);
        assert_eq!(bound.window().get(), 187_500);
    }

    /// What is in flight is whole packets: 2.5 of them are two.
    #[test]
    fn a_window_of_two_packets_grows_while_the_queue_is_short() {
        let mut bound = QueueBound::new(Instant::ZERO, BASE);
        bound.on_acked(Instant::from_millis(20), 1, (Span::from_millis(20), Bytes::new(2400)), 3, MSS);
        assert!(bound.window() < MSS + MSS);
        let mut number = 3;
        for round in 1..=12 {
            let packets = (bound.window().get() / 1200).max(2);
            for _ in 0..2 {
                let (now, trip) = (Instant::from_millis(20 + 10 * round), (BASE, Bytes::new(1200 * packets)));
                bound.on_acked(now, number, trip, number + packets, MSS);
                number += packets;
            }
        }
        // 2, 3, 4, and then a quarter more each round: 5, 6, 7, 8, 10, 12, 15, 18, 22 packets; 22 and a quarter are
        // 27.5.
        assert_eq!(bound.window().get(), 1200 * 22 * 5 / 4);
    }

    /// 75 000 bytes in 10 ms are 18 750 in 2.5 ms. Then half as many are in flight, and the other direction's queue
    /// makes 15 ms of the 10: 25 000 bytes would be in flight without it, and 12 500 more are twice what is delivered
    /// in 2.5 ms now. So what is in flight may stay, where 12.5 of 15 ms would be 31 250.
    #[test]
    fn a_queue_of_the_other_direction_takes_nothing_from_this_one() {
        let mut bound = QueueBound::new(Instant::ZERO, BASE);
        acked(&mut bound, 10, 1, 10);
        assert_eq!(bound.window().get(), u64::MAX);
        for number in [101, 201] {
            bound.on_acked(
                Instant::from_millis(40),
                number,
                (Span::from_millis(15), Bytes::new(37_500)),
                number + 100,
                MSS,
            );
        }
        assert_eq!(bound.window().get(), 37_500);
    }

    /// Eight rounds of 40 ms, whatever is sent: others fill the queue, or the way is longer. 42.5 ms of 7500 bytes.
    #[test]
    fn a_queue_that_does_not_go_is_the_new_base() {
        let mut bound = QueueBound::new(Instant::ZERO, BASE);
        acked(&mut bound, 40, 1, 40);
        for round in 1..=PATIENCE {
            assert_eq!(bound.window().get(), 93_750, "round {round}");
            let (first, at_ms) = (u64::from(round) * 300, 80 * u64::from(round));
            acked(&mut bound, at_ms, first, 40);
            acked(&mut bound, at_ms + 40, first + 100, 40);
        }
        assert_eq!(bound.window().get(), 7500 * 85 / 2);
    }

    /// After five seconds a round with what fits in flight without a queue, 10 ms of 7500 bytes, and then the target
    /// again. A round trip of 20 ms that lasts is the base when 10 ms are more than ten seconds ago, and no sooner.
    #[test]
    fn every_five_seconds_the_queue_drains_and_a_base_is_forgotten_after_ten() {
        let mut bound = QueueBound::new(Instant::ZERO, BASE);
        acked(&mut bound, 20, 1, 20);
        let mut round = |at_ms, number, rtt_ms| {
            acked(&mut bound, at_ms, number, rtt_ms);
            acked(&mut bound, at_ms, number + 100, rtt_ms)
        };
        assert_eq!(round(4999, 200, 12), 93_750);
        assert_eq!(round(5000, 500, 12), 75_000);
        assert_eq!(round(5020, 800, 10), 93_750);
        assert_eq!(round(10_000, 1100, 14), 75_000);
        assert_eq!(round(15_000, 1400, 14), 75_000, "10 ms were in the period before");
        // 14 ms are the base: 16.5 ms of 7500 bytes.
        assert_eq!(round(15_020, 1700, 14), 7500 * 33 / 2);
    }
}
