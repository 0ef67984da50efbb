//! Questions to a policy about pairs of paths, and what becomes of its answers.
//!
//! A policy is asked about a fresh packet while F is blocked and S is open: keep the packet for F,
//! or send it on S? Otherwise nothing is asked: F with room takes the packet, without S one waits,
//! and data sent before go where min-RTT sends them. This is the trigger of the comparison of
//! Q-learning, DQN and UCB, and of Peekaboo.
//!
//! An answer is kept: for S until the packet at hand is another, for F until F has room, as in
//! public code of Peekaboo, where one drawn wait blocks S (`wait_sticky=false`: until the next
//! event). So a question asked again draws nothing, and a decision has one record.

use std::collections::VecDeque;

use weftway_path::{Bytes, Context, Decision, Event, Instant, Offset, Packet, Path, PathId, Receipt, SendKind};

use super::meters::Meters;
use super::policy::{Policy, Question, Rules};
use super::records::{Action, Choice, Fate, OpenRecords, Outcome};
use super::roles::{self, Roles};
use crate::shared::choose;
use crate::{Needs, Scheduler};

/// Decisions that a paced subflow has not sent yet; older ones are forgotten.
const QUEUED: usize = 1024;

/// F and S.
pub(crate) type Pair<'a> = (&'a Path, &'a Path);

/// Next step for a packet.
pub(crate) enum Next<'a> {
    /// This path takes it; none to wait. There is no question.
    Path(Option<PathId>),
    /// The policy is asked about this pair.
    Question(Pair<'a>),
}

/// The decision that the packet at hand is taken `by` a path, or waits.
#[inline]
pub(crate) fn decision(by: Option<PathId>) -> Decision {
    by.map_or(Decision::Wait, Decision::Send)
}

/// Which path takes a packet that waits for `fast`: none, unless nothing would ever end the wait.
#[inline]
fn wait_for(cx: &Context<'_>, fast: &Path) -> Option<PathId> {
    // What F has in flight ends it.
    if fast.bytes_in_flight > Bytes::ZERO { None } else { wait_for_any(cx) }
}

#[inline(never)]
fn wait_for_any(cx: &Context<'_>) -> Option<PathId> {
    match choose::wait(cx) {
        Decision::Send(path) => Some(path),
        _ => None,
    }
}

/// A decision that has not been seen to be carried out.
#[derive(Clone, Copy)]
struct Pending<X> {
    choice: Choice<X>,
    /// The packet that was answered with a path; none while waiting.
    answered: Option<Offset>,
    /// A wait after which something happened.
    stale: bool,
    /// A wait that was closed in vain and goes on.
    closed: bool,
}

impl<X> Pending<X> {
    fn new(choice: Choice<X>, answered: Option<Offset>) -> Self {
        Self { choice, answered, stale: false, closed: false }
    }
}

/// A policy as a scheduler.
#[derive(Clone)]
pub(crate) struct Blocked<P: Policy> {
    rules: Rules,
    pub(crate) policy: P,
    meters: Meters,
    pending: Option<Pending<P::Observation>>,
    /// A wait that is over and not bound to a packet yet.
    unbound: Option<Choice<P::Observation>>,
    /// Answered and not sent yet, oldest first: a subflow's queue paces.
    queued: VecDeque<(Offset, Choice<P::Observation>)>,
    records: OpenRecords<P::Observation>,
    /// The last question, if nothing has happened since.
    last_question: Option<LastQuestion>,
}

/// A question: when, about which packet, and about which pair.
#[derive(Clone, Copy)]
struct LastQuestion {
    at: Instant,
    about: Offset,
    fast: PathId,
    slow: PathId,
}

impl<P: Policy> Blocked<P> {
    /// `policy`, asked as `rules` say.
    pub(crate) fn new(rules: Rules, policy: P) -> Self {
        Self {
            rules,
            policy,
            meters: Meters::default(),
            pending: None,
            unbound: None,
            queued: VecDeque::new(),
            records: OpenRecords::new(),
            last_question: None,
        }
    }

    /// Another packet is at hand: the answered one has been taken.
    #[inline]
    fn note_packet(&mut self, at: Offset) {
        if self.pending.as_ref().is_some_and(|pending| pending.answered.is_some_and(|offset| offset != at)) {
            self.take_answered();
        }
    }

