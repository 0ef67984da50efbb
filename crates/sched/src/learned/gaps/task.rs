//! Gaps: how far ahead of the fast path does each slower path send?
//!
//! An interval lasts 2·(largest srtt), at least 10 ms and at most 2 s. F, the path of smallest
//! srtt, takes the next data in order. A slower path i takes the packet before which gap_i bytes
//! are unsent, so that F comes to it when it has arrived:
//!   `gap_i = base_i + (what the answers added)`, `base_i = cwnd_F·(srtt_i − srtt_F)/(2·srtt_F)`,
//! what F sends in the difference of the one-way delays; in whole packets and within
//! [0, unsent data, credit of the peer's window]. Data sent before go where min-RTT sends them.
//! Actions: for each slot one of five, −8, −2, 0, +2, +8 packets on its gap; ignored for F and for
//! empty slots.
//! Seen: the last 8 intervals, each of every slot {srtt, rttvar, cwnd, bytes in flight, loss, gap},
//! each within [0, 4], the oldest interval first: times over 250 ms, bytes over R·250 ms with R the
//! largest rate that any path has shown, the smoothed loss over one in ten.
//! Earned when the interval is over: `thr/R0 − a·ooq/rwnd − b·|delta|/8`: thr what was acknowledged
//! over time, R0 the sum of the paths' peak delivery rates, rwnd the peer's window, |delta| the mean
//! over the slower paths. A sender does not see the receiver's queue ooq; it takes for it the bytes
//! acknowledged beyond the oldest gap, counted at each acknowledgement and averaged over these.
//! They arrived out of order, and are known a way back late.
//! Reference: GAPS (Liao et al., 2020), from what PDAA3C's authors say of it.
//! Departs from print: the paper was not at hand; formula, steps, scales and weights are ours. Data
//! already sent ahead do not count into a gap: F skips them.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Offset, Path, PathId, Receipt, SendKind, Span};

use crate::Needs;
use crate::learned::intervals::history::{self, History};
use crate::learned::intervals::ranges::Ranges;
use crate::learned::intervals::slots;
use crate::learned::intervals::task::{IntervalTask, Rule};
use crate::learned::pair::roles;
use crate::learned::task::{Actions, Ledger, Shape, Task, TaskEntry};
use crate::shared::choose;
use crate::shared::epochs::Epochs;
use crate::shared::norm;
use crate::shared::per_path::PerPath;
use crate::shared::quality::Qualities;

pub(crate) static TASK: TaskEntry = TaskEntry {
    name: "gap",
    summary: "by how many packets each slower path's lead over the fast one changes",
    needs: Needs { flow: true, ahead: true, wake: true, events: true, ..Needs::NONE },
    params: &[
        Param {
            name: "base",
            default: "first",
            values: "first | tracked",
            doc: "what the answers add to: the formula's value when the path was first the slower one, or its value at each question",
        },
        slots::SLOTS,
        history::HISTORY,
        Param { name: "a", default: "0.5", values: "number, 0 to 10", doc: "weight of the out-of-order queue" },
        Param { name: "b", default: "0.1", values: "number, 0 to 10", doc: "weight of changing the gaps" },
    ],
    build,
};

/// Observation of a path.
const FEATURES: [&str; 6] = ["srtt", "rttvar", "cwnd", "in_flight", "loss", "gap"];

/// Packets that the choices add, and the largest of them.
const DELTAS: [i64; 5] = [-8, -2, 0, 2, 8];
const LARGEST_DELTA: f64 = 8.0;

/// An interval is so many of the largest round trips, within these.
const ROUND_TRIPS: u64 = 2;
const SHORTEST: Span = Span::from_millis(10);
const LONGEST: Span = Span::from_secs(2);

/// The round-trip time that counts as 1, in seconds.
const D0: f64 = 0.25;
/// A loss of one packet in ten counts as 1.
const LOSS_SCALE: f64 = 0.1;

fn build(params: &Params) -> Result<Box<dyn Task>, SpecError> {
    let slots = params.within("slots", 1..=PathId::MAX_PATHS)?;
    let history = History::new(params.within("history", 1..=64)?, slots);
    let actions = Actions::Several { count: slots, choices: DELTAS.len() };
    let shape = Shape { inputs: history.inputs(FEATURES), actions, interval: None };
    let rule = Gap {
        tracks: params.choice("base", &[("first", false), ("tracked", true)])?,
        a: params.within("a", 0.0..=10.0)?,
        b: params.within("b", 0.0..=10.0)?,
        history,
        qualities: Qualities::default(),
        leads: PerPath::default(),
        ahead: Ranges::new(),
        arrived: Arrived { ranges: Ranges::new(), una: Offset::ZERO, sum: 0.0, count: 0 },
        changed: 0.0,
    };
    Ok(Box::new(IntervalTask::new(shape, Epochs::new(SHORTEST, Span::ZERO), rule)))
}

