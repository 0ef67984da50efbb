//! Lowest round-trip time first, with a guard against bufferbloat: a path whose round-trip time
//! has grown takes no more than what fits without the queue.
//!
//! Rule: `argmin srtt` over the paths with room, as in min-RTT. A path also counts as full when
//! `inflight ≥ min(cwnd, λ·(srtt_min/srtt)·cwnd)`, λ = 3, with `srtt_min` the least smoothed round-trip time that the
//! path has shown: past three times of it the window shrinks in proportion. Nothing in flight is never too much.
//! Reference: Paasch, Ferlin, Alay, Bonaventure: experimental evaluation of MPTCP schedulers, CSWS 2014 (the scheduler
//! with bufferbloat mitigation), as a reader's notes on the whole text quote it: the limit `λ·(sRTT_min/sRTT)·cwnd`,
//! sRTT_min the minimum smoothed RTT, and λ fixed to 3.
//! State: the least smoothed time per path.
//! Departs from print: the paper's text itself was not at hand. The least smoothed time is since the path came up; the
//! quotes do not say whether it ever ages (`least=sample`: the least sample). The cap is tested where the packet is
//! chosen; the window itself stays, and so does the transport's opinion of it. That a path with nothing in flight may
//! send is ours.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, permille};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "ll-bm",
    aliases: &["ll/bm", "llbm", "bufferbloat-mitigation"],
    version: 3,
    summary: "the open path with the smallest round-trip time; paths with inflated times take less",
    reference: "Paasch, Ferlin, Alay, Bonaventure: experimental evaluation of MPTCP schedulers, CSWS 2014",
    provenance: Provenance::Secondary,
    goal: "bufferbloat",
    application: "general",
    inputs: &[Input::Rtt, Input::MinRtt, Input::Cwnd, Input::InFlight],
    needs: Needs { events: true, ..Needs::NONE },
    waits: true,
    params: &[
        Param {
            name: "lambda",
            default: "3",
            values: "number, 1 to 1000",
            doc: "by how much a round-trip time may grow over the path's smallest before its window counts less",
        },
        Param {
            name: "least",
            default: "smoothed",
            values: "smoothed | sample",
            doc: "a path's smallest round-trip time: the least smoothed one, or the least sample",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(LlBm {
        lambda_permille: permille(params, "lambda", 1.0..=1000.0)?,
        by_sample: params.choice("least", &[("smoothed", false), ("sample", true)])?,
        smoothed: PerPath::default(),
    }))
}

#[derive(Clone)]
struct LlBm {
    lambda_permille: u64,
    by_sample: bool,
    /// The least smoothed time that each path has shown.
    smoothed: PerPath<Option<Span>>,
}

impl LlBm {
    /// The smallest round-trip time of `path`. One without a sample of its own has its handshake's.
    fn least(&self, path: &Path) -> Span {
        if self.by_sample && !path.min_rtt.is_zero() {
            return path.min_rtt;
        }
        self.smoothed.get(path.id).copied().flatten().map_or(path.srtt, |least| least.min(path.srtt))
    }

    /// Returns true if more than the cap is in flight: `inflight·srtt ≥ λ·least·cwnd`.
    fn is_bloated(&self, path: &Path) -> bool {
        if path.bytes_in_flight == Bytes::ZERO {
            return false;
        }
        let inflated = path.bytes_in_flight.get() as u128 * path.srtt.as_micros() as u128;
        let allowed = path.cwnd.get() as u128 * self.least(path).as_micros() as u128;
        inflated.saturating_mul(1000) >= allowed.saturating_mul(self.lambda_permille as u128)
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_among(cx, |_| true, |path| !self.is_bloated(path), choose::by(|path| path.srtt))
    }
}

impl Scheduler for LlBm {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            // A path's smoothed time changes with its acknowledgements; what it was at first is there when it sends.
            Event::Sent(receipt, _) | Event::Acked(receipt) => {
                if let Some(path) = cx.path(receipt.path) {
                    let least = self.smoothed.at(path.id);
                    *least = Some(least.map_or(path.srtt, |least| least.min(path.srtt)));
                }
            }
            Event::PathUp(path) => self.smoothed.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let bloated = cx.paths.iter().filter(|path| self.is_bloated(path)).count();
        let path = self.pick(cx)?;
        let (srtt, least) = (path.srtt, self.least(path));
        Some(format!("{:?} has the smallest srtt, {srtt}, at best {least}; {bloated} capped", path.id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::PathId;
    use weftway_vectors::testing::{Bench, packets, path};

    #[test]
    fn a_path_that_comes_up_again_has_its_new_handshake_time() {
        // 50 ms, then 600 ms with 25 of 100 packets in flight, which is the cap of 3·(50/600)·100.
        let mut rule = ENTRY.make(&[]).unwrap();
        let mut bench = Bench::new(vec![path(0, 50, 100, 24)]);
        let sent = bench.carry(Decision::Send(PathId::new(0))).unwrap();
        rule.observe(&bench.context(), &sent);
        bench.paths[0].srtt = Span::from_millis(600);
        bench.paths[0].bytes_in_flight = packets(25);
        assert_eq!(rule.select(&bench.context()), Decision::Wait);
        rule.observe(&bench.context(), &Event::PathUp(PathId::new(0)));
        assert_eq!(rule.select(&bench.context()), Decision::Send(PathId::new(0)));
    }
}
