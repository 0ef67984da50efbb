//! Round trip without a queue, with what it varies by of itself.
//!
//! ```text
//! base     smallest round trip of the last 30 to 60 s
//! plain    base + spread (`rate.rs`): at this and below there is no queue to be seen
//! queue    smallest of the last four to eight samples − plain
//! ```
//!
//! The base is the luckiest of thousands of round trips. Where they vary, all others are longer, with no queue at all.

use weftway_path::{Instant, Span};

/// Half of the time for which the smallest round trip and the longest queue are remembered: a route may change, and
/// TCP remembers for longer (`tcp_min_rtt_wlen` is 300 s), BBR for 10 s.
const HALF: Span = Span::from_secs(30);
/// Samples whose smallest counts: half of HyStart's (RFC 9406 N_RTT_SAMPLE), since there are two such groups.
const GROUP: u64 = 4;

/// No spread is longer than the smallest round trip, or than this where that is shorter.
const LEAST_BOUND: Span = Span::from_millis(20);

#[derive(Clone, Debug)]
pub(super) struct Base {
    /// Of this half and of the one before.
    smallest: [Option<Span>; 2],
    longest: [Span; 2],
    half_began: Instant,
    /// How much sooner than the bottleneck lets them packets may come.
    spread: Span,
    /// Samples of this group; the smallest of it, and of the one before.
    count: u64,
    least: [Span; 2],
    /// Smallest of this round trip.
    round: Span,
}

impl Base {
    pub(super) fn new(now: Instant, rtt: Option<Span>) -> Self {
        Self {
            smallest: [rtt, None],
            longest: [Span::ZERO; 2],
            half_began: now,
            spread: Span::ZERO,
            count: 0,
            least: [Span::MAX; 2],
            round: Span::MAX,
        }
    }

    /// Smallest round trip, if one is known.
    pub(super) fn get(&self) -> Option<Span> {
        match self.smallest {
            [Some(now), Some(before)] => Some(now.min(before)),
            [now, before] => now.or(before),
        }
    }

    /// By how much a few samples were above the smallest, at most.
    pub(super) fn longest(&self) -> Span {
        self.longest[0].max(self.longest[1])
    }

    /// The longest round trip that shows no queue; zero before the first.
    pub(super) fn plain(&self) -> Span {
        self.get().map_or(Span::ZERO, |base| base + self.spread.min(base.max(LEAST_BOUND)))
    }

    /// Queue that is there at least.
    pub(super) fn queue(&self) -> Span {
        match self.least[0].min(self.least[1]) {
            Span::MAX => Span::ZERO,
            least => least.saturating_sub(self.plain()),
        }
    }

    /// Returns true if a round trip was within `bound` of the smallest lately.
    pub(super) fn is_empty(&self, bound: Span) -> bool {
        self.get().is_some_and(|base| self.least[0].min(self.least[1]) <= base + bound)
    }

    /// Takes a sample, where round trips vary by `spread`; returns by how much the last few are above the
    /// smallest of all.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Span, spread: Span) -> Span {
        self.spread = spread;
        if now.since(self.half_began) > HALF {
            self.half_began = now;
            self.smallest = [None, self.smallest[0]];
            self.longest = [Span::ZERO, self.longest[0]];
        }
        self.smallest[0] = Some(self.smallest[0].map_or(rtt, |smallest| smallest.min(rtt)));
        self.round = self.round.min(rtt);
        if self.count == GROUP {
            self.least = [Span::MAX, self.least[0]];
            self.count = 0;
        }
        self.least[0] = self.least[0].min(rtt);
        self.count += 1;
        let above = self.least[0].min(self.least[1]).saturating_sub(self.get().unwrap_or(rtt));
        self.longest[0] = self.longest[0].max(above);
        above
    }

    /// Ends a round trip; returns the smallest queue in it.
    pub(super) fn end_round(&mut self) -> Option<Span> {
        let least = core::mem::replace(&mut self.round, Span::MAX);
        (least != Span::MAX).then(|| least.saturating_sub(self.plain()))
    }
}
