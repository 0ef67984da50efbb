//! Round robin by segments, as the kernel module does it.
//!
//! Rule: each path has a quota of `num_segments`. A path in the middle of its quota goes on; else
//! an unused path is next; when every available quota is used up, all start again. A path counts
//! as available while its window has room (`cwnd_limited`), so bulk transfers become ACK-clocked;
//! blind, the turn's owner is waited for, and the slowest path sets the pace of all.
//! Data sent before: an available path that has not carried them, else any.
//! Reference: multipath-tcp/mptcp `mptcp_rr.c`.
//! State: segments of the current quota, per path.
//! Departs from print: the turn starts with the first path, as the papers draw it (the kernel
//! takes the last unused path of its list: `rr_order=kernel`). Backups rest while an active path
//! lives; the kernel module ignores that flag.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Hold, Path, PathId, PathSet, SendKind};

use crate::Scheduler;
use crate::choose;
use crate::per_path::PerPath;
use crate::registry::{Arity, Entry, Input, Needs, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "round-robin",
    aliases: &["rr", "roundrobin"],
    version: 1,
    summary: "each path in turn",
    reference: "multipath-tcp/mptcp net/mptcp/mptcp_rr.c",
    provenance: Provenance::Code,
    goal: "load balance",
    application: "testing",
    inputs: &[Input::Size],
    needs: Needs { events: true, ..Needs::NONE },
    arity: Arity::Any,
    transport: TransportRules::NONE,
    presets: &[],
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
            values: "first | kernel",
            doc: "which of several unused paths is next: the first, or the last of the list as in the kernel",
        },
    ],
    build,
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(RoundRobin {
        quota: params.within("num_segments", 1..=10_000)?,
        cwnd_limited: params.get("cwnd_limited")?,
        last_first: params.choice("rr_order", &[("first", false), ("kernel", true)])?,
        used: PerPath::default(),
    }))
}

#[derive(Clone)]
struct RoundRobin {
    quota: u64,
    cwnd_limited: bool,
    last_first: bool,
    used: PerPath<u64>,
}

impl RoundRobin {
    fn is_available(&self, path: &Path) -> bool {
        path.is_open() || !self.cwnd_limited && matches!(path.hold, Hold::Congestion | Hold::Pacing)
    }

    fn used(&self, path: PathId) -> u64 {
        self.used.get(path).copied().unwrap_or(0)
    }

    /// Whose turn it is; none when every quota is used up.
    fn owner<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let mut unused = None;
        for path in choose::standing(cx).filter(|path| self.is_available(path)) {
            match self.used(path.id) {
                0 if unused.is_none() || self.last_first => unused = Some(path),
                used if (1..self.quota).contains(&used) => return Some(path),
                _ => {}
            }
        }
        unused
    }

    /// A path for data sent before.
    fn owner_again<'a>(&self, cx: &Context<'a>, carried: PathSet) -> Option<&'a Path> {
        let first = |skip: PathSet| choose::candidates(cx).find(|path| !skip.contains(path.id));
        let last = |skip: PathSet| choose::candidates(cx).filter(|path| !skip.contains(path.id)).last();
        let pick = |skip| if self.last_first { last(skip) } else { first(skip) };
        pick(carried).or_else(|| pick(PathSet::EMPTY))
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
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if let Some(packet) = cx.packet.filter(|packet| packet.again) {
            return choose::send_or_wait(cx, self.owner_again(cx, packet.carried));
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
                *self.used.at(receipt.path) += receipt.bytes.get().div_ceil(mss.get().max(1));
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

    use crate::testing::{Bench, path};

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
