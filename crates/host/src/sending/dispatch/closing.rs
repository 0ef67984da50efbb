//! Effects of a [`Policy`] on a connection. A path that it closes takes nothing new, and what waits in its queue goes
//! to others. The scheduler sees it as one that the transport blocks until what is under way is settled, and then as
//! one that is down.

use weftway_path::{BlockedReason, Bytes, Event, Instant, PathId, PathSet};

use super::super::Policy;
use super::Dispatch;
use super::carrier::{Carrier, empty_queue};

impl Dispatch {
    /// Offers paths as `policy` says from now on.
    pub fn set_policy(&mut self, policy: Option<Policy>) {
        let closed = policy.as_ref().map_or(PathSet::EMPTY, Policy::closed);
        self.policy = policy.map(Box::new);
        self.note_policy();
        let before = self.views.closed().or(self.views.closing());
        for id in closed.minus(before).iter() {
            self.close(id);
        }
        for id in before.minus(closed).iter() {
            self.open(id);
        }
    }

    /// The policy, if there is one.
    pub fn policy(&self) -> Option<&Policy> {
        self.policy.as_deref()
    }

    /// The policy, to change. What follows from it does so with the next question.
    pub fn policy_mut(&mut self) -> Option<&mut Policy> {
        self.policy.as_deref_mut()
    }

    /// Time at which the policy is to be looked at, though nothing happens.
    pub fn policy_due(&self) -> Instant {
        self.policy.as_ref().map_or(Instant::NEVER, |policy| policy.due())
    }

    /// Notes that the time may have come: the next question looks.
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

    /// Returns true if a packet may be repeated on path `id` without a decision of the scheduler.
    pub fn may_repeat(&self, id: PathId) -> bool {
        self.policy.as_ref().is_none_or(|policy| policy.may_carry(id))
    }

    /// Path `id` was given a packet. One that has reached its cap is closed at once.
    #[cold]
    #[inline(never)]
    pub(super) fn charge(&mut self, id: PathId, bytes: u32) {
        let Some(policy) = &mut self.policy else { return };
        let repeated = self.views.get(id).retransmitted;
        if !policy.charge(id, Bytes::new(bytes.into()), repeated) && self.views.offered().contains(id) {
            // The packet is still to leave.
            self.begin_closing(id);
        }
    }

    /// Path `id` gave back a packet that was not sent.
    pub(super) fn refund(&mut self, id: PathId, bytes: u32) {
        if let Some(policy) = &mut self.policy {
            policy.refund(id, Bytes::new(bytes.into()));
        }
    }

    fn close(&mut self, id: PathId) {
        self.begin_closing(id);
        self.finish_closing(id);
    }

    /// Path `id` takes nothing new. It is gone for the scheduler when what it has under way is settled.
    fn begin_closing(&mut self, id: PathId) {
        self.views.set_closing(id);
        self.views.get_mut(id).blocked = BlockedReason::Transport;
        self.question.open = self.question.open.without(id);
        self.question.queue_open = self.question.queue_open.without(id);
    }

    fn finish_closing(&mut self, id: PathId) {
        if self.views.get(id).send_queue() == Bytes::ZERO {
            let was_seen = self.views.set().contains(id);
            self.views.set_closed(id, true);
            if was_seen {
                self.host.events.push_rare(Event::PathDown(id));
            }
        }
    }

    fn open(&mut self, id: PathId) {
        let was_closed = self.views.closed().contains(id);
        self.views.set_closed(id, false);
        if was_closed && self.views.set().contains(id) {
            // For the scheduler it comes up anew.
            let view = self.views.get_mut(id);
            (view.sent, view.acked, view.lost, view.retransmitted) = Default::default();
            self.host.events.push_rare(Event::PathUp(id));
        }
    }
}

/// The scheduler waits, though a path has room: it is asked again if one that it may wait for has gone, or another one
/// is there.
#[inline(never)]
pub(super) fn look_while_waiting<C: Carrier>(carrier: &mut C) {
    let Dispatch { policy, views, flow, .. } = carrier.dispatch();
    let (before, unsent) = (views.closed(), flow.unsent);
    let waiting = policy.as_ref().is_some_and(|policy| policy.is_waiting());
    look_at_policy(carrier, waiting.then_some(unsent));
    if carrier.dispatch().views.closed() != before {
        carrier.dispatch_mut().question.ready = true;
    }
}

/// Opens and closes paths as the policy says now, of a connection in which `waiting` bytes wait that no path takes.
/// Where one is opened another turn follows at once.
pub(super) fn look_at_policy<C: Carrier>(carrier: &mut C, waiting: Option<Bytes>) {
    let now = carrier.now();
    let Dispatch { policy, views, .. } = carrier.dispatch_mut();
    let Some(policy) = policy else { return };
    policy.look(now, waiting, views);
    let (closed, due, before) = (policy.closed(), policy.due(), views.closed().or(views.closing()));
    if !due.is_never() {
        carrier.wake_at(due);
    }
    for id in carrier.dispatch().views.closing().iter() {
        carrier.dispatch_mut().finish_closing(id);
    }
    if closed == before {
        return;
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
    let dispatch = carrier.dispatch_mut();
    if let (false, Some(policy)) = (opened.and(dispatch.views.set()).is_empty(), &mut dispatch.policy) {
        policy.look_again_at(now);
        carrier.wake_at(now);
    }
}
