//! Earliest delivery path first: the path that would deliver the packet first, by a clock per path.
//!
//! Rule: `argmin_l d_l` over the paths that may send, `d_l = max(now + D_l, A_l) + L/B_l`; then `A_l = d_l` for the
//! path that took it. L: the packet's bytes; D_l: half of the smallest round-trip time; B_l: the newest delivery rate,
//! cwnd/srtt before there is one; A_l: when the path will have delivered what it took before. Classes and data sent
//! before as in min-RTT.
//! Reference: Chebrolu, Rao: Bandwidth Aggregation for Real-Time Applications in Heterogeneous Wireless Networks, IEEE
//! TMC 2006, from descriptions of its rule.
//! State: A_l per path.
//! Departs from print: there the proxy of a network knows rates and delays to base stations, and assigns each packet
//! when it comes, whatever waits before it; nothing is full. Here a full path is passed over (`full=wait`: waited for),
//! what a sender measures stands for the link (`delay=smoothed`: half of the smoothed round-trip time), and a path with
//! nothing in flight is free, whatever its clock says (`idle=clock`: as in print).

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::delivery_clock::{Clocks, DELAY, FULL, IDLE};

pub(crate) static ENTRY: Entry = Entry {
    name: "edpf",
    aliases: &["earliest-delivery-path-first"],
    summary: "the path that would deliver the packet first, by a clock of what each path was given",
    reference: "Chebrolu, Rao: Bandwidth Aggregation for Real-Time Applications in Heterogeneous Wireless Networks, IEEE TMC 2006",
    provenance: Provenance::Secondary,
    goal: "delay and reordering",
    application: "video",
    inputs: &[Input::Rtt, Input::MinRtt, Input::Cwnd, Input::Rate, Input::Size],
    needs: Needs { events: true, ..Needs::NONE },
    waits: true,
    params: &[DELAY, FULL, IDLE],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Edpf { clocks: Clocks::read(params)? }))
}

#[derive(Clone)]
struct Edpf {
    clocks: Clocks,
}

impl Scheduler for Edpf {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let bytes = cx.packet.map_or(Bytes::ZERO, |packet| packet.bytes);
        self.clocks.decide(cx, |path| self.clocks.arrival(cx.now, path, bytes))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.clocks.observe(cx, event);
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let bytes = cx.packet?.bytes;
        let arrivals = cx.paths.iter().map(|path| {
            let after = self.clocks.arrival(cx.now, path, bytes).since(cx.now);
            format!("{:?} delivers in {after}", path.id)
        });
        Some(arrivals.collect::<Vec<_>>().join(", "))
    }
}
