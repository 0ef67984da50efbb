//! Random numbers that applications draw.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use weftway_path::{Bytes, Span};

/// The most that a log-normal size is: 1 GB.
const LARGEST: f64 = 1e9;

/// A number in (0, 1], in steps of 2⁻⁵³.
fn unit(generator: &mut Pcg64Mcg) -> f64 {
    ((generator.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// An exponential time.
pub fn exponential(generator: &mut Pcg64Mcg, mean: Span) -> Span {
    Span::from_nanos((-libm::log(unit(generator)) * mean.as_nanos() as f64) as u64)
}

/// A log-normal size, of at least one byte and at most 1 GB: its logarithm is normal (by Box and Muller 1958), with the
/// logarithm of `median` as its mean.
pub(crate) fn log_normal(generator: &mut Pcg64Mcg, median: Bytes, sigma: f64) -> Bytes {
    let radius = libm::sqrt(-2.0 * libm::log(unit(generator)));
    let normal = radius * libm::cos(core::f64::consts::TAU * unit(generator));
    Bytes::new((median.get() as f64 * libm::exp(sigma * normal)).clamp(1.0, LARGEST) as u64)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The exponential distribution has half of its values below ln 2 · mean and its mean; of 20 000 draws the share
    /// below has a standard deviation of 0.0035 and the mean one of 0.7 %. Five of them.
    #[test]
    fn exponential_times_have_their_mean_and_median() {
        let mut generator = Pcg64Mcg::new(7);
        let draws: Vec<u64> =
            (0..20_000).map(|_| exponential(&mut generator, Span::from_millis(10)).as_nanos()).collect();
        let mean = draws.iter().sum::<u64>() as f64 / 20_000.0;
        let below = draws.iter().filter(|&&draw| draw < 6_931_472).count() as f64 / 20_000.0;
        assert!((mean / 1e7 - 1.0).abs() < 0.035 && (below - 0.5).abs() < 0.018, "{mean} {below}");
    }

    /// Half are below the median, and 95 of 100 below median · e^(1.6449 · sigma): for 12 kB and 1.3, 101.8 kB. The
    /// share of 20 000 draws has a standard deviation of 0.0035 and 0.0015. Five of them.
    #[test]
    fn sizes_are_log_normal() {
        let mut generator = Pcg64Mcg::new(9);
        let draws: Vec<u64> = (0..20_000).map(|_| log_normal(&mut generator, Bytes::new(12_000), 1.3).get()).collect();
        let below = |size: u64| draws.iter().filter(|&&draw| draw <= size).count() as f64 / 20_000.0;
        assert!((below(12_000) - 0.5).abs() < 0.018 && (below(101_827) - 0.95).abs() < 0.008);
        assert_eq!(log_normal(&mut generator, Bytes::new(12_000), 0.0), Bytes::new(12_000));
        assert_eq!(log_normal(&mut generator, Bytes::new(1_000_000_000), 0.0), Bytes::new(1_000_000_000));
    }
}
