//! What came of a transfer, in the numbers and names that both ends report.

use std::collections::BTreeMap;

use weftway_path::Span;
use weftway_quic::driver::connection::QuicConnection;

use super::files::FailedFile;
use super::manifest::{Layout, Manifest};
use super::options::PathProgress;

/// The address of the other end.
pub(super) fn peer(connection: &QuicConnection) -> String {
    let route = connection.paths().find_map(|path| connection.route(path));
    route.map(|route| route.remote().to_string()).unwrap_or_default()
}

/// Everything that did not arrive, by name: what the sender left out, and entries of the manifest.
pub(super) fn all_failed(
    left_out: &[FailedFile],
    failed: &BTreeMap<u32, String>,
    manifest: &Manifest,
) -> Vec<FailedFile> {
    let entries = failed.iter().filter_map(|(&at, reason)| Some((manifest.entries.get(at as usize)?, reason)));
    let entries = entries.map(|(entry, reason)| FailedFile { path: entry.path.clone(), reason: reason.clone() });
    let mut all: Vec<FailedFile> = left_out.iter().cloned().chain(entries).collect();
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all
}

/// The bytes of all files but those that the receiver could not take at all.
pub(super) fn arrived(manifest: &Manifest, layout: &Layout, failed: &BTreeMap<u32, String>) -> u64 {
    let is_sent = |at: u32| layout.pieces.binary_search_by_key(&at, |piece| piece.entry).is_ok();
    let refused = failed.keys().filter(|&&at| !is_sent(at));
    manifest.bytes() - refused.filter_map(|&at| manifest.entries.get(at as usize)).map(|entry| entry.size).sum::<u64>()
}

/// In Mbit/s.
pub(super) fn goodput(bytes: u64, elapsed: Span) -> f64 {
    if elapsed.is_zero() { 0.0 } else { bytes as f64 * 8e-6 / elapsed.as_secs_f64() }
}

/// See [`Report::ratio_to_best_path`].
pub(super) fn ratio_to_best_path(bytes: u64, paths: &[PathProgress]) -> Option<f64> {
    let most = paths.iter().map(|path| path.bytes).max().filter(|&most| most > 0)?;
    Some(bytes as f64 / most as f64)
}
