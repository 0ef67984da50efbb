//! Lowest round-trip time first, with probes: a path that is not chosen is measured all the same.
//!
//! Rule: as min-RTT. Beside it, a path that may send, is not min-RTT's choice, has nothing in
//! flight and no sample for `interval_ms` carries one packet: a copy of the oldest data in flight
//! that it has not carried, or (`probe=data`) the packet at hand.
//! Reference: Lübben: RTTProbs, 2021, as described in comparisons, of which only the idea is known: min-RTT starves the
//! slower path of samples, so that its srtt keeps the queue of long ago, and probes refresh it.
//! State: when each path's newest sample came; the copying pointers.
//! Departs from print: the interval, what a probe carries, and that one sample counts by srtt's
//! usual eighth (`rank=latest`: in full) are ours. Backups rest, and are not probed.
//! `thin-stream` differs: it probes at the end of a burst, paths that have rested for some round trips of their own,
//! and ranks by the newest sample.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::copies::Copies;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "rtt-probs",
    aliases: &["rttprobs", "rtt-probes"],
    summary: "min-RTT, with a probe now and then on the paths that it does not choose",
    reference: "Lübben: RTTProbs, 2021, as described in comparisons",
    provenance: Provenance::Reconstructed,
    goal: "fresh round-trip times",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::InFlight],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    transport: TransportRules::RP,
    params: &[
        Param {
            name: "interval_ms",
            default: "100",
            values: "milliseconds, 1 to 60000",
            doc: "after how long without a sample a path is probed",
        },
        Param {
            name: "probe",
            default: "copy",
            values: "copy | data",
            doc: "what a probe carries: data in flight, for which nobody waits, or the packet at hand",
        },
        Param {
            name: "rank",
            default: "srtt",
            values: "srtt | latest",
            doc: "what the paths are ranked by: the smoothed round-trip time, or the newest sample",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(RttProbs {
        interval: Span::from_millis(params.within("interval_ms", 1..=60_000)?),
        with_data: params.choice("probe", &[("copy", false), ("data", true)])?,
        by_latest: params.choice("rank", &[("srtt", false), ("latest", true)])?,
        sampled: PerPath::default(),
        copies: Copies::default(),
    }))
}

#[derive(Clone)]
struct RttProbs {
    interval: Span,
    with_data: bool,
    by_latest: bool,
    /// Time at which the newest sample came. A path that was there at first has its handshake's, from time 0.
    sampled: PerPath<Instant>,
    copies: Copies,
}

impl RttProbs {
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_least(cx, |path| if self.by_latest { path.latest_rtt } else { path.srtt })
    }

    fn is_due(&self, cx: &Context<'_>, path: &Path) -> bool {
        let sampled = self.sampled.get(path.id).copied().unwrap_or_default();
        path.unacked() == Bytes::ZERO && cx.now.since(sampled) >= self.interval
    }

    /// A probe on a path other than `chosen`, if one is due and there is something to carry.
    fn probe(&mut self, cx: &Context<'_>, chosen: &Path) -> Option<Decision> {
        for path in choose::candidates(cx).filter(|path| path.id != chosen.id) {
            if !self.is_due(cx, path) {
                continue;
            }
            let data = || cx.packet.map(|_| Decision::Send(path.id));
            let probe = if self.with_data { data() } else { cx.flow.and_then(|flow| self.copies.repeat(path, flow)) };
            if probe.is_some() {
                return probe;
            }
        }
        None
    }
}

impl Scheduler for RttProbs {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let again = cx.packet.is_some_and(|packet| packet.reinjection);
        let Some(chosen) = self.pick(cx).filter(|_| !again) else { return choose::send_or_wait(cx, self.pick(cx)) };
        self.probe(cx, chosen).unwrap_or_else(|| choose::send_or_wait(cx, Some(chosen)))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.copies.observe(event);
        match *event {
            Event::Acked(receipt) => *self.sampled.at(receipt.path) = cx.now,
            Event::PathUp(path) => *self.sampled.at(path) = cx.now,
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let chosen = self.pick(cx)?;
        let due = choose::candidates(cx).filter(|path| path.id != chosen.id && self.is_due(cx, path)).count();
        Some(format!("{:?} has the smallest time; {due} idle paths are due for a probe", chosen.id))
    }
}
