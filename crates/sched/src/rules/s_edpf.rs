//! Stochastic earliest delivery path first: EDPF with arrivals that are random, by the expected delivery *in order*.
//!
//! Rule: the last packet of path l arrives at `A_l`, a normal variable with EDPF's clock as its mean and the deviation
//! `σ_l = 1.25·rttvar_l`. A packet that path k took now would arrive at `a_k` with mean `max(now + D_k, A_k) + L/B_k`
//! and deviation σ_k. It can be delivered once it and all before it have arrived:
//!   `argmin_k E[max(a_k, A_l of the other paths with packets in flight)]`, among equals the least mean of a_k.
//! A path keeps its order, so that its last packet stands for those before; the paths are independent. The maximum of
//! two normal variables is taken as normal, by Clark's moments (Operations Research 1961), path by path in the order of
//! their numbers: exact for two paths. Expectations compare in whole nanoseconds. Data sent before go where they arrive
//! first in the mean: what was sent after them does not hold them up. D, L, B as in EDPF. Without deviations it is
//! EDPF.
//! Reference: Garcia-Saavedra, Karzand, Leith: Low Delay Random Linear Coding and Scheduling Over Multiple Interfaces,
//! arXiv 1507.08499, IEEE TMC 2017, from its abstract and the claims of US 10541932 B2.
//! State: EDPF's clock per path.
//! Departs from print: of the paper we could read the abstract, of the patent the objective, the least sum over packets
//! of E\[arrival\] + E\[wait for those before\], which this takes packet by packet. The moments from rttvar (a normal
//! variable's deviation is 1.25 times its mean deviation) and Clark's maximum are ours: how the paper computes them was
//! not to be had, and the one program that we found (an MPQUIC fork with FEC) multiplies the moments instead. Coded
//! packets, and with them losses, are left out. What is full, idle, and the delay: as in EDPF, with its switches.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::delivery_clock::{Clocks, DELAY, FULL, IDLE};

pub(crate) static ENTRY: Entry = Entry {
    name: "s-edpf",
    aliases: &["sedpf"],
    summary: "EDPF with random delays: the path with the least expected delivery in order",
    reference: "Garcia-Saavedra, Karzand, Leith: Low Delay Random Linear Coding and Scheduling Over Multiple Interfaces, arXiv 1507.08499, IEEE TMC 2017",
    provenance: Provenance::Reconstructed,
    goal: "delay in order",
    application: "video and interactive",
    inputs: &[Input::Rtt, Input::MinRtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Size],
    needs: Needs { events: true, ..Needs::NONE },
    waits: true,
    params: &[
        Param {
            name: "spread",
            default: "1.25",
            values: "number, 0 to 100",
            doc: "the deviation of a path's delay, in its rttvar; 0 is EDPF",
        },
        DELAY,
        FULL,
        IDLE,
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(SEdpf { spread: params.within("spread", 0.0..=100.0)?, clocks: Clocks::read(params)? }))
}

#[derive(Clone)]
struct SEdpf {
    spread: f64,
    clocks: Clocks,
}

/// A normal variable; times in nanoseconds from now.
#[derive(Clone, Copy)]
struct Normal {
    mean: f64,
    variance: f64,
}

impl Normal {
    /// The larger of two independent ones, as a normal variable with its mean and variance.
    fn max(self, other: Self) -> Self {
        let scale = libm::sqrt(self.variance + other.variance);
        if scale == 0.0 {
            return Self { mean: self.mean.max(other.mean), variance: 0.0 };
        }
        let x = (self.mean - other.mean) / scale;
        let (ours, theirs) = (below(x), below(-x));
        let density = libm::exp(-x * x / 2.0) / libm::sqrt(2.0 * core::f64::consts::PI);
        let mean = self.mean * ours + other.mean * theirs + scale * density;
        let square = |one: Self| one.mean * one.mean + one.variance;
        let second = square(self) * ours + square(other) * theirs + (self.mean + other.mean) * scale * density;
        Self { mean, variance: (second - mean * mean).max(0.0) }
    }
}

/// The chance that a standard normal variable is below `x`.
fn below(x: f64) -> f64 {
    libm::erfc(-x / core::f64::consts::SQRT_2) / 2.0
}

impl SEdpf {
    fn normal(&self, now: Instant, mean: Instant, path: &Path) -> Normal {
        let deviation = self.spread * path.rttvar.as_nanos() as f64;
        Normal { mean: mean.since(now).as_nanos() as f64, variance: deviation * deviation }
    }

    /// Returns when the packet at hand should be delivered in order if `path` takes it, in nanoseconds from now, and
    /// when it should arrive.
    fn delivery(&self, cx: &Context<'_>, path: &Path) -> (u64, Instant) {
        let bytes = cx.packet.map_or(Bytes::ZERO, |packet| packet.bytes);
        let arrival = self.clocks.arrival(cx.now, path, bytes);
        let own = self.normal(cx.now, arrival, path);
        if cx.packet.is_some_and(|packet| packet.reinjection) {
            return (own.mean as u64, arrival);
        }
        let others = cx.paths.iter().filter(|other| other.id != path.id && other.unacked() > Bytes::ZERO);
        let last = others.filter_map(|other| Some(self.normal(cx.now, self.clocks.busy_until(other)?, other)));
        (last.fold(own, Normal::max).mean as u64, arrival)
    }
}

impl Scheduler for SEdpf {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.clocks.decide(cx, |path| self.delivery(cx, path))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.clocks.observe(cx, event);
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let expected = cx.paths.iter().map(|path| {
            let (delivery, arrival) = self.delivery(cx, path);
            let delivery = weftway_path::Span::from_nanos(delivery);
            format!("{:?} arrives in {}, delivered in {delivery}", path.id, arrival.since(cx.now))
        });
        Some(expected.collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn close(a: f64, b: f64) -> bool {
        (a - b).abs() < 1e-3
    }

    #[test]
    fn the_larger_of_two_normal_variables_has_the_moments_of_the_table() {
        // Two standard ones: mean 1/√π = 0.5642, second moment 1, so that the variance is 1 − 1/π = 0.6817.
        let standard = Normal { mean: 0.0, variance: 1.0 };
        let larger = standard.max(standard);
        assert!(close(larger.mean, 0.5642) && close(larger.variance, 0.6817), "{} {}", larger.mean, larger.variance);
        // Against a number one deviation above: 1 + φ(1) − 1·Φ(−1) = 1 + 0.2420 − 0.1587.
        let number = Normal { mean: 1.0, variance: 0.0 };
        assert!(close(standard.max(number).mean, 1.0833) && close(number.max(standard).mean, 1.0833));
        // Without spread, the larger number.
        assert_eq!(number.max(Normal { mean: 3.0, variance: 0.0 }).mean, 3.0);
    }
}
