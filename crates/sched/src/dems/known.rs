//! What each path has copied, how fast it is and how sure that is.

use weftway_path::{BitRate, Offset};

/// What is known of a path.
#[derive(Clone, Copy, Default)]
pub(super) struct Known {
    /// Everything before it needs no copy.
    pub(super) copied: Offset,
    /// Mean of the samples.
    pub(super) rate: BitRate,
    /// Mean distance of a sample from the mean before it.
    pub(super) error: BitRate,
}

impl Known {
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
