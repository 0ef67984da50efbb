//! Which path for the messages of one size, in the next interval?
//!
//! Once per interval and size class, when the first packet of a message of that class is at hand;
//! the answer holds for the class until the interval ends. `hold=message`: once per message.
//! Seen: for each of `slots` paths (N), each of six numbers (C: spare rate, throughput, window,
//! packets, loss, round-trip time, [`crate::shared::quality`]) at the end of each of the last
//! `steps` intervals (T, oldest first), which is X (N,C,T); then of the message at hand and of what
//! is unsent, c (2,T); then 1 for each slot whose path is alive. Intervals before the start are 0.
//! Actions: the number of a slot.
//! Earned: what `path` earns of the interval, `Σ ln((TT + 1 kB/s)/(125 kB/s))` over the paths,
//! in equal parts by the decisions of the interval.
//! Reference: STSGAT / PDASTSGAT, section 3, with inputs as in PDAA3C. The paper's packet sizes of
//! "1 kb, 5 kb, 10 kb" are read as messages of so many thousand bytes.
//! Departs from print: neither features nor steps nor classes are printed; they are ours.

use std::collections::VecDeque;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Offset, Path, PathId, Span};

use crate::learned::intervals::slots;
use crate::learned::intervals::task::{IntervalTask, Rule};
use crate::learned::task::{Actions, Input, Ledger, Shape, Task, TaskEntry};
use crate::shared::choose;
use crate::shared::epochs::{self, Epochs};
use crate::shared::interval::ChosenBytes;
use crate::shared::norm;
use crate::shared::per_path::PerPath;
use crate::shared::quality::{self, Qualities};
use crate::{Mode, Needs};

pub(crate) static TASK: TaskEntry = TaskEntry {
    name: "graph",
    summary: "the path of the messages of one size class in the next interval, from the last intervals of all paths",
    needs: Needs { flow: true, wake: true, events: true, ..Needs::NONE },
    params: &[
        slots::SLOTS,
        Param {
            name: "steps",
            default: "12",
            values: "intervals, 1 to 100",
            doc: "how many of the last intervals are seen",
        },
        slots::INTERVAL,
        epochs::MODE,
        Param {
            name: "hold",
            default: "interval",
            values: "interval | message",
            doc: "how long an answer holds: for the messages of its class until the interval ends, or for its message",
        },
        Param {
            name: "small",
            default: "2000",
            values: "bytes, 1 to 1000000000",
            doc: "the largest message of the first size class",
        },
        Param {
            name: "large",
            default: "7000",
            values: "bytes, 1 to 1000000000",
            doc: "the largest message of the second size class; bulk data are of the third",
        },
    ],
    build,
};

/// Observation of a path.
const FEATURES: [&str; 6] = ["spare", "throughput", "cwnd", "packets", "loss", "srtt"];

/// Observation of the data, and what counts as 1, in bytes.
const DATA: [(&str, f64); 2] = [("message", 10e3), ("backlog", 128e3)];

/// Size classes.
const CLASSES: usize = 3;

fn build(params: &Params) -> Result<Box<dyn Task>, SpecError> {
    let slots = params.within("slots", 1..=PathId::MAX_PATHS)?;
    let steps = params.within("steps", 1..=100)?;
    let interval = Span::from_millis(params.within("interval_ms", 1..=60_000)?);
    let bound = |name| Ok(Bytes::new(params.within(name, 1..=1_000_000_000)?));
    let shape = Shape { inputs: inputs(slots, steps), actions: Actions::Discrete(slots), interval: Some(interval) };
    let rule = Graph {
        steps,
        mode: epochs::mode(params)?,
        by_message: params.choice("hold", &[("interval", false), ("message", true)])?,
        bounds: [bound("small")?, bound("large")?],
        qualities: Qualities::default(),
        rows: PerPath::default(),
        data: VecDeque::from(vec![[0.0; DATA.len()]; steps]),
        at: vec![None; slots],
        held: [None; CLASSES],
        carried: ChosenBytes::default(),
    };
    Ok(Box::new(IntervalTask::new(shape, Epochs::new(interval, Span::ZERO), rule)))
}

fn inputs(slots: usize, steps: usize) -> Vec<Input> {
    let name = |what: &str, step: usize| Input::normalised(format!("{what}.{step}"));
    let of_slot = |slot: usize| FEATURES.map(|feature| format!("{feature}.{slot}"));
    let rows = (0..slots).flat_map(of_slot).chain(DATA.map(|(name, _)| name.to_owned()));
    let observation = rows.flat_map(|row| (0..steps).map(move |step| name(&row, step)).collect::<Vec<_>>());
    observation.chain((0..slots).map(|slot| Input::share(format!("alive.{slot}")))).collect()
}

#[derive(Clone)]
struct Graph {
    steps: usize,
    mode: Mode,
    by_message: bool,
    bounds: [Bytes; CLASSES - 1],
    qualities: Qualities,
    /// Observation of each path at the end of each interval, newest first; what is missing is 0.
    rows: PerPath<VecDeque<[f32; FEATURES.len()]>>,
    /// Observation of the data, always `steps` of them.
    data: VecDeque<[f32; DATA.len()]>,
    /// Path of each slot.
    at: Vec<Option<PathId>>,
    /// The answer for each class: which message asked, and the path.
    held: [Option<(Offset, PathId)>; CLASSES],
    /// Bytes on the path that the last answer named, for whichever class.
    carried: ChosenBytes,
}

