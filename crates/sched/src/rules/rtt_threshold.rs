//! Round-trip time threshold: only paths that are fast enough, in their order.
//!
//! Rule: the first path, by number, with `srtt < threshold` that is not blocked. While a path below the threshold
//! stands, full or not, slower ones rest; with `above=overflow` they take what the others have no room for, lowest srtt
//! first. When no path is below the threshold, the lowest srtt of all goes. With `loss_percent` below 100, a path that
//! lost that share or more counts as slow: `lost/(lost + acked)` in bytes, over one second after the other, 0 where
//! nothing was lost or acknowledged. A path that comes back is as a new one.
//! Data sent before: off the paths to avoid first.
//! Reference: Bonaventure, Piraux, De Coninck, et al.: draft-bonaventure-iccrg-schedulers-02, section 4.4.
//! State: with `loss_percent`, per path the beginning of the second, what it had acknowledged and lost then, and
//! whether the second before was too lossy.
//! Departs from print: there nothing is sent while no path is below the threshold. That case, the default threshold of
//! 100 ms, `above=overflow` and `loss_percent` are ours. Backups rest while an active path lives; the draft has active
//! paths alone.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Instant, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Preset, Provenance, permille};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "rtt-threshold",
    aliases: &["round-trip-time-threshold"],
    version: 4,
    summary: "the first path whose round-trip time is below a threshold",
    reference: "Bonaventure, Piraux, De Coninck, et al.: draft-bonaventure-iccrg-schedulers",
    provenance: Provenance::Paper,
    goal: "bounded latency",
    application: "web and interactive",
    inputs: &[Input::Rtt, Input::Loss],
    waits: true,
    presets: &[Preset {
        name: "atsss-smallest-delay",
        switches: "threshold_ms=0",
        doc: "3GPP's smallest delay: the lowest srtt of the paths that have room",
    }],
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
        Param {
            name: "loss_percent",
            default: "100",
            values: "percent, 0.001 to 100",
            doc: "a path that lost at least so much in the last second is too slow as well; 100: losses do not count",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(RttThreshold {
        threshold: Span::from_millis(params.within("threshold_ms", 0..=60_000)?),
        overflows: params.choice("above", &[("rest", false), ("overflow", true)])?,
        most_lost: Some(permille(params, "loss_percent", 0.001..=100.0)?).filter(|most| *most < ALL),
        seconds: PerPath::default(),
    }))
}

#[derive(Clone)]
struct RttThreshold {
    threshold: Span,
    overflows: bool,
    /// Share lost at which a path counts as slow, of [`ALL`], if losses count.
    most_lost: Option<u64>,
    seconds: PerPath<Second>,
}

/// Everything, in thousandths of a percent.
const ALL: u64 = 100_000;
/// Time over which losses are counted.
const WINDOW: Span = Span::from_secs(1);

/// The losses of a path in a second, and in the one before.
#[derive(Clone, Default)]
struct Second {
    since: Option<Instant>,
    acked: Bytes,
    lost: Bytes,
    /// The second before was too lossy.
    is_lossy: bool,
}

impl Second {
    /// Begins anew once the second is over, or with a path that came back: its counters begin at zero.
    fn update(&mut self, now: Instant, path: &Path, most_lost: u64) {
        if path.acked.bytes < self.acked || path.lost.bytes < self.lost {
            *self = Self::default();
        }
        if let Some(since) = self.since {
            if now.since(since) < WINDOW {
                return;
            }
            let lost = path.lost.bytes.saturating_sub(self.lost).get();
            let acked = path.acked.bytes.saturating_sub(self.acked).get();
            let known = u128::from(lost) + u128::from(acked);
            self.is_lossy = lost > 0 && u128::from(lost) * u128::from(ALL) >= u128::from(most_lost) * known;
        }
        (self.since, self.acked, self.lost) = (Some(now), path.acked.bytes, path.lost.bytes);
    }
}

impl RttThreshold {
    /// Fast paths by number, then slow ones by time.
    fn rank(&self, path: &Path) -> (bool, Span) {
        if self.is_fast(path) { (false, Span::ZERO) } else { (true, path.srtt) }
    }

    fn is_fast(&self, path: &Path) -> bool {
        path.srtt < self.threshold && !self.seconds.get(path.id).is_some_and(|second| second.is_lossy)
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let slow_rest = !self.overflows && choose::standing(cx).any(|path| self.is_fast(path));
        choose::pick_among(cx, |path| !slow_rest || self.is_fast(path), |_| true, choose::by(|path| self.rank(path)))
    }
}

impl Scheduler for RttThreshold {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if let Some(most) = self.most_lost {
            cx.paths.iter().for_each(|path| self.seconds.at(path.id).update(cx.now, path, most));
        }
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let side = if self.is_fast(path) { "below" } else { "not below" };
        Some(format!("{:?}: srtt {}, {side} the threshold of {}", path.id, path.srtt, self.threshold))
    }
}
