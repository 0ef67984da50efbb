//! Forward prediction with loss and feedback: a slow path sends the data that will be due when
//! they arrive.
//!
//! Rule: j = min-RTT's choice. If no standing path has a smaller srtt, it sends the packet at hand.
//! Else it sends the first unsent packet at or after `next + N`, `N` = what all faster paths i
//! deliver in `T = (srtt_j − srtt_i)/2`:
//!   `N_i = (cwnd − inflight) + w(1) + … + w(R) + ⌊f·w(R + 1)⌋`, `R + f = T/srtt_i`,
//!   `w(r + 1) = q·w/2 + (1 − q)·w′`, `q = 1 − (1 − p)^w`, `w′ = 2w` in slow start, else `w + 1`,
//! with `p` = lost/sent. If no more than `N` is unsent, it waits. Feedback: per acknowledgement of
//! a segment at S on j, the forecast was off by
//!   `e = una − S` while una < S (too far ahead), else
//!   `e =` what faster paths had delivered past S while una waited for it (not far enough);
//! with the correction `k` it was sent with, `k_j += (e + k − k_j)/8`, and `k_j` is added to `N`.
//! Reference: Xue et al.: DPSAF, forward prediction based dynamic packet scheduling and adjusting with feedback, IEEE
//! TVT 2018, from its description elsewhere.
//! State: correction, and the segments in flight, per slow path.
//! Departs from print: the paper's text was not at hand. By its abstract the amount is a maximum likelihood estimate in
//! a model of TCP, corrected by what SACK options report; here it is an expectation. How an error is measured, its gain
//! of 1/8, and rounds after the 16th at the window of the 16th are ours; `p` counts since the path came up.

use std::collections::VecDeque;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Offset, Path, Receipt, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::forecast;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "dpsaf",
    aliases: &["forward-prediction"],
    summary: "slow paths send as far ahead as the faster ones, losses included, should deliver meanwhile",
    reference: "Xue et al.: DPSAF, forward prediction based dynamic packet scheduling and adjusting with feedback, \
                IEEE TVT 2018",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Mss, Input::Loss, Input::Queue, Input::Window],
    needs: Needs { flow: true, ahead: true, events: true, ..Needs::NONE },
    waits: true,
    presets: &[
        Preset {
            name: "fps",
            switches: "loss=false:feedback=false",
            doc: "forward prediction alone: windows that grow without loss, nothing learned from arrivals",
        },
        Preset {
            name: "f2p-dps",
            switches: "feedback=false",
            doc: "forward prediction with loss: nothing learned from arrivals",
        },
    ],
    params: &[
        Param {
            name: "loss",
            default: "true",
            values: "true | false",
            doc: "whether the windows of the forecast are those to be expected at the path's loss rate",
        },
        Param {
            name: "feedback",
            default: "true",
            values: "true | false",
            doc: "whether acknowledgements correct the forecast",
        },
    ],
    build,
    ..Entry::NEW
};

/// The share of an error by which the correction moves.
const GAIN: i64 = 8;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let (loss, feedback) = (params.get("loss")?, params.get("feedback")?);
    Ok(Box::new(Dpsaf { loss, feedback, records: PerPath::default() }))
}

#[derive(Clone)]
struct Dpsaf {
    loss: bool,
    feedback: bool,
    records: PerPath<Record>,
}

/// Record of the forecasts of a slow path.
#[derive(Clone, Default)]
struct Record {
    /// Smoothed error of the forecast alone, in bytes.
    correction: i64,
    in_flight: VecDeque<Flight>,
}

/// A segment on a slow path.
#[derive(Clone)]
struct Flight {
    offset: Offset,
    end: Offset,
    /// The correction that it was sent with.
    correction: i64,
    /// Bytes past it that arrived while nothing but it was missing.
    overtaken: Bytes,
}

impl Record {
    fn take(&mut self, offset: Offset) -> Option<Flight> {
        let at = self.in_flight.iter().position(|sent| sent.offset == offset)?;
        self.in_flight.remove(at)
    }

    /// Learns from `flight`, which has arrived.
    fn learn(&mut self, flight: &Flight, flow: &Flow) {
        let limit = signed(flow.window());
        let error = if flow.una < flight.offset {
            -signed(flight.offset.since(flow.una)).min(limit)
        } else {
            signed(flight.overtaken).min(limit)
        };
        let forecast = error.saturating_add(flight.correction);
        self.correction = self.correction.saturating_add(forecast.saturating_sub(self.correction) / GAIN);
    }
}

fn signed(bytes: Bytes) -> i64 {
    i64::try_from(bytes.get()).unwrap_or(i64::MAX)
}

impl Dpsaf {
    fn correction(&self, path: &Path) -> i64 {
        self.records.get(path.id).map_or(0, |record| record.correction)
    }

    /// Returns how far ahead `slow` sends.
    fn distance(&self, cx: &Context<'_>, slow: &Path) -> Bytes {
        let delivered = forecast::faster(cx, slow).map(|fast| {
            let time = forecast::lead(fast, slow);
            match self.loss {
                true => forecast::by_expected_windows(fast, time, forecast::survival(fast), 0.0),
                false => forecast::by_windows(fast, time),
            }
        });
        let sum = delivered.fold(Bytes::ZERO, |sum, bytes| sum + bytes);
        Bytes::new(sum.get().saturating_add_signed(self.correction(slow)))
    }

    fn note_sent(&mut self, cx: &Context<'_>, sent: &Receipt) {
        let slow = cx.path(sent.path).filter(|slow| forecast::faster(cx, slow).next().is_some());
        if slow.is_some() {
            let record = self.records.at(sent.path);
            let (offset, end) = (sent.offset, sent.offset + sent.bytes);
            let correction = record.correction;
            record.in_flight.push_back(Flight { offset, end, correction, overtaken: Bytes::ZERO });
        }
    }

    fn note_acked(&mut self, cx: &Context<'_>, flow: &Flow, acked: &Receipt) {
        if let Some(flight) = self.records.at(acked.path).take(acked.offset) {
            self.records.at(acked.path).learn(&flight, flow);
        } else if acked.offset > flow.una {
            let end = acked.offset + acked.bytes;
            for path in cx.paths.iter().filter(|path| path.id != acked.path) {
                let late = self.records.at(path.id).in_flight.front_mut();
                if let Some(late) = late.filter(|late| late.offset == flow.una) {
                    late.overtaken = late.overtaken.max(end.since(late.end));
                }
            }
        }
    }
}

impl Scheduler for Dpsaf {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        forecast::place(cx, |slow| self.distance(cx, slow))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        if !self.feedback {
            return;
        }
        match (*event, cx.flow) {
            (Event::Sent(sent, SendKind::Fresh | SendKind::Ahead), _) => self.note_sent(cx, &sent),
            (Event::Acked(acked), Some(flow)) => self.note_acked(cx, flow, &acked),
            (Event::Lost(lost), _) => {
                self.records.at(lost.path).take(lost.offset);
            }
            (Event::PathUp(path) | Event::PathDown(path), _) => self.records.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let slow = choose::min_rtt(cx)?;
        let (count, distance) = (forecast::faster(cx, slow).count(), self.distance(cx, slow));
        Some(format!(
            "{:?}: {count} faster paths, {distance} ahead, {} B of them learned",
            slow.id,
            self.correction(slow)
        ))
    }
}
