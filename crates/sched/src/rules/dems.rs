//! Two paths from the two ends of a chunk: each has its data in order, and both finish at once.
//!
//! Rule: F = smallest srtt; s = min-RTT's choice among the rest. F sends the packet at hand. s
//! sends the last unsent packet of the chunk, down to where F should end:
//!   `x = (C + r_s·(d_s − d_f))·r_f/(r_f + r_s)` bytes after the chunk's start, at most C, `d = srtt/2`;
//! then it starts at the end of the next chunk, if that is written, or waits. F goes on until it
//! meets s at M. Then F copies what lies up to `δ` past M and s what lies up to `δ` before it, ahead of new data:
//!   `δ = C·(r_s·e_f + r_f·e_s)/(r_f + r_s)²`, at most C/8,
//! by which M moves if both rates are off by their mean error `e`.
//! A chunk is a message, as far as it is written and the peer's window allows; longer messages are cut.
//! Reference: Guo, Nikravesh, Mao, Qian, Sen: Accelerating Multipath Transport Through Balanced Subflow Completion,
//! MobiCom 2017, from its description elsewhere.
//! State: how far s has come in two chunks; what each path has copied; per path, the mean of its
//! rate and of the rate's error (1/8 and 1/4 of the news per acknowledgement).
//! Departs from print: the paper's text was not at hand. Its abstract names the parts: chunks with known ends, paths
//! that are decoupled, completion at the receiver at the same time, a small amount of redundant data. δ, its limit, the
//! length of a chunk in a long message and the pair among more than two paths are ours: whichever path of the rest has
//! room goes on from the back.

mod known;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Offset, Path, PathId, SendKind};

