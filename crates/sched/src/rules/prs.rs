//! PRS-MPTCP: window, round-trip time and retransmissions decide between a fast and a slow path.
//!
//! Rule: F has the smallest srtt, S is the other. With `space` in bytes and `retrans` sent again,
//!   both have room: the larger `space/(srtt·max(1, retrans))`, F on a tie;
//!   only F has: F if `retrans_f/sent_f < retrans_s/sent_s`, else wait;
//!   only S has: S if `srtt_s/2 ≤ 2·srtt_f`, else wait.
//! As the prose has it (`mode=prose`): min-RTT of F and the paths with
//! `srtt_s ≤ 4·srtt_f`.
//! Reference: Khajekini, Amca, Ulusoy, Ever: PRS-MPTCP, 2024, figure 13 and section 4.
//! State: none; with `window_ms`, the counters at the last two window starts, per path.
//! Departs from print: F on a tie, which both printed tests leave open. With more than two paths,
//! where nothing is printed, S is min-RTT's choice among the others (`slow`).

use core::cmp::Reverse;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Instant, Path, Span};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Needs, Preset, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "prs",
    aliases: &["prs-mptcp"],
    version: 2,
    summary: "the path with more window per round trip and retransmission; bad fast paths are waited out",
    reference: "Khajekini, Amca, Ulusoy, Ever: PRS-MPTCP, 2024, figure 13",
    provenance: Provenance::Paper,
    goal: "reordering and throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Loss],
    needs: Needs { events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    transport: TransportRules::RP,
    presets: &[
        Preset { name: "prs-prose", switches: "mode=prose", doc: "the paper's printed steps" },
        Preset {
            name: "prs-le",
            switches: "le=true",
            doc: "the printed pseudo-code, with a fast path that may go at equal retransmission rates",
        },
        Preset {
            name: "prs-max-rtt",
            switches: "slow=max-rtt",
            doc: "S is the slowest path, as in the paper's table 3",
        },
    ],
    params: &[
        Param {
            name: "mode",
            default: "pseudocode",
            values: "pseudocode | prose",
            doc: "the printed pseudo-code, or the printed steps, which contradict two of its branches",
        },
        Param {
            name: "le",
            default: "false",
            values: "true | false",
            doc: "whether F may go at equal retransmission rates; as printed it may not, and idles without losses",
        },
        Param {
            name: "window_ms",
            default: "0",
            values: "milliseconds, 0 to 600000",
            doc: "count retransmissions over one to two windows of this length; 0: since the start, as printed",
        },
        Param {
            name: "slow",
            default: "default",
            values: "default | max-rtt",
            doc: "S among three or more paths: min-RTT's choice of the others, or the largest srtt",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Prs {
        prose: params.choice("mode", &[("pseudocode", false), ("prose", true)])?,
        le: params.get("le")?,
        window: Span::from_millis(params.within("window_ms", 0..=600_000)?),
        slowest: params.choice("slow", &[("default", false), ("max-rtt", true)])?,
        marks: PerPath::default(),
    }))
}

#[derive(Clone)]
struct Prs {
    prose: bool,
    le: bool,
    window: Span,
    slowest: bool,
    marks: PerPath<Marks>,
}

/// Packets sent and sent again.
#[derive(Clone, Copy, Default)]
struct Tally {
    sent: u64,
    again: u64,
}

impl Tally {
    fn of(path: &Path) -> Self {
        Self { sent: path.sent.packets, again: path.retransmitted.packets }
    }

    fn since(self, earlier: Self) -> Self {
        Self { sent: self.sent.saturating_sub(earlier.sent), again: self.again.saturating_sub(earlier.again) }
    }

    /// Returns true if the retransmission rate is below `other`'s; nothing sent counts as no loss.
    fn is_below(self, other: Self, or_equal: bool) -> bool {
        let (mine, theirs) = (self.again as u128 * other.sent as u128, other.again as u128 * self.sent as u128);
        match (self.sent, other.sent) {
            (0, _) => or_equal || other.sent > 0 && other.again > 0,
            (_, 0) => or_equal && self.again == 0,
            _ => mine < theirs || or_equal && mine == theirs,
        }
    }
}

