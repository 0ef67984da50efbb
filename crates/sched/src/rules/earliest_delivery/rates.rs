//! Rates of a path: those that its window, its pacer and the measured rates allow.

use weftway_path::{BitRate, Bytes, Path, Span};

use super::capacity::is_queueing;

/// Multiple of the measured rate up to which window and pacer are believed: BBR's STARTUP
/// paces at 2.8 times its estimate, for as long as the application does not fill the pipe.
const OPTIMISM: u64 = 4;
/// Packets a round trip that are believed whatever was measured: each path begins with them (RFC 6928, RFC 9002), and
/// an application that sends a few bytes at a time shows nothing of what the path could bring.
const INITIAL_PACKETS: u64 = 10;
/// Packets a round trip that a path is taken to carry, where the load of the connection is asked for: one that was
/// never filled has shown too little, and its controller, which follows that, allows no more.
const UNSHOWN_PACKETS: u64 = 20;

/// Limits of a path's window and pacer.
#[derive(Clone, Copy, PartialEq, Default)]
pub(super) struct Limits {
    pub cwnd: Bytes,
    pub pacing_rate: BitRate,
    pub mss: Bytes,
    pub min_rtt: Span,
    pub srtt: Span,
    /// Rate of the bottleneck, if the controller says it.
    pub link_rate: BitRate,
}

/// Measured rates and round trip of a path.
#[derive(Clone, Copy)]
pub(super) struct Measured {
    /// Largest delivery rate of the last round trips.
    pub peak: BitRate,
    /// Largest delivery rate of the last minutes.
    pub most: BitRate,
    /// Rate while a queue stood there.
    pub capacity: Option<BitRate>,
    /// The smoothed round-trip time, less a queue that is gone.
    pub srtt: Span,
}

/// Rates of a path.
#[derive(Clone, Copy, Default)]
pub(super) struct Rates {
    /// Rate that the path brings.
    pub brings: BitRate,
    /// The part of it that was measured; all of it before the first measurement.
    pub measured: BitRate,
    /// Rate at which it lets more go when it is full.
    pub drains: BitRate,
    /// Rate that it carries, where the load is asked for.
    pub carries: BitRate,
    /// Time for which a packet occupies it.
    pub airtime: Span,
    /// Time for which a copy does: at the rate that its window allows, as far as it has shown so much in the last
    /// minutes. What it brought in the last round trips may be all that was asked of it.
    pub copy_airtime: Span,
}

impl Limits {
    #[inline(always)]
    pub fn of(path: &Path) -> Self {
        let &Path { cwnd, pacing_rate, mss, min_rtt, srtt, link_rate, .. } = path;
        Self { cwnd, pacing_rate, mss, min_rtt, srtt, link_rate }
    }

    /// A standing queue limits both rates to the peak; what the path brought while it was busy limits only the first.
    /// The window limits the second: no more than it in each least round trip. A rate that the controller says is both.
    pub fn rates(&self, known: &Measured) -> Rates {
        let &Measured { peak, most, capacity, srtt } = known;
        let (brings, drains) = if self.link_rate > BitRate::ZERO {
            (self.link_rate, self.link_rate)
        } else if is_queueing(srtt, self.min_rtt, self.mss, peak) {
            (peak, peak)
        } else {
            let believed = self.believed(peak, srtt);
            (capacity.map_or(believed, |capacity| believed.min(capacity.max(peak))), believed)
        };
        let window = BitRate::of(self.cwnd, self.min_rtt);
        let shown = brings.max(most.min(BitRate::of(self.cwnd, srtt)));
        Rates {
            brings,
            measured: if peak > BitRate::ZERO { peak } else { brings },
            drains: if window > BitRate::ZERO { drains.min(window) } else { drains },
            carries: shown.max(BitRate::of(self.mss.mul_div(UNSHOWN_PACKETS, 1), srtt)),
            airtime: brings.transmission_time(self.mss),
            copy_airtime: shown.transmission_time(self.mss),
        }
    }

    /// The peak, or what window and pacer promise, as far as that is believed. BBR paces at what an application sent: a
    /// pacer below the initial window in a round trip tells nothing.
    fn believed(&self, peak: BitRate, srtt: Span) -> BitRate {
        let window = BitRate::of(self.cwnd, srtt);
        if self.pacing_rate == BitRate::ZERO && (peak == BitRate::ZERO || window <= peak) {
            return window.max(peak);
        }
        let initial = BitRate::of(self.mss.mul_div(INITIAL_PACKETS, 1), srtt);
        let window = if self.pacing_rate > BitRate::ZERO { window.min(self.pacing_rate.max(initial)) } else { window };
        match peak {
            BitRate::ZERO => window,
            peak => window.min(peak.mul_div(OPTIMISM, 1).max(initial)).max(peak),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A window of 100 packets in 20 ms is 56 Mbit/s. Lately the path brought 1 Mbit/s of an application that had no
    /// more, a minute ago 40: a copy takes 1400 bytes / 40 Mbit/s = 0.28 ms.
    #[test]
    fn a_copy_is_priced_by_what_a_path_has_shown_in_minutes() {
        let ms = Span::from_millis;
        let limits = Limits {
            cwnd: Bytes::new(140_000),
            pacing_rate: BitRate::ZERO,
            mss: Bytes::new(1400),
            min_rtt: ms(20),
            srtt: ms(20),
            link_rate: BitRate::ZERO,
        };
        let known =
            Measured { peak: BitRate::from_mbps(1), most: BitRate::from_mbps(40), capacity: None, srtt: ms(20) };
        let rates = limits.rates(&known);
        assert_eq!(rates.brings, BitRate::from_bps(5_600_000), "ten packets a round trip are believed");
        assert_eq!((rates.airtime, rates.copy_airtime), (ms(2), Span::from_micros(280)));
        assert_eq!(rates.carries, BitRate::from_mbps(40));
        // What it has shown counts as far as its window allows it now: 5 packets in 20 ms.
        let narrow = Limits { cwnd: Bytes::new(7_000), ..limits }.rates(&known);
        assert_eq!(narrow.copy_airtime, ms(4));
        assert_eq!(narrow.carries, BitRate::from_bps(11_200_000), "twenty packets a round trip");
    }
}
