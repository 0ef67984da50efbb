//! Settings of the driver over sockets, and the scheduling of what an end sends.

use std::sync::mpsc::Receiver;

use weftway_host::sending::Groups;
use weftway_host::{Host, OVER_SOCKETS, mismatch};
use weftway_path::{Bytes, Span};
use weftway_quic::driver::Setting;
use weftway_quic::driver::record::OVERHEAD;
use weftway_scenario::config::{Buffer, TransportConfig};
use weftway_sched::Scheduler;
use weftway_udp::settings::LARGEST_PAYLOAD;

use crate::failure::Failure;

/// Bytes by which the sender may be ahead of what the receiver has written: 100 Mbit/s for two seconds. Both ends know
/// it.
pub(crate) const WINDOW: u64 = 32 << 20;
/// The payload of the least record that is called full: what is left of QUIC's least packet, so that it fits on every
/// path. It grows as noq finds that every path takes more.
pub(crate) const RECORD: u64 = 1200 - OVERHEAD;
/// Bytes of a packet beside its data: of IPv6, UDP, QUIC and the record.
pub(crate) const PACKET_OVERHEAD: u64 = 48 + OVERHEAD;
/// The payload of the longest record.
pub(crate) const LARGEST_RECORD: u64 = LARGEST_PAYLOAD as u64 - OVERHEAD;
/// A path is given up when it is silent for so long, or for three probe timeouts.
const PATH_TIMEOUT: Span = Span::from_millis(500);
/// Interval in which it is then asked.
const PROBE_INTERVAL: Span = Span::from_millis(250);

/// Time that data of a path that was cut wait in another one's queue at most, where that queue is ours.
const STANDING_QUEUE: Span = Span::from_millis(500);

/// Packets that a path may have in flight at the start (RFC 9002 §7.2).
pub const INITIAL_WINDOW: u64 = 10;

/// Largest initial window that is no slip of the finger, in packets.
pub const LARGEST_INITIAL_WINDOW: u64 = 1000;

/// Scheduler, congestion controller and initial window of what an end sends.
pub struct Scheduling {
    /// Name of the scheduler, with its switches.
    pub scheduler: String,
    /// Name of the congestion controller, with its switches.
    pub cc: String,
    /// Packets that a path may have in flight at the start.
    pub initial_window: u64,
    /// Schedulers that take over while the program is at work.
    pub switch: Option<Receiver<String>>,
}

impl Default for Scheduling {
    fn default() -> Self {
        // Radio links lose packets that no queue dropped.
        Self {
            scheduler: "earliest-delivery".to_owned(),
            cc: "cubic:random_loss=2".to_owned(),
            initial_window: INITIAL_WINDOW,
            switch: None,
        }
    }
}

impl Scheduling {
    /// Refuses a scheduler that cannot run over sockets, and a controller that there is not.
    pub(crate) fn check(&self) -> Result<(), Failure> {
        build(&self.scheduler)?;
        weftway_cc::parse(&self.cc).map(drop).map_err(|error| Failure::Spec(error.to_string()))
    }

    /// Settings of the driver for a connection of so many paths.
    pub(crate) fn setting(&self, paths: usize) -> Setting {
        let groups = Groups::detected(paths);
        let transport = TransportConfig { initial_window: self.initial_window, ..transport() };
        Setting { transport, cc: self.cc.clone(), seed: 0, groups, fills_packets: true }
    }
}

/// Settings of the transport over sockets.
fn transport() -> TransportConfig {
    TransportConfig {
        mss: Bytes::new(RECORD),
        send_buffer: Buffer::Fixed(Bytes::new(WINDOW)),
        receive_buffer: Buffer::Fixed(Bytes::new(WINDOW)),
        path_timeout: PATH_TIMEOUT,
        probe_interval: PROBE_INTERVAL,
        standing_queue: Some(STANDING_QUEUE),
        adapts_to_reordering: true,
        ..TransportConfig::mpquic()
    }
}

/// Scheduler of a name, and its host's state for it, if it can run here.
pub(crate) fn build(name: &str) -> Result<(Box<dyn Scheduler>, Host), Failure> {
    build_within(name, |scheduler| scheduler)
}

/// Builds the scheduler of a name, within another one that `wrap` puts around it.
pub(crate) fn build_within(
    name: &str,
    wrap: impl FnOnce(Box<dyn Scheduler>) -> Box<dyn Scheduler>,
) -> Result<(Box<dyn Scheduler>, Host), Failure> {
    let spec = |error: weftway_path::spec::SpecError| Failure::Spec(error.to_string());
    let (entry, given) = weftway_sched::parse(name).map_err(spec)?;
    let scheduler = wrap(entry.make(&given.given).map_err(spec)?);
    let host = Host::serving(scheduler.as_ref(), entry.transport);
    match mismatch(host.needs, OVER_SOCKETS, "a transfer over UDP") {
        Some(why) => Err(Failure::Spec(format!("scheduler {name}: {why}"))),
        None => Ok((scheduler, host)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 32 records of 1200 B less what a record adds.
    #[test]
    fn paths_start_with_the_initial_window_that_was_given() {
        let start = |scheduling: Scheduling| scheduling.setting(2).transport.initial_cwnd().get();
        assert_eq!(start(Scheduling::default()), 10 * RECORD);
        assert_eq!(start(Scheduling { initial_window: 32, ..Scheduling::default() }), 32 * RECORD);
    }
}
