//! Priorities by prediction (RDPA): urgent packets take the path whose round-trip time will be
//! the smallest, by the line through its last samples.
//!
//! Rule: on each acknowledgement a straight line is fitted, by least squares, to the path's last
//! `samples` pairs of time and round-trip time; its value `horizon_ms` after the newest, at least
//! the smallest sample ever, is the prediction. A packet whose message is of class `urgent` or more
//! urgent goes on the path of smallest prediction that may send; any other as in min-RTT, or
//! (`rest=away`) off that path while another may send.
//! Reference: Silva, Bogusevschi, Muntean: RTT-aware packet delivery prioritisation in AR/VR, IWCMC 2018; from its
//! abstract: a linear regression of each subflow's behaviour tells the best subflow for priority packets in the next
//! transmission interval, the others go as MPTCP does by default.
//! State: the last samples and the prediction, per path; srtt until two samples differ in time.
//! Departs from print: the number of samples, the horizon and the floor are ours. The paper
//! identifies priority packets by itself; here the application says which they are. A class is
//! known of new data; data sent before go as in min-RTT.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::per_path::PerPath;
use crate::shared::urgent::{URGENT, away_from, is_urgent};

pub(crate) static ENTRY: Entry = Entry {
    name: "silva",
    aliases: &["rdpa"],
    summary: "urgent packets on the path whose round-trip time is predicted to be the smallest",
    reference: "Silva, Bogusevschi, Muntean: RTT-aware packet delivery prioritisation in AR/VR, IWCMC 2018",
    provenance: Provenance::Reconstructed,
    goal: "latency of urgent data",
    application: "augmented and virtual reality",
    inputs: &[Input::Rtt, Input::MinRtt],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    transport: TransportRules::RP,
    params: &[
        URGENT,
        Param {
            name: "rest",
            default: "standard",
            values: "standard | away",
            doc: "where the others go: by min-RTT, or off the best path while another may send",
        },
        Param {
            name: "samples",
            default: "8",
            values: "samples, 2 to 16",
            doc: "through how many samples the line goes",
        },
        Param {
            name: "horizon_ms",
            default: "100",
            values: "milliseconds, 0 to 10000",
            doc: "how far after the newest sample the prediction is for",
        },
    ],
    build,
    ..Entry::NEW
};

/// The most samples that a line goes through.
const MOST: usize = 16;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Silva {
        urgent: params.within("urgent", 0..=255)?,
        keeps_away: params.choice("rest", &[("standard", false), ("away", true)])?,
        samples: params.within("samples", 2..=MOST)?,
        horizon: Span::from_millis(params.within("horizon_ms", 0..=10_000)?),
        trends: PerPath::default(),
    }))
}

#[derive(Clone)]
struct Silva {
    urgent: u8,
    keeps_away: bool,
    samples: usize,
    horizon: Span,
    trends: PerPath<Trend>,
}

/// The last samples of a path, in a ring.
#[derive(Clone, Default)]
struct Trend {
    ring: [(Instant, Span); MOST],
    count: usize,
    predicted: Option<Span>,
}

impl Trend {
    fn add(&mut self, now: Instant, rtt: Span, samples: usize) {
        self.ring[self.count % samples] = (now, rtt);
        self.count += 1;
    }

    /// The line's value at `horizon` after `now`, in nanoseconds; none if all samples are of one time.
    fn at(&self, now: Instant, horizon: Span, samples: usize) -> Option<f64> {
        let known = &self.ring[..self.count.min(samples)];
        let n = known.len() as f64;
        // Counted back from now, where the numbers are small.
        let points = || known.iter().map(|(at, rtt)| (-(now.since(*at).as_nanos() as f64), rtt.as_nanos() as f64));
        let (sum_t, sum_r) = points().fold((0.0, 0.0), |(t, r), (dt, dr)| (t + dt, r + dr));
        let (mean_t, mean_r) = (sum_t / n, sum_r / n);
        let (var, cov) = points().fold((0.0, 0.0), |(var, cov), (t, r)| {
            (var + (t - mean_t) * (t - mean_t), cov + (t - mean_t) * (r - mean_r))
        });
        (var > 0.0).then(|| mean_r + cov / var * (horizon.as_nanos() as f64 - mean_t))
    }
}

impl Silva {
    fn predicted(&self, path: &Path) -> Span {
        self.trends.get(path.id).and_then(|trend| trend.predicted).unwrap_or(path.srtt)
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        match cx.packet {
            Some(packet) if packet.reinjection => choose::min_rtt(cx),
            _ if is_urgent(cx, self.urgent) => choose::least(choose::candidates(cx), |path| self.predicted(path)),
            _ if self.keeps_away => away_from(cx, choose::least(choose::standing(cx), |path| self.predicted(path))),
            _ => choose::min_rtt(cx),
        }
    }
}

impl Scheduler for Silva {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Acked(receipt) => {
                let Some(path) = cx.path(receipt.path) else { return };
                let trend = self.trends.at(path.id);
                trend.add(cx.now, path.latest_rtt, self.samples);
                // `as` saturates: a line that falls below zero gives zero, and the floor holds.
                let at = trend.at(cx.now, self.horizon, self.samples);
                trend.predicted = at.map(|ns| Span::from_nanos(ns as u64).max(path.min_rtt));
            }
            Event::PathUp(path) => self.trends.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (path, class) = (self.pick(cx)?, cx.flow?.class);
        let (urgent, predicted) = (is_urgent(cx, self.urgent), self.predicted(path));
        Some(format!("class {class}, urgent {urgent}: {:?}, predicted {predicted}, srtt {}", path.id, path.srtt))
    }
}
