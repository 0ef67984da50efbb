//! Which share of the data does each path get in the next interval?
//!
//! An interval lasts 3·(smallest srtt), at least 50 and at most 500 ms. The answer is a share w_i
//! for each of `slots` slots, carried out by deficit round robin: with a packet of len bytes every
//! path's credit rises by `w_i·len`; of the paths with room the one of largest credit sends it and
//! pays len. Shares of empty slots go to the others in proportion. At the next answer credits stay
//! within one packet of 0: what a full window kept back is not made up for.
//! Seen: the last 8 intervals, each of every slot {throughput, cwnd, mean RTT, bytes in flight,
//! lost}, each within [0, 4], the oldest interval first: rates over the largest that any path has
//! shown (R), bytes over R·250 ms, times over 250 ms, the lost share over one in ten.
//! Earned when the interval is over: `V_thr − a·V_rtt − b·V_loss`, with
//!   V_thr = Σ throughput / Σ peak delivery rate, V_rtt = mean RTT over 250 ms, weighted by
//!   throughput (unweighted while nothing arrives), V_loss = lost share of all paths over 0.1.
//! Reference: ReLeS (Zhang et al., INFOCOM 2019).
//! Departs from print: the paper was not at hand; interval, scales and weights are ours. Data sent
//! before go where min-RTT sends them. A path that has no slot gets no new data.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Path, PathId, Receipt, SendKind, Span};

use crate::Needs;
use crate::learned::intervals::history::{self, History};
use crate::learned::intervals::slots;
use crate::learned::intervals::task::{IntervalTask, Rule};
use crate::learned::task::{Actions, Ledger, Shape, Task, TaskEntry};
use crate::shared::choose;
use crate::shared::epochs::Epochs;
use crate::shared::norm;
use crate::shared::per_path::PerPath;
use crate::shared::quality::Qualities;

pub(crate) static TASK: TaskEntry = TaskEntry {
    name: "shares",
    summary: "the share of the data that each path carries in the next interval",
    needs: Needs { wake: true, events: true, ..Needs::NONE },
    params: &[
        slots::SLOTS,
        history::HISTORY,
        Param { name: "a", default: "0.5", values: "number, 0 to 10", doc: "weight of round-trip time in the reward" },
        Param { name: "b", default: "1", values: "number, 0 to 10", doc: "weight of loss in the reward" },
    ],
    build,
};

/// Observation of a path.
const FEATURES: [&str; 5] = ["throughput", "cwnd", "rtt", "in_flight", "lost"];

/// An interval is so many of the smallest round trips, within these.
const ROUND_TRIPS: u64 = 3;
const SHORTEST: Span = Span::from_millis(50);
const LONGEST: Span = Span::from_millis(500);

/// The round-trip time that counts as 1, in seconds.
const D0: f64 = 0.25;
/// A loss of one packet in ten counts as 1.
const LOSS_SCALE: f64 = 0.1;

fn build(params: &Params) -> Result<Box<dyn Task>, SpecError> {
    let slots = params.within("slots", 1..=PathId::MAX_PATHS)?;
    let history = History::new(params.within("history", 1..=64)?, slots);
    let shape = Shape { inputs: history.inputs(FEATURES), actions: Actions::Shares(slots), interval: None };
    let rule = Shares {
        a: params.within("a", 0.0..=10.0)?,
        b: params.within("b", 0.0..=10.0)?,
        history,
        qualities: Qualities::default(),
        shares: vec![0.0; slots],
        answered: vec![None; slots],
        credits: PerPath::default(),
    };
    Ok(Box::new(IntervalTask::new(shape, Epochs::new(SHORTEST, Span::ZERO), rule)))
}

#[derive(Clone)]
struct Shares {
    a: f64,
    b: f64,
    history: History<5>,
    qualities: Qualities,
    /// As answered, by slot; they add up to 1.
    shares: Vec<f64>,
    /// Path of each slot when the shares were answered.
    answered: Vec<Option<PathId>>,
    /// In bytes.
    credits: PerPath<f64>,
}

impl Shares {
    fn reward(&self, cx: &Context<'_>) -> f64 {
        let known = || cx.paths.iter().map(|path| self.qualities.of(path.id));
        let throughput: f64 = known().map(|quality| quality.throughput).sum();
        let weight = |own: f64| if throughput > 0.0 { own / throughput } else { 1.0 / cx.paths.len().max(1) as f64 };
        let rtt: f64 = known().map(|quality| weight(quality.throughput) * quality.mean_rtt).sum();
        // Of what was delivered and lost on every path together.
        let [lost, all] = known().fold([0.0; 2], |[lost, all], quality| {
            let packets = quality.resolved as f64;
            [lost + quality.loss_now * packets, all + packets]
        });
        norm::ratio(throughput, self.qualities.capacity(cx.paths))
            - self.a * norm::ratio(rtt, D0)
            - self.b * norm::ratio(norm::ratio(lost, all), LOSS_SCALE)
    }

    /// The share of `id` as answered; of a path that has come since, the share of its slot if that was nobody's; else
    /// none.
    fn own(&self, id: PathId) -> Option<f64> {
        let of = |slots: &[Option<PathId>]| slots.iter().position(|path| *path == Some(id));
        let of_newcomer = || of(self.history.slots()).filter(|slot| self.answered[*slot].is_none());
        of(&self.answered).or_else(of_newcomer).map(|slot| self.shares[slot])
    }

