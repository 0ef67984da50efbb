//! CUBIC: the window follows a cubic of the time since the last loss, flat where that loss was.
//!
//! ```text
//! loss                     w_max = cwnd · (1+β)/2 if cwnd < last w_max (fast convergence), else cwnd
//!                          ssthresh = β · cwnd
//! K = cbrt((w_max − cwnd_epoch) / C)        W(t) = C · (t − K)³ + w_max
//! congestion avoidance     towards W(t + RTT) within a round trip, at most 1.5 · cwnd;
//!                          never below what Reno with the same β would have by now
//! slow start               ends by HyStart, HyStart++ or loss only (`slow_start.rs`)
//! ```
//!
//! Windows in packets, t in seconds. C = 0.4 packets/s³ makes CUBIC as fast as Reno on short fat
//! paths and faster on long ones (RFC 9438 §5); β = 0.7 trades a slower fairness for a higher
//! average.
//!
//! Flavour Linux (`cubic/kernel.rs`) is `tcp_cubic.c` in its fixed point; flavour QUIC
//! (`cubic/rfc.rs`) is RFC 9438 in floats. With the switch `random_loss` few losses without a queue
//! hardly count (`cubic/random_loss.rs`).
//! State: the shared window, the curve, the slow-start rule, the smallest RTT.
//! Departures: those of the three files named here, and of `window.rs`.

mod kernel;
mod random_loss;
mod rfc;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Instant, Span};

use crate::registry::Entry;
use crate::slow_start::{CSS_DIVISOR, Exit, HyStart, Pace, PlusPlus};
use crate::window::{Window, is_timeout, window_methods};
use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Siblings};
use random_loss::RandomLoss;

pub(crate) const ENTRY: Entry = Entry {
    name: "cubic",
    aliases: &["cubictcp", "tcp-cubic"],
    version: 1,
    summary: "grows along a cubic that is flat where the last loss was; the default of Linux and of most QUIC stacks",
    reference: "RFC 9438; Linux net/ipv4/tcp_cubic.c",
    coupled: false,
    paced: false,
    params: &[
        Param {
            name: "slow_start",
            default: "flavour",
            values: "flavour | standard | hystart | hystart++",
            doc: "what ends slow start before a loss; by flavour: hystart on Linux, nothing on QUIC",
        },
        Param {
            name: "beta",
            default: "0.7",
            values: "number, 0.1 to 0.95",
            doc: "the share of the window that a loss leaves",
        },
        Param {
            name: "c", default: "0.4", values: "number, 0.01 to 10", doc: "how steep the cubic is, in packets/s³"
        },
        Param {
            name: "fast_convergence",
            default: "true",
            values: "true | false",
            doc: "whether a flow that lost below its last maximum aims lower, to leave room for others",
        },
        Param {
            name: "random_loss",
            default: "0",
            values: "number, 0 to 10",
            doc: "up to this loss rate, in percent, a loss leaves a window that fills the path without a queue",
        },
    ],
    build: |params, setup| Ok(Box::new(Cubic::new(params, setup)?)),
};

/// The switches that shape the curve.
#[derive(Clone, Copy, Debug)]
struct Shape {
    beta: f64,
    c: f64,
    fast_convergence: bool,
}

#[derive(Clone, Debug)]
enum Curve {
    Kernel(kernel::Kernel),
    Rfc(rfc::Rfc),
}

#[derive(Clone, Debug)]
struct Cubic {
    window: Window,
    curve: Curve,
    /// QUIC: the curve before the last reduction, should that be undone (RFC 9438 §4.9).
    prior: Option<rfc::Rfc>,
    exit: Exit,
    /// The smallest RTT since the last timeout.
    delay_min: Option<Span>,
    last_sent: Option<Instant>,
    random_loss: Option<RandomLoss>,
}

impl Cubic {
    fn new(params: &Params, setup: &Setup) -> Result<Self, SpecError> {
        let shape = Shape {
            beta: params.within("beta", 0.1..=0.95)?,
            c: params.within("c", 0.01..=10.0)?,
            fast_convergence: params.get("fast_convergence")?,
        };
        let curve = match setup.flavour {
            Flavour::Linux => Curve::Kernel(kernel::Kernel::new(shape)),
            Flavour::Quic => Curve::Rfc(rfc::Rfc::new(shape)),
        };
        let (exit, window) = (slow_start(params, setup)?, Window::new(setup));
        let percent: f64 = params.within("random_loss", 0.0..=10.0)?;
        let random_loss = (percent > 0.0).then(|| RandomLoss::new(percent, window.mss()));
        Ok(Self { window, curve, prior: None, exit, delay_min: None, last_sent: None, random_loss })
    }

