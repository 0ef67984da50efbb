//! Forward delays decide who sends what: the path of the smallest takes the front, a slower one
//! the segment that the faster ones will have come to when it arrives.
//!
//! Rule: with `fd = queued/rate + srtt/2`, the open path `p` of the smallest fd sends the first
//! unsent segment at or after
//!   `next + ⌊Σ rate_f·(fd_p − fd_f)/mss⌋` over the paths `f` with a smaller fd, full or not.
//! If no more than that is unsent, it waits.
//! Reference: Le, Bui, Mobile Networks and Applications 2018, from a short description.
//! State: none.
//! Departs from print: the paper's text was not at hand. There the receiver's timestamps give the
//! differences of forward delays; here half a round trip stands for the way there. The rate is
//! the delivery rate, before its first sample the window over the round-trip time. The sum over
//! several faster paths, and what happens at the tail, are ours.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Bytes, Context, Decision, Flow, Offset, Path, Span};

use crate::Scheduler;
use crate::choose;
use crate::registry::{Arity, Entry, Input, Needs, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "fdps",
    aliases: &["forward-delay", "forward-delay-based"],
    version: 1,
    summary: "a slower path sends ahead by what the faster ones deliver while it is behind",
    reference: "Le, Bui: Forward Delay-based Packet Scheduling Algorithm for Multipath TCP, MONET 2018",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Mss, Input::Rate, Input::Queue, Input::Window],
    needs: Needs { flow: true, ahead: true, ..Needs::NONE },
    arity: Arity::Any,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[Param {
        name: "tail",
        default: "wait",
        values: "wait | last",
        doc: "what a slower path does when the faster ones will take all that is unsent: nothing, or the last segment",
    }],
    build,
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Fdps { takes_last: params.choice("tail", &[("wait", false), ("last", true)])? }))
}

#[derive(Clone)]
struct Fdps {
    takes_last: bool,
}

fn rate(path: &Path) -> BitRate {
    match path.delivery_rate {
        BitRate::ZERO => BitRate::of(path.cwnd, path.srtt),
        rate => rate,
    }
}

/// How long a segment assigned to `path` now takes to the receiver: until what waits before it is
/// on the wire, and half a round trip.
#[inline]
pub(crate) fn forward_delay(path: &Path) -> Span {
    let waits = if path.queued == Bytes::ZERO { Span::ZERO } else { rate(path).transmission_time(path.queued) };
    waits + path.srtt / 2
}

/// What the faster paths deliver until a segment sent on `path` now arrives, in its whole segments.
fn lead(cx: &Context<'_>, path: &Path) -> Bytes {
    let delay = forward_delay(path);
    let faster = choose::standing(cx).map(|faster| (faster, delay.saturating_sub(forward_delay(faster))));
    let meanwhile = faster
        .filter(|(_, behind)| !behind.is_zero())
        .fold(Bytes::ZERO, |sum, (faster, behind)| sum + rate(faster).bytes_in(behind));
    Bytes::new(meanwhile.packets(path.mss) * path.mss.get())
}

impl Fdps {
    fn ahead(&self, cx: &Context<'_>, flow: &Flow, path: &Path, lead: Bytes) -> Decision {
        if lead == Bytes::ZERO {
            return Decision::Send(path.id);
        }
        let last = Offset::new(flow.end.get().saturating_sub(path.mss.get()));
        let at = match flow.unsent > lead {
            true => flow.next + lead,
            false if self.takes_last => last.max(flow.next),
            false => return choose::wait(cx),
        };
        if at + path.mss > flow.edge { choose::wait(cx) } else { Decision::Ahead(path.id, at) }
    }
}

impl Scheduler for Fdps {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let (Some(packet), Some(path)) = (cx.packet, choose::pick_least(cx, forward_delay)) else {
            return choose::wait(cx);
        };
        match cx.flow {
            Some(flow) if !packet.again => self.ahead(cx, flow, path, lead(cx, path)),
            _ => Decision::Send(path.id),
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = choose::pick_least(cx, forward_delay)?;
        let (delay, lead) = (forward_delay(path), lead(cx, path));
        Some(format!("{:?} takes {delay}; faster paths deliver {lead} meanwhile", path.id))
    }
}
