//! The form of a file of vectors.

use serde::Deserialize;
use weftway_path::{BitRate, Bytes, PathId, Recovery};

use super::bytes;
use crate::quantity::{Rate, Time};
use weftway_cc::{Flavour, Share, Signal};

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    pub(super) case: Vec<Case>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub(super) name: String,
    /// The working, for the reader.
    #[serde(rename = "why")]
    _why: String,
    pub(super) controller: String,
    pub(super) flavour: Stack,
    #[serde(default = "thousand")]
    pub(super) mss: u64,
    pub(super) window: f64,
    pub(super) handshake: Option<Time>,
    #[serde(default)]
    pub(super) path: u8,
    #[serde(default)]
    pub(super) sibling: Vec<Sibling>,
    pub(super) steps: Vec<Step>,
}

/// A packet size that is easy to multiply by.
fn thousand() -> u64 {
    1000
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stack {
    Linux,
    Quic,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Sibling {
    pub(super) cwnd: f64,
    pub(super) srtt: Time,
    #[serde(default)]
    pub(super) inter_loss: f64,
    pub(super) bandwidth: Option<Rate>,
    /// True once its estimate has settled.
    #[serde(default)]
    pub(super) steady: bool,
    pub(super) bottleneck: Option<u8>,
    #[serde(default)]
    pub(super) contended: bool,
    #[serde(default = "yes")]
    pub(super) usable: bool,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Verb {
    Acked,
    Sent,
    Congestion,
    Spurious,
    Recovered,
    Penalty,
    SetCwnd,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum Cause {
    Loss,
    Ecn,
    Timeout,
    Persistent,
}

#[derive(Clone, Copy, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum State {
    Open,
    Disorder,
    Cwr,
    Recovery,
    Loss,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    #[serde(rename = "do")]
    pub(super) verb: Verb,
    pub(super) at: Option<Time>,
    /// Number of times that it happens, and the time between them.
    #[serde(default = "once")]
    pub(super) times: u32,
    pub(super) every: Option<Time>,
    /// Acknowledged, sent, or the window to set.
    #[serde(default)]
    pub(super) packets: f64,
    #[serde(default)]
    pub(super) lost: f64,
    pub(super) signal: Option<Cause>,
    pub(super) rtt: Option<Time>,
    /// Departure of the newest packet acknowledged, or lost; by default one RTT ago.
    pub(super) sent: Option<Time>,
    pub(super) in_flight: Option<f64>,
    pub(super) recovery: Option<State>,
    pub(super) rate: Option<Rate>,
    #[serde(default)]
    pub(super) round: bool,
    #[serde(default)]
    pub(super) reducing: bool,
    #[serde(default = "yes")]
    pub(super) cwnd_limited: bool,
    #[serde(default)]
    pub(super) app_limited: bool,
    #[serde(default)]
    pub(super) after_idle: bool,
    #[serde(default)]
    pub(super) expect: Expect,
}

fn once() -> u32 {
    1
}

fn yes() -> bool {
    true
}

#[derive(Default, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Expect {
    pub(super) cwnd: Option<f64>,
    /// `inf` before the first reduction.
    pub(super) ssthresh: Option<f64>,
    pub(super) pacing: Option<Rate>,
    /// The burst that may leave at once.
    pub(super) quantum: Option<f64>,
    pub(super) inter_loss: Option<f64>,
    /// Error that rounding may bring to the window, in packets, or to the rate, in Mbit/s.
    pub(super) within: Option<f64>,
}

impl Sibling {
    pub(super) fn share(&self, path: u8, mss: u64) -> Share {
        Share {
            path: PathId::new(path),
            cwnd: bytes(self.cwnd, mss),
            mss: Bytes::new(mss),
            srtt: self.srtt.0,
            inter_loss: bytes(self.inter_loss, mss),
            bandwidth: self.bandwidth.map_or(BitRate::ZERO, |rate| rate.0),
            link_rate: BitRate::ZERO,
            steady: self.steady,
            bottleneck: self.bottleneck,
            contended: self.contended,
            usable: self.usable,
        }
    }
}

impl From<Stack> for Flavour {
    fn from(stack: Stack) -> Self {
        match stack {
            Stack::Linux => Self::Linux,
            Stack::Quic => Self::Quic,
        }
    }
}

impl From<Cause> for Signal {
    fn from(cause: Cause) -> Self {
        match cause {
            Cause::Loss => Self::Loss,
            Cause::Ecn => Self::Ecn,
            Cause::Timeout => Self::Timeout,
            Cause::Persistent => Self::Persistent,
        }
    }
}

impl From<State> for Recovery {
    fn from(state: State) -> Self {
        match state {
            State::Open => Self::Open,
            State::Disorder => Self::Disorder,
            State::Cwr => Self::Cwr,
            State::Recovery => Self::Recovery,
            State::Loss => Self::Loss,
        }
    }
}
