//! Paths whose forecasts are to be made anew: a question looks at those that changed, and not at all of them.

use weftway_path::{Instant, PathId, PathSet, Span};

use super::estimate::Estimate;

/// Time after which all paths are looked at, though nothing was told of them.
const LOOK: Span = Span::from_millis(2);

/// What is known of the paths' forecasts without looking at them.
#[derive(Clone, Default)]
pub(super) struct Outlook {
    /// Paths of which something was told since they were looked at.
    pub changed: PathSet,
    /// Paths that were looked at.
    pub known: PathSet,
    /// Those that were open at the last question.
    open: PathSet,
    /// Those whose forecasts change with the time.
    moving: PathSet,
    /// Time at which all are looked at again.
    look_at: Instant,
    /// Those of which an acknowledgement has been overdue for more than a round trip.
    pub silent: PathSet,
    /// None holds data that take longer than this at its measured rate.
    pub longest_left: Span,
}

impl Outlook {
    /// The paths to look at of `all`, which are here now: those that have changed, opened or change with the time; now
    /// and then, or if `each`, all of them.
    #[inline(always)]
    pub fn due(&mut self, now: Instant, all: PathSet, open: PathSet, each: bool) -> PathSet {
        let opened = open.minus(core::mem::replace(&mut self.open, open));
        if now >= self.look_at || each {
            *self = Self { changed: self.changed, open, look_at: now + LOOK, ..Self::default() };
            return all;
        }
        (self.known, self.silent) = (self.known.and(all), self.silent.and(all));
        self.changed.or(opened).or(self.moving).or(all.minus(self.known)).and(all)
    }

    /// The forecast of `path` is that of now.
    #[inline(always)]
    pub fn note(&mut self, now: Instant, path: PathId, estimate: &Estimate) {
        let forecast = estimate.predicted();
        let until = estimate.holds_until();
        let moves = until <= now + Span::from_nanos(1);
        self.changed = self.changed.without(path);
        self.known = self.known.with(path);
        self.moving = self.moving.put(path, moves);
        self.silent = self.silent.put(path, forecast.is_silent());
        self.longest_left = self.longest_left.max(forecast.clears);
        if !moves {
            self.look_at = self.look_at.min(until);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::path;

    #[test]
    fn a_question_looks_at_what_changed_and_now_and_then_at_all() {
        let (at, set) = (Instant::from_millis, |paths: &[u8]| {
            paths.iter().fold(PathSet::EMPTY, |set, path| set.with(PathId::new(*path)))
        });
        let (all, open) = (set(&[0, 1, 2]), set(&[0]));
        let mut holds = Estimate::default();
        holds.forecast(at(0), &path(0, 20, 100, 0), None);
        let mut outlook = Outlook::default();
        assert_eq!(outlook.due(at(0), all, open, false), all);
        all.iter().for_each(|path| outlook.note(at(0), path, &holds));
        assert_eq!(outlook.due(at(1), all, open, false), PathSet::EMPTY);
        outlook.changed = set(&[1]);
        assert_eq!(outlook.due(at(1), all, set(&[0, 2]), false), set(&[1, 2]), "one changed, one opened");
        // A forecast that ends at once is made anew each time.
        outlook.note(at(1), PathId::new(1), &Estimate::default());
        assert_eq!(outlook.due(at(1), all, set(&[0, 2]), false), set(&[1]));
        assert_eq!(outlook.due(at(1), set(&[0, 3]), open, false), set(&[3]), "a new one, and one that left");
        assert_eq!(outlook.due(at(2), all, open, false), all);
    }
}
