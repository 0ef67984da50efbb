//! Limits within which idle paths copy packets that may be lost.

use weftway_path::Span;

/// Values of the option `insure`.
pub(super) const CHOICES: &[(&str, Option<Insurance>)] =
    &[("true", Some(Insurance::USUAL)), ("thrifty", Some(Insurance::THRIFTY)), ("false", None)];

#[derive(Clone, Copy)]
pub(super) struct Insurance {
    /// Load, in thousandths, below which a copy costs nobody anything: then all that is in flight is copied.
    free_below: u64,
    /// A multiple of the delay that a copy adds to other data, at a larger load.
    price: u64,
}

impl Insurance {
    pub(super) const USUAL: Self = Self { free_below: 250, price: 4 };

    /// Limits where data are paid for.
    const THRIFTY: Self = Self { free_below: 0, price: 16 };

    /// Time that a copy must gain if it takes `airtime`, at a load in thousandths.
    pub(super) fn price(self, airtime: Span, load: u64) -> Span {
        (airtime * self.price).mul_div(load * 1000, (1000 - load) * (1000 - load))
    }

    /// Tells whether a copy costs nothing at a load in thousandths.
    pub(super) fn is_free(self, load: u64) -> bool {
        load < self.free_below
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 3 ms of airtime: half loaded 0.5/0.5² = 2 of them, which are 6 ms; at nine tenths 0.9/0.1² = 90, 270 ms.
    #[test]
    fn its_price_grows_with_the_load() {
        let airtime = Span::from_millis(3);
        for (insurance, times) in [(Insurance::USUAL, 4), (Insurance::THRIFTY, 16)] {
            assert_eq!(insurance.price(airtime, 0), Span::ZERO);
            assert_eq!(insurance.price(airtime, 500), Span::from_millis(6 * times));
            assert_eq!(insurance.price(airtime, 900), Span::from_millis(270 * times));
        }
    }

    /// Copies cost nothing up to a quarter of what the paths carry; where data are paid for, they always do.
    #[test]
    fn it_is_free_at_a_light_load() {
        assert_eq!([0, 249, 250].map(|load| Insurance::USUAL.is_free(load)), [true, true, false]);
        assert_eq!([0, 249, 250].map(|load| Insurance::THRIFTY.is_free(load)), [false; 3]);
    }
}
