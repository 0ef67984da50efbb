//! Round trip without a queue, with what it varies by of itself.
//!
//! ```text
//! base     smallest round trip of the last 30 to 60 s
//! spread   of each round: (mean − smallest) of packets that left no sooner than the bottleneck takes them, and
//!          |smallest − that of the round before|; over some eight rounds
//! plain    base + 3/2 · spread: at this and below there is no queue to be seen
//! ```
//!
//! The base is the luckiest of thousands of round trips. Where they vary, all others are longer, with no queue at all.

use weftway_path::{Instant, Span};

use crate::Acked;

/// Half of the time for which the smallest round trip and the longest queue are remembered: a route may change, and
/// TCP remembers for as long (`tcp_min_rtt_wlen` is 300 s, BBR's 10 s).
const HALF: Span = Span::from_secs(30);
/// Fewer samples say nothing of how round trips vary.
const FEW: u64 = 4;
/// Rounds over which the spread is averaged.
const ROUNDS: u64 = 8;

#[derive(Clone, Debug)]
pub(super) struct Base {
    /// Of this half and of the one before.
    smallest: [Option<Span>; 2],
    longest: [Span; 2],
    half_began: Instant,
    spread: Span,
    /// Of this round, over spaced packets.
    sum: Span,
    count: u64,
    spaced_least: Span,
    /// Of this round, over all.
    least: Span,
    least_before: Option<Span>,
}

impl Base {
    pub(super) fn new(now: Instant, rtt: Option<Span>) -> Self {
        Self {
            smallest: [rtt, None],
            longest: [Span::ZERO; 2],
            half_began: now,
            spread: Span::ZERO,
            sum: Span::ZERO,
            count: 0,
            spaced_least: Span::MAX,
            least: Span::MAX,
            least_before: None,
        }
    }

    /// Smallest round trip, if one is known.
    pub(super) fn get(&self) -> Option<Span> {
        match self.smallest {
            [Some(now), Some(before)] => Some(now.min(before)),
            [now, before] => now.or(before),
        }
    }

    pub(super) fn spread(&self) -> Span {
        self.spread
    }

    /// The longest queue seen.
    pub(super) fn longest(&self) -> Span {
        self.longest[0].max(self.longest[1])
    }

    /// The longest round trip that shows no queue.
    pub(super) fn plain(&self) -> Option<Span> {
        self.get().map(|base| base + self.spread + self.spread / 2)
    }

    /// Takes a sample, of a packet that was `spaced` from the one before; returns the queue that it shows.
    pub(super) fn on_sample(&mut self, acked: &Acked, rtt: Span, spaced: bool) -> Span {
        if acked.now.since(self.half_began) > HALF {
            self.half_began = acked.now;
            self.smallest = [None, self.smallest[0]];
            self.longest = [Span::ZERO, self.longest[0]];
        }
        self.smallest[0] = Some(self.smallest[0].map_or(rtt, |smallest| smallest.min(rtt)));
        self.least = self.least.min(rtt);
        if spaced {
            self.sum += rtt;
            self.count += 1;
            self.spaced_least = self.spaced_least.min(rtt);
        }
        let queue = rtt.saturating_sub(self.plain().unwrap_or(rtt));
        self.longest[0] = self.longest[0].max(queue);
        queue
    }

    /// Ends a round; returns the smallest queue in it.
    pub(super) fn end_round(&mut self) -> Option<Span> {
        let least = core::mem::replace(&mut self.least, Span::MAX);
        let (sum, count) = (core::mem::take(&mut self.sum), core::mem::take(&mut self.count));
        let spaced_least = core::mem::replace(&mut self.spaced_least, Span::MAX);
        if least == Span::MAX {
            return None;
        }
        let before = self.least_before.replace(least).unwrap_or(least);
        if count >= FEW {
            let within = (sum / count).saturating_sub(spaced_least);
            let between = Span::from_nanos(least.abs_diff(before).as_nanos());
            self.spread = (self.spread * (ROUNDS - 1) + within + between) / ROUNDS;
        }
        Some(least.saturating_sub(self.plain().unwrap_or(least)))
    }
}
