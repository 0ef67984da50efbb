//! End of slow start before a loss: classic HyStart, and HyStart++.
//!
//! ```text
//! threshold(min) = clamp(min / 8, 4 ms, 16 ms)
//! HyStart, from 16 packets on, once:
//!     train   ACKs have come less than 2 ms apart for longer than half the smallest RTT
//!     delay   the smallest RTT of the round, after 8 samples, exceeds it by the threshold
//! HyStart++, each round of 8 samples or more:
//!     slow start   min(round) ≥ min(last round) + threshold → conservative slow start (CSS)
//!     CSS          a quarter of the growth; min(round) < min at its start → slow start again;
//!                  after 5 rounds leave
//! ```
//!
//! Reference: Ha and Rhee, "Taming the Elephants" (2008), as in `hystart_update` of
//! `tcp_cubic.c`; RFC 9406.
//! Rounds are counted below 16 packets, too, as Linux does since 6.14 and in the stable series
//! ("tcp_cubic: fix incorrect HyStart round start detection").
//! Departures: a round ends when a packet sent after its start is acknowledged, seen from the
//! delivery counters instead of sequence numbers. The train's threshold is the unpaced one. RFC
//! 9406's limit of 8 packets an ACK is not applied.

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::Acked;

/// RTT samples in a round before its smallest means anything (`HYSTART_MIN_SAMPLES`; RFC 9406
/// N_RTT_SAMPLE).
const SAMPLES: u32 = 8;
/// The bounds of the delay threshold (`HYSTART_DELAY_MIN`, `_MAX`; RFC 9406 MIN_ and
/// MAX_RTT_THRESH).
const THRESHOLD_MIN: Span = Span::from_millis(4);
const THRESHOLD_MAX: Span = Span::from_millis(16);
/// Packets below which HyStart does not look (`hystart_low_window`).
const LOW_WINDOW: u64 = 16;
/// ACKs closer than this are one train (`hystart_ack_delta_us`).
const TRAIN_GAP: Span = Span::from_millis(2);
/// Four maximal bursts: the delay of aggregation that a train may have (`hystart_ack_delay`).
const BURSTS: Bytes = Bytes::new(4 * 65_536);
/// Its cap.
const BURST_DELAY_MAX: Span = Span::from_millis(1);
/// Factor by which CSS grows slower (RFC 9406 CSS_GROWTH_DIVISOR).
pub(crate) const CSS_DIVISOR: u64 = 4;
/// Rounds of CSS before slow start ends (RFC 9406 CSS_ROUNDS).
const CSS_ROUNDS: u32 = 5;

/// Growth of the window with this ACK.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Pace {
    /// As slow start does.
    Full,
    /// Slower by [`CSS_DIVISOR`].
    Slower,
    /// Slow start ends at this window.
    Leave,
}

/// The rule in use.
#[derive(Clone, Debug)]
pub(crate) enum Exit {
    /// Only a loss ends slow start.
    Loss,
    /// Classic HyStart.
    HyStart(HyStart),
    /// HyStart++.
    PlusPlus(PlusPlus),
}

impl Exit {
    /// Looks at the round-trip sample of one ACK in slow start. `delay_min` is the smallest RTT
    /// and `packets` the window.
    #[inline(never)]
    pub(crate) fn on_sample(&mut self, acked: &Acked, rtt: Span, delay_min: Span, packets: u64) -> Pace {
        match self {
            Self::Loss => Pace::Full,
            Self::HyStart(rule) => rule.on_sample(acked, rtt, delay_min, packets),
            Self::PlusPlus(rule) => rule.on_sample(acked, rtt),
        }
    }

    /// Starts anew, after a timeout.
    pub(crate) fn reset(&mut self, now: Instant) {
        match self {
            Self::Loss => {}
            Self::HyStart(rule) => *rule = HyStart::new(now),
            Self::PlusPlus(rule) => *rule = PlusPlus::default(),
        }
    }
}

