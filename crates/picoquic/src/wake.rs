//! The time at which an end of picoquic's is asked again.

use weftway_path::{Instant, Span};

/// Times in a row that an end may ask for another turn at once and send nothing: picoquic does so now and then, and has
/// something to send a microsecond later.
const SOON: u32 = 64;
/// The longest wait is 2 to this power in microseconds: about a millisecond.
const LONGEST: u32 = 10;

/// Counts turns of an end in which it sent nothing and wanted the next one at once.
#[derive(Clone, Copy, Debug, Default)]
pub struct Wake {
    idle: u32,
}

impl Wake {
    /// Time of the next turn, after one at `now` that sent something or nothing; `wanted` is the time that picoquic
    /// names. Virtual time goes on by at least a microsecond, the unit of picoquic's time. After [`SOON`] turns for
    /// nothing it goes on by twice as much each time, so that a run ends whatever picoquic wants.
    pub fn next(&mut self, now: Instant, wanted: Instant, sent: bool) -> Instant {
        let soon = now + Span::from_micros(1);
        if sent || wanted > soon {
            self.idle = 0;
            return wanted.max(soon);
        }
        self.idle = self.idle.saturating_add(1);
        now + Span::from_micros(1 << self.idle.saturating_sub(SOON).min(LONGEST))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOW: Instant = Instant::from_nanos(5_000_000);

    fn after(micros: u64) -> Instant {
        NOW + Span::from_micros(micros)
    }

    #[test]
    fn a_time_to_come_is_taken_as_it_is() {
        assert_eq!(Wake::default().next(NOW, after(7), false), after(7));
        assert_eq!(Wake::default().next(NOW, Instant::NEVER, false), Instant::NEVER);
        assert_eq!(Wake::default().next(NOW, Instant::ZERO, true), after(1));
    }

    #[test]
    fn one_that_always_wants_a_turn_and_sends_nothing_does_not_hold_time_up() {
        let mut wake = Wake::default();
        let (mut now, mut turns) = (Instant::ZERO, 0);
        while now < Instant::ZERO + Span::from_micros(1_000_000) {
            now = wake.next(now, now, false);
            turns += 1;
        }
        assert!((1000..1100).contains(&turns), "{turns} turns in a second");
        assert_eq!(wake.next(now, now, true), now + Span::from_micros(1), "it sends again");
        assert_eq!(wake.next(now, now, false), now + Span::from_micros(1), "and is asked as soon as before");
    }
}
