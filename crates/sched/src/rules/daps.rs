//! A schedule from one-way delays: who sends which segments until all paths are in step again, so
//! that what a slow path carries is due when it arrives.
//!
//! Rule: with `d = srtt/2` and `w` the window in segments, path `p` delivers `w_p` segments at
//! each multiple of `d_p` up to the least common multiple of all `d`. In the order of these times,
//! the lower srtt first among equal ones, the deliveries take the data; segments queue on their
//! path even if it is full. Then a new schedule is made. A path that cannot be used is passed
//! over; if none is left, min-RTT decides, as it does for data sent before. When the peer's window
//! is full, the open path of the smallest srtt repeats the oldest segment it has not carried.
//! Reference: Kuhn, Lochin, Mifdaoui, et al.: DAPS, ICC 2014; vkirany/mptcp-kau mptcp_daps.c.
//! State: what the schedule says of each path and how far it has come; smoothed windows.
//! Departs from print: the deliveries are not listed but found one by one, as the smallest
//! `(turns + 1)·d`. A schedule ends at `cap`: delays without a common divisor have a multiple that
//! is far away. A path that comes up begins a new schedule. A path whose queue is full is waited for.
//! From the module: it sends data again by the schedule, too. When the peer's window is full, it takes
//! the oldest segment first, and then a path that has not carried it. `daps_in_ss=false` leaves the
//! paths out there that are in slow start after a loss, and no others wait for them. It rounds
//! microseconds as if they were milliseconds; `round` is what it means.

mod schedule;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Path, SendKind};

use self::schedule::Schedule;

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::forecast::forward_delay;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "daps",
    aliases: &["daps-2", "dap", "delay-aware"],
    summary: "a schedule of windows by one-way delays, up to their least common multiple",
    reference: "Kuhn, Lochin, Mifdaoui, et al.: DAPS, ICC 2014; vkirany/mptcp-kau mptcp_daps.c",
    provenance: Provenance::Code,
    goal: "head-of-line blocking",
    application: "general",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Mss, Input::Rate, Input::Queue, Input::Window],
    needs: Needs { flow: true, queueing: true, copies: true, events: true, ..Needs::NONE },
    waits: true,
    presets: &[Preset {
        name: "daps-kernel",
        switches: "round=4:smooth=true",
        doc: "the kernel module's defaults: delays in multiples of 4 ms, and smoothed windows",
    }],
    params: &[
        Param {
            name: "round",
            default: "0",
            values: "ms, 0 to 1000",
            doc: "delays are rounded to multiples of this, and at least one; 0: to microseconds, for the paper's exact ones",
        },
        Param {
            name: "owd",
            default: "rtt/2",
            values: "rtt/2 | forward",
            doc: "one-way delay: half of srtt, or that and what the path's queue takes to leave",
        },
        Param {
            name: "smooth",
            default: "false",
            values: "true | false",
            doc: "whether the planned window is a mean: 7/8 of the old one and 1/8 of the window, once a round trip",
        },
        Param {
            name: "daps_in_ss",
            default: "true",
            values: "true | false",
            doc: "whether schedules are made in slow start; else min-RTT decides until every path has left it",
        },
        Param {
            name: "cap",
            default: "1000",
            values: "ms, 1 to 3600000",
            doc: "the longest schedule, unless one delay is longer: a schedule keeps the delays it was made with",
        },
    ],
    build,
    ..Entry::NEW
};

const MICROS_PER_MILLI: u64 = 1_000;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Daps {
        grain: (params.within::<u64>("round", 0..=1_000)? * MICROS_PER_MILLI).max(1),
        forward: params.choice("owd", &[("rtt/2", false), ("forward", true)])?,
        smooths: params.get("smooth")?,
        in_slow_start: params.get("daps_in_ss")?,
        cap: params.within::<u64>("cap", 1..=3_600_000)? * MICROS_PER_MILLI,
        schedule: Schedule::default(),
        windows: PerPath::default(),
    }))
}

#[derive(Clone)]
struct Daps {
    /// Unit of delays, in microseconds, as are all times of the schedule.
    grain: u64,
    forward: bool,
    smooths: bool,
    in_slow_start: bool,
    cap: u64,
    schedule: Schedule,
    windows: PerPath<Window>,
}

/// The smoothed window of a path.
#[derive(Clone, Default)]
struct Window {
    mean: Option<Bytes>,
    /// Time at which the next sample is due.
    next: Instant,
}

impl Window {
    fn sample(&mut self, now: Instant, path: &Path) {
        if now >= self.next {
            let old = self.mean.unwrap_or(path.cwnd).get();
            self.mean = Some(Bytes::new(old - old / 8 + path.cwnd.get() / 8));
            self.next = now + path.srtt;
        }
    }
}

impl Daps {
    /// The one-way delay of `path`: the nearest multiple of the grain, at least one.
    fn delay(&self, path: &Path) -> u64 {
        let span = if self.forward { forward_delay(path) } else { path.srtt / 2 };
        (span.as_micros().saturating_add(self.grain / 2) / self.grain).max(1).saturating_mul(self.grain)
    }

    /// The window of `path` that a schedule plans with, in segments.
    fn quota(&self, path: &Path) -> u64 {
        let mean = self.windows.get(path.id).and_then(|window| window.mean).filter(|_| self.smooths);
        mean.unwrap_or(path.cwnd).packets(path.mss).max(1)
    }

