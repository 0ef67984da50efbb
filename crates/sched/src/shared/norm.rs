//! Scales that make inputs dimensionless. Every normalised input lies in [0, 4].
//!
//! Round-trip times are divided by a constant of 250 ms. Rates are divided by the largest rate
//! that the path itself has shown, so that a policy sees the same on links ten times as fast.

use weftway_path::Instant;

/// The largest normalised input.
pub(crate) const LARGEST: f64 = 4.0;

/// By how much a peak falls: 1 % in a second, as a rate of decay.
const DECAY_PER_SECOND: f64 = 0.01;

/// `value / scale` within [0, 4]; 0 without a scale.
#[inline]
pub(crate) fn ratio(value: f64, scale: f64) -> f64 {
    if scale > 0.0 { (value / scale).clamp(0.0, LARGEST) } else { 0.0 }
}

/// A running maximum that forgets.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Peak {
    value: f64,
    at: Option<Instant>,
}

impl Peak {
    /// A maximum that starts at `value`.
    pub(crate) const fn new(value: f64) -> Self {
        Self { value, at: None }
    }

    /// The maximum as of the last sample.
    #[inline]
    pub(crate) fn get(&self) -> f64 {
        self.value
    }

    /// Takes a sample in, and returns the maximum.
    pub(crate) fn note(&mut self, now: Instant, sample: f64) -> f64 {
        if let Some(at) = self.at {
            self.value *= libm::exp(-DECAY_PER_SECOND * now.since(at).as_secs_f64());
        }
        self.at = Some(now);
        self.value = self.value.max(sample);
        self.value
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_peak_falls_by_a_percent_in_a_second() {
        let mut peak = Peak::new(0.0);
        assert_eq!(peak.note(Instant::from_millis(0), 100.0), 100.0);
        // e^-0.01 = 0.99005; then a larger sample.
        assert!((peak.note(Instant::from_millis(1000), 5.0) - 99.005).abs() < 1e-3);
        assert_eq!(peak.note(Instant::from_millis(1000), 120.0), 120.0);
    }

    #[test]
    fn nothing_over_nothing_is_nothing() {
        assert_eq!(ratio(0.0, 0.0), 0.0);
        assert_eq!(ratio(9.0, 2.0), 4.0);
    }

    #[test]
    fn a_peak_falls_by_two_percent_in_two_seconds() {
        let mut peak = Peak::new(7.0);
        assert_eq!(peak.get(), 7.0);
        peak.note(Instant::from_millis(0), 100.0);
        // e^-0.02 = 0.98020.
        assert!((peak.note(Instant::from_millis(2000), 5.0) - 98.020).abs() < 1e-3);
        assert!((peak.get() - 98.020).abs() < 1e-3);
    }
}
