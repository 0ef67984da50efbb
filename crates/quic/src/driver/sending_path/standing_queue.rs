//! Length of the queue that the window of a path may build where another path can be cut.
//!
//! A controller that waits for losses fills the queue at the bottleneck. When another path is cut, its data wait at the
//! end of that queue, or are lost there; and a queue that is longer than a round trip brings no throughput. So the
//! window does not grow while what is in flight takes longer than the least round trip and
//! [`TransportConfig::standing_queue`] to arrive:
//!
//! ```text
//! in flight ≥ f · (min_rtt + bound) / rtt          f: what the path delivered in its last round trip, rtt
//! ```
//!
//! The rule reckons with what is in flight now, which in slow start is twice what the newest round trip shows. Slow
//! start ends then. A window is never reduced, and the queue has to be ours:
//!
//! - A queue of more than one and a half times the bound, though the window was held: others fill the queue, or the
//!   route is another one. The window grows as it would.
//! - The path delivers less than 7/8 of its best rate: others take their share, or a longer route needs a wider window.
//!   The best rate fades by a 4096th with each acknowledgement, as it may have been that of a burst.
//!
//! [`TransportConfig::standing_queue`]: weftway_scenario::config::TransportConfig::standing_queue

use weftway_path::{Bytes, Span};

/// Part of the best rate that is forgotten with each acknowledgement, as one over this.
const FADING: u64 = 4096;

/// True if the queue of one path is long enough.
#[derive(Clone, Copy, Debug)]
pub struct StandingQueue {
    bound: Span,
    /// Bytes that the path delivered at its best in the least round trip and the bound.
    best: Bytes,
    is_full: bool,
}

impl StandingQueue {
    /// Up to so long a queue.
    pub fn new(bound: Span) -> Self {
        Self { bound, best: Bytes::ZERO, is_full: false }
    }

    /// Returns true if the window should not grow.
    pub fn is_full(&self) -> bool {
        self.is_full
    }

    /// A packet came back after `rtt`, in which the path `delivered` so much with it; so much was in flight. Whether
    /// the window should not grow.
    pub fn on_acked(&mut self, (rtt, delivered): (Span, Bytes), min_rtt: Span, in_flight: Bytes) -> bool {
        let queue = rtt.saturating_sub(min_rtt);
        // A short queue says little: acknowledgements come in bursts, and a path may be hardly used.
        self.is_full = queue > self.bound / 4 && {
            let most = delivered.mul_div((min_rtt + self.bound).as_nanos(), rtt.as_nanos().max(1));
            self.best = most.max(self.best - Bytes::new(self.best.get() / FADING));
            in_flight >= most && 8 * most.get() >= 7 * self.best.get() && queue <= self.bound + self.bound / 2
        };
        self.is_full
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BASE: Span = Span::from_millis(40);

    /// After so many milliseconds `delivered` bytes had been delivered, and so many are in flight.
    fn full(queue: &mut StandingQueue, rtt_ms: u64, delivered: u64, in_flight: u64) -> bool {
        queue.on_acked((Span::from_millis(rtt_ms), Bytes::new(delivered)), BASE, Bytes::new(in_flight))
    }

    /// 1000 bytes a millisecond: 540 000 bytes are 500 ms of a queue and 40 of the way.
    #[test]
    fn what_is_in_flight_makes_the_queue_full_and_not_what_the_round_trip_shows() {
        let mut queue = StandingQueue::new(Span::from_millis(500));
        assert!(!full(&mut queue, 165, 165_000, 600_000), "125 ms of a queue say little");
        assert!(!full(&mut queue, 290, 290_000, 539_000));
        assert!(full(&mut queue, 290, 290_000, 540_000), "slow start: it will be 500 ms");
        assert!(full(&mut queue, 540, 540_000, 540_000));
        assert!(!full(&mut queue, 540, 540_000, 539_000));
        assert!(!full(&mut queue, 100, 100_000, 900_000));
    }

    /// One and a half times 500 ms, and 40: 790 ms.
    #[test]
    fn a_queue_that_others_fill_does_not_hold_the_window() {
        let mut queue = StandingQueue::new(Span::from_millis(500));
        assert!(full(&mut queue, 790, 790_000, 790_000));
        assert!(!full(&mut queue, 791, 791_000, 791_000));
        // Another flow has a quarter of the rate, or a tenth.
        assert!(!full(&mut queue, 600, 450_000, 450_000));
        assert!(full(&mut queue, 600, 540_000, 540_000));
    }

    /// Twice the rate for a moment. It is forgotten to 8/7 of what is after 4096 · ln(7/4) = 2292 acknowledgements.
    #[test]
    fn the_rate_of_a_burst_is_forgotten() {
        let mut queue = StandingQueue::new(Span::from_millis(500));
        assert!(full(&mut queue, 540, 1_080_000, 1_080_000));
        let acks = (1..).find(|_| full(&mut queue, 540, 540_000, 540_000));
        assert!((2200..2400).contains(&acks.unwrap()), "{acks:?}");
    }

    /// The way is 600 ms long from now on, and 40 000 bytes in flight are a fifteenth of what the path delivers. The
    /// window grows until that is nearly as much as before.
    #[test]
    fn a_longer_route_lets_the_window_grow_until_the_path_is_full_again() {
        let mut queue = StandingQueue::new(Span::from_millis(500));
        assert!(!full(&mut queue, 200, 200_000, 200_000));
        assert!(!full(&mut queue, 600, 40_000, 40_000));
        assert!(!full(&mut queue, 600, 500_000, 500_000));
        assert!(full(&mut queue, 600, 525_000, 525_000));
    }
}
