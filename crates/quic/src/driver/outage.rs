//! Giving up a path, and what brings it back.

use weftway_path::{Instant, Path, Span};

/// A path that delivers this many packets before it is given up was of use.
const USEFUL: u64 = 10;
/// The loss rate of a path is judged by at least so many packets.
const LEAST_JUDGED: u64 = 16;
/// The longest pause after a relapse is the probe interval, doubled so many times.
const MOST_DOUBLINGS: u32 = 3;

/// The outages of a path.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Outages {
    /// Time at which it was given up, if it has not come back.
    since: Option<Instant>,
    /// Time that the earlier ones lasted.
    before: Span,
    /// Number of times in a row that it was given up without having been of use.
    relapses: u32,
    /// Answers in a row that bring it back; with 0, whatever comes.
    needed: u32,
    answered: u32,
    /// It was asked, and has not answered yet.
    asked: bool,
    /// Time at which its loss rate was judged last, and how many packets were acknowledged and lost by then.
    judged: (Instant, u64, u64),
}

impl Outages {
    /// Returns true if it lost more than two thirds of its packets over at least `period`, though it answers. One that
    /// was given up before, and has been of no use since, is judged by half as many packets, as soon as they are
    /// settled.
    pub fn loses_most(&mut self, now: Instant, view: &Path, period: Span) -> bool {
        let (begin, acked_before, lost_before) = self.judged;
        // A path that a policy opens again counts from the beginning.
        let acked = view.acked.packets.saturating_sub(acked_before);
        let lost = view.lost.packets.saturating_sub(lost_before);
        let on_trial = self.relapses > 0 && view.acked.packets < USEFUL;
        let (period, least) = if on_trial { (Span::ZERO, LEAST_JUDGED / 2) } else { (period, LEAST_JUDGED) };
        if now.since(begin) < period || acked + lost < least {
            return false;
        }
        self.judged = (now, view.acked.packets, view.lost.packets);
        lost > 2 * acked
    }

    /// It is given up: when it is asked for the first time whether it is alive. A path that comes back and is of no use
    /// again is asked later each time, and has to answer more often.
    pub fn give_up(&mut self, now: Instant, view: &Path, loses_most: bool, probe_interval: Span) -> Instant {
        let was_useful = view.acked.packets >= USEFUL && !loses_most;
        self.relapses = if was_useful { 0 } else { self.relapses + 1 };
        let doublings = self.relapses.saturating_sub(1).min(MOST_DOUBLINGS);
        // Acknowledgements that are under way are no reason to use a path again that loses most.
        self.needed = if loses_most || self.relapses > 1 { 2 + doublings } else { 0 };
        now + probe_interval * (1u64 << doublings)
    }

    /// It cannot be used from now on.
    pub fn begin(&mut self, now: Instant) {
        self.since = Some(now);
        (self.answered, self.asked) = (0, false);
    }

    /// It is asked whether it is alive.
    pub fn ask(&mut self) {
        if std::mem::replace(&mut self.asked, true) {
            self.answered = 0;
        }
    }

    /// An acknowledgement came: whether it can be used again.
    pub fn is_over(&mut self) -> bool {
        self.answered += u32::from(std::mem::take(&mut self.asked));
        self.answered >= self.needed
    }

    /// It can be used again, and counts its packets anew.
    pub fn end(&mut self, now: Instant) {
        (self.before, self.since, self.needed) = (self.total(now), None, 0);
        self.judged = (now, 0, 0);
    }

    /// Time that all of them lasted so far.
    pub fn total(&self, now: Instant) -> Span {
        self.before + self.since.map_or(Span::ZERO, |since| now.since(since))
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, PathId};

    use super::*;

    const INTERVAL: Span = Span::from_millis(250);

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// A path with so many packets acknowledged and lost.
    fn path(acked: u64, lost: u64) -> Path {
        let mut path = Path::new(PathId::new(0), Bytes::new(1200), Bytes::new(12_000));
        (path.acked.packets, path.lost.packets) = (acked, lost);
        path
    }

    #[test]
    fn two_thirds_are_judged_over_the_period_and_enough_packets() {
        let period = Span::from_millis(500);
        let after = |at, acked, lost| Outages::default().loses_most(ms(at), &path(acked, lost), period);
        assert!(after(500, 5, 11));
        assert!(!after(499, 5, 11), "too early");
        assert!(!after(500, 5, 10), "15 packets");
        assert!(!after(500, 6, 12), "two thirds");
        // What was judged once does not count again.
        let mut outages = Outages::default();
        assert!(!outages.loses_most(ms(500), &path(100, 0), period));
        assert!(outages.loses_most(ms(1000), &path(105, 11), period));
    }

    #[test]
    fn whatever_comes_brings_a_useful_path_back() {
        let mut outages = Outages::default();
        assert_eq!(outages.give_up(ms(1000), &path(10, 3), false, INTERVAL), ms(1250));
        outages.begin(ms(1000));
        assert!(outages.is_over());
        outages.end(ms(1400));
        assert_eq!(outages.total(ms(9000)), Span::from_millis(400));
    }

    /// 250 ms and two answers, 500 and three, 1 s and four, 2 s and five, and no more.
    #[test]
    fn a_path_that_fails_again_waits_longer_and_answers_more_often() {
        let mut outages = Outages::default();
        for (pause, needed) in [(250, 2), (500, 3), (1000, 4), (2000, 5), (2000, 5)] {
            assert_eq!(outages.give_up(ms(0), &path(3, 40), true, INTERVAL), ms(pause));
            outages.begin(ms(0));
            assert!(!outages.is_over(), "nobody asked");
            for answer in 1..needed {
                outages.ask();
                assert!(!outages.is_over(), "answer {answer} of {needed}");
            }
            outages.ask();
            outages.ask();
            assert!(!outages.is_over(), "one question had no answer: all over again");
            for answer in 2..=needed {
                outages.ask();
                assert_eq!(outages.is_over(), answer == needed);
            }
            outages.end(ms(0));
        }
        // Ten packets that arrive end the row.
        assert_eq!(outages.give_up(ms(0), &path(10, 0), false, INTERVAL), ms(250));
    }
}
