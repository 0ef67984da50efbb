//! Duration of the validation of a path.

use weftway_path::{Instant, Span};

/// A path's validation (RFC 9000 §8.2). What a path sends before it is validated is a challenge, and nothing else but
/// the answer to one.
#[derive(Clone, Copy, Debug, Default)]
pub(super) enum Validation {
    /// There is none.
    #[default]
    Over,
    /// The path is opened.
    Open,
    /// The first challenge left then.
    Sent(Instant),
    /// It took so long.
    Done(Span),
}

impl Validation {
    /// A datagram leaves.
    pub fn begin(&mut self, now: Instant) {
        *self = match *self {
            Self::Open => Self::Sent(now),
            // Which of them is answered is not known.
            Self::Sent(first) if first < now => Self::Over,
            other => other,
        };
    }

    /// The path is validated.
    pub fn end(&mut self, now: Instant) {
        if let Self::Sent(begin) = *self {
            *self = Self::Done(now.since(begin));
        }
    }

    /// Time that it took, once.
    pub fn take(&mut self) -> Option<Span> {
        let Self::Done(rtt) = *self else { return None };
        *self = Self::Over;
        Some(rtt)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn validated(mut validation: Validation, at: u64) -> Option<Span> {
        validation.end(ms(at));
        validation.take()
    }

    #[test]
    fn it_takes_from_the_challenge_to_the_answer_and_is_told_once() {
        let mut path = Validation::Open;
        path.begin(ms(10));
        path.begin(ms(10));
        path.end(ms(35));
        assert_eq!((path.take(), path.take()), (Some(Span::from_millis(25)), None));
    }

    #[test]
    fn a_second_challenge_leaves_it_open_which_one_was_answered() {
        let mut path = Validation::Open;
        path.begin(ms(10));
        path.begin(ms(1_010));
        assert_eq!(validated(path, 1_035), None);
    }

    #[test]
    fn a_path_that_is_not_opened_has_none() {
        let mut path = Validation::default();
        path.begin(ms(10));
        assert_eq!(validated(path, 35), None);
    }
}
