//! Traces of cellular links that never existed, from a small documented model.
//!
//! A Markov chain of cell states sets the mean rate; each state lasts an exponential time and is
//! followed by a neighbouring one, either side equally likely. Small-scale fading multiplies the rate
//! by exp(s·g − s²/2), where g is a standard normal autoregressive process, so that the mean stays.
//! Outages come at random and stop everything for an exponential time. In each millisecond the
//! scheduler of the cell serves this user with some probability, and then with all that has piled up
//! at the rate; hence the bursts of real traces. The first state is the middle one.
//!
//! With states of equal standing the long-run mean rate is the mean over states, weighted by dwell
//! time and by ½ for the two at the ends, times the share of time without outage. Draws are from one
//! PCG32 generator, component 5; floats go through `libm`, so every platform writes the same file.

use rand_pcg::Pcg32;
use weftway_path::{BitRate, Span};

use crate::draw::{Chance, Component, Normal, generator, unit};
use crate::{OPPORTUNITY, Trace};

/// A state of the cell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct State {
    /// Mean rate in it.
    pub rate: BitRate,
    /// Mean time in it.
    pub dwell: Span,
}

/// The model of one direction of an LTE link.
#[derive(Clone, Debug, PartialEq)]
pub struct LteModel {
    /// States from worst to best; at least one.
    pub states: Vec<State>,
    /// Standard deviation of the logarithm of the rate.
    pub fading_sd: f64,
    /// Time constant of the fading.
    pub fading_over: Span,
    /// Mean time from the end of an outage to the next.
    pub outage_every: Span,
    /// Mean length of an outage.
    pub outage: Span,
    /// Share of the milliseconds in which this user is served.
    pub served: f64,
}

impl LteModel {
    /// The names that [`named`](Self::named) knows.
    pub const NAMES: [&str; 4] = ["down", "up", "walking-down", "walking-up"];

    /// A model for the traces that come with the project.
    ///
    /// `down`: states 4, 12, 22 Mbit/s for 1, 2, 1 s, outages of 0.2 s every 12 s: long-run mean
    /// (½·1·4 + 2·12 + ½·1·22) / 3 · 12/12.2 = 12.1 Mbit/s. `up`: 1.5, 5, 9.5 Mbit/s alike, 5.1 Mbit/s.
    /// The walking ones are slower, change faster and lose the cell more often: 4.0 and 1.6 Mbit/s.
    pub fn named(name: &str) -> Option<Self> {
        match name {
            "down" => Some(Self::parked([4_000, 12_000, 22_000])),
            "up" => Some(Self::parked([1_500, 5_000, 9_500])),
            "walking-down" => Some(Self::walking([800, 4_000, 9_000])),
            "walking-up" => Some(Self::walking([300, 1_600, 3_600])),
            _ => None,
        }
    }

    fn parked(kbps: [u64; 3]) -> Self {
        Self {
            states: states(kbps, [1_000, 2_000, 1_000]),
            fading_sd: 0.3,
            fading_over: Span::from_millis(40),
            outage_every: Span::from_secs(12),
            outage: Span::from_millis(200),
            served: 0.4,
        }
    }

    fn walking(kbps: [u64; 3]) -> Self {
        Self {
            states: states(kbps, [800, 800, 800]),
            fading_sd: 0.5,
            fading_over: Span::from_millis(25),
            outage_every: Span::from_secs(8),
            outage: Span::from_millis(600),
            served: 0.25,
        }
    }
}

fn states(kbps: [u64; 3], dwell_ms: [u64; 3]) -> Vec<State> {
    let state = |(kbps, ms)| State { rate: BitRate::from_bps(kbps * 1_000), dwell: Span::from_millis(ms) };
    kbps.into_iter().zip(dwell_ms).map(state).collect()
}

/// A trace of `model` that lasts `duration`, whole milliseconds and at least one. Its last line is an
/// opportunity at the very end, so that it repeats after `duration`. At most 49 days.
pub fn lte(model: &LteModel, seed: u64, duration: Span) -> Trace {
    let end = duration.as_millis().clamp(1, u64::from(u32::MAX)) as u32;
    let mut cell = Cell::new(model, seed);
    let mut times = Vec::new();
    for ms in 1..end {
        times.extend((0..cell.packets()).map(|_| ms));
    }
    times.push(end);
    Trace::new(times).expect("the times increase up to a positive end")
}

/// The model at work, one millisecond a step.
struct Cell<'a> {
    model: &'a LteModel,
    generator: Pcg32,
    normal: Normal,
    state: usize,
    /// Milliseconds left in this state.
    dwell: f64,
    fading: f64,
    /// Milliseconds until the outage, if positive; since it began, if negative.
    until_outage: f64,
    outage: f64,
    /// Bytes earned and not yet served.
    credit: f64,
}