impl Graph {
    /// The end of an interval as it is seen.
    fn look(&mut self, cx: &Context<'_>) {
        let scale = self.qualities.scale(cx.paths);
        for number in 0..PathId::MAX_PATHS as u8 {
            let id = PathId::new(number);
            let path = cx.path(id);
            if path.is_some() || self.rows.get(id).is_some() {
                let row = path.map_or([0.0; FEATURES.len()], |path| self.qualities.observation(path, scale));
                push(self.rows.at(id), row, self.steps);
            }
        }
        push(&mut self.data, cx.flow.map_or([0.0; DATA.len()], data), self.steps);
        self.fill_slots(cx);
    }

    /// Puts the living paths into the slots; of too many, those of best quality.
    fn fill_slots(&mut self, cx: &Context<'_>) {
        let standing: Vec<&Path> = choose::standing(cx).collect();
        let scores = self.qualities.qualities(&standing, false);
        let best: Vec<PathId> = quality::ranked(&scores).iter().map(|at| standing[*at].id).collect();
        let most = best.len().min(self.at.len());
        slots::assign(&mut self.at, &best[..most]);
    }

    /// The class of a message.
    fn class(&self, flow: &Flow) -> usize {
        let size = flow.message_end.since(flow.message_start);
        self.bounds.iter().filter(|bound| size > **bound).count()
    }

    /// The answer that holds for the message at hand.
    fn answered(&self, flow: &Flow) -> Option<PathId> {
        let (message, path) = self.held[self.class(flow)]?;
        (!self.by_message || message == flow.message_start).then_some(path)
    }
}

/// The newest first, so many at most.
fn push<T>(rows: &mut VecDeque<T>, row: T, most: usize) {
    rows.push_front(row);
    rows.truncate(most);
}

/// Returns the observation of the data: the message at hand, and what is unsent.
fn data(flow: &Flow) -> [f32; DATA.len()] {
    let bytes = [flow.message_end.since(flow.message_start), flow.unsent];
    [0, 1].map(|at| norm::ratio(bytes[at].get() as f64, DATA[at].1) as f32)
}

/// The data at hand, if they are new.
fn fresh<'a>(cx: &Context<'a>) -> Option<&'a Flow> {
    cx.packet.filter(|packet| !packet.reinjection && packet.carried.is_empty()).and(cx.flow)
}

impl Rule for Graph {
    type Choice = ();

    const NEEDS: Needs = TASK.needs;

    fn mode(&self) -> Option<Mode> {
        Some(self.mode)
    }

    fn end(&mut self, cx: &Context<'_>, passed: Span) -> f64 {
        self.held = [None; CLASSES];
        self.qualities.turn(cx.now, passed, cx.paths);
        self.look(cx);
        self.qualities.reward(cx.paths)
    }

    fn hold(&mut self, cx: &Context<'_>, _: Option<&()>) {
        self.carried.settle(cx);
    }

    fn asks(&self, cx: &Context<'_>, _: bool) -> bool {
        fresh(cx).is_some_and(|flow| self.answered(flow).is_none()) && self.at.iter().any(Option::is_some)
    }

    fn see(&self, cx: &Context<'_>, observation: &mut [f32]) {
        observation.fill(0.0);
        let (steps, features) = (self.steps, FEATURES.len());
        for (slot, id) in self.at.iter().enumerate() {
            let rows = id.and_then(|id| self.rows.get(id)).into_iter().flatten();
            for (age, row) in rows.enumerate() {
                for (feature, value) in row.iter().enumerate() {
                    observation[(slot * features + feature) * steps + steps - 1 - age] = *value;
                }
            }
        }
        let slots = self.at.len();
        let (of_data, alive) = observation[slots * features * steps..].split_at_mut(DATA.len() * steps);
        for (age, row) in self.data.iter().enumerate() {
            row.iter().enumerate().for_each(|(at, value)| of_data[at * steps + steps - 1 - age] = *value);
        }
        of_data[steps - 1] = cx.flow.map_or(0.0, |flow| data(flow)[0]);
        alive.iter_mut().zip(&self.at).for_each(|(alive, id)| *alive = f32::from(u8::from(id.is_some())));
    }
    fn mask(&self, mask: &mut [bool]) {
        mask.iter_mut().zip(&self.at).for_each(|(open, path)| *open = path.is_some());
    }

    /// The answer holds for a class of messages; the interval itself has no choice.
    fn answer(&mut self, cx: &Context<'_>, action: &[f32]) -> Option<()> {
        let named = action.first().and_then(|action| self.at.get(*action as usize).copied().flatten());
        // A slot without a path: the first that has one.
        let path = named.or_else(|| self.at.iter().copied().flatten().next());
        if let (Some(flow), Some(path)) = (cx.flow, path) {
            self.carried.turn(cx, Some(path));
            self.held[self.class(flow)] = Some((flow.message_start, path));
        }
        None
    }

    fn select(&self, cx: &Context<'_>, _: Option<&()>) -> Decision {
        slots::send_chosen(cx, cx.flow.and_then(|flow| self.answered(flow)), self.mode)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event, _: &mut Ledger) {
        if let Event::PathUp(path) | Event::PathDown(path) = *event {
            self.qualities.reset(path);
            self.fill_slots(cx);
        }
    }

    fn chosen_bytes(&self) -> Option<Bytes> {
        Some(self.carried.total())
    }

    fn explain(&self, _: &Context<'_>, _: Option<&()>) -> Option<String> {
        Some(format!("by class {:?}", self.held.map(|held| held.map(|(_, path)| path))))
    }
}

#[cfg(test)]
mod tests;