/// Round trip, as the delivery counters show it.
#[derive(Clone, Debug, Default)]
struct Round {
    /// Bytes delivered when it began.
    began: Bytes,
    smallest: Option<Span>,
    samples: u32,
}

impl Round {
    fn is_over(&self, acked: &Acked) -> bool {
        acked.prior_delivered >= self.began
    }

    fn add(&mut self, rtt: Span) {
        self.smallest = Some(self.smallest.map_or(rtt, |smallest| smallest.min(rtt)));
        self.samples = self.samples.saturating_add(1);
    }
}

fn threshold(smallest: Span) -> Span {
    (smallest / 8).clamp(THRESHOLD_MIN, THRESHOLD_MAX)
}

/// Classic HyStart, as CUBIC in Linux has it.
#[derive(Clone, Debug)]
pub(crate) struct HyStart {
    round: Round,
    round_start: Instant,
    last_ack: Instant,
    found: bool,
}

impl HyStart {
    pub(crate) fn new(now: Instant) -> Self {
        Self { round: Round::default(), round_start: now, last_ack: now, found: false }
    }

    fn on_sample(&mut self, acked: &Acked, rtt: Span, delay_min: Span, packets: u64) -> Pace {
        if self.found {
            return Pace::Full;
        }
        if self.round.is_over(acked) {
            self.round = Round { began: acked.delivered, ..Round::default() };
            (self.round_start, self.last_ack) = (acked.now, acked.now);
        }
        if packets < LOW_WINDOW {
            return Pace::Full;
        }
        let train = self.is_train(acked, delay_min, packets);
        let delayed = self.is_delayed(rtt, delay_min);
        self.found = train || delayed;
        if self.found { Pace::Leave } else { Pace::Full }
    }

    fn is_train(&mut self, acked: &Acked, delay_min: Span, packets: u64) -> bool {
        if acked.now.since(self.last_ack) > TRAIN_GAP {
            return false;
        }
        self.last_ack = acked.now;
        let threshold = (delay_min + burst_delay(acked, packets)) / 2;
        acked.now.since(self.round_start) > threshold
    }

    fn is_delayed(&mut self, rtt: Span, delay_min: Span) -> bool {
        let known = self.round.samples >= SAMPLES;
        self.round.add(rtt);
        known && self.round.smallest.is_some_and(|smallest| smallest > delay_min + threshold(delay_min))
    }
}

/// Delay that aggregation may add at the rate that Linux paces with in slow start, 2 · cwnd / srtt. The
/// packet size is not known here; 1448 bytes is the usual one, and below 2 Gbit/s the cap decides.
fn burst_delay(acked: &Acked, packets: u64) -> Span {
    let rate = BitRate::of(Bytes::new(packets.saturating_mul(2 * 1448)), acked.srtt);
    if rate == BitRate::ZERO { Span::ZERO } else { rate.transmission_time(BURSTS).min(BURST_DELAY_MAX) }
}

/// HyStart++.
#[derive(Clone, Debug, Default)]
pub(crate) struct PlusPlus {
    round: Round,
    last_smallest: Option<Span>,
    /// In CSS: the smallest RTT of the round in which it began, and the rounds it has lasted.
    css: Option<(Span, u32)>,
}

impl PlusPlus {
    fn on_sample(&mut self, acked: &Acked, rtt: Span) -> Pace {
        if self.round.is_over(acked) && self.next_round(acked) {
            return Pace::Leave;
        }
        self.round.add(rtt);
        if self.round.samples >= SAMPLES {
            self.judge();
        }
        if self.css.is_some() { Pace::Slower } else { Pace::Full }
    }

    /// Begins a round; says whether CSS has lasted long enough.
    fn next_round(&mut self, acked: &Acked) -> bool {
        self.last_smallest = self.round.smallest;
        self.round = Round { began: acked.delivered, ..Round::default() };
        match &mut self.css {
            Some((_, rounds)) => {
                *rounds += 1;
                *rounds >= CSS_ROUNDS
            }
            None => false,
        }
    }

