//! A trained policy at work: a task, the network that answers its questions, and a fallback.
//!
//! While what is seen lies within the ranges that training saw, the network decides. Outside, a
//! named heuristic does, packet by packet, and the packets that it decided are counted
//! ([`Report::fallback`]): a network says nothing about what it has not seen. The same where its best output
//! leads the next by less than the card's `margin`, below which training found that its choices do not pay.

use weftway_path::spec::{Param, Params, Spec, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Span};

use super::fallback::Fallback;
use super::nn::{Network, Scratch};
use super::policy_file::{Head, PolicyFile};
use super::task::{Actions, Task, TaskEntry};
use crate::entry::ShippedPolicy;
use crate::shared::rng::PolicyRng;
use crate::{Needs, Report, Scheduler};

/// Which policy, for entries with shipped ones.
pub(crate) const fn policy(default: &'static str, values: &'static str) -> Param {
    Param {
        name: "policy",
        default,
        values,
        doc: "a shipped policy, or a policy file (safetensors) that `weft train` wrote",
    }
}

/// Behaviour of the other paths while an interval's choice is full.
pub(crate) const MODE: Param = Param {
    name: "mode",
    default: "card",
    values: "card | preferred | exclusive",
    doc: "while the chosen path is full: as in training, or the others send, or nothing is sent",
};

/// Time for which a fallback keeps to a path where the task's own intervals have no fixed length.
const INTERVAL: Span = Span::from_millis(100);

/// The scheduler that the switches of an entry name, which comes with `shipped`; its policies decide `task`.
pub(crate) fn build(
    params: &Params,
    shipped: &[ShippedPolicy],
    task: &TaskEntry,
) -> Result<Box<dyn Scheduler>, SpecError> {
    let (file, task) = open(params, shipped, task)?;
    let fallback = Fallback::new(params, &file)?;
    let rng = PolicyRng::new(params.get("seed")?);
    Ok(Box::new(Deployed::new(file, task, fallback, rng).map_err(|why| params.wrong("policy", why))?))
}

/// The policy that the switches name: one of `shipped`, or a file.
pub(crate) fn policy_file(params: &Params, shipped: &[ShippedPolicy]) -> Result<PolicyFile, SpecError> {
    let name = params.text("policy");
    let file = match shipped.iter().find(|shipped| shipped.name == name) {
        Some(shipped) => PolicyFile::parse(shipped.bytes),
        None => PolicyFile::read(name),
    };
    file.map_err(|error| params.wrong("policy", error.to_string()))
}

/// The policy that the switches name, and its task, which has to be `task`.
pub(crate) fn open(
    params: &Params,
    shipped: &[ShippedPolicy],
    task: &TaskEntry,
) -> Result<(PolicyFile, Box<dyn Task>), SpecError> {
    let file = policy_file(params, shipped)?;
    let wrong = |why: String| params.wrong("policy", why);
    let unclear = |error: SpecError| wrong(format!("its card's task: {error}"));
    let spec: Spec = spec(params, &file).parse().map_err(unclear)?;
    if spec.name != task.name {
        return Err(wrong(format!("its task is `{}`; this scheduler's is `{}`", spec.name, task.name)));
    }
    let built = task.make(&spec.given).map_err(unclear)?;
    Ok((file, built))
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
    fallback: Fallback,
    margin: f32,
    /// True if the last answer led by less than the margin.
    is_unsure: bool,
    rng: PolicyRng,
    observation: Vec<f32>,
    outputs: Vec<f32>,
    mask: Vec<bool>,
    action: Vec<f32>,
}

impl Deployed {
    /// `file`'s network over `task`; what does not fit is an error.
    pub(crate) fn new(
        file: PolicyFile,
        task: Box<dyn Task>,
        mut fallback: Fallback,
        rng: PolicyRng,
    ) -> Result<Self, String> {
        let shape = task.shape();
        fallback.keep_to(task.mode(), shape.interval.unwrap_or(INTERVAL));
        let (inputs, outputs, actions) = (shape.inputs.len(), shape.actions.outputs(), shape.actions);
        let network = file.network;
        if let Network::Falcon(_) = network {
            return Err("its network is a set of models; `falcon` picks from it".to_owned());
        }
        if network.inputs() != inputs || network.outputs() != outputs {
            let found = format!("{} inputs and {} outputs", network.inputs(), network.outputs());
            return Err(format!("its network has {found}; its task has {inputs} and {outputs}"));
        }
        Ok(Self {
            scratch: network.scratch(),
            head: file.head,
            actions,
            fallback,
            margin: file.margin,
            is_unsure: false,
            rng,
            observation: vec![0.0; inputs],
            outputs: vec![0.0; outputs],
            mask: vec![true; outputs],
            action: vec![0.0; actions.len()],
            network,
            task,
        })
    }