    /// Sum and number of the shares of the paths that may send new data.
    fn whole(&self, cx: &Context<'_>) -> (f64, u32) {
        let known = choose::standing(cx).filter_map(|path| self.own(path.id));
        known.fold((0.0, 0), |(sum, count), share| (sum + share, count + 1))
    }

    /// The share of `id`; equal ones where those left add up to nothing.
    fn share(&self, id: PathId, (sum, count): (f64, u32)) -> f64 {
        self.own(id).map_or(0.0, |own| if sum > 0.0 { own / sum } else { 1.0 / f64::from(count.max(1)) })
    }

    fn credit(&self, id: PathId) -> f64 {
        self.credits.get(id).copied().unwrap_or_default()
    }

    /// Returns the path of largest credit for `len` bytes among those with a slot and room.
    fn richest<'a>(&self, cx: &Context<'a>, len: f64) -> Option<&'a Path> {
        let whole = self.whole(cx);
        let open = choose::candidates(cx).filter(|path| self.own(path.id).is_some());
        choose::least(open, |path| -(self.credit(path.id) + self.share(path.id, whole) * len))
    }

    fn note_sent(&mut self, cx: &Context<'_>, sent: &Receipt) {
        let (whole, len) = (self.whole(cx), sent.bytes.get() as f64);
        for path in choose::standing(cx) {
            let gained = self.share(path.id, whole) * len;
            *self.credits.at(path.id) += gained;
        }
        *self.credits.at(sent.path) -= len;
    }

    /// Takes shares that may be anything: none is negative, and they add up to 1.
    fn take(&mut self, action: &[f32]) {
        let given = action.iter().map(|share| f64::from(*share)).chain(core::iter::repeat(0.0));
        let sound = given.map(|share| if share.is_finite() { share.max(0.0) } else { 0.0 });
        self.shares.iter_mut().zip(sound).for_each(|(share, given)| *share = given);
        let sum: f64 = self.shares.iter().sum();
        let equal = 1.0 / self.shares.len() as f64;
        self.shares.iter_mut().for_each(|share| *share = if sum > 0.0 { *share / sum } else { equal });
    }
}

/// Returns the observation of `path`.
fn see(qualities: &Qualities, path: &Path, scale: f64) -> [f64; 5] {
    let quality = qualities.of(path.id);
    let bytes = |bytes: Bytes| norm::ratio(bytes.get() as f64, scale * D0);
    [
        norm::ratio(quality.throughput, scale),
        bytes(path.cwnd),
        norm::ratio(quality.mean_rtt, D0),
        bytes(path.unacked()),
        norm::ratio(quality.loss_now, LOSS_SCALE),
    ]
}

impl Rule for Shares {
    type Choice = ();

    const NEEDS: Needs = TASK.needs;

    fn length(&self, cx: &Context<'_>) -> Option<Span> {
        let least = choose::standing(cx).map(|path| path.srtt).min()?;
        Some((least * ROUND_TRIPS).clamp(SHORTEST, LONGEST))
    }

    fn end(&mut self, cx: &Context<'_>, passed: Span) -> f64 {
        self.qualities.turn(cx.now, passed, cx.paths);
        self.history.assign(cx);
        let (qualities, scale) = (&self.qualities, self.qualities.scale(cx.paths));
        self.history.push(|id| cx.path(id).map_or([0.0; 5], |path| see(qualities, path, scale)));
        self.reward(cx)
    }

    fn asks(&self, _: &Context<'_>, is_due: bool) -> bool {
        is_due && self.history.has_paths()
    }

    fn see(&self, _: &Context<'_>, observation: &mut [f32]) {
        observation.copy_from_slice(self.history.table());
    }

    fn select(&self, cx: &Context<'_>, chosen: Option<&()>) -> Decision {
        let Some(packet) = cx.packet else { return Decision::Wait };
        let has_shares = chosen.is_some() && self.whole(cx).1 > 0;
        if packet.reinjection || !packet.carried.is_empty() || !has_shares {
            return choose::send_or_wait(cx, choose::min_rtt(cx));
        }
        choose::send_or_wait(cx, self.richest(cx, packet.bytes.get() as f64))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event, _: &mut Ledger) {
        match event {
            Event::Sent(sent, SendKind::Fresh) => self.note_sent(cx, sent),
            Event::PathUp(path) | Event::PathDown(path) => {
                self.qualities.reset(*path);
                self.credits.reset(*path);
                self.history.assign(cx);
            }
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>, _: Option<&()>) -> Option<String> {
        let whole = self.whole(cx);
        let of = |path: &Path| format!("{:?} {:.3} {:+.0}", path.id, self.share(path.id, whole), self.credit(path.id));
        let paths: Vec<_> = cx.paths.iter().map(of).collect();
        Some(format!("shares and credits {}", paths.join(", ")))
    }

    fn answer(&mut self, cx: &Context<'_>, action: &[f32]) -> Option<()> {
        self.take(action);
        self.answered.copy_from_slice(self.history.slots());
        for path in cx.paths {
            let packet = path.mss.get() as f64;
            let credit = self.credits.at(path.id);
            *credit = credit.clamp(-packet, packet);
        }
        Some(())
    }
}

#[cfg(test)]
mod tests;
