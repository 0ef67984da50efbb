//! Round-trip time threshold: only paths that are fast enough, in their order.
//!
//! Rule: the first path, by number, with `srtt < threshold` that is not blocked. While a path below the threshold
//! stands, full or not, slower ones rest; with `above=overflow` they take what the others have no room for, lowest srtt
//! first. When no path is below the threshold, the lowest srtt of all goes.
//! Data sent before: off the paths to avoid first.
//! Reference: Bonaventure, Piraux, De Coninck, et al.: draft-bonaventure-iccrg-schedulers-02, section 4.4.
//! State: none.
//! Departs from print: there nothing is sent while no path is below the threshold. That case, the default threshold of
//! 100 ms and `above=overflow` are ours. Backups rest while an active path lives; the draft has active paths alone.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Provenance};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "rtt-threshold",
    aliases: &["round-trip-time-threshold"],
    version: 3,
    summary: "the first path whose round-trip time is below a threshold",
    reference: "Bonaventure, Piraux, De Coninck, et al.: draft-bonaventure-iccrg-schedulers",
    provenance: Provenance::Paper,
    goal: "bounded latency",
    application: "web and interactive",
    inputs: &[Input::Rtt],
    waits: true,
    params: &[
        Param {
            name: "threshold_ms",
            default: "100",
            values: "milliseconds, 0 to 60000",
            doc: "a path at or above it is too slow; 0: lowest srtt first",
        },
        Param {
            name: "above",
            default: "rest",
            values: "rest | overflow",
            doc: "what slow paths do while the fast ones are full: nothing, or take what is left",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(RttThreshold {
        threshold: Span::from_millis(params.within("threshold_ms", 0..=60_000)?),
        overflows: params.choice("above", &[("rest", false), ("overflow", true)])?,
    }))
}

#[derive(Clone)]
struct RttThreshold {
    threshold: Span,
    overflows: bool,
}

impl RttThreshold {
    /// Fast paths by number, then slow ones by time.
    fn rank(&self, path: &Path) -> (bool, Span) {
        if self.is_fast(path) { (false, Span::ZERO) } else { (true, path.srtt) }
    }

    fn is_fast(&self, path: &Path) -> bool {
        path.srtt < self.threshold
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let slow_rest = !self.overflows && choose::standing(cx).any(|path| self.is_fast(path));
        choose::pick_among(cx, |path| !slow_rest || self.is_fast(path), |_| true, choose::by(|path| self.rank(path)))
    }
}

impl Scheduler for RttThreshold {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let side = if self.is_fast(path) { "below" } else { "not below" };
        Some(format!("{:?}: srtt {}, {side} the threshold of {}", path.id, path.srtt, self.threshold))
    }
}
