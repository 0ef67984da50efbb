//! Limits within which idle paths copy packets that may be lost.

use weftway_path::{Bytes, Span};

/// Copies may exceed their share of what is sent once by so many bytes before insurance ends: twenty packets, a first
/// window and the one after it.
const FREE_COPIES: Bytes = Bytes::new(30_000);

/// Values of the option `insure`.
pub(super) const CHOICES: &[(&str, Option<Insurance>)] =
    &[("true", Some(Insurance::USUAL)), ("thrifty", Some(Insurance::THRIFTY)), ("false", None)];

#[derive(Clone, Copy)]
pub(super) struct Insurance {
    /// A multiple of the delay that a copy adds to other data.
    price: u64,
    /// Largest share of the copies in the bytes that are sent once, in thousandths.
    share: u64,
}

impl Insurance {
    pub(super) const USUAL: Self = Self { price: 4, share: 1000 };

    /// Limits where data are paid for.
    const THRIFTY: Self = Self { price: 16, share: 125 };

    /// Time that a copy must gain if it takes `airtime`, at a load in thousandths.
    pub(super) fn price(self, airtime: Span, load: u64) -> Span {
        (airtime * self.price).mul_div(load * 1000, (1000 - load) * (1000 - load))
    }

    /// Tells whether another copy may go after so many bytes of copies and `once` others.
    pub(super) fn covers(self, copies: Bytes, once: Bytes) -> bool {
        copies < once.mul_div(self.share, 1000) + FREE_COPIES
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

    /// Beside 80 kB as much and 30 kB, or an eighth and 30 kB.
    #[test]
    fn it_ends_with_its_share() {
        let once = Bytes::new(80_000);
        for (insurance, most) in [(Insurance::USUAL, 110_000), (Insurance::THRIFTY, 40_000)] {
            assert!(insurance.covers(Bytes::new(most - 1), once));
            assert!(!insurance.covers(Bytes::new(most), once));
        }
    }
}
