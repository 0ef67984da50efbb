//! Waiting-time awareness: wait for the fast path if all that is unsent arrives through it before
//! one packet would arrive on the slow path, with what is left of the wait measured.
//!
//! Rule: `s` = min-RTT's choice, `f` = the path with the smallest srtt, full or not. If `s = f`,
//! send. Else f needs `d = ⌈(unacknowledged on f + mss − cwnd_f)/mss⌉` acknowledgements; the d-th
//! oldest of its packets, sent at `t_d`, brings the last of them in
//! `w = max(t_d + srtt_f − now, 0)`. With `k` unassigned bytes,
//!   wait if `(w + k/cwnd_f·srtt_f + srtt_f/2)·(1 + margin) < srtt_s/2`, else send on s.
//! Reference: Rao et al.: DPSW2A, 2021, as described in comparisons, of which only this is known: a test of the waiting
//! time in the manner of ECF.
//! State: when each packet in flight was sent, per path.
//! Departs from print: the test is ours. Unlike ECF, which takes a whole round trip of f for the
//! wait and compares round trips, it knows how much of that time has passed and compares arrivals;
//! it has one test, no hysteresis and no allowance for the deviation (`margin`). Unlike the
//! blocking time, it counts the data behind the packet; unlike BLEST, it does not look at the
//! peer's window. A packet that is overdue is expected at once. A path of the other role (backup
//! for active) is never waited for.

use std::collections::VecDeque;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Instant, Path, Receipt, Span};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Needs, Provenance, TransportRules, permille};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "dpsw2a",
    aliases: &["dpsw-2a"],
    summary: "min-RTT, unless all data arrive sooner by waiting out what is left of the fast path's round trip",
    reference: "Rao et al.: DPSW2A, 2021, as described in comparisons",
    provenance: Provenance::Reconstructed,
    goal: "completion time",
    application: "general",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Mss, Input::Queue],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    transport: TransportRules::RP,
    params: &[
        Param {
            name: "backlog",
            default: "all",
            values: "all | packet",
            doc: "what must arrive through the fast path: all that is unassigned, or the packet at hand",
        },
        Param {
            name: "margin",
            default: "0",
            values: "number, 0 to 100",
            doc: "by how much of its own time the fast path must be sooner",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Dpsw2a {
        packet_only: params.choice("backlog", &[("all", false), ("packet", true)])?,
        margin_permille: permille(params, "margin", 0.0..=100.0)?,
        flights: PerPath::default(),
    }))
}

#[derive(Clone)]
struct Dpsw2a {
    packet_only: bool,
    margin_permille: u64,
    flights: PerPath<VecDeque<Flight>>,
}

/// A packet in flight.
#[derive(Clone, Copy)]
struct Flight {
    serial: u64,
    sent: Instant,
}

impl Dpsw2a {
    /// Returns the time until `fast` has room for a packet. A round trip if nothing is known.
    fn wait(&self, now: Instant, fast: &Path) -> Span {
        let over = (fast.unacked() + fast.mss).saturating_sub(fast.cwnd);
        let acks = over.get().div_ceil(fast.mss.get().max(1)).max(1) as usize;
        let flight = self.flights.get(fast.id).and_then(|flights| flights.get(acks - 1).or(flights.back()));
        flight.map_or(fast.srtt, |flight| (flight.sent + fast.srtt).since(now))
    }

    fn backlog(&self, cx: &Context<'_>) -> Bytes {
        let packet = cx.packet.map_or(Bytes::ZERO, |packet| packet.bytes);
        cx.flow.filter(|_| !self.packet_only).map_or(packet, |flow| flow.unsent)
    }

    /// Returns true if all is there by way of `fast` before a packet is by way of `slow`. Both sides times
    /// the window of f and 1000.
    fn fast_is_sooner(&self, cx: &Context<'_>, fast: &Path, slow: &Path) -> bool {
        let wide = |n: u64| n as u128;
        let cwnd = wide(fast.cwnd.max(fast.mss).get());
        let first = wide((self.wait(cx.now, fast) + fast.srtt / 2).as_nanos()).saturating_mul(cwnd);
        let drain = wide(fast.srtt.as_nanos()) * wide(self.backlog(cx).get());
        let by_fast = first.saturating_add(drain).saturating_mul(wide(1000 + self.margin_permille));
        by_fast < (wide((slow.srtt / 2).as_nanos()) * cwnd).saturating_mul(1000)
    }

    fn land(&mut self, receipt: &Receipt) {
        let flights = self.flights.at(receipt.path);
        if let Some(at) = flights.iter().position(|flight| flight.serial == receipt.serial) {
            flights.remove(at);
        }
    }
}

impl Scheduler for Dpsw2a {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(slow) = choose::min_rtt(cx) else { return choose::wait(cx) };
        let fast = choose::fastest_like(cx, slow, false);
        // A path with room is not waited for: min-RTT passed it over because the packet avoids it.
        let waits = !fast.is_open() && self.fast_is_sooner(cx, fast, slow);
        choose::send_or_wait(cx, Some(slow).filter(|_| !waits))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        match *event {
            Event::Sent(receipt, _) => {
                self.flights.at(receipt.path).push_back(Flight { serial: receipt.serial, sent: cx.now });
            }
            Event::Acked(receipt) | Event::Lost(receipt) => self.land(&receipt),
            Event::PathUp(path) | Event::PathDown(path) => self.flights.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let slow = choose::min_rtt(cx)?;
        let fast = choose::fastest_like(cx, slow, false);
        let (wait, backlog, sooner) = (self.wait(cx.now, fast), self.backlog(cx), self.fast_is_sooner(cx, fast, slow));
        Some(format!("f {:?} has room in {wait}, s {:?}, {backlog} to send: f sooner {sooner}", fast.id, slow.id))
    }
}
