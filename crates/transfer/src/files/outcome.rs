//! Report of a transfer, in the numbers and names that both ends have.

use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};
use weftway_path::{Instant, Span};
use weftway_quic::driver::connection::QuicConnection;

use crate::connection::session::peer;
use crate::failure::Failure;
use crate::seen::PathProgress;
use crate::tree::found::{FailedFile, Skipped};
use crate::tree::manifest::{Layout, MAX_NAMES, Manifest};
use crate::wire::Role;

/// A transfer at its end.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Report {
    /// Role of this end.
    pub role: Role,
    /// The other end.
    pub peer: String,
    /// Files, those that were there before included.
    pub files: u64,
    /// Bytes of all files that are there.
    pub bytes: u64,
    /// Bytes that were there before.
    pub had_bytes: u64,
    /// Bytes that travelled.
    pub sent_bytes: u64,
    /// Time from the first byte of data to the last name.
    pub elapsed_s: f64,
    /// `sent_bytes` in that time.
    pub goodput_mbps: f64,
    /// `sent_bytes`, divided by the bytes of the path that carried most: how many times the share of the best path all
    /// of them brought. None if nothing travelled.
    pub ratio_to_best_path: Option<f64>,
    /// The scheduler, the last one if there were several; only the sender knows it.
    pub scheduler: Option<String>,
    /// The congestion controller; only the sender knows it.
    pub cc: Option<String>,
    /// Symbolic links, devices, sockets and FIFOs that were not sent; only the sender knows them.
    pub skipped: Vec<Skipped>,
    /// Files and folders that could not be read or written. All others are there.
    pub failed: Vec<FailedFile>,
    /// Each path.
    pub paths: Vec<PathProgress>,
}

/// Entries of the manifest that one of the ends could not read or write, and why.
#[derive(Default)]
pub(crate) struct FailedEntries {
    reasons: BTreeMap<u32, String>,
    /// Bytes of all reasons.
    bytes: usize,
    /// Entries of which all bytes in the manifest arrived all the same.
    arrived: BTreeSet<u32>,
}

impl FailedEntries {
    /// Adds one, unless it is known: whether it is new. Most reasons are the other end's, which cannot fill this one's
    /// memory.
    pub fn add(&mut self, entry: u32, reason: String) -> Result<bool, Failure> {
        let Entry::Vacant(place) = self.reasons.entry(entry) else {
            // There is a second reason: it did not arrive after all.
            self.arrived.remove(&entry);
            return Ok(false);
        };
        self.bytes += reason.len();
        if self.bytes > MAX_NAMES {
            return Err(Failure::Protocol(format!("the reasons for what failed have more than {MAX_NAMES} bytes")));
        }
        place.insert(reason);
        Ok(true)
    }

    /// Notes that all bytes of an added entry arrive.
    pub fn arrives(&mut self, entry: u32) {
        self.arrived.insert(entry);
    }

    pub fn contains(&self, entry: u32) -> bool {
        self.reasons.contains_key(&entry)
    }

    pub fn len(&self) -> usize {
        self.reasons.len()
    }
}

/// State of a transfer at its end, as both ends know it.
pub(crate) struct Outcome<'a> {
    pub role: Role,
    pub connection: &'a QuicConnection,
    pub manifest: &'a Manifest,
    pub layout: &'a Layout,
    /// Files that the sender left out of the manifest.
    pub left_out: &'a [FailedFile],
    pub failed: &'a FailedEntries,
    /// Files that are there.
    pub files: u64,
    pub begun: Option<Instant>,
    pub ended: Option<Instant>,
    pub paths: &'a [PathProgress],
}

impl Outcome<'_> {
    /// The report, without what only the sender knows.
    pub fn report(&self) -> Report {
        let elapsed = self.begun.zip(self.ended).map_or(Span::ZERO, |(from, to)| to.since(from));
        let (bytes, had_bytes) = arrived(self.manifest, self.layout, self.failed);
        let sent_bytes = self.layout.bytes();
        Report {
            role: self.role,
            peer: peer(self.connection),
            files: self.files,
            bytes,
            had_bytes,
            sent_bytes,
            elapsed_s: elapsed.as_secs_f64(),
            goodput_mbps: goodput(sent_bytes, elapsed),
            ratio_to_best_path: ratio_to_best_path(sent_bytes, self.paths),
            scheduler: None,
            cc: None,
            skipped: Vec::new(),
            failed: all_failed(self.left_out, self.failed, self.manifest),
            paths: self.paths.to_vec(),
        }
    }
}

/// Everything that did not arrive, by name: what the sender left out, and entries of the manifest.
fn all_failed(left_out: &[FailedFile], failed: &FailedEntries, manifest: &Manifest) -> Vec<FailedFile> {
    let entries = failed.reasons.iter().filter_map(|(&at, reason)| Some((manifest.entries.get(at as usize)?, reason)));
    let entries = entries.map(|(entry, reason)| FailedFile { path: entry.path.clone(), reason: reason.clone() });
    let mut all: Vec<FailedFile> = left_out.iter().cloned().chain(entries).collect();
    all.sort_by(|one, other| one.path.cmp(&other.path));
    all
}

/// The bytes of all files that are there at the end, and how many were there before.
fn arrived(manifest: &Manifest, layout: &Layout, failed: &FailedEntries) -> (u64, u64) {
    let size = |at: &u32| manifest.entries.get(*at as usize).map_or(0, |entry| entry.size);
    let is_sent = |at: &u32| layout.pieces.binary_search_by_key(at, |piece| piece.entry).is_ok();
    let missing = failed.reasons.keys().filter(|at| !failed.arrived.contains(at));
    let (on_the_way, refused): (Vec<u32>, Vec<u32>) = missing.partition(|at| is_sent(at));
    let sum = |entries: Vec<u32>| entries.iter().map(size).sum::<u64>();
    let agreed = manifest.bytes() - sum(refused);
    (agreed - sum(on_the_way), agreed - layout.bytes())
}

/// In Mbit/s.
fn goodput(bytes: u64, elapsed: Span) -> f64 {
    if elapsed.is_zero() { 0.0 } else { bytes as f64 * 8e-6 / elapsed.as_secs_f64() }
}

/// See [`Report::ratio_to_best_path`].
fn ratio_to_best_path(bytes: u64, paths: &[PathProgress]) -> Option<f64> {
    let most = paths.iter().map(|path| path.bytes).max().filter(|&most| most > 0)?;
    Some(bytes as f64 / most as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_reason_counts_and_reasons_cannot_fill_the_memory() {
        let mut failed = FailedEntries { bytes: MAX_NAMES - 5, ..FailedEntries::default() };
        assert!(failed.add(7, "first".to_owned()).unwrap());
        assert!(!failed.add(7, "a later one".to_owned()).unwrap());
        assert!(matches!(failed.add(8, "x".to_owned()), Err(Failure::Protocol(_))));
        assert_eq!(failed.reasons.into_iter().collect::<Vec<_>>(), [(7, "first".to_owned())]);
    }
}
