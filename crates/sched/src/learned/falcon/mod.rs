//! FALCON: a network per kind of condition, picked when the network changes, then adapted.
//!
//! Rule: while F is full, the action of the larger `Q(s, ·)`: wait for F (0) or send on S (1), where
//!   s = (cwnd F, cwnd S, srtt F, srtt S, in flight F, in flight S, credit), normalised.
//! At the start and whenever a test finds the network changed (`change`), Q becomes a copy of the meta-model of the
//! group of conditions: delivery rate of S over F's, loss, srtt of S over F's, as trailing averages. With 32 decisions'
//! rewards it takes at most 10 gradient steps on them, and goes on with one step per 32 more at a smaller rate. Actions
//! are drawn at random with ε = 0.3 for 100 decisions after a change, 0.05 later.
//! Reference: Wu et al.: FALCON, multipath scheduling using offline and online learning, 2022; the MPQUIC comparison,
//! section 3.2.5 and Table 1 (state, actions, reward). Where the card says that a group's model lost to min-RTT in
//! training, the fallback decides, and is learned from with the same exploration, until its copy has adapted; then the
//! copy does.
//! Policies: `meta` is trained as printed; `completion` has one network for all groups, trained for the time until data
//! have arrived, and does not adapt.
//! State: the weights in use and Adam's moments, the newest 256 transitions, means per path.
//! Departs from print: groups, network, test and rates of learning are ours, as the comparison gives none. Decisions
//! from before a change are not learned from: they earned in another network.

mod change;
mod experience;
mod learner;
mod trainer;

use change::{Change, Sample};
use learner::{Learner, Settings, Stage};
use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path};

use crate::entry::{Arity, Entry, Input, Learning, Needs, Provenance};
use crate::learned::deployed::{open, policy};
use crate::learned::dqn::task::TASK;
use crate::learned::fallback::{FALLBACK, Fallback};
use crate::learned::nn::falcon::{Condition, GROUPS};
use crate::learned::nn::{Models, Network};
use crate::learned::pair;
use crate::learned::pair::roles::Roles;
use crate::learned::policy_file::PolicyFile;
use crate::learned::task::{Actions, Task};
use crate::shared::rng::{PolicyRng, SEED};
use crate::{Report, Scheduler};

pub(crate) static ENTRY: Entry = Entry {
    name: "falcon",
    version: 2,
    summary: "a network per kind of condition, picked when the network changes and adapted while sending",
    reference: "Wu et al.: FALCON, multipath scheduling using offline and online learning, 2022",
    provenance: Provenance::Secondary,
    goal: "throughput as paths change",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate, Input::Loss, Input::Queue, Input::Window],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2022,
        learner: "deep Q-networks of twelve groups, adapted on line",
        state: "window, srtt and data in flight of both, credit",
        reward: "throughput of the pair",
        actions: pair::ACTIONS,
    }),
    shipped: shipped!("falcon": "meta" "completion"),
    params: &[
        policy("meta", "meta | completion"),
        FALLBACK,
        Param {
            name: "adapt",
            default: "card",
            values: "card | on | off",
            doc: "whether weights and actions move while sending; off, the group's model decides as it came; as the card says, which means on where it says nothing",
        },
        Param { name: "steps", default: "10", values: "gradient steps, 0 to 10", doc: "how far a copy is adapted" },
        Param { name: "adapt_lr", default: "0.001", values: "number, 0 to 1", doc: "learning rate of adaptation" },
        Param { name: "lr", default: "0.0005", values: "number, 0 to 1", doc: "learning rate after it" },
        Param {
            name: "eps_first",
            default: "0.3",
            values: "probability, 0 to 1",
            doc: "exploration in the first 100 decisions after a change",
        },
        Param { name: "eps", default: "0.05", values: "probability, 0 to 1", doc: "exploration after these" },
        change::DELTA,
        change::LAMBDA,
        SEED,
    ],
    build,
    ..Entry::NEW
};

/// Decisions after a change that explore more.
const FIRST: u64 = 100;

/// The discount of a card that names none.
const GAMMA: f32 = 0.9;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let (file, task) = open(params, ENTRY.shipped, &TASK)?;
    Ok(Box::new(Falcon::new(params, file, task)?))
}