    /// Answers the question that is due, if one is. Whether the fallback has to stand in instead.
    fn decide(&mut self, cx: &Context<'_>) -> bool {
        if !self.task.question(cx, &mut self.observation) {
            return self.is_unsure;
        }
        self.is_unsure = false;
        if self.fallback.is_needed(&self.observation) {
            return true;
        }
        self.network.forward(&mut self.scratch, &self.observation, &mut self.outputs);
        self.choose(cx);
        self.task.answer(cx, &self.action);
        self.is_unsure = self.fallback.is_there() && self.margin > 0.0 && self.lead() < self.margin;
        self.is_unsure
    }

    /// By how much the best output leads the next; of several choices the least. Outputs of closed places do not count.
    fn lead(&self) -> f32 {
        let each = match self.actions {
            Actions::Several { choices, .. } => choices,
            _ => self.outputs.len(),
        };
        self.outputs.chunks(each.max(1)).map(lead).fold(f32::INFINITY, f32::min)
    }

    /// Turns the network's outputs into an answer.
    fn choose(&mut self, cx: &Context<'_>) {
        match self.actions {
            Actions::Shares(_) => {
                softmax(&mut self.outputs);
                self.action.copy_from_slice(&self.outputs);
            }
            Actions::Discrete(_) => {
                self.task.mask(cx, &mut self.mask);
                self.action[0] = pick(self.head, &mut self.outputs, &self.mask, &mut self.rng) as f32;
            }
            Actions::Several { choices, .. } => {
                for (action, outputs) in self.action.iter_mut().zip(self.outputs.chunks_mut(choices)) {
                    *action = pick(self.head, outputs, &self.mask, &mut self.rng) as f32;
                }
            }
        }
    }
}

/// The choice among `outputs` that `mask` leaves open: the largest, or drawn by their softmax.
fn pick(head: Head, outputs: &mut [f32], mask: &[bool], rng: &mut PolicyRng) -> usize {
    for (output, is_open) in outputs.iter_mut().zip(mask) {
        if !is_open {
            *output = f32::NEG_INFINITY;
        }
    }
    if head == Head::Sample {
        softmax(outputs);
        let mut left = rng.unit() as f32;
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

/// By how much the largest of `outputs` leads the next.
fn lead(outputs: &[f32]) -> f32 {
    let (mut best, mut next) = (f32::NEG_INFINITY, f32::NEG_INFINITY);
    for &output in outputs {
        if output > best {
            (best, next) = (output, best);
        } else {
            next = next.max(output);
        }
    }
    best - next
}

fn softmax(values: &mut [f32]) {
    let most = values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
    values.iter_mut().for_each(|value| *value = libm::expf(*value - most));
    let sum: f32 = values.iter().sum();
    values.iter_mut().for_each(|value| *value /= sum);
}

#[deny(clippy::missing_trait_methods)]
impl Scheduler for Deployed {
    fn needs(&self) -> Needs {
        self.task.needs().union(self.fallback.needs())
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let falls_back = self.decide(cx);
        // Where the fallback decides because a choice did not lead, the task carries out that choice too: its question
        // would stay open otherwise, and the network would be asked nothing more.
        let own = (!falls_back || self.is_unsure).then(|| self.task.select(cx));
        self.fallback.select(cx, falls_back).or(own).unwrap_or(Decision::Wait)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.fallback.observe(cx, event);
        self.task.observe(cx, event);
        // An interval's question is answered when the interval begins, not with its first packet. A packet's
        // waits for `select`: what is seen is then complete, as in training.
        if *event == Event::Wake {
            self.decide(cx);
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.task.wake().into_iter().chain(self.fallback.wake()).min()
    }

    fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        self.fallback.decided(cx, decision);
    }

    fn report(&self) -> Report {
        Report { fallback: self.fallback.tally(), ..self.task.report() }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let task = self.task.explain(cx).unwrap_or_default();
        if self.fallback.is_on() {
            let why = if self.is_unsure {
                "no choice leads by enough"
            } else {
                "the observation left the ranges of training"
            };
            return Some(format!("the fallback decides: {why}; {task}"));
        }
        Some(format!("outputs {:.3?}; {task}", self.outputs))
    }
}

#[cfg(test)]
mod tests;
