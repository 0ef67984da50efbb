//! BBR's model of the path, and its modes but PROBE_BW: what each ACK changes (`bbr2_update_model`).

use weftway_path::{Bytes, Instant, Recovery};

use super::bounds::Latest;
use super::signals::Sample;
use super::{Bounded, CWND_GAIN, Mode, PROBE_RTT, Phase};
use crate::Acked;
use crate::bbr::{UNIT, Version};

/// Rounds with marks that end STARTUP (`bbr_full_ecn_cnt`).
const STARTUP_MARKS: u32 = 2;
/// Growth that shows that the pipe is not full, in 256ths (`bbr_full_bw_thresh`).
const FULL_GROWTH: u64 = UNIT * 5 / 4;

impl Bounded {
    /// Counts what an ACK lost, and finds the flight of the newest packet that it covers.
    pub(super) fn sample(&mut self, acked: &Acked) -> Sample {
        let lost = self.core.packets(acked.lost);
        if lost > 0 {
            self.flown.lose(acked.now, lost, self.core.packets(acked.bytes_in_flight));
        }
        let (in_flight, lost) = self.flown.since(acked.newest_sent);
        let delivered = self.core.packets(acked.delivered.saturating_sub(acked.prior_delivered));
        Sample { in_flight, lost, delivered, app_limited: self.core.probe_rtt.is_app_limited(acked) }
    }

    pub(super) fn update_model(&mut self, acked: &Acked, sample: &Sample) {
        self.core.round.start = false;
        self.signals.ended = false;
        if acked.lost > Bytes::ZERO {
            self.heed_losses(acked, sample);
        }
        if let Some(rate) = acked.rate {
            if self.core.round.advance(acked) {
                self.cycle.rounds = (self.cycle.rounds + 1).min(u64::from(u8::MAX));
            }
            self.update_signals(acked, sample, rate.as_bps());
            self.core.aggregation.in_startup(!self.core.full.reached);
            let limits = (self.core.cwnd * self.core.mss, self.core.mss);
            let bw = self.bandwidth();
            self.core.aggregation.on_acked(acked, self.core.round.start, bw, limits);
        }
        self.check_startup_losses(acked, sample);
        if !self.core.full.reached && self.core.round.start && !sample.app_limited {
            self.core.full.judge(self.bw.get(), FULL_GROWTH);
        }
        self.check_drain(acked);
        self.update_phase(acked, sample);
        self.update_min_rtt(acked);
        self.update_gains();
    }

    /// `bbr2_skb_marked_lost`.
    fn heed_losses(&mut self, acked: &Acked, sample: &Sample) {
        self.signals.lose(acked.delivered);
        self.signals.is_congested |= self.form.heeds_any_loss || sample.is_too_high();
        self.signals.losses = self.signals.losses.saturating_add(1);
        if self.cycle.has_feedback && sample.is_too_high() {
            self.back_off(sample, acked.now);
        }
    }

    fn update_signals(&mut self, acked: &Acked, sample: &Sample, rate: u64) {
        if acked.bytes == Bytes::ZERO {
            return;
        }
        if !sample.app_limited || rate >= self.bw.get() {
            self.bw.add(rate);
        }
        let latest = Latest { bw: rate, inflight: sample.delivered };
        self.signals.latest.raise(latest);
        if acked.prior_delivered < self.signals.end {
            return;
        }
        self.signals.ended = true;
        if self.signals.is_congested && !self.is_probing() {
            self.bounds.cut(self.bw.get(), self.core.cwnd, self.signals.latest);
        }
        self.signals.next_round(acked.delivered, latest);
    }

    /// Losses end STARTUP after a round of recovery, when their extent is known.
    fn check_startup_losses(&mut self, acked: &Acked, sample: &Sample) {
        if !self.signals.ended {
            return;
        }
        let many = core::mem::take(&mut self.signals.losses) >= self.form.startup_losses;
        let recovering = self.core.recovery == Recovery::Recovery || acked.recovery == Recovery::Recovery;
        let lossy = many && recovering && sample.is_too_high();
        if !self.core.full.reached && (lossy || self.signals.marked_rounds >= STARTUP_MARKS) {
            self.core.full.reached = true;
            let delivered = if self.form.heeds_delivery { self.signals.delivered } else { 0 };
            self.bounds.inflight_hi = Some(self.in_flight_for(self.max_bw(), UNIT).max(delivered));
        }
    }

    fn check_drain(&mut self, acked: &Acked) {
        let product = self.in_flight_for(self.max_bw(), UNIT);
        if self.mode == Mode::Startup && self.core.full.reached {
            self.mode = Mode::Drain;
            self.core.ssthresh = Bytes::new(product.saturating_mul(self.core.mss));
            self.signals.forget();
        }
        if self.mode == Mode::Drain && self.core.in_flight_at_departure(acked.bytes_in_flight) <= product {
            self.enter_down(acked.now);
        }
    }

    fn update_min_rtt(&mut self, acked: &Acked) {
        let due = self.min_rtt.update(acked, self.form.probe_rtt_every, self.form.min_rtt_window);
        if due && !self.core.idle_restart && self.mode != Mode::ProbeRtt {
            self.mode = Mode::ProbeRtt;
            self.core.save_cwnd(true);
            self.core.probe_rtt.begin();
            self.cycle.is_ending = true;
            self.core.round.began = acked.delivered;
        }
        if self.mode == Mode::ProbeRtt {
            let least = self.probe_rtt_cwnd();
            if self.core.holds_probe_rtt(acked, least, PROBE_RTT) {
                self.check_probe_rtt_done(acked.now);
            }
        }
        if acked.bytes > Bytes::ZERO {
            self.core.idle_restart = false;
        }
    }

    pub(super) fn check_probe_rtt_done(&mut self, now: Instant) {
        if self.core.probe_rtt.done.is_none_or(|done| now <= done) {
            return;
        }
        self.min_rtt.recent_stamp = now;
        self.core.cwnd = self.core.cwnd.max(self.core.prior_cwnd);
        self.bounds.forget_low();
        if self.core.full.reached {
            // Less than the product is in flight: nothing needs draining.
            self.enter_down(now);
            self.enter_cruise();
        } else {
            self.mode = Mode::Startup;
        }
    }

    fn update_gains(&mut self) {
        (self.core.pacing_gain, self.core.cwnd_gain) = match self.mode {
            Mode::Startup => (self.form.startup_gain, self.form.startup_cwnd_gain),
            Mode::Drain => (self.form.drain_gain, self.form.startup_cwnd_gain),
            Mode::ProbeBw(Phase::Up) => (Phase::Up.pacing_gain(self.form.down_gain), self.form.up_cwnd_gain),
            Mode::ProbeBw(phase) => (phase.pacing_gain(self.form.down_gain), CWND_GAIN),
            Mode::ProbeRtt => (UNIT, UNIT),
        };
    }
}
