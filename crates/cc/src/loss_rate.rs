//! Loss rate of a path: bytes lost of those acknowledged or lost, over its last few hundred packets.

use crate::window::LARGEST;
use crate::{Acked, Congestion};

/// All of it, in parts per million.
const ALL: u128 = 1_000_000;

/// Bytes acknowledged and lost, of which the older ones count less.
#[derive(Clone, Debug)]
pub(crate) struct LossRate {
    /// Bytes that the rate is taken over, at least; twice as many at most.
    counted: u64,
    acked: u64,
    lost: u64,
}

impl LossRate {
    /// Makes a rate over `packets` at least.
    pub(crate) fn new(packets: u64, mss: u64) -> Self {
        Self { counted: packets.saturating_mul(mss).min(LARGEST), acked: 0, lost: 0 }
    }

    pub(crate) fn on_acked(&mut self, acked: &Acked) {
        self.acked += acked.bytes.get().min(LARGEST);
        self.lost += acked.lost.get().min(LARGEST);
        if self.acked + self.lost >= 2 * self.counted {
            (self.acked, self.lost) = (self.acked / 2, self.lost / 2);
        }
    }

    /// Returns true if more than `ppm` in a million bytes are lost, those of `congestion` included.
    pub(crate) fn exceeds(&self, congestion: &Congestion, ppm: u64) -> bool {
        let lost = self.lost.saturating_add(congestion.lost.get());
        let all = self.acked.saturating_add(lost).max(self.counted);
        u128::from(lost) * ALL > u128::from(all) * u128::from(ppm)
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, Instant, Span};

    use super::*;
    use crate::Signal;
    use crate::bbr::pipe::blank;

    fn acked(packets: u64, lost: u64) -> Acked {
        Acked { bytes: Bytes::new(1000 * packets), lost: Bytes::new(1000 * lost), ..blank(Instant::from_millis(100)) }
    }

    /// Returns true if `lost` more packets are above 2 %.
    fn is_above(rate: &LossRate, lost: u64) -> bool {
        let congestion = Congestion {
            now: Instant::from_millis(1000),
            signal: Signal::Loss,
            bytes_in_flight: Bytes::new(100_000),
            lost: Bytes::new(1000 * lost),
            lost_sent: Instant::from_millis(950),
            srtt: Span::from_millis(40),
        };
        rate.exceeds(&congestion, 20_000)
    }

    /// 2 % of the 500 packets that count at least are ten, however few were sent.
    #[test]
    fn few_packets_count_as_many() {
        let mut rate = LossRate::new(500, 1000);
        rate.on_acked(&acked(100, 0));
        assert!(!is_above(&rate, 10) && is_above(&rate, 11));
    }

    /// 18 of 900 packets are 2 %. At 1000 packets all counts are halved: 9 of 500 are left. 10 of 501 are below 2 %, 11
    /// of 502 above.
    #[test]
    fn old_losses_count_half() {
        let mut rate = LossRate::new(500, 1000);
        rate.on_acked(&acked(882, 18));
        assert!(!is_above(&rate, 0) && is_above(&rate, 1));
        rate.on_acked(&acked(100, 0));
        assert_eq!((rate.acked, rate.lost), (491_000, 9000));
        assert!(!is_above(&rate, 1) && is_above(&rate, 2));
    }
}
