//! Probing of idle paths: how old each path's newest round-trip sample is, and the copy that
//! brings a new one.

use weftway_path::{Bytes, Context, Decision, Event, Flow, Instant, Path, Span};

use crate::shared::copies::Copies;
use crate::shared::per_path::PerPath;

/// What is known of the samples, and the copies sent to take more.
#[derive(Clone, Default)]
pub(crate) struct Probes {
    /// When the newest sample came. A path that was there at first has its handshake's, from time 0.
    sampled: PerPath<Instant>,
    copies: Copies,
}

impl Probes {
    /// How old the newest sample is, if nothing is under way that will bring another.
    #[inline]
    pub(crate) fn idle_for(&self, now: Instant, path: &Path) -> Option<Span> {
        let sampled = self.sampled.get(path.id).copied().unwrap_or_default();
        (path.unacked() == Bytes::ZERO).then(|| now.since(sampled))
    }

    /// Asks for a copy on `path` of data in flight elsewhere, if there are such.
    #[inline]
    pub(crate) fn copy(&mut self, path: &Path, flow: &Flow) -> Option<Decision> {
        self.copies.repeat(path, flow)
    }

    /// Notes what came back, and what became of a copy.
    #[inline]
    pub(crate) fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.copies.observe(event);
        match *event {
            Event::Acked(receipt) => *self.sampled.at(receipt.path) = cx.now,
            Event::PathUp(path) => *self.sampled.at(path) = cx.now,
            _ => {}
        }
    }
}
