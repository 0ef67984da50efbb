//! Blocking estimation: do not put on the slow path what would fill the window that the fast path
//! needs meanwhile.
//!
//! Rule: `s` = min-RTT's choice, `f` = the path with the smallest srtt, full or not. If `s = f`,
//! send. Else, with `room = window − |packet| − unacknowledged on s`,
//!   kernel: `linger = max(srtt_s, min_s + (max_s − min_s)·(inflight_s + 1)/cwnd_s)`, `max_s` when
//!           full; `n = ⌊linger / ((min_f + max_f)/2)⌋ + 1` rounds of f send `cwnd_f·(2ⁿ − 1)`
//!           packets in the first slow start (n ≤ 16), else `(max(cwnd_f, ssthresh_f + 1) +
//!           ⌊(n − 1)/2⌋)·n`; wait if λ times their bytes exceed `room`;
//!   paper:  `X = mss_f·(cwnd_f + (r − 1)/2)·r`, `r = rtt_s/rtt_f`; wait if
//!           `λ·X > window − mss_s·(inflight_s + 1)`.
//! λ starts at 1.2 (paper: 1.0) and stays in [1, 1.3]; at most once per min srtt of s it grows by
//! 0.04 if the window ran full since, else shrinks by 0.01.
//! Reference: Ferlin, Alay, Mehani, Boreli: BLEST, IFIP Networking 2016; multipath-tcp/mptcp net/mptcp/mptcp_blest.c.
//! State: λ, when it last moved, whether the window ran full; smallest and largest srtt per path,
//! taken whenever a question is asked. A second question at the same time moves nothing.
//! Departs from print: the paper's "adapted by observed blocking" uses the kernel's steps. A path
//! of the other role (backup for active) is never waited for, nor is one with room: min-RTT passes
//! over an open path that the packet is to avoid. Where the window is not known, `s` sends.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Instant, Path, Span, Starved};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Needs, Preset, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "blest",
    aliases: &["blocking-estimation"],
    summary: "min-RTT, unless the slow path's packet would block the fast path's window",
    reference: "Ferlin, Alay, Mehani, Boreli: BLEST, IFIP Networking 2016; multipath-tcp/mptcp net/mptcp/mptcp_blest.c",
    provenance: Provenance::Code,
    goal: "head-of-line blocking",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Mss, Input::Queue, Input::Window, Input::Size],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    transport: TransportRules::RP,
    presets: &[
        Preset {
            name: "blest-paper",
            switches: "form=paper",
            doc: "as in the paper: by the ratio of the round-trip times",
        },
        Preset {
            name: "blest-linux",
            switches: "form=kernel",
            doc: "as in the MPTCP v0.95 kernel module: by rounds of the fast window",
        },
    ],
    params: &[
        Param {
            name: "form",
            default: "kernel",
            values: "kernel | paper",
            doc: "how much the fast path sends meanwhile: by rounds of its window, or by the ratio of the times",
        },
        Param {
            name: "blocked",
            default: "window",
            values: "window | any",
            doc: "what raises λ: the peer's window running full, or also the send buffer",
        },
        Param {
            name: "fast_excludes_pf",
            default: "false",
            values: "true | false",
            doc: "whether a potentially failed path, or one in Loss, cannot be the fast path (the kernel lets it)",
        },
    ],
    build,
    ..Entry::NEW
};

/// λ and its bounds and steps, in thousandths (`mptcp_blest.c`).
const LAMBDA: core::ops::RangeInclusive<u64> = 1000..=1300;
const KERNEL_LAMBDA: u64 = 1200;
const RAISE: u64 = 40;
const LOWER: u64 = 10;
/// Doublings past this many rounds say nothing any more (`mptcp_blest.c`).
const SLOW_START_ROUNDS: u64 = 16;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let paper = params.choice("form", &[("kernel", false), ("paper", true)])?;
    Ok(Box::new(Blest {
        paper,
        any_block: params.choice("blocked", &[("window", false), ("any", true)])?,
        fast_excludes_pf: params.get("fast_excludes_pf")?,
        lambda: if paper { *LAMBDA.start() } else { KERNEL_LAMBDA },
        moved: Instant::ZERO,
        blocked: false,
        ranges: PerPath::default(),
    }))
}

#[derive(Clone)]
struct Blest {
    paper: bool,
    any_block: bool,
    fast_excludes_pf: bool,
    lambda: u64,
    moved: Instant,
    blocked: bool,
    ranges: PerPath<Range>,
}

/// The smallest and the largest srtt that a path has shown.
#[derive(Clone, Copy)]
struct Range {
    min: Span,
    max: Span,
}

impl Default for Range {
    fn default() -> Self {
        Self { min: Span::MAX, max: Span::ZERO }
    }
}

impl Range {
    fn with(self, srtt: Span) -> Self {
        Self { min: self.min.min(srtt), max: self.max.max(srtt) }
    }
}

impl Blest {
    fn note_ranges(&mut self, cx: &Context<'_>) {
        for path in cx.paths {
            let range = self.ranges.at(path.id);
            *range = range.with(path.srtt);
        }
    }

    fn range(&self, path: &Path) -> Range {
        self.ranges.get(path.id).copied().unwrap_or_default().with(path.srtt)
    }

    /// Moves λ if it is due. Not due again at the same time, however often it is asked.
    fn move_lambda(&mut self, now: Instant, slow: &Path) {
        let elapsed = now.since(self.moved);
        if elapsed.is_zero() || elapsed < self.range(slow).min {
            return;
        }
        let moved = if self.blocked { self.lambda + RAISE } else { self.lambda - LOWER };
        self.lambda = moved.clamp(*LAMBDA.start(), *LAMBDA.end());
        self.blocked = false;
        self.moved = now;
    }

