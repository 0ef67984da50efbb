//! The range that BBR holds to: `hi` is what probing found safe, `lo` what losses since leave.
//!
//! ```text
//! lossy round, not probing   bw_lo       = max(rate of the round, 0.7 · bw_lo)
//!                            inflight_lo = max(volume of the round, 0.7 · inflight_lo)
//! REFILL                     bw_lo and inflight_lo are forgotten
//! probe lost too much        inflight_hi = max(in flight when the probe left, 0.7 · target)
//! ```

use crate::bbr::{LEAST, UNIT};

/// Share that a loss leaves, 1 − 0.3 in 256ths (`bbr_beta`).
const KEPT: u64 = UNIT - UNIT * 30 / 100;

/// Bounds in bits/s and packets; `None` is no bound.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Bounds {
    pub(super) bw_lo: Option<u64>,
    pub(super) inflight_lo: Option<u64>,
    pub(super) inflight_hi: Option<u64>,
}

/// Largest rate of a round in bits/s, and the most packets that were delivered at once.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Latest {
    pub(super) bw: u64,
    pub(super) inflight: u64,
}

impl Latest {
    pub(super) fn raise(&mut self, other: Self) {
        self.bw = self.bw.max(other.bw);
        self.inflight = self.inflight.max(other.inflight);
    }
}

/// `share` 256ths of `amount`, rounded down, without overflow in between.
fn part(amount: u64, share: u64) -> u64 {
    amount / UNIT * share + amount % UNIT * share / UNIT
}

/// 0.7 of it.
pub(super) fn kept(amount: u64) -> u64 {
    part(amount, KEPT)
}

/// The larger of two bounds of which `None` is the largest.
fn higher(one: Option<u64>, other: Option<u64>) -> Option<u64> {
    one.zip(other).map(|(one, other)| one.max(other))
}

impl Bounds {
    /// A round lost packets: falls to what it delivered, by no more than three tenths.
    pub(super) fn cut(&mut self, max_bw: u64, cwnd: u64, latest: Latest) {
        self.bw_lo = Some(latest.bw.max(kept(self.bw_lo.unwrap_or(max_bw))));
        self.inflight_lo = Some(latest.inflight.max(kept(self.inflight_lo.unwrap_or(cwnd))));
    }

    /// Forgets the short-term bounds.
    pub(super) fn forget_low(&mut self) {
        self.bw_lo = None;
        self.inflight_lo = None;
    }

    /// Takes back what changed since `before`.
    pub(super) fn restore(&mut self, before: Self) {
        self.bw_lo = higher(self.bw_lo, before.bw_lo);
        self.inflight_lo = higher(self.inflight_lo, before.inflight_lo);
        self.inflight_hi = higher(self.inflight_hi, before.inflight_hi);
    }

    /// Largest flight that leaves others `share` 256ths of `inflight_hi`, at least a packet.
    pub(super) fn with_headroom(&self, share: u64) -> u64 {
        self.inflight_hi.map_or(u64::MAX, |hi| {
            let headroom = part(hi, share).max(1);
            hi.saturating_sub(headroom).max(LEAST)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_lossy_round_cuts_to_what_it_delivered() {
        let mut bounds = Bounds::default();
        // 180/256 of 1000 is 703, of 100 it is 70; 800 and 60 were delivered.
        bounds.cut(1000, 100, Latest { bw: 800, inflight: 60 });
        assert_eq!((bounds.bw_lo, bounds.inflight_lo), (Some(800), Some(70)));
        // Of 800 it is 562, of 70 it is 49.
        bounds.cut(1000, 100, Latest::default());
        assert_eq!((bounds.bw_lo, bounds.inflight_lo), (Some(562), Some(49)));
    }

    #[test]
    fn no_bound_is_higher_than_any() {
        let mut bounds = Bounds { bw_lo: Some(5), inflight_lo: Some(5), inflight_hi: Some(9) };
        bounds.restore(Bounds { bw_lo: None, inflight_lo: Some(7), inflight_hi: Some(8) });
        assert_eq!((bounds.bw_lo, bounds.inflight_lo, bounds.inflight_hi), (None, Some(7), Some(9)));
    }

    #[test]
    fn headroom_is_fifteen_hundredths_and_at_least_a_packet() {
        let with_headroom = |hi| Bounds { inflight_hi: hi, ..Bounds::default() }.with_headroom(UNIT * 15 / 100);
        // 38/256 of 100 is 14; of 6 it is none, so 1; never below 4.
        assert_eq!(with_headroom(Some(100)), 86);
        assert_eq!(with_headroom(Some(6)), 5);
        assert_eq!(with_headroom(Some(3)), LEAST);
        assert_eq!(with_headroom(None), u64::MAX);
    }
}