impl<'a> Cell<'a> {
    fn new(model: &'a LteModel, seed: u64) -> Self {
        let mut cell = Self {
            model,
            generator: generator(seed, Component::Trace),
            normal: Normal::default(),
            state: model.states.len() / 2,
            dwell: 0.0,
            fading: 0.0,
            until_outage: 0.0,
            outage: 0.0,
            credit: 0.0,
        };
        cell.dwell = cell.exponential(model.states[cell.state].dwell);
        cell.fading = cell.normal.draw(&mut cell.generator);
        cell.plan_outage();
        cell
    }

    /// Packets served in the next millisecond.
    fn packets(&mut self) -> u64 {
        self.walk();
        self.fade();
        self.until_outage -= 1.0;
        if self.until_outage < -self.outage {
            self.plan_outage();
        }
        let served = Chance::new(self.model.served).draw(&mut self.generator);
        if self.until_outage < 0.0 {
            return 0;
        }
        self.credit += self.rate() / 8_000.0;
        let packet = OPPORTUNITY.get() as f64;
        let packets = if served { (self.credit / packet) as u64 } else { 0 };
        self.credit -= packets as f64 * packet;
        packets
    }

    /// Bits per second now.
    fn rate(&self) -> f64 {
        let sd = self.model.fading_sd;
        self.model.states[self.state].rate.as_bps() as f64 * libm::exp(sd * self.fading - sd * sd / 2.0)
    }

    fn walk(&mut self) {
        self.dwell -= 1.0;
        if self.dwell > 0.0 || self.model.states.len() == 1 {
            return;
        }
        let worse = Chance::new(0.5).draw(&mut self.generator);
        self.state = match self.state {
            0 => 1,
            last if last + 1 == self.model.states.len() => last - 1,
            middle if worse => middle - 1,
            middle => middle + 1,
        };
        self.dwell = self.exponential(self.model.states[self.state].dwell);
    }

    fn fade(&mut self) {
        let rho = libm::exp(-1.0 / self.model.fading_over.as_millis_f64().max(1e-3));
        self.fading = rho * self.fading + libm::sqrt(1.0 - rho * rho) * self.normal.draw(&mut self.generator);
    }

    fn plan_outage(&mut self) {
        self.until_outage = self.exponential(self.model.outage_every);
        self.outage = self.exponential(self.model.outage);
    }

    /// An exponential time in milliseconds.
    fn exponential(&mut self, mean: Span) -> f64 {
        -libm::log(unit(&mut self.generator)) * mean.as_millis_f64()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn mean_mbps(model: &LteModel, seconds: u64) -> f64 {
        lte(model, 1, Span::from_secs(seconds)).mean_rate().as_mbps_f64()
    }

    /// The long-run mean of `down` is 12.13 Mbit/s. The state has sd √((½·8.33² + 2·0.33² + ½·9.67²)/3)
    /// = 5.2 Mbit/s and forgets itself in about 1 s, outages and fading add little: over 2000 s the sd
    /// of the mean is about 5.2·√(2·1/2000) = 0.16. Four of them: 0.66.
    #[test]
    fn the_long_run_mean_is_the_models() {
        let mean = mean_mbps(&LteModel::named("down").unwrap(), 2_000);
        assert!((mean - 12.13).abs() < 0.66, "{mean}");
    }

    /// Model of one state, no fading to speak of, served always: 12 Mbit/s are one packet a millisecond.
    #[test]
    fn without_variation_it_is_a_steady_rate() {
        let model = LteModel {
            states: vec![State { rate: BitRate::from_mbps(12), dwell: Span::from_secs(1) }],
            fading_sd: 0.0,
            fading_over: Span::from_millis(1),
            outage_every: Span::from_secs(1_000_000_000),
            outage: Span::ZERO,
            served: 1.0,
        };
        assert_eq!(lte(&model, 3, Span::from_millis(6)).times(), [1, 2, 3, 4, 5, 6]);
    }

    #[test]
    fn outages_leave_gaps() {
        let trace = lte(&LteModel::named("walking-down").unwrap(), 1, Span::from_secs(60));
        // Some of about seven outages of mean 0.6 s last 0.3 s: e^−½ = 0.61 of them.
        assert!(trace.times().windows(2).any(|pair| pair[1] - pair[0] > 300));
    }

    #[test]
    fn every_name_is_known_and_others_are_not() {
        assert!(LteModel::NAMES.iter().all(|name| LteModel::named(name).is_some()));
        assert_eq!(LteModel::named("sideways"), None);
    }
}
