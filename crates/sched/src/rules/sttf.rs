//! Shortest transfer time first: each unsent packet goes where it arrives first, counting the
//! windows that those before it must wait for; what a full path will carry stays unsent until then.
//!
//! Rule: with `rtt` the newest sample, `f = (cwnd − inflight)/mss` and `q` packets in the queue,
//! this one included,
//!   `T = rtt/2` if `q ≤ f`, else `(r + ½)·rtt`, `r` the least with `w₁ + … + w_r ≥ q − f`,
//! where the window grows from `w₀ = cwnd`: in slow start `min(2w, ssthresh)`, else `w + 1`. The
//! smallest `T` wins, the first of equals. All unsent packets are assigned so, in their order,
//! and again whenever something changes: `plan=virtual` finds the first of them that falls to a
//! path with room, and sends just that one. If all fall to full paths, it waits.
//! `plan=recall` is the kernel's: packets wait in the queues of their paths. Before the first packet
//! of each time all unsent ones are assigned anew, those in the queues included; if a path's share
//! then differs from what waits there by more than one, all of them are taken back.
//! Reference: Hurtig, Grinnemo, et al.: Low-latency scheduling in MPTCP, IEEE/ACM ToN 2019; DaAllexx/mptcp
//! mptcp_sttf.c; vkirany/mptcp-kau.
//! State: what was sent ahead of data that are not; the first round-trip times; when packets were
//! last sent and taken back.
//! Departs from print: `plan=virtual` has no tolerance, and nothing to take back. `plan=queue`
//! queues and leaves packets there. `plan=recall` assigns no more than window and queues take, and
//! once at a time. Data sent before need room, and go first off the paths that have carried them, and
//! backups rest while an active path lives; the module minds none of the three.

mod holes;
mod rounds;
mod windows;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BlockedReason, Bytes, Context, Decision, Event, Flow, Instant, Path, SendKind, Span};

use self::holes::Holes;
use self::windows::{Growth, MOST, Windows};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "sttf",
    aliases: &["shortest-transfer-time-first", "shortest-transmission-time-first"],
    version: 2,
    summary: "the path of the shortest transfer time, over all that is unsent",
    reference: "Hurtig, Grinnemo, et al.: Low-latency scheduling in MPTCP, IEEE/ACM ToN 2019; DaAllexx/mptcp mptcp_sttf.c",
    provenance: Provenance::Code,
    goal: "completion time",
    application: "web and interactive",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Mss, Input::Queue],
    needs: Needs { flow: true, queueing: true, ahead: true, recall: true, events: true, ..Needs::NONE },
    waits: true,
    transport: TransportRules { opportunistic: true, penalise: false },
    presets: &[
        Preset {
            name: "sttf-kernel",
            switches: "plan=recall",
            doc: "as in the kernel: queued packets are taken back when the plan changes",
        },
        Preset { name: "sttf-v1", switches: "slow_start=v1", doc: "windows grow as in the first version of the code" },
        Preset {
            name: "sttf-v2",
            switches: "near=10",
            doc: "the second version of the code: min-RTT where round-trip times hardly differ",
        },
    ],
    params: &[
        Param {
            name: "plan",
            default: "virtual",
            values: "virtual | queue | recall",
            doc: "where packets wait that fall to a full path: with the connection, in the path's queue for good, or there until the plan changes",
        },
        Param {
            name: "slow_start",
            default: "v2",
            values: "v2 | v1",
            doc: "v2: a window below ssthresh doubles up to it; v1: also at ssthresh, and beyond it",
        },
        Param {
            name: "near",
            default: "0",
            values: "percent, 0 to 100",
            doc: "min-RTT decides if the first round-trip times, in jiffies of 4 ms, differ by less than this, or by one; 0: never",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Sttf {
        growth: params.choice("slow_start", &[("v2", Growth::UpToThreshold), ("v1", Growth::PastThreshold)])?,
        plan: params.choice("plan", &[("virtual", Plan::Virtual), ("queue", Plan::Queue), ("recall", Plan::Recall)])?,
        near: params.within("near", 0..=100)?,
        first_rtts: PerPath::default(),
        holes: Holes::default(),
        rounds: Rounds::default(),
    }))
}

/// The resolution of the kernel's clock, at the 250 Hz that distributions choose.
const JIFFY: Span = Span::from_millis(4);

/// Jiffies, as the kernel counts a time in them.
fn jiffies(time: Span) -> u64 {
    time.as_nanos().div_ceil(JIFFY.as_nanos())
}

/// Place where packets wait that fall to a full path.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Plan {
    Virtual,
    Queue,
    Recall,
}

#[derive(Clone)]
struct Sttf {
    growth: Growth,
    plan: Plan,
    near: u64,
    /// Zero until a path has been seen with one.
    first_rtts: PerPath<Span>,
    holes: Holes,
    rounds: Rounds,
}

/// Times at which packets were last sent and taken back.
#[derive(Clone, Default)]
struct Rounds {
    sent: Option<Instant>,
    /// None as soon as one is sent again.
    recalled: Option<Instant>,
}

impl Rounds {
    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match event {
            Event::Sent(..) => *self = Self { sent: Some(cx.now), recalled: None },
            Event::Recalled(_) => self.recalled = Some(cx.now),
            _ => {}
        }
    }
}

/// The newest round-trip time.
fn rtt(path: &Path) -> Span {
    if path.latest_rtt.is_zero() { path.srtt } else { path.latest_rtt }
}

/// Packets that the window has room for, those in the path's queue included. Most full paths have
/// neither room nor a queue, and divisions cost.
#[inline]
fn free(path: &Path) -> u64 {
    let room = path.cwnd.saturating_sub(path.bytes_in_flight);
    if room < path.mss { 0 } else { room.packets(path.mss) }
}