/// The tallies at the starts of the current window and the one before.
#[derive(Clone, Default)]
struct Marks {
    began: Instant,
    current: Tally,
    previous: Tally,
}

impl Prs {
    fn tally(&self, path: &Path) -> Tally {
        let base = self.marks.get(path.id).map_or(Tally::default(), |marks| marks.previous);
        Tally::of(path).since(base)
    }

    /// F and S, full or not.
    fn pair<'a>(&self, cx: &Context<'a>) -> Option<(&'a Path, Option<&'a Path>)> {
        let fast = choose::fastest(cx)?;
        let others = || choose::standing(cx).filter(|path| path.id != fast.id);
        let slow = if self.slowest {
            choose::least(others(), |path| Reverse(path.srtt))
        } else {
            let open = others().filter(|path| path.is_open());
            choose::least(open, |path| path.srtt).or_else(|| choose::least(others(), |path| path.srtt))
        };
        Some((fast, slow))
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        if self.prose {
            return self.pick_by_prose(cx);
        }
        let (fast, slow) = self.pair(cx)?;
        let Some(slow) = slow else { return Some(fast).filter(|path| path.is_open()) };
        match (fast.is_open(), slow.is_open()) {
            (false, false) => None,
            (true, true) => Some(if self.performs_better(slow, fast) { slow } else { fast }),
            (true, false) => Some(fast).filter(|_| self.tally(fast).is_below(self.tally(slow), self.le)),
            (false, true) => Some(slow).filter(|_| is_near(slow, fast)),
        }
    }

    fn pick_by_prose<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let fast = choose::fastest(cx)?;
        choose::pick_among(cx, |path| path.id == fast.id || is_near(path, fast), |_| true, choose::by(|path| path.srtt))
    }

    fn performs_better(&self, a: &Path, b: &Path) -> bool {
        let cost = |path: &Path| path.srtt.as_micros() as u128 * self.tally(path).again.max(1) as u128;
        a.space().get() as u128 * cost(b) > b.space().get() as u128 * cost(a)
    }

    fn mark(&mut self, now: Instant, path: &Path) {
        let marks = self.marks.at(path.id);
        if now.since(marks.began) >= self.window {
            *marks = Marks { began: now, current: Tally::of(path), previous: marks.current };
        }
    }
}

/// Half a round trip on `slow` takes no longer than two on `fast`.
fn is_near(slow: &Path, fast: &Path) -> bool {
    slow.srtt <= fast.srtt * 4
}

impl Scheduler for Prs {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::PathUp(path) => self.marks.reset(path),
            Event::Acked(receipt) | Event::Lost(receipt) if !self.window.is_zero() => {
                if let Some(path) = cx.path(receipt.path) {
                    self.mark(cx.now, path);
                }
            }
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (fast, slow) = self.pair(cx)?;
        let side = |path: &Path| {
            let Tally { sent, again } = self.tally(path);
            format!("{:?} srtt {}, room {}, {again} of {sent} sent again", path.id, path.srtt, path.space())
        };
        Some(format!("F {}; S {}", side(fast), slow.map_or("none".to_owned(), side)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_compare_as_fractions_and_nothing_sent_is_no_loss() {
        let tally = |again, sent| Tally { sent, again };
        for (a, b, below, or_equal) in [
            // 1/100 against 2/100, 2/200 and 1/200.
            (tally(1, 100), tally(2, 100), true, true),
            (tally(1, 100), tally(2, 200), false, true),
            (tally(1, 100), tally(1, 200), false, false),
            (tally(0, 0), tally(1, 100), true, true),
            (tally(0, 0), tally(0, 100), false, true),
            (tally(1, 100), tally(0, 0), false, false),
            (tally(0, 100), tally(0, 0), false, true),
        ] {
            assert_eq!((a.is_below(b, false), a.is_below(b, true)), (below, or_equal));
        }
    }
}
