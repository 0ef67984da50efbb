//! On which path acknowledgements leave: each on the one that brought what they acknowledge, so that round-trip times
//! are those of a path.

use weftway_path::{Instant, PathId};

use super::connection::QuicConnection;

/// Since when each path owes an acknowledgement.
#[derive(Clone, Debug)]
pub struct Answers {
    owes_since: Vec<Instant>,
}

impl Answers {
    /// Answers of a connection over so many paths.
    pub fn new(paths: usize) -> Self {
        Self { owes_since: vec![Instant::NEVER; paths] }
    }

    /// Path `path` has brought something.
    pub fn heard(&mut self, now: Instant, path: PathId) {
        let since = &mut self.owes_since[path.index()];
        *since = now.min(*since);
    }

    /// Lets what path `path` owes leave on it. What is not due yet noq keeps, until a timer fires.
    pub fn answer(&mut self, now: Instant, connection: &mut QuicConnection, path: PathId) {
        connection.answer(now, path);
        if connection.outgoing.iter().any(|out| out.path == Some(path)) {
            self.owes_since[path.index()] = Instant::NEVER;
        }
    }

    /// A timer of noq's has fired: of delayed acknowledgements the oldest is due.
    pub fn oldest(&mut self) -> PathId {
        let oldest = (0..self.owes_since.len()).min_by_key(|&at| self.owes_since[at]).unwrap_or(0);
        self.owes_since[oldest] = Instant::NEVER;
        PathId::new(oldest as u8)
    }
}
