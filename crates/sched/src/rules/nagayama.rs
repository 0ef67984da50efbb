//! State-driven: min-RTT among the paths that repair nothing, and no switch without need.
//!
//! Rule: a path is sound while its recovery state is Open, or nothing is in flight. The path of the last new packet is
//! kept while it may send and is sound, unless another such path has an srtt below `(1 − gain)` times its own. Else the
//! path of smallest srtt among those that may send and are sound is next. If none is: as in min-RTT (`none=any`), or
//! wait for one (`none=wait`).
//! Reference: Nagayama et al.: TCP state driven MPTCP packet scheduling for streaming video, 2018; Matsufuji et al.,
//! 2017. Known are the restriction to subflows in state Open, and that switching paths is to be avoided.
//! State: the path of the last new packet.
//! Departs from print: the gain that is worth a switch, and what happens when no path is Open, are ours. Data sent
//! before go as in min-RTT: a repair is not held up by the state. Under QUIC losses may be repaired elsewhere, and the
//! state then lasts until the path carries something new: hence "or nothing is in flight".

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Path, PathId, Recovery, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, TransportRules};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "nagayama",
    aliases: &["matsufuji", "tcp-state-driven"],
    summary: "min-RTT among the paths in state Open, staying on the last one while it is nearly as fast",
    reference: "Nagayama et al.: TCP state driven MPTCP packet scheduling for streaming video, 2018; Matsufuji et al., 2017",
    provenance: Provenance::Reconstructed,
    goal: "few path switches",
    application: "streaming video",
    inputs: &[Input::Rtt, Input::Loss],
    needs: Needs { events: true, ..Needs::NONE },
    waits: true,
    transport: TransportRules::RP,
    params: &[
        Param {
            name: "gain",
            default: "20",
            values: "percent, 0 to 100",
            doc: "how much smaller another path's srtt must be for a switch; 0: no path is kept, 100: never for its srtt",
        },
        Param {
            name: "none",
            default: "any",
            values: "any | wait",
            doc: "what happens when no path is in state Open: min-RTT among all, or nothing",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Nagayama {
        gain: params.within("gain", 0..=100)?,
        waits: params.choice("none", &[("any", false), ("wait", true)])?,
        last: None,
    }))
}

#[derive(Clone)]
struct Nagayama {
    gain: u64,
    waits: bool,
    last: Option<PathId>,
}

fn is_sound(path: &Path) -> bool {
    path.recovery == Recovery::Open || path.bytes_in_flight == Bytes::ZERO
}

impl Nagayama {
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        if cx.packet.is_some_and(|packet| packet.reinjection) {
            return choose::min_rtt(cx);
        }
        let sound = || choose::candidates(cx).filter(|path| is_sound(path));
        let Some(fastest) = choose::least(sound(), |path| path.srtt) else {
            return choose::min_rtt(cx).filter(|_| !self.waits);
        };
        let last = sound().find(|path| Some(path.id) == self.last);
        last.filter(|last| !self.is_worth_a_switch(fastest, last)).or(Some(fastest))
    }

    fn is_worth_a_switch(&self, to: &Path, from: &Path) -> bool {
        let wide = |path: &Path| path.srtt.as_nanos() as u128;
        wide(to) * 100 < wide(from) * (100 - self.gain) as u128
    }
}

impl Scheduler for Nagayama {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(receipt, SendKind::Fresh) => self.last = Some(receipt.path),
            Event::PathUp(path) if self.last == Some(path) => self.last = None,
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let (kept, state) = (self.last == Some(path.id), path.recovery);
        Some(format!("{:?} in state {state:?} with srtt {}; the same as before {kept}", path.id, path.srtt))
    }
}
