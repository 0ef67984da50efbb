//! Weighted round robin: each path carries a share in proportion to its congestion window.
//!
//! Rule: with weights `w` and credits `c`, both in bytes, a packet of `b` bytes goes on
//! `argmax c + w·b` over the paths with room, the first of equals; then every path's credit grows
//! by `w·b` and the sender's shrinks by all that was given out. So within a cycle a path gets
//! `w/Σw` of the bytes, spread evenly. A path without room keeps its credit, but no more than one
//! such share of a packet. `w` is the window, or with `weights=fixed` `ratio` for the first path and
//! `100 − ratio` for each other.
//! Data sent before: by credit, off the paths to avoid first.
//! Reference: Choi et al.: optimal load balancing scheduler for MPTCP, 2017, from summaries.
//! State: credits, per path; they add up to zero.
//! Departs from print: the optimisation that finds the weights was not at hand. By the abstract the throughput that
//! limited buffers allow is reached when the load is balanced between the subflows; the weights here are the windows,
//! as every summary says. They are read anew for each packet, not once a cycle.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Path, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "wrr",
    aliases: &["weighted-round-robin", "weighted-rr"],
    summary: "each path in turn, with a share in proportion to its congestion window",
    reference: "Choi et al.: optimal load balancing scheduler for MPTCP, 2017, from summaries",
    provenance: Provenance::Reconstructed,
    goal: "load balance",
    application: "bulk transfer",
    inputs: &[Input::Cwnd, Input::Mss, Input::Size],
    needs: Needs { events: true, ..Needs::NONE },
    presets: &[Preset {
        name: "atsss-load-balancing",
        switches: "weights=fixed",
        doc: "3GPP's load balancing: `ratio` percent of the data on the first path, the rest on the other",
    }],
    params: &[
        Param {
            name: "weights",
            default: "cwnd",
            values: "cwnd | fixed",
            doc: "shares by the windows in bytes, or fixed ones; blocks of segments instead: `rr`, `mptcp-ratio`",
        },
        Param {
            name: "ratio",
            default: "50",
            values: "percent, 1 to 99",
            doc: "fixed shares: how many of 100 segments the first path carries against each other path",
        },
    ],
    build,
    ..Entry::NEW
};

/// Windows and packets beyond these count as these: products stay below 2¹²⁷.
const LARGEST_WEIGHT: u64 = 1 << 56;
const LARGEST_PACKET: u64 = 1 << 56;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let fixed = params.choice("weights", &[("cwnd", false), ("fixed", true)])?;
    let ratio = params.within("ratio", 1..=99)?;
    Ok(Box::new(Wrr { ratio: fixed.then_some(ratio), credits: PerPath::default() }))
}

#[derive(Clone)]
struct Wrr {
    /// The first path's percentage; none: weights are windows.
    ratio: Option<u64>,
    credits: PerPath<i128>,
}

impl Wrr {
    fn weight(&self, path: &Path, is_first: bool) -> i128 {
        let weight = match self.ratio {
            None => path.cwnd.get().clamp(1, LARGEST_WEIGHT),
            Some(ratio) if is_first => ratio,
            Some(ratio) => 100 - ratio,
        };
        i128::from(weight)
    }

    fn credit(&self, path: &Path) -> i128 {
        self.credits.get(path.id).copied().unwrap_or(0)
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let size = size(cx.packet.map_or(Bytes::ZERO, |packet| packet.bytes));
        let first = choose::standing(cx).next().map(|path| path.id);
        let claim = |path: &Path| self.credit(path).saturating_add(self.weight(path, first == Some(path.id)) * size);
        choose::pick(cx, |a, b| claim(a) > claim(b))
    }

    /// Gives every path its share of a packet of `bytes` and charges `sender` for all of them.
    fn charge(&mut self, cx: &Context<'_>, sender: &Path, bytes: Bytes) {
        let mut given: i128 = 0;
        for (n, path) in choose::standing(cx).enumerate() {
            let share = self.weight(path, n == 0) * size(bytes);
            let credit = self.credits.at(path.id);
            let grown = credit.saturating_add(share);
            let takes_all = path.is_open() || path.id == sender.id;
            let grown = if takes_all { grown } else { grown.min(share).max(*credit) };
            given = given.saturating_add(grown.saturating_sub(*credit));
            *credit = grown;
        }
        let credit = self.credits.at(sender.id);
        *credit = credit.saturating_sub(given);
    }
}

fn size(bytes: Bytes) -> i128 {
    i128::from(bytes.get().clamp(1, LARGEST_PACKET))
}

impl Scheduler for Wrr {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(receipt, SendKind::Fresh) => {
                if let Some(sender) = cx.path(receipt.path) {
                    self.charge(cx, sender, receipt.bytes);
                }
            }
            // Credits add up to zero: who leaves or comes takes its own away.
            Event::PathUp(path) | Event::PathDown(path) => self.credits.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        Some(format!("{:?} has the largest claim: credit {}, window {}", path.id, self.credit(path), path.cwnd))
    }
}
