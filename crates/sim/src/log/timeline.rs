//! A run over time, in bounded memory: a value per path and step.
//!
//! A step lasts 10 ms at first. When a run outgrows [`MAX_STEPS`], each pair of steps becomes one:
//! bytes and decisions add up, a gauge (srtt, window, in flight) keeps its later value, the receiver's
//! quantities keep their peak, and of each kind of decision the first reason stays.

use serde_json::{Value, json};
use weftway_host::Decided;
use weftway_path::{Decision, Instant, PathId, Span};

use crate::listeners::{Listener, Note};

/// Time that a step lasts until there are too many.
const FIRST_STEP: Span = Span::from_millis(10);
/// The most steps: about what a chart can show.
const MAX_STEPS: usize = 400;
/// The most events; the first one past them has the kind `more`, no path, and none follows.
const MAX_EVENTS: usize = 4000;

/// A path as its last acknowledgement showed it.
#[derive(Clone, Copy)]
struct Gauge {
    srtt_us: u64,
    cwnd: u64,
    in_flight: u64,
}

/// A path, step by step.
#[derive(Default)]
struct PathSteps {
    /// Bytes that it was the first to bring.
    carried: Vec<u64>,
    /// Absent before the first acknowledgement and while the path is down.
    gauges: Vec<Option<Gauge>>,
    /// Decisions that sent a packet there.
    chosen: Vec<u64>,
    /// Decisions that sent a copy there.
    copied: Vec<u64>,
}

/// The scheduler's first reason for one kind of decision in one step.
struct Reason {
    step: usize,
    kind: &'static str,
    path: Option<PathId>,
    text: String,
}

/// The receiver, step by step.
#[derive(Default)]
struct ReceiverSteps {
    /// The most bytes held out of order.
    held: Vec<u64>,
    /// The most of the receive window in use: from the first missing byte to the last that arrived.
    reach: Vec<u64>,
}

struct Happening {
    at: Instant,
    path: Option<PathId>,
    kind: &'static str,
}

/// A listener that sums a run up over time.
pub struct Timeline {
    names: Vec<String>,
    step: Span,
    /// Time at which the last step ends.
    end: Instant,
    paths: Vec<PathSteps>,
    receiver: ReceiverSteps,
    /// Decisions to wait.
    waits: Vec<u64>,
    reasons: Vec<Reason>,
    events: Vec<Happening>,
    /// Everything before it has arrived.
    in_order_to: u64,
    /// Bytes that have arrived after it.
    held: u64,
    /// The most bytes that had arrived, in order or not.
    most: u64,
    /// The end of the last of them.
    top: u64,
}

impl Timeline {
    /// A timeline of paths with these names, by number.
    pub fn new(names: impl IntoIterator<Item = impl Into<String>>) -> Self {
        let names: Vec<String> = names.into_iter().map(Into::into).collect();
        Self {
            paths: names.iter().map(|_| PathSteps::default()).collect(),
            names,
            step: FIRST_STEP,
            end: Instant::ZERO,
            receiver: ReceiverSteps::default(),
            waits: Vec::new(),
            reasons: Vec::new(),
            events: Vec::new(),
            in_order_to: 0,
            held: 0,
            most: 0,
            top: 0,
        }
    }

    /// The timeline as the report reads it. Series are per path, in the order of `paths`; `null`
    /// stands where a path had no value. Rates are of first copies and divide by the whole step,
    /// also the last, which the run may not have filled: rate times step sums to the bytes delivered.
    /// A kb is 1000 bytes. Decisions are counted per step; a reason names its step, the kind of
    /// decision and the place of the path in `paths`.
    pub fn to_json(&self) -> Value {
        let step_s = self.step.as_secs_f64();
        json!({
            "step_ms": self.step.as_millis_f64(),
            "paths": self.names,
            "mbps": self.carried(|bytes| bytes as f64 * 8.0 / 1e6 / step_s),
            "srtt_ms": self.gauged(|gauge| (gauge.srtt_us > 0).then_some(gauge.srtt_us as f64 / 1e3)),
            "cwnd_kb": self.gauged(|gauge| Some(kb(gauge.cwnd))),
            "inflight_kb": self.gauged(|gauge| Some(kb(gauge.in_flight))),
            "receive_buffer_kb": self.receiver.reach.iter().copied().map(kb).collect::<Vec<_>>(),
            "ooo_kb": self.receiver.held.iter().copied().map(kb).collect::<Vec<_>>(),
            "events": self.events.iter().map(|event| self.event(event)).collect::<Vec<_>>(),
            "decisions": {
                "send": self.paths.iter().map(|path| &path.chosen).collect::<Vec<_>>(),
                "copy": self.paths.iter().map(|path| &path.copied).collect::<Vec<_>>(),
                "wait": self.waits,
                "reasons": self.reasons.iter().map(Reason::to_json).collect::<Vec<_>>(),
            },
        })
    }

