//! A trained policy at work: a task, the network that answers its questions, and a guard.
//!
//! While what is seen lies within the ranges that training saw, the network decides. Outside, a
//! named heuristic does, packet by packet, and the packets that it decided are counted
//! ([`Scheduler::guarded`]): a network says nothing about what it has not seen.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, SendKind};

use super::draw::Coins;
use super::nn::{Network, Scratch};
use super::policy_file::{Head, PolicyFile};
use super::shipped::shipped;
use super::task::{Actions, Task, TaskEntry, build_task};
use crate::Scheduler;

/// Which policy, for entries with shipped ones.
pub(crate) const fn policy(default: &'static str, values: &'static str) -> Param {
    Param { name: "policy", default, values, doc: "a shipped policy, or a policy file (safetensors) that `weft train` wrote" }
}

/// What decides outside the ranges of training.
pub(crate) const GUARD: Param = Param {
    name: "guard",
    default: "card",
    values: "card | off | a scheduler of the registry",
    doc: "what decides where inputs leave the ranges of training: as the policy's card says, nothing, or this one",
};

/// What other paths do while an interval's choice is full.
pub(crate) const MODE: Param = Param {
    name: "mode",
    default: "card",
    values: "card | preferred | exclusive",
    doc: "while the chosen path is full: as in training, or the others send, or nothing is sent",
};

/// The scheduler that the switches of an entry name; its policies decide `task`.
pub(crate) fn build(params: &Params, task: &TaskEntry) -> Result<Box<dyn Scheduler>, SpecError> {
    let wrong = |why: String| params.wrong("policy", why);
    let name = params.text("policy");
    let file = match shipped(params.entry()).find(|shipped| shipped.name == name) {
        Some(shipped) => PolicyFile::parse(shipped.bytes),
        None => PolicyFile::read(name),
    };
    let file = file.map_err(|error| wrong(error.to_string()))?;
    let spec = spec(params, &file);
    let (entry, built) = build_task(&spec).map_err(|error| wrong(format!("its card's task: {error}")))?;
    if entry.name != task.name {
        return Err(wrong(format!("its task is `{}`; this scheduler's is `{}`", entry.name, task.name)));
    }
    let guard = match params.text("guard") {
        "card" => file.guard().to_owned(),
        other => other.to_owned(),
    };
    let guard = if guard == "off" { None } else { Some(crate::build(&guard)?) };
    let coins = Coins::new(params.get("seed")?);
    Ok(Box::new(Deployed::new(file, built, guard, coins).map_err(wrong)?))
}

/// The task of the card, in the mode that was asked for.
fn spec(params: &Params, file: &PolicyFile) -> String {
    let mode = if params.declares("mode") { params.text("mode") } else { "card" };
    if mode == "card" {
        return file.task().to_owned();
    }
    let kept = file.task().split(':').filter(|part| !part.starts_with("mode="));
    kept.chain([format!("mode={mode}").as_str()]).collect::<Vec<_>>().join(":")
}

/// A policy as a scheduler.
#[derive(Clone)]
pub(crate) struct Deployed {
    task: Box<dyn Task>,
    network: Network,
    scratch: Scratch,
    head: Head,
    actions: Actions,
    low: Vec<f32>,
    high: Vec<f32>,
    guard: Option<Box<dyn Scheduler>>,
    coins: Coins,
    seen: Vec<f32>,
    outputs: Vec<f32>,
    open: Vec<bool>,
    action: Vec<f32>,
    /// Whether the guard gave the last answer, and how often it did.
    is_guarded: bool,
    guarded: u64,
}