#[derive(Clone)]
struct Gap {
    tracks: bool,
    a: f64,
    b: f64,
    history: History<6>,
    qualities: Qualities,
    leads: PerPath<Lead>,
    /// Data sent beyond the next unsent byte.
    ahead: Ranges,
    arrived: Arrived,
    /// Mean change of the gaps that the last answer made, in packets.
    changed: f64,
}

/// By how much a path is ahead of F.
#[derive(Clone, Copy, Default)]
struct Lead {
    /// None until the path is first the slower one.
    base: Option<Bytes>,
    /// Bytes that the answers added.
    added: i64,
}

impl Lead {
    /// The gap of `slow` behind `fast`.
    fn gap(self, fast: &Path, slow: &Path) -> Bytes {
        let base = self.base.unwrap_or_else(|| first_gap(fast, slow)).get();
        Bytes::new(base.saturating_add_signed(self.added))
    }
}

/// Bytes that F sends in the difference of the one-way delays.
fn first_gap(fast: &Path, slow: &Path) -> Bytes {
    match fast.srtt.as_nanos() {
        0 => Bytes::ZERO,
        srtt => fast.cwnd.mul_div(slow.srtt.saturating_sub(fast.srtt).as_nanos(), 2 * srtt),
    }
}

/// Data that are known to have arrived, and how much of them out of order.
#[derive(Clone)]
struct Arrived {
    ranges: Ranges,
    una: Offset,
    sum: f64,
    count: u64,
}

impl Arrived {
    fn note(&mut self, acked: &Receipt, una: Offset) {
        self.ranges.add(acked.offset, acked.offset + acked.bytes);
        self.una = self.ranges.reaches(self.una.max(una));
        self.ranges.drop_before(self.una);
        (self.sum, self.count) = (self.sum + self.ranges.total().get() as f64, self.count + 1);
    }

    /// The mean queue since this was last asked, in bytes.
    fn take_mean(&mut self) -> f64 {
        let (sum, count) = (core::mem::take(&mut self.sum), core::mem::take(&mut self.count));
        sum / count.max(1) as f64
    }
}

/// The paths behind `fast` that have a round-trip time.
fn slower<'a>(cx: &Context<'a>, fast: &'a Path) -> impl Iterator<Item = &'a Path> {
    choose::standing(cx).filter(|path| path.id != fast.id && !fast.srtt.is_zero())
}

impl Gap {
    fn reward(&self, cx: &Context<'_>, queue: f64) -> f64 {
        let throughput: f64 = cx.paths.iter().map(|path| self.qualities.of(path.id).throughput).sum();
        let window = cx.flow.map_or(0.0, |flow| flow.window().get() as f64);
        norm::ratio(throughput, self.qualities.capacity(cx.paths))
            - self.a * norm::ratio(queue, window)
            - self.b * self.changed / LARGEST_DELTA
    }

    fn set_bases(&mut self, cx: &Context<'_>) {
        let Some(fast) = roles::fast(cx) else { return };
        for slow in slower(cx, fast) {
            let lead = self.leads.at(slow.id);
            lead.base = lead.base.filter(|_| !self.tracks).or(Some(first_gap(fast, slow)));
        }
    }

    fn look(&mut self, cx: &Context<'_>) {
        self.history.assign(cx);
        let (qualities, scale) = (&self.qualities, self.qualities.scale(cx.paths));
        let gap = |path: &Path| self.leads.get(path.id).copied().unwrap_or_default();
        let gap = |path: &Path| roles::fast(cx).map_or(Bytes::ZERO, |fast| behind(gap(path), fast, path));
        self.history.push(|id| cx.path(id).map_or([0.0; 6], |path| see(qualities, path, gap(path), scale)));
    }

    fn gap(&self, fast: &Path, slow: &Path) -> Bytes {
        behind(self.leads.get(slow.id).copied().unwrap_or_default(), fast, slow)
    }

    /// Adds `delta` packets to the gap of `slow`, which stays within the peer's window.
    fn shift(&mut self, flow: Option<&Flow>, fast: &Path, slow: &Path, delta: i64) {
        let window = flow.map_or(Bytes::MAX, Flow::window);
        let lead = self.leads.at(slow.id);
        let base = *lead.base.get_or_insert_with(|| first_gap(fast, slow));
        let step = delta.saturating_mul(slow.mss.get() as i64);
        let gap = base.get().saturating_add_signed(lead.added).saturating_add_signed(step).min(window.get());
        if delta != 0 {
            lead.added = gap as i64 - base.get() as i64;
        }
    }

