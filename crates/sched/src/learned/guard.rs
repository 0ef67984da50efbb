//! What decides where inputs leave the ranges of training: a heuristic, packet by packet. A network
//! says nothing about what it has not seen.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, SendKind};

use super::policy_file::PolicyFile;
use crate::Scheduler;

/// What decides outside the ranges of training.
pub(crate) const GUARD: Param = Param {
    name: "guard",
    default: "card",
    values: "card | off | min-rtt",
    doc: "what decides where inputs leave the ranges of training: as the card says, nothing, or this scheduler, which may be any of the registry",
};

/// A stand-in for what training did not see.
#[derive(Clone)]
pub(crate) struct Guard {
    scheduler: Option<Box<dyn Scheduler>>,
    low: Vec<f32>,
    high: Vec<f32>,
    /// Whether it gave the last answer, and how often it did.
    is_on: bool,
    count: u64,
}

impl Guard {
    /// The one that `params` or the card of `file` name.
    pub(crate) fn new(params: &Params, file: &PolicyFile) -> Result<Self, SpecError> {
        let name = match params.text("guard") {
            "card" => file.guard(),
            other => other,
        };
        let scheduler = if name == "off" { None } else { Some(crate::build(name)?) };
        Ok(Self { scheduler, low: file.low.clone(), high: file.high.clone(), is_on: false, count: 0 })
    }

    /// Whether there is one.
    pub(crate) fn is_there(&self) -> bool {
        self.scheduler.is_some()
    }

    /// Whether it has to stand in, as training did not see the like of `seen`.
    pub(crate) fn is_needed(&self, seen: &[f32]) -> bool {
        let ranges = self.low.iter().zip(&self.high);
        let is_familiar = || seen.iter().zip(ranges).all(|(seen, (low, high))| (low..=high).contains(&seen));
        self.scheduler.is_some() && !is_familiar()
    }

    /// Its answer, where `is_on` says that it stands in.
    pub(crate) fn select(&mut self, cx: &Context<'_>, is_on: bool) -> Option<Decision> {
        self.is_on = is_on;
        self.scheduler.as_mut().filter(|_| is_on).map(|scheduler| scheduler.select(cx))
    }

    /// Whether it gave the last answer.
    pub(crate) fn is_on(&self) -> bool {
        self.is_on
    }

    /// It hears everything, and counts the packets it decided.
    pub(crate) fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        if let Event::Sent(_, kind) = event
            && *kind != SendKind::Copy
        {
            self.count += u64::from(self.is_on);
        }
        if let Some(scheduler) = &mut self.scheduler {
            scheduler.observe(cx, event);
        }
    }

    /// When it wants to be asked again.
    pub(crate) fn wake(&self) -> Option<Instant> {
        self.scheduler.as_ref().and_then(|scheduler| scheduler.wake())
    }

    /// How many packets it has decided; none where there is no guard.
    pub(crate) fn count(&self) -> Option<u64> {
        self.scheduler.as_ref().map(|_| self.count)
    }
}
