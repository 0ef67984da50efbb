//! Out-of-order transmission for in-order arrival: the path on which the packet would arrive
//! first, even if it must queue there.
//!
//! Rule: with `can = (cwnd − inflight)/mss` and `q` packets queued on the path,
//!   kernel: `T = w·srtt + srtt/2`, `w = 0` if `q < can`, else `⌈(q − can + 1)/cwnd⌉`;
//!   paper:  `T = (R + ½)·srtt`, `R = (q − can)/cwnd`;
//! the smallest `T` wins, the first of equals. New data may wait in the queue of a full path;
//! data sent before need room, and go first off the paths that have carried them.
//! Reference: Yang, Wang, Amer: OTIAS, WAINA 2014; vkirany/mptcp-kau mptcp_otias.c.
//! State: none.
//! Departs from print: `R` is not negative unless `clamp=false`; unclamped, idle paths rank by
//! their free window instead of their delay.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "otias",
    aliases: &["otia"],
    version: 2,
    summary: "the path of earliest arrival, counting what already queues there",
    reference: "Yang, Wang, Amer: OTIAS, WAINA 2014; vkirany/mptcp-kau mptcp_otias.c",
    provenance: Provenance::Code,
    goal: "completion time and jitter",
    application: "real-time",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Mss, Input::Queue],
    needs: Needs { queueing: true, ..Needs::NONE },
    presets: &[
        Preset {
            name: "otias-paper",
            switches: "form=paper:clamp=true",
            doc: "as in the paper: fractions of a round trip, none below zero",
        },
        Preset {
            name: "ns3-otias",
            switches: "form=paper:clamp=false",
            doc: "as in an MPTCP fork of ns-3: free window makes the waiting time negative",
        },
    ],
    params: &[
        Param {
            name: "form",
            default: "kernel",
            values: "kernel | paper",
            doc: "whole round trips of waiting, or fractions of them",
        },
        Param {
            name: "clamp",
            default: "true",
            values: "true | false",
            doc: "paper form: whether free window cannot make the waiting time negative",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let paper = params.choice("form", &[("kernel", false), ("paper", true)])?;
    let clamp = params.get("clamp")?;
    Ok(Box::new(Otias { form: if paper { Form::Paper { clamp } } else { Form::Kernel } }))
}

#[derive(Clone)]
struct Otias {
    form: Form,
}

#[derive(Clone)]
enum Form {
    Kernel,
    Paper { clamp: bool },
}

impl Otias {
    /// Returns the time at which a packet assigned to `path` now would arrive, in nanoseconds from now. With room and
    /// an empty queue that is half a round trip, without a division.
    fn arrival(&self, path: &Path) -> i64 {
        let room = path.cwnd.saturating_sub(path.bytes_in_flight);
        if path.queued == Bytes::ZERO && room >= path.mss && !matches!(self.form, Form::Paper { clamp: false }) {
            return path.srtt.as_nanos() as i64 / 2;
        }
        let free = room.packets(path.mss) as i64;
        let queued = path.queued.get().div_ceil(path.mss.get()) as i64;
        let (cwnd, srtt) = ((path.cwnd.packets(path.mss) as i64).max(1), path.srtt.as_nanos() as i64);
        match self.form {
            Form::Kernel if queued < free => srtt / 2,
            Form::Kernel => (queued - free + cwnd) / cwnd * srtt + srtt / 2,
            Form::Paper { clamp } => {
                let excess = if clamp { (queued - free).max(0) } else { queued - free };
                (srtt as i128 * (2 * excess + cwnd) as i128).div_euclid(2 * cwnd as i128) as i64
            }
        }
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        if cx.packet.is_some_and(|packet| packet.reinjection) {
            return choose::pick_least(cx, |path| self.arrival(path));
        }
        let paths = choose::standing(cx).filter(|path| path.is_open() || choose::queues(path, cx));
        choose::least(paths, |path| self.arrival(path))
    }
}

impl Scheduler for Otias {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        Some(format!("{:?} arrives first, in {} ms", path.id, self.arrival(path) as f64 / 1e6))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{packets, path};

    #[test]
    fn the_shortcut_agrees_with_the_formula() {
        let mut path = path(0, 20, 10, 9);
        for (form, queued, ms) in [
            // can = 1: w = 0; then ⌈(1 - 1 + 1)/10⌉ = 1 round trip more.
            (Form::Kernel, 0, 10),
            (Form::Kernel, 1, 30),
            // R = 0, and (11 - 1)/10 = 1.
            (Form::Paper { clamp: true }, 0, 10),
            (Form::Paper { clamp: true }, 11, 30),
            // (0 - 1)/10 + 0.5 = 0.4 of 20 ms.
            (Form::Paper { clamp: false }, 0, 8),
        ] {
            path.queued = packets(queued);
            assert_eq!(Otias { form }.arrival(&path), ms * 1_000_000);
        }
    }
}
