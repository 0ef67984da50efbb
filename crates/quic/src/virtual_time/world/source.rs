//! The data of a run.

use std::sync::Arc;

use bytes::BytesMut;
use weftway_net::AppData;
use weftway_path::{Instant, Offset};
use weftway_scenario::mix;

use crate::driver::source::Source;

/// The data of a run: what the application writes, in streams or in bytes that tell where they belong.
pub struct ScenarioSource {
    pub data: AppData,
    pattern: Arc<[u8]>,
}

/// A prime, so that no power of two repeats itself.
const PATTERN: usize = 65_521;

/// Twice the pattern: a record is then in one piece wherever it begins.
fn pattern(seed: u64) -> Arc<[u8]> {
    let once: Vec<u8> = (0..PATTERN as u64).map(|at| mix(seed, at) as u8).collect();
    [once.as_slice(), once.as_slice()].concat().into()
}

impl ScenarioSource {
    /// Source of `data`: those that are no streams have bytes drawn from `seed`.
    pub fn new(data: AppData, seed: u64) -> Self {
        Self { data, pattern: pattern(seed) }
    }

    /// Takes bytes that arrive at `at`; returns true if they are those that were sent, as far as that is still known.
    /// Of streams the application learns which are whole.
    pub(super) fn take(&mut self, now: Instant, at: Offset, bytes: &[u8]) -> bool {
        if !self.data.has_records() {
            return self.bytes(at.get(), bytes.len()) == bytes;
        }
        let is_known = self.data.record(at).is_none_or(|sent| sent == bytes);
        if is_known {
            self.data.arrive(now, at, bytes);
        }
        is_known
    }

    fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        let at = (offset % PATTERN as u64) as usize;
        &self.pattern[at..at + bytes]
    }
}

impl Source for ScenarioSource {
    type Data = AppData;

    fn data(&mut self) -> &mut AppData {
        &mut self.data
    }

    fn append(&self, offset: Offset, bytes: usize, to: &mut BytesMut) {
        if self.data.has_records() {
            to.extend_from_slice(&self.data.record(offset).unwrap_or_default());
        } else {
            to.extend_from_slice(self.bytes(offset.get(), bytes));
        }
    }

    fn acked(&mut self, at: Offset) {
        self.data.acked(at);
    }
}
