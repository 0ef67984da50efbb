//! A snapshot of another program, as it is read.

use serde::Deserialize;
use serde_json::{Map, Value};
use weftway_transfer::PathProgress;

use crate::text::NOTHING;

/// Part of a snapshot that a page shows. What another version of the program does not tell is empty.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ShownSnapshot {
    /// The verb that runs.
    pub program: String,
    /// The number of its process.
    pub pid: u64,
    /// Seconds since 1970.
    pub at: f64,
    /// State.
    pub state: String,
    /// Scheduler of what it sends.
    pub scheduler: Option<String>,
    /// Address where it listens for the other end.
    pub listening: Option<String>,
    /// Places where it listens for programs.
    pub ports: Vec<String>,
    /// Connections that are open.
    pub flows: u64,
    /// Connections that carried most.
    pub busiest: Vec<ToldFlow>,
    /// Links.
    pub paths: Vec<ShownPath>,
    /// The last hour, if it was asked for.
    pub hour: ShownHour,
}

/// A connection.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ToldFlow {
    target: String,
    /// Class.
    pub class: String,
    /// Bytes from the program.
    pub up: u64,
    /// Bytes to the program.
    pub down: u64,
    paths: Vec<ToldShare>,
}

/// Bytes of a connection that went over a link.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct ToldShare {
    path: String,
    sent: u64,
    received: u64,
}

/// A link and its rate.
#[derive(Debug, Deserialize)]
pub struct ShownPath {
    /// Its counters.
    #[serde(flatten)]
    pub path: PathProgress,
    /// Rate, in Mbit/s.
    #[serde(default)]
    pub mbps: f64,
}

/// The last hour, in columns by name and key.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ShownHour {
    /// Samples of links.
    pub links: Map<String, Value>,
    /// Samples of a relay's clients.
    pub clients: Map<String, Value>,
    /// Samples of classes of connections.
    pub flows: Map<String, Value>,
    /// Notes for the user, and their times.
    pub notes: Vec<(f64, String)>,
}

impl ToldFlow {
    /// Target of the connection, for people.
    pub fn name(&self) -> &str {
        match self.target.strip_prefix("pipe:") {
            Some(pipe) => pipe.rsplit('/').next().unwrap_or(pipe),
            None if self.target == "udp:" => "datagrams (UDP)",
            None => &self.target,
        }
    }

    /// Which part of its bytes, of both directions, went over each link.
    pub fn shares(&self) -> String {
        let carried = |share: &ToldShare| (share.sent + share.received) as f64;
        let whole: f64 = self.paths.iter().map(carried).sum();
        if whole == 0.0 {
            return NOTHING.to_owned();
        }
        let shares: Vec<_> =
            self.paths.iter().map(|share| format!("{} {:.0} %", share.path, 100.0 * carried(share) / whole)).collect();
        shares.join(", ")
    }
}
