//! Vectors: scripts of events with the windows that a person works out by hand.
//!
//! ```toml
//! [[case]]
//! name = "a loss halves the window"
//! why = "10 packets, halved: 5"
//! controller = "newreno"
//! flavour = "quic"
//! window = 10
//! step = [{ do = "congestion", signal = "loss", expect = { cwnd = 5, ssthresh = 5 } }]
//! ```
//!
//! Amounts are packets of `mss` bytes, times milliseconds, rates Mbit/s. `at_ms`, `rtt_ms`,
//! `in_flight` and `recovery` hold until a later step changes them; before the first, the time is
//! 0, `in_flight` is the window and `recovery` is open. `rtt_ms` stands for the sample, the
//! smoothed and the smallest RTT. An ACK with `round = true` covers a packet sent after everything delivered so far; other ACKs
//! cover packets sent earlier. An expectation without `within` allows for one byte, or for the
//! last bit of a rate.

mod script;

use thiserror::Error;
use weftway_path::spec::SpecError;
use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use crate::{Acked, Congestion, Controller, Sent, Setup, Share, Signal, build};
use script::{Case, Expect, File, Step, Verb};

/// What a file of vectors checked, all of it as expected.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Report {
    /// Its cases.
    pub cases: usize,
    /// Its expectations, one for each value compared.
    pub checks: usize,
}

/// Why a file of vectors is refused, or where a controller disagrees with it.
#[derive(Debug, Error)]
pub enum VectorError {
    /// The file is not a file of vectors.
    #[error(transparent)]
    Format(#[from] toml::de::Error),
    /// A case names no controller.
    #[error("{case}: {error}")]
    Controller {
        /// The case.
        case: String,
        /// What is wrong with the name.
        error: SpecError,
    },
    /// A case, or the whole file, compares nothing.
    #[error("{0}: nothing is expected")]
    Empty(String),
    /// A controller disagrees.
    #[error("{case}, step {step}: {value} is {found}, expected {expected}")]
    Mismatch {
        /// The case.
        case: String,
        /// The step, counted from 1.
        step: usize,
        /// What was compared.
        value: &'static str,
        /// What the controller says.
        found: f64,
        /// What the file says.
        expected: f64,
    },
}

/// Runs every case of a file.
pub fn run(text: &str) -> Result<Report, VectorError> {
    let file: File = toml::from_str(text)?;
    let mut report = Report { cases: 0, checks: 0 };
    for case in &file.case {
        let checks = World::new(case)?.play()?;
        if checks == 0 {
            return Err(VectorError::Empty(case.name.clone()));
        }
        report.cases += 1;
        report.checks += checks;
    }
    if report.cases == 0 { Err(VectorError::Empty("the file".to_owned())) } else { Ok(report) }
}

fn millis(ms: f64) -> Span {
    Span::from_secs_f64(ms / 1000.0)
}

fn instant(ms: f64) -> Instant {
    Instant::ZERO + millis(ms)
}

/// What a script holds between its steps.
struct World<'a> {
    case: &'a Case,
    controller: Box<dyn Controller>,
    siblings: Vec<Share>,
    now: Instant,
    rtt: Span,
    in_flight: Option<Bytes>,
    recovery: Recovery,
    delivered: Bytes,
    /// What was delivered when the packets of this round left.
    round: Bytes,
}

impl<'a> World<'a> {
    fn new(case: &'a Case) -> Result<Self, VectorError> {
        let setup = Setup {
            path: PathId::new(case.path),
            mss: Bytes::new(case.mss),
            initial_window: bytes(case.window, case.mss),
            flavour: case.flavour.into(),
            seed: 1,
            now: Instant::ZERO,
            rtt: case.handshake_ms.map(millis),
        };
        let controller = build(&case.controller, &setup)
            .map_err(|error| VectorError::Controller { case: case.name.clone(), error })?;
        Ok(Self {
            case,
            controller,
            siblings: (0..).zip(&case.sibling).map(|(path, sibling)| sibling.share(path, case.mss)).collect(),
            now: Instant::ZERO,
            rtt: case.handshake_ms.map_or(Span::ZERO, millis),
            in_flight: None,
            recovery: Recovery::Open,
            delivered: Bytes::ZERO,
            round: Bytes::ZERO,
        })
    }

    /// Plays the script; returns the number of values compared.
    fn play(mut self) -> Result<usize, VectorError> {
        let mut checks = 0;
        for (number, step) in (1..).zip(&self.case.step) {
            self.set(step);
            for repetition in 0..step.times {
                if repetition > 0 {
                    self.now += millis(step.every_ms);
                }
                self.act(step);
            }
            checks += self.check(number, &step.expect)?;
        }
        Ok(checks)
    }

    fn set(&mut self, step: &Step) {
        self.now = step.at_ms.map_or(self.now, instant);
        self.rtt = step.rtt_ms.map_or(self.rtt, millis);
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
            rate: step.rate_mbps.map(|mbps| BitRate::from_bps((mbps * 1e6) as u64)),
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

    fn check(&self, step: usize, expect: &Expect) -> Result<usize, VectorError> {
        let ssthresh = match self.controller.ssthresh() {
            Bytes::MAX => f64::INFINITY,
            bytes => self.packets(bytes),
        };
        let pacing = self.controller.pacing_rate().map_or(f64::NAN, BitRate::as_mbps_f64);
        let byte = 1.0 / self.case.mss as f64;
        let values = [
            ("cwnd", expect.cwnd, self.packets(self.controller.cwnd()), byte),
            ("ssthresh", expect.ssthresh, ssthresh, byte),
            ("pacing_mbps", expect.pacing_mbps, pacing, 1e-6),
            ("quantum", expect.quantum, self.packets(self.controller.send_quantum()), byte),
            ("inter_loss", expect.inter_loss, self.packets(self.controller.share().inter_loss), byte),
        ];
        let mut checks = 0;
        for (value, expected, found, rounding) in values {
            let Some(expected) = expected else { continue };
            // Half as much again, for the float in between.
            let tolerance = expect.within.unwrap_or(rounding * 1.5);
            if found != expected && (found - expected).abs().partial_cmp(&tolerance).is_none_or(|order| order.is_gt()) {
                let case = self.case.name.clone();
                return Err(VectorError::Mismatch { case, step, value, found, expected });
            }
            checks += 1;
        }
        Ok(checks)
    }

    fn in_flight(&self) -> Bytes {
        self.in_flight.unwrap_or(self.controller.cwnd())
    }

    fn sent_time(&self, step: &Step) -> Instant {
        step.sent_ms.map_or(self.now - self.rtt, instant)
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
