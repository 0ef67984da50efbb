//! Priorities: urgent packets take the best path that has room, the others keep off it.
//!
//! Rule: the paths are ranked by srtt, equal ones by window, largest first. A packet whose message
//! is of class `urgent` or more urgent goes on the first of them that may send. Any other goes on
//! the path of smallest srtt among the rest of the list, and on the first only if no other may
//! send (`rest=away`), or wherever min-RTT sends it (`rest=standard`).
//! Reference: Lu, Yu, Huang, Guo: PO-MPTCP, Int. Journal of Digital Multimedia Broadcasting 2018, algorithms 2 and 3.
//! State: none.
//! Departs from print: the two algorithms were read without the text around them, and the symbols
//! of the two keys by which paths are ranked are taken to be the RTT and the window that their
//! heads define. There, what is not urgent goes by MPTCP's standard scheduler: with one stream of
//! data in order, urgent packets then differ from others only where two paths have the same srtt.
//! So `rest=away` is ours, and the default. Which data are urgent the paper finds out by itself;
//! here the application says so. A class is known of new data; data sent before go as in min-RTT.

use core::cmp::Reverse;

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Path, Span};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Preset, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::urgent::{URGENT, away_from, is_urgent};

pub(crate) static ENTRY: Entry = Entry {
    name: "po-mptcp",
    aliases: &["pomptcp", "priorities-oriented"],
    summary: "urgent packets on the path of smallest round-trip time, which the others leave to them",
    reference: "Lu, Yu, Huang, Guo: PO-MPTCP, Int. Journal of Digital Multimedia Broadcasting 2018",
    provenance: Provenance::Reconstructed,
    goal: "latency of urgent data",
    application: "streaming media with priorities",
    inputs: &[Input::Rtt, Input::Cwnd],
    needs: Needs { flow: true, ..Needs::NONE },
    transport: TransportRules::RP,
    presets: &[Preset {
        name: "po-mptcp-paper",
        switches: "rest=standard",
        doc: "as printed: what is not urgent goes by min-RTT",
    }],
    params: &[
        URGENT,
        Param {
            name: "rest",
            default: "away",
            values: "away | standard",
            doc: "where the others go: off the best path while another may send, or by min-RTT",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(PoMptcp {
        urgent: params.within("urgent", 0..=255)?,
        keeps_away: params.choice("rest", &[("away", true), ("standard", false)])?,
    }))
}

#[derive(Clone)]
struct PoMptcp {
    urgent: u8,
    keeps_away: bool,
}

fn rank(path: &Path) -> (Span, Reverse<Bytes>) {
    (path.srtt, Reverse(path.cwnd))
}

impl PoMptcp {
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        match cx.packet {
            Some(packet) if packet.reinjection => choose::min_rtt(cx),
            _ if is_urgent(cx, self.urgent) => choose::least(choose::candidates(cx), rank),
            _ if self.keeps_away => away_from(cx, choose::least(choose::standing(cx), rank)),
            _ => choose::min_rtt(cx),
        }
    }
}

impl Scheduler for PoMptcp {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (path, class) = (self.pick(cx)?, cx.flow?.class);
        Some(format!("class {class}, urgent {}: {:?} with srtt {}", is_urgent(cx, self.urgent), path.id, path.srtt))
    }
}