    /// Learns from the ACK's round-trip sample, as `cubictcp_acked` does before any growth.
    fn sample(&mut self, acked: &Acked, rtt: Span) -> Pace {
        if let Curve::Kernel(curve) = &self.curve
            && curve.is_young(acked.now)
        {
            return Pace::Full;
        }
        let delay_min = self.delay_min.map_or(rtt, |least| least.min(rtt));
        self.delay_min = Some(delay_min);
        if !self.window.in_slow_start() {
            return Pace::Full;
        }
        self.exit.on_sample(acked, rtt, delay_min, self.window.packets())
    }

    #[inline(always)]
    fn grow(&mut self, acked: &Acked) {
        let left = self.window.grow(acked);
        if left == 0 {
            return;
        }
        let delay_min = self.delay_min.unwrap_or(Span::ZERO);
        match &mut self.curve {
            Curve::Kernel(curve) => {
                let per = curve.update(acked.now, &self.window, self.window.packets_in(left), delay_min);
                self.window.increase(left, per * self.window.mss());
            }
            Curve::Rfc(curve) => curve.grow(&mut self.window, acked, left),
        }
    }
}

fn slow_start(params: &Params, setup: &Setup) -> Result<Exit, SpecError> {
    let hystart = Exit::HyStart(HyStart::new(setup.now));
    Ok(match params.text("slow_start") {
        "flavour" if setup.flavour == Flavour::Linux => hystart,
        "flavour" | "standard" => Exit::Loss,
        "hystart" => hystart,
        "hystart++" => Exit::PlusPlus(PlusPlus::default()),
        _ => return Err(params.bad("slow_start")),
    })
}

impl Controller for Cubic {
    fn on_sent(&mut self, sent: &Sent) {
        if sent.after_idle
            && let Some(last) = self.last_sent
        {
            match &mut self.curve {
                Curve::Kernel(curve) => curve.idle(sent.now, last),
                Curve::Rfc(curve) => curve.idle(sent.now, last),
            }
        }
        self.last_sent = Some(sent.now);
    }

    fn on_acked(&mut self, acked: &Acked, _: Siblings<'_>) {
        if let Some(random) = &mut self.random_loss {
            random.on_acked(acked);
        }
        let pace = acked.rtt.map_or(Pace::Full, |rtt| self.sample(acked, rtt));
        if let Curve::Rfc(curve) = &mut self.curve {
            curve.note_use(acked);
        }
        match pace {
            Pace::Full => self.grow(acked),
            Pace::Slower => self.window.grow_slower(acked, CSS_DIVISOR),
            Pace::Leave => {
                self.window.leave_slow_start();
                self.grow(acked);
            }
        }
    }

    fn ignores(&self, congestion: &Congestion) -> bool {
        // The engine of Linux brings the window to the threshold, which every loss sets.
        let is_quic = matches!(self.curve, Curve::Rfc(_));
        let random = self.random_loss.as_ref().zip(self.delay_min);
        is_quic && random.is_some_and(|(random, min_rtt)| random.explains(congestion, min_rtt))
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        let timeout = is_timeout(congestion.signal);
        if self.window.is_new(congestion) {
            let random = self.random_loss.as_ref().zip(self.delay_min);
            let least =
                random.map_or(0, |(random, min_rtt)| random.least_window(congestion, min_rtt, self.window.cwnd()));
            let target = match &mut self.curve {
                Curve::Kernel(curve) => curve.on_loss(self.window.packets()) * self.window.mss(),
                Curve::Rfc(curve) => {
                    self.prior = Some(curve.clone());
                    curve.on_loss(&self.window)
                }
            };
            self.window.reduce(congestion, target.max(least));
        }
        if timeout {
            match &mut self.curve {
                Curve::Kernel(curve) => curve.reset(),
                Curve::Rfc(curve) => curve.reset(),
            }
            self.delay_min = None;
            self.exit.reset(congestion.now);
        }
        self.window.collapse(congestion.signal);
    }

    fn on_spurious(&mut self, _: Instant) {
        self.window.undo();
        if let (Curve::Rfc(curve), Some(prior)) = (&mut self.curve, self.prior.take()) {
            *curve = prior;
        }
    }

    window_methods!();

    fn share(&self) -> Share {
        self.window.share()
    }

    fn snapshot(&self) -> String {
        let curve = match &self.curve {
            Curve::Kernel(curve) => curve.snapshot(),
            Curve::Rfc(curve) => curve.snapshot(),
        };
        format!("cwnd {} ssthresh {} {curve}", self.window.cwnd(), self.window.ssthresh())
    }
}
