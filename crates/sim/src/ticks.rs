//! Firing of Linux's timers: on a tick of the kernel's clock, the later the longer they wait
//! (`kernel/time/timer.c`).
//!
//! A wait is rounded up to ticks. A timer that waits for less than 63 ticks fires with the tick after the one on which
//! it ends; with less than 504 ticks that is rounded up to eight, with less than 4032 to 64, and so on by eights. Where
//! the ticks of a run lie follows from its seed.

use weftway_path::{Instant, Span};
use weftway_scenario::mix;

/// Ticks of the shortest waits, which are not rounded any further (`LVL_SIZE` − 1), and how many bits each level adds.
const FIRST_LEVEL: u64 = 63;
const LEVEL_BITS: u32 = 3;
/// Number of ticks among which a run begins: as many as a wait of a minute is rounded to.
const PHASES: u64 = 4096;

/// The clock of both ends.
#[derive(Clone, Copy, Debug)]
pub struct Ticks {
    /// Nanoseconds; zero where timers fire when they are due.
    tick: u64,
    /// Time from tick 0 to when the run began.
    phase: u64,
}

impl Ticks {
    /// A clock of such ticks, in a run of this seed.
    pub fn new(tick: Span, seed: u64) -> Self {
        let tick = tick.as_nanos();
        Self { tick, phase: mix(seed, 0x71c).checked_rem(tick * PHASES).unwrap_or(0) }
    }

    /// Time at which a timer fires that was set at `set` for `due`.
    #[inline(never)]
    pub fn expires(&self, set: Instant, due: Instant) -> Instant {
        if self.tick == 0 || due.is_never() {
            return due;
        }
        let wait = due.since(set).as_nanos().div_ceil(self.tick);
        let mut bits = 0;
        while wait >= FIRST_LEVEL << bits {
            bits += LEVEL_BITS;
        }
        let end = (set.as_nanos() + self.phase) / self.tick + wait;
        let tick = ((end >> bits) + 1) << bits;
        Instant::from_nanos((tick * self.tick).saturating_sub(self.phase)).max(due)
    }

    /// The first tick at or after `at`.
    pub fn at_or_after(&self, at: Instant) -> Instant {
        if self.tick == 0 || at.is_never() {
            return at;
        }
        let tick = (at.as_nanos() + self.phase).div_ceil(self.tick);
        Instant::from_nanos((tick * self.tick).saturating_sub(self.phase)).max(at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Ticks of 4 ms that lie at 0, 4, 8 ms and so on. Set at 1 ms, in tick 0: 10 ms are 3 ticks, and end with tick 4,
    /// at 16 ms. 252 ms are 63 ticks, of which eight are one: after tick 63 comes tick 64, at 256 ms. 2020 ms are 505
    /// ticks, of which 64 are one: 512 ticks are 2048 ms.
    #[test]
    fn long_waits_are_rounded_coarsely() {
        let ticks = Ticks { tick: 4_000_000, phase: 0 };
        for (wait, fires) in [(10, 16), (251, 256), (252, 256), (255, 288), (496, 512), (2020, 2048)] {
            assert_eq!(ticks.expires(ms(1), ms(1 + wait)), ms(fires), "{wait} ms");
        }
        assert_eq!([ms(8), ms(9)].map(|at| ticks.at_or_after(at)), [ms(8), ms(12)]);
    }

    #[test]
    fn without_ticks_a_timer_fires_when_it_is_due() {
        let ticks = Ticks::new(Span::ZERO, 7);
        assert_eq!((ticks.expires(ms(1), ms(700)), ticks.at_or_after(ms(3))), (ms(700), ms(3)));
    }

    /// Where ticks lie depends on the seed, and no timer fires early.
    #[test]
    fn the_seed_shifts_the_ticks() {
        let fires = |seed| Ticks::new(Span::from_millis(4), seed).expires(ms(10), ms(30));
        assert!((0..20).all(|seed| fires(seed) >= ms(30) && fires(seed) <= ms(38)));
        assert!((1..20).any(|seed| fires(seed) != fires(0)));
    }
}
