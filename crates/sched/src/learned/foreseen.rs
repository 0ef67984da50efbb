//! Foreseen: earliest delivery, with a learned estimate of when a packet arrives.
//!
//! Rule: that of `earliest-delivery`. On a path that holds data, the time until a packet arrives there is the rule's own
//! estimate times two to the power of what a network says; outside the ranges of training, the rule's own.
//! Reference: ours; docs/explanation/learning.md.
//! State: that of `earliest-delivery`, and of each path what its acknowledgements told in the last 400 ms.
//! Departs from print: nothing is printed.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path, Span};

use crate::entry::{Entry, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::nn::{Network, Scratch};
use crate::learned::policy_file::PolicyFile;
use crate::rules::earliest_delivery::sight::{Foresight, INPUTS, Inputs};
use crate::rules::earliest_delivery::{self, EarliestDelivery};
use crate::{Needs, Report, Scheduler};

/// What the card of a policy names as its task.
const TASK: &str = "arrival";

pub(crate) static ENTRY: Entry = Entry {
    name: "foreseen",
    aliases: &[],
    summary: "earliest delivery, with a learned estimate of when a packet arrives",
    reference: "Weftway, docs/explanation/learning.md",
    provenance: Provenance::Code,
    goal: "delivery in order, whatever the controller",
    application: "general",
    inputs: earliest_delivery::ENTRY.inputs,
    needs: earliest_delivery::ENTRY.needs,
    waits: true,
    learning: Some(Learning {
        year: 2026,
        learner: "a network trained on where packets wait, frozen",
        state: "what a path's acknowledgements told in the last 400 ms",
        reward: "none: the label is when a packet arrives",
        actions: "none: the rule decides",
    }),
    shipped: shipped!("foreseen": "drives"),
    params: &[deployed::policy("drives", "drives")],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let name = params.text("policy");
    let file = match ENTRY.shipped.iter().find(|shipped| shipped.name == name) {
        Some(shipped) => PolicyFile::parse(shipped.bytes),
        None => PolicyFile::read(name),
    };
    let wrong = |why: String| params.wrong("policy", why);
    let file = file.map_err(|error| wrong(error.to_string()))?;
    Ok(Box::new(Foreseen::new(Some(file)).map_err(wrong)?))
}

/// The scheduler, which also tells what its network sees.
#[derive(Clone)]
pub struct Foreseen(EarliestDelivery);

impl Foreseen {
    /// With the estimate of `policy`, or none: then it decides as the rule does, and sees what the network would.
    pub fn new(policy: Option<PolicyFile>) -> Result<Self, String> {
        let arrival = match policy {
            None => Arrival { network: None, low: Vec::new(), high: Vec::new() },
            Some(file) => Arrival::new(file)?,
        };
        Ok(Self(EarliestDelivery::corrected(Box::new(arrival))))
    }

    /// The names of what the network sees.
    pub fn inputs() -> &'static [&'static str] {
        &INPUTS
    }

    /// What the network sees of a path now, and the rule's own estimate of when a packet arrives.
    pub fn seen(&self, now: Instant, path: &Path) -> Option<(Inputs, Span)> {
        self.0.seen(now, path)
    }
}

impl Scheduler for Foreseen {
    fn needs(&self) -> Needs {
        self.0.needs()
    }

    fn report(&self) -> Report {
        self.0.report()
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.0.select(cx)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.0.observe(cx, event);
    }

    fn wake(&self) -> Option<Instant> {
        self.0.wake()
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        self.0.explain(cx)
    }
}

/// The network.
#[derive(Clone)]
struct Arrival {
    network: Option<(Network, Scratch)>,
    low: Vec<f32>,
    high: Vec<f32>,
}

impl Arrival {
    fn new(file: PolicyFile) -> Result<Self, String> {
        if file.task() != TASK {
            return Err(format!("its task is `{}`; this scheduler's is `{TASK}`", file.task()));
        }
        let network = file.network;
        if network.inputs() != INPUTS.len() || network.outputs() != 1 {
            let found = format!("{} inputs and {} outputs", network.inputs(), network.outputs());
            return Err(format!("its network has {found}; an estimate has {} and 1", INPUTS.len()));
        }
        let scratch = network.scratch();
        Ok(Self { network: Some((network, scratch)), low: file.low, high: file.high })
    }
}

impl Foresight for Arrival {
    fn correction(&mut self, inputs: &Inputs) -> Option<f32> {
        let (network, scratch) = self.network.as_mut()?;
        let ranges = self.low.iter().zip(&self.high);
        if !inputs.iter().zip(ranges).all(|(input, (low, high))| (low..=high).contains(&input)) {
            return None;
        }
        let mut out = [0.0];
        network.forward(scratch, inputs, &mut out);
        Some(out[0])
    }
}