#[derive(Clone)]
struct Falcon {
    task: Box<dyn Task>,
    fallback: Fallback,
    models: Models,
    change: Change,
    learner: Learner,
    adapts: bool,
    eps: [f64; 2],
    rng: PolicyRng,
    /// None: to be picked with the next question.
    group: Option<usize>,
    /// Groups that the fallback serves until their copy has adapted.
    modelless: [bool; GROUPS],
    /// True if the last answer is the fallback's, learned from.
    stands_in: bool,
    /// Decisions since it was picked.
    decisions: u64,
    observation: Vec<f32>,
    values: Vec<f32>,
}

impl Falcon {
    fn new(params: &Params, file: PolicyFile, mut task: Box<dyn Task>) -> Result<Self, SpecError> {
        let wrong = |why: String| params.wrong("policy", why);
        let fallback = Fallback::new(params, &file)?;
        let (settings, modelless) = (settings(params, &file)?, modelless(params, &file)?);
        let adapts = match params.choice("adapt", &[("card", None), ("on", Some(true)), ("off", Some(false))])? {
            Some(adapts) => adapts,
            None => adapts(params, file.card("adapt"))?,
        };
        let Network::Falcon(models) = file.network else {
            return Err(wrong("its network is no set of models; its card should say `falcon:groups=12`".to_owned()));
        };
        let (inputs, actions, model) = (task.shape().inputs.len(), task.shape().actions, models.of(0));
        if actions != Actions::Discrete(model.outputs()) || model.inputs() != inputs {
            let found = format!("{} inputs and {} outputs", model.inputs(), model.outputs());
            return Err(wrong(format!("its models have {found}; its task has {inputs} and {}", actions.outputs())));
        }
        if adapts {
            task.ledger().open();
        }
        let seed: u64 = params.get("seed")?;
        Ok(Self {
            modelless,
            stands_in: false,
            fallback,
            change: Change::new(params)?,
            // Batches have draws of their own, so that how much is learned does not move actions' draws.
            learner: Learner::new(model, settings, PolicyRng::new(!seed)),
            adapts,
            eps: [params.within("eps_first", 0.0..=1.0)?, params.within("eps", 0.0..=1.0)?],
            rng: PolicyRng::new(seed),
            group: None,
            decisions: 0,
            observation: vec![0.0; inputs],
            values: vec![0.0; model.outputs()],
            models,
            task,
        })
    }

    /// Answers the question that is due, if one is. Whether the fallback has to stand in instead.
    fn decide(&mut self, cx: &Context<'_>) -> bool {
        if !self.task.question(cx, &mut self.observation) {
            return self.stands_in;
        }
        self.stands_in = false;
        self.pick(cx);
        if self.fallback.is_needed(&self.observation) || self.follows() && !self.adapts {
            return true;
        }
        let action = self.choose(cx);
        if self.adapts {
            let number = self.task.ledger().decisions();
            self.learner.decide(number, &self.observation, action);
        }
        self.task.answer(cx, &[action as f32]);
        self.decisions += 1;
        self.stands_in
    }

    /// Returns true if the fallback is at work because the group's model lost in training and its copy has not adapted
    /// yet.
    fn follows(&self) -> bool {
        let lost = self.group.is_some_and(|group| self.modelless[group]);
        lost && self.fallback.is_there() && self.learner.stage() == Stage::Fresh
    }

    /// Begins with the model of the condition, if none is in use.
    fn pick(&mut self, cx: &Context<'_>) {
        if self.group.is_none() {
            let group = self.condition(cx).group();
            self.learner.restart(self.models.of(group));
            (self.group, self.decisions) = (Some(group), 0);
        }
    }

    fn condition(&self, cx: &Context<'_>) -> Condition {
        let recent = |path: &Path| self.change.recent(path.id).unwrap_or_else(|| Sample::of(path));
        let Roles { fast, slow, .. } = Roles::of(cx);
        let [f, s] = [fast, slow].map(|path| path.map(recent).unwrap_or_default());
        Condition { rate_ratio: ratio(s.rate, f.rate), loss: f.loss.max(s.loss), rtt_ratio: ratio(s.srtt, f.srtt) }
    }

