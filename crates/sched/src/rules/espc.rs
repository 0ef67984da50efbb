//! Estimated path capacity: the fastest path that is not yet as full as it was when it last lost.
//!
//! Rule: a path's capacity `C` is what it had in flight at its first loss event; at each later one
//! `C ← 7/8·C + 1/8·inflight`. Before the first it has no bound. Of the paths that may send and
//! have `inflight < C`, the smallest srtt; if there is none, the smallest `inflight/C`; the first of
//! equals. Classes and data sent before as in min-RTT.
//! Reference: Yang, Amer, Ekiz: A Scheduler for Multipath TCP, ICCCN 2013.
//! State: the capacity, and what was lost at the present moment, per path.
//! Departs from print: a concrete rule for "estimated subflow path capacity"; the estimate and its
//! gain are ours. A loss event is a reduction of the window; what was in flight at it is what is in
//! flight just after, and what was declared lost at the same moment.

use weftway_path::{Bytes, Context, Decision, Event, Instant, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "espc",
    aliases: &["estimated-subflow-path-capacity"],
    summary: "the fastest path with less in flight than it took to lose packets there",
    reference: "Yang, Amer, Ekiz: A Scheduler for Multipath TCP, ICCCN 2013",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Loss],
    needs: Needs { events: true, ..Needs::NONE },
    build: |_| Ok(Box::new(Espc::default())),
    ..Entry::NEW
};

/// The share of a new observation is one eighth, as in srtt.
const GAIN: u128 = 8;

#[derive(Clone, Default)]
struct Espc {
    known: PerPath<PathRecord>,
}

/// Knowledge of a path.
#[derive(Clone, Default)]
struct PathRecord {
    capacity: Option<Bytes>,
    /// Losses, all at one time.
    lost: (Instant, Bytes),
}

impl PathRecord {
    fn note_lost(&mut self, now: Instant, bytes: Bytes) {
        let before = if self.lost.0 == now { self.lost.1 } else { Bytes::ZERO };
        self.lost = (now, before + bytes);
    }

    /// A loss event on `path`. A capacity of less than a packet would say nothing.
    fn note_event(&mut self, now: Instant, path: &Path) {
        self.note_lost(now, Bytes::ZERO);
        let seen = (path.bytes_in_flight + self.lost.1).max(path.mss);
        self.capacity = Some(match self.capacity {
            None => seen,
            Some(old) => {
                let sum = old.get() as u128 * (GAIN - 1) + seen.get() as u128;
                Bytes::new((sum / GAIN) as u64)
            }
        });
    }
}

impl Espc {
    fn capacity(&self, path: &Path) -> Bytes {
        self.known.get(path.id).and_then(|known| known.capacity).unwrap_or(Bytes::MAX)
    }

    fn is_better(&self, a: &Path, b: &Path) -> bool {
        let (of_a, of_b) = (self.capacity(a), self.capacity(b));
        match (a.bytes_in_flight < of_a, b.bytes_in_flight < of_b) {
            (true, true) => a.srtt < b.srtt,
            (false, false) => product(a.bytes_in_flight, of_b) < product(b.bytes_in_flight, of_a),
            (below, _) => below,
        }
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick(cx, |a, b| self.is_better(a, b))
    }
}

#[inline]
fn product(a: Bytes, b: Bytes) -> u128 {
    a.get() as u128 * b.get() as u128
}

impl Scheduler for Espc {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Lost(lost) => self.known.at(lost.path).note_lost(cx.now, lost.bytes),
            Event::Congestion(id) => {
                if let Some(path) = cx.path(id) {
                    self.known.at(id).note_event(cx.now, path);
                }
            }
            Event::PathUp(path) => self.known.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        Some(match self.capacity(path) {
            Bytes::MAX => format!("{:?}: {} in flight, no loss yet", path.id, path.bytes_in_flight),
            capacity => format!("{:?}: {} in flight of {capacity}", path.id, path.bytes_in_flight),
        })
    }
}
