//! Slide together: the fast path sends the data at hand, the slow path sends data that far ahead
//! that both arrive together.
//!
//! Rule: F = smallest srtt. F sends from the front. Another path s sends the first unsent segment
//! at or after `next + Gap_s`; if no more than `Gap_s` is unsent, it waits. With OWD = srtt/2,
//!   `Gap₀ = rate_f·(OWD_s − OWD_f)`, in whole segments when used, and per acknowledgement
//!   of a segment at S on s while una < S (too early): `Gap −= (S − una)/8`;
//!   of F's segment while una waits for s (too late):   `Gap += (end of F's segment − una)/8`.
//! Reference: Shi et al., USENIX ATC 2018, from its summary.
//! State: the gap, and the offsets in flight while slow, per path.
//! Departs from print: the paper's text was not at hand. The gain of 1/8 and the gap of each of
//! several slow paths are ours; the gap never exceeds the peer's window.

use std::collections::VecDeque;

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Offset, Path, PathId, Receipt, SendKind};

use crate::Scheduler;
use crate::choose;
use crate::forecast;
use crate::min_rtt;
use crate::per_path::PerPath;
use crate::registry::{Arity, Entry, Input, Needs, Preset, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "stms",
    aliases: &["slide-together"],
    version: 1,
    summary: "the slow path sends ahead, so that data of both paths arrive in order",
    reference: "Shi, Cui, Wang, et al.: STMS, USENIX ATC 2018",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Mss, Input::Rate, Input::Queue, Input::Window],
    needs: Needs { flow: true, ahead: true, events: true, ..Needs::NONE },
    arity: Arity::Any,
    transport: TransportRules::NONE,
    presets: &[Preset {
        name: "stms-tail",
        switches: "tail=last",
        doc: "the slow path takes the last segment when less than its gap is unsent",
    }],
    params: &[forecast::TAIL],
    build,
};

/// The share of an error by which the gap moves: one eighth, as srtt does.
const GAIN_SHIFT: u64 = 3;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Stms { takes_last: forecast::takes_last(params)?, slides: PerPath::default() }))
}

#[derive(Clone)]
struct Stms {
    takes_last: bool,
    slides: PerPath<Slide>,
}

/// How far ahead a path sends.
#[derive(Clone, Default)]
struct Slide {
    /// None until the path first sends as the slow one.
    gap: Option<Bytes>,
    in_flight: VecDeque<Offset>,
}

impl Slide {
    fn grow(&mut self, by: Bytes, limit: Bytes) {
        let gap = self.gap.get_or_insert_default();
        *gap = (*gap + Bytes::new(by.get() >> GAIN_SHIFT)).min(limit);
    }

    fn shrink(&mut self, by: Bytes) {
        let gap = self.gap.get_or_insert_default();
        *gap = gap.saturating_sub(Bytes::new(by.get() >> GAIN_SHIFT));
    }

    /// Takes `offset` out of flight; whether it was there.
    fn take(&mut self, offset: Offset) -> bool {
        let at = self.in_flight.iter().position(|sent| *sent == offset);
        at.and_then(|at| self.in_flight.remove(at)).is_some()
    }
}

/// What F delivers in the time by which `slow` is behind it.
fn first_gap(fast: &Path, slow: &Path) -> Bytes {
    forecast::rate(fast).bytes_in(forecast::lead(fast, slow))
}

impl Stms {
    fn gap(&self, fast: &Path, slow: &Path) -> Bytes {
        let known = self.slides.get(slow.id).and_then(|slide| slide.gap);
        known.unwrap_or_else(|| first_gap(fast, slow))
    }

    fn note_sent(&mut self, cx: &Context<'_>, path: PathId, offset: Offset) {
        if let (Some(fast), Some(slow)) = (choose::fastest(cx).filter(|fast| fast.id != path), cx.path(path)) {
            let slide = self.slides.at(path);
            slide.gap.get_or_insert_with(|| first_gap(fast, slow));
            slide.in_flight.push_back(offset);
        }
    }

    fn note_acked(&mut self, cx: &Context<'_>, flow: &Flow, acked: &Receipt) {
        if self.slides.at(acked.path).take(acked.offset) {
            self.slides.at(acked.path).shrink(acked.offset.since(flow.una));
        } else if acked.offset > flow.una {
            let late = cx.paths.iter().find(|path| {
                let slide = self.slides.get(path.id).filter(|_| path.id != acked.path);
                slide.is_some_and(|slide| slide.in_flight.front() == Some(&flow.una))
            });
            if let Some(late) = late {
                let behind = (acked.offset + acked.bytes).since(flow.una);
                self.slides.at(late.id).grow(behind, flow.window());
            }
        }
    }
}

impl Scheduler for Stms {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(packet) = cx.packet else { return Decision::Wait };
        let (Some(pick), Some(fast)) = (min_rtt::pick(cx), choose::fastest(cx)) else { return choose::wait(cx) };
        if packet.again || pick.id == fast.id || pick.srtt <= fast.srtt {
            return Decision::Send(pick.id);
        }
        forecast::ahead(cx, pick, self.gap(fast, pick), self.takes_last)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match (*event, cx.flow) {
            (Event::Sent(sent, SendKind::Fresh | SendKind::Ahead), _) => self.note_sent(cx, sent.path, sent.offset),
            (Event::Acked(acked), Some(flow)) => self.note_acked(cx, flow, &acked),
            (Event::Lost(lost), _) => {
                self.slides.at(lost.path).take(lost.offset);
            }
            (Event::PathUp(path) | Event::PathDown(path), _) => self.slides.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (fast, pick) = (choose::fastest(cx)?, min_rtt::pick(cx)?);
        let gap = forecast::whole(self.gap(fast, pick), pick);
        Some(format!("F {:?}; {:?} sends {gap} ahead of {:?}", fast.id, pick.id, cx.flow?.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, packets, path};

    #[test]
    fn the_tail_is_not_left_to_a_fast_path_that_nothing_will_open() {
        let mut stms = ENTRY.make(&[]).unwrap();
        // 10 packets per 20 ms for (100 - 20)/2 ms: a gap of 20 packets, and 5 are unsent.
        let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 100, 10, 0)]);
        bench.flow.unsent = packets(5);
        assert_eq!(stms.select(&bench.context()), Decision::Wait);
        bench.paths[0].cwnd = Bytes::ZERO;
        bench.paths[0].bytes_in_flight = Bytes::ZERO;
        assert_eq!(stms.select(&bench.context()), Decision::Send(PathId::new(1)));
    }
}
