//! Loss-aware throughput estimation: in each half round trip of the slowest path, every path may
//! send the part of its window that will arrive.
//!
//! Rule: a round gives each path `n = cwnd·(1000 − loss)/1000` packets, with `loss = 1000·lost/sent`
//! rounded down, and the path with the largest srtt, the master, its whole window; it lasts half
//! the master's srtt. Until it is over, an empty `n` is filled again, except the master's. The
//! path with the smallest srtt and `n > 0` is next, and is waited for while its window is full.
//! When no path has `n > 0`, a new round begins, and nothing is sent until something happens.
//! Reference: third-party module late for multipath-tcp v0.96; after Yang, Dong, Cai, Tang: LATE, IEEE TWC 2021. The
//! module is `mptcp_late.c`, author "Jonas"; the paper was not at hand.
//! State: `n` per path, the master, the end of the round.
//! Departs from print: the time is not rounded to jiffies. Data sent before go where min-RTT sends
//! them, and count; in the module they take their turn like new data. Backups rest while an active
//! path lives, and a path that may have failed while another is good; the module asks for neither
//! before it chooses, and waits for the latter. Because availability is tested after the choice, a
//! full fast path blocks the others; `full=pass` tests it before.

use core::cmp::Reverse;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path, PathId, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "late",
    aliases: &["loss-aware-throughput"],
    summary: "rounds of half the slowest round trip, in which each path sends what it will not lose",
    reference: "third-party module late for multipath-tcp v0.96; after Yang, Dong, Cai, Tang: LATE, IEEE TWC 2021",
    provenance: Provenance::Code,
    goal: "throughput under loss",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Mss, Input::Loss],
    needs: Needs { events: true, ..Needs::NONE },
    waits: true,
    transport: TransportRules::RP,
    params: &[Param {
        name: "full",
        default: "wait",
        values: "wait | pass",
        doc: "what a full path that is next does: it is waited for, as in the module, or passed over",
    }],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let passes_full = params.choice("full", &[("wait", false), ("pass", true)])?;
    Ok(Box::new(Late { passes_full, left: PerPath::default(), master: None, ends: Instant::ZERO, rests: false }))
}

#[derive(Clone)]
struct Late {
    passes_full: bool,
    /// Packets that each path may still send.
    left: PerPath<u64>,
    master: Option<PathId>,
    /// Time at which the round is over.
    ends: Instant,
    /// A round has just begun: nothing is sent until something happens.
    rests: bool,
}

/// Packets of the path's window that will arrive.
fn share(path: &Path) -> u64 {
    let permille = path.lost.packets.saturating_mul(1000).checked_div(path.sent.packets).unwrap_or(0);
    path.cwnd.packets(path.mss).saturating_mul(1000_u64.saturating_sub(permille)) / 1000
}

impl Late {
    fn left(&self, path: &Path) -> u64 {
        self.left.get(path.id).copied().unwrap_or(0)
    }

    fn begin(&mut self, cx: &Context<'_>) {
        let Some(master) = choose::least(choose::standing(cx), |path| Reverse(path.srtt)) else { return };
        self.master = Some(master.id);
        self.ends = cx.now + master.srtt / 2;
        for path in cx.paths {
            *self.left.at(path.id) = if path.id == master.id { path.cwnd.packets(path.mss) } else { share(path) };
        }
    }

    /// Fills what is used up, while the round lasts.
    fn refill(&mut self, cx: &Context<'_>) {
        if cx.now >= self.ends {
            return;
        }
        for path in cx.paths.iter().filter(|path| Some(path.id) != self.master) {
            let left = self.left.at(path.id);
            if *left == 0 {
                *left = share(path);
            }
        }
    }

    /// Whose turn it is, full or not; none when every path has sent what it may.
    fn next<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let may = |path: &&Path| self.left(path) > 0 && (path.is_open() || !self.passes_full);
        choose::least(choose::standing(cx).filter(may), |path| path.srtt)
    }
}

impl Scheduler for Late {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(packet) = cx.packet else { return Decision::Wait };
        if packet.reinjection {
            return choose::send_or_wait(cx, choose::min_rtt(cx));
        }
        if self.rests {
            return choose::wait(cx);
        }
        self.refill(cx);
        if let Some(next) = self.next(cx) {
            return choose::send_or_wait(cx, Some(next).filter(|path| path.is_open()));
        }
        self.begin(cx);
        self.rests = true;
        choose::wait(cx)
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        self.rests = false;
        match *event {
            Event::Sent(receipt, SendKind::Fresh | SendKind::Reinjection) => {
                let left = self.left.at(receipt.path);
                *left = left.saturating_sub(1);
            }
            Event::PathUp(path) => self.left.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (master, ends) = (self.master?, self.ends);
        Some(match self.next(cx) {
            Some(path) => format!("master {master:?} until {ends}: {:?} may send {} more", path.id, self.left(path)),
            None => format!("master {master:?} until {ends}: every path has sent what it may"),
        })
    }
}
