//! ACK aggregation: by how much ACKs exceed what the bandwidth explains, so that BBR keeps enough in
//! flight while the next bunch of ACKs gathers (`bbr_update_ack_aggregation`).
//!
//! ```text
//! extra = acked in the epoch − bw · (now − its start), at most cwnd; a deficit starts an epoch
//! window += max extra of the last 5 to 10 rounds, at most bw · 100 ms
//! ```
//!
//! Departures: counts bytes where the kernel counts packets.

use weftway_path::{BitRate, Instant, Span};

use crate::Acked;
use crate::window::LARGEST;

/// Rounds that each of the two maxima covers (`bbr_extra_acked_win_rtts`), unless in STARTUP of version 2.
const ROUNDS: u32 = 5;
/// The most that aggregation may add, as time (`bbr_extra_acked_max_us`).
const MOST: Span = Span::from_millis(100);
/// Packets after which an epoch starts anew (`bbr_ack_epoch_acked_reset_thresh`).
const EPOCH_PACKETS: u64 = 1 << 20;

/// The excess of what is acknowledged over what the bandwidth explains.
#[derive(Clone, Debug)]
pub(crate) struct Aggregation {
    began: Instant,
    acked: u64,
    /// Rounds that each of the two maxima covers.
    span: u32,
    rounds: u32,
    current: usize,
    extra: [u64; 2],
}

impl Aggregation {
    pub(crate) fn new(now: Instant) -> Self {
        Self { began: now, acked: 0, span: ROUNDS, rounds: 0, current: 0, extra: [0; 2] }
    }

    /// Remembers for one to two rounds in STARTUP, whose estimate grows, and for five to ten after
    /// it (`bbr_extra_acked_in_startup`).
    pub(crate) fn in_startup(&mut self, startup: bool) {
        self.span = if startup { 1 } else { ROUNDS };
    }

    /// Starts an epoch.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.began = now;
        self.acked = 0;
    }

    /// `limits` are the window and the packet size, in bytes.
    #[inline]
    pub(crate) fn on_acked(&mut self, acked: &Acked, round_start: bool, bw: BitRate, limits: (u64, u64)) {
        let (cwnd, mss) = limits;
        let newly = acked.bytes.get().min(LARGEST);
        if newly == 0 {
            return;
        }
        if round_start {
            self.rounds += 1;
            if self.rounds >= self.span {
                self.rounds = 0;
                self.current = 1 - self.current;
                self.extra[self.current] = 0;
            }
        }
        let mut expected = bw.bytes_in(acked.now.since(self.began)).get();
        if self.acked <= expected || self.acked + newly >= EPOCH_PACKETS.saturating_mul(mss) {
            self.restart(acked.now);
            expected = 0;
        }
        self.acked += newly;
        let extra = (self.acked - expected).min(cwnd);
        self.extra[self.current] = self.extra[self.current].max(extra);
    }

    /// Bytes by which the window may grow for aggregation.
    #[inline]
    pub(crate) fn extra(&self, bw: BitRate) -> u64 {
        self.extra[0].max(self.extra[1]).min(bw.bytes_in(MOST).get())
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, Recovery};

    use super::*;

    /// Rate of a packet of 1000 B each ms.
    const RATE: BitRate = BitRate::from_mbps(8);
    const LIMITS: (u64, u64) = (50_000, 1000);

    fn ack(aggregation: &mut Aggregation, ms: u64, packets: u64, round_start: bool) -> u64 {
        let acked = Acked {
            now: Instant::from_millis(ms),
            bytes: Bytes::new(packets * 1000),
            lost: Bytes::ZERO,
            prior_in_flight: Bytes::ZERO,
            bytes_in_flight: Bytes::ZERO,
            rtt: None,
            srtt: Span::ZERO,
            min_rtt: Span::ZERO,
            newest_sent: Instant::ZERO,
            delivered: Bytes::ZERO,
            prior_delivered: Bytes::ZERO,
            rate: None,
            interval: Span::ZERO,
            app_limited: false,
            cwnd_limited: true,
            recovery: Recovery::Open,
            reducing: false,
        };
        aggregation.on_acked(&acked, round_start, RATE, LIMITS);
        aggregation.extra(RATE) / 1000
    }

    #[test]
    fn what_exceeds_the_rate_is_extra() {
        let mut aggregation = Aggregation::new(Instant::ZERO);
        // At 10 ms ten packets are due and none has come: an epoch starts with these five.
        assert_eq!(ack(&mut aggregation, 10, 5, false), 5);
        // A ms later one is due and ten have come.
        assert_eq!(ack(&mut aggregation, 11, 5, false), 9);
        // At 40 ms thirty are due: a new epoch, and nine stay the largest excess.
        assert_eq!(ack(&mut aggregation, 40, 1, false), 9);
    }

    #[test]
    fn the_window_and_a_tenth_of_a_second_bound_it() {
        let mut aggregation = Aggregation::new(Instant::ZERO);
        assert_eq!(ack(&mut aggregation, 10, 70, false), 50);
        // 100 ms at 0.8 Mbit/s are 10 packets.
        assert_eq!(aggregation.extra(BitRate::from_bps(800_000)), 10_000);
    }

    #[test]
    fn an_excess_is_remembered_for_five_to_ten_rounds() {
        let mut aggregation = Aggregation::new(Instant::ZERO);
        ack(&mut aggregation, 10, 9, false);
        for round in 1..10 {
            assert_eq!(ack(&mut aggregation, 100 * round, 1, true), 9, "round {round}");
        }
        assert_eq!(ack(&mut aggregation, 1000, 1, true), 1);
    }

    #[test]
    fn in_startup_it_is_remembered_for_one_to_two() {
        let mut aggregation = Aggregation::new(Instant::ZERO);
        aggregation.in_startup(true);
        ack(&mut aggregation, 10, 9, false);
        assert_eq!(ack(&mut aggregation, 100, 1, true), 9);
        assert_eq!(ack(&mut aggregation, 200, 1, true), 1);
    }
}
