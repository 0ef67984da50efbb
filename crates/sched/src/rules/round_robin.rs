//! Round robin by segments, as the kernel module and other stacks do it.
//!
//! Rule: each path has a quota of `num_segments`. A path in the middle of its quota goes on; else
//! an unused path is next; when every available quota is used up, all start again. As ns-3 does
//! it (`rr_order=next`), the path after the one that went last is next, `(last + 1) mod n`; as
//! mp-quic-go does it (`rr_order=fewest`), `argmin ⌊packets sent/num_segments⌋`. A path counts
//! as available while its window has room (`cwnd_limited`), so bulk transfers become ACK-clocked;
//! blind, the turn's owner is waited for, and the slowest path sets the pace of all.
//! Data sent before: an available path that they need not avoid, else any, in the same order.
//! Reference: multipath-tcp/mptcp net/mptcp/mptcp_rr.c; nsnam/ns-3 (MPTCP fork); mp-quic-go.
//! State: segments of the current quota, per path; the path that sent new data last.
//! Departs from print: the turn starts with the first path, as the papers draw it (the kernel
//! takes the last unused path of its list: `rr_order=kernel`). Our list begins with the oldest path. Up to
//! MPTCP v0.93 the kernel's began with the newest, and its last path was our first. Backups rest while
//! an active path lives; the kernel module ignores that flag.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BlockedReason, Context, Decision, Event, Path, PathId, PathSet, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "round-robin",
    aliases: &["rr", "roundrobin"],
    summary: "each path in turn",
    reference: "multipath-tcp/mptcp net/mptcp/mptcp_rr.c",
    provenance: Provenance::Code,
    goal: "load balance",
    application: "testing",
    inputs: &[Input::Size],
    needs: Needs { events: true, ..Needs::NONE },
    waits: true,
    presets: &[
        Preset {
            name: "blind-rr",
            switches: "cwnd_limited=false",
            doc: "strict turns: a full owner is waited for, so that every path carries the same share",
        },
        Preset {
            name: "ns3-rr",
            switches: "rr_order=next",
            doc: "as in an MPTCP fork of ns-3: the next path with room",
        },
        Preset {
            name: "mp-quic-go-rr",
            switches: "rr_order=fewest",
            doc: "as in mp-quic-go: the path that has sent the fewest packets",
        },
        Preset { name: "kernel-rr", switches: "rr_order=kernel", doc: "as in the MPTCP v0.9x kernel module" },
    ],
    params: &[
        Param {
            name: "num_segments",
            default: "1",
            values: "segments, 1 to 10000",
            doc: "how many segments a path sends in one turn",
        },
        Param {
            name: "cwnd_limited",
            default: "true",
            values: "true | false",
            doc: "skip paths without window; false: wait for the turn's owner (blind round robin)",
        },
        Param {
            name: "rr_order",
            default: "first",
            values: "first | kernel | next | fewest",
            doc: "which path is next: the first unused one, the last unused one as in the kernel, the one after the last \
                  sender as in ns-3, or the one with the fewest packets sent as in mp-quic-go",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(RoundRobin {
        quota: params.within("num_segments", 1..=10_000)?,
        cwnd_limited: params.get("cwnd_limited")?,
        order: params.choice("rr_order", ORDERS)?,
        used: PerPath::default(),
        last: None,
    }))
}

const ORDERS: &[(&str, Order)] =
    &[("first", Order::First), ("kernel", Order::Last), ("next", Order::Next), ("fewest", Order::Fewest)];

/// Which path is next.
#[derive(Clone, Copy)]
enum Order {
    First,
    Last,
    Next,
    Fewest,
}

#[derive(Clone)]
struct RoundRobin {
    quota: u64,
    cwnd_limited: bool,
    order: Order,
    used: PerPath<u64>,
    last: Option<PathId>,
}

impl RoundRobin {
    fn is_available(&self, path: &Path) -> bool {
        path.is_open()
            || !self.cwnd_limited && matches!(path.blocked, BlockedReason::Congestion | BlockedReason::Pacing)
    }

