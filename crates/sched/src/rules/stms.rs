//! Slide together: the fast path sends the data at hand, the slow path sends data that far ahead
//! that both arrive together.
//!
//! Rule: F = smallest srtt. F sends from the front. Another path s sends the first unsent segment
//! at or after `next + Gap_s`; if no more than `Gap_s` is unsent, it waits. With OWD = srtt/2, the
//! gap begins as
//!   `Gap₀ = rate_f·(OWD_s − OWD_f)`, in whole segments when used. Per acknowledgement of a segment
//! at S on s, which was sent with the gap g, it was off by
//!   `e = una − S` while una < S (too early), else
//!   `e =` what faster paths had delivered past S while una waited for s (too late), and
//!   `Gap_s += (g + e − Gap_s)/8`: each segment counts once, against the gap that it was sent with.
//! While s has nothing in flight nothing tells whether the gap is right: each srtt of s it goes an
//! eighth of the way back to `Gap₀` as it is then.
//! Reference: Shi, Cui, Wang, et al.: STMS, USENIX ATC 2018, from its summary.
//! State: per path the gap, the segments in flight while slow, and how far faster paths had got.
//! Departs from print: the paper's text was not at hand. By its abstract the gap goes by what is acknowledged and not
//! by estimates of the paths: `Gap₀` and the way back to it, which are such, are ours, as are the gain of 1/8 and the
//! gap of each of several slow paths. Under QUIC una moves by the acknowledgements of each path, so that these come in
//! order, not the data: the gap settles at up to `2·Gap₀`.

use std::collections::VecDeque;

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Instant, Offset, Path, PathId, Receipt, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::forecast;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "stms",
    aliases: &["slide-together"],
    version: 2,
    summary: "the slow path sends ahead, so that data of both paths arrive in order",
    reference: "Shi, Cui, Wang, et al.: STMS, USENIX ATC 2018",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Mss, Input::Rate, Input::Queue, Input::Window],
    needs: Needs { flow: true, ahead: true, events: true, ..Needs::NONE },
    waits: true,
    presets: &[Preset {
        name: "stms-tail",
        switches: "tail=last",
        doc: "the slow path takes the last segment when less than its gap is unsent",
    }],
    params: &[forecast::TAIL],
    build,
    ..Entry::NEW
};

/// The share of an error by which the gap moves: one eighth, as srtt does.
const GAIN: i128 = 8;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Stms { takes_last: forecast::takes_last(params)?, slides: PerPath::default() }))
}

#[derive(Clone)]
struct Stms {
    takes_last: bool,
    slides: PerPath<Slide>,
}

/// Lead with which a path sends.
#[derive(Clone, Default)]
struct Slide {
    /// None until the path first sends as the slow one.
    gap: Option<Bytes>,
    in_flight: VecDeque<Flight>,
    /// Offset to which faster paths had delivered while una waited for this path.
    reached: Offset,
    /// Time at which the gap last moved, or a segment with it.
    moved: Instant,
}

/// A segment on a slow path.
#[derive(Clone, Copy)]
struct Flight {
    offset: Offset,
    /// The gap that it was sent with.
    gap: Bytes,
}

impl Slide {
    /// Moves the gap an eighth of the way to `right`.
    fn tend(&mut self, right: i128, now: Instant) {
        let gap = self.gap.get_or_insert_default();
        let moved = gap.get() as i128 + (right - gap.get() as i128) / GAIN;
        *gap = Bytes::new(moved.max(0) as u64);
        self.moved = now;
    }

    /// Takes the segment at `offset` out of flight, if it is there.
    fn take(&mut self, offset: Offset) -> Option<Flight> {
        let at = self.in_flight.iter().position(|sent| sent.offset == offset)?;
        self.in_flight.remove(at)
    }

    fn holds(&self, offset: Offset) -> bool {
        self.in_flight.iter().any(|sent| sent.offset == offset)
    }

    /// By how much the gap of `sent`, which has arrived, was too small.
    fn error(&self, sent: Flight, flow: &Flow) -> i128 {
        match flow.una < sent.offset {
            true => -(sent.offset.since(flow.una).get() as i128),
            false if self.reached > sent.offset => self.reached.since(sent.offset).get() as i128,
            false => 0,
        }
    }
}

/// Returns what F delivers in the time by which `slow` is behind it.
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
            let gap = *slide.gap.get_or_insert_with(|| first_gap(fast, slow));
            slide.in_flight.push_back(Flight { offset, gap });
            slide.moved = cx.now;
        }
    }

    fn note_acked(&mut self, cx: &Context<'_>, flow: &Flow, acked: &Receipt) {
        let slide = self.slides.at(acked.path);
        if let Some(sent) = slide.take(acked.offset) {
            let right = sent.gap.get() as i128 + slide.error(sent, flow);
            slide.tend(right, cx.now);
        }
        let Some(by) = cx.path(acked.path) else { return };
        for slow in cx.paths.iter().filter(|path| path.srtt > by.srtt) {
            let slide = self.slides.at(slow.id);
            if acked.offset > flow.una && slide.holds(flow.una) {
                slide.reached = slide.reached.max(acked.offset + acked.bytes);
            }
            self.forget(cx, slow);
        }
    }

    /// Moves the gap of `slow` towards its first value when no segment has confirmed it for a round trip.
    fn forget(&mut self, cx: &Context<'_>, slow: &Path) {
        let slide = self.slides.at(slow.id);
        let is_idle = slide.gap.is_some() && slide.in_flight.is_empty() && cx.now.since(slide.moved) >= slow.srtt;
        if let Some(fast) = choose::fastest(cx).filter(|_| is_idle) {
            slide.tend(first_gap(fast, slow).get() as i128, cx.now);
        }
    }
}

impl Scheduler for Stms {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(packet) = cx.packet else { return Decision::Wait };
        let (Some(pick), Some(fast)) = (choose::min_rtt(cx), choose::fastest(cx)) else { return choose::wait(cx) };
        if packet.reinjection || pick.id == fast.id || pick.srtt <= fast.srtt {
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
        let (fast, pick) = (choose::fastest(cx)?, choose::min_rtt(cx)?);
        let gap = forecast::whole(self.gap(fast, pick), pick);
        Some(format!("F {:?}; {:?} sends {gap} ahead of {:?}", fast.id, pick.id, cx.flow?.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{Bench, packets, path};

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
