//! The data of a scenario's application, as a connection sends them.

use bytes::Bytes;
use weftway_host::sending::Data;
use weftway_path::{Instant, Message, Offset};
use weftway_scenario::App;
use weftway_scenario::config::SimConfig;

use crate::Flows;

/// Data that an application writes: one row of bytes, or streams.
#[derive(Clone, Debug)]
pub struct AppData {
    /// The application.
    pub app: App,
    flows: Option<Box<Flows>>,
}

impl AppData {
    /// Data of the application of `config`, with draws from `seed`.
    pub fn of(config: &SimConfig, seed: u64) -> Self {
        Self { app: App::of(&config.workload, seed), flows: Flows::of(config) }
    }

    /// Returns true if what the application writes is in streams.
    #[inline]
    pub fn has_flows(&self) -> bool {
        self.flows.is_some()
    }

    /// Opens streams for what the application has written since the last time.
    pub fn open_flows(&mut self, now: Instant) {
        if let Some(flows) = &mut self.flows {
            flows.open(now, &self.app);
        }
    }

    /// Record of streams at `at`, until the sending end knows that it has arrived.
    pub fn record(&self, at: Offset) -> Option<Bytes> {
        self.flows.as_ref().and_then(|flows| flows.record(at))
    }

    /// Takes in the record of streams that arrives at `at`, perhaps not for the first time: the application learns
    /// which streams are whole.
    pub fn arrive(&mut self, now: Instant, at: Offset, record: &[u8]) {
        if let Some(flows) = &mut self.flows {
            flows.arrive(now, at, record, &mut self.app);
        }
    }

    /// Notes that the sending end knows that the record at `at` has arrived. May be told more than once.
    pub fn acked(&mut self, at: Offset) {
        if let Some(flows) = &mut self.flows {
            flows.acked(at);
        }
    }
}

impl From<App> for AppData {
    /// Data of an application without streams.
    fn from(app: App) -> Self {
        Self { app, flows: None }
    }
}

impl Data for AppData {
    #[inline(always)]
    fn written(&mut self) -> u64 {
        match &mut self.flows {
            Some(flows) => flows.written(),
            None => self.app.written(),
        }
    }

    fn message_at(&mut self, at: u64) -> Option<Message> {
        match &mut self.flows {
            Some(flows) => flows.message(),
            None => self.app.message_at(at),
        }
    }

    #[inline]
    fn has_messages(&self) -> bool {
        self.app.has_messages()
    }

    /// Messages of streams are what is cut next.
    #[inline]
    fn keeps_messages(&self) -> bool {
        !self.has_flows()
    }

    #[inline]
    fn cuts(&self) -> bool {
        self.has_flows()
    }

    fn next_record(&mut self) -> u64 {
        self.flows.as_mut().map_or(0, |flows| flows.next_record())
    }

    #[inline]
    fn cut(&mut self, at: Offset, bytes: u64) {
        if let Some(flows) = &mut self.flows {
            flows.cut(at, bytes);
        }
    }
}
