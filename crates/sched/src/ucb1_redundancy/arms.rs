//! The arms: UCB1 (Auer, Cesa-Bianchi, Fischer 2002) or Exp3 (Auer et al. 2002), and the monitor
//! that notices when an arm has changed.

use crate::learned::PolicyRng;

/// The most arms.
const MOST: usize = 4;

/// Rounds per arm, after a beginning, in which Exp3 explores more.
const EARLY_ROUNDS: u64 = 25;

/// Outliers in a row that make a change.
const PATIENCE: u32 = 4;

/// Gain of the mean deviation.
const GAIN: f64 = 1.0 / 8.0;

/// Rewards vary by at least this much: arms that always pay the same would change at the last digit.
const LEAST_DEVIATION: f64 = 0.005;

/// How the next arm is found.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Rule {
    Ucb1,
    Exp3,
}

/// One arm's rewards.
#[derive(Clone, Copy, Default)]
struct Arm {
    count: u64,
    mean: f64,
    deviation: f64,
    outliers: u32,
    /// Exp3's weight, as its logarithm.
    weight: f64,
}

impl Arm {
    fn note(&mut self, reward: f64) {
        self.outliers = 0;
        self.count += 1;
        // As RFC 6298 begins a deviation: half the first sample.
        let error = if self.count == 1 { reward / 2.0 } else { (reward - self.mean).abs() };
        let gain = if self.count == 1 { 1.0 } else { GAIN };
        self.mean += (reward - self.mean) / self.count as f64;
        self.deviation += (error - self.deviation) * gain;
    }
}

/// All arms.
#[derive(Clone)]
pub(super) struct Arms {
    arms: [Arm; MOST],
    number: usize,
    rule: Rule,
    monitors: bool,
    resets: u32,
}

impl Arms {
    /// `number` arms of which nothing is known.
    pub(super) fn new(number: usize, rule: Rule, monitors: bool) -> Self {
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
            Rule::Ucb1 => self.largest_bound(),
            Rule::Exp3 => self.drawn(rng),
        }
    }

    fn largest_bound(&self) -> usize {
        let log = libm::log(self.rounds() as f64);
        let bound = |at: usize| self.arms[at].mean + libm::sqrt(2.0 * log / self.arms[at].count as f64);
        (1..self.number).fold(0, |best, at| if bound(at) > bound(best) { at } else { best })
    }

    /// Exp3's share of uniform draws.
    fn gamma(&self) -> f64 {
        if self.rounds() < EARLY_ROUNDS * self.number as u64 { 0.5 } else { 0.2 }
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

    /// Arm `at` paid `reward`.
    pub(super) fn learn(&mut self, at: usize, reward: f64) {
        if self.monitors && self.is_outlier(at, reward) {
            self.arms[at].outliers += 1;
            if self.arms[at].outliers == PATIENCE {
                *self = Self { resets: self.resets + 1, ..Self::new(self.number, self.rule, true) };
            }
            return;
        }
        // Rewards near 1 are told apart by their exponent.
        let shaped = libm::exp(4.0 * (reward - 1.0)) / self.probability(at);
        self.arms[at].weight += self.gamma() * shaped / self.number as f64;
        self.arms[at].note(reward);
    }

    /// Far off, and towards another ranking: the best arm falls, or another rises.
    fn is_outlier(&self, at: usize, reward: f64) -> bool {
        let Arm { count, mean, deviation, .. } = self.arms[at];
        let others = self.known().iter().enumerate().filter(|(other, arm)| *other != at && arm.count > 0);
        let is_best = others.map(|(_, arm)| arm.mean).all(|other| mean >= other);
        let off = reward - mean;
        let towards = if is_best { off < 0.0 } else { off > 0.0 };
        count > 0 && towards && off.abs() > 3.0 * deviation.max(LEAST_DEVIATION)
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
    fn regret(rule: Rule, rounds: u32) -> f64 {
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
        let (mut arms, mut rng) = (Arms::new(3, Rule::Ucb1, true), PolicyRng::new(1));
        for expected in 0..3 {
            let at = arms.choose(&mut rng);
            assert_eq!(at, expected);
            arms.learn(at, 0.5);
        }
        assert_eq!(arms.choose(&mut rng), 0);
    }

    #[test]
    fn bounds_by_hand() {
        let (mut arms, mut rng) = (Arms::new(3, Rule::Ucb1, true), PolicyRng::new(1));
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
        let (short, long) = (regret(Rule::Ucb1, 2_000), regret(Rule::Ucb1, 20_000));
        assert!(long < 317.0 && long < 4.0 * short, "{short}, then {long}");
        // Exp3 draws a fifth uniformly, at a loss of 0.2·(0.4 + 0.7)/3 = 0.073 a round, and never
        // less: far from the 0.367 of a uniform choice.
        let exp3 = regret(Rule::Exp3, 20_000) / 20_000.0;
        assert!((0.07..0.12).contains(&exp3), "{exp3}");
    }

    #[test]
    fn a_step_makes_one_reset_within_four_pulls() {
        let (mut arms, mut rng, mut noise) = (Arms::new(3, Rule::Ucb1, true), PolicyRng::new(1), PolicyRng::new(2));
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
}
