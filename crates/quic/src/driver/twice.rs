//! What was lost, and is sent again into a long queue, goes on two paths.
//!
//! A repeat that waits for a second in a queue is all that the reader waits for. If it is lost there, or the path dies before it
//! has arrived, that takes as long once more. So another path that works and has room carries a copy of it, before new data. Of
//! all that is sent no more than one packet in [`SHARE`] is such a copy, so what a burst of losses costs is bounded.

use std::collections::VecDeque;

use weftway_host::sending::{Carrier, assign};
use weftway_path::{Health, Path, PathId, SendKind, Span};

use super::sender::Sender;
use super::source::Source;

/// A queue is long where packets wait in it for more than this.
const LONG: Span = Span::from_millis(500);
/// One packet of so many may be a copy.
const SHARE: u64 = 128;
/// So many copies may go at once: most of what is lost in one round trip where a controller has reached the end of a queue.
const BURST: u64 = 32;

/// The repeats of which a copy may go.
#[derive(Debug, Default)]
pub(super) struct Twice {
    /// The number of the chunk, and the path that carries its repeat.
    waiting: VecDeque<(u64, PathId)>,
    /// Packets that left for which no copy did: a copy takes [`SHARE`] of them.
    saved: u64,
}

impl Twice {
    /// A packet left on the path with this `view` that carries chunk `number`.
    pub fn note(&mut self, number: u64, view: &Path, kind: SendKind) {
        self.saved = (self.saved + 1).min(SHARE * BURST);
        if kind == SendKind::Reinjection && has_long_queue(view) && self.saved >= SHARE {
            self.saved -= SHARE;
            self.waiting.push_back((number, view.id));
        }
    }
}

/// Whether packets wait for long on this path.
pub(super) fn has_long_queue(view: &Path) -> bool {
    view.srtt.saturating_sub(view.min_rtt) > LONG
}

impl<S: Source> Sender<S> {
    /// Sends copies of repeats, as far as paths have room.
    pub(super) fn send_twice(&mut self) {
        while let Some(&(number, carrier)) = self.twice.waiting.front() {
            let is_wanted = self.dispatch.outbox.get(number).is_some_and(|chunk| !chunk.acked && !chunk.waiting);
            let works = |id: &PathId| self.dispatch.views.get(*id).health == Health::Good;
            let others = || self.dispatch.views.offered().without(carrier).iter();
            if is_wanted && let Some(other) = others().find(works) {
                if self.left == 0 || !self.paths[other.index()].sends_at_once(self.now, self.dispatch.views.get(other))
                {
                    return;
                }
                assign(self, other, number, SendKind::Duplicate);
                Carrier::refresh(self, other);
            }
            self.twice.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Bytes;

    /// So many packets leave on a path with a round trip of 100 ms and a queue of `queue_ms`.
    fn noted(twice: &mut Twice, packets: u64, kind: SendKind, queue_ms: u64) -> usize {
        let before = twice.waiting.len();
        let mut view = Path::new(PathId::new(0), Bytes::new(1200), Bytes::new(12_000));
        (view.min_rtt, view.srtt) = (Span::from_millis(100), Span::from_millis(100 + queue_ms));
        (0..packets).for_each(|number| twice.note(number, &view, kind));
        twice.waiting.len() - before
    }

    #[test]
    fn a_repeat_into_a_long_queue_is_sent_twice_and_no_more_than_one_packet_in_128_is_a_copy() {
        let mut twice = Twice::default();
        assert_eq!(noted(&mut twice, 127, SendKind::Reinjection, 501), 0);
        assert_eq!(noted(&mut twice, 1, SendKind::Reinjection, 501), 1);
        assert_eq!(noted(&mut twice, 100_000, SendKind::Fresh, 501), 0);
        assert_eq!(noted(&mut twice, 100, SendKind::Reinjection, 500), 0, "a short queue");
        // 32 at once: the packets that carry the repeats count as well, 31 of them, and are no 128.
        assert_eq!(noted(&mut twice, 100, SendKind::Reinjection, 501), 32);
        assert_eq!(noted(&mut twice, 128, SendKind::Fresh, 501), 0);
        assert_eq!(noted(&mut twice, 2, SendKind::Reinjection, 501), 1);
    }
}