    fn plan(&mut self, cx: &Context<'_>) {
        let mut schedule = core::mem::take(&mut self.schedule);
        schedule.plan(cx, self.cap, |path| (self.delay(path), self.quota(path)));
        self.schedule = schedule;
    }

    fn fresh(&mut self, cx: &Context<'_>, bytes: Bytes) -> Decision {
        if !self.in_slow_start && choose::standing(cx).any(|path| path.cwnd < path.ssthresh) {
            self.schedule.discard();
            return choose::send_or_wait(cx, choose::min_rtt(cx));
        }
        // A second question finds the schedule made.
        let next = self.schedule.next(cx).or_else(|| {
            self.plan(cx);
            self.schedule.next(cx)
        });
        match next {
            Some(path) if path.is_open() || path.queue_room >= bytes => Decision::Send(path.id),
            Some(_) => choose::wait(cx),
            None => choose::send_or_wait(cx, choose::min_rtt(cx)),
        }
    }
}

/// The peer's window is full: the oldest segment goes again on the open path of the smallest srtt.
fn priority_send(cx: &Context<'_>) -> Decision {
    match (cx.flow, choose::min_rtt(cx)) {
        (Some(flow), Some(path)) if flow.credit() < flow.unsent.min(path.mss) => Decision::Repeat(path.id, flow.una),
        _ => Decision::Wait,
    }
}

impl Scheduler for Daps {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        match cx.packet {
            None => priority_send(cx),
            Some(packet) if packet.reinjection => choose::send_or_wait(cx, choose::min_rtt(cx)),
            Some(packet) => self.fresh(cx, packet.bytes),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(sent, SendKind::Fresh) => self.schedule.note_sent(sent.path),
            Event::Acked(acked) if self.smooths => {
                if let Some(path) = cx.path(acked.path) {
                    self.windows.at(path.id).sample(cx.now, path);
                }
            }
            Event::PathUp(path) => {
                self.windows.reset(path);
                self.schedule.discard();
            }
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        match (cx.packet, self.schedule.next(cx)) {
            (None, _) => match priority_send(cx) {
                Decision::Repeat(path, from) => Some(format!("the peer's window is full: {path:?} repeats {from:?}")),
                _ => None,
            },
            (Some(packet), Some(next)) if !packet.reinjection => self.schedule.explain(next.id),
            _ => Some(format!("not by a schedule: {:?} as in min-RTT", choose::min_rtt(cx)?.id)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::PathId;
    use weftway_vectors::testing::{Bench, packets, path};

    #[test]
    fn a_path_that_comes_up_begins_a_new_schedule() {
        let mut bench = Bench::new(vec![path(0, 20, 4, 0), path(2, 60, 3, 0)]);
        let mut daps = ENTRY.make(&[]).unwrap();
        let mut next = |bench: &mut Bench| {
            let decision = daps.select(&bench.context());
            let sent = bench.carry(decision);
            sent.iter().for_each(|event| daps.observe(&bench.context(), event));
            let up = bench.add(path(1, 10, 2, 0));
            up.iter().for_each(|event| daps.observe(&bench.context(), event));
            decision
        };
        assert_eq!(next(&mut bench), Decision::Send(PathId::new(0)));
        // 5, 10 and 30 ms: two at 5, two at 10, then four of path 0 at 10.
        let paths = [0; 6].map(|_| next(&mut bench));
        assert_eq!(paths, [1, 1, 1, 1, 0, 0].map(|n| Decision::Send(PathId::new(n))));
    }

    #[test]
    fn a_window_is_smoothed_by_an_eighth_once_a_round_trip() {
        let mut path = path(0, 20, 8, 0);
        let mut window = Window::default();
        window.sample(Instant::ZERO, &path);
        path.cwnd = packets(16);
        // Not due before 20 ms; then 8 − 1 + 2 packets.
        for (ms, smoothed) in [(19, 8), (20, 9)] {
            window.sample(Instant::from_millis(ms), &path);
            assert_eq!(window.mean, Some(packets(smoothed)), "at {ms} ms");
        }
    }

    #[test]
    fn a_full_path_takes_what_its_queue_has_just_room_for() {
        // 5 ms beside 30 ms: the first delivery is path 0's, full or not.
        let mut bench = Bench::new(vec![path(0, 10, 4, 4), path(1, 60, 4, 0)]);
        for (room, answer) in [(1400, Decision::Send(PathId::new(0))), (1399, Decision::Wait)] {
            bench.paths[0].queue_room = Bytes::new(room);
            assert_eq!(ENTRY.make(&[]).unwrap().select(&bench.context()), answer, "room for {room} bytes");
        }
    }

    #[test]
    fn nothing_is_repeated_while_the_window_keeps_nothing_back() {
        // A packet is in flight and the peer's window is used up. With more to send the packet goes again on path 1,
        // which has not carried it; with nothing to send nothing waits for the window.
        let mut bench = Bench::new(vec![path(0, 20, 4, 0), path(1, 60, 4, 0)]);
        bench.carry(Decision::Send(PathId::new(0)));
        bench.flow.edge = bench.flow.next;
        bench.refresh();
        let first = Decision::Repeat(PathId::new(0), bench.flow.una);
        for (unsent, answer) in [(1, first), (0, Decision::Wait)] {
            bench.flow.unsent = packets(unsent);
            bench.refresh();
            assert_eq!(ENTRY.make(&[]).unwrap().select(&bench.context()), answer, "{unsent} packets unsent");
        }
    }
}
