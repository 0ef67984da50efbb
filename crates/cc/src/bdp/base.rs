//! Round trip without a queue, with what it varies by of itself.
//!
//! ```text
//! base     smallest round trip of the last 30 to 60 s
//! spread   of four samples: mean − smallest, less what their packets made one another wait, over some sixteen such;
//!          and of each round trip: |smallest − that of the one before|, over some eight
//! plain    base + 3/2 · spread: at this and below there is no queue to be seen
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

#[derive(Clone, Debug)]
pub(super) struct Base {
    /// Of this half and of the one before.
    smallest: [Option<Span>; 2],
    longest: [Span; 2],
    half_began: Instant,
    /// Within groups, and from round trip to round trip.
    spread: [Span; 2],
    /// Of this group of samples, and the smallest of the one before.
    sum: Span,
    count: u64,
    least: [Span; 2],
    /// Smallest of this round trip, and of the one before.
    round: [Span; 2],
}

impl Base {
    pub(super) fn new(now: Instant, rtt: Option<Span>) -> Self {
        Self {
            smallest: [rtt, None],
            longest: [Span::ZERO; 2],
            half_began: now,
            spread: [Span::ZERO; 2],
            sum: Span::ZERO,
            count: 0,
            least: [Span::MAX; 2],
            round: [Span::MAX; 2],
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
        self.spread[0] + self.spread[1]
    }

    /// The longest queue that a sample showed.
    pub(super) fn longest(&self) -> Span {
        self.longest[0].max(self.longest[1])
    }

    /// The longest round trip that shows no queue; zero before the first.
    pub(super) fn plain(&self) -> Span {
        let spread = self.spread();
        self.get().map_or(Span::ZERO, |base| base + spread + spread / 2)
    }

    /// Queue that is there at least.
    pub(super) fn queue(&self) -> Span {
        match self.least[0].min(self.least[1]) {
            Span::MAX => Span::ZERO,
            least => least.saturating_sub(self.plain()),
        }
    }

    /// Takes a sample where the bottleneck takes `pair` for two packets; returns the queue that it shows.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Span, pair: Span) -> Span {
        if now.since(self.half_began) > HALF {
            self.half_began = now;
            self.smallest = [None, self.smallest[0]];
            self.longest = [Span::ZERO, self.longest[0]];
        }
        self.smallest[0] = Some(self.smallest[0].map_or(rtt, |smallest| smallest.min(rtt)));
        self.round[0] = self.round[0].min(rtt);
        if self.count == GROUP {
            let within = (self.sum / GROUP).saturating_sub(self.least[0] + pair * 2);
            self.spread[0] = (self.spread[0] * 15 + within) / 16;
            self.least = [Span::MAX, self.least[0]];
            (self.sum, self.count) = (Span::ZERO, 0);
        }
        self.least[0] = self.least[0].min(rtt);
        self.sum += rtt;
        self.count += 1;
        let queue = rtt.saturating_sub(self.plain());
        self.longest[0] = self.longest[0].max(queue);
        queue
    }

    /// Ends a round trip; returns the smallest queue in it. On a crowded path queues come and go by others.
    pub(super) fn end_round(&mut self, is_crowded: bool) -> Option<Span> {
        let [least, before] = self.round;
        if least == Span::MAX {
            return None;
        }
        self.round = [Span::MAX, least];
        if before != Span::MAX && !is_crowded {
            self.spread[1] = (self.spread[1] * 7 + least.abs_diff(before)) / 8;
        }
        Some(least.saturating_sub(self.plain()))
    }
}
