//! Round trip without a queue.
//!
//! ```text
//! base     smallest round trip of the last 30 to 60 s
//! plain    base + spread (`rate.rs`): at this and below there is no queue to be seen
//! least    smallest of the last four to eight samples;  queue = least − plain
//! varies   longest (least − base) of a round trip, less its shortest; the mean of some eight round trips
//! ```
//!
//! The base is the luckiest of thousands of round trips. Where they vary, all others are longer, with no queue at all.

use weftway_path::{Instant, Span};

/// Half of the time for which the smallest and the longest are remembered: a route may change.
const HALF: Span = Span::from_secs(30);
/// Samples whose smallest counts: half of HyStart's (RFC 9406 N_RTT_SAMPLE), since two such groups count.
const GROUP: u32 = 4;
/// No spread is longer than the base, or than this where the base is shorter.
const LEAST_BOUND: Span = Span::from_millis(20);
/// The longest queue is at least so many times what round trips vary by: jitter alone makes it two or three times that.
const BEYOND: u64 = 4;
/// No sample: the smallest and the longest of a round trip.
const NO_ROUND: [Span; 2] = [Span::MAX, Span::ZERO];

#[derive(Clone, Debug)]
pub(super) struct Base {
    /// Extremes of this half and of the one before.
    smallest: [Option<Span>; 2],
    longest: [Span; 2],
    half_began: Instant,
    /// The smaller of the two, and the longest round trip that shows no queue.
    base: Option<Span>,
    plain: Span,
    /// Samples of this group; the smallest of it, and of the one before.
    count: u32,
    group: [Span; 2],
    /// Smallest sample of this round trip, and the longest [`Base::above_base`].
    round: [Span; 2],
    /// By how much they differ; zero before they do.
    varies: Span,
}

impl Base {
    pub(super) fn new(now: Instant, rtt: Option<Span>) -> Self {
        let (longest, group, round) = ([Span::ZERO; 2], [Span::MAX; 2], NO_ROUND);
        let (base, plain, varies) = (rtt, rtt.unwrap_or(Span::ZERO), Span::ZERO);
        Self { smallest: [rtt, None], longest, half_began: now, base, plain, count: 0, group, round, varies }
    }

    /// Smallest round trip, if one is known.
    pub(super) fn get(&self) -> Option<Span> {
        self.base
    }

    /// The longest round trip that shows no queue; zero before the first.
    pub(super) fn plain(&self) -> Span {
        self.plain
    }

    /// Returns the excess of the last few samples over `rtt`.
    fn above(&self, rtt: Span) -> Span {
        let least = self.group[0].min(self.group[1]);
        if least == Span::MAX { Span::ZERO } else { least.saturating_sub(rtt) }
    }

    /// Returns the excess of the last few samples over the base.
    pub(super) fn above_base(&self) -> Span {
        self.above(self.get().unwrap_or(Span::MAX))
    }

    /// The most that [`Base::above_base`] was.
    pub(super) fn longest(&self) -> Span {
        self.longest[0].max(self.longest[1])
    }

    /// Returns true if queues are seen among round trips that vary: the longest is far above what they vary by, or one of
    /// `enough` is there now.
    pub(super) fn tells_queues(&self, enough: Span) -> bool {
        self.longest() >= self.varies * BEYOND || self.queue() >= enough
    }

    pub(super) fn queue(&self) -> Span {
        self.above(self.plain())
    }

    /// Forgets the last few samples: the path was silent.
    pub(super) fn pause(&mut self) {
        (self.group, self.count) = ([Span::MAX; 2], 0);
    }

    /// Takes a sample, where round trips vary by `spread`.
    pub(super) fn on_sample(&mut self, now: Instant, rtt: Span, spread: Span) {
        let past = now.since(self.half_began);
        if past > HALF * 2 {
            (self.smallest, self.longest) = ([None; 2], [Span::ZERO; 2]);
            self.half_began = now;
        } else if past > HALF {
            (self.smallest, self.longest) = ([None, self.smallest[0]], [Span::ZERO, self.longest[0]]);
            self.half_began += HALF;
        }
        let smallest = self.smallest[0].map_or(rtt, |smallest| smallest.min(rtt));
        self.smallest[0] = Some(smallest);
        let base = self.smallest[1].map_or(smallest, |before| before.min(smallest));
        (self.base, self.plain) = (Some(base), base + spread.min(base.max(LEAST_BOUND)));
        if self.count == GROUP {
            self.group = [Span::MAX, self.group[0]];
            self.count = 0;
        }
        self.group[0] = self.group[0].min(rtt);
        self.count += 1;
        let above = self.above_base();
        self.longest[0] = self.longest[0].max(above);
        self.round = [self.round[0].min(rtt), self.round[1].max(above)];
    }

    /// Ends a round trip; returns the smallest queue in it.
    pub(super) fn end_round(&mut self) -> Option<Span> {
        let [least, most] = core::mem::replace(&mut self.round, NO_ROUND);
        let base = self.base.filter(|_| least != Span::MAX)?;
        let range = most.saturating_sub(least.saturating_sub(base));
        self.varies = if self.varies == Span::ZERO { range } else { self.varies.mul_div(7, 8) + range / 8 };
        Some(least.saturating_sub(self.plain))
    }
}
