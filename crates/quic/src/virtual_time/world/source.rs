//! The data of a run.

use std::sync::Arc;

use bytes::BytesMut;
use weftway_net::Flows;
use weftway_path::{Instant, Message, Offset};
use weftway_scenario::{App, mix};

use crate::driver::source::Source;

/// The data of a run: what the application writes, in streams or in bytes that tell where they belong.
pub struct ScenarioSource {
    pub app: App,
    flows: Option<Box<Flows>>,
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
    /// What `app` writes, in `flows`, or else in bytes drawn from `seed`.
    pub fn new(app: App, flows: Option<Box<Flows>>, seed: u64) -> Self {
        Self { app, flows, pattern: pattern(seed) }
    }

    /// What the application has written since the last time goes into streams.
    pub(super) fn open_flows(&mut self, now: Instant) {
        if let Some(flows) = &mut self.flows {
            flows.open(now, &self.app);
        }
    }

    /// These bytes arrive at `at`: whether they are those that were sent, as far as that is still known. Of streams the
    /// application learns which are whole.
    pub(super) fn take(&mut self, now: Instant, at: Offset, bytes: &[u8]) -> bool {
        let Some(flows) = &mut self.flows else { return self.bytes(at.get(), bytes.len()) == bytes };
        let is_known = flows.record(at).is_none_or(|sent| sent == bytes);
        if is_known {
            flows.arrive(now, at, bytes, &mut self.app);
        }
        is_known
    }

    fn bytes(&self, offset: u64, bytes: usize) -> &[u8] {
        let at = (offset % PATTERN as u64) as usize;
        &self.pattern[at..at + bytes]
    }
}

impl Source for ScenarioSource {
    fn cuts(&self) -> bool {
        self.flows.is_some()
    }

    fn written(&mut self) -> u64 {
        self.flows.as_mut().map_or_else(|| self.app.written(), |flows| flows.written())
    }

    fn message_at(&mut self, at: u64) -> Option<Message> {
        self.flows.as_mut().map_or_else(|| self.app.message_at(at), |flows| flows.message())
    }

    fn has_messages(&self) -> bool {
        self.app.has_messages()
    }

    fn append(&self, offset: Offset, bytes: usize, to: &mut BytesMut) {
        match &self.flows {
            Some(flows) => to.extend_from_slice(&flows.record(offset).unwrap_or_default()),
            None => to.extend_from_slice(self.bytes(offset.get(), bytes)),
        }
    }

    fn next_record(&mut self) -> u64 {
        self.flows.as_mut().map_or(0, |flows| flows.next_record())
    }

    fn cut(&mut self, at: Offset, bytes: u64) {
        if let Some(flows) = &mut self.flows {
            flows.cut(at, bytes);
        }
    }

    fn acked(&mut self, at: Offset) {
        if let Some(flows) = &mut self.flows {
            flows.acked(at);
        }
    }
}
