//! The arms: UCB1 (Auer, Cesa-Bianchi, Fischer 2002) or Exp3 (Auer et al. 2002), and the monitor
//! that notices when an arm has changed.

use crate::shared::rng::PolicyRng;

/// The most arms.
const MOST: usize = 4;

/// Rounds per arm, after a beginning, in which Exp3 explores more, and outliers count in the deviations.
const EARLY_ROUNDS: u64 = 25;

/// Outliers in a row that make a change.
const PATIENCE: i32 = 4;

/// Gain of the mean deviation.
const GAIN: f64 = 1.0 / 8.0;

/// Rewards vary by at least this much: arms that always pay the same would change at the last digit.
const LEAST_DEVIATION: f64 = 0.005;

/// Rule by which the next arm is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Bandit {
    Ucb1,
    Exp3,
}

/// Rewards of one arm.
#[derive(Clone, Copy, Default)]
struct Arm {
    count: u64,
    mean: f64,
    deviation: f64,
    /// In a row; below zero if they lie below the mean.
    outliers: i32,
    /// Exp3's weight, as its logarithm.
    weight: f64,
}

/// All arms.
#[derive(Clone)]
pub(super) struct Arms {
    arms: [Arm; MOST],
    number: usize,
    rule: Bandit,
    monitors: bool,
    resets: u32,
}

impl Arms {
    /// `number` arms of which nothing is known.
    pub(super) fn new(number: usize, rule: Bandit, monitors: bool) -> Self {
        Self { arms: [Arm::default(); MOST], number, rule, monitors, resets: 0 }
    }

    fn known(&self) -> &[Arm] {
        &self.arms[..self.number]
    }

    fn rounds(&self) -> u64 {
        self.known().iter().map(|arm| arm.count).sum()
    }

    /// The next arm; each once at first.
    pub(super) fn choose(&self, rng: &mut PolicyRng) -> usize {
        if let Some(untried) = self.known().iter().position(|arm| arm.count == 0) {
            return untried;
        }
        match self.rule {
            Bandit::Ucb1 => self.largest_bound(),
            Bandit::Exp3 => self.drawn(rng),
        }
    }

    fn largest_bound(&self) -> usize {
        let log = libm::log(self.rounds() as f64);
        let bound = |at: usize| self.arms[at].mean + libm::sqrt(2.0 * log / self.arms[at].count as f64);
        (1..self.number).fold(0, |best, at| if bound(at) > bound(best) { at } else { best })
    }

    /// Exp3's share of uniform draws.
    fn gamma(&self) -> f64 {
        if self.is_early() { 0.5 } else { 0.2 }
    }

    fn probability(&self, at: usize) -> f64 {
        let largest = self.known().iter().fold(f64::MIN, |largest, arm| largest.max(arm.weight));
        let weight = |arm: &Arm| libm::exp(arm.weight - largest);
        let sum: f64 = self.known().iter().map(weight).sum();
        let gamma = self.gamma();
        (1.0 - gamma) * weight(&self.arms[at]) / sum + gamma / self.number as f64
    }

    fn drawn(&self, rng: &mut PolicyRng) -> usize {
        let mut left = rng.unit();
        for at in 0..self.number {
            left -= self.probability(at);
            if left < 0.0 {
                return at;
            }
        }
        self.number - 1
    }

    /// Returns true if few rounds have been played since a beginning.
    fn is_early(&self) -> bool {
        self.rounds() < EARLY_ROUNDS * self.number as u64
    }

    /// Arm `at` paid `reward`.
    pub(super) fn learn(&mut self, at: usize, reward: f64) {
        let off = (reward - self.arms[at].mean).abs();
        let side = if self.monitors { self.outlier(at, reward) } else { 0 };
        let arm = &mut self.arms[at];
        arm.outliers = if arm.outliers * side < 0 { side } else { (arm.outliers + side) * side.abs() };
        if arm.outliers.abs() >= PATIENCE {
            self.begin_anew(at);
        }
        let counts = side == 0 || self.is_early();
        // Rewards near 1 are told apart by their exponent.
        let shaped = libm::exp(4.0 * (reward - 1.0)) / self.probability(at);
        let step = self.gamma() * shaped / self.number as f64;
        let arm = &mut self.arms[at];
        arm.weight += step;
        arm.count += 1;
        arm.mean += (reward - arm.mean) / arm.count as f64;
        match arm.deviation {
            0.0 => arm.deviation = off,
            deviation if counts => arm.deviation = deviation + (off - deviation) * GAIN,
            _ => {}
        }
    }

