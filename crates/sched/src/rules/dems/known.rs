//! Knowledge of each path: its copies, its speed and how sure that is.

use weftway_path::{BitRate, Offset};

/// Knowledge of a path.
#[derive(Clone, Copy, Default)]
pub(super) struct PathRecord {
    /// Everything before it needs no copy.
    pub(super) copied: Offset,
    /// Mean of the samples.
    pub(super) rate: BitRate,
    /// Mean distance of a sample from the mean before it.
    pub(super) error: BitRate,
}

impl PathRecord {
    /// Takes a sample into the means.
    pub(super) fn note(&mut self, sample: BitRate) {
        let (mean, error) = (self.rate.as_bps(), self.error.as_bps());
        if mean == 0 {
            self.rate = sample;
            return;
        }
        let miss = mean.abs_diff(sample.as_bps());
        self.rate = BitRate::from_bps((mean - mean / 8).saturating_add(sample.as_bps() / 8));
        self.error = BitRate::from_bps((error - error / 4).saturating_add(miss / 4));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn means_by_hand() {
        // 800 at first. 1600 is off by 800: 800 − 100 + 200, and a quarter of 800. 900 is as the mean: 900 − 112 + 112,
        // whole eighths, and 200 − 50.
        let mut known = PathRecord::default();
        for (sample, rate, error) in [(800, 800, 0), (1600, 900, 200), (900, 900, 150)] {
            known.note(BitRate::from_bps(sample));
            assert_eq!((known.rate.as_bps(), known.error.as_bps()), (rate, error));
        }
    }
}
