//! The text of a vector file.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::quantity::Amount;
use crate::quantity::{Rate, Time};

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct File {
    /// The scheduler, with the switches that all cases share.
    pub scheduler: String,
    /// Whose rule for data sent before the transport has, unless a case says otherwise: `mptcp`, where they avoid the
    /// paths that have carried them, or `mpquic`, where they may take any.
    #[serde(default)]
    pub stack: Stack,
    pub case: Vec<Case>,
}

/// A stack, for what it does with data sent before.
#[derive(Clone, Copy, PartialEq, Eq, Deserialize, Default, Debug)]
#[serde(rename_all = "lowercase")]
pub(super) enum Stack {
    #[default]
    Mptcp,
    Mpquic,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    pub name: String,
    /// The working, for the reader.
    #[serde(rename = "why")]
    _why: String,
    /// More switches: `form=paper:delta=rttvar`.
    #[serde(default)]
    pub with: String,
    pub stack: Option<Stack>,
    /// The paths, numbered in this order unless a row has an `id`.
    pub paths: Vec<PathRow>,
    #[serde(default)]
    pub flow: FlowRow,
    /// The first question; short for a step of its own.
    pub expect: Option<String>,
    #[serde(default)]
    pub steps: Vec<Step>,
}

/// State of a path; what is missing stays as it was: at first active, good, open, with a
/// window of 10 packets and a slow-start threshold of 10.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct PathRow {
    /// Only where the path is introduced.
    pub name: Option<String>,
    /// Its number, likewise.
    pub id: Option<u8>,
    pub role: Option<String>,
    pub health: Option<String>,
    pub blocked: Option<String>,
    pub recovery: Option<String>,
    pub srtt: Option<Time>,
    pub rttvar: Option<Time>,
    pub latest_rtt: Option<Time>,
    pub min_rtt: Option<Time>,
    /// The samples so far, of which the mean is taken.
    pub samples: Option<Vec<Time>>,
    pub cwnd: Option<Amount>,
    pub ssthresh: Option<Amount>,
    pub in_flight: Option<Amount>,
    pub queued: Option<Amount>,
    pub queue_room: Option<Amount>,
    pub device_queue: Option<Amount>,
    pub bottleneck: Option<u8>,
    pub delivery_rate: Option<Rate>,
    pub pacing_rate: Option<Rate>,
    pub link_rate: Option<Rate>,
    pub sent: Option<Amount>,
    pub acked: Option<Amount>,
    pub lost: Option<Amount>,
    pub retransmitted: Option<Amount>,
    /// Timeouts in a row without progress.
    pub pto_count: Option<u32>,
}

#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct FlowRow {
    pub una: Option<Amount>,
    /// Beginning of the send buffer, if below `una`.
    pub acked: Option<Amount>,
    pub next: Option<Amount>,
    pub unsent: Option<Amount>,
    /// The peer's whole window, from `una`.
    pub window: Option<Amount>,
    /// The window that the peer has announced, from `una`, if the transport goes beyond it.
    pub announced: Option<Amount>,
    pub message_start: Option<Amount>,
    pub message_end: Option<Amount>,
    /// Time since the message was written.
    pub message_age: Option<Time>,
    /// Time at which the message should have arrived.
    pub deadline: Option<Time>,
    /// Urgency of the message; 0 is the most urgent.
    pub class: Option<u8>,
}

/// Step. Its parts happen in the order of these fields.
#[derive(Deserialize, Default, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Step {
    /// The time.
    pub at: Option<Time>,
    /// Paths that change, by name.
    #[serde(default)]
    pub set: BTreeMap<String, PathRow>,
    #[serde(default)]
    pub flow: FlowRow,
    /// A packet handed back to be sent again.
    pub reinject: Option<Reinject>,
    /// Packets acknowledged: `F`, `F x3`, `F @2`, in a list.
    pub acked: Option<String>,
    /// Packets declared lost, likewise.
    pub lost: Option<String>,
    /// `congestion F`, `starved window`, `starved buffer`, `down F`, `wake`.
    pub event: Option<String>,
    /// The decisions, in a list: `F`, `F x3`, `ahead S @71`, `repeat S @0`, `recall F`, `wait`.
    pub expect: Option<String>,
    /// Time at which the scheduler wants to be woken.
    pub wakes: Option<Time>,
    /// Words that its reason for the next answer has to contain.
    pub explains: Option<String>,
}

#[derive(Deserialize, Debug)]
#[serde(deny_unknown_fields)]
pub(super) struct Reinject {
    /// Its number.
    pub packet: u64,
    /// The paths that have carried it.
    #[serde(default)]
    pub carried: Vec<String>,
}
