//! picoquic's choice: the paths without timeouts take turns.
//!
//! Rule: the paths of best standing, whether they may send or not, are the active ones without an unanswered timeout;
//! if there are none, those with the fewest timeouts in a row, backups where they have fewer than every active path. Of
//! them the open one that sent longest ago goes; without one, wait. A backup that has been used counts as active from
//! then on. Data sent before go by the same rule, first off the paths that the transport says to avoid: none under
//! QUIC.
//! Reference: private-octopus/picoquic picoquic/paths.c, picoquic_select_next_path_tuple.
//! State: the order in which paths sent last; the backups that have been used.
//! Departs from print: challenges, acknowledgements (which go to the lowest `rtt_min` there), the affinity of streams
//! to paths and probes of paths with timeouts are the host's. picoquic compares times of sending; here a burst takes no
//! time, and the order of sending decides.

use weftway_path::{BlockedReason, Context, Decision, Event, Path, PathId, PathSet};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "picoquic",
    summary: "of the paths with the fewest timeouts, the one that sent longest ago",
    reference: "private-octopus/picoquic picoquic/paths.c, picoquic_select_next_path_tuple",
    provenance: Provenance::Code,
    goal: "use of every path",
    application: "general",
    inputs: &[Input::Loss],
    needs: Needs { events: true, ..Needs::NONE },
    waits: true,
    build: |_| Ok(Box::new(Picoquic::default())),
    ..Entry::NEW
};

#[derive(Clone, Default)]
struct Picoquic {
    /// Number of packets that had been sent when the path sent its last; 0 if it never has.
    last: PerPath<u64>,
    sent: u64,
    promoted: PathSet,
}

impl Picoquic {
    /// Rank of the path: a second choice or not, its timeouts in a row, a backup or not: the least stand best,
    /// and a backup steps in where it has fewer timeouts than every active path.
    fn standing(&self, path: &Path) -> (bool, u32, bool) {
        let is_backup = !path.is_active() && !self.promoted.contains(path.id);
        (is_backup || path.pto_count > 0, path.pto_count, is_backup)
    }

    fn last(&self, path: PathId) -> u64 {
        self.last.get(path).copied().unwrap_or(0)
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let is_known = |path: &&Path| path.blocked != BlockedReason::Validation;
        let best = cx.paths.iter().filter(is_known).map(|path| self.standing(path)).min()?;
        let avoid = cx.packet.map_or(PathSet::EMPTY, |packet| packet.avoid);
        let open = cx.sendable().filter(|path| self.standing(path) == best);
        choose::least(open, |path| (avoid.contains(path.id), self.last(path.id)))
    }
}

impl Scheduler for Picoquic {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(receipt, _) => {
                self.sent += 1;
                *self.last.at(receipt.path) = self.sent;
                if cx.path(receipt.path).is_some_and(|path| !path.is_active()) {
                    self.promoted = self.promoted.with(receipt.path);
                }
            }
            Event::PathUp(path) => {
                self.last.reset(path);
                self.promoted = self.promoted.without(path);
            }
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let (last, sent) = (self.last(path.id), self.sent);
        Some(format!("{:?} sent longest ago, packet {last} of {sent}; {} timeouts", path.id, path.pto_count))
    }
}
