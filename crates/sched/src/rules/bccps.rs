//! Forward prediction by rates: BBR knows what a path delivers, and its window says little.
//!
//! Rule: j = min-RTT's choice. If no standing path has a smaller srtt, it sends the packet at hand.
//! Else it sends the first unsent packet at or after `next + N`,
//!   `N = Σ rate_i·(srtt_j − srtt_i)/2` over the faster paths i;
//! if no more than `N` is unsent, it waits. `rate_i` is BBR's: the largest delivery rate of the last
//! ten round trips or so; before the first sample, a window each round trip.
//! Reference: Wei, Xue, Han et al.: BBR-based congestion control and packet scheduling for bottleneck fairness
//! considered multipath TCP in heterogeneous wireless networks, IEEE TVT 2021 (also cited as BCCPS).
//! State: per path, the largest rates of this span of ten round trips and of the one before.
//! Departs from print: the paper's text was not at hand. What is known is that it puts a
//! fine-grained scheduler on top of a coupled BBR; the rule is forward prediction with BBR's rate
//! in place of the windows, and ours.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Bytes, Context, Decision, Event, Instant, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::forecast;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "bccps",
    summary: "slow paths send as far ahead as the faster ones deliver meanwhile at BBR's rate",
    reference: "Wei, Xue, Han et al.: BBR-based congestion control and packet scheduling for bottleneck fairness \
                considered multipath TCP in heterogeneous wireless networks, IEEE TVT 2021",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Mss, Input::Rate, Input::Queue, Input::Window],
    needs: Needs { flow: true, ahead: true, events: true, ..Needs::NONE },
    waits: true,
    params: &[Param {
        name: "rate",
        default: "peak",
        values: "peak | newest",
        doc: "a path's rate: the largest of the last ten to twenty round trips, as in BBR, or the newest sample",
    }],
    build,
    ..Entry::NEW
};

/// Number of round trips for which a largest rate counts in full (BBR's filter of its bandwidth).
const SPAN: u64 = 10;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let newest = params.choice("rate", &[("peak", false), ("newest", true)])?;
    Ok(Box::new(Bccps { newest, peaks: PerPath::default() }))
}

#[derive(Clone)]
struct Bccps {
    newest: bool,
    peaks: PerPath<Peak>,
}

/// The largest delivery rates of a path.
#[derive(Clone, Copy, Default)]
struct Peak {
    began: Instant,
    rate: BitRate,
    before: BitRate,
}

impl Peak {
    fn note(&mut self, now: Instant, path: &Path) {
        if now.since(self.began) >= path.srtt * SPAN {
            *self = Self { began: now, rate: path.delivery_rate, before: self.rate };
        } else {
            self.rate = self.rate.max(path.delivery_rate);
        }
    }
}

impl Bccps {
    fn rate(&self, path: &Path) -> BitRate {
        let peak = self.peaks.get(path.id).filter(|_| !self.newest).copied().unwrap_or_default();
        match peak.rate.max(peak.before) {
            BitRate::ZERO => forecast::rate(path),
            peak => peak.max(path.delivery_rate),
        }
    }

    /// Returns how far ahead `slow` sends.
    fn distance(&self, cx: &Context<'_>, slow: &Path) -> Bytes {
        let delivered = forecast::faster(cx, slow).map(|fast| self.rate(fast).bytes_in(forecast::lead(fast, slow)));
        delivered.fold(Bytes::ZERO, |sum, bytes| sum + bytes)
    }
}

impl Scheduler for Bccps {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        forecast::place(cx, |slow| self.distance(cx, slow))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Acked(acked) => {
                if let Some(path) = cx.path(acked.path) {
                    self.peaks.at(path.id).note(cx.now, path);
                }
            }
            Event::PathUp(path) | Event::PathDown(path) => self.peaks.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let slow = choose::min_rtt(cx)?;
        let count = forecast::faster(cx, slow).count();
        Some(format!("{:?}: {count} faster paths, {} ahead", slow.id, self.distance(cx, slow)))
    }
}
