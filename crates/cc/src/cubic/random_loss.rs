//! Random losses, of the path itself as on radio links: few, and without a queue.
//!
//! ```text
//! queue       = smallest rtt of the last second, or of two rounds − smallest rtt of all
//! loss rate   = lost / sent, of the last 1000 packets or so
//! a loss      at a rate above the bound: as CUBIC has it
//!             with a queue of less than rtt/8, or 5 ms: none
//!             else: cwnd · smallest rtt / rtt is kept, what fills the path without the queue
//! ```
//!
//! The last line is the back-off of TCP Westwood. A queue may be too short to be seen: then the loss rate tells
//! congestion, as a full queue loses more, unless the flow is slow.
//!
//! Reference: Mascolo et al., "TCP Westwood: Bandwidth Estimation for Enhanced Transport over Wireless Links", MobiCom
//! 2001; Fu and Liew, "TCP Veno", IEEE JSAC 21(2), 2003, which tells random losses from others by the queue.

use weftway_path::{Bytes, Instant, Span};

use crate::loss_rate::LossRate;
use crate::{Acked, Congestion, Signal};

/// Least number of packets that the loss rate is taken over; the most is twice as many. Random losses at half the bound
/// of 2 % are above it by chance in one of a hundred such samples.
const COUNTED: u64 = 500;
/// A queue of this share of the smallest round trip is none.
const NO_QUEUE: u64 = 8;
/// A queue of this delay is none, either: the processes of both ends may take as long to be run.
const LATENESS: Span = Span::from_millis(5);

/// Least time that the smallest round trip is taken over, and no less than one round trip; the most is twice as long.
/// Ends that are busy for some milliseconds at a time are so not taken for a queue.
const SPAN: Span = Span::from_millis(500);

/// The loss rate and the queue of a path, by which random losses are told from congestion.
#[derive(Clone, Debug)]
pub(super) struct RandomLoss {
    /// The highest rate of random losses, in bytes of a million.
    max_rate: u64,
    rate: LossRate,
    /// End of the present span: a time, and the total that is delivered when a round trip is over.
    span_end: (Instant, Bytes),
    /// Smallest round trips of this span and of the last one.
    smallest: [Option<Span>; 2],
}

impl RandomLoss {
    pub(super) fn new(percent: f64, mss: u64) -> Self {
        Self {
            max_rate: (percent * 10_000.0).round() as u64,
            rate: LossRate::new(COUNTED, mss),
            span_end: (Instant::ZERO, Bytes::ZERO),
            smallest: [None; 2],
        }
    }

    pub(super) fn on_acked(&mut self, acked: &Acked) {
        self.rate.on_acked(acked);
        let (time, delivered) = self.span_end;
        if acked.now >= time && acked.prior_delivered >= delivered {
            self.span_end = (acked.now + SPAN, acked.delivered);
            self.smallest = [None, self.smallest[0]];
        }
        if let Some(rtt) = acked.rtt {
            self.smallest[0] = Some(self.smallest[0].map_or(rtt, |smallest| smallest.min(rtt)));
        }
    }

    /// Returns true if the loss rate, these losses included, is at most the bound. Marks and silent paths are never
    /// random.
    fn is_rate_low(&self, congestion: &Congestion) -> bool {
        congestion.signal == Signal::Loss && !self.rate.exceeds(congestion, self.max_rate)
    }

    fn recent_rtt(&self) -> Option<Span> {
        self.smallest.into_iter().flatten().min()
    }

    /// Returns true if these losses are random: few, and without a queue on a path whose smallest round trip of all is
    /// `min_rtt`.
    pub(super) fn explains(&self, congestion: &Congestion, min_rtt: Span) -> bool {
        let has_no_queue = |rtt: Span| rtt.saturating_sub(min_rtt) <= (min_rtt / NO_QUEUE).max(LATENESS);
        self.is_rate_low(congestion) && self.recent_rtt().is_some_and(has_no_queue)
    }

    /// The least window after these losses, in bytes: the part of `cwnd` that fills the path without its queue. 0 at a
    /// higher loss rate.
    pub(super) fn least_window(&self, congestion: &Congestion, min_rtt: Span, cwnd: u64) -> u64 {
        let Some(rtt) = self.recent_rtt().filter(|_| self.is_rate_low(congestion)) else { return 0 };
        Bytes::new(cwnd).mul_div(min_rtt.min(rtt).as_nanos(), rtt.as_nanos().max(1)).get()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr::pipe::blank;

    const MIN_RTT: Span = Span::from_millis(40);

    fn acked(ms: u64, rtt_ms: u64, packets: u64) -> Acked {
        let bytes = Bytes::new(1000 * packets);
        // Each acknowledgement ends a round trip.
        let delivered = Bytes::new(1000 * ms);
        let rtt = Some(Span::from_millis(rtt_ms));
        Acked { bytes, rtt, delivered, prior_delivered: delivered, ..blank(Instant::from_millis(ms)) }
    }

    fn congestion(signal: Signal, lost: u64) -> Congestion {
        Congestion {
            now: Instant::from_millis(1000),
            signal,
            bytes_in_flight: Bytes::new(100_000),
            lost: Bytes::new(1000 * lost),
            lost_sent: Instant::from_millis(950),
            srtt: MIN_RTT,
        }
    }

    /// Returns true if `lost` more packets are taken for random losses.
    fn are_random(random: &RandomLoss, lost: u64) -> bool {
        random.explains(&congestion(Signal::Loss, lost), MIN_RTT)
    }

    /// A rate of 2 % of at least 500 packets: ten. A queue of an eighth of 40 ms, as that of 5 ms, is none.
    #[test]
    fn losses_at_a_low_rate_without_a_queue_are_random() {
        let mut random = RandomLoss::new(2.0, 1000);
        assert!(!are_random(&random, 1), "no round trip is known");
        random.on_acked(&acked(100, 45, 100));
        assert!(are_random(&random, 10));
        assert!(!are_random(&random, 11));
        assert_eq!(random.least_window(&congestion(Signal::Loss, 11), MIN_RTT, 90_000), 0);
        for signal in [Signal::Ecn, Signal::Persistent, Signal::Timeout] {
            assert!(!random.explains(&congestion(signal, 0), MIN_RTT), "{signal:?}");
        }
    }

    /// A queue of 10 ms on a path of 40: 4/5 of the window fill it. The 45 ms from before count for 500 ms more.
    #[test]
    fn with_a_queue_the_window_falls_to_what_fills_the_path() {
        let mut random = RandomLoss::new(2.0, 1000);
        for (ms, rtt_ms) in [(100, 45), (599, 60), (600, 50), (1099, 55)] {
            random.on_acked(&acked(ms, rtt_ms, 1));
        }
        assert!(are_random(&random, 1));
        random.on_acked(&acked(1100, 51, 1));
        assert!(!are_random(&random, 1));
        assert_eq!(random.least_window(&congestion(Signal::Loss, 1), MIN_RTT, 100_000), 80_000);
    }
}
