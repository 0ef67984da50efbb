//! State of a sender's realtime data: until when there are any, and how many bytes of them may be duplicated.

use weftway_path::{Instant, Span};

/// For so long after the last of them there are realtime data: a voice may be silent for a while.
pub(super) const HOLD: Span = Span::from_secs(5);
/// Number of bytes a second that are duplicated: two voices of 64 kbit/s with their heads.
const DUPLICATES_PER_SECOND: u64 = 25_000;
/// Number of bytes that may be duplicated at once.
const DUPLICATES_AT_ONCE: u64 = 5_000;

/// State of a sender's realtime data.
#[derive(Clone, Copy, Debug)]
pub(super) struct Realtime {
    /// Until when there are any.
    pub until: Instant,
    /// Number of bytes that may be duplicated, as of a time.
    budget: (u64, Instant),
}

impl Default for Realtime {
    fn default() -> Self {
        Self { until: Instant::ZERO, budget: (DUPLICATES_AT_ONCE, Instant::ZERO) }
    }
}

impl Realtime {
    /// Takes so many bytes from the budget of duplicates, if it has them.
    pub fn may_duplicate(&mut self, now: Instant, bytes: u64) -> bool {
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
