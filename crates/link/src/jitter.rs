//! Variation of the delay, of the link and of the host at its end. Floats, because the distributions demand them; each
//! value is rounded to whole nanoseconds (towards zero) before it is used.

use rand_pcg::Pcg32;
use weftway_path::{Instant, Span};

use crate::Distribution;
use crate::draw::{Component, Normal, generator, unit};

/// The jitter of one link.
#[derive(Clone, Debug)]
pub(crate) struct Jitters {
    distribution: Distribution,
    generator: Pcg32,
    normal: Normal,
    /// The last correlated value in standard deviations, and the departure it was for.
    last: Option<(f64, Instant)>,
}

impl Jitters {
    pub(crate) fn new(distribution: Distribution, seed: u64) -> Self {
        Self { distribution, generator: generator(seed, Component::Jitter), normal: Normal::default(), last: None }
    }

    /// Jitter of the packet that departs at `departure`, on top of the delay, in nanoseconds.
    ///
    /// `Normal` and `Correlated` draw as Box and Muller do: four 32-bit numbers for two packets,
    /// cosine first. `Uniform` draws two numbers a packet.
    pub(crate) fn draw(&mut self, departure: Instant) -> i64 {
        match self.distribution {
            Distribution::Normal { sd } => (self.normal.draw(&mut self.generator) * nanos(sd)) as i64,
            Distribution::Uniform { half_width } => {
                ((2.0 * unit(&mut self.generator) - 1.0) * nanos(half_width)) as i64
            }
            Distribution::Correlated { sd, over } => (self.correlated(departure, over) * nanos(sd)) as i64,
        }
    }

    /// An Ornstein–Uhlenbeck process, exact for any spacing of the departures:
    /// x' = x·ρ + √(1 − ρ²)·N with ρ = exp(−t / over).
    fn correlated(&mut self, departure: Instant, over: Span) -> f64 {
        let fresh = self.normal.draw(&mut self.generator);
        let value = match self.last {
            Some((value, before)) => {
                let rho = libm::exp(-nanos(departure.since(before)) / nanos(over).max(1.0));
                value * rho + libm::sqrt(1.0 - rho * rho) * fresh
            }
            None => fresh,
        };
        self.last = Some((value, departure));
        value
    }
}

/// Delay with which the host at the end of a link takes packets up.
#[derive(Clone, Debug)]
pub(crate) struct HostJitter {
    mean: f64,
    generator: Pcg32,
}

impl HostJitter {
    /// Makes jitter of this mean; none if that is zero.
    pub(crate) fn new(mean: Span, seed: u64) -> Option<Self> {
        let new = || Self { mean: nanos(mean), generator: generator(seed, Component::HostJitter) };
        (mean > Span::ZERO).then(new)
    }

    /// Delay of the next packet, in nanoseconds: −mean · ln u, with u uniform in (0, 1].
    pub(crate) fn draw(&mut self) -> u64 {
        (-libm::log(unit(&mut self.generator)) * self.mean) as u64
    }
}

fn nanos(span: Span) -> f64 {
    span.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    fn draws(distribution: Distribution, spacing: Span) -> Vec<f64> {
        let mut jitters = Jitters::new(distribution, 5);
        let mut departure = Instant::ZERO;
        let mut next = || {
            departure += spacing;
            jitters.draw(departure) as f64 / 1e6
        };
        (0..100_000).map(|_| next()).collect()
    }

    fn mean(values: impl Iterator<Item = f64>) -> f64 {
        values.sum::<f64>() / 1e5
    }

    /// sd 2 ms, n = 10⁵: the mean has sd 2/√10⁵ = 0.0063 ms, the mean square 4·√(2/10⁵) = 0.018 ms².
    /// Four deviations each.
    #[test]
    fn normal_has_its_deviation() {
        let x = draws(Distribution::Normal { sd: Span::from_millis(2) }, Span::from_millis(1));
        assert!(mean(x.iter().copied()).abs() < 0.0253);
        assert!((mean(x.iter().map(|x| x * x)) - 4.0).abs() < 0.072);
    }

    /// Half width 3 ms: variance 9/3 = 3, mean sd √(3/10⁵) = 0.0055 ms. The mean square has variance
    /// (81/5 − 9)/10⁵, so sd 0.0085. Four deviations each.
    #[test]
    fn uniform_stays_inside_and_fills_its_width() {
        let x = draws(Distribution::Uniform { half_width: Span::from_millis(3) }, Span::from_millis(1));
        assert!(x.iter().all(|x| x.abs() <= 3.0));
        assert!(mean(x.iter().copied()).abs() < 0.022);
        assert!((mean(x.iter().map(|x| x * x)) - 3.0).abs() < 0.034);
    }

    /// Spacing 1 ms over 10 ms: ρ = e^−0.1 = 0.9048. The mean has sd 2·√((1+ρ)/(1−ρ)/10⁵) = 0.028 ms;
    /// the mean square 4·√(2·(1+ρ²)/(1−ρ²)/10⁵) = 0.057 ms². The correlation of neighbours has
    /// sd √((1−ρ²)/10⁵) = 0.0014. Four deviations each.
    #[test]
    fn correlated_remembers() {
        let correlated = Distribution::Correlated { sd: Span::from_millis(2), over: Span::from_millis(10) };
        let x = draws(correlated, Span::from_millis(1));
        assert!(mean(x.iter().copied()).abs() < 0.113);
        let square = mean(x.iter().map(|x| x * x));
        assert!((square - 4.0).abs() < 0.23, "{square}");
        let neighbours = x.windows(2).map(|pair| pair[0] * pair[1]).sum::<f64>() / 99_999.0;
        assert!((neighbours / square - 0.9048).abs() < 0.0057, "{}", neighbours / square);
    }
}
