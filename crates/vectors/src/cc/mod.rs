//! Vectors of congestion controllers: scripts of events with the windows that a person works out by hand.
//!
//! ```toml
//! [[case]]
//! name = "a loss halves the window"
//! why = "10 packets, halved: 5"
//! controller = "newreno"
//! flavour = "quic"
//! window = 10
//! steps = [{ do = "congestion", signal = "loss", expect = { cwnd = 5, ssthresh = 5 } }]
//! ```
//!
//! Amounts are packets of `mss` bytes; times and rates have units. `at`, `rtt`,
//! `in_flight` and `recovery` hold until a later step changes them; before the first, the time is
//! 0, `in_flight` is the window and `recovery` is open. `rtt` stands for the sample, the
//! smoothed and the smallest RTT. An ACK with `round = true` covers a packet sent after everything delivered so far;
//! other ACKs cover packets sent earlier. An expectation without `within` allows for one byte, or for the last bit of a
//! rate.

mod script;

use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use crate::{Report, VectorError};
use script::{Case, Expect, File, Step, Verb};
use weftway_cc::{Acked, Congestion, Controller, Sent, Setup, Share, Signal, build};

/// Runs every case of a file.
pub fn run(text: &str) -> Result<Report, VectorError> {
    let file: File = toml::from_str(text)?;
    Report::of(&file.case, |case| &case.name, |case| World::new(case)?.play())
}

/// State of a script between its steps.
struct World<'a> {
    case: &'a Case,
    controller: Box<dyn Controller>,
    siblings: Vec<Share>,
    now: Instant,
    rtt: Span,
    in_flight: Option<Bytes>,
    recovery: Recovery,
    delivered: Bytes,
    /// Bytes delivered when the packets of this round left.
    round: Bytes,
}

impl<'a> World<'a> {
    fn new(case: &'a Case) -> Result<Self, String> {
        let setup = Setup {
            path: PathId::new(case.path),
            mss: Bytes::new(case.mss),
            initial_window: bytes(case.window, case.mss),
            flavour: case.flavour.into(),
            seed: 1,
            now: Instant::ZERO,
            rtt: case.handshake.map(|time| time.0),
        };
        let controller = build(&case.controller, &setup).map_err(|error| error.to_string())?;
        Ok(Self {
            case,
            controller,
            siblings: (0..).zip(&case.sibling).map(|(path, sibling)| sibling.share(path, case.mss)).collect(),
            now: Instant::ZERO,
            rtt: case.handshake.map_or(Span::ZERO, |time| time.0),
            in_flight: None,
            recovery: Recovery::Open,
            delivered: Bytes::ZERO,
            round: Bytes::ZERO,
        })
    }

    /// Plays the script; returns the number of values compared.
    fn play(mut self) -> Result<usize, String> {
        let mut checks = 0;
        for (number, step) in (1..).zip(&self.case.steps) {
            self.set(step);
            for repetition in 0..step.times {
                if repetition > 0 {
                    self.now += step.every.map_or(Span::ZERO, |time| time.0);
                }
                self.act(step);
            }
            checks += self.check(number, &step.expect)?;
        }
        Ok(checks)
    }

    fn set(&mut self, step: &Step) {
        self.now = step.at.map_or(self.now, |time| Instant::ZERO + time.0);
        self.rtt = step.rtt.map_or(self.rtt, |time| time.0);
        self.in_flight = step.in_flight.map(|packets| self.bytes(packets)).or(self.in_flight);
        self.recovery = step.recovery.map_or(self.recovery, Recovery::from);
    }

    fn act(&mut self, step: &Step) {
        match step.verb {
            Verb::Acked => self.acked(step),
            Verb::Sent => self.sent(step),
            Verb::Congestion => self.congestion(step),
            Verb::Spurious => self.controller.on_spurious(self.now),
            Verb::Recovered => self.controller.on_recovered(self.now),
            Verb::Penalty => self.controller.on_penalty(),
            Verb::SetCwnd => self.controller.set_cwnd(self.bytes(step.packets)),
        }
    }

    fn acked(&mut self, step: &Step) {
        let bytes = self.bytes(step.packets);
        if step.round {
            self.round = self.delivered;
        }
        self.delivered += bytes;
        let acked = Acked {
            now: self.now,
            bytes,
            lost: self.bytes(step.lost),
            prior_in_flight: self.in_flight() + bytes,
            bytes_in_flight: self.in_flight(),
            rtt: Some(self.rtt),
            srtt: self.rtt,
            min_rtt: self.rtt,
            newest_sent: self.sent_time(step),
            delivered: self.delivered,
            prior_delivered: self.round,
            rate: step.rate.map(|rate| rate.0),
            interval: self.rtt,
            app_limited: step.app_limited,
            cwnd_limited: step.cwnd_limited,
            recovery: self.recovery,
            reducing: step.reducing,
        };
        self.controller.on_acked(&acked, &self.siblings);
    }

    fn sent(&mut self, step: &Step) {
        let bytes = self.bytes(step.packets);
        self.controller.on_sent(&Sent {
            now: self.now,
            bytes,
            bytes_in_flight: self.in_flight().max(bytes),
            after_idle: step.after_idle,
            app_limited: step.app_limited,
        });
    }

    fn congestion(&mut self, step: &Step) {
        let congestion = Congestion {
            now: self.now,
            signal: step.signal.map_or(Signal::Loss, Signal::from),
            bytes_in_flight: self.in_flight(),
            lost: self.bytes(step.lost),
            lost_sent: self.sent_time(step),
            srtt: self.rtt,
        };
        self.controller.on_congestion(&congestion, &self.siblings);
    }

    fn check(&self, step: usize, expect: &Expect) -> Result<usize, String> {
        let ssthresh = match self.controller.ssthresh() {
            Bytes::MAX => f64::INFINITY,
            bytes => self.packets(bytes),
        };
        let pacing = self.controller.pacing_rate().map_or(f64::NAN, BitRate::as_mbps_f64);
        let byte = 1.0 / self.case.mss as f64;
        let values = [
            ("cwnd", expect.cwnd, self.packets(self.controller.cwnd()), byte),
            ("ssthresh", expect.ssthresh, ssthresh, byte),
            ("pacing", expect.pacing.map(|rate| rate.0.as_mbps_f64()), pacing, 1e-6),
            ("quantum", expect.quantum, self.packets(self.controller.send_quantum()), byte),
            ("inter_loss", expect.inter_loss, self.packets(self.controller.share().inter_loss), byte),
        ];
        let mut checks = 0;
        for (value, expected, found, rounding) in values {
            let Some(expected) = expected else { continue };
            // Half as much again, for the float in between.
            let tolerance = expect.within.unwrap_or(rounding * 1.5);
            if found != expected && (found - expected).abs().partial_cmp(&tolerance).is_none_or(|order| order.is_gt()) {
                return Err(format!("step {step}: {value} is {found}, expected {expected}"));
            }
            checks += 1;
        }
        Ok(checks)
    }

    fn in_flight(&self) -> Bytes {
        self.in_flight.unwrap_or(self.controller.cwnd())
    }

    fn sent_time(&self, step: &Step) -> Instant {
        step.sent.map_or(self.now - self.rtt, |time| Instant::ZERO + time.0)
    }

    fn bytes(&self, packets: f64) -> Bytes {
        bytes(packets, self.case.mss)
    }

    fn packets(&self, bytes: Bytes) -> f64 {
        bytes.get() as f64 / self.case.mss as f64
    }
}

fn bytes(packets: f64, mss: u64) -> Bytes {
    Bytes::new((packets * mss as f64 + 0.5) as u64)
}