    fn judge(&mut self) {
        let (Some(smallest), Some(last)) = (self.round.smallest, self.last_smallest) else { return };
        match self.css {
            Some((baseline, _)) if smallest < baseline => self.css = None,
            None if smallest >= last + threshold(last) => self.css = Some((smallest, 0)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bbr::pipe::blank;

    /// Pace of HyStart++ after rounds of ten samples with these RTTs in ms.
    fn last_pace(rounds: &[u64]) -> Pace {
        let mut exit = Exit::PlusPlus(PlusPlus::default());
        let mut pace = Pace::Full;
        for (round, ms) in (1..).zip(rounds) {
            for sample in 0..10 {
                let mut acked = blank(Instant::from_millis(100 * round + sample));
                // The first ACK of a round is for a packet sent since the round began.
                acked.delivered = Bytes::new(round * 1000 + sample);
                acked.prior_delivered = Bytes::new((round - 1) * 1000 + sample);
                let rtt = Span::from_millis(*ms);
                pace = exit.on_sample(&acked, rtt, rtt, 100);
            }
        }
        pace
    }

    #[test]
    fn hystart_plus_plus_slows_where_a_round_is_longer_by_the_threshold() {
        // An eighth of 40 ms is 5 ms.
        assert_eq!(last_pace(&[40, 40, 40]), Pace::Full);
        assert_eq!(last_pace(&[40, 44]), Pace::Full);
        assert_eq!(last_pace(&[40, 45]), Pace::Slower);
        // A shorter round shows that it was none.
        assert_eq!(last_pace(&[40, 45, 44]), Pace::Full);
        assert_eq!(last_pace(&[40, 45, 45, 45, 45, 45]), Pace::Slower);
    }

    #[test]
    fn a_train_has_gaps_of_two_milliseconds_at_most() {
        let leaves = |gap_us: u64| {
            let mut exit = Exit::HyStart(HyStart::new(Instant::ZERO));
            // A train is found when it has lasted for half of 40 ms, and half a millisecond for bursts.
            (0..30).any(|ack| {
                let mut acked = blank(Instant::from_micros(gap_us * ack));
                acked.delivered = Bytes::new(1000 + ack);
                acked.prior_delivered = if ack == 0 { acked.delivered } else { Bytes::ZERO };
                exit.on_sample(&acked, Span::from_millis(40), Span::from_millis(40), 100) == Pace::Leave
            })
        };
        assert!(leaves(2000) && !leaves(2001));
    }

    /// Ten packets are acknowledged from 40 ms on, the twenty that follow from 80 ms on, an ACK each millisecond.
    /// Rounds begin at 40 and at 80 ms, and at 101 ms the second train is longer than (40 + 1)/2 ms. If rounds were
    /// counted from a window of 16 packets on only, the second would begin later, and its train would still be too
    /// short at 101 ms.
    #[test]
    fn rounds_are_counted_below_sixteen_packets() {
        let mut exit = Exit::HyStart(HyStart::new(Instant::ZERO));
        let rtt = Span::from_millis(40);
        let mut left = None;
        let arrivals = (40..50).chain(80..100).map(|ms| (ms, if ms < 80 { ms - 40 } else { 10 + ms - 80 }));
        for (ms, index) in arrivals {
            let mut acked = blank(Instant::from_millis(ms));
            acked.delivered = Bytes::new(1000 * (index + 1));
            // Two packets leave with each ACK, so the second round's were sent from 40 ms on.
            acked.prior_delivered = Bytes::new(if index < 10 { 0 } else { 1000 * ((index - 10) / 2 + 1) });
            let packets = 10 + index + 1;
            if exit.on_sample(&acked, rtt, rtt, packets) == Pace::Leave {
                left.get_or_insert(ms);
            }
        }
        assert_eq!(left, None, "a round of 20 ms is shorter than half a round trip and a millisecond");
        let mut acked = blank(Instant::from_millis(101));
        (acked.delivered, acked.prior_delivered) = (Bytes::new(31_000), Bytes::new(10_000));
        assert_eq!(exit.on_sample(&acked, rtt, rtt, 41), Pace::Leave);
    }
}
