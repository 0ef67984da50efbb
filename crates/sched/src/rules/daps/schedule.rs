//! Deliveries in the order of their times, without a list of them.

use weftway_path::{BlockedReason, Context, Path, PathId, Span};

use crate::shared::choose;
use crate::shared::per_path::PerPath;

/// Schedule of deliveries by path. Times are in microseconds.
#[derive(Clone, Default)]
pub(super) struct Schedule {
    /// 0 without a schedule.
    end: u64,
    rows: PerPath<Row>,
}

/// The deliveries of one path: of the one at `due`, `left` segments are to come; `quota` more after each `delay`.
#[derive(Clone, Default)]
struct Row {
    /// 0: the path is not in the schedule.
    delay: u64,
    srtt: Span,
    quota: u64,
    due: u64,
    left: u64,
}

/// The paths whose deliveries can be served, at once or from their queues.
fn usable<'a>(cx: &Context<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
    choose::standing(cx)
        .filter(|path| matches!(path.blocked, BlockedReason::None | BlockedReason::Congestion | BlockedReason::Pacing))
}

fn common_divisor(mut a: u64, mut b: u64) -> u64 {
    while b != 0 {
        (a, b) = (b, a % b);
    }
    a
}

impl Schedule {
    /// Makes a schedule of `(delay, quota)` for the paths that can be used, no longer than `cap`
    /// or one delay.
    pub(super) fn plan(&mut self, cx: &Context<'_>, cap: u64, what: impl Fn(&Path) -> (u64, u64)) {
        let (mut multiple, mut longest) = (1_u64, 0);
        cx.paths.iter().for_each(|path| self.rows.reset(path.id));
        for path in usable(cx) {
            let (delay, quota) = what(path);
            longest = longest.max(delay);
            if multiple < cap {
                multiple = (multiple / common_divisor(multiple, delay)).saturating_mul(delay);
            }
            *self.rows.at(path.id) = Row { delay, srtt: path.srtt, quota, due: delay, left: quota };
        }
        self.end = multiple.min(cap).max(longest);
    }

    pub(super) fn discard(&mut self) {
        self.end = 0;
    }

    /// The path of the earliest delivery that is not complete.
    pub(super) fn next<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let rows = usable(cx).filter_map(|path| Some((self.rows.get(path.id)?, path)));
        let rest = rows.filter(|(row, _)| row.delay > 0 && row.due <= self.end);
        let key = |row: &Row| (row.due, row.srtt);
        rest.reduce(|best, row| if key(row.0) < key(best.0) { row } else { best }).map(|(_, path)| path)
    }

    /// A segment went to `path`.
    pub(super) fn note_sent(&mut self, path: PathId) {
        let row = self.rows.at(path);
        row.left = row.left.saturating_sub(1);
        if row.left == 0 {
            (row.due, row.left) = (row.due.saturating_add(row.delay), row.quota);
        }
    }

    /// Returns the state of `path`, for a log.
    pub(super) fn explain(&self, path: PathId) -> Option<String> {
        let row = self.rows.get(path)?;
        let at = |micros| Span::from_micros(1) * micros;
        let (due, end) = (at(row.due), at(self.end));
        Some(format!("{path:?} owes {} of {} segments due at {due} of {end}", row.left, row.quota))
    }
}
