//! How data travel: what the driver is set to over sockets, and whether a scheduler can run there.

use weftway_host::{Host, OVER_SOCKETS, mismatch};
use weftway_path::{Bytes, Span};
use weftway_quic::driver::record::OVERHEAD;
use weftway_scenario::config::{Buffer, TransportConfig};
use weftway_sched::Scheduler;
use weftway_udp::settings::LARGEST_PAYLOAD;

use super::options::Failure;
use super::qlog::Log;

/// How far the sender may be ahead of what the receiver has written: 100 Mbit/s for two seconds. Both ends know it.
pub(super) const WINDOW: u64 = 32 << 20;
/// The payload of the least record that is called full: what is left of QUIC's least packet, so that it fits on every path. It
/// grows as noq finds that every path takes more.
pub(super) const RECORD: u64 = 1200 - OVERHEAD;
/// The payload of the longest record.
pub(super) const LARGEST_RECORD: u64 = LARGEST_PAYLOAD as u64 - OVERHEAD;
/// A path is given up when it is silent for so long, or for three probe timeouts.
const PATH_TIMEOUT: Span = Span::from_millis(500);
/// How often it is then asked.
const PROBE_INTERVAL: Span = Span::from_millis(250);

/// What a path had in flight when it is cut waits in another one's queue: no longer than this, where that queue is ours.
const STANDING_QUEUE: Span = Span::from_millis(500);

/// The driver's settings over sockets.
pub(super) fn transport() -> TransportConfig {
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

/// A scheduler, and what is kept for it, if it can run here.
pub(super) fn build(name: &str, log: Option<&Log>) -> Result<(Box<dyn Scheduler>, Host), Failure> {
    let spec = |error: weftway_path::spec::SpecError| Failure::Spec(error.to_string());
    let (entry, given) = weftway_sched::parse(name).map_err(spec)?;
    let mut scheduler = entry.make(&given.given).map_err(spec)?;
    if let Some(log) = log {
        scheduler = log.around(scheduler);
    }
    let host = Host::serving(scheduler.as_ref(), entry.transport);
    match mismatch(host.needs, OVER_SOCKETS, "a transfer over UDP") {
        Some(why) => Err(Failure::Spec(format!("scheduler {name}: {why}"))),
        None => Ok((scheduler, host)),
    }
}
