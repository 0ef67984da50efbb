//! Lowest mean round-trip time first.
//!
//! Rule: `argmin mean` over the open paths, with `mean` of all samples of the path, or of those in
//! the last finished epoch that had any. Classes and data sent before as in min-RTT.
//! Reference: Lübben & Morgenroth, LCN 2019, as used by later comparisons. The span of the mean is not printed.
//! State: with `span=epoch`, sum and count of the epoch at hand and the last mean, per path.
//! Departs from print: nothing is printed to depart from; both readings are here.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "average-rtt",
    aliases: &["averagertt", "avg-rtt", "mean-rtt"],
    summary: "the open path with the smallest mean round-trip time",
    reference: "Lübben & Morgenroth, LCN 2019, as used by later comparisons",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt],
    needs: Needs { events: true, ..Needs::NONE },
    presets: &[Preset {
        name: "average-rtt-epoch",
        switches: "span=epoch:epoch_ms=100",
        doc: "the mean of the last 100 ms with a sample",
    }],
    params: &[
        Param {
            name: "span",
            default: "lifetime",
            values: "lifetime | epoch",
            doc: "mean since the path came up, or of the last epoch with a sample",
        },
        Param {
            name: "epoch_ms",
            default: "100",
            values: "milliseconds, 1 to 60000",
            doc: "length of an epoch; 100 ms is the decision interval of the comparing papers",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let by_epoch = params.choice("span", &[("lifetime", false), ("epoch", true)])?;
    let epoch = Span::from_millis(params.within("epoch_ms", 1..=60_000)?);
    Ok(Box::new(AverageRtt { epoch: by_epoch.then_some(epoch), means: PerPath::default() }))
}

#[derive(Clone)]
struct AverageRtt {
    epoch: Option<Span>,
    means: PerPath<EpochMean>,
}

#[derive(Clone, Default)]
struct EpochMean {
    epoch: u64,
    sum: Span,
    samples: u64,
    last: Option<Span>,
}

impl EpochMean {
    /// The mean of the last epoch that had samples and is over in epoch `now`.
    fn before(&self, now: u64) -> Option<Span> {
        if self.epoch < now && self.samples > 0 { Some(self.sum / self.samples) } else { self.last }
    }

    fn add(&mut self, now: u64, sample: Span) {
        if self.epoch != now {
            *self = Self { epoch: now, last: self.before(now), ..Self::default() };
        }
        self.sum += sample;
        self.samples += 1;
    }
}

impl AverageRtt {
    fn mean(&self, now: Instant, path: &Path) -> Span {
        let of_epoch = self.epoch.and_then(|epoch| self.means.get(path.id)?.before(number(now, epoch)));
        of_epoch.unwrap_or(if path.rtt_samples == 0 { path.srtt } else { path.mean_rtt() })
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_least(cx, |path| self.mean(cx.now, path))
    }
}

/// Which epoch `now` lies in.
fn number(now: Instant, epoch: Span) -> u64 {
    now.as_nanos() / epoch.as_nanos()
}

impl Scheduler for AverageRtt {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match (*event, self.epoch) {
            (Event::Acked(receipt), Some(epoch)) => {
                if let Some(path) = cx.path(receipt.path) {
                    self.means.at(path.id).add(number(cx.now, epoch), path.latest_rtt);
                }
            }
            (Event::PathUp(path), _) => self.means.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        Some(format!("{:?} has the smallest mean round-trip time, {}", path.id, self.mean(cx.now, path)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_epoch_without_samples_keeps_the_mean_before_it() {
        let mut mean = EpochMean::default();
        mean.add(0, Span::from_millis(10));
        mean.add(0, Span::from_millis(30));
        assert_eq!(mean.before(0), None);
        // (10 + 30) / 2, also after an empty epoch 1 and in the middle of epoch 2.
        assert_eq!(mean.before(1), Some(Span::from_millis(20)));
        mean.add(2, Span::from_millis(90));
        assert_eq!(mean.before(2), Some(Span::from_millis(20)));
        assert_eq!(mean.before(3), Some(Span::from_millis(90)));
    }

    #[test]
    fn epochs_are_counted_from_0() {
        let epoch = Span::from_millis(100);
        assert_eq!([0, 99, 100, 250].map(|ms| number(Instant::from_millis(ms), epoch)), [0, 0, 1, 2]);
    }
}
