//! For thin streams: the path of smallest one-way delay, and at the end of a burst its last packet on the other paths,
//! too, so that delays stay known.
//!
//! Rule: `argmin OWD` over the paths that may send, with `OWD` half the newest round-trip sample. A packet after which
//! nothing is unsent goes once more, before anything else happens, on each other path that may send and has carried
//! neither new data nor such a copy for more than `age·srtt`, as srtt was when it did; one that never has is due at
//! once. `probe=any` repeats every new packet so.
//! Reference: Frömmgen, Heuschkel, Koldehofe: MPTCP scheduling for thin streams, IEEE ICC 2018, by its authors'
//! schedulers progmp_min_owd, progmp_active_probing_redundant and progmp_active_probing_redundant_not_at_end
//! (AlexanderFroemmgen/mptcp_progmp_maci_evaluation_setups). The paper's text was not at hand.
//! State: when each path is due; the packet just sent.
//! Departs from print: there one scheduler goes by one-way delays and others, by the smoothed round-trip time, probe;
//! this does both (`owd=srtt`: as those that probe). Their kernel estimates the way out; hosts here measure round
//! trips, so that a one-way delay is half of one and unequal directions stay unseen. Their code adds five round trips
//! to a time in milliseconds without converting them: here they are five round trips. Of the application's writes
//! nothing is known here: a burst ends when nothing is unsent. Their subflows must not be LOSSY; here the host says
//! which paths may send.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Offset, Path, PathId, SendKind, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, permille};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "thin-stream",
    aliases: &["thin-streams"],
    version: 2,
    summary: "the path of smallest one-way delay; the last packet of a burst goes on rested paths, too",
    reference: "Frömmgen, Heuschkel, Koldehofe: MPTCP scheduling for thin streams, IEEE ICC 2018",
    provenance: Provenance::Code,
    goal: "latency",
    application: "interactive, thin streams",
    inputs: &[Input::Rtt],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    params: &[
        Param {
            name: "age",
            default: "5",
            values: "number, 0 to 1000",
            doc: "after how many of its round trips without a packet a path is probed",
        },
        Param {
            name: "probe",
            default: "end",
            values: "end | any",
            doc: "what is repeated on rested paths: the last packet of a burst, or any new one",
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
        at_end: params.choice("probe", &[("end", true), ("any", false)])?,
        smoothed: params.choice("owd", &[("latest", false), ("srtt", true)])?,
        due: PerPath::default(),
        last: None,
    }))
}

#[derive(Clone)]
struct ThinStream {
    age_permille: u64,
    at_end: bool,
    smoothed: bool,
    /// After when each path is probed; at once, if it has carried nothing.
    due: PerPath<Option<Instant>>,
    last: Option<Last>,
}

/// The packet just sent.
#[derive(Clone, Copy)]
struct Last {
    path: PathId,
    offset: Offset,
}

impl ThinStream {
    fn delay(&self, path: &Path) -> Span {
        if self.smoothed { path.srtt / 2 } else { path.latest_rtt / 2 }
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_least(cx, |path| self.delay(path))
    }

    fn is_due(&self, now: Instant, path: PathId) -> bool {
        self.due.get(path).copied().flatten().is_none_or(|due| due < now)
    }

    /// The copy of the packet just sent that is due first.
    fn probe(&self, cx: &Context<'_>) -> Option<Decision> {
        let last = self.last?;
        if self.at_end && cx.flow?.unsent > Bytes::ZERO {
            return None;
        }
        let path = choose::candidates(cx).find(|path| path.id != last.path && self.is_due(cx.now, path.id))?;
        Some(Decision::Repeat(path.id, last.offset))
    }
}

impl Scheduler for ThinStream {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let again = cx.packet.is_some_and(|packet| packet.reinjection);
        let probe = if again { None } else { self.probe(cx) };
        probe.unwrap_or_else(|| choose::send_or_wait(cx, self.pick(cx)))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(_, SendKind::Reinjection) => self.last = None,
            Event::Sent(sent, kind) => {
                let srtt = cx.path(sent.path).map_or(Span::ZERO, |path| path.srtt);
                *self.due.at(sent.path) = Some(cx.now + srtt.mul_div(self.age_permille, 1000));
                if kind != SendKind::Duplicate {
                    self.last = Some(Last { path: sent.path, offset: sent.offset });
                }
            }
            // It has been repeated wherever that was due, or there was nothing to repeat.
            _ => self.last = None,
        }
        if let Event::PathUp(path) = *event {
            self.due.reset(path);
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let chosen = self.pick(cx)?;
        let due = choose::candidates(cx).filter(|path| path.id != chosen.id && self.is_due(cx.now, path.id)).count();
        Some(format!("{:?} is {} away; {due} other paths have rested for long", chosen.id, self.delay(chosen)))
    }
}
