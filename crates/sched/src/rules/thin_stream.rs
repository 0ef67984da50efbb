//! For thin streams: the path of smallest one-way delay, and copies on idle paths whose delay is
//! no longer known.
//!
//! Rule: `argmin OWD` over the paths that may send, with `OWD` half the newest round-trip sample.
//! Beside it, another path that may send, has nothing in flight and a newest sample older than
//! `age·srtt` of its own carries a copy of the oldest data in flight that it has not carried.
//! Reference: Frömmgen, Heuschkel, Koldehofe: MPTCP scheduling for thin streams, IEEE ICC 2018. Known are the two
//! ideas, one-way delays and the active probing of idle paths.
//! State: when each path's newest sample came; the copying pointers.
//! Departs from print: hosts here measure round trips, so that a one-way delay is half of one and
//! unequal directions stay unseen. Which sample (`owd`), the age of one round trip and the choice
//! of the data to copy are ours. A copy goes after the data it repeats, at the same time.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, permille};
use crate::shared::choose;
use crate::shared::probes::Probes;

pub(crate) static ENTRY: Entry = Entry {
    name: "thin-stream",
    aliases: &["thin-streams"],
    summary: "the path of smallest one-way delay; idle paths of unknown delay carry copies",
    reference: "Frömmgen, Heuschkel, Koldehofe: MPTCP scheduling for thin streams, IEEE ICC 2018",
    provenance: Provenance::Reconstructed,
    goal: "latency",
    application: "interactive, thin streams",
    inputs: &[Input::Rtt, Input::InFlight],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    params: &[
        Param {
            name: "age",
            default: "1",
            values: "number, 0 to 1000",
            doc: "after how many of its round trips a path's newest sample is too old",
        },
        Param {
            name: "owd",
            default: "latest",
            values: "latest | srtt",
            doc: "half of what the one-way delay is: a thin stream has few samples, and smoothing makes them old",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(ThinStream {
        age_permille: permille(params, "age", 0.0..=1000.0)?,
        smoothed: params.choice("owd", &[("latest", false), ("srtt", true)])?,
        probes: Probes::default(),
    }))
}

#[derive(Clone)]
struct ThinStream {
    age_permille: u64,
    smoothed: bool,
    probes: Probes,
}

impl ThinStream {
    fn delay(&self, path: &Path) -> Span {
        if self.smoothed { path.srtt / 2 } else { path.latest_rtt / 2 }
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_least(cx, |path| self.delay(path))
    }

    fn is_stale(&self, cx: &Context<'_>, path: &Path) -> bool {
        let limit = path.srtt.as_nanos() as u128 * self.age_permille as u128;
        self.probes.idle_for(cx.now, path).is_some_and(|age| age.as_nanos() as u128 * 1000 > limit)
    }

    fn probe(&mut self, cx: &Context<'_>, chosen: &Path) -> Option<Decision> {
        let flow = cx.flow?;
        let mut others = choose::candidates(cx).filter(|path| path.id != chosen.id);
        others.find_map(|path| if self.is_stale(cx, path) { self.probes.copy(path, flow) } else { None })
    }
}

impl Scheduler for ThinStream {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let again = cx.packet.is_some_and(|packet| packet.reinjection);
        let Some(chosen) = self.pick(cx).filter(|_| !again) else { return choose::send_or_wait(cx, self.pick(cx)) };
        self.probe(cx, chosen).unwrap_or_else(|| choose::send_or_wait(cx, Some(chosen)))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.probes.observe(cx, event);
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let chosen = self.pick(cx)?;
        let stale = choose::candidates(cx).filter(|path| path.id != chosen.id && self.is_stale(cx, path)).count();
        Some(format!("{:?} is {} away; {stale} idle paths have an old sample", chosen.id, self.delay(chosen)))
    }
}
