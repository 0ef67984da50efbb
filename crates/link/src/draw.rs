//! Random numbers: one generator for each component of a link, and one for made traces.

use rand_core::Rng;
use rand_pcg::Pcg32;

/// The components that draw; the number selects the stream.
#[derive(Clone, Copy)]
pub(crate) enum Component {
    Loss = 1,
    Jitter = 2,
    Arq = 3,
    Redraw = 4,
    Trace = 5,
    HostJitter = 6,
    Common = 7,
    Fade = 8,
}

/// Seeds of a link.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Seeds {
    /// For what it draws alone.
    pub own: u64,
    /// For what it has in common with other links: the seed of the run.
    pub run: u64,
}

impl From<u64> for Seeds {
    fn from(seed: u64) -> Self {
        Self { own: seed, run: seed }
    }
}

impl Seeds {
    /// The generator of `component` for all links of a group.
    pub(crate) fn of_group(self, group: u64, component: Component) -> Pcg32 {
        generator(mix(self.run ^ group), component)
    }
}

/// 2⁶⁴ / φ: the step of SplitMix64.
const GOLDEN: u64 = 0x9E37_79B9_7F4A_7C15;

/// The generator of `component` in a link with `seed`. Neighbouring seeds get unrelated states.
pub(crate) fn generator(seed: u64, component: Component) -> Pcg32 {
    let stream = component as u64;
    Pcg32::new(mix(seed.wrapping_add(stream.wrapping_mul(GOLDEN))), stream)
}

/// The output function of SplitMix64 (Steele, Lea, Flood 2014).
fn mix(mut z: u64) -> u64 {
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}

/// A probability as a threshold for 32 random bits: integers decide.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chance(u64);

impl Chance {
    /// `p`, clamped to [0, 1] and rounded to a multiple of 2⁻³²; NaN is 0.
    pub(crate) fn new(p: f64) -> Self {
        // `as` saturates at 0 and maps NaN to 0.
        Self(((p * 4_294_967_296.0 + 0.5) as u64).min(1 << 32))
    }

    /// Returns true if it never comes true.
    pub(crate) fn is_zero(self) -> bool {
        self.0 == 0
    }

    /// Probability of the draw.
    pub(crate) fn probability(self) -> f64 {
        self.0 as f64 / 4_294_967_296.0
    }

    /// Draws once.
    #[inline]
    pub(crate) fn draw(self, generator: &mut Pcg32) -> bool {
        u64::from(generator.next_u32()) < self.0
    }
}

/// An integer from `low` to `high`, both included; `low` when the range is empty. The bias of the
/// multiplication is below (high − low) / 2⁶⁴.
pub(crate) fn uniform(generator: &mut Pcg32, low: u64, high: u64) -> u64 {
    let draw = u128::from(generator.next_u64());
    let width = u128::from(high.saturating_sub(low)) + 1;
    low + ((draw * width) >> 64) as u64
}

/// A number in (0, 1], in steps of 2⁻⁵³.
pub(crate) fn unit(generator: &mut Pcg32) -> f64 {
    ((generator.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64
}

/// Standard normal numbers by Box and Muller (1958), two from each pair of uniform ones.
#[derive(Clone, Debug, Default)]
pub(crate) struct Normal {
    spare: Option<f64>,
}

impl Normal {
    pub(crate) fn draw(&mut self, generator: &mut Pcg32) -> f64 {
        if let Some(spare) = self.spare.take() {
            return spare;
        }
        let radius = libm::sqrt(-2.0 * libm::log(unit(generator)));
        let angle = core::f64::consts::TAU * unit(generator);
        self.spare = Some(radius * libm::sin(angle));
        radius * libm::cos(angle)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chances_round_and_clamp() {
        assert_eq!(Chance::new(0.5), Chance(1 << 31));
        assert_eq!(Chance::new(1.5), Chance(1 << 32));
        assert_eq!(Chance::new(-1.0), Chance(0));
        assert_eq!(Chance::new(f64::NAN), Chance(0));
    }

    #[test]
    fn certainty_is_certain() {
        let mut generator = generator(7, Component::Loss);
        assert!((0..10_000).all(|_| Chance::new(1.0).draw(&mut generator)));
        assert!((0..10_000).all(|_| !Chance::new(0.0).draw(&mut generator)));
    }

    #[test]
    fn components_and_seeds_draw_differently() {
        let first = |seed, component| generator(seed, component).next_u64();
        assert_ne!(first(1, Component::Loss), first(1, Component::Jitter));
        assert_ne!(first(1, Component::Loss), first(2, Component::Loss));
    }

    #[test]
    fn uniform_reaches_both_ends() {
        let mut generator = generator(3, Component::Redraw);
        let draws: Vec<u64> = (0..200).map(|_| uniform(&mut generator, 5, 7)).collect();
        assert!((5..=7).all(|value| draws.contains(&value)));
        assert!(draws.iter().all(|value| (5..=7).contains(value)));
    }

    /// Mean of 10⁵ standard normals: sd 1/√10⁵ = 0.0032. Their mean square: sd √(2/10⁵) = 0.0045.
    /// Four deviations each.
    #[test]
    fn normals_have_mean_zero_and_variance_one() {
        let mut generator = generator(11, Component::Jitter);
        let mut normal = Normal::default();
        let draws: Vec<f64> = (0..100_000).map(|_| normal.draw(&mut generator)).collect();
        let mean = draws.iter().sum::<f64>() / 1e5;
        let square = draws.iter().map(|x| x * x).sum::<f64>() / 1e5;
        assert!(mean.abs() < 0.0127, "mean {mean}");
        assert!((square - 1.0).abs() < 0.018, "mean square {square}");
    }
}
