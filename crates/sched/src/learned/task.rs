//! Tasks: the decisions of a learned scheduler, apart from who makes them.
//!
//! A [`Task`] is a scheduler that lacks its decisions: it says when one is due, what is seen then,
//! which actions there are, and afterwards what they earned. The training environments stop at its
//! questions and let an agent answer; a deployed policy lets an exported network answer. Both
//! run this very code, so that what is seen in training is what is seen at work.

use core::fmt;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Span};

use crate::shared::norm;
use crate::{Mode, Needs, Scheduler};

/// A scheduler that lacks its decisions.
pub trait Task: Scheduler {
    /// Inputs and actions.
    fn shape(&self) -> &Shape;

    /// Behaviour of the paths that are not chosen during an interval, where the task chooses one.
    fn mode(&self) -> Option<Mode> {
        None
    }

    /// Returns true if a decision is due at `cx`; then `observation` is what there is to see, as long as
    /// [`Shape::inputs`]. Asked again with no answer and no event between, the same.
    fn question(&mut self, cx: &Context<'_>, observation: &mut [f32]) -> bool;

    /// Hears `events`, which happened before `cx`, and then says what is decided ([`Scheduler::select`]); none if a
    /// decision is due ([`Task::question`]).
    fn decide(&mut self, cx: &Context<'_>, events: &[Event], observation: &mut [f32]) -> Option<Decision> {
        events.iter().for_each(|event| self.observe(cx, event));
        if self.question(cx, observation) { None } else { Some(self.select(cx)) }
    }

    /// Answers the question that is due: one number per action of [`Actions`], each of which is
    /// [allowed](Actions::allows).
    fn answer(&mut self, cx: &Context<'_>, action: &[f32]);

    /// Which choices of a discrete action are open for the question that is due; all, if nothing
    /// is said.
    fn mask(&self, cx: &Context<'_>, mask: &mut [bool]) {
        let _ = cx;
        mask.fill(true);
    }

    /// The connection is at its end: settles what has been earned by then, and writes what there
    /// is to see.
    fn finish(&mut self, cx: &Context<'_>, observation: &mut [f32]);

    /// Ledger of what earlier decisions earned.
    fn ledger(&mut self) -> &mut Ledger;
}

dyn_clone::clone_trait_object!(Task);

/// Inputs and actions of a task.
#[derive(Clone, Debug, PartialEq)]
pub struct Shape {
    /// Inputs, in this order.
    pub inputs: Vec<Input>,
    /// Actions to answer with.
    pub actions: Actions,
    /// The time between two questions, where it is fixed.
    pub interval: Option<Span>,
}

/// Input: one number of what is seen.
#[derive(Clone, Debug, PartialEq)]
pub struct Input {
    /// Its name, with the path's role or number: `srtt.fast`, `cwnd.2`.
    pub name: String,
    /// Its smallest value.
    pub low: f32,
    /// Its largest value.
    pub high: f32,
}

impl Input {
    /// A normalised one: within [0, 4].
    pub fn normalised(name: impl Into<String>) -> Self {
        Self { name: name.into(), low: 0.0, high: norm::LARGEST as f32 }
    }

    /// Makes an input within [0, 1].
    pub fn share(name: impl Into<String>) -> Self {
        Self { name: name.into(), low: 0.0, high: 1.0 }
    }
}

/// Actions to answer with.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Actions {
    /// The index of one of so many choices.
    Discrete(usize),
    /// Indices, each of so many choices.
    Several {
        /// Number of indices.
        count: usize,
        /// Number of choices of each.
        choices: usize,
    },
    /// Shares, none negative, which add up to 1.
    Shares(usize),
}

impl Actions {
    /// Returns how many numbers an answer has.
    pub fn len(self) -> usize {
        match self {
            Self::Discrete(_) => 1,
            Self::Several { count, .. } => count,
            Self::Shares(count) => count,
        }
    }

    /// Returns true if there is nothing to answer; never so.
    pub fn is_empty(self) -> bool {
        self.len() == 0
    }

    /// Returns true if `number` may stand in an answer: it is the index of a choice, or a share.
    #[inline]
    pub fn allows(self, number: f32) -> bool {
        match self {
            Self::Discrete(choices) | Self::Several { choices, .. } => {
                number >= 0.0 && number < choices as f32 && number.fract() == 0.0
            }
            Self::Shares(_) => (0.0..=1.0).contains(&number),
        }
    }

    /// Returns how many numbers a network gives for an answer: one per choice, or per share.
    pub fn outputs(self) -> usize {
        match self {
            Self::Discrete(choices) => choices,
            Self::Several { count, choices } => count * choices,
            Self::Shares(count) => count,
        }
    }
}

/// As Gymnasium writes the space.
impl fmt::Display for Actions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::Discrete(choices) => write!(f, "Discrete({choices})"),
            Self::Several { count, choices } => {
                write!(f, "MultiDiscrete([{}])", vec![choices.to_string(); count].join(" "))
            }
            Self::Shares(count) => write!(f, "Box(0.0, 1.0, ({count},), float32)"),
        }
    }
}

