//! What a [`Policy`] does to a connection: paths that it closes are not offered, and what waits in their queues goes to
//! others.

use weftway_path::{Bytes, Event, Instant, PathId, PathSet};

use super::dispatch::empty_queue;
use super::{Carrier, Dispatch, Policy};

impl Dispatch {
    /// From now on paths are offered as `policy` says.
    pub fn set_policy(&mut self, policy: Option<Policy>) {
        let closed = policy.as_ref().map_or(PathSet::EMPTY, Policy::closed);
        self.policy = policy.map(Box::new);
        for id in closed.minus(self.views.closed()).iter() {
            self.close(id);
        }
        for id in self.views.closed().minus(closed).iter() {
            self.open(id);
        }
    }

    /// The policy, if there is one.
    pub fn policy(&self) -> Option<&Policy> {
        self.policy.as_deref()
    }

    /// The same, to change. What follows from it does so with the next question.
    pub fn policy_mut(&mut self) -> Option<&mut Policy> {
        self.policy.as_deref_mut()
    }

    /// When the policy is to be looked at, though nothing happens.
    pub fn policy_due(&self) -> Instant {
        self.policy.as_ref().map_or(Instant::NEVER, |policy| policy.due())
    }

    /// That time may have come: the next question looks.
    pub fn fire_policy(&mut self, now: Instant) {
        if let Some(policy) = &mut self.policy {
            policy.fired(now);
        }
    }

    /// Tells the scheduler that path `id` comes or goes, if it is offered.
    pub fn announce(&mut self, id: PathId, event: Event) {
        if !self.views.closed().contains(id) {
            self.host.events.push_rare(event);
        }
    }

    /// Whether a packet may be repeated on path `id` without a decision of the scheduler.
    pub fn may_repeat(&self, id: PathId) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.may_carry(id))
    }

    /// Path `id` was given a packet. One that has reached its cap is closed at once.
    pub(super) fn charge(&mut self, id: PathId, bytes: u32) {
        let Some(policy) = &mut self.policy else { return };
        let repeated = self.views.get(id).retransmitted;
        if !policy.charge(id, Bytes::new(bytes.into()), repeated) && !self.views.closed().contains(id) {
            self.close(id);
        }
    }

    /// Path `id` gave back a packet that was not sent.
    pub(super) fn refund(&mut self, id: PathId, bytes: u32) {
        if let Some(policy) = &mut self.policy {
            policy.refund(id, Bytes::new(bytes.into()));
        }
    }

    fn close(&mut self, id: PathId) {
        let was_offered = self.views.offered().contains(id);
        self.views.set_closed(id, true);
        self.question.open = self.question.open.without(id);
        self.question.queue_open = self.question.queue_open.without(id);
        if was_offered {
            self.host.events.push_rare(Event::PathDown(id));
        }
    }

    fn open(&mut self, id: PathId) {
        self.views.set_closed(id, false);
        if self.views.offered().contains(id) {
            self.host.events.push_rare(Event::PathUp(id));
        }
    }
}

/// Opens and closes paths as the policy says now, of a connection in which `waiting` bytes wait that no path takes: whether a
/// path that is up was opened.
pub(super) fn look_at_policy<C: Carrier>(carrier: &mut C, waiting: Option<Bytes>) -> bool {
    let now = carrier.now();
    let Dispatch { policy, views, .. } = carrier.dispatch_mut();
    let Some(policy) = policy else { return false };
    policy.look(now, waiting, views);
    let (closed, due, before) = (policy.closed(), policy.due(), views.closed());
    if !due.is_never() {
        carrier.wake_at(due);
    }
    if closed == before {
        return false;
    }
    for id in closed.minus(before).iter() {
        if carrier.dispatch().may_repeat(id) {
            // What a path has that reached its cap is within it.
            empty_queue(carrier, id);
        }
        carrier.dispatch_mut().close(id);
        carrier.refresh(id);
    }
    let opened = before.minus(closed);
    for id in opened.iter() {
        carrier.dispatch_mut().open(id);
        carrier.refresh(id);
    }
    !opened.and(carrier.dispatch().views.set()).is_empty()
}
