//! Highest sending rate: the path whose window lets it send the most in a given time.
//!
//! Rule: `argmax cwnd·mss/srtt` over the paths that may send, the first of equals; what is in
//! flight does not count. Classes and data sent before as in min-RTT.
//! Reference: Kimura, Lima, Loureiro: Alternative Scheduling Decisions for Multipath TCP, IEEE Communications Letters
//! 2017.
//! State: none.
//! Departs from print: known from descriptions, which name its inputs.

use weftway_path::{BitRate, Context, Decision, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Provenance, TransportRules};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "hsr",
    aliases: &["highest-sending-rate"],
    summary: "the open path with the largest window over round-trip time",
    reference: "Kimura, Lima, Loureiro: Alternative Scheduling Decisions for Multipath TCP, IEEE Communications Letters 2017",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Mss],
    transport: TransportRules::RP,
    build: |_| Ok(Box::new(Hsr)),
    ..Entry::NEW
};

#[derive(Clone)]
struct Hsr;

/// `cwnd` of `a` times the srtt of `b`, which is at least a nanosecond. Windows are in bytes, so
/// the size of a packet is in them.
#[inline]
fn window_for_time(a: &Path, b: &Path) -> u128 {
    a.cwnd.get() as u128 * b.srtt.as_nanos().max(1) as u128
}

fn pick<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    choose::pick(cx, |a, b| window_for_time(a, b) > window_for_time(b, a))
}

impl Scheduler for Hsr {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = pick(cx)?;
        Some(format!(
            "{:?} sends fastest, {} in {}: {}",
            path.id,
            path.cwnd,
            path.srtt,
            BitRate::of(path.cwnd, path.srtt)
        ))
    }
}
