//! Realtime data go before all else, by the path on which they arrive soonest as far as is known now.
//!
//! | what would delay them | what is done |
//! |---|---|
//! | the queue of bulk at the bottleneck | bulk keeps it short while there are realtime data ([`QueueBound`]) |
//! | a window that bulk has filled | a part of each window is kept for realtime data |
//! | bulk that waits for its pacer | they do not wait for the pacer, and are counted by it |
//! | a path that a scheduler chooses for its rate | the path is the one with the least delay, not the first with room |
//! | a path that fails | a duplicate on another path that is idle, within a budget |
//!
//! What finds no room so is left to the scheduler, as everything else: a flood gains nothing.

use weftway_host::sending::Carrier;
use weftway_path::{Bytes, Health, Instant, PathId, SendKind, Span};

use super::sender::Sender;
use super::sending_path::{QueueBound, Stage};
use super::source::Source;

/// For so long after the last of them there are realtime data: a voice may be silent for a while.
const HOLD: Span = Span::from_secs(5);
/// How many bytes a second are duplicated: two voices of 64 kbit/s with their heads.
const DUPLICATES_PER_SECOND: u64 = 25_000;
/// How many at once.
const DUPLICATES_AT_ONCE: u64 = 5_000;

/// What a sender knows of its realtime data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Realtime {
    /// Until when there are any.
    until: Instant,
    /// How many bytes may be duplicated, as of a time.
    budget: (u64, Instant),
}

impl Default for Realtime {
    fn default() -> Self {
        Self { until: Instant::ZERO, budget: (DUPLICATES_AT_ONCE, Instant::ZERO) }
    }
}

impl Realtime {
    /// Takes so many bytes from the budget of duplicates, if it has them.
    fn may_duplicate(&mut self, now: Instant, bytes: u64) -> bool {
        let (left, at) = self.budget;
        let grown = now.since(at).as_nanos() / (1_000_000_000 / DUPLICATES_PER_SECOND);
        let left = (left + grown).min(DUPLICATES_AT_ONCE);
        let rest = left.checked_sub(bytes);
        if grown > 0 || rest.is_some() {
            self.budget = (rest.unwrap_or(left), now);
        }
        rest.is_some()
    }
}

impl<S: Source> Sender<S> {
    /// Sends what goes before everything else, as far as there is room for it.
    pub(super) fn send_realtime(&mut self) {
        if !self.source.cuts() || !self.is_live() {
            return;
        }
        let mut bytes = self.source.next_urgent();
        if bytes > 0 {
            self.realtime.until = self.now + HOLD;
        }
        self.bound_queues();
        while bytes > 0 && self.left > 0 {
            let Some(path) = self.soonest(bytes) else { return };
            let Some(assigned) = self.dispatch.expedite(path, bytes as u32) else { return };
            self.source.cut_urgent(assigned.offset, bytes);
            self.transmit(path, &assigned);
            Carrier::refresh(self, path);
            self.duplicate(path, assigned.chunk, bytes);
            bytes = self.source.next_urgent();
        }
    }

    /// Bulk keeps queues short as long as there are realtime data.
    fn bound_queues(&mut self) {
        let is_wanted = self.realtime.until > self.now;
        for at in 0..self.paths.len() {
            let id = PathId::new(at as u8);
            let (path, view) = (&mut self.paths[at], self.dispatch.views.get_mut(id));
            if path.stage != Stage::Up || path.queue_bound.is_some() == is_wanted {
                continue;
            }
            path.queue_bound = is_wanted.then(|| QueueBound::new(self.now, view.min_rtt));
            path.publish(view, &mut self.shares[at]);
            Carrier::refresh(self, id);
        }
    }

    /// The path on which so many bytes arrive soonest, of those that have room for them.
    fn soonest(&self, bytes: u64) -> Option<PathId> {
        let offered = self.dispatch.views.offered();
        let has_room = |&id: &PathId| {
            let path = &self.paths[id.index()];
            !path.is_refused(self.now) && path.has_room(self.dispatch.views.get(id), Bytes::new(bytes))
        };
        offered.iter().filter(has_room).min_by_key(|&id| self.present_delay(id))
    }

    /// How long a packet takes to the other end, as far as is known now: what came back last, and what should have come back by
    /// now, without the way back. A path that does not answer comes after all others.
    fn present_delay(&self, id: PathId) -> (bool, Span) {
        let (path, view) = (&self.paths[id.index()], self.dispatch.views.get(id));
        let silent = if view.bytes_in_flight > Bytes::ZERO { self.now.since(path.last_progress) } else { Span::ZERO };
        let trip = view.srtt.max(silent.saturating_sub(self.setting.transport.ack_delay));
        (view.health != Health::Good, trip.saturating_sub(view.min_rtt / 2))
    }

    /// Sends the same by another path that is idle, where nobody pays by the byte: what is on a path that fails is not late.
    fn duplicate(&mut self, first: PathId, chunk: u64, bytes: u64) {
        let is_idle = |&id: &PathId| {
            let (path, view) = (&self.paths[id.index()], self.dispatch.views.get(id));
            let is_metered = self.dispatch.policy().is_some_and(|policy| policy.left(id).is_some());
            id != first
                && !is_metered
                && !path.is_refused(self.now)
                && view.unacked().get() <= view.cwnd.get() / 4
                && path.sends_at_once(self.now, view)
        };
        let offered = self.dispatch.views.offered();
        let Some(path) = offered.iter().filter(is_idle).min_by_key(|&id| self.present_delay(id)) else { return };
        let is_outstanding = self.dispatch.outbox.get(chunk).is_some_and(|chunk| chunk.carried.contains(first));
        if is_outstanding && self.realtime.may_duplicate(self.now, bytes) {
            weftway_host::sending::assign(self, path, chunk, SendKind::Duplicate);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 5000 bytes at once, and 25 bytes a millisecond.
    #[test]
    fn duplicates_have_a_budget() {
        let mut realtime = Realtime::default();
        let mut may = |at_ms, bytes| realtime.may_duplicate(Instant::from_millis(at_ms), bytes);
        assert!(may(0, 3000) && !may(0, 2001) && may(0, 2000) && !may(0, 1));
        assert!(!may(39, 1000) && may(40, 1000) && !may(40, 1));
        // No more than 5000 are saved up, and what grows in small steps is not lost.
        assert!(!may(10_000, 5001) && may(10_000, 5000));
        assert!((1..40).all(|ms| !may(10_000 + ms, 1000)) && may(10_040, 1000));
    }
}
