//! TQUIC's schedulers.
//!
//! Rule: over the paths that may send,
//!   minrtt:    the smallest srtt, the first of equals;
//!   rr:        the next after the one used last;
//!   redundant: new data on the first path in the order of their numbers; each other path then
//!              owes a copy, and copies go before new data.
//! Data sent before go by the same rule, first off the paths that the transport says to avoid: none
//! under QUIC, where a lost frame is a frame again.
//! Reference: Tencent/tquic src/multipath_scheduler.
//! State: `rr`: the path used last; `redundant`: how far copying was found to be pointless.
//! Departs from print: TQUIC sends a copy even if the data have been acknowledged meanwhile, here
//! a path goes on after them. Backups rest while an active path lives; TQUIC has no such flag.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Flow, Path, PathId, PathSet};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::copies::Copies;

pub(crate) static ENTRY: Entry = Entry {
    name: "tquic",
    summary: "the schedulers of TQUIC: lowest round-trip time, each in turn, or everything on every path",
    reference: "Tencent/tquic src/multipath_scheduler",
    provenance: Provenance::Code,
    goal: "throughput",
    application: "general",
    inputs: &[Input::Rtt],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    presets: &[
        Preset { name: "tquic-minrtt", switches: "rule=minrtt", doc: "the lowest round-trip time, TQUIC's default" },
        Preset { name: "tquic-rr", switches: "rule=rr", doc: "TQUIC's round robin" },
        Preset { name: "tquic-redundant", switches: "rule=redundant", doc: "TQUIC's copies on every other path" },
    ],
    params: &[Param {
        name: "rule",
        default: "minrtt",
        values: "minrtt | rr | redundant",
        doc: "which of TQUIC's schedulers",
    }],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let rules = [("minrtt", Rule::MinRtt), ("rr", Rule::RoundRobin), ("redundant", Rule::Redundant)];
    Ok(Box::new(Tquic { rule: params.choice("rule", &rules)?, used: None, copies: Copies::default() }))
}

#[derive(Clone, Copy)]
enum Rule {
    MinRtt,
    RoundRobin,
    Redundant,
}

#[derive(Clone)]
struct Tquic {
    rule: Rule,
    used: Option<PathId>,
    copies: Copies,
}

impl Tquic {
    /// The open path for the packet at hand.
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        match self.rule {
            Rule::MinRtt => choose::min_rtt(cx),
            Rule::RoundRobin => {
                let avoid = cx.packet.map_or(PathSet::EMPTY, |packet| packet.avoid);
                self.in_turn(cx).find(|path| !avoid.contains(path.id)).or_else(|| self.in_turn(cx).next())
            }
            Rule::Redundant => choose::pick(cx, |_, _| false),
        }
    }

    /// The open paths, the one after the last used first.
    fn in_turn<'a>(&self, cx: &Context<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
        let used = self.used;
        let is_after = move |path: &&Path| used.is_none_or(|used| path.id > used);
        choose::candidates(cx).filter(is_after).chain(choose::candidates(cx).filter(move |path| !is_after(path)))
    }

    /// The copy that is due first, if any.
    fn copy(&mut self, cx: &Context<'_>, flow: &Flow) -> Option<Decision> {
        choose::candidates(cx).find_map(|path| self.copies.repeat(path, flow))
    }
}

impl Scheduler for Tquic {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let is_new = cx.packet.is_none_or(|packet| !packet.reinjection);
        if let (Rule::Redundant, true, Some(flow)) = (self.rule, is_new, cx.flow)
            && let Some(copy) = self.copy(cx, flow)
        {
            return copy;
        }
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        self.copies.observe(event);
        if let Event::Sent(receipt, _) = event {
            self.used = Some(receipt.path);
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        Some(match self.rule {
            Rule::MinRtt => format!("{:?} has the smallest srtt, {}", path.id, path.srtt),
            Rule::RoundRobin => format!("{:?} is next after {:?}", path.id, self.used),
            Rule::Redundant => format!("{:?} is the first that may send; the others owe its copies", path.id),
        })
    }
}