impl Deployed {
    /// `file`'s network over `task`; what does not fit is an error.
    pub(crate) fn new(
        file: PolicyFile,
        task: Box<dyn Task>,
        guard: Option<Box<dyn Scheduler>>,
        coins: Coins,
    ) -> Result<Self, String> {
        let shape = task.shape();
        let (inputs, outputs, actions) = (shape.inputs.len(), shape.actions.outputs(), shape.actions);
        let network = file.network;
        if network.inputs() != inputs || network.outputs() != outputs {
            let found = format!("{} inputs and {} outputs", network.inputs(), network.outputs());
            return Err(format!("its network has {found}; its task has {inputs} and {outputs}"));
        }
        Ok(Self {
            scratch: network.scratch(),
            head: file.head,
            actions,
            low: file.low,
            high: file.high,
            guard,
            coins,
            seen: vec![0.0; inputs],
            outputs: vec![0.0; outputs],
            open: vec![true; outputs],
            action: vec![0.0; actions.len()],
            is_guarded: false,
            guarded: 0,
            network,
            task,
        })
    }

    /// Answers the question that is due, if one is. Whether the guard has to stand in instead.
    fn decide(&mut self, cx: &Context<'_>) -> bool {
        if !self.task.question(cx, &mut self.seen) {
            return false;
        }
        if self.guard.is_some() && !self.is_familiar() {
            return true;
        }
        self.network.forward(&mut self.scratch, &self.seen, &mut self.outputs);
        self.choose(cx);
        self.task.answer(cx, &self.action);
        false
    }

    /// Whether training saw the like.
    fn is_familiar(&self) -> bool {
        let ranges = self.low.iter().zip(&self.high);
        self.seen.iter().zip(ranges).all(|(seen, (low, high))| (low..=high).contains(&seen))
    }

    /// Turns the network's outputs into an answer.
    fn choose(&mut self, cx: &Context<'_>) {
        match self.actions {
            Actions::Shares(_) => {
                softmax(&mut self.outputs);
                self.action.copy_from_slice(&self.outputs);
            }
            Actions::Discrete(_) => {
                self.task.mask(cx, &mut self.open);
                self.action[0] = pick(self.head, &mut self.outputs, &self.open, &mut self.coins) as f32;
            }
            Actions::Several { choices, .. } => {
                for (action, outputs) in self.action.iter_mut().zip(self.outputs.chunks_mut(choices)) {
                    *action = pick(self.head, outputs, &self.open, &mut self.coins) as f32;
                }
            }
        }
    }
}

/// The choice among `outputs` whose place is `open`: the largest, or drawn by their softmax.
fn pick(head: Head, outputs: &mut [f32], open: &[bool], coins: &mut Coins) -> usize {
    for (output, open) in outputs.iter_mut().zip(open) {
        if !open {
            *output = f32::NEG_INFINITY;
        }
    }
    if head == Head::Sample {
        softmax(outputs);
        let mut left = coins.unit() as f32;
        for (at, chance) in outputs.iter().enumerate() {
            left -= chance;
            if left < 0.0 {
                return at;
            }
        }
    }
    let mut best = 0;
    for (at, output) in outputs.iter().enumerate() {
        if *output > outputs[best] {
            best = at;
        }
    }
    best
}

fn softmax(values: &mut [f32]) {
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    values.iter_mut().for_each(|value| *value = libm::expf(*value - most));
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}

impl Scheduler for Deployed {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.is_guarded = self.decide(cx);
        match &mut self.guard {
            Some(guard) if self.is_guarded => guard.select(cx),
            _ => self.task.select(cx),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        if let Event::Sent(_, kind) = event
            && *kind != SendKind::Copy
        {
            self.guarded += u64::from(self.is_guarded);
        }
        if let Some(guard) = &mut self.guard {
            guard.observe(cx, event);
        }
        self.task.observe(cx, event);
        // An interval's question is answered when the interval begins, not with its first packet.
        self.decide(cx);
    }

    fn wake(&self) -> Option<Instant> {
        let guard = self.guard.as_ref().and_then(|guard| guard.wake());
        self.task.wake().into_iter().chain(guard).min()
    }

    fn guarded(&self) -> Option<u64> {
        self.guard.as_ref().map(|_| self.guarded)
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let task = self.task.explain(cx).unwrap_or_default();
        if self.is_guarded {
            return Some(format!("the guard decides: what is seen left the ranges of training; {task}"));
        }
        Some(format!("outputs {:.3?}; {task}", self.outputs))
    }
}
