//! Linear arm: ridge regression of rewards on contexts, `θ = A⁻¹b` with `A = I + Σ x·xᵀ` and
//! `b = Σ r·x`.
//!
//! The inverse is kept, not the matrix: Sherman and Morrison's formula adds an outer product to
//! it in N² operations.
//! Reference: Li, Chu, Langford, Schapire: LinUCB, WWW 2010, algorithm 1.

/// An arm with contexts of `N` numbers.
#[derive(Clone, Debug)]
pub(crate) struct Arm<const N: usize> {
    inverse: [[f64; N]; N],
    rewards: [f64; N],
    theta: [f64; N],
}

impl<const N: usize> Default for Arm<N> {
    fn default() -> Self {
        let row = |at: usize| core::array::from_fn(|column| if column == at { 1.0 } else { 0.0 });
        Self { inverse: core::array::from_fn(row), rewards: [0.0; N], theta: [0.0; N] }
    }
}

impl<const N: usize> Arm<N> {
    /// The coefficients.
    pub(crate) fn theta(&self) -> &[f64; N] {
        &self.theta
    }

    /// The expected reward, `θ·x`.
    #[inline]
    pub(crate) fn expected(&self, x: &[f64; N]) -> f64 {
        dot(&self.theta, x)
    }

    /// The upper confidence bound, `θ·x + α·√(x·A⁻¹x)`.
    pub(crate) fn bound(&self, x: &[f64; N], alpha: f64) -> f64 {
        let bonus = if alpha > 0.0 { alpha * libm::sqrt(dot(x, &times(&self.inverse, x)).max(0.0)) } else { 0.0 };
        self.expected(x) + bonus
    }

    /// Takes one observation in.
    pub(crate) fn learn(&mut self, x: &[f64; N], reward: f64) {
        let ax = times(&self.inverse, x);
        let scale = 1.0 + dot(x, &ax);
        for (row, a) in self.inverse.iter_mut().zip(ax) {
            row.iter_mut().zip(ax).for_each(|(cell, b)| *cell -= a * b / scale);
        }
        self.rewards.iter_mut().zip(x).for_each(|(sum, x)| *sum += reward * x);
        self.theta = times(&self.inverse, &self.rewards);
    }

    /// Moves the coefficients themselves by `step`.
    pub(crate) fn shift(&mut self, step: &[f64; N]) {
        self.theta.iter_mut().zip(step).for_each(|(theta, step)| *theta += step);
    }
}

/// The inner product.
#[inline]
pub(crate) fn dot<const N: usize>(a: &[f64; N], b: &[f64; N]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times<const N: usize>(matrix: &[[f64; N]; N], x: &[f64; N]) -> [f64; N] {
    core::array::from_fn(|row| dot(&matrix[row], x))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::shared::rng::PolicyRng;

    /// The inverse by Gauss and Jordan's elimination with pivoting.
    fn dense_inverse(mut a: [[f64; 6]; 6]) -> [[f64; 6]; 6] {
        let mut inverse = Arm::<6>::default().inverse;
        for column in 0..6 {
            let pivot = (column..6).max_by(|&i, &j| a[i][column].abs().total_cmp(&a[j][column].abs())).unwrap();
            a.swap(column, pivot);
            inverse.swap(column, pivot);
            let by = a[column][column];
            for at in 0..6 {
                a[column][at] /= by;
                inverse[column][at] /= by;
            }
            for row in (0..6).filter(|row| *row != column) {
                let factor = a[row][column];
                for at in 0..6 {
                    a[row][at] -= factor * a[column][at];
                    inverse[row][at] -= factor * inverse[column][at];
                }
            }
        }
        inverse
    }

    #[test]
    fn the_kept_inverse_is_the_inverse_after_a_thousand_updates() {
        let (mut arm, mut rng) = (Arm::<6>::default(), PolicyRng::new(7));
        let mut a = arm.inverse;
        for _ in 0..1000 {
            let x: [f64; 6] = core::array::from_fn(|_| 4.0 * rng.unit());
            arm.learn(&x, 1.0);
            for (row, x_row) in a.iter_mut().zip(x) {
                row.iter_mut().zip(x).for_each(|(cell, x_column)| *cell += x_row * x_column);
            }
        }
        let dense = dense_inverse(a);
        let cells = arm.inverse.iter().flatten().zip(dense.iter().flatten());
        assert!(cells.clone().all(|(kept, dense)| (kept - dense).abs() < 1e-9));
    }

    #[test]
    fn true_coefficients_are_found() {
        let truth = [0.5, -1.0, 2.0, 0.0, 0.25, -0.75];
        let (mut arm, mut rng) = (Arm::<6>::default(), PolicyRng::new(3));
        for _ in 0..5000 {
            let x: [f64; 6] = core::array::from_fn(|_| rng.unit());
            let noise = 0.2 * (rng.unit() - 0.5);
            arm.learn(&x, dot(&truth, &x) + noise);
        }
        // The noise has a deviation of 0.2/√12 = 0.058 and each coefficient's error about
        // 0.058/√(5000/12) = 0.003; the prior pulls by about 2/(5000/12) = 0.005.
        assert!(arm.theta().iter().zip(truth).all(|(found, truth)| (found - truth).abs() < 0.02));
    }

    #[test]
    fn one_observation_by_hand() {
        let mut arm = Arm::<2>::default();
        arm.learn(&[1.0, 0.0], 3.0);
        // A = diag(2, 1), b = (3, 0): θ = (1.5, 0), and the bound at (1, 1) is 1.5 + 2·√(1/2 + 1).
        assert_eq!(arm.theta(), &[1.5, 0.0]);
        assert!((arm.bound(&[1.0, 1.0], 2.0) - (1.5 + 2.0 * 1.5f64.sqrt())).abs() < 1e-12);
    }
}
