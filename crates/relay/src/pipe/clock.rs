//! The clock of the other end, by round trips: of the last questions the one that was answered soonest counts, for half
//! of its round trip is the most by which the answer can be wrong (as with NTP, RFC 5905).

use std::collections::VecDeque;

use weftway_path::{Instant, Span};

/// Number of answers that are kept: half a minute's, in which two quartz clocks drift apart by 3 ms at most (50 ppm
/// each).
const KEPT: usize = 32;
/// Number of answers that say how long a round trip usually is now.
const LATELY: usize = 5;
/// Microseconds by which two answers may differ beyond their round trips: what clocks drift apart while the older one is
/// kept, and some.
const DRIFT: u64 = 10_000;
/// No clock shows more microseconds: 285 years.
const MOST: u64 = 1 << 53;

/// An answer: its round trip, and by how much the other clock is ahead, in microseconds.
#[derive(Clone, Copy, Debug)]
struct Answer {
    trip: u64,
    ahead: i64,
}

impl Answer {
    /// Returns true if no clock that goes as it should gives both answers: each is wrong by half of its round trip at
    /// most.
    fn contradicts(self, other: Self) -> bool {
        self.ahead.abs_diff(other.ahead) > self.trip / 2 + other.trip / 2 + DRIFT
    }
}

/// The other end's clock.
#[derive(Clone, Debug, Default)]
pub struct Clock {
    answers: VecDeque<Answer>,
    /// The best of them; or what the other end said of its clock before there was one.
    best: Option<Answer>,
    /// The usual round trip of late: the middle of the last [`LATELY`].
    usual: Option<u64>,
}

impl Clock {
    /// Takes what the other end's clock showed a while ago.
    pub fn hello(&mut self, now: Instant, theirs: u64) {
        if self.best.is_none() && theirs <= MOST {
            self.best = Some(Answer { trip: u64::MAX, ahead: ahead(theirs, now.as_micros()) });
        }
    }

    /// Takes the answer to what was asked at `asked`: the other clock showed `theirs`.
    pub fn answered(&mut self, now: Instant, asked: u64, theirs: u64) {
        let now = now.as_micros();
        let Some(trip) = now.checked_sub(asked).filter(|_| theirs <= MOST) else { return };
        let answer = Answer { trip, ahead: ahead(theirs, asked + trip / 2) };
        // One of the clocks has jumped: a machine was asleep, and its connection has survived that.
        if self.answers.iter().any(|other| other.contradicts(answer)) {
            self.answers.clear();
        }
        if self.answers.len() >= KEPT {
            self.answers.pop_front();
        }
        self.answers.push_back(answer);
        self.best = self.answers.iter().copied().min_by_key(|answer| answer.trip);
        let mut lately: Vec<_> = self.answers.iter().rev().take(LATELY).map(|answer| answer.trip).collect();
        lately.sort_unstable();
        self.usual = lately.get(lately.len() / 2).copied();
    }

    /// Time that the other end's clock shows, if that is known.
    pub fn theirs(&self, now: Instant) -> Option<u64> {
        Some(now.as_micros().saturating_add_signed(self.best?.ahead))
    }

    /// The time at which the other end's clock shows `theirs`.
    pub fn own(&self, theirs: u64) -> Option<Instant> {
        let own = theirs.saturating_add_signed(self.best?.ahead.saturating_neg()).min(MOST);
        Some(Instant::from_nanos(own.saturating_mul(1000)))
    }

    /// The shortest round trip, and the usual one of late, with the queues that there are now; if they are known.
    pub fn round_trips(&self) -> Option<[Span; 2]> {
        Some([self.best?.trip, self.usual?].map(|us| Span::from_micros(us.min(MOST))))
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
        assert_eq!((clock.theirs(at(5)), clock.own(5), clock.round_trips()), (None, None, None));
        // The other clock is 100 s ahead; its word was 30 ms on the way.
        clock.hello(at(1030), 101_000_000);
        assert_eq!((clock.theirs(at(1030)), clock.round_trips()), (Some(101_000_000), None));
        clock.hello(at(1031), 7);
        // A question takes 10 ms, its answer 50.
        clock.answered(at(2060), 2_000_000, 102_010_000);
        assert_eq!(clock.theirs(at(2060)), Some(102_040_000), "off by 20 ms");
        clock.answered(at(3020), 3_000_000, 103_010_000);
        clock.answered(at(4400), 4_000_000, 104_390_000);
        assert_eq!((clock.theirs(at(5000)), clock.own(105_000_000)), (Some(105_000_000), Some(at(5000))));
        assert_eq!(clock.round_trips(), Some([20, 60].map(Span::from_millis)), "of 60, 20 and 400 ms");
        // It is forgotten after as many others.
        for number in 0..KEPT as u64 {
            let asked = 10_000 + number * 1000;
            clock.answered(at(asked + 30), asked * 1000, asked * 1000 + 100_015_000 + number);
        }
        assert_eq!(clock.round_trips(), Some([30; 2].map(Span::from_millis)));
    }

    /// The other end's machine sleeps for 20 s, in which its clock stands still.
    #[test]
    fn after_a_clock_has_jumped_only_later_answers_count() {
        let at = Instant::from_millis;
        let mut clock = Clock::default();
        clock.answered(at(1010), 1_000_000, 7_005_000);
        assert_eq!(clock.theirs(at(2000)), Some(8_000_000));
        // Its round trip is longer than that of the one before, which is of no use any more.
        clock.answered(at(22_050), 22_000_000, 8_025_000);
        assert_eq!(clock.theirs(at(23_000)), Some(9_000_000));
        // What both may be wrong by is no jump.
        clock.answered(at(24_060), 24_000_000, 10_060_000);
        assert_eq!((clock.theirs(at(25_000)), clock.answers.len()), (Some(11_000_000), 2));
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
