//! Lowest time over space: the shortest round trip for each packet that the window still takes.
//!
//! Rule: `argmin srtt/f` over the paths that may send, the first of equals, with `f = cwnd −
//! inflight` in whole packets, at least one. Classes and data sent before as in min-RTT.
//! Reference: Kimura, Lima, Loureiro: Alternative Scheduling Decisions for Multipath TCP, IEEE Communications Letters
//! 2017.
//! State: none.
//! Departs from print: known from descriptions, which name its inputs. What waits in a path's queue
//! is not free window either. Packets of different sizes compare by `unit=bytes`.

use weftway_path::{Context, Decision, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::free_window::{UNIT, Unit};

pub(crate) static ENTRY: Entry = Entry {
    name: "lts",
    aliases: &["lowest-time-space"],
    summary: "the path with the smallest round-trip time over free window",
    reference: "Kimura, Lima, Loureiro: Alternative Scheduling Decisions for Multipath TCP, IEEE Communications Letters 2017",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight],
    transport: TransportRules::RP,
    params: &[UNIT],
    build: |params| Ok(Box::new(Lts(Unit::of(params)?))),
    ..Entry::NEW
};

#[derive(Clone)]
struct Lts(Unit);

impl Lts {
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick(cx, |a, b| self.time_for_space(a, b) < self.time_for_space(b, a))
    }

    /// `srtt` of `a` times the space of `b`.
    #[inline]
    fn time_for_space(&self, a: &Path, b: &Path) -> u128 {
        a.srtt.as_nanos() as u128 * self.0.space(b) as u128
    }
}

impl Scheduler for Lts {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let (unit, space) = (self.0.name(), self.0.space(path));
        Some(format!("{:?}: {} for {space} {unit}", path.id, path.srtt))
    }
}
