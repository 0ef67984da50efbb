//! Lateness of packets that were handed over, by which a run is judged.

use weftway_path::Span;

/// A packet this late was late indeed.
pub const LATE: Span = Span::from_millis(1);

/// Number of packets, of 1000, that may be late for a run to be fit for use.
const LATE_PER_MILLE: u64 = 5;

/// Upper bounds of the bins, in microseconds; the last bin has none.
pub const BINS_US: [u64; 12] = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1000, 2000, 5000];

/// A histogram of lateness: the time from when a packet was due to when it had been handed over.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Lateness {
    bins: [u64; BINS_US.len() + 1],
    packets: u64,
    late: u64,
    sum: Span,
    max: Span,
}

impl Lateness {
    /// Counts one packet.
    pub fn add(&mut self, by: Span) {
        let micros = by.as_nanos().div_ceil(1000);
        self.bins[BINS_US.partition_point(|&bound| bound < micros)] += 1;
        self.packets += 1;
        self.late += u64::from(by > LATE);
        self.sum += by;
        self.max = self.max.max(by);
    }

    /// Packets counted.
    pub fn packets(&self) -> u64 {
        self.packets
    }

    /// Number of packets that were more than 1 ms late.
    pub fn late(&self) -> u64 {
        self.late
    }

    /// The mean; zero if there was none.
    pub fn mean(&self) -> Span {
        Span::from_nanos(self.sum.as_nanos().checked_div(self.packets).unwrap_or(0))
    }

    /// The worst.
    pub fn max(&self) -> Span {
        self.max
    }

    /// Packets per bin; see [`BINS_US`].
    pub fn bins(&self) -> &[u64] {
        &self.bins
    }

    /// Returns true if at most 0.5 % of the packets were late.
    pub fn is_fit(&self) -> bool {
        self.late * 1000 <= self.packets * LATE_PER_MILLE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn packets_fall_into_the_bin_whose_bound_they_do_not_exceed() {
        let mut lateness = Lateness::default();
        for nanos in [0, 1_000, 1_001, 100_000, 1_000_000, 1_000_001, 6_000_000] {
            lateness.add(Span::from_nanos(nanos));
        }
        // 0 and 1 µs in the first, 1.001 µs in the second, 100 µs and 1 ms in their own, 1.000001 ms after it, 6 ms
        // last.
        assert_eq!(lateness.bins(), [2, 1, 0, 0, 0, 0, 1, 0, 0, 1, 1, 0, 1]);
        assert_eq!((lateness.packets(), lateness.late()), (7, 2));
        assert_eq!(lateness.max(), Span::from_millis(6));
        // (0 + 1000 + 1001 + 100000 + 1000000 + 1000001 + 6000000) / 7 = 8102002 / 7
        assert_eq!(lateness.mean(), Span::from_nanos(1_157_428));
    }

    #[test]
    fn one_late_packet_in_two_hundred_is_fit() {
        let mut lateness = Lateness::default();
        (0..199).for_each(|_| lateness.add(Span::ZERO));
        lateness.add(Span::from_millis(2));
        assert!(lateness.is_fit(), "1 of 200 is 0.5 %");
        lateness.add(Span::from_millis(2));
        assert!(!lateness.is_fit());
    }
}