    /// The answered packet has been taken, and not been seen to be sent.
    #[inline(never)]
    fn take_answered(&mut self) {
        let Some(pending) = self.pending.take() else { return };
        if let Some(offset) = pending.answered.filter(|_| !pending.closed) {
            if self.queued.len() == QUEUED {
                self.queued.pop_front();
            }
            self.queued.push_back((offset, pending.choice));
        }
    }

    /// F takes the packet, and a wait for F ends with it.
    #[inline]
    fn send_on_fast(&mut self, fast: &Path, at: Offset) -> Option<PathId> {
        if self.pending.is_some() || self.unbound.is_some() {
            self.bind_to_fast(fast.id, at);
        }
        Some(fast.id)
    }

    /// The decision for `fast` that is kept, if there is one, is carried out with the packet at `at`.
    #[inline(never)]
    fn bind_to_fast(&mut self, fast: PathId, at: Offset) {
        self.pending.take_if(|pending| pending.choice.action != Action::Fast || pending.choice.fast != fast);
        let unbound = self.unbound.take_if(|choice| choice.fast == fast);
        if self.pending.is_none() {
            self.pending = unbound.map(|choice| Pending::new(choice, None));
        }
        // A closed one stays too: asked again, it answers the same.
        if let Some(pending) = &mut self.pending {
            (pending.answered, pending.stale) = (Some(at), false);
        }
    }

    /// Returns the decision about the packet at `at`, if it still holds.
    #[inline]
    fn kept(&self, (fast, slow): Pair<'_>, at: Offset) -> Option<Action> {
        let pending = self.pending.as_ref().filter(|pending| pending.choice.fast == fast.id && !pending.stale)?;
        let choice = &pending.choice;
        let holds = choice.action == Action::Fast || choice.slow == slow.id && pending.answered == Some(at);
        holds.then_some(choice.action)
    }

