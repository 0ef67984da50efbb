//! PROBE_BW: when to probe for bandwidth, how far, and what its losses say.

use rand_core::Rng;
use weftway_path::{Instant, Span};

use super::bounds::kept;
use super::signals::Sample;
use super::{Bounded, Mode};
use crate::bbr::UNIT;
use crate::{Acked, Congestion};

/// Flight to which a probe drives, in 256ths of the product (`bbr_bw_probe_pif_gain`).
const PROBE_GAIN: u64 = UNIT * 5 / 4;
/// A probe waits for 2 s and up to another (`bbr_bw_probe_base_us`, `bbr_bw_probe_rand_us`):
/// longer than Reno takes to regain 25 Mbit/s over 30 ms, shorter than a person notices.
const WAIT: Span = Span::from_secs(2);
const WAIT_RANDOM_MICROS: u64 = 1_000_000;
/// Or for as many rounds as the product has packets, at most 63, of which up to one is counted in
/// advance (`bbr_bw_probe_max_rounds`, `bbr_bw_probe_rand_rounds`).
const WAIT_ROUNDS: u64 = 63;
const RANDOM_ROUNDS: u64 = 2;
/// A slope doubles no more often than this.
const MOST_DOUBLINGS: u32 = 30;

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Phase {
    Down,
    Cruise,
    Refill,
    Up,
}

impl Phase {
    /// `down` is that of DOWN.
    pub(super) fn pacing_gain(self, down: u64) -> u64 {
        match self {
            Self::Up => PROBE_GAIN,
            Self::Down => down,
            Self::Cruise | Self::Refill => UNIT,
        }
    }
}

/// Rate at which UP raises `inflight_hi`: a packet for each `per` acknowledged, twice as fast each round.
#[derive(Clone, Copy, Debug, Default)]
struct Slope {
    doublings: u32,
    per: u64,
    acked: u64,
}

/// Place in the cycle of probing.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Cycle {
    /// Beginning of DOWN or UP.
    began: Instant,
    pub(super) wait: Span,
    /// Rounds since the last probe.
    pub(super) rounds: u64,
    /// True while ACKs tell of packets sent by a probe, and nothing was concluded from it yet.
    pub(super) has_feedback: bool,
    /// True once a probe is over whose last ACKs are still due.
    pub(super) is_ending: bool,
    /// True if the last probe lost too much.
    was_too_high: bool,
    /// True if it stopped at `inflight_hi` to be safe.
    was_cautious: bool,
    slope: Slope,
}

impl Bounded {
    /// `n` is at most 2^32.
    fn random_below(&mut self, n: u64) -> u64 {
        (u64::from(self.rng.next_u32()) * n) >> 32
    }

    pub(super) fn enter_down(&mut self, now: Instant) {
        self.signals.forget();
        self.cycle.rounds = self.random_below(RANDOM_ROUNDS);
        self.cycle.wait = WAIT + Span::from_micros(self.random_below(WAIT_RANDOM_MICROS));
        self.cycle.began = now;
        self.cycle.is_ending = true;
        self.core.round.began = self.delivered;
        self.mode = Mode::ProbeBw(Phase::Down);
    }

    pub(super) fn enter_cruise(&mut self) {
        if let (Some(lo), Some(hi)) = (self.bounds.inflight_lo, self.bounds.inflight_hi) {
            self.bounds.inflight_lo = Some(lo.min(hi));
        }
        self.mode = Mode::ProbeBw(Phase::Cruise);
    }

    /// Fills the pipe first: a loss of UP would otherwise understate what fits.
    fn enter_refill(&mut self) {
        self.bounds.forget_low();
        self.cycle.slope = Slope::default();
        self.cycle.was_cautious = false;
        self.cycle.is_ending = false;
        self.core.round.began = self.delivered;
        self.mode = Mode::ProbeBw(Phase::Refill);
    }

    fn enter_up(&mut self, now: Instant) {
        self.cycle.has_feedback = true;
        self.cycle.is_ending = false;
        self.cycle.began = now;
        self.core.round.began = self.delivered;
        self.mode = Mode::ProbeBw(Phase::Up);
        self.steepen();
    }

    fn steepen(&mut self) {
        let slope = &mut self.cycle.slope;
        slope.per = (self.core.cwnd >> slope.doublings).max(1);
        slope.doublings = (slope.doublings + 1).min(MOST_DOUBLINGS);
    }

    /// Moves on from a phase that is over, once the pipe has been full.
    pub(super) fn update_phase(&mut self, acked: &Acked, sample: &Sample) {
        if !self.core.full.reached || self.update_high_bound(acked, sample) {
            return;
        }
        let Mode::ProbeBw(phase) = self.mode else { return };
        match phase {
            Phase::Down | Phase::Cruise if self.is_time_to_probe(acked.now) => self.enter_refill(),
            Phase::Down if self.is_drained(acked) => self.enter_cruise(),
            Phase::Refill if self.core.round.start => self.enter_up(acked.now),
            Phase::Up => self.check_up(acked),
            Phase::Down | Phase::Cruise | Phase::Refill => {}
        }
    }

    /// Returns true if Reno would have regained the product by now, or the last probe was 2 to 3 s ago.
    fn is_time_to_probe(&self, now: Instant) -> bool {
        now > self.cycle.began + self.cycle.wait || self.cycle.rounds >= self.target_in_flight().min(WAIT_ROUNDS)
    }

    fn is_drained(&self, acked: &Acked) -> bool {
        let in_flight = self.core.in_flight_at_departure(acked.prior_in_flight);
        in_flight <= self.bounds.with_headroom(self.form.headroom)
            && in_flight <= self.in_flight_for(self.max_bw(), UNIT)
    }