    fn carried(&self, value: impl Fn(u64) -> f64) -> Vec<Vec<f64>> {
        self.paths.iter().map(|path| path.carried.iter().map(|&bytes| value(bytes)).collect()).collect()
    }

    fn gauged(&self, value: impl Fn(Gauge) -> Option<f64>) -> Vec<Vec<Option<f64>>> {
        self.paths.iter().map(|path| path.gauges.iter().map(|gauge| gauge.and_then(&value)).collect()).collect()
    }

    fn event(&self, event: &Happening) -> Value {
        let name = event.path.map(|path| &self.names[path.index()]);
        json!({ "t_ms": event.at.as_nanos() as f64 / 1e6, "path": name, "kind": event.kind })
    }

    fn reach(&self) -> u64 {
        self.top.saturating_sub(self.in_order_to)
    }

    /// Makes the step of `now` the last one; what is skipped is as things stand.
    fn go_to(&mut self, now: Instant) {
        if now < self.end {
            return;
        }
        let place = |step: Span| (now.as_nanos() / step.as_nanos()) as usize;
        while place(self.step) >= MAX_STEPS {
            self.double();
        }
        let steps = place(self.step) + 1;
        let reach = self.reach();
        for path in &mut self.paths {
            path.carried.resize(steps, 0);
            path.gauges.resize(steps, path.gauges.last().copied().flatten());
            path.chosen.resize(steps, 0);
            path.copied.resize(steps, 0);
        }
        self.waits.resize(steps, 0);
        self.end = Instant::from_nanos(self.step.as_nanos() * steps as u64);
        self.receiver.held.resize(steps, self.held);
        self.receiver.reach.resize(steps, reach);
    }

    fn double(&mut self) {
        self.step = self.step * 2;
        for path in &mut self.paths {
            pair_up(&mut path.carried, |a, b| a + b);
            pair_up(&mut path.gauges, |_, later| later);
            pair_up(&mut path.chosen, |a, b| a + b);
            pair_up(&mut path.copied, |a, b| a + b);
        }
        pair_up(&mut self.waits, |a, b| a + b);
        for Reason { step, kind, path, text } in std::mem::take(&mut self.reasons) {
            self.reason(step / 2, kind, path, text);
        }
        pair_up(&mut self.receiver.held, u64::max);
        pair_up(&mut self.receiver.reach, u64::max);
    }

    /// Notes the bytes that have arrived, in order or not, which grow by what is new in a packet: nothing for a copy.
    /// Linux v1 drops what its window does not take once it is in order on its path: what has arrived becomes less, and
    /// the same data come again.
    fn arrived(&mut self, path: PathId, end: u64, in_order_to: u64, held: u64) {
        let fresh = (in_order_to + held).saturating_sub(self.most);
        self.most += fresh;
        (self.in_order_to, self.held, self.top) = (in_order_to, held, self.top.max(end));
        let reach = self.reach();
        *last(&mut self.paths[path.index()].carried) += fresh;
        raise(last(&mut self.receiver.held), held);
        raise(last(&mut self.receiver.reach), reach);
    }

    /// Counts a decision, and keeps the first reason of its kind in this step.
    fn decided(&mut self, decided: &Decided) {
        let (kind, path) = kind_of(decided.decision);
        // A scheduler may name a path that there is not: that is a fault, and counted elsewhere.
        let steps = path.and_then(|path| self.paths.get_mut(path.index()));
        match (kind, steps) {
            ("send", Some(steps)) => *last(&mut steps.chosen) += 1,
            ("copy", Some(steps)) => *last(&mut steps.copied) += 1,
            ("wait", _) => *last(&mut self.waits) += 1,
            _ => {}
        }
        if let Some(text) = &decided.why {
            self.reason(self.waits.len() - 1, kind, path, text.clone());
        }
    }

    fn reason(&mut self, step: usize, kind: &'static str, path: Option<PathId>, text: String) {
        if !self.has_reason(step, kind, path) {
            self.reasons.push(Reason { step, kind, path, text });
        }
    }

    /// Returns true if the step has a reason for this kind of decision already.
    fn has_reason(&self, step: usize, kind: &'static str, path: Option<PathId>) -> bool {
        let mut here = self.reasons.iter().rev().take_while(|reason| reason.step == step);
        here.any(|reason| (reason.kind, reason.path) == (kind, path))
    }