    /// Returns the question of the next `select` at `cx`, if it asks one.
    pub(crate) fn asks<'a>(&'a mut self, cx: &'a Context<'a>) -> Option<(&'a P, Question<'a>)> {
        let packet = Self::asked_about(cx)?;
        let Roles { fast: Some(fast), slow: Some(slow), unprobed: None } = Roles::of(cx) else { return None };
        if !self.rules.ask_about(fast) {
            return None;
        }
        self.note_packet(packet.offset);
        if self.kept((fast, slow), packet.offset).is_some() {
            return None;
        }
        Some(self.note_question(cx, packet, (fast, slow)))
    }

    /// The packet at hand, if a policy may be asked about it: it has not been sent.
    #[inline]
    pub(crate) fn asked_about<'a>(cx: &Context<'a>) -> Option<&'a Packet> {
        cx.packet.filter(|packet| !packet.reinjection && packet.carried.is_empty())
    }

    /// The question about `pair`, which is noted: the answer comes from outside.
    #[inline]
    pub(crate) fn note_question<'a>(
        &'a mut self,
        cx: &'a Context<'a>,
        packet: &Packet,
        (fast, slow): Pair<'a>,
    ) -> (&'a P, Question<'a>) {
        self.last_question = Some(LastQuestion { at: cx.now, about: packet.offset, fast: fast.id, slow: slow.id });
        (&self.policy, Question { cx, fast, slow, meters: &self.meters })
    }

    /// The pair of the question about `packet` that was asked at `cx`, if nothing has happened since.
    #[inline]
    pub(crate) fn repeated<'a>(&mut self, cx: &Context<'a>, packet: &Packet) -> Option<Pair<'a>> {
        let asked = self.last_question.take_if(|asked| asked.at == cx.now && asked.about == packet.offset)?;
        Some((roles::path(cx, asked.fast)?, roles::path(cx, asked.slow)?))
    }

    /// Returns the next step for `packet`, which has not been sent.
    #[inline(always)]
    pub(crate) fn next<'a>(&mut self, cx: &Context<'a>, packet: &Packet) -> Next<'a> {
        let (fast, unprobed) = roles::fast_and_unprobed(cx);
        if let Some(path) = unprobed {
            return Next::Path(Some(path.id));
        }
        let Some(fast) = fast else { return Next::Path(wait_for_any(cx)) };
        self.note_packet(packet.offset);
        if fast.is_open() && !self.rules.asks_when_free {
            return Next::Path(self.send_on_fast(fast, packet.offset));
        }
        let is_asked = self.rules.ask_about(fast);
        Next::Path(match roles::slow(cx, fast) {
            Some(slow) if is_asked => match self.kept((fast, slow), packet.offset) {
                Some(action) => self.carry_out(cx, (fast, slow), packet.offset, action),
                None => return Next::Question((fast, slow)),
            },
            _ if fast.is_open() => self.send_on_fast(fast, packet.offset),
            Some(slow) => Some(slow.id),
            None => wait_for(cx, fast),
        })
    }

    /// Asks the policy about the packet at `at`.
    #[inline(always)]
    pub(crate) fn ask(&mut self, cx: &Context<'_>, pair: Pair<'_>, at: Offset) -> Option<PathId> {
        let (fast, slow) = pair;
        let question = Question { cx, fast, slow, meters: &self.meters };
        let choice = Choice::new(cx.now, fast, slow, self.policy.decide(&question));
        self.keep(choice, at);
        self.carry_out(cx, pair, at, choice.action)
    }

    /// `choice` about the packet at `at` takes the place of an earlier one.
    #[inline]
    fn keep(&mut self, choice: Choice<P::Observation>, at: Offset) {
        let is_slow = choice.action == Action::Slow;
        if let Some(earlier) =
            self.pending.as_mut().filter(|pending| pending.stale && pending.choice.fast == choice.fast)
        {
            if !is_slow {
                // A wait that goes on is one decision.
                earlier.stale = false;
                return;
            }
            if !earlier.closed && self.unbound.is_none() {
                self.unbound = Some(earlier.choice);
            }
        }
        self.pending = Some(Pending::new(choice, is_slow.then_some(at)));
    }

    /// Does what was decided about the packet at `at`.
    #[inline(always)]
    fn carry_out(&mut self, cx: &Context<'_>, (fast, slow): Pair<'_>, at: Offset, action: Action) -> Option<PathId> {
        match action {
            Action::Slow => Some(slow.id),
            Action::Fast if fast.is_open() => self.send_on_fast(fast, at),
            Action::Fast => wait_for(cx, fast),
        }
    }

    /// A packet was sent: perhaps one that a pending decision or a queued one is about.
    #[inline(always)]
    fn note_sent(&mut self, receipt: &Receipt, now: Instant) {
        if !self.queued.is_empty() && self.note_queued_sent(receipt) {
            return;
        }
        let is_it =
            |pending: &Pending<_>| pending.answered == Some(receipt.offset) && pending.choice.path() == receipt.path;
        match &self.pending {
            Some(pending) if is_it(pending) => {
                self.policy.sent(receipt, if pending.closed { now } else { pending.choice.at });
                if !pending.closed {
                    self.records.open(&pending.choice, receipt);
                }
                self.pending = None;
            }
            _ => self.policy.sent(receipt, now),
        }
    }

    /// Returns true if `receipt` carries out a decision that a subflow's queue has held.
    #[inline(never)]
    fn note_queued_sent(&mut self, receipt: &Receipt) -> bool {
        let is_it = |offset: Offset, path: PathId| offset == receipt.offset && path == receipt.path;
        let at = self.queued.iter().position(|(offset, choice)| is_it(*offset, choice.path()));
        let Some((_, choice)) = at.and_then(|at| self.queued.remove(at)) else { return false };
        self.policy.sent(receipt, choice.at);
        self.records.open(&choice, receipt);
        true
    }

    #[inline(always)]
    fn note_fate(&mut self, cx: &Context<'_>, receipt: &Receipt, fate: Fate) {
        if fate == Fate::Acked {
            self.policy.acked(receipt, cx.now);
        }
        let keep = self.policy.keeps_until_deadline();
        let outcome = self.records.settle(receipt, fate, cx.now, keep);
        // The path that carried a decision's packet is one of the pair.
        let is_metered = outcome.is_some_and(|outcome| self.learn(cx, &outcome));
        if !is_metered && let Some(path) = roles::path(cx, receipt.path) {
            self.meters.update(cx.now, path);
        }
    }

    /// Lets the policy learn, if both paths are still there; then their meters are up to date.
    #[inline(always)]
    fn learn(&mut self, cx: &Context<'_>, outcome: &Outcome<P::Observation>) -> bool {
        let (fast, slow) = (roles::path(cx, outcome.choice.fast), roles::path(cx, outcome.choice.slow));
        let (Some(fast), Some(slow)) = (fast, slow) else { return false };
        self.meters.update(cx.now, fast);
        self.meters.update(cx.now, slow);
        self.policy.learn(&Question { cx, fast, slow, meters: &self.meters }, outcome);
        true
    }

    /// Learns from an outcome that comes without its packet's fate.
    #[inline(never)]
    fn learn_late(&mut self, cx: &Context<'_>, outcome: &Outcome<P::Observation>) {
        self.learn(cx, outcome);
    }

    /// Closes what has waited for T_ref, and ends waits that are over.
    #[inline(always)]
    fn move_on(&mut self, cx: &Context<'_>) {
        let mut ends = self.unbound.as_ref().is_some_and(|choice| choice.deadline <= cx.now);
        if let Some(pending) = self.pending.as_mut().filter(|pending| pending.answered.is_none()) {
            pending.stale = !self.rules.sticky;
            ends |= !pending.closed && pending.choice.deadline <= cx.now;
            ends |= roles::path(cx, pending.choice.fast).is_some_and(Path::is_open);
        }
        if ends {
            self.end_waits(cx);
        }
        if self.records.may_expire(cx.now) {
            self.expire(cx);
        }
    }

    /// Closes waits that have lasted T_ref, and ends those for an F that has room.
    #[inline(never)]
    fn end_waits(&mut self, cx: &Context<'_>) {
        let mut in_vain = self.unbound.take_if(|choice| choice.deadline <= cx.now);
        if let Some(pending) = self.pending.as_mut().filter(|pending| pending.answered.is_none()) {
            if !pending.closed && pending.choice.deadline <= cx.now {
                pending.closed = true;
                in_vain = in_vain.or(Some(pending.choice));
            }
            if roles::path(cx, pending.choice.fast).is_some_and(Path::is_open) {
                self.unbound = self
                    .pending
                    .take()
                    .filter(|pending| !pending.closed)
                    .map(|pending| pending.choice)
                    .or(self.unbound);
            }
        }
        if let Some(choice) = in_vain {
            self.learn_late(cx, &choice.unsent());
        }
    }

    #[inline(never)]
    fn expire(&mut self, cx: &Context<'_>) {
        while let Some(outcome) = self.records.expire(cx.now) {
            self.learn_late(cx, &outcome);
        }
    }

    /// Hears the events before `cx`, in turn.
    #[inline(always)]
    pub(crate) fn observe_all(&mut self, cx: &Context<'_>, events: &[Event]) {
        for event in events {
            self.last_question = None;
            match event {
                Event::Sent(receipt, kind) => {
                    if *kind != SendKind::Duplicate {
                        self.note_sent(receipt, cx.now);
                    }
                }
                Event::Acked(receipt) => self.note_fate(cx, receipt, Fate::Acked),
                _ => self.note_rare(cx, event),
            }
            self.move_on(cx);
        }
    }

    #[cold]
    fn note_rare(&mut self, cx: &Context<'_>, event: &Event) {
        match event {
            Event::Lost(receipt) => self.note_fate(cx, receipt, Fate::Lost),
            Event::PathUp(path) | Event::PathDown(path) => self.forget(*path),
            _ => {}
        }
    }

    fn forget(&mut self, path: PathId) {
        let names = |choice: &Choice<P::Observation>| choice.fast == path || choice.slow == path;
        self.pending.take_if(|pending| names(&pending.choice));
        self.unbound.take_if(|choice| names(choice));
        self.queued.retain(|(_, choice)| !names(choice));
        self.meters.reset(path);
    }
}

impl<P: Policy> Scheduler for Blocked<P> {
    fn needs(&self) -> Needs {
        Needs { flow: true, events: true, ..Needs::NONE }
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        match cx.packet {
            None => Decision::Wait,
            Some(packet) if packet.reinjection || !packet.carried.is_empty() => {
                choose::send_or_wait(cx, choose::min_rtt(cx))
            }
            Some(packet) => decision(match self.next(cx, packet) {
                Next::Path(by) => by,
                Next::Question(pair) => self.ask(cx, pair, packet.offset),
            }),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.observe_all(cx, core::slice::from_ref(event));
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let Roles { fast, slow, .. } = Roles::of(cx);
        let fast = fast?;
        let Some(slow) = slow else { return Some(format!("F {:?}, no S with room", fast.id)) };
        let kept = self.pending.filter(|pending| pending.choice.fast == fast.id).map(|pending| pending.choice.action);
        let question = Question { cx, fast, slow, meters: &self.meters };
        let inner = self.policy.explain(&question);
        Some(format!("F {:?}, S {:?}, decided {kept:?}; {inner}", fast.id, slow.id))
    }
}

#[cfg(test)]
mod tests;