/// Reward of a decision.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Earned {
    /// Which decision, counted from 0 over the connection.
    pub decision: u64,
    /// Worth of the decision.
    pub reward: f32,
}

/// Counts decisions, and keeps what they earned until somebody takes it; keeps nothing while
/// nobody learns.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    is_open: bool,
    decisions: u64,
    earned: Vec<Earned>,
}

impl Ledger {
    /// Begins to keep what is earned: somebody learns.
    pub fn open(&mut self) {
        self.is_open = true;
    }

    /// Returns true if somebody learns.
    pub fn is_open(&self) -> bool {
        self.is_open
    }

    /// Number of decisions so far: the number of the next.
    pub fn decisions(&self) -> u64 {
        self.decisions
    }

    /// Rewards that became known since this was last emptied.
    pub fn earned(&mut self) -> &mut Vec<Earned> {
        &mut self.earned
    }

    /// A decision is made: its number.
    #[inline]
    pub(crate) fn decide(&mut self) -> u64 {
        self.decisions += 1;
        self.decisions - 1
    }

    /// `decision` earned `reward`.
    #[inline]
    pub(crate) fn earn(&mut self, decision: u64, reward: f64) {
        if self.is_open {
            self.earned.push(Earned { decision, reward: reward as f32 });
        }
    }
}

/// Task of the list.
#[derive(Debug)]
pub struct TaskEntry {
    /// Its name.
    pub name: &'static str,
    /// Decision of the task, in one sentence.
    pub summary: &'static str,
    /// Needs of its schedulers from their host.
    pub needs: Needs,
    /// Its switches.
    pub params: &'static [Param],
    /// Makes one.
    pub build: fn(&Params) -> Result<Box<dyn Task>, SpecError>,
}

impl TaskEntry {
    /// Makes a task with the switches of `given` set.
    pub fn make(&self, given: &[(String, String)]) -> Result<Box<dyn Task>, SpecError> {
        (self.build)(&Params::new(self.name, self.params, given)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn decisions_are_counted_from_0_and_earn_once_somebody_learns() {
        let mut ledger = Ledger::default();
        assert_eq!((ledger.decide(), ledger.is_open()), (0, false));
        ledger.earn(0, 1.0);
        assert_eq!(ledger.earned().len(), 0);
        ledger.open();
        assert_eq!((ledger.decide(), ledger.decisions(), ledger.is_open()), (1, 2, true));
        ledger.earn(1, 0.5);
        assert_eq!(ledger.earned(), &[Earned { decision: 1, reward: 0.5 }]);
    }

    #[test]
    fn answers_have_as_many_numbers_as_there_are_choices_or_shares() {
        let several = Actions::Several { count: 3, choices: 5 };
        assert_eq!([Actions::Discrete(4), several, Actions::Shares(4)].map(Actions::len), [1, 3, 4]);
        assert_eq!([Actions::Discrete(4), several, Actions::Shares(4)].map(Actions::outputs), [4, 15, 4]);
        assert!(!several.is_empty() && Actions::Shares(0).is_empty());
    }

    #[test]
    fn an_answer_has_whole_numbers_below_that_of_the_choices_or_shares_up_to_1() {
        let several = Actions::Several { count: 2, choices: 3 };
        for actions in [Actions::Discrete(3), several] {
            let allowed = |numbers: &[f32]| numbers.iter().filter(|number| actions.allows(**number)).count();
            assert_eq!(allowed(&[0.0, -0.0, 1.0, 2.0]), 4, "{actions}");
            assert_eq!(allowed(&[-1.0, 3.0, 0.5, 2.5, f32::NAN, f32::INFINITY, f32::NEG_INFINITY]), 0, "{actions}");
        }
        let shares = Actions::Shares(2);
        assert!([0.0, -0.0, 0.3, 1.0].iter().all(|share| shares.allows(*share)));
        assert!(![-0.1, 1.1, f32::NAN, f32::INFINITY].iter().any(|share| shares.allows(*share)));
        assert_eq!(
            [Actions::Discrete(3), several, shares].map(|actions| actions.to_string()),
            ["Discrete(3)", "MultiDiscrete([3 3])", "Box(0.0, 1.0, (2,), float32)"]
        );
    }
}