    fn happened(&mut self, at: Instant, path: PathId, kind: &'static str) {
        match self.events.len() {
            n if n < MAX_EVENTS => self.events.push(Happening { at, path: Some(path), kind }),
            MAX_EVENTS => self.events.push(Happening { at, path: None, kind: "more" }),
            _ => {}
        }
    }
}

impl Listener for Timeline {
    fn note(&mut self, now: Instant, conn: u8, note: &Note) {
        if conn != 0 {
            return;
        }
        self.go_to(now);
        match *note {
            Note::Decided(ref decided) => self.decided(decided),
            Note::Sent { .. } => {}
            Note::Arrived { path, offset, bytes, in_order_to, held, .. } => {
                self.arrived(path, offset.get() + u64::from(bytes), in_order_to.get(), held);
            }
            Note::Acked { path, cwnd, in_flight, srtt_us, .. } => {
                *last(&mut self.paths[path.index()].gauges) = Some(Gauge { srtt_us, cwnd, in_flight });
            }
            Note::Lost { path, .. } => self.happened(now, path, "loss"),
            Note::Timeout { path, kind } => self.happened(now, path, kind),
            Note::Congestion { path, .. } => self.happened(now, path, "congestion"),
            Note::Up(path) => self.happened(now, path, "up"),
            Note::Down(path) => {
                *last(&mut self.paths[path.index()].gauges) = None;
                self.happened(now, path, "down");
            }
        }
    }

    fn asks_why(&mut self, now: Instant, conn: u8, decision: Decision) -> bool {
        let (kind, path) = kind_of(decision);
        conn == 0 && !self.has_reason((now.as_nanos() / self.step.as_nanos()) as usize, kind, path)
    }
}

/// Name of a decision, and the path that it names.
fn kind_of(decision: Decision) -> (&'static str, Option<PathId>) {
    match decision {
        Decision::Send(path) | Decision::Ahead(path, _) => ("send", Some(path)),
        Decision::Repeat(path, _) => ("copy", Some(path)),
        Decision::Recall(path) => ("recall", Some(path)),
        Decision::Wait => ("wait", None),
    }
}

impl Reason {
    fn to_json(&self) -> Value {
        json!([self.step, self.kind, self.path.map(PathId::index), self.text])
    }
}

fn kb(bytes: u64) -> f64 {
    bytes as f64 / 1e3
}

fn last<T>(column: &mut [T]) -> &mut T {
    column.last_mut().expect("a note opens its step first")
}

fn raise(peak: &mut u64, value: u64) {
    *peak = value.max(*peak);
}

/// Makes one of each two neighbours; a last one without neighbour stays.
fn pair_up<T: Copy>(column: &mut Vec<T>, merge: impl Fn(T, T) -> T) {
    *column = column.chunks(2).map(|pair| pair.iter().copied().reduce(&merge).expect("a chunk is not empty")).collect();
}

#[cfg(test)]
mod tests {
    use weftway_path::Offset;

    use super::*;

    const PATH: PathId = PathId::new(0);

    fn arrived(offset: u64, in_order_to: u64, held: u64) -> Note {
        Note::Arrived {
            path: PATH,
            index: 0,
            offset: Offset::new(offset),
            bytes: 1000,
            in_order_to: Offset::new(in_order_to),
            held,
        }
    }

    fn acked(cwnd: u64) -> Note {
        Note::Acked { path: PATH, cum: 1, una: Offset::ZERO, cwnd, in_flight: 2000, srtt_us: 20_500 }
    }

    fn timeline(notes: &[(u64, Note)]) -> Value {
        let mut timeline = Timeline::new(["wifi"]);
        for (ms, note) in notes {
            timeline.note(Instant::from_millis(*ms), 0, note);
        }
        timeline.to_json()
    }

    #[test]
    fn a_step_holds_what_arrived_first_and_the_receivers_peak() {
        // 1000 B at offset 2000 wait for the first 2000, which come in the third step; then a copy.
        let notes = [(0, arrived(2000, 0, 1000)), (21, arrived(0, 1000, 1000)), (22, arrived(1000, 3000, 0))];
        let mut json = timeline(&[&notes[..], &[(31, arrived(0, 3000, 0))]].concat());
        // 1000 B in 10 ms are 0.8 Mbit/s.
        assert_eq!(json["mbps"].take(), json!([[0.8, 0.0, 1.6, 0.0]]));
        assert_eq!(json["ooo_kb"].take(), json!([1.0, 1.0, 1.0, 0.0]));
        // Bytes 0 to 3000 of the window are in use until byte 0 arrives.
        assert_eq!(json["receive_buffer_kb"].take(), json!([3.0, 3.0, 3.0, 0.0]));
    }

