//! BBR's model of the path and its modes: what each ACK changes (`bbr_update_model`).

use rand_core::Rng;
use weftway_path::{Bytes, Instant};

use super::policer::{Interval, Verdict};
use super::{Bbr1, CYCLE, CYCLE_STARTS, Cycle, Cycles, LEAST_PHASES, MIN_RTT_WINDOW, Mode};
use crate::Acked;
use crate::bbr::{DRAIN_GAIN, HIGH_GAIN, UNIT};

impl Bbr1 {
    /// Takes what the ACK says of the path, moves the mode and sets the gains.
    #[inline(always)]
    pub(super) fn update_model(&mut self, acked: &Acked) {
        self.round.start = false;
        self.policer.count_lost(acked.lost);
        let app_limited = self.probe_rtt.is_app_limited(acked);
        if let Some(rate) = acked.rate {
            self.update_round(acked);
            self.watch_for_policer(acked, app_limited);
            if !app_limited || rate.as_bps() >= self.bw.get() {
                self.bw.add(self.round.count, rate.as_bps());
            }
            let (cwnd, bw) = (self.cwnd * self.mss, self.bandwidth());
            self.aggregation.on_acked(acked, self.round.start, bw, (cwnd, self.mss));
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
        if self.round.advance(acked) {
            self.conserving = false;
        }
    }

    fn watch_for_policer(&mut self, acked: &Acked, app_limited: bool) {
        let interval = Interval {
            now: acked.now,
            delivered: acked.delivered.get(),
            lossy: acked.lost > Bytes::ZERO,
            round_start: self.round.start,
            app_limited,
            probing: self.mode == Mode::ProbeBw,
        };
        let verdict = self.policer.on_interval(&interval);
        self.heed(verdict, acked.now);
    }

    pub(super) fn heed(&mut self, verdict: Verdict, now: Instant) {
        match verdict {
            Verdict::Nothing => {}
            Verdict::Policed => self.pacing_gain = UNIT,
            Verdict::Expired => self.enter_probe_bw(now),
        }
    }

    pub(super) fn is_phase_over(&self, acked: &Acked) -> bool {
        let elapsed = acked.now.since(self.cycle.began);
        let full_length = self.min_rtt.is_some_and(|rtt| elapsed > rtt);
        let in_flight = || self.in_flight_at_departure(acked.prior_in_flight);
        // Whatever the rate is while it cruises.
        let gain = if self.is_cruise() { UNIT } else { self.pacing_gain };
        match gain.cmp(&UNIT) {
            core::cmp::Ordering::Equal => full_length,
            // A small buffer may not hold what this phase wants in flight.
            core::cmp::Ordering::Greater => {
                full_length && (acked.lost > Bytes::ZERO || in_flight() >= self.target_in_flight(self.pacing_gain))
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
        if self.full.reached || !self.round.start || app_limited {
            return;
        }
        self.full.judge(self.bw.get(), self.form.full_growth);
    }

    fn check_drain(&mut self, acked: &Acked) {
        if self.mode == Mode::Startup && self.full.reached {
            self.mode = Mode::Drain;
            self.ssthresh = Bytes::new(self.target_in_flight(UNIT).saturating_mul(self.mss));
        }
        if self.mode == Mode::Drain && self.in_flight_at_departure(acked.bytes_in_flight) <= self.target_in_flight(UNIT)
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
        if expired && !self.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.save_cwnd();
            self.probe_rtt.begin();
        }
        if self.mode == Mode::ProbeRtt {
            self.probe(acked);
        }
        if acked.bytes > Bytes::ZERO {
            self.idle_restart = false;
        }
    }

    /// Holds PROBE_RTT for its time and one round from when few packets are in flight.
    fn probe(&mut self, acked: &Acked) {
        self.probe_rtt.limit(acked);
        if self.probe_rtt.done.is_some() {
            self.probe_rtt.round_done |= self.round.start;
            if self.probe_rtt.round_done {
                self.check_probe_rtt_done(acked.now);
            }
        } else if self.packets(acked.bytes_in_flight) <= self.probe_rtt_cwnd() {
            (self.probe_rtt.done, self.probe_rtt.round_done) = (Some(acked.now + self.form.probe_rtt), false);
            self.round.began = acked.delivered;
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.probe_rtt.done.is_some_and(|done| now > done) {
            self.min_rtt_stamp = now;
            self.cwnd = self.cwnd.max(self.prior_cwnd);
            if self.full.reached { self.enter_probe_bw(now) } else { self.mode = Mode::Startup }
        }
    }

    pub(super) fn update_gains(&mut self) {
        (self.pacing_gain, self.cwnd_gain) = match self.mode {
            Mode::Startup => (HIGH_GAIN, HIGH_GAIN),
            Mode::Drain => (DRAIN_GAIN, HIGH_GAIN),
            Mode::ProbeBw if self.policer.rate().is_some() => (UNIT, self.form.cwnd_gain),
            Mode::ProbeBw => (CYCLE[self.cycle.index], self.form.cwnd_gain),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }
}
