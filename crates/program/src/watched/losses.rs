//! Links on which losses that no queue makes hold the congestion controller down.

use std::collections::{HashMap, VecDeque};

use serde::Serialize;
use weftway_transfer::PathProgress;

use super::values::{push, queue_ms, rounded};

/// Snapshots that are looked at; one comes every second.
const SEEN: usize = 10;
/// Packets from which on losses tell something.
const TELLING: u64 = 500;
/// Controllers that take each loss for a full queue.
const BY_LOSS: [&str; 6] = ["newreno", "cubic", "lia", "olia", "balia", "dlia"];
/// Losses in percent up to which these keep most of their rate, without the switch below
/// (docs/explanation/proxy-measured.md).
const HARMLESS: f64 = 0.5;
/// Switch of `cubic` that names the losses in percent that it bears.
const BEARS: &str = "random_loss";
/// A queue stands on a link whose round trip exceeds the least by more than this part of it.
const STANDING_PART: f64 = 0.25;

/// A link that loses packets without a queue.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Loss {
    /// The link.
    pub path: String,
    /// Share of the packets of the last seconds that were lost, in percent.
    pub percent: f64,
}

/// Counters of a link in one snapshot.
struct Seen {
    packets: u64,
    lost: u64,
    has_queue: bool,
}

/// The last seconds of each link of the snapshot before.
#[derive(Default)]
pub struct Losses(HashMap<String, VecDeque<Seen>>);

impl Losses {
    /// Takes the links of a snapshot in; returns those whose losses hold `cc` down.
    pub fn see<'a>(&mut self, cc: &str, paths: impl Iterator<Item = &'a PathProgress>) -> Vec<Loss> {
        let mut before = std::mem::take(&mut self.0);
        let mut found = Vec::new();
        for path in paths {
            let mut seen = before.remove(&path.path).unwrap_or_default();
            if let Some(percent) = look(&mut seen, path)
                && bears(cc).is_some_and(|most| percent > most)
            {
                found.push(Loss { path: path.path.clone(), percent: rounded(percent, 1) });
            }
            self.0.insert(path.path.clone(), seen);
        }
        found
    }
}

/// Takes a link in; returns the percentage of its packets that was lost, if that tells something.
fn look(seen: &mut VecDeque<Seen>, path: &PathProgress) -> Option<f64> {
    let least = path.min_rtt_ms?;
    let has_queue = queue_ms(path.srtt_ms, Some(least))? > least * STANDING_PART;
    // A new connection counts anew.
    if seen.back().is_some_and(|last| last.packets > path.packets) {
        seen.clear();
    }
    push(seen, Seen { packets: path.packets, lost: path.lost, has_queue }, SEEN + 1);
    let first = seen.front().filter(|_| seen.len() > SEEN && seen.iter().all(|one| !one.has_queue))?;
    let packets = path.packets - first.packets;
    let lost = path.lost.saturating_sub(first.lost);
    (packets >= TELLING).then(|| 100.0 * lost as f64 / packets as f64)
}

/// Losses in percent that a controller bears; none if it does not go by them.
fn bears(cc: &str) -> Option<f64> {
    let (entry, spec) = weftway_cc::parse(cc).ok()?;
    let given = spec.given.iter().find(|(key, _)| key == BEARS).and_then(|(_, value)| value.parse().ok());
    BY_LOSS.contains(&entry.name).then(|| given.unwrap_or(HARMLESS).max(HARMLESS))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// So many snapshots of a link with a least round trip of 40 ms that sends 100 packets in each, and what the last
    /// tells.
    fn told(cc: &str, snapshots: u64, lost: u64, srtt: impl Fn(u64) -> f64) -> Vec<Loss> {
        let mut losses = Losses::default();
        let mut told = Vec::new();
        for n in 0..snapshots {
            let (packets, lost, srtt_ms) = (100 * n, lost * n, Some(srtt(n)));
            let path = PathProgress {
                path: "lte".into(),
                packets,
                lost,
                srtt_ms,
                min_rtt_ms: Some(40.0),
                ..PathProgress::default()
            };
            told = losses.see(cc, [&path].into_iter());
        }
        told
    }

    #[test]
    fn losses_count_where_no_queue_stands() {
        let lte = |percent| vec![Loss { path: "lte".into(), percent }];
        assert_eq!(told("cubic", 11, 1, |_| 45.0), lte(1.0));
        assert_eq!(told("reno", 11, 1, |_| 45.0), lte(1.0), "another name of newreno");
        assert_eq!(told("cubic", 10, 1, |_| 45.0), [], "ten seconds have not passed");
        assert_eq!(told("cubic", 30, 1, |n| if n == 25 { 51.0 } else { 45.0 }), [], "a queue stood five seconds ago");
        assert_eq!(told("cubic", 30, 1, |n| if n < 15 { 90.0 } else { 45.0 }), lte(1.0), "that of the start is gone");
        assert_eq!(told("cubic:random_loss=2", 11, 2, |_| 45.0), [], "it bears 2 %");
        assert_eq!(told("cubic:random_loss=2", 11, 3, |_| 45.0), lte(3.0));
        assert_eq!(told("bbr3", 11, 9, |_| 45.0), [], "no loss holds it down");
    }

    #[test]
    fn few_packets_and_new_connections_tell_nothing() {
        let mut losses = Losses::default();
        let path = |packets, lost| PathProgress {
            path: "lte".into(),
            packets,
            lost,
            srtt_ms: Some(40.0),
            min_rtt_ms: Some(40.0),
            ..PathProgress::default()
        };
        for n in 0..20 {
            assert_eq!(losses.see("cubic", [&path(40 * n, 4 * n)].into_iter()), [], "400 packets in ten seconds");
        }
        assert_eq!(losses.see("cubic", [&path(700, 0)].into_iter()), [], "the first of another connection");
    }
}
