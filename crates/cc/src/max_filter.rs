//! The largest sample of a window of rounds, in constant space (Kathleen Nichols' filter; Linux
//! `lib/win_minmax.c`).
//!
//! Three samples are kept: the largest, the largest since it, the largest since that, spread over
//! quarters of the window. When the first grows too old the others move up.
//! Departure: none known; the sample is 64 bits wide.

#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
struct Sample {
    round: u64,
    value: u64,
}

/// A running maximum over the last `window` rounds.
#[derive(Clone, Debug)]
pub(crate) struct MaxFilter {
    window: u64,
    best: [Sample; 3],
    /// The last round in which a sample below the third changes nothing.
    settled: u64,
}

impl MaxFilter {
    pub(crate) fn new(window: u64) -> Self {
        Self { window, best: [Sample::default(); 3], settled: 0 }
    }

    pub(crate) fn get(&self) -> u64 {
        self.best[0].value
    }

    /// Takes a sample of `round`; rounds never go back.
    #[inline]
    pub(crate) fn add(&mut self, round: u64, value: u64) {
        if value >= self.best[2].value || round > self.settled {
            self.take(Sample { round, value });
            self.settle();
        }
    }

    /// Notes up to which round [`MaxFilter::age`] finds nothing to do.
    fn settle(&mut self) {
        let [first, second, third] = self.best.map(|sample| sample.round);
        self.settled = if second == first {
            first + self.window / 4
        } else if third == second {
            first + self.window / 2
        } else {
            first + self.window
        };
    }

    fn take(&mut self, sample: Sample) {
        let Sample { round, value } = sample;
        if value >= self.best[0].value || round - self.best[2].round > self.window {
            self.best = [sample; 3];
            return;
        }
        if value >= self.best[1].value {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if value >= self.best[2].value {
            self.best[2] = sample;
        }
        self.age(sample);
    }

    fn age(&mut self, sample: Sample) {
        let age = sample.round - self.best[0].round;
        if age > self.window {
            self.best = [self.best[1], self.best[2], sample];
            // The second may have been too old as well.
            if sample.round - self.best[0].round > self.window {
                self.best = [self.best[1], self.best[2], sample];
            }
        } else if self.best[1].round == self.best[0].round && age > self.window / 4 {
            self.best[1] = sample;
            self.best[2] = sample;
        } else if self.best[2].round == self.best[1].round && age > self.window / 2 {
            self.best[2] = sample;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_maximum_is_forgotten_after_its_window() {
        let mut filter = MaxFilter::new(10);
        filter.add(0, 100);
        for round in 1..=10 {
            filter.add(round, 50);
            assert_eq!(filter.get(), 100);
        }
        filter.add(11, 40);
        assert_eq!(filter.get(), 50);
    }

    #[test]
    fn a_new_maximum_counts_at_once() {
        let mut filter = MaxFilter::new(10);
        filter.add(0, 1);
        filter.add(0, 3);
        filter.add(1, 2);
        assert_eq!(filter.get(), 3);
    }
    #[test]
    fn the_second_best_comes_from_a_later_quarter_of_the_window() {
        let mut filter = MaxFilter::new(10);
        filter.add(0, 100);
        filter.add(3, 60);
        for round in 4..=10 {
            filter.add(round, 40);
        }
        filter.add(11, 40);
        assert_eq!(filter.get(), 60);
    }

    #[test]
    fn the_third_best_comes_after_the_second() {
        let mut filter = MaxFilter::new(10);
        // 60 is second from a quarter of the window on; 50 is not third before half of it, 40 is, until 45 comes.
        for (round, value) in [(0, 100), (3, 60), (4, 50), (6, 40), (7, 45)] {
            filter.add(round, value);
        }
        // 100 is thirteen rounds old, 60 ten: that still counts.
        filter.add(13, 30);
        assert_eq!(filter.get(), 60);
        filter.add(14, 20);
        assert_eq!(filter.get(), 45);
    }

    #[test]
    fn after_half_a_window_a_smaller_sample_of_the_same_round_is_third() {
        let mut filter = MaxFilter::new(10);
        for (round, value) in [(0, 300), (7, 200), (7, 200), (7, 2)] {
            filter.add(round, value);
        }
        // Linux compares rounds alone: `m->s[2].t == m->s[1].t && dt > win/2`.
        assert_eq!(filter.best.map(|sample| sample.value), [300, 200, 2]);
    }

    #[test]
    fn what_is_left_out_would_change_nothing() {
        let (mut some, mut all) = (MaxFilter::new(10), MaxFilter::new(10));
        let (mut state, mut round, mut left_out) = (5_u64, 0, 0);
        for _ in 0..50_000 {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            // Four samples a round. Large ones are rare, so that rounds pass without a new maximum.
            round += u64::from((state >> 33) % 4 == 0);
            let sample = Sample { round, value: ((state >> 40) % 64) >> (state >> 61) };
            left_out += u64::from(sample.value < some.best[2].value && round <= some.settled);
            some.add(round, sample.value);
            all.take(sample);
            assert_eq!(some.best, all.best);
        }
        assert!(left_out > 10_000, "{left_out}");
    }

    #[test]
    fn nothing_is_second_within_a_quarter_of_the_window() {
        let mut filter = MaxFilter::new(12);
        // A quarter is three rounds: 60 comes within it, 50 does not. In round 13 the 100 is too old.
        for (round, value) in [(0, 100), (3, 60), (4, 50), (13, 10)] {
            filter.add(round, value);
        }
        assert_eq!(filter.get(), 50);
    }
}
