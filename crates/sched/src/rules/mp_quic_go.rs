//! The lowest round-trip time as mp-quic-go takes it, with copies while a path is unknown.
//!
//! Rule: `argmin srtt` over the open paths that have a sample; if no such path is open, of those
//! without a sample the one that has sent the fewest packets, the last of equals. A packet sent on a
//! path without a sample is repeated on the first open path that has sent fewer packets than it,
//! before other data. Data lost on a path without a sample go to such a path, too. Classes and
//! other data sent before as in min-RTT: under QUIC a lost frame may take any path.
//! Reference: qdeconinck/mp-quic scheduler.go; De Coninck, Bonaventure: Multipath QUIC, CoNEXT 2017.
//! State: the packet that is to be repeated.
//! Departs from print: there path 0 carries only the handshake once another path exists
//! (`initial=skip`); hosts here have no such path. Of equals Go's map order decides there. Data
//! sent before need room here. The round robin of that stack is not this entry.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Offset, Path, PathId, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "mp-quic-go",
    aliases: &["mpquic-go"],
    summary: "the smallest round-trip time; packets on paths without a sample go twice",
    reference: "qdeconinck/mp-quic scheduler.go; De Coninck, Bonaventure: Multipath QUIC, CoNEXT 2017",
    provenance: Provenance::Code,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt],
    needs: Needs { copies: true, events: true, ..Needs::NONE },
    waits: true,
    params: &[Param {
        name: "initial",
        default: "use",
        values: "use | skip",
        doc: "whether path 0 carries data when there are others; in mp-quic-go it does not",
    }],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let skips_initial = params.choice("initial", &[("use", false), ("skip", true)])?;
    Ok(Box::new(MpQuicGo { skips_initial, owed: None, asked: false }))
}

#[derive(Clone)]
struct MpQuicGo {
    skips_initial: bool,
    owed: Option<Owed>,
    /// True if the last answer was the copy.
    asked: bool,
}

/// A packet that went out on a path without a sample.
#[derive(Clone, Copy)]
struct Owed {
    origin: PathId,
    offset: Offset,
}

fn is_unprobed(path: &Path) -> bool {
    path.rtt_samples == 0
}

impl MpQuicGo {
    fn is_skipped(&self, cx: &Context<'_>, path: &Path) -> bool {
        self.skips_initial && path.id == PathId::new(0) && cx.paths.len() > 1
    }

    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let key = |path: &Path| {
            let (by, tie) = match is_unprobed(path) {
                true => (path.sent.packets, u8::MAX - path.id.get()),
                false => (path.srtt.as_nanos(), 0),
            };
            (is_unprobed(path), by, tie)
        };
        choose::pick_among(cx, |path| !self.is_skipped(cx, path), |_| true, choose::by(key))
    }

    /// The first open path that has sent fewer packets than `origin`.
    fn less_used<'a>(&self, cx: &Context<'a>, origin: PathId) -> Option<&'a Path> {
        let sent = cx.path(origin)?.sent.packets;
        choose::candidates(cx)
            .filter(|path| !self.is_skipped(cx, path))
            .find(|path| path.id != origin && path.sent.packets < sent)
    }

    /// The path for data that a path without a sample lost, if there is a better than the usual.
    fn pick_again<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let mut carried = cx.packet.filter(|packet| packet.reinjection)?.carried.iter();
        let origin = carried.find(|path| cx.path(*path).is_some_and(is_unprobed))?;
        self.less_used(cx, origin)
    }

    fn copy(&self, cx: &Context<'_>) -> Option<Decision> {
        let owed = self.owed.filter(|_| cx.packet.is_none_or(|packet| !packet.reinjection))?;
        self.less_used(cx, owed.origin).map(|path| Decision::Repeat(path.id, owed.offset))
    }

    fn forget(&mut self, is_over: impl FnOnce(Owed) -> bool) {
        self.owed = self.owed.filter(|owed| !is_over(*owed));
    }
}

impl Scheduler for MpQuicGo {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let copy = self.copy(cx);
        self.asked = copy.is_some();
        copy.unwrap_or_else(|| choose::send_or_wait(cx, self.pick_again(cx).or_else(|| self.pick(cx))))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        // A copy that was asked for and did not go out had nothing to repeat.
        let was_barren = core::mem::take(&mut self.asked) && !matches!(event, Event::Sent(..));
        self.forget(|_| was_barren);
        match *event {
            Event::Sent(receipt, kind) => {
                self.forget(|_| kind == SendKind::Duplicate);
                let owes = cx.path(receipt.path).is_some_and(is_unprobed);
                if owes && self.less_used(cx, receipt.path).is_some() {
                    self.owed = Some(Owed { origin: receipt.path, offset: receipt.offset });
                }
            }
            Event::Acked(receipt) | Event::Lost(receipt) => self.forget(|owed| owed.offset == receipt.offset),
            Event::PathUp(path) | Event::PathDown(path) => self.forget(|owed| owed.origin == path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        if let (Some(owed), Some(_)) = (self.owed, self.copy(cx)) {
            return Some(format!("{:?} of {:?}, which has no sample, goes once more", owed.offset, owed.origin));
        }
        let path = self.pick(cx)?;
        Some(match is_unprobed(path) {
            true => format!("{:?} has no sample and sent least, {} packets", path.id, path.sent.packets),
            false => format!("{:?} has the smallest srtt, {}", path.id, path.srtt),
        })
    }
}
