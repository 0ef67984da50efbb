//! Why the last packet went where, for the user: a scheduler around the scheduler, which asks for its reason now and
//! then.
//!
//! A reason is a text, and too much work for each packet. So it is asked for once each time the user is told something.

use weftway_path::{Context, Decision, Event, Instant, PathId};
use weftway_sched::reason::named;
use weftway_sched::{Needs, Report, Scheduler};

use crate::seen::LastPacket;

/// A scheduler whose reasons are asked for now and then.
#[derive(Clone)]
pub(crate) struct Explained {
    scheduler: Box<dyn Scheduler>,
    is_wanted: bool,
    /// The path of a packet, and why.
    last: Option<(PathId, Option<String>)>,
}

impl Explained {
    /// The reason of its first packet is wanted.
    pub fn new(scheduler: Box<dyn Scheduler>) -> Self {
        Self { scheduler, is_wanted: true, last: None }
    }

    /// The latest packet whose reason was asked for; from now on that of the next one is wanted. `label` says how a
    /// path is called.
    pub fn last(&mut self, label: impl Fn(PathId) -> Option<String>) -> Option<LastPacket> {
        self.is_wanted = true;
        let (path, why) = self.last.as_ref()?;
        let why = why.as_ref().map(|why| named(why, &label));
        Some(LastPacket { path: label(*path)?, scheduler_says: why })
    }
}

#[deny(clippy::missing_trait_methods)]
impl Scheduler for Explained {
    fn needs(&self) -> Needs {
        self.scheduler.needs()
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let decision = self.scheduler.select(cx);
        if let (true, Decision::Send(path), Some(_)) = (self.is_wanted, decision, cx.packet) {
            self.is_wanted = false;
            self.last = Some((path, self.scheduler.explain(cx)));
        }
        decision
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.scheduler.observe(cx, event);
    }

    fn wake(&self) -> Option<Instant> {
        self.scheduler.wake()
    }

    fn decided(&mut self, cx: &Context<'_>, decision: Decision) {
        self.scheduler.decided(cx, decision);
    }

    fn report(&self) -> Report {
        self.scheduler.report()
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        self.scheduler.explain(cx)
    }
}

#[cfg(test)]
mod tests {
    use weftway_vectors::testing::{Bench, path};

    use super::*;

    fn label(path: PathId) -> Option<String> {
        ["wlan0", "wwan0"].get(path.index()).map(|name| (*name).to_owned())
    }

    #[test]
    fn a_reason_is_asked_for_once_each_time_that_it_was_told() {
        let (scheduler, _) = crate::setting::build("min-rtt").unwrap();
        let mut explained = Explained::new(scheduler);
        assert_eq!(explained.last(label), None, "nothing was sent");
        let bench = |srtt_ms: [u64; 2]| Bench::new(vec![path(0, srtt_ms[0], 10, 0), path(1, srtt_ms[1], 10, 0)]);
        let (first, second) = (Decision::Send(PathId::new(0)), Decision::Send(PathId::new(1)));
        assert_eq!(explained.select(&bench([10, 40]).context()), first);
        assert_eq!(explained.select(&bench([30, 20]).context()), second);
        let told = explained.last(label).unwrap();
        assert_eq!(told.path, "wlan0", "nobody had asked for the second");
        assert!(told.scheduler_says.unwrap().starts_with("wlan0 has"));
        assert_eq!(explained.select(&bench([30, 20]).context()), second);
        assert_eq!(explained.last(label).unwrap().path, "wwan0");
    }
}
