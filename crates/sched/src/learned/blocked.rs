//! When a policy is asked, and what becomes of its answers.
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

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BlockedReason, Context, Decision, Event, Instant, Offset, Packet, Path, PathId, Receipt, SendKind};

use super::meters::Meters;
use super::records::{Book, Choice, Fate, Outcome};
use super::roles::{self, Roles};
use crate::choose;
use crate::min_rtt;
use crate::{Needs, Scheduler};

/// Decisions that a paced subflow has not sent yet; older ones are forgotten.
const QUEUED: usize = 1024;

/// What to do with a packet.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Action {
    /// Keep it for F: wait, or send it there if F has room.
    Fast,
    /// Send it on S now.
    Slow,
}

/// What a policy looks at: the pair, when it decides and when a record closes.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    pub(crate) cx: Context<'a>,
    pub(crate) fast: &'a Path,
    pub(crate) slow: &'a Path,
    pub(crate) meters: &'a Meters,
}

/// What a learned scheduler decides and learns. The rest is [`Blocked`]'s.
pub(crate) trait Policy: Clone + Send {
    /// What it remembers of a decision until the outcome is known.
    type Seen: Copy + Send;

    /// Asked once for each decision: draws belong here.
    fn decide(&mut self, question: &Question<'_>) -> (Action, Self::Seen);

    /// A decision's record closed; `scene` is the same pair then.
    fn learn(&mut self, scene: &Question<'_>, outcome: &Outcome<Self::Seen>);

    /// Whether records stay open until T_ref although their packet's fate is known.
    fn keeps_until_deadline(&self) -> bool {
        false
    }

    /// Any packet was sent, on a decision of `since` or of that moment.
    fn sent(&mut self, receipt: &Receipt, since: Instant) {
        let _ = (receipt, since);
    }

    /// Any packet was acknowledged.
    fn acked(&mut self, receipt: &Receipt, now: Instant) {
        let _ = (receipt, now);
    }

    /// Its inner state as it bears on `question`.
    fn explain(&self, question: &Question<'_>) -> String;
}

/// How long a wait lasts.
pub(crate) const WAIT_STICKY: Param = Param {
    name: "wait_sticky",
    default: "true",
    values: "true | false",
    doc: "whether a decision to wait holds until F has room, as in public code of Peekaboo; else it is drawn anew after the next event",
};
/// What a pacer means.
pub(crate) const PACED: Param = Param {
    name: "paced",
    default: "blocked",
    values: "blocked | free",
    doc: "an F that only its pacer holds counts as blocked, so that the policy is asked; or it is not asked and S takes the packet",
};

/// The switches that all policies share.
#[derive(Clone, Copy)]
pub(crate) struct Rules {
    pub(crate) sticky: bool,
    pub(crate) asks_when_paced: bool,
    /// Ask also while both have room.
    pub(crate) asks_when_free: bool,
}

impl Rules {
    /// As the switches say; asked only while F is blocked.
    pub(crate) fn new(params: &Params) -> Result<Self, SpecError> {
        Ok(Self {
            sticky: params.get("wait_sticky")?,
            asks_when_paced: params.choice("paced", &[("blocked", true), ("free", false)])?,
            asks_when_free: false,
        })
    }

    /// Whether to ask while F is as `fast` is.
    #[inline]
    fn ask_about(&self, fast: &Path) -> bool {
        match fast.blocked {
            BlockedReason::None => self.asks_when_free,
            BlockedReason::Pacing => self.asks_when_paced,
            _ => true,
        }
    }
}

/// F and S.
pub(crate) type Pair<'a> = (&'a Path, &'a Path);

/// What is due about a packet.
pub(crate) enum Due<'a> {
    /// This, without a question.
    Decided(Decision),
    /// The policy's answer.
    Question(Pair<'a>),
}

/// A decision that has not been seen to be carried out.
#[derive(Clone, Copy)]
struct Slot<X> {
    choice: Choice<X>,
    /// The packet that was answered with a path; none while waiting.
    answered: Option<Offset>,
    /// A wait after which something happened.
    stale: bool,
    /// A wait that was closed in vain and goes on.
    closed: bool,
}

impl<X> Slot<X> {
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
    slot: Option<Slot<P::Seen>>,
    /// A wait that is over and not bound to a packet yet.
    parked: Option<Choice<P::Seen>>,
    /// Answered and not sent yet, oldest first: a subflow's queue paces.
    queued: VecDeque<(Offset, Choice<P::Seen>)>,
    book: Book<P::Seen>,
    /// The last question, if nothing has happened since.
    asked: Option<Asked>,
}

/// A question: when, about which packet, and about which pair.
#[derive(Clone, Copy)]
struct Asked {
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
            slot: None,
            parked: None,
            queued: VecDeque::new(),
            book: Book::new(),
            asked: None,
        }
    }

    /// Another packet is at hand: the answered one has been taken.
    fn turn_to(&mut self, at: Offset) {
        let Some(slot) = self.slot.take_if(|slot| slot.answered.is_some_and(|offset| offset != at)) else { return };
        if let Some(offset) = slot.answered.filter(|_| !slot.closed) {
            if self.queued.len() == QUEUED {
                self.queued.pop_front();
            }
            self.queued.push_back((offset, slot.choice));
        }
    }

    /// F takes the packet, and a wait for F ends with it.
    fn give_to_fast(&mut self, fast: &Path, at: Offset) -> Decision {
        let is_for_fast = |choice: &Choice<_>| choice.action == Action::Fast && choice.fast == fast.id;
        let kept = self.slot.take().filter(|slot| is_for_fast(&slot.choice));
        let parked = self.parked.take_if(|choice| choice.fast == fast.id);
        let slot = kept.or(parked.map(|choice| Slot::new(choice, None)));
        // A closed one stays too: asked again, it answers the same.
        self.slot = slot.map(|slot| Slot { answered: Some(at), stale: false, ..slot });
        Decision::Send(fast.id)
    }

    /// What was decided about the packet at `at`, if that still holds.
    #[inline]
    fn kept(&self, (fast, slow): Pair<'_>, at: Offset) -> Option<Action> {
        let slot = self.slot.as_ref().filter(|slot| slot.choice.fast == fast.id && !slot.stale)?;
        let choice = &slot.choice;
        let holds = choice.action == Action::Fast || choice.slow == slow.id && slot.answered == Some(at);
        holds.then_some(choice.action)
    }

    /// What the policy will be asked by the next `select` at `cx`, if it will be asked.
    pub(crate) fn asks<'a>(&'a mut self, cx: &Context<'a>) -> Option<(&'a P, Question<'a>)> {
        let packet = Self::asked_about(cx)?;
        let Roles { fast: Some(fast), slow: Some(slow), unprobed: None } = Roles::of(cx) else { return None };
        if !self.rules.ask_about(fast) {
            return None;
        }
        self.turn_to(packet.offset);
        if self.kept((fast, slow), packet.offset).is_some() {
            return None;
        }
        Some(self.pose(cx, packet, (fast, slow)))
    }