    /// Returns how long a packet sent on `slow` now stays in the window.
    fn linger(&self, slow: &Path) -> Span {
        let Range { min, max } = self.range(slow);
        let (inflight, cwnd) = (slow.bytes_in_flight.packets(slow.mss) + 1, slow.cwnd.packets(slow.mss));
        let estimate = if inflight >= cwnd { max } else { min + (max - min) * inflight / cwnd };
        slow.srtt.max(estimate)
    }

    /// Returns what the fast path sends in `time`, in packets.
    fn packets_in(&self, fast: &Path, time: Span) -> u64 {
        let Range { min, max } = self.range(fast);
        let mean = ((min + max) / 2).as_nanos();
        let rounds = time.as_nanos().checked_div(mean).unwrap_or(0) + 1;
        let cwnd = fast.cwnd.packets(fast.mss);
        if fast.in_first_slow_start() {
            return cwnd.saturating_mul((1 << rounds.min(SLOW_START_ROUNDS)) - 1);
        }
        let window = cwnd.max(fast.ssthresh.packets(fast.mss) + 1);
        (window + (rounds - 1) / 2).saturating_mul(rounds)
    }

    /// Returns true if the window would block, by the kernel's estimate.
    fn blocks(&self, cx: &Context<'_>, flow: &Flow, (fast, slow): (&Path, &Path)) -> bool {
        let packet = cx.packet.map_or(Bytes::ZERO, |packet| packet.bytes);
        let room = flow.window().saturating_sub(packet + slow.unacked());
        let bytes = self.packets_in(fast, self.linger(slow)) as u128 * fast.mss.get() as u128;
        bytes * self.lambda as u128 > room.get() as u128 * 1000
    }

    /// Returns true if the window would block, by the paper's. Both sides times `2·rtt_f²`.
    fn blocks_in_print(&self, flow: &Flow, (fast, slow): (&Path, &Path)) -> bool {
        let wide = |n: u64| n as u128;
        let (rtt_f, rtt_s) = (fast.srtt.as_micros().max(1), slow.srtt.as_micros());
        let room = flow.window().saturating_sub(slow.bytes_in_flight + slow.mss);
        let sent = 2 * wide(fast.cwnd.get()) * wide(rtt_f) + wide(fast.mss.get()) * wide(rtt_s.saturating_sub(rtt_f));
        let sent = (sent * wide(rtt_s)).saturating_mul(wide(self.lambda));
        sent > (wide(room.get()) * 2000).saturating_mul(wide(rtt_f) * wide(rtt_f))
    }
}

impl Scheduler for Blest {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        self.note_ranges(cx);
        let Some(slow) = choose::min_rtt(cx) else { return choose::wait(cx) };
        let fast = choose::fastest_like(cx, slow, self.fast_excludes_pf);
        // A path with room is not waited for: min-RTT passed it over because the packet avoids it.
        let Some(flow) = cx.flow.filter(|_| !fast.is_open()) else { return choose::send_or_wait(cx, Some(slow)) };
        self.move_lambda(cx.now, slow);
        let pair = (fast, slow);
        let blocks = if self.paper { self.blocks_in_print(flow, pair) } else { self.blocks(cx, flow, pair) };
        choose::send_or_wait(cx, Some(slow).filter(|_| !blocks))
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        match *event {
            Event::Starved(Starved::Window) => self.blocked = true,
            Event::Starved(Starved::SendBuffer) => self.blocked |= self.any_block,
            Event::PathUp(path) => self.ranges.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let slow = choose::min_rtt(cx)?;
        let fast = choose::fastest_like(cx, slow, self.fast_excludes_pf);
        let (linger, window) = (self.linger(slow), cx.flow?.window());
        let packets = self.packets_in(fast, linger);
        let (f, s, lambda) = (fast.id, slow.id, self.lambda);
        Some(format!("f {f:?}, s {s:?}: f sends {packets} packets in {linger}, λ {lambda}‰, window {window}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{Bench, path};

    fn kernel() -> Blest {
        Blest {
            paper: false,
            any_block: false,
            fast_excludes_pf: false,
            lambda: KERNEL_LAMBDA,
            moved: Instant::ZERO,
            blocked: false,
            ranges: PerPath::default(),
        }
    }

    #[test]
    fn lambda_moves_once_per_round_trip_of_the_slow_path() {
        let mut blest = kernel();
        let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 100, 10, 0)]);
        let mut lambda_at = |ms: u64, blest: &mut Blest| {
            bench.now = Instant::from_millis(ms);
            let _ = blest.select(&bench.context());
            let _ = blest.select(&bench.context());
            blest.lambda
        };
        assert_eq!(lambda_at(99, &mut blest), 1200);
        // Due after 100 ms: 1.2 − 0.01. The next is due at 200 ms.
        assert_eq!(lambda_at(100, &mut blest), 1190);
        assert_eq!(lambda_at(199, &mut blest), 1190);
        blest.blocked = true;
        assert_eq!(lambda_at(200, &mut blest), 1230);
        assert!(!blest.blocked);
    }

    #[test]
    fn in_congestion_avoidance_a_window_is_more_than_its_threshold() {
        let blest = kernel();
        // One round of max(10, 10 + 1) packets; of a window of 20, of 20.
        let mut fast = path(0, 20, 10, 10);
        assert_eq!(blest.packets_in(&fast, Span::ZERO), 11);
        fast.cwnd = weftway_vectors::testing::packets(20);
        assert_eq!(blest.packets_in(&fast, Span::ZERO), 20);
    }
}
