//! Forward delays decide who sends what: the path of the smallest takes the front, a slower one
//! the segment that the faster ones will have come to when it arrives.
//!
//! Rule: with `fd = queued/rate + srtt/2`, the open path `p` of the smallest fd sends the first
//! unsent segment at or after
//!   `next + ⌊Σ rate_f·(fd_p − fd_f)/mss⌋` over the paths `f` with a smaller fd, full or not.
//! If no more than that is unsent, it waits.
//! Reference: Le, Bui: Forward Delay-based Packet Scheduling Algorithm for Multipath TCP, MONET 2018, from a short
//! description.
//! State: none.
//! Departs from print: the paper's text was not at hand. By its abstract (arXiv 1501.03196, of 2015) packets go by
//! estimated forward delays and differences of throughput, as here. There the receiver's timestamps give the
//! differences of forward delays; here half a round trip stands for the way there. The rate is
//! the delivery rate, before its first sample the window over the round-trip time. The sum over
//! several faster paths, and what happens at the tail, are ours.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Path};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;
use crate::shared::forecast;

pub(crate) static ENTRY: Entry = Entry {
    name: "fdps",
    aliases: &["forward-delay", "forward-delay-based"],
    summary: "a slower path sends ahead by what the faster ones deliver while it is behind",
    reference: "Le, Bui: Forward Delay-based Packet Scheduling Algorithm for Multipath TCP, MONET 2018",
    provenance: Provenance::Reconstructed,
    goal: "reordering",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::Mss, Input::Rate, Input::Queue, Input::Window],
    needs: Needs { flow: true, ahead: true, ..Needs::NONE },
    waits: true,
    params: &[forecast::TAIL],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Fdps { takes_last: forecast::takes_last(params)? }))
}

#[derive(Clone)]
struct Fdps {
    takes_last: bool,
}

/// Returns what the faster paths deliver until a segment sent on `path` now arrives.
fn lead(cx: &Context<'_>, path: &Path) -> Bytes {
    let delay = forecast::forward_delay(path);
    let behind = |faster: &Path| delay.saturating_sub(forecast::forward_delay(faster));
    choose::standing(cx).fold(Bytes::ZERO, |sum, faster| sum + forecast::rate(faster).bytes_in(behind(faster)))
}

impl Scheduler for Fdps {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let (Some(packet), Some(path)) = (cx.packet, choose::pick_least(cx, forecast::forward_delay)) else {
            return choose::wait(cx);
        };
        if packet.reinjection {
            return Decision::Send(path.id);
        }
        forecast::ahead(cx, path, lead(cx, path), self.takes_last)
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = choose::pick_least(cx, forecast::forward_delay)?;
        let (delay, lead) = (forecast::forward_delay(path), lead(cx, path));
        Some(format!("{:?} takes {delay}; faster paths deliver {lead} meanwhile", path.id))
    }
}