    fn check_up(&mut self, acked: &Acked) {
        let in_flight = self.core.in_flight_at_departure(acked.prior_in_flight);
        let reaches = self.bounds.inflight_hi.is_some_and(|hi| in_flight >= hi);
        let is_risky = self.cycle.was_too_high && reaches;
        let has_taken = self.min_rtt.least.is_some_and(|rtt| acked.now > self.cycle.began + rtt);
        if is_risky || has_taken && in_flight >= self.in_flight_for(self.max_bw(), PROBE_GAIN) {
            self.cycle.was_cautious |= is_risky;
            self.cycle.was_too_high = false;
            self.enter_down(acked.now);
        }
    }

    /// Adapts `inflight_hi`; returns whether that decided the next phase.
    fn update_high_bound(&mut self, acked: &Acked, sample: &Sample) -> bool {
        if self.cycle.is_ending && self.core.round.start && self.end_probe(sample) {
            return true;
        }
        if sample.is_too_high() {
            if self.cycle.has_feedback {
                self.back_off(sample, acked.now);
            }
        } else if let Some(hi) = self.bounds.inflight_hi {
            // What got through is safe, whatever the phase: random loss must not wear the bound down.
            self.bounds.inflight_hi = Some(hi.max(sample.in_flight));
            if self.mode == Mode::ProbeBw(Phase::Up) {
                self.raise_high_bound(acked);
            }
        }
        false
    }

    /// All packets of a probe are accounted for. Probes again if it was cut short and lost little.
    fn end_probe(&mut self, sample: &Sample) -> bool {
        self.cycle.has_feedback = false;
        self.cycle.is_ending = false;
        let Mode::ProbeBw(_) = self.mode else { return false };
        if !sample.app_limited {
            self.bw.advance();
        }
        let again = self.cycle.was_cautious && !self.cycle.was_too_high;
        if again {
            self.enter_refill();
        }
        again
    }

    /// A probe lost too much: `inflight_hi` falls, once for each probe.
    pub(super) fn back_off(&mut self, sample: &Sample, now: Instant) {
        self.cycle.was_too_high = true;
        self.cycle.has_feedback = false;
        if !sample.app_limited {
            self.bounds.inflight_hi = Some(sample.in_flight.max(kept(self.target_in_flight())));
        }
        if self.mode == Mode::ProbeBw(Phase::Up) {
            self.enter_down(now);
        }
    }

    fn raise_high_bound(&mut self, acked: &Acked) {
        let newly = self.core.packets(acked.bytes);
        let Some(hi) = self.bounds.inflight_hi else { return };
        if !acked.cwnd_limited || self.core.cwnd < hi {
            self.cycle.slope.acked = 0;
            return;
        }
        let slope = &mut self.cycle.slope;
        slope.acked += newly;
        self.bounds.inflight_hi = Some(hi + slope.acked / slope.per.max(1));
        slope.acked %= slope.per.max(1);
        if self.core.round.start {
            self.steepen();
        }
    }

    /// Returns true while more is sent than is known to be safe, so that losses do not lower the bounds.
    pub(super) fn is_probing(&self) -> bool {
        matches!(self.mode, Mode::Startup | Mode::ProbeBw(Phase::Refill | Phase::Up))
    }

    /// A mark counts as a loss of its round, and as too many of a probe.
    pub(super) fn heed_mark(&mut self, congestion: &Congestion) {
        if !self.form.heeds_marks {
            return;
        }
        self.signals.mark(self.delivered);
        if self.cycle.has_feedback {
            let in_flight = self.core.packets(congestion.bytes_in_flight);
            self.back_off(&Sample { in_flight, ..Sample::default() }, congestion.now);
        }
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::Bytes;

    use super::*;
    use crate::bbr::pipe::{self, MSS, blank};
    use crate::bbr2::LINUX;

    /// In UP, with a full window of 80 packets that is the bound.
    fn probing() -> Bounded {
        let mut bbr = Bounded::new(LINUX, &pipe::setup(1));
        bbr.core.cwnd = 80;
        bbr.bounds.inflight_hi = Some(80);
        bbr.enter_refill();
        bbr.enter_up(Instant::from_millis(100));
        bbr
    }

    /// The bound after an ACK for `packets`, at the start of a round or not.
    fn raised(bbr: &mut Bounded, packets: u64, round_start: bool) -> u64 {
        let mut acked = blank(Instant::from_millis(140));
        acked.bytes = Bytes::new(packets * MSS.get());
        bbr.core.round.start = round_start;
        bbr.raise_high_bound(&acked);
        // The window follows.
        bbr.core.cwnd = bbr.bounds.inflight_hi.unwrap_or(0);
        bbr.core.cwnd
    }

    #[test]
    fn a_probe_raises_the_bound_twice_as_fast_each_round() {
        let mut bbr = probing();
        // A packet for each 80, then for each 81 / 2 = 40, then for each 83 / 4 = 20.
        assert_eq!((raised(&mut bbr, 79, false), raised(&mut bbr, 1, true)), (80, 81));
        assert_eq!((raised(&mut bbr, 40, false), raised(&mut bbr, 40, true)), (82, 83));
        assert_eq!((raised(&mut bbr, 19, false), raised(&mut bbr, 21, false)), (83, 85));
    }

    #[test]
    fn an_unused_bound_is_not_raised() {
        let mut bbr = probing();
        bbr.core.cwnd = 79;
        assert_eq!(raised(&mut bbr, 1000, false), 80);
    }
}
