//! Foreseen: earliest delivery, with a learned estimate of when a packet arrives.
//!
//! Rule: that of `earliest-delivery`. On a path that holds data, the time until a packet arrives there is the rule's
//! own estimate times two to the power of what a network says; outside the ranges of training, the rule's own.
//! Reference: Weftway, docs/explanation/learning.md.
//! State: that of `earliest-delivery`, and of each path what its acknowledgements told in the last 400 ms.
//! Departs from print: nothing is printed.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path, Span};

use crate::entry::{Entry, Learning, Provenance};
use crate::learned::deployed;
use crate::learned::nn::{Network, Scratch};
use crate::learned::policy_file::PolicyFile;
use crate::rules::earliest_delivery::correction::{ArrivalEstimator, INPUTS, Inputs};
use crate::rules::earliest_delivery::{self, EarliestDelivery};
use crate::{Needs, Report, Scheduler};

/// Task that the card of a policy names.
const TASK: &str = "arrival";

pub(crate) static ENTRY: Entry = Entry {
    name: "foreseen",
    aliases: &[],
    version: 2,
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
    let file = deployed::policy_file(params, ENTRY.shipped)?;
    Ok(Box::new(Foreseen::new(Some(file)).map_err(|why| params.wrong("policy", why))?))
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

    /// With the word of an oracle instead of an estimate ([`told`](Self::told)).
    pub fn listening() -> Self {
        Self(EarliestDelivery::listening())
    }

    /// A packet given to `path` now arrives in `time`. It counts until the next word on the path, and where that holds
    /// data.
    pub fn told(&mut self, now: Instant, path: &Path, time: Span) {
        self.0.hear_arrival(now, path, time);
    }

    /// The names of what the network sees.
    pub fn inputs() -> &'static [&'static str] {
        &INPUTS
    }

    /// Observation of a path now, and the rule's own estimate of when a packet arrives.
    pub fn seen(&self, now: Instant, path: &Path) -> Option<(Inputs, Span)> {
        self.0.correction_inputs(now, path)
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

impl ArrivalEstimator for Arrival {
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::policy_file::tests::{CARD, file};
    use weftway_path::PathId;
    use weftway_vectors::testing::{Bench, path};

    /// A policy whose network says `says` whatever it sees, and which saw inputs from -8 to `high`.
    fn policy(task: &str, inputs: usize, says: f32, high: f32) -> PolicyFile {
        let card = CARD.map(|(key, value)| match key {
            "task" => (key, task),
            "head" => (key, "values"),
            _ => (key, value),
        });
        let (low, high, w) = (vec![-8.0; inputs], vec![high; inputs], vec![0.0; inputs]);
        let tensors: [(&str, &[usize], &[f32]); 4] =
            [("low", &[inputs], &low), ("high", &[inputs], &high), ("w1", &[inputs, 1], &w), ("b1", &[1], &[says])];
        PolicyFile::parse(&file(&card, &tensors)).unwrap()
    }

    /// Tests which path goes first with such a policy. F holds five packets of ten and has a round trip of 20 ms: a
    /// packet arrives in 10 ms. S has 30 and holds nothing: 15 ms.
    fn first(policy: Option<PolicyFile>) -> Decision {
        let bench = Bench::new(vec![path(0, 20, 10, 5), path(1, 30, 10, 0)]);
        Foreseen::new(policy).unwrap().select(&bench.context())
    }

    #[test]
    fn an_arrival_is_corrected_where_the_path_holds_data_and_the_network_knows_the_like() {
        let (f, s) = (Decision::Send(PathId::new(0)), Decision::Send(PathId::new(1)));
        let with = |says, high| first(Some(policy(TASK, INPUTS.len(), says, high)));
        assert_eq!([first(None), with(0.0, 100.0)], [f, f]);
        // Half of F's is sooner still, twice is 20 ms; S holds nothing, so that its own 15 ms stand.
        assert_eq!([with(-1.0, 100.0), with(1.0, 100.0)], [f, s]);
        // The pacer and what was never lost are seen as 8: training went up to 7.
        assert_eq!(with(1.0, 7.0), f);
    }

    #[test]
    fn a_policy_for_something_else_is_refused() {
        let said = |policy| Foreseen::new(Some(policy)).err().unwrap();
        assert_eq!(
            said(policy("wait-or-send", INPUTS.len(), 0.0, 1.0)),
            "its task is `wait-or-send`; this scheduler's is `arrival`"
        );
        assert_eq!(said(policy(TASK, 3, 0.0, 1.0)), "its network has 3 inputs and 1 outputs; an estimate has 36 and 1");
    }

    /// Asked again in the same moment it sees the same, and what it sees of an idle path is told too.
    #[test]
    fn what_is_seen_does_not_depend_on_who_asks() {
        let bench = Bench::new(vec![path(0, 20, 10, 5), path(1, 30, 10, 0)]);
        let mut asked = Foreseen::new(Some(policy(TASK, INPUTS.len(), 1.0, 100.0))).unwrap();
        let seen =
            |rule: &Foreseen| bench.paths.iter().map(|path| rule.seen(bench.now, path).unwrap()).collect::<Vec<_>>();
        let before = seen(&asked);
        let _ = asked.select(&bench.context());
        assert_eq!(seen(&asked), before);
        assert_eq!(before[0].1, Span::from_millis(10));
        assert_eq!(Foreseen::inputs().len(), before[0].0.len());
    }
}
