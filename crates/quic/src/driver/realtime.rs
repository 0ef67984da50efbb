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

use weftway_host::sending::{Carrier, Data};
use weftway_path::{Bytes, Health, PathId, SendKind, Span};

use super::realtime_state::HOLD;
use super::sender::Sender;
use super::sending_path::{QueueBound, Stage};
use super::source::Source;

impl<S: Source> Sender<S> {
    /// Sends what goes before everything else, as far as there is room for it.
    pub(super) fn send_realtime(&mut self) {
        if !self.source.data().cuts() || !self.is_live() {
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

    /// Time that a packet takes to the other end, as far as is known now: what came back last, and what should have
    /// come back by now, without the way back. A path that does not answer comes after all others.
    fn present_delay(&self, id: PathId) -> (bool, Span) {
        let (path, view) = (&self.paths[id.index()], self.dispatch.views.get(id));
        let silent = if view.bytes_in_flight > Bytes::ZERO { self.now.since(path.last_progress) } else { Span::ZERO };
        let trip = view.srtt.max(silent.saturating_sub(self.setting.transport.ack_delay));
        (view.health != Health::Good, trip.saturating_sub(view.min_rtt / 2))
    }

    /// Sends the same by another path that is idle, where nobody pays by the byte: what is on a path that fails is not
    /// late.
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
