//! Units by which windows and times are divided before a network sees them.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Path, Span};

use crate::learned::task::Input;
use crate::shared::norm;

/// Units by which inputs are divided.
pub(crate) const SCALE: Param = Param {
    name: "scale",
    default: "fixed",
    values: "fixed | least",
    doc: "what windows and times are divided by: fixed sizes; or the least window and the least srtt of the paths, as natural logarithms, so that a network sees the same on links ten times as fast",
};

/// Ratios to the least are kept within this and its inverse.
const MOST: f64 = 64.0;

/// Scaling of inputs.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Scaling {
    /// By so many bytes and seconds.
    Fixed { w0: f64, d0: f64 },
    /// By the least window and the least round-trip time of the paths at hand.
    Least,
}

impl Scaling {
    /// As [`SCALE`] says; `w0` bytes and `d0` seconds where sizes are fixed.
    pub(crate) fn new(params: &Params, w0: f64, d0: f64) -> Result<Self, SpecError> {
        let is_fixed = params.choice("scale", &[("fixed", true), ("least", false)])?;
        Ok(if is_fixed { Self::Fixed { w0, d0 } } else { Self::Least })
    }

    /// The input called `name`, of bytes or of a time.
    pub(crate) fn input(self, name: impl Into<String>) -> Input {
        match self {
            Self::Fixed { .. } => Input::normalised(name),
            Self::Least => {
                let most = libm::log(MOST) as f32;
                Input { name: name.into(), low: -most, high: most }
            }
        }
    }

    /// The units for what is seen of `paths`.
    #[inline]
    pub(crate) fn units<'a>(self, paths: impl IntoIterator<Item = &'a Path>) -> Units {
        match self {
            Self::Fixed { w0, d0 } => Units { bytes: w0, seconds: d0, are_logarithms: false },
            Self::Least => least(paths),
        }
    }
}

#[inline(never)]
fn least<'a>(paths: impl IntoIterator<Item = &'a Path>) -> Units {
    let (mut window, mut srtt) = (f64::INFINITY, f64::INFINITY);
    for path in paths {
        window = window.min(path.cwnd.get() as f64);
        srtt = srtt.min(path.srtt.as_secs_f64());
    }
    Units { bytes: window, seconds: srtt, are_logarithms: true }
}

/// Units that count as 1.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Units {
    bytes: f64,
    seconds: f64,
    are_logarithms: bool,
}

impl Units {
    /// A number of bytes as a network sees it.
    #[inline]
    pub(crate) fn bytes(&self, bytes: Bytes) -> f32 {
        self.of(bytes.get() as f64, self.bytes)
    }

    /// A time as a network sees it.
    #[inline]
    pub(crate) fn time(&self, time: Span) -> f32 {
        self.of(time.as_secs_f64(), self.seconds)
    }

    #[inline]
    fn of(&self, value: f64, unit: f64) -> f32 {
        if self.are_logarithms { logarithm(value, unit) } else { norm::ratio(value, unit) as f32 }
    }
}

/// The natural logarithm of `value / unit`, which is kept within 1/64 and 64; 0 where the unit is nothing or unknown.
#[inline(never)]
fn logarithm(value: f64, unit: f64) -> f32 {
    if !(unit > 0.0 && unit.is_finite()) {
        return 0.0;
    }
    libm::log((value / unit).clamp(1.0 / MOST, MOST)) as f32
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::path;

    /// Windows of 20 and 10 packets, 50 and 20 ms: units are 14 kB and 20 ms.
    #[test]
    fn the_least_window_and_the_least_time_are_1_whatever_the_links_are_like() {
        for times in [1, 7] {
            let paths = [path(0, 50 * times, 20 * times, 0), path(1, 20 * times, 10 * times, 0)];
            let units = Scaling::Least.units(&paths);
            let bytes = |n: u64| units.bytes(Bytes::new(1400 * n * times));
            let expected = [0.0, 2.0_f64.ln(), 0.5_f64.ln()].map(|n| n as f32);
            assert_eq!([bytes(10), bytes(20), bytes(5)], expected);
            assert_eq!([20, 50].map(|ms| units.time(Span::from_millis(ms * times))), [0.0, 2.5_f64.ln() as f32]);
        }
    }

    #[test]
    fn nothing_and_a_great_deal_have_an_end() {
        let units = Scaling::Least.units(&[path(0, 50, 20, 0)]);
        let most = 64.0_f64.ln() as f32;
        assert_eq!([Bytes::ZERO, Bytes::MAX].map(|bytes| units.bytes(bytes)), [-most, most]);
        let input = Scaling::Least.input("cwnd");
        assert_eq!((input.low, input.high), (-most, most));
        assert_eq!(Scaling::Least.units(&[]).bytes(Bytes::new(1)), 0.0);
    }

    #[test]
    fn fixed_units_are_what_they_were() {
        let units = Scaling::Fixed { w0: 100e3, d0: 0.25 }.units(&[path(0, 50, 20, 0)]);
        assert_eq!((units.bytes(Bytes::new(50_000)), units.time(Span::from_millis(500))), (0.5, 2.0));
    }
}