#[inline]
fn waiting(path: &Path) -> u64 {
    if path.queued == Bytes::ZERO { 0 } else { path.queued.get().div_ceil(path.mss.get()) }
}

impl Sttf {
    /// The transfer time of a packet assigned to `path` now.
    fn transfer(&self, path: &Path) -> Span {
        if path.space() >= path.mss {
            return rtt(path) / 2;
        }
        let (queue, free) = (waiting(path).saturating_add(1), free(path));
        if queue <= free {
            return rtt(path) / 2;
        }
        rtt(path) * Windows::of(path, self.growth).rounds(queue - free) + rtt(path) / 2
    }

    /// Returns how many of the unsent packets `path` takes with a transfer time within `time`, or `limit`.
    fn share(&self, path: &Path, time: Span, limit: u64) -> u64 {
        self.share_behind(path, waiting(path), time, limit)
    }

    /// Does as `takes`, with so many packets in the path's queue.
    fn share_behind(&self, path: &Path, queue: u64, time: Span, limit: u64) -> u64 {
        let rtt = rtt(path);
        let Some(left) = time.as_nanos().checked_sub((rtt / 2).as_nanos()) else { return 0 };
        let rounds = match rtt.as_nanos() {
            ns if left < ns => 0,
            ns => left.checked_div(ns).unwrap_or(u64::MAX),
        };
        let free = free(path);
        if rounds == 0 && free <= queue {
            return 0;
        }
        // What waits there already comes first.
        let enough = limit.saturating_add(queue).saturating_sub(free);
        let windows = Windows::of(path, self.growth).hold(rounds, enough);
        free.saturating_add(windows).saturating_sub(queue).min(limit)
    }

    /// Returns how many unsent packets fall to full paths before one falls to the open path `open`: those
    /// whose time is less, or the same on a path that comes before it. No more than `limit`.
    fn elsewhere(&self, cx: &Context<'_>, open: &Path, limit: u64) -> u64 {
        let time = self.transfer(open);
        let full = choose::standing(cx)
            .filter(|path| matches!(path.blocked, BlockedReason::Congestion | BlockedReason::Pacing));
        full.fold(0, |sum, path| match time.as_nanos().checked_sub(u64::from(path.id > open.id)) {
            Some(within) if sum < limit => sum + self.share(path, Span::from_nanos(within), limit - sum),
            _ => sum,
        })
    }

    /// The first unsent packet that falls to a path with room, and that path.
    fn virtually(&self, cx: &Context<'_>, flow: &Flow) -> Decision {
        let Some(path) = choose::least(choose::candidates(cx), |path| self.transfer(path)) else {
            return choose::wait(cx);
        };
        let unsent = flow.unsent.get().div_ceil(path.mss.get()).min(MOST);
        match self.elsewhere(cx, path, unsent) {
            0 => Decision::Send(path.id),
            skipped if skipped >= unsent => choose::wait(cx),
            skipped => match self.holes.past(flow, skipped, path.mss) {
                at if at + path.mss > flow.edge => choose::wait(cx),
                at => Decision::Ahead(path.id, at),
            },
        }
    }

    /// The path of the shortest transfer time, full or not.
    fn queueing<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let paths = choose::standing(cx).filter(|path| path.is_open() || choose::queues(path, cx));
        choose::least(paths, |path| self.transfer(path))
    }

    fn note_first_rtts(&mut self, cx: &Context<'_>) {
        for path in cx.paths {
            let first = self.first_rtts.at(path.id);
            if first.is_zero() {
                *first = rtt(path);
            }
        }
    }

    /// Returns true if the first round-trip times hardly differ.
    fn is_near(&self, cx: &Context<'_>) -> bool {
        let firsts = || choose::standing(cx).filter_map(|path| self.first_rtts.get(path.id).copied());
        let (Some(least), Some(most)) = (firsts().min().map(jiffies), firsts().max().map(jiffies)) else {
            return false;
        };
        most <= least + 1 || u128::from(most) * 100 < u128::from(least) * u128::from(100 + self.near)
    }
}

impl Scheduler for Sttf {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let (Some(packet), Some(flow)) = (cx.packet, cx.flow) else {
            return self.outdated(cx).map_or_else(|| choose::wait(cx), Decision::Recall);
        };
        if self.near > 0 {
            self.note_first_rtts(cx);
            if self.is_near(cx) {
                return choose::send_or_wait(cx, choose::min_rtt(cx));
            }
        }
        match () {
            () if packet.reinjection => choose::send_or_wait(cx, choose::pick_least(cx, |path| self.transfer(path))),
            () if self.plan == Plan::Virtual => self.virtually(cx, flow),
            () => match self.outdated(cx) {
                Some(path) => Decision::Recall(path),
                None => choose::send_or_wait(cx, self.queueing(cx)),
            },
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.rounds.observe(cx, event);
        match (*event, cx.flow) {
            (Event::Sent(sent, SendKind::Fresh | SendKind::Ahead), Some(flow)) if self.plan == Plan::Virtual => {
                self.holes.add(flow, sent.offset);
            }
            (Event::PathUp(path), _) => self.first_rtts.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        if let Some(path) = self.outdated(cx) {
            return Some(format!("the plan has changed: what waits on {path:?} is taken back"));
        }
        if self.plan != Plan::Virtual {
            let path = self.queueing(cx)?;
            return Some(format!("{:?} transfers in {}, {} before it", path.id, self.transfer(path), waiting(path)));
        }
        let open = choose::least(choose::candidates(cx), |path| self.transfer(path))?;
        let skipped = self.elsewhere(cx, open, MOST);
        Some(format!("{:?} transfers in {}; {skipped} packets fall to full paths before", open.id, self.transfer(open)))
    }
}

#[cfg(test)]
mod tests;
