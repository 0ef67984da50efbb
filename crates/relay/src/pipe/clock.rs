//! The clock of the other end, by round trips: of the last questions the one that was answered soonest counts, for half
//! of its round trip is the most by which the answer can be wrong (as with NTP, RFC 5905).

use std::collections::VecDeque;

use weftway_path::{Instant, Span};

/// Number of answers that are kept: half a minute's, in which two quartz clocks drift apart by 3 ms at most (50 ppm each).
const KEPT: usize = 32;
/// No clock shows more microseconds: 285 years.
const MOST: u64 = 1 << 53;

/// An answer: its round trip, and by how much the other clock is ahead, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Answer {
    trip: u64,
    ahead: i64,
}

/// The other end's clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    answers: VecDeque<Answer>,
    /// The best of them; or what the other end said of its clock before there was one.
    best: Option<Answer>,
}

impl Clock {
    /// The other end has said what its clock showed, a while ago.
    pub fn hello(&mut self, now: Instant, theirs: u64) {
        if self.best.is_none() && theirs <= MOST {
            self.best = Some(Answer { trip: u64::MAX, ahead: ahead(theirs, now.as_micros()) });
        }
    }

    /// The other end has answered, when its clock showed `theirs`, what was asked at `asked`.
    pub fn answered(&mut self, now: Instant, asked: u64, theirs: u64) {
        let now = now.as_micros();
        let Some(trip) = now.checked_sub(asked).filter(|_| theirs <= MOST) else { return };
        if self.answers.len() >= KEPT {
            self.answers.pop_front();
        }
        self.answers.push_back(Answer { trip, ahead: ahead(theirs, asked + trip / 2) });
        self.best = self.answers.iter().copied().min_by_key(|answer| answer.trip);
    }

    /// What the other end's clock shows, if that is known.
    pub fn theirs(&self, now: Instant) -> Option<u64> {
        Some(now.as_micros().saturating_add_signed(self.best?.ahead))
    }

    /// The time at which the other end's clock shows `theirs`.
    pub fn own(&self, theirs: u64) -> Option<Instant> {
        let own = theirs.saturating_add_signed(self.best?.ahead.saturating_neg()).min(MOST);
        Some(Instant::from_nanos(own.saturating_mul(1000)))
    }

    /// The shortest round trip, if one is known.
    pub fn round_trip(&self) -> Option<Span> {
        self.best.filter(|best| best.trip <= MOST).map(|best| Span::from_micros(best.trip))
    }
}

/// By how much one clock is ahead of another; both show at most [`MOST`], or as much as this end has been running.
fn ahead(theirs: u64, own: u64) -> i64 {
    theirs as i64 - own.min(MOST) as i64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_answer_that_came_soonest_counts() {
        let at = Instant::from_millis;
        let mut clock = Clock::default();
        assert_eq!((clock.theirs(at(5)), clock.own(5), clock.round_trip()), (None, None, None));
        // The other clock is 100 s ahead; its word was 30 ms on the way.
        clock.hello(at(1030), 101_000_000);
        assert_eq!((clock.theirs(at(1030)), clock.round_trip()), (Some(101_000_000), None));
        clock.hello(at(1031), 7);
        // A question takes 10 ms, its answer 50.
        clock.answered(at(2060), 2_000_000, 102_010_000);
        assert_eq!(clock.theirs(at(2060)), Some(102_040_000), "off by 20 ms");
        clock.answered(at(3020), 3_000_000, 103_010_000);
        clock.answered(at(4400), 4_000_000, 104_390_000);
        assert_eq!((clock.theirs(at(5000)), clock.own(105_000_000)), (Some(105_000_000), Some(at(5000))));
        assert_eq!(clock.round_trip(), Some(Span::from_millis(20)));
        // It is forgotten after as many others.
        for number in 0..KEPT as u64 {
            let asked = 10_000 + number * 1000;
            clock.answered(at(asked + 30), asked * 1000, asked * 1000 + 100_015_000 + number);
        }
        assert_eq!(clock.round_trip(), Some(Span::from_millis(30)));
    }

    #[test]
    fn what_no_clock_shows_is_ignored() {
        let mut clock = Clock::default();
        for theirs in [u64::MAX, MOST + 1] {
            clock.hello(Instant::from_millis(1), theirs);
            clock.answered(Instant::from_millis(1), 0, theirs);
        }
        // The answer to a question of the future.
        clock.answered(Instant::from_millis(1), 1001, 7);
        assert_eq!(clock.theirs(Instant::from_millis(1)), None);
        clock.answered(Instant::from_millis(1), 0, 0);
        assert_eq!((clock.theirs(Instant::ZERO), clock.own(u64::MAX).is_some()), (Some(0), true));
    }
}
