//! A policy's own random numbers. Equal seeds and equal events give equal decisions.

use rand_core::{Rng, SeedableRng};
use rand_pcg::Pcg32;
use weftway_path::spec::Param;

/// The switch that every policy with a generator has.
pub(crate) const SEED: Param = Param {
    name: "seed",
    default: "1",
    values: "integer, 0 to 18446744073709551615",
    doc: "seed of the scheduler's own draws; the run's seed does not move them",
};

/// The generator.
#[derive(Clone)]
pub(crate) struct PolicyRng(Pcg32);

impl PolicyRng {
    pub(crate) fn new(seed: u64) -> Self {
        Self(Pcg32::seed_from_u64(seed))
    }

    /// Draws an event of probability `p`, which is rounded to a multiple of 2⁻³².
    pub(crate) fn flip(&mut self, p: f64) -> bool {
        let threshold = (p * 4_294_967_296.0 + 0.5) as u64;
        u64::from(self.0.next_u32()) < threshold
    }

    /// A number in [0, 1), in steps of 2⁻³².
    pub(crate) fn unit(&mut self) -> f64 {
        f64::from(self.0.next_u32()) / 4_294_967_296.0
    }
}
