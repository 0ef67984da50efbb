//! Intervals with one decision each: when the next is due, and which one holds.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Instant, Span};

use crate::Mode;

/// Switch for the behaviour of the other paths meanwhile.
pub(crate) const MODE: Param = Param {
    name: "mode",
    default: "preferred",
    values: "preferred | exclusive",
    doc: "while the chosen path is full the others send, lowest srtt first; or nothing is sent. The papers' gains need the second, their fairness the first",
};
/// Switch for the time that a decision takes.
pub(crate) const DELAY: Param = Param {
    name: "decision_delay_ms",
    default: "0",
    values: "milliseconds, 0 to 10000",
    doc: "a decision takes effect so much later; 30 is what PDAA3C's took",
};

/// The switch [`MODE`].
pub(crate) fn mode(params: &Params) -> Result<Mode, SpecError> {
    params.choice("mode", &[("preferred", Mode::Preferred), ("exclusive", Mode::Exclusive)])
}

/// Intervals, and the choice that holds in one.
#[derive(Clone, Debug)]
pub(crate) struct Epochs<C> {
    length: Span,
    delay: Span,
    begin: Instant,
    /// Beginning of the next; none before the first.
    end: Option<Instant>,
    is_due: bool,
    chosen: Option<C>,
    pending: Option<(C, Instant)>,
}

impl<C> Epochs<C> {
    /// Intervals of `length`, which is not zero; choices take effect after `delay`.
    pub(crate) fn new(length: Span, delay: Span) -> Self {
        Self { length, delay, begin: Instant::ZERO, end: None, is_due: false, chosen: None, pending: None }
    }

    /// Ends the interval if it is over at `now`: how long it was. The first begins at once.
    #[inline]
    pub(crate) fn turn(&mut self, now: Instant) -> Option<Span> {
        if let Some((choice, _)) = self.pending.take_if(|(_, due)| now >= *due) {
            self.chosen = Some(choice);
        }
        if !self.is_over(now) {
            return None;
        }
        let passed = self.end.map_or(Span::ZERO, |_| now.since(self.begin));
        (self.begin, self.end, self.is_due) = (now, Some(now + self.length), true);
        Some(passed)
    }

    /// Returns true if the interval is over at `now`, or none has begun.
    #[inline]
    pub(crate) fn is_over(&self, now: Instant) -> bool {
        self.end.is_none_or(|end| now >= end)
    }

    /// Sets the length of intervals from the next one on.
    pub(crate) fn set_length(&mut self, length: Span) {
        self.length = length;
    }

    /// Since when the present interval lasts.
    pub(crate) fn begin(&self) -> Instant {
        self.begin
    }

    /// Returns true if this interval has no choice yet.
    pub(crate) fn is_due(&self) -> bool {
        self.is_due
    }

    /// The choice for this interval. Without an earlier one it holds at once.
    pub(crate) fn choose(&mut self, now: Instant, choice: C) {
        self.is_due = false;
        if self.chosen.is_none() || self.delay.is_zero() {
            (self.chosen, self.pending) = (Some(choice), None);
        } else {
            self.pending = Some((choice, now + self.delay));
        }
    }

    /// The choice that holds.
    pub(crate) fn chosen(&self) -> Option<&C> {
        self.chosen.as_ref()
    }

    /// Returns the time at which something changes by itself.
    pub(crate) fn wake(&self) -> Option<Instant> {
        let due = self.pending.as_ref().map(|(_, due)| *due);
        self.end.into_iter().chain(due).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_choice_takes_effect_after_its_delay() {
        let ms = Instant::from_millis;
        let mut epochs = Epochs::new(Span::from_millis(100), Span::from_millis(30));
        assert_eq!((epochs.turn(ms(5)), epochs.is_due()), (Some(Span::ZERO), true));
        epochs.choose(ms(5), 'a');
        assert_eq!((epochs.chosen(), epochs.wake()), (Some(&'a'), Some(ms(105))));
        assert_eq!((epochs.turn(ms(104)), epochs.is_due()), (None, false));
        assert_eq!(epochs.turn(ms(107)), Some(Span::from_millis(102)));
        epochs.choose(ms(107), 'b');
        assert_eq!((epochs.chosen(), epochs.wake()), (Some(&'a'), Some(ms(137))));
        assert_eq!((epochs.turn(ms(137)), epochs.chosen()), (None, Some(&'b')));
    }

    #[test]
    fn a_new_length_holds_from_the_next_interval_on() {
        let ms = Instant::from_millis;
        let mut epochs = Epochs::<()>::new(Span::from_millis(100), Span::ZERO);
        epochs.turn(ms(0));
        epochs.set_length(Span::from_millis(40));
        assert_eq!(epochs.wake(), Some(ms(100)));
        epochs.turn(ms(100));
        assert_eq!(epochs.wake(), Some(ms(140)));
    }
}