    /// The packet at hand, if a policy may be asked about it: it has not been sent.
    #[inline]
    pub(crate) fn asked_about<'a>(cx: &Context<'a>) -> Option<&'a Packet> {
        cx.packet.filter(|packet| !packet.reinjection && packet.carried.is_empty())
    }

    /// The question about `pair`, which is noted: the answer comes from outside.
    #[inline]
    pub(crate) fn pose<'a>(
        &'a mut self,
        cx: &Context<'a>,
        packet: &Packet,
        (fast, slow): Pair<'a>,
    ) -> (&'a P, Question<'a>) {
        self.asked = Some(Asked { at: cx.now, about: packet.offset, fast: fast.id, slow: slow.id });
        (&self.policy, Question { cx: *cx, fast, slow, meters: &self.meters })
    }

    /// The pair of the question about `packet` that was asked at `cx`, if nothing has happened since.
    #[inline]
    pub(crate) fn stands<'a>(&mut self, cx: &Context<'a>, packet: &Packet) -> Option<Pair<'a>> {
        let asked = self.asked.take_if(|asked| asked.at == cx.now && asked.about == packet.offset)?;
        Some((cx.path(asked.fast)?, cx.path(asked.slow)?))
    }

    /// What is due about `packet`, which has not been sent.
    #[inline(always)]
    pub(crate) fn due<'a>(&mut self, cx: &Context<'a>, packet: &Packet) -> Due<'a> {
        let (fast, unprobed) = roles::fast_and_unprobed(cx);
        if let Some(path) = unprobed {
            return Due::Decided(Decision::Send(path.id));
        }
        let Some(fast) = fast else { return Due::Decided(choose::wait(cx)) };
        self.turn_to(packet.offset);
        let is_asked = self.rules.ask_about(fast);
        let slow = if is_asked || !fast.is_open() { roles::slow(cx, fast) } else { None };
        Due::Decided(match slow {
            Some(slow) if is_asked => match self.kept((fast, slow), packet.offset) {
                Some(action) => self.carry_out(cx, (fast, slow), packet.offset, action),
                None => return Due::Question((fast, slow)),
            },
            _ if fast.is_open() => self.give_to_fast(fast, packet.offset),
            Some(slow) => Decision::Send(slow.id),
            None => choose::wait(cx),
        })
    }

    /// Asks the policy about the packet at `at`.
    pub(crate) fn ask(&mut self, cx: &Context<'_>, pair: Pair<'_>, at: Offset) -> Decision {
        let (fast, slow) = pair;
        let question = Question { cx: *cx, fast, slow, meters: &self.meters };
        let choice = Choice::new(cx.now, fast, slow, self.policy.decide(&question));
        let earlier = self.slot.take().filter(|slot| slot.stale && slot.choice.fast == fast.id);
        let action = choice.action;
        self.slot = match (earlier, action) {
            // A wait that goes on is one decision.
            (Some(earlier), Action::Fast) => Some(Slot { stale: false, ..earlier }),
            (earlier, _) => {
                self.parked = self.parked.or(earlier.filter(|slot| !slot.closed).map(|slot| slot.choice));
                Some(Slot::new(choice, (action == Action::Slow).then_some(at)))
            }
        };
        self.carry_out(cx, pair, at, action)
    }

    /// Does what was decided about the packet at `at`.
    #[inline]
    fn carry_out(&mut self, cx: &Context<'_>, (fast, slow): Pair<'_>, at: Offset, action: Action) -> Decision {
        match action {
            Action::Slow => Decision::Send(slow.id),
            Action::Fast if fast.is_open() => self.give_to_fast(fast, at),
            Action::Fast => choose::wait(cx),
        }
    }

    /// The decision that `receipt` carries out.
    fn claim(&mut self, receipt: &Receipt) -> Option<Choice<P::Seen>> {
        let is_it = |offset: Offset, path: PathId| offset == receipt.offset && path == receipt.path;
        if let Some(at) = self.queued.iter().position(|(offset, choice)| is_it(*offset, choice.path())) {
            return self.queued.remove(at).map(|(_, choice)| choice);
        }
        let slot = self.slot.take_if(|slot| slot.answered.is_some_and(|offset| is_it(offset, slot.choice.path())));
        slot.filter(|slot| !slot.closed).map(|slot| slot.choice)
    }

    fn note_sent(&mut self, receipt: &Receipt, now: Instant) {
        let choice = self.claim(receipt);
        self.policy.sent(receipt, choice.map_or(now, |choice| choice.at));
        if let Some(choice) = choice {
            self.book.open(choice, *receipt);
        }
    }

    fn note_fate(&mut self, cx: &Context<'_>, receipt: &Receipt, fate: Fate) {
        if let Some(path) = cx.path(receipt.path) {
            self.meters.update(cx.now, path);
        }
        if fate == Fate::Acked {
            self.policy.acked(receipt, cx.now);
        }
        let keep = self.policy.keeps_until_deadline();
        if let Some(outcome) = self.book.settle(receipt, fate, cx.now, keep) {
            self.learn(cx, &outcome);
        }
    }

    /// Lets the policy learn, if both paths are still there.
    fn learn(&mut self, cx: &Context<'_>, outcome: &Outcome<P::Seen>) {
        let (fast, slow) = (cx.path(outcome.choice.fast), cx.path(outcome.choice.slow));
        if let (Some(fast), Some(slow)) = (fast, slow) {
            [fast, slow].iter().for_each(|path| self.meters.update(cx.now, path));
            self.policy.learn(&Question { cx: *cx, fast, slow, meters: &self.meters }, outcome);
        }
    }

    /// Closes what has waited for T_ref, and ends waits that are over.
    fn move_on(&mut self, cx: &Context<'_>) {
        if self.parked.is_none() && self.slot.as_ref().is_none_or(|slot| slot.answered.is_some()) {
            return self.expire(cx);
        }
        let mut in_vain = self.parked.take_if(|choice| choice.deadline <= cx.now);
        if let Some(slot) = self.slot.as_mut().filter(|slot| slot.answered.is_none()) {
            slot.stale = !self.rules.sticky;
            if !slot.closed && slot.choice.deadline <= cx.now {
                slot.closed = true;
                in_vain = in_vain.or(Some(slot.choice));
            }
            if cx.path(slot.choice.fast).is_some_and(Path::is_open) {
                self.parked = self.slot.take().filter(|slot| !slot.closed).map(|slot| slot.choice).or(self.parked);
            }
        }
        if let Some(choice) = in_vain {
            self.learn(cx, &choice.unsent());
        }
        self.expire(cx);
    }

    #[inline]
    fn expire(&mut self, cx: &Context<'_>) {
        while let Some(outcome) = self.book.expire(cx.now) {
            self.learn(cx, &outcome);
        }
    }

    fn forget(&mut self, path: PathId) {
        let names = |choice: &Choice<P::Seen>| choice.fast == path || choice.slow == path;
        self.slot.take_if(|slot| names(&slot.choice));
        self.parked.take_if(|choice| names(choice));
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
                choose::send_or_wait(cx, min_rtt::pick(cx))
            }
            Some(packet) => match self.due(cx, packet) {
                Due::Decided(decision) => decision,
                Due::Question(pair) => self.ask(cx, pair, packet.offset),
            },
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.asked = None;
        match event {
            Event::Sent(_, SendKind::Duplicate) => {}
            Event::Sent(receipt, _) => self.note_sent(receipt, cx.now),
            Event::Acked(receipt) => self.note_fate(cx, receipt, Fate::Acked),
            Event::Lost(receipt) => self.note_fate(cx, receipt, Fate::Lost),
            Event::PathUp(path) | Event::PathDown(path) => self.forget(*path),
            _ => {}
        }
        self.move_on(cx);
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let Roles { fast, slow, .. } = Roles::of(cx);
        let fast = fast?;
        let Some(slow) = slow else { return Some(format!("F {:?}, no S with room", fast.id)) };
        let kept = self.slot.filter(|slot| slot.choice.fast == fast.id).map(|slot| slot.choice.action);
        let question = Question { cx: *cx, fast, slow, meters: &self.meters };
        let inner = self.policy.explain(&question);
        Some(format!("F {:?}, S {:?}, decided {kept:?}; {inner}", fast.id, slow.id))
    }
}

#[cfg(test)]
mod tests;
