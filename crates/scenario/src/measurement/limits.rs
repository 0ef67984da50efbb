//! Limits of what the links of a configuration can carry.

use weftway_link::{LinkConfig, Set, capacity};
use weftway_path::{Bytes, Instant, Span};

use super::mbps;
use crate::config::{Direction, PathConfig, SimConfig, Workload};

/// Returns the mean rate that the link of each path can carry, in Mbit/s.
pub(super) fn path_rates(config: &SimConfig, elapsed: Span) -> Vec<f64> {
    let end = Instant::ZERO + elapsed;
    config.paths.iter().map(|path| mbps(capacity(&path.data, Instant::ZERO, end), elapsed)).collect()
}

/// Goodput over the most that the links can carry: what would arrive if every path sent full
/// packets from the end of the handshake on. `None` where that says nothing.
pub(super) fn efficiency(config: &SimConfig, delivered: Bytes, elapsed: Span) -> Option<f64> {
    // What a link with random rates could carry is not known beforehand.
    let mut links = config.paths.iter().map(|path| &path.data).chain(&config.shared);
    if links.any(|link| link.redraw.is_some() || link.fade.is_some()) {
        return None;
    }
    let start = Instant::ZERO + handshake(config);
    match config.workload {
        Workload::Duration { .. } => {
            let most = carried(config, start, Instant::ZERO + elapsed);
            (most > 0).then(|| delivered.get() as f64 / most as f64)
        }
        Workload::Bulk { .. } if delivered > Bytes::ZERO => {
            let bound = soonest(config, start, delivered, Instant::ZERO + elapsed).since(Instant::ZERO);
            Some(bound.as_secs_f64() / elapsed.as_secs_f64())
        }
        _ => None,
    }
}

/// The fastest handshake: two one-way trips for the side that opens, three for the other.
fn handshake(config: &SimConfig) -> Span {
    let path = |path: &PathConfig| match config.transport.direction {
        Direction::Upload => least_delay(&path.data) + least_delay(&path.acks),
        Direction::Download => least_delay(&path.data) + least_delay(&path.acks) * 2,
    };
    config.paths.iter().map(path).min().unwrap_or(Span::ZERO)
}

/// The least delay that a link ever has, jitter apart.
fn least_delay(link: &LinkConfig) -> Span {
    let scheduled = link.changes.iter().filter_map(|change| match change.set {
        Set::Delay(delay) => Some(delay),
        _ => None,
    });
    scheduled.fold(link.delay, Span::min)
}

/// Payload that all paths together can bring between `start` and `end`.
fn carried(config: &SimConfig, start: Instant, end: Instant) -> u64 {
    let payload = |bytes: Bytes| bytes.mul_div(config.transport.mss.get(), config.transport.packet.get()).get();
    let mut shared = vec![0; config.shared.len()];
    let mut total = 0;
    for path in &config.paths {
        let last = end - least_delay(&path.data);
        let bytes = payload(if last > start { capacity(&path.data, start, last) } else { Bytes::ZERO });
        match path.via {
            Some(via) => shared[via] += bytes,
            None => total += bytes,
        }
    }
    for (link, bytes) in config.shared.iter().zip(shared) {
        total += bytes.min(payload(capacity(link, start, end)));
    }
    total
}

/// The earliest time by which `bytes` can have been brought; at most `latest`.
fn soonest(config: &SimConfig, start: Instant, bytes: Bytes, latest: Instant) -> Instant {
    let (mut low, mut high) = (start.as_nanos(), latest.as_nanos());
    while high - low.min(high) > 1_000 {
        let middle = low + (high - low) / 2;
        if carried(config, start, Instant::from_nanos(middle)) >= bytes.get() { high = middle } else { low = middle }
    }
    Instant::from_nanos(high)
}