    /// Sends on `slow` that far ahead of `fast`.
    fn send_ahead(&self, cx: &Context<'_>, flow: &Flow, fast: &Path, slow: &Path) -> Decision {
        let limit = flow.unsent.min(flow.credit()).saturating_sub(slow.mss);
        let packets = self.gap(fast, slow).min(limit).packets(slow.mss);
        if packets == 0 {
            return Decision::Send(slow.id);
        }
        let at = self.ahead.beyond(flow.next, Bytes::new(packets * slow.mss.get()));
        if at + slow.mss > flow.edge { choose::wait(cx) } else { Decision::Ahead(slow.id, at) }
    }
}

/// The gap that `lead` leaves for `path`; none for F itself and while nothing is known of F.
fn behind(lead: Lead, fast: &Path, path: &Path) -> Bytes {
    if path.id == fast.id || fast.srtt.is_zero() { Bytes::ZERO } else { lead.gap(fast, path) }
}

/// Returns the observation of `path`.
fn see(qualities: &Qualities, path: &Path, gap: Bytes, scale: f64) -> [f64; 6] {
    let time = |span: Span| norm::ratio(span.as_secs_f64(), D0);
    let bytes = |bytes: Bytes| norm::ratio(bytes.get() as f64, scale * D0);
    let loss = norm::ratio(qualities.of(path.id).loss, LOSS_SCALE);
    [time(path.srtt), time(path.rttvar), bytes(path.cwnd), bytes(path.unacked()), loss, bytes(gap)]
}

impl Rule for Gap {
    type Choice = ();

    const NEEDS: Needs = TASK.needs;

    fn length(&self, cx: &Context<'_>) -> Option<Span> {
        let most = choose::standing(cx).map(|path| path.srtt).max()?;
        Some((most * ROUND_TRIPS).clamp(SHORTEST, LONGEST))
    }

    fn end(&mut self, cx: &Context<'_>, passed: Span) -> f64 {
        self.qualities.turn(cx.now, passed, cx.paths);
        let queue = self.arrived.take_mean();
        let reward = self.reward(cx, queue);
        self.set_bases(cx);
        self.look(cx);
        reward
    }

    fn asks(&self, _: &Context<'_>, is_due: bool) -> bool {
        is_due && self.history.has_paths()
    }

    fn see(&self, _: &Context<'_>, observation: &mut [f32]) {
        observation.copy_from_slice(self.history.table());
    }

    fn select(&self, cx: &Context<'_>, _: Option<&()>) -> Decision {
        let (Some(packet), Some(flow)) = (cx.packet, cx.flow) else { return Decision::Wait };
        let (Some(pick), Some(fast)) = (choose::min_rtt(cx), roles::fast(cx)) else { return choose::wait(cx) };
        if packet.reinjection || !packet.carried.is_empty() || pick.id == fast.id {
            return Decision::Send(pick.id);
        }
        self.send_ahead(cx, flow, fast, pick)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event, _: &mut Ledger) {
        match (event, cx.flow) {
            (Event::Sent(sent, SendKind::Ahead), Some(flow)) => {
                self.ahead.drop_before(flow.next);
                if sent.offset >= flow.next {
                    self.ahead.add(sent.offset, sent.offset + sent.bytes);
                }
            }
            (Event::Acked(acked), Some(flow)) => self.arrived.note(acked, flow.una),
            (Event::PathUp(path) | Event::PathDown(path), _) => {
                self.qualities.reset(*path);
                self.leads.reset(*path);
                self.history.assign(cx);
            }
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>, _: Option<&()>) -> Option<String> {
        let fast = roles::fast(cx)?;
        let gaps: Vec<_> = slower(cx, fast).map(|path| (path.id, self.gap(fast, path))).collect();
        Some(format!("F {:?}, gaps {gaps:?}", fast.id))
    }

    fn answer(&mut self, cx: &Context<'_>, action: &[f32]) -> Option<()> {
        let (mut changed, mut count) = (0.0, 0_u32);
        let fast = roles::fast(cx);
        for (slot, action) in action.iter().enumerate() {
            let path = self.history.slots().get(slot).copied().flatten().and_then(|id| cx.path(id));
            let (Some(fast), Some(path)) = (fast, path.filter(|path| fast.is_some_and(|fast| fast.id != path.id)))
            else {
                continue;
            };
            let delta = DELTAS.get(*action as usize).copied().unwrap_or(0);
            self.shift(cx.flow, fast, path, delta);
            (changed, count) = (changed + delta.unsigned_abs() as f64, count + 1);
        }
        self.changed = changed / f64::from(count.max(1));
        Some(())
    }
}

#[cfg(test)]
mod tests;
