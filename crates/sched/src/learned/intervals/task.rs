//! Tasks whose answers hold for an interval: when they are asked, what is paid when, and what a training environment reads.
//!
//! A [`Rule`] says what is seen, what an answer means and what it earned; [`IntervalTask`] makes a task of it, as
//! `pair::Blocked` does for policies that are asked about packets.

use weftway_path::{Bytes, Context, Decision, Event, Instant, Span};

use crate::learned::task::{Ledger, Shape, Task};
use crate::shared::epochs::Epochs;
use crate::{Mode, Needs, Report, Scheduler};

/// Part of a task in which tasks with intervals differ.
pub(crate) trait Rule: Clone + Send {
    /// Meaning of an answer, for as long as it holds.
    type Choice: Clone + Send;

    /// Needs of the task, as its entry has them.
    const NEEDS: Needs;

    /// Behaviour of the paths that are not chosen, where the rule chooses one.
    fn mode(&self) -> Option<Mode> {
        None
    }

    /// Length of the interval that begins now; none where it stays.
    fn length(&self, cx: &Context<'_>) -> Option<Span> {
        let _ = cx;
        None
    }

    /// Returns true if something else than the clock begins an interval.
    fn begins(&mut self, cx: &Context<'_>) -> bool {
        let _ = cx;
        false
    }

    /// Measures the interval that is over and has `passed`: returns what its decisions earned, in equal parts.
    fn end(&mut self, cx: &Context<'_>, passed: Span) -> f64;

    /// Another interval has begun, or an answer has been given; `chosen` holds.
    fn hold(&mut self, cx: &Context<'_>, chosen: Option<&Self::Choice>) {
        let _ = (cx, chosen);
    }

    /// Returns true if a question may be asked; `is_due`: this interval has no choice yet.
    fn asks(&self, cx: &Context<'_>, is_due: bool) -> bool;

    /// Writes the observation.
    fn see(&self, cx: &Context<'_>, observation: &mut [f32]);

    /// Marks the choices of a discrete action that are open.
    fn mask(&self, mask: &mut [bool]) {
        mask.fill(true);
    }

    /// Takes an answer: the choice that the interval is to have, if any.
    fn answer(&mut self, cx: &Context<'_>, action: &[f32]) -> Option<Self::Choice>;

    /// Decides about the packet at hand under the choice that holds.
    fn select(&self, cx: &Context<'_>, chosen: Option<&Self::Choice>) -> Decision;

    /// Hears an event; `ledger` takes what it earned beside the reward of the interval.
    fn observe(&mut self, cx: &Context<'_>, event: &Event, ledger: &mut Ledger);

    /// Settles what the end of the connection earned beside the reward of the interval.
    fn finish(&mut self, cx: &Context<'_>, ledger: &mut Ledger) {
        let _ = (cx, ledger);
    }

    /// Bytes acknowledged on the chosen path, where the rule chooses one.
    fn chosen_bytes(&self) -> Option<Bytes> {
        None
    }

    /// Reason of the next answer.
    fn explain(&self, cx: &Context<'_>, chosen: Option<&Self::Choice>) -> Option<String>;
}

/// A rule with intervals as a task.
#[derive(Clone)]
pub(crate) struct IntervalTask<R: Rule> {
    shape: Shape,
    rule: R,
    epochs: Epochs<R::Choice>,
    /// Decisions of this interval, not paid yet.
    open: Vec<u64>,
    ledger: Ledger,
}

impl<R: Rule> IntervalTask<R> {
    pub(crate) fn new(shape: Shape, epochs: Epochs<R::Choice>, rule: R) -> Self {
        Self { shape, rule, epochs, open: Vec::new(), ledger: Ledger::default() }
    }

    /// Ends the interval if it is over.
    #[inline]
    fn turn(&mut self, cx: &Context<'_>) {
        if self.epochs.is_over(cx.now)
            && let Some(length) = self.rule.length(cx)
        {
            self.epochs.set_length(length);
        }
        let passed = self.epochs.turn(cx.now);
        if self.rule.begins(cx) || passed.is_some() {
            self.next_interval(cx, passed.unwrap_or_default());
        }
    }

    #[cold]
    fn next_interval(&mut self, cx: &Context<'_>, passed: Span) {
        self.pay(cx, passed);
        self.rule.hold(cx, self.epochs.chosen());
    }

    fn pay(&mut self, cx: &Context<'_>, passed: Span) {
        let reward = self.rule.end(cx, passed) / self.open.len().max(1) as f64;
        self.open.drain(..).for_each(|decision| self.ledger.earn(decision, reward));
    }
}

impl<R: Rule> Scheduler for IntervalTask<R> {
    fn needs(&self) -> Needs {
        R::NEEDS
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.turn(cx);
        self.rule.select(cx, self.epochs.chosen())
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.rule.observe(cx, event, &mut self.ledger);
        self.turn(cx);
    }

    fn wake(&self) -> Option<Instant> {
        self.epochs.wake()
    }

    fn report(&self) -> Report {
        Report { chosen_bytes: self.rule.chosen_bytes(), ..Report::default() }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        self.rule.explain(cx, self.epochs.chosen())
    }
}

impl<R: Rule> Task for IntervalTask<R> {
    fn shape(&self) -> &Shape {
        &self.shape
    }

    fn mode(&self) -> Option<Mode> {
        self.rule.mode()
    }

    fn question(&mut self, cx: &Context<'_>, observation: &mut [f32]) -> bool {
        self.turn(cx);
        let is_asked = self.rule.asks(cx, self.epochs.is_due());
        if is_asked {
            self.rule.see(cx, observation);
        }
        is_asked
    }

    fn decide(&mut self, cx: &Context<'_>, events: &[Event], observation: &mut [f32]) -> Option<Decision> {
        events.iter().for_each(|event| self.observe(cx, event));
        // The interval is the one that the question has looked at.
        let is_asked = self.question(cx, observation);
        (!is_asked).then(|| self.rule.select(cx, self.epochs.chosen()))
    }

    fn mask(&self, _: &Context<'_>, mask: &mut [bool]) {
        self.rule.mask(mask);
    }

    fn answer(&mut self, cx: &Context<'_>, action: &[f32]) {
        if let Some(choice) = self.rule.answer(cx, action) {
            self.epochs.choose(cx.now, choice);
            self.rule.hold(cx, self.epochs.chosen());
        }
        self.open.push(self.ledger.decide());
    }

    fn finish(&mut self, cx: &Context<'_>, observation: &mut [f32]) {
        self.rule.finish(cx, &mut self.ledger);
        self.pay(cx, cx.now.since(self.epochs.begin()));
        self.rule.see(cx, observation);
    }

    fn ledger(&mut self) -> &mut Ledger {
        &mut self.ledger
    }
}
