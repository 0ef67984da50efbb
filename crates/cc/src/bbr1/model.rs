//! BBR's model of the path and its modes: what each ACK changes (`bbr_update_model`).

use rand_core::Rng;
use weftway_path::{Bytes, Instant};

use super::policer::{Interval, Verdict};
use super::{Bbr1, CYCLE, CYCLE_STARTS, Cruise, Cycle, Cycles, LEAST_PHASES, MIN_RTT_WINDOW, Mode};
use crate::Acked;
use crate::bbr::{DRAIN_GAIN, HIGH_GAIN, UNIT, Version};

impl<C: Cruise> Bbr1<C> {
    /// Takes what the ACK says of the path, moves the mode and sets the gains.
    #[inline(always)]
    pub(super) fn update_model(&mut self, acked: &Acked) {
        self.core.round.start = false;
        self.policer.count_lost(acked.lost);
        let app_limited = self.core.probe_rtt.is_app_limited(acked);
        if let Some(rate) = acked.rate {
            self.update_round(acked);
            self.watch_for_policer(acked, app_limited);
            if !app_limited || rate.as_bps() >= self.bw.get() {
                self.bw.add(self.core.round.count, rate.as_bps());
            }
            let (cwnd, bw) = (self.core.cwnd * self.core.mss, self.bandwidth());
            self.core.aggregation.on_acked(acked, self.core.round.start, bw, (cwnd, self.core.mss));
        }
        if self.mode == Mode::ProbeBw && self.is_phase_over(acked) {
            self.next_phase(acked.now);
        }
        self.check_full_pipe(app_limited);
        self.check_drain(acked);
        self.update_min_rtt(acked);
        self.update_gains();
    }

    fn update_round(&mut self, acked: &Acked) {
        if self.core.round.advance(acked) {
            self.conserving = false;
        }
    }

    fn watch_for_policer(&mut self, acked: &Acked, app_limited: bool) {
        let interval = Interval {
            now: acked.now,
            delivered: acked.delivered.get(),
            lossy: acked.lost > Bytes::ZERO,
            round_start: self.core.round.start,
            app_limited,
            probing: self.mode == Mode::ProbeBw,
        };
        let verdict = self.policer.on_interval(&interval);
        self.heed(verdict, acked.now);
    }

    pub(super) fn heed(&mut self, verdict: Verdict, now: Instant) {
        match verdict {
            Verdict::Nothing => {}
            Verdict::Policed => self.core.pacing_gain = UNIT,
            Verdict::Expired => self.enter_probe_bw(now),
        }
    }

    pub(super) fn is_phase_over(&self, acked: &Acked) -> bool {
        let elapsed = acked.now.since(self.cycle.began);
        let full_length = self.min_rtt.is_some_and(|rtt| elapsed > rtt);
        let in_flight = || self.core.in_flight_at_departure(acked.prior_in_flight);
        // Whatever the rate is while it cruises.
        let gain = if self.is_cruise() { UNIT } else { self.core.pacing_gain };
        match gain.cmp(&UNIT) {
            core::cmp::Ordering::Equal => full_length,
            // A small buffer may not hold what this phase wants in flight.
            core::cmp::Ordering::Greater => {
                full_length && (acked.lost > Bytes::ZERO || in_flight() >= self.target_in_flight(self.core.pacing_gain))
            }
            core::cmp::Ordering::Less => full_length || in_flight() <= self.target_in_flight(UNIT),
        }
    }

    fn next_phase(&mut self, now: Instant) {
        let Cycle { index, phases, .. } = self.cycle;
        self.cycle = match index + 1 < phases {
            true => Cycle { index: index + 1, phases, began: now },
            false => Cycle { index: 0, phases: self.draw_phases(), began: now },
        };
    }

    fn draw_phases(&mut self) -> usize {
        match self.cycles {
            Cycles::Alike | Cycles::Whole => CYCLE.len(),
            Cycles::Varied => CYCLE.len() - self.draw(CYCLE.len() as u64 - LEAST_PHASES + 1),
        }
    }

    /// A number below `count`.
    fn draw(&mut self, count: u64) -> usize {
        ((u64::from(self.rng.next_u32()) * count) >> 32) as usize
    }

    pub(super) fn enter_probe_bw(&mut self, now: Instant) {
        self.mode = Mode::ProbeBw;
        let back = if self.cycles == Cycles::Alike { self.draw(CYCLE_STARTS) } else { 0 };
        self.cycle = Cycle { index: CYCLE.len() - 1 - back, phases: CYCLE.len(), began: now };
        self.next_phase(now);
    }

    fn check_full_pipe(&mut self, app_limited: bool) {
        if self.core.full.reached || !self.core.round.start || app_limited {
            return;
        }
        self.core.full.judge(self.bw.get(), self.form.full_growth);
    }

    fn check_drain(&mut self, acked: &Acked) {
        if self.mode == Mode::Startup && self.core.full.reached {
            self.mode = Mode::Drain;
            self.core.ssthresh = Bytes::new(self.target_in_flight(UNIT).saturating_mul(self.core.mss));
        }
        if self.mode == Mode::Drain
            && self.core.in_flight_at_departure(acked.bytes_in_flight) <= self.target_in_flight(UNIT)
        {
            self.enter_probe_bw(acked.now);
        }
    }

    fn update_min_rtt(&mut self, acked: &Acked) {
        let expired = acked.now > self.min_rtt_stamp + MIN_RTT_WINDOW;
        if let Some(rtt) = acked.rtt
            && (expired || self.min_rtt.is_none_or(|least| rtt <= least))
        {
            self.min_rtt = Some(rtt);
            self.min_rtt_stamp = acked.now;
        }
        if expired && !self.core.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.core.save_cwnd(true);
            self.core.probe_rtt.begin();
        }
        if self.mode == Mode::ProbeRtt {
            let (least, lasts) = (self.probe_rtt_cwnd(), self.form.probe_rtt);
            if self.core.holds_probe_rtt(acked, least, lasts) {
                self.check_probe_rtt_done(acked.now);
            }
        }
        if acked.bytes > Bytes::ZERO {
            self.core.idle_restart = false;
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.core.probe_rtt.done.is_some_and(|done| now > done) {
            self.min_rtt_stamp = now;
            self.core.cwnd = self.core.cwnd.max(self.core.prior_cwnd);
            if self.core.full.reached { self.enter_probe_bw(now) } else { self.mode = Mode::Startup }
        }
    }

    pub(super) fn update_gains(&mut self) {
        (self.core.pacing_gain, self.core.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, self.form.cwnd_gain),
            Mode::ProbeBw => (CYCLE[self.cycle.index], self.form.cwnd_gain),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }
}
