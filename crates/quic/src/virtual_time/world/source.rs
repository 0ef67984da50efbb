//! The data of a run.

use std::sync::Arc;

use bytes::BytesMut;
use weftway_path::{Message, Offset};
use weftway_scenario::{App, mix};

use crate::driver::source::Source;

/// The data of a run: what the application writes, and bytes that tell where they belong.
pub struct ScenarioSource {
    pub app: App,
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
    /// What `app` writes, in bytes drawn from `seed`.
    pub fn new(app: App, seed: u64) -> Self {
        Self { app, pattern: pattern(seed) }
    }

    pub(super) fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        let at = (offset % PATTERN as u64) as usize;
        &self.pattern[at..at + bytes]
    }
}

impl Source for ScenarioSource {
    fn written(&mut self) -> u64 {
        self.app.written()
    }

    fn message_at(&mut self, at: u64) -> Option<Message> {
        self.app.message_at(at)
    }

    fn has_messages(&self) -> bool {
        self.app.has_messages()
    }

    fn append(&self, offset: Offset, bytes: usize, to: &mut BytesMut) {
        to.extend_from_slice(self.bytes(offset.get(), bytes));
    }
}