    /// Bytes 1000 to 3000 are held and dropped when byte 0 comes; they come again.
    #[test]
    fn data_that_are_dropped_and_come_again_count_once() {
        let notes = [(0, arrived(1000, 0, 2000)), (10, arrived(0, 1000, 0)), (20, arrived(1000, 3000, 0))];
        assert_eq!(timeline(&notes)["mbps"], json!([[1.6, 0.0, 0.8]]));
    }

    #[test]
    fn a_gauge_stays_until_the_path_goes_down() {
        let json = timeline(&[(5, Note::Up(PATH)), (12, acked(14_000)), (29, Note::Lost { path: PATH, index: 3 })]);
        assert_eq!(json["cwnd_kb"], json!([[null, 14.0, 14.0]]));
        assert_eq!(json["srtt_ms"], json!([[null, 20.5, 20.5]]));
        let down = timeline(&[(12, acked(14_000)), (21, Note::Down(PATH)), (39, Note::Up(PATH))]);
        assert_eq!(down["inflight_kb"], json!([[null, 2.0, null, null]]));
        let events =
            json!([{ "t_ms": 5.0, "path": "wifi", "kind": "up" }, { "t_ms": 29.0, "path": "wifi", "kind": "loss" }]);
        assert_eq!(json["events"], events);
    }

    #[test]
    fn four_seconds_fill_the_steps_and_one_more_pairs_them_up() {
        // A packet each 10 ms: 400 steps of 1000 B; the next makes 200 steps of 2000 B and one of 1000.
        let notes: Vec<_> = (0..400).map(|n| (10 * n, arrived(1000 * n, 1000 * (n + 1), 0))).collect();
        let full = timeline(&notes);
        assert_eq!((full["step_ms"].as_f64(), full["mbps"][0].as_array().unwrap().len()), (Some(10.0), 400));
        let mut timeline = Timeline::new(["wifi"]);
        for (ms, note) in notes.iter().chain([&(4000, arrived(400_000, 401_000, 0))]) {
            timeline.note(Instant::from_millis(*ms), 0, note);
        }
        let json = timeline.to_json();
        assert_eq!((json["step_ms"].as_f64(), json["ooo_kb"].as_array().unwrap().len()), (Some(20.0), 201));
        assert_eq!((&json["mbps"][0][199], &json["mbps"][0][200]), (&json!(0.8), &json!(0.4)));
    }

    #[test]
    fn a_long_silence_costs_no_memory() {
        // 600 s need 2^8 × 10 ms: 600 / 2.56 = 234.4.
        let json = timeline(&[(0, arrived(0, 1000, 0)), (600_000, acked(14_000))]);
        assert_eq!(json["step_ms"], 2560.0);
        assert_eq!(json["mbps"][0].as_array().unwrap().len(), 235);
    }

    #[test]
    fn decisions_are_counted_and_the_first_reason_of_a_kind_stays() {
        let decided =
            |decision, why: &str| Note::Decided(Decided { offset: None, decision, why: Some(why.to_owned()) });
        let (send, copy) = (Decision::Send(PATH), Decision::Repeat(PATH, Offset::ZERO));
        let notes = [
            (0, decided(send, "first")),
            (9, decided(send, "second of the step")),
            (12, decided(send, "next step")),
            (13, decided(Decision::Wait, "full")),
            (14, decided(copy, "tail")),
        ];
        let json = timeline(&notes);
        let reasons = [json!([0, "send", 0, "first"]), json!([1, "send", 0, "next step"])];
        let rest = [json!([1, "wait", null, "full"]), json!([1, "copy", 0, "tail"])];
        assert_eq!(json["decisions"]["send"], json!([[2, 1]]));
        assert_eq!((&json["decisions"]["wait"], &json["decisions"]["copy"]), (&json!([0, 1]), &json!([[0, 1]])));
        assert_eq!(json["decisions"]["reasons"], json!([&reasons[..], &rest[..]].concat()));
        // In steps of 20 ms the second reason to send falls on the first.
        let long = timeline(&[&notes[..], &[(4000, acked(14_000))]].concat());
        assert_eq!(long["decisions"]["send"][0][0], 3);
        assert_eq!(
            long["decisions"]["reasons"],
            json!([reasons[0], [0, "wait", null, "full"], [0, "copy", 0, "tail"]])
        );
    }

    #[test]
    fn events_beyond_the_cap_are_left_out_and_said_to_be() {
        let json = timeline(&vec![(0, Note::Lost { path: PATH, index: 0 }); MAX_EVENTS + 5]);
        let events = json["events"].as_array().unwrap();
        assert_eq!(events.len(), MAX_EVENTS + 1);
        assert_eq!(events[MAX_EVENTS], json!({ "t_ms": 0.0, "path": null, "kind": "more" }));
    }
}
