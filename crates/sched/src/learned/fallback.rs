//! Fallback where inputs leave the ranges of training: a heuristic, packet by packet. A network
//! says nothing about what it has not seen.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Span};

use super::policy_file::PolicyFile;
use crate::registry;
use crate::{FallbackTally, Interval, Mode, Needs, Scheduler};

/// Scheduler that decides outside the ranges of training.
pub(crate) const FALLBACK: Param = Param {
    name: "fallback",
    default: "card",
    values: "card | off | min-rtt",
    doc: "what decides where inputs leave the ranges of training: as the card says, nothing, or this scheduler, which may be any of the registry",
};

/// The fallback of a policy may be a policy file, which names another one: so many at most.
const MOST_FILES: usize = 8;

/// Returns true if the fallback `name` comes to a scheduler that is no policy file, rather than back to itself. A
/// mistake on the way is told where it is built.
fn comes_to_an_end(name: &str) -> bool {
    let mut name = name.to_owned();
    for _ in 0..MOST_FILES {
        let Ok((entry, spec)) = registry::parse(&name) else { return true };
        let given = |key| spec.given.iter().find(|(given, _)| given == key).map(|(_, value)| value.as_str());
        let is_shipped = |policy: &str| entry.shipped.iter().any(|shipped| shipped.name == policy);
        let Some(file) = given("policy").filter(|policy| !is_shipped(policy)) else { return true };
        name = match (given("fallback").filter(|name| *name != "card"), PolicyFile::read(file)) {
            (Some(next), _) => next.to_owned(),
            (None, Ok(file)) => file.fallback().to_owned(),
            (None, Err(_)) => return true,
        };
    }
    false
}

/// A stand-in for what training did not see.
#[derive(Clone)]
pub(crate) struct Fallback {
    scheduler: Option<Box<dyn Scheduler>>,
    /// Copy of the scheduler, asked about every decision: who stands in is not moved by what is only compared.
    shadow: Option<Box<dyn Scheduler>>,
    low: Vec<f32>,
    high: Vec<f32>,
    /// True if it gave the last answer.
    is_on: bool,
    tally: FallbackTally,
}

impl Fallback {
    /// The one that `params` or the card of `file` name.
    pub(crate) fn new(params: &Params, file: &PolicyFile) -> Result<Self, SpecError> {
        let name = match params.text("fallback") {
            "card" => file.fallback(),
            other => other,
        };
        if !comes_to_an_end(name) {
            let why =
                format!("its fallback `{name}` leads from policy file to policy file; name one that leads to none");
            return Err(params.wrong("policy", why));
        }
        let scheduler = if name == "off" { None } else { Some(crate::build(name)?) };
        let (low, high) = (file.low.clone(), file.high.clone());
        Ok(Self { shadow: scheduler.clone(), scheduler, low, high, is_on: false, tally: FallbackTally::default() })
    }

    /// Lets only the chosen path send, for `interval`, where the task does so: it is asked once an interval.
    pub(crate) fn keep_to(&mut self, mode: Option<Mode>, interval: Span) {
        if mode == Some(Mode::Exclusive) {
            let once = |inner: Box<dyn Scheduler>| Box::new(Interval::new(inner, interval, Mode::Exclusive)) as _;
            self.scheduler = self.scheduler.take().map(once);
            self.shadow = self.shadow.take().map(once);
        }
    }

    /// Returns true if there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.scheduler.is_some()
    }

    /// Returns true if it has to stand in, as training did not see the like of `observation`.
    pub(crate) fn is_needed(&self, observation: &[f32]) -> bool {
        let ranges = self.low.iter().zip(&self.high);
        let is_familiar =
            || observation.iter().zip(ranges).all(|(observation, (low, high))| (low..=high).contains(&observation));
        self.scheduler.is_some() && !is_familiar()
    }

    /// Its answer, where `is_on` says that it stands in.
    pub(crate) fn select(&mut self, cx: &Context<'_>, is_on: bool) -> Option<Decision> {
        self.is_on = is_on;
        self.scheduler.as_mut().filter(|_| is_on).map(|scheduler| scheduler.select(cx))
    }

    /// Returns true if it gave the last answer.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// Needs of the fallback when it stands in.
    pub(crate) fn needs(&self) -> Needs {
        self.scheduler.as_ref().map_or(Needs::NONE, |scheduler| scheduler.needs())
    }

    /// It hears everything.
    pub(crate) fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        for scheduler in [&mut self.scheduler, &mut self.shadow].into_iter().flatten() {
            scheduler.observe(cx, event);
        }
    }

    /// Counts `decision`, which was taken as the answer to `cx`: its own, or held against what it would have been.
    pub(crate) fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        let Some(shadow) = &mut self.shadow else { return };
        let own = shadow.select(cx);
        if self.is_on {
            self.tally.decided += u64::from(matches!(decision, Decision::Send(_) | Decision::Ahead(..)));
        } else {
            self.tally.differs += u64::from(own != decision);
        }
    }

    /// Returns the time at which the fallback wants to be asked again.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.scheduler.as_ref().and_then(|scheduler| scheduler.wake())
    }

    /// Tally of the fallback; none where there is none.
    pub(crate) fn tally(&self) -> Option<FallbackTally> {
        self.scheduler.as_ref().map(|_| self.tally)
    }
}