    /// Forgets what the arms paid. How far they vary stays, and so do the outliers of all but `at`, the arm that has
    /// changed.
    fn begin_anew(&mut self, at: usize) {
        for arm in &mut self.arms {
            (arm.count, arm.mean, arm.weight) = (0, 0.0, 0.0);
        }
        self.arms[at].outliers = 0;
        self.resets += 1;
    }

    /// On which side of arm `at`'s mean `reward` lies far off, where that would change the ranking: 1 above, −1 below.
    fn outlier(&self, at: usize, reward: f64) -> i32 {
        let Arm { mean, deviation, .. } = self.arms[at];
        let far = 3.0 * deviation.max(LEAST_DEVIATION);
        let is_best = self.known().iter().all(|arm| mean >= arm.mean);
        let is_worst = self.known().iter().all(|arm| mean <= arm.mean);
        match deviation {
            0.0 => 0,
            _ if reward > mean + far && !is_best => 1,
            _ if reward < (mean - far).max(0.0) && !is_worst => -1,
            _ => 0,
        }
    }

    /// The means, in one line.
    pub(super) fn explain(&self) -> String {
        let mean = |arm: &Arm| if arm.count > 0 { format!("{:.4}", arm.mean) } else { "none".to_owned() };
        let means: Vec<_> = self.known().iter().map(mean).collect();
        format!("means {}", means.join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Plays `rounds` on Bernoulli arms; the regret against the best.
    fn regret(rule: Bandit, rounds: u32) -> f64 {
        let chances = [0.5, 0.9, 0.2];
        let (mut arms, mut rng, mut world) = (Arms::new(3, rule, false), PolicyRng::new(1), PolicyRng::new(2));
        let mut lost = 0.0;
        for _ in 0..rounds {
            let at = arms.choose(&mut rng);
            lost += 0.9 - chances[at];
            arms.learn(at, f64::from(u8::from(world.flip(chances[at]))));
        }
        lost
    }

    #[test]
    fn each_arm_is_tried_once_before_any_is_repeated() {
        let (mut arms, mut rng) = (Arms::new(3, Bandit::Ucb1, true), PolicyRng::new(1));
        for expected in 0..3 {
            let at = arms.choose(&mut rng);
            assert_eq!(at, expected);
            arms.learn(at, 0.5);
        }
        assert_eq!(arms.choose(&mut rng), 0);
    }

    #[test]
    fn bounds_by_hand() {
        let (mut arms, mut rng) = (Arms::new(3, Bandit::Ucb1, true), PolicyRng::new(1));
        for (at, reward) in [(0, 0.9), (1, 0.5), (2, 0.1), (0, 0.9)] {
            arms.learn(at, reward);
        }
        // ln 4 = 1.386: 0.9 + √1.386 = 2.08 for the first, 0.5 + √2.773 = 2.17, 0.1 + 1.67 = 1.77.
        assert_eq!(arms.choose(&mut rng), 1);
    }

    #[test]
    fn regret_grows_slower_than_time() {
        // UCB1's grows with the logarithm: ln 20000/ln 2000 = 1.3; ten times the rounds. Its bound
        // is 8·ln n·Σ 1/Δ + 5·Σ Δ = 8·9.9·(2.5 + 1.43) + 5.5 = 317 for 20 000 rounds.
        let (short, long) = (regret(Bandit::Ucb1, 2_000), regret(Bandit::Ucb1, 20_000));
        assert!(long < 317.0 && long < 4.0 * short, "{short}, then {long}");
        // Exp3 draws a fifth uniformly, at a loss of 0.2·(0.4 + 0.7)/3 = 0.073 a round, and never
        // less: far from the 0.367 of a uniform choice.
        let exp3 = regret(Bandit::Exp3, 20_000) / 20_000.0;
        assert!((0.07..0.12).contains(&exp3), "{exp3}");
    }

    #[test]
    fn a_step_makes_one_reset_within_four_pulls() {
        let (mut arms, mut rng, mut noise) = (Arms::new(3, Bandit::Ucb1, true), PolicyRng::new(1), PolicyRng::new(2));
        let mut pay = [0.8, 0.9, 0.7];
        let mut pull = |arms: &mut Arms, pay: &[f64; 3]| {
            let at = arms.choose(&mut rng);
            arms.learn(at, pay[at] + 0.02 * (noise.unit() - 0.5));
            at
        };
        (0..300).for_each(|_| {
            pull(&mut arms, &pay);
        });
        assert_eq!(arms.resets, 0);
        pay[1] = 0.4;
        let mut pulls = 0;
        while arms.resets == 0 {
            pulls += u32::from(pull(&mut arms, &pay) == 1);
        }
        assert_eq!(pulls, 4);
        (0..300).for_each(|_| {
            pull(&mut arms, &pay);
        });
        assert_eq!(arms.resets, 1);
    }

    #[test]
    fn a_deviation_begins_at_the_first_reward_and_moves_by_an_eighth() {
        // 0.8: mean 0.8, off by 0.8 from nothing. 0.6: off by 0.2; mean 0.7, deviation 0.8 − 0.6/8. 0.1: off by 0.6.
        let mut arms = Arms::new(1, Bandit::Ucb1, true);
        for (reward, mean, deviation) in [(0.8, 0.8, 0.8), (0.6, 0.7, 0.725), (0.1, 0.5, 0.725 - 0.125 / 8.0)] {
            arms.learn(0, reward);
            let arm = arms.arms[0];
            assert!((arm.mean - mean).abs() < 1e-12 && (arm.deviation - deviation).abs() < 1e-12, "{reward}");
        }
    }

    #[test]
    fn exp3_by_hand() {
        let mut arms = Arms::new(2, Bandit::Exp3, false);
        // Early, half of the draws are uniform: equal weights give 1/2. A reward of 1 is e⁰/(1/2) = 2, times 0.5/2.
        arms.learn(0, 1.0);
        assert!((arms.arms[0].weight - 0.5).abs() < 1e-12 && arms.arms[1].weight == 0.0);
        // 0.5·1/(1 + e^−0.5) + 0.25 = 0.56123 for the first. 0.75 on the second: e^−1/0.43877, times 0.25: 0.20961.
        assert!((arms.probability(0) - 0.561_23).abs() < 1e-5);
        arms.learn(1, 0.75);
        assert!((arms.arms[1].weight - 0.209_61).abs() < 1e-5);
        // Half of the draws are uniform for 25 rounds of each arm, then a fifth.
        for (rounds, gamma) in [(49, 0.5), (50, 0.2)] {
            arms.arms[0].count = rounds - 1;
            assert_eq!(arms.gamma(), gamma, "after {rounds} rounds");
        }
    }

    fn known(count: u64, mean: f64, deviation: f64) -> Arm {
        Arm { count, mean, deviation, ..Arm::default() }
    }

    #[test]
    fn an_outlier_is_far_off_in_a_direction_that_would_change_the_ranking() {
        let mut arms = Arms::new(3, Bandit::Ucb1, true);
        arms.arms[..3].copy_from_slice(&[known(5, 0.75, 0.125), known(5, 0.5, 0.001), known(5, 0.25, 0.125)]);
        // The best cannot rise and the worst cannot fall; the one between can do both, by more than 3·0.005.
        for (at, reward, side) in [
            (0, 0.375, 0),
            (0, 0.374, -1),
            (0, 1.25, 0),
            (1, 0.514, 0),
            (1, 0.516, 1),
            (1, 0.484, -1),
            (2, 0.625, 0),
            (2, 0.626, 1),
            (2, 0.0, 0),
        ] {
            assert_eq!(arms.outlier(at, reward), side, "{reward} of {at}");
        }
        // Two of the best: each counts as best, so that a rise is none.
        arms.arms[1] = known(5, 0.75, 0.125);
        assert_eq!([1.25, 0.25].map(|reward| arms.outlier(0, reward)), [0, -1]);
        // The first reward of all is no outlier, whatever it is.
        let mut first = Arms::new(1, Bandit::Ucb1, true);
        first.learn(0, 1.0);
        assert_eq!((first.arms[0].count, first.arms[0].outliers), (1, 0));
        assert_eq!(first.explain(), "means 1.0000");
    }

    #[test]
    fn four_outliers_on_one_side_begin_anew_with_the_last() {
        let mut arms = Arms::new(2, Bandit::Ucb1, true);
        arms.arms[..2].copy_from_slice(&[known(100, 0.75, 0.01), known(100, 0.25, 0.01)]);
        // Three below, one as usual, three below, and the fourth. Outliers count in the mean, and not in the deviation
        // now.
        for reward in [0.5, 0.5, 0.5, 0.75, 0.5, 0.5, 0.5] {
            arms.learn(0, reward);
        }
        assert_eq!((arms.resets, arms.arms[0].outliers, arms.arms[0].count), (0, -3, 107));
        let deviation = arms.arms[0].deviation;
        assert!(deviation < 0.01, "{deviation}");
        arms.learn(0, 0.5);
        assert_eq!((arms.resets, arms.arms[0].outliers), (1, 0));
        assert_eq!(arms.explain(), "means 0.5000, none");
        assert_eq!(arms.arms[1].deviation, 0.01);
    }
}