    /// The action for what is seen: the better one, or the fallback's, or now and then any.
    fn choose(&mut self, cx: &Context<'_>) -> usize {
        self.learner.values(&self.observation, &mut self.values);
        let eps = self.eps[usize::from(self.decisions >= FIRST)];
        if self.adapts && self.rng.flip(eps) {
            return (self.rng.unit() * self.values.len() as f64) as usize;
        }
        if self.follows()
            && let Some(decision) = self.fallback.select(cx, true)
        {
            self.stands_in = true;
            return usize::from(decision != Decision::Wait);
        }
        let mut best = 0;
        for (at, value) in self.values.iter().enumerate() {
            if *value > self.values[best] {
                best = at;
            }
        }
        best
    }

    /// The network is another: the next question picks a model anew.
    fn begin_anew(&mut self) {
        self.group = None;
        self.learner.forget();
    }
}

fn settings(params: &Params, file: &PolicyFile) -> Result<Settings, SpecError> {
    let gamma = match file.card("gamma") {
        None => GAMMA,
        Some(said) => said.parse().ok().filter(|gamma| (0.0..1.0).contains(gamma)).ok_or_else(|| {
            params.wrong("policy", format!("its card says `gamma = {said}`; expected a number from 0 to below 1"))
        })?,
    };
    let rates = [params.within("adapt_lr", 0.0..=1.0)?, params.within("lr", 0.0..=1.0)?];
    Ok(Settings { steps: params.within("steps", 0..=10)?, rates, gamma })
}

/// Returns true if a policy whose card says `adapt` goes on learning.
fn adapts(params: &Params, said: Option<&str>) -> Result<bool, SpecError> {
    match said {
        None | Some("on") => Ok(true),
        Some("off") => Ok(false),
        Some(said) => Err(params.wrong("policy", format!("its card says `adapt = {said}`; expected on or off"))),
    }
}

/// The groups whose model lost to min-RTT in training, as the card's `fallback_groups` lists them: `0,3,11`.
fn modelless(params: &Params, file: &PolicyFile) -> Result<[bool; GROUPS], SpecError> {
    let mut found = [false; GROUPS];
    for text in file.card("fallback_groups").unwrap_or_default().split(',').filter(|text| !text.is_empty()) {
        let group = text.parse::<usize>().ok().filter(|group| *group < GROUPS);
        found[group.ok_or_else(|| {
            params.wrong(
                "policy",
                format!("its card's `fallback_groups` has `{text}`; expected numbers of groups, below {GROUPS}"),
            )
        })?] = true;
    }
    Ok(found)
}

/// `a/b`; 1 while one of them is not known.
fn ratio(a: f64, b: f64) -> f64 {
    if a > 0.0 && b > 0.0 { a / b } else { 1.0 }
}

#[deny(clippy::missing_trait_methods)]
impl Scheduler for Falcon {
    fn needs(&self) -> Needs {
        self.task.needs().union(self.fallback.needs())
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let falls_back = self.decide(cx);
        // The task carries out the same action then, and keeps the record by which it is paid.
        let own = (!falls_back || self.stands_in).then(|| self.task.select(cx));
        let fallback = self.fallback.select(cx, falls_back);
        fallback.or(own).unwrap_or(Decision::Wait)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.fallback.observe(cx, event);
        self.task.observe(cx, event);
        if let Event::PathUp(path) | Event::PathDown(path) = event {
            self.change.forget(*path);
            self.begin_anew();
        }
        if self.change.observe(cx) {
            self.begin_anew();
        }
        if self.adapts {
            self.learner.learn(self.task.ledger().earned().drain(..));
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
            let why = match self.follows() {
                true => "the group's model lost in training",
                false => "the observation left the ranges of training",
            };
            return Some(format!("the fallback decides: {why}; {task}"));
        }
        let (values, stage) = (&self.values, self.learner.stage());
        Some(format!("group {:?}, {stage:?}, values {values:.3?}; {task}", self.group))
    }
}

#[cfg(test)]
mod tests;