use self::known::PathRecord;

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::forecast;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "dems",
    aliases: &["decoupled"],
    summary: "one path sends a chunk from its front, one from its back, so that both finish together",
    reference: "Guo, Nikravesh, Mao, Qian, Sen: Accelerating Multipath Transport Through Balanced Subflow \
                Completion, MobiCom 2017",
    provenance: Provenance::Reconstructed,
    goal: "completion time",
    application: "chunks and messages",
    inputs: &[Input::Rtt, Input::Mss, Input::Rate, Input::Queue, Input::Window, Input::Size],
    needs: Needs { flow: true, copies: true, ahead: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    params: &[
        Param {
            name: "redundancy",
            default: "adaptive",
            values: "adaptive | none",
            doc: "whether what lies around the meeting point goes on both paths",
        },
        Param {
            name: "chunk",
            default: "700",
            values: "number, 2 to 1000000",
            doc: "the longest chunk, in packets: longer messages and bulk data are cut",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let copies = params.choice("redundancy", &[("adaptive", true), ("none", false)])?;
    let packets = params.within("chunk", 2..=1_000_000)?;
    Ok(Box::new(Dems { copies, packets, backs: [Back::default(); 2], requested: None, paths: PerPath::default() }))
}

#[derive(Clone)]
struct Dems {
    copies: bool,
    packets: u64,
    /// The two chunks in which s has sent last.
    backs: [Back; 2],
    requested: Option<Request>,
    paths: PerPath<PathRecord>,
}

/// Chunk that is sent from two ends.
#[derive(Clone, Copy, PartialEq, Eq, Default, Debug)]
struct Chunk {
    start: Offset,
    end: Offset,
}

/// Progress of a chunk from its back.
#[derive(Clone, Copy, Default)]
struct Back {
    chunk: Chunk,
    path: PathId,
    at: Offset,
}

/// Request of the last answer: done or not, it is not asked for again.
#[derive(Clone, Copy)]
enum Request {
    FromBack(Back),
    Copy(PathId, Offset),
}

/// The share of `size` that F sends, both finishing together.
fn front_share(size: Bytes, fast: &Path, slow: &Path) -> Bytes {
    let (fast_rate, slow_rate) = (forecast::rate(fast).as_bps(), forecast::rate(slow).as_bps());
    let meanwhile = forecast::rate(slow).bytes_in(forecast::lead(fast, slow));
    match fast_rate.saturating_add(slow_rate) {
        0 => size,
        sum => (size + meanwhile).mul_div(fast_rate, sum).min(size),
    }
}

impl Dems {
    /// The chunk that `from` lies in, of data that begin at `origin` and go on until `end`.
    fn chunk(&self, flow: &Flow, origin: Offset, from: Offset, end: Offset, mss: Bytes) -> Chunk {
        let size = self.packets.saturating_mul(mss.get());
        let start = origin + Bytes::new(from.since(origin).get() / size * size);
        Chunk { start, end: (start + Bytes::new(size)).min(end).min(flow.edge) }
    }

    /// The chunk at hand and the one after it.
    fn chunks(&self, flow: &Flow, mss: Bytes) -> [Chunk; 2] {
        let end = flow.message_end.min(flow.end);
        let now = self.chunk(flow, flow.message_start.min(flow.next), flow.next, end, mss);
        let after = if now.end < end {
            self.chunk(flow, now.start, now.end, end, mss)
        } else {
            self.chunk(flow, now.end, now.end, flow.end, mss)
        };
        [now, after]
    }

    /// The next packet from the back of `chunk` for `slow`, if it is not F's.
    fn last_unsent(&self, flow: &Flow, chunk: Chunk, (fast, slow): (&Path, &Path)) -> Option<Back> {
        let known = self.backs.iter().find(|back| back.chunk.start == chunk.start && back.chunk.end > chunk.start);
        let back = known.map_or(chunk.end, |back| back.at.min(chunk.end));
        let left = back.since(chunk.start).get().checked_sub(1)?;
        let at = chunk.start + Bytes::new(left / slow.mss.get() * slow.mss.get());
        let share = front_share(chunk.end.since(chunk.start), fast, slow);
        let is_free = at >= flow.next && at >= chunk.start + share;
        is_free.then_some(Back { chunk, path: slow.id, at })
    }

    /// Returns how far around the meeting point of `back` copies are worth while.
    fn doubt(&self, back: &Back, fast: PathId) -> Bytes {
        let (Some(fast), Some(slow)) = (self.paths.get(fast), self.paths.get(back.path)) else { return Bytes::ZERO };
        let (fast_rate, slow_rate) = (fast.rate.as_bps(), slow.rate.as_bps());
        let sum = fast_rate.saturating_add(slow_rate);
        if sum == 0 {
            return Bytes::ZERO;
        }
        let size = back.chunk.end.since(back.chunk.start);
        let by_fast = size.mul_div(slow_rate, sum).mul_div(fast.error.as_bps(), sum);
        let by_slow = size.mul_div(fast_rate, sum).mul_div(slow.error.as_bps(), sum);
        (by_fast + by_slow).min(size.mul_div(1, 8))
    }

    /// The copy that is due on an open path, of a chunk whose two ends have met: the path, where from and where to.
    fn copy(&self, cx: &Context<'_>, flow: &Flow, fast: PathId) -> Option<(PathId, Offset, Offset)> {
        let mut met =
            self.backs.iter().filter(|back| back.at < back.chunk.end.min(flow.next) && flow.una < back.chunk.end);
        met.find_map(|back| {
            let doubt = self.doubt(back, fast);
            let below = back.at.since(back.chunk.start + doubt);
            let copies = choose::candidates(cx).filter_map(|path| match path.id {
                id if id == fast => Some((id, back.at, (back.at + doubt).min(back.chunk.end).min(flow.next))),
                id if id == back.path => Some((id, back.chunk.start + below, back.at)),
                _ => None,
            });
            let due =
                |(path, start, end): (_, Offset, _)| (path, start.max(flow.una).max(self.known(path).copied), end);
            copies.map(due).find(|(_, start, end)| start < end)
        })
    }

    fn known(&self, path: PathId) -> PathRecord {
        self.paths.get(path).copied().unwrap_or_default()
    }

    /// Returns what `slow` sends: from the back of this chunk or of the next.
    fn serve_slow(&mut self, cx: &Context<'_>, flow: &Flow, pair: (&Path, &Path)) -> Decision {
        let wait = choose::wait(cx);
        if wait != Decision::Wait {
            return wait;
        }
        let found = self.chunks(flow, pair.1.mss).into_iter().find_map(|chunk| self.last_unsent(flow, chunk, pair));
        let Some(back) = found else { return wait };
        self.requested = Some(Request::FromBack(back));
        if back.at == flow.next { Decision::Send(back.path) } else { Decision::Ahead(back.path, back.at) }
    }

    fn settle(&mut self, request: Request) {
        match request {
            Request::FromBack(back) => {
                let oldest = usize::from(self.backs[1].chunk.end < self.backs[0].chunk.end);
                let same = self.backs.iter().position(|known| known.chunk.start == back.chunk.start);
                self.backs[same.unwrap_or(oldest)] = back;
            }
            Request::Copy(path, to) => self.paths.at(path).copied = to,
        }
    }
}

impl Scheduler for Dems {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.requested = None;
        let (Some(flow), Some(fast)) = (cx.flow, choose::fastest(cx)) else { return choose::wait(cx) };
        let again = cx.packet.is_some_and(|packet| packet.reinjection);
        let in_flight = cx.paths.iter().any(|path| path.bytes_in_flight > Bytes::ZERO);
        if self.copies
            && !again
            && in_flight
            && let Some((path, pointer, end)) = self.copy(cx, flow, fast.id)
        {
            self.requested = Some(Request::Copy(path, end));
            return Decision::Repeat(path, pointer);
        }
        match choose::min_rtt(cx).filter(|_| cx.packet.is_some()) {
            None => choose::wait(cx),
            Some(pick) if again || pick.id == fast.id => Decision::Send(pick.id),
            Some(slow) => self.serve_slow(cx, flow, (fast, slow)),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        let requested = self.requested.take();
        match (*event, requested) {
            (Event::Sent(sent, SendKind::Duplicate), Some(Request::Copy(path, end))) => {
                self.settle(Request::Copy(path, (sent.offset + sent.bytes).min(end)));
            }
            (_, Some(request)) => self.settle(request),
            _ => {}
        }
        match *event {
            Event::Acked(acked) => {
                if let Some(path) = cx.path(acked.path) {
                    self.paths.at(path.id).note(forecast::rate(path));
                }
            }
            Event::PathUp(path) | Event::PathDown(path) => self.paths.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (fast, pick, flow) = (choose::fastest(cx)?, choose::min_rtt(cx)?, cx.flow?);
        let [chunk, _] = self.chunks(flow, pick.mss);
        let split = chunk.start + front_share(chunk.end.since(chunk.start), fast, pick);
        Some(format!("{:?} from {:?}, {:?} from {:?}, to meet at {split:?}", fast.id, flow.next, pick.id, chunk.end))
    }
}
