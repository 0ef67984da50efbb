//! The data of a scenario's application, as a connection sends them.

use bytes::Bytes;
use weftway_host::sending::Data;
use weftway_path::{Instant, Message, Offset, Path};
use weftway_scenario::App;
use weftway_scenario::config::SimConfig;

use crate::Records;

/// Data that an application writes: one row of bytes, or streams or datagrams.
#[derive(Clone, Debug)]
pub struct AppData {
    /// The application.
    pub app: App,
    records: Option<Box<Records>>,
}

impl AppData {
    /// Data of the application of `config`, with draws from `seed`.
    pub fn of(config: &SimConfig, seed: u64) -> Self {
        Self { app: App::of(&config.workload, seed), records: Records::of(config) }
    }

    /// Returns true if what the application writes is in streams or datagrams, which a mux cuts into records.
    #[inline]
    pub fn has_records(&self) -> bool {
        self.records.is_some()
    }

    /// Takes up what the application has written since the last time: a stream for each flow, or datagrams.
    pub fn take_written(&mut self, now: Instant) {
        if let Some(records) = &mut self.records {
            records.take_written(now, &self.app);
        }
    }

    /// Sets the time and the usable paths: datagrams that would be too late are not sent any more.
    #[inline]
    pub fn set_now<'a>(&mut self, now: Instant, paths: impl Iterator<Item = &'a Path> + Clone) {
        if let Some(records) = &mut self.records {
            records.set_now(now, paths);
        }
    }

    /// Place before which everything has arrived or never will; none of streams.
    pub fn arrived(&self) -> Option<Offset> {
        self.records.as_ref().and_then(|records| records.arrived())
    }

    /// Record at `at`, until the sending end knows that it has arrived.
    pub fn record(&self, at: Offset) -> Option<Bytes> {
        self.records.as_ref().and_then(|records| records.record(at))
    }

    /// Takes in the record that arrives at `at`, perhaps not for the first time: the application learns
    /// which flows are whole, or which datagrams have come.
    pub fn arrive(&mut self, now: Instant, at: Offset, record: &[u8]) {
        if let Some(records) = &mut self.records {
            records.arrive(now, at, record, &mut self.app);
        }
    }

    /// Notes that the sending end knows that the record at `at` has arrived. May be told more than once.
    pub fn acked(&mut self, at: Offset) {
        if let Some(records) = &mut self.records {
            records.acked(at);
        }
    }
}

impl From<App> for AppData {
    /// Data of an application without streams and datagrams.
    fn from(app: App) -> Self {
        Self { app, records: None }
    }
}

impl Data for AppData {
    #[inline(always)]
    fn written(&mut self) -> u64 {
        match &mut self.records {
            Some(records) => records.written(),
            None => self.app.written(),
        }
    }

    fn message_at(&mut self, at: u64) -> Option<Message> {
        match &mut self.records {
            Some(records) => records.message(),
            None => self.app.message_at(at),
        }
    }

    #[inline]
    fn has_messages(&self) -> bool {
        self.app.has_messages()
    }

    /// Messages of records are what is cut next.
    #[inline]
    fn keeps_messages(&self) -> bool {
        !self.has_records()
    }

    #[inline]
    fn cuts(&self) -> bool {
        self.has_records()
    }

    fn next_record(&mut self) -> u64 {
        self.records.as_mut().map_or(0, |records| records.next_record())
    }

    #[inline]
    fn cut(&mut self, at: Offset, bytes: u64) {
        if let Some(records) = &mut self.records {
            records.cut(at, bytes);
        }
    }

    #[inline]
    fn is_wanted(&mut self, at: Offset, soonest: Instant) -> bool {
        self.records.as_mut().is_none_or(|records| records.is_wanted(at, soonest))
    }
}
