//! The kernel's form: before a round of sending, all that is unsent is assigned anew.

use weftway_path::{BlockedReason, Context, Flow, Path, PathId, Span};

use super::windows::MOST;
use super::{Plan, Sttf, waiting};
use crate::shared::choose;

/// Most packets that the path holds and that are not in flight.
fn most(path: &Path) -> u64 {
    let room = path.queued.get().saturating_add(path.queue_room.get());
    room.div_ceil(path.mss.get()).min(MOST)
}

/// Returns true if new data may fall to the path.
fn takes_part(path: &Path) -> bool {
    path.is_open() || matches!(path.blocked, BlockedReason::Congestion | BlockedReason::Pacing)
}

impl Sttf {
    /// The next path to take packets back from: if the plan has changed, all of them, one after the other.
    pub(super) fn outdated(&self, cx: &Context<'_>) -> Option<PathId> {
        if self.plan != Plan::Recall {
            return None;
        }
        let path = cx.paths.iter().find(|path| waiting(path) > 0)?;
        let goes_on = self.rounds.recalled == Some(cx.now);
        let begins = self.rounds.sent != Some(cx.now);
        (goes_on || begins && self.differs(cx, cx.flow?)).then_some(path.id)
    }

    /// Returns true if a path's share of all that is unsent differs by more than one packet from what waits there.
    fn differs(&self, cx: &Context<'_>, flow: &Flow) -> bool {
        let members = || choose::standing(cx).filter(|path| takes_part(path));
        let Some(first) = members().next() else { return false };
        let sum = |sum: u64, packets: u64| sum.saturating_add(packets);
        let queued = cx.paths.iter().map(waiting).fold(0, sum);
        if queued - members().map(waiting).fold(0, sum).min(queued) > 1 {
            return true;
        }
        let fresh = flow.unsent.min(flow.edge.since(flow.next)).get().div_ceil(first.mss.get());
        let total = fresh.saturating_add(queued).min(MOST);
        let share = |path: &Path, time| self.share_behind(path, 0, time, total.min(most(path)));
        let assigned = |time| members().map(|path| share(path, time)).fold(0, sum);
        let total = total.min(assigned(Span::MAX));
        let last = least(|time| assigned(time) >= total);
        // What arrives before the last packet is settled; of those that arrive with it the first paths have theirs.
        let before = |path: &Path| last.as_nanos().checked_sub(1).map_or(0, |time| share(path, Span::from_nanos(time)));
        let mut left = total - members().map(before).fold(0, sum).min(total);
        members().any(|path| {
            let with_it = left.min(share(path, last) - before(path));
            left -= with_it;
            waiting(path).abs_diff(before(path) + with_it) > 1
        })
    }
}

/// The least time at which `holds` holds, which does so from some time on.
fn least(holds: impl Fn(Span) -> bool) -> Span {
    let (mut low, mut high) = (0, Span::MAX.as_nanos());
    while low < high {
        let middle = low + (high - low) / 2;
        if holds(Span::from_nanos(middle)) { high = middle } else { low = middle + 1 }
    }
    Span::from_nanos(high)
}