    fn used(&self, path: PathId) -> u64 {
        self.used.get(path).copied().unwrap_or(0)
    }

    /// The next of `paths` by the order alone.
    fn next<'a>(&self, mut paths: impl Iterator<Item = &'a Path>) -> Option<&'a Path> {
        match self.order {
            Order::First => paths.next(),
            Order::Last => paths.last(),
            // Paths up to the last sender come after all others.
            Order::Next => paths.min_by_key(|path| (self.last.is_some_and(|last| path.id <= last), path.id)),
            Order::Fewest => choose::least(paths, |path| path.sent.packets / self.quota),
        }
    }

    /// Whose turn it is; none when every quota is used up.
    fn owner<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let available = || choose::standing(cx).filter(|path| self.is_available(path));
        let goes_on = |path: &&Path| (1..self.quota).contains(&self.used(path.id));
        match self.order {
            Order::First | Order::Last => {
                available().find(goes_on).or_else(|| self.next(available().filter(|path| self.used(path.id) == 0)))
            }
            Order::Next => {
                let last = available().find(|path| Some(path.id) == self.last);
                last.filter(goes_on).or_else(|| self.next(available()))
            }
            Order::Fewest => self.next(available()),
        }
    }

    /// A path for data sent before.
    fn owner_again<'a>(&self, cx: &Context<'a>, avoid: PathSet) -> Option<&'a Path> {
        let others = choose::candidates(cx).filter(|path| !avoid.contains(path.id));
        self.next(others).or_else(|| self.next(choose::candidates(cx)))
    }

    fn note_sent(&mut self, path: PathId, segments: u64) {
        // Taking turns, a path begins anew when another has gone before it or its quota is used up.
        let begins = matches!(self.order, Order::Next) && (self.last != Some(path) || self.used(path) >= self.quota);
        let used = self.used.at(path);
        *used = if begins { segments } else { used.saturating_add(segments) };
        self.last = Some(path);
    }

    fn start_again(&mut self, cx: &Context<'_>) {
        for path in choose::standing(cx) {
            if self.is_available(path) {
                *self.used.at(path.id) = 0;
            }
        }
    }
}

impl Scheduler for RoundRobin {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if let Some(packet) = cx.packet.filter(|packet| packet.reinjection) {
            return choose::send_or_wait(cx, self.owner_again(cx, packet.avoid));
        }
        // A second question finds the quotas already cleared and the same owner.
        let owner = self.owner(cx).or_else(|| {
            self.start_again(cx);
            self.owner(cx)
        });
        choose::send_or_wait(cx, owner.filter(|path| path.is_open()))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(receipt, SendKind::Fresh) => {
                let mss = cx.path(receipt.path).map_or(receipt.bytes, |path| path.mss);
                self.note_sent(receipt.path, receipt.bytes.get().div_ceil(mss.get().max(1)));
            }
            Event::PathUp(path) => self.used.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        Some(match self.owner(cx) {
            Some(path) => format!("turn of {:?}: {} of {} segments", path.id, self.used(path.id), self.quota),
            None => "every quota is used up: a new round".to_owned(),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::{Bytes, Receipt};

    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn a_large_write_counts_as_the_segments_it_takes() {
        let params = Params::new("round-robin", ENTRY.params, &[("num_segments".into(), "4".into())]).unwrap();
        let mut rr = build(&params).unwrap();
        let bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 20, 10, 0)]);
        let sent = |bytes| {
            let receipt =
                Receipt { path: PathId::new(0), offset: Default::default(), bytes: Bytes::new(bytes), serial: 0 };
            Event::Sent(receipt, SendKind::Fresh)
        };
        // 3000 bytes are three segments of 1400; the fourth ends the turn.
        rr.observe(&bench.context(), &sent(3000));
        assert_eq!(rr.select(&bench.context()), Decision::Send(PathId::new(0)));
        rr.observe(&bench.context(), &sent(1));
        assert_eq!(rr.select(&bench.context()), Decision::Send(PathId::new(1)));
    }
}
