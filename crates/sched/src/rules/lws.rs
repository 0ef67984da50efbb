//! Largest window space: the path with the most free window.
//!
//! Rule: `argmax f` over the paths that may send, `f = cwnd − inflight` in whole packets; among
//! equals the smallest srtt, then the first. Classes and data sent before as in min-RTT.
//! Reference: Kimura, Lima, Loureiro: Alternative Scheduling Decisions for Multipath TCP, IEEE Communications Letters
//! 2017.
//! State: none.
//! Departs from print: known from descriptions, which name its inputs; that the round-trip time
//! settles a tie is ours. What waits in a path's queue is not free window either. Packets of
//! different sizes compare by `unit=bytes`.

use core::cmp::Reverse;

use weftway_path::{Context, Decision, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::free_window::{UNIT, Unit};

pub(crate) static ENTRY: Entry = Entry {
    name: "lws",
    aliases: &["largest-window-space"],
    summary: "the path with the most free window",
    reference: "Kimura, Lima, Loureiro: Alternative Scheduling Decisions for Multipath TCP, IEEE Communications Letters 2017",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight],
    transport: TransportRules::RP,
    params: &[UNIT],
    build: |params| Ok(Box::new(Lws(Unit::of(params)?))),
    ..Entry::NEW
};

#[derive(Clone)]
struct Lws(Unit);

impl Lws {
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_least(cx, |path| (Reverse(self.0.space(path)), path.srtt))
    }
}

impl Scheduler for Lws {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let (unit, space) = (self.0.name(), self.0.space(path));
        Some(format!("{:?} has the most room, {space} {unit}", path.id))
    }
}
