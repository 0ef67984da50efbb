//! Everything on every path: the fast path leads, the others repeat. When they do depends on the
//! version.
//!
//! Rule, `mode=remp` (ReMP): paths are served in turn, starting after the one served last. A path
//! sends the next data it has not carried: with `pointer = max(next it has not carried, una)`, a
//! copy from `pointer` if those data have been sent, else the packet at hand.
//!   `mode=pinedo`: new data go where min-RTT sends them. Each other active path then has one
//! copy due, before any new data: a path with room sends it; while another has room and it has
//! not, its copy is dropped.
//!   `mode=opportunistic`: new data go first, in turn, and at once on every other path that has
//! room then. Older data are repeated as in ReMP, but only when nothing is unsent.
//! Data handed back for retransmission go first, on a path that has not carried them.
//! Reference: multipath-tcp/mptcp net/mptcp/mptcp_redundant.c; Frömmgen et al., ReMP TCP, ICC 2016. v0.90 to v0.96 of
//! the module, v0.89 by Pinedo; brentondwalker/mptcp (opportunistic).
//! State: the path served last; the copies due of the newest packet; per path, how far copying was
//! found to be pointless.
//! Departs from print: where the host knows that everything past the pointer has arrived out of
//! order, the pointer skips it; the kernel only sees DATA_ACKs. A copy of data acknowledged
//! meanwhile is dropped.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Context, Decision, Event, Flow, Offset, Path, PathId, PathSet, Receipt, SendKind};

use crate::Scheduler;
use crate::entry::{Entry, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::copies::Copies;

pub(crate) static ENTRY: Entry = Entry {
    name: "redundant",
    aliases: &["red", "remp"],
    summary: "every path carries all data that are not acknowledged yet",
    reference: "multipath-tcp/mptcp net/mptcp/mptcp_redundant.c; Frömmgen et al., ReMP TCP, ICC 2016",
    provenance: Provenance::Code,
    goal: "latency and reliability",
    application: "short messages",
    inputs: &[],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    presets: &[
        Preset {
            name: "atsss-redundant",
            switches: "mode=remp",
            doc: "3GPP's redundant mode without a primary access: all data on every path",
        },
        Preset {
            name: "redundant-v0.89",
            switches: "mode=pinedo",
            doc: "as in MPTCP v0.89: each new packet once on every active path that has room",
        },
        Preset {
            name: "redundant-opportunistic",
            switches: "mode=opportunistic",
            doc: "as in brentondwalker/mptcp: copies only where there is room at once, or nothing new to send",
        },
    ],
    params: &[Param {
        name: "mode",
        default: "remp",
        values: "remp | pinedo | opportunistic",
        doc: "each path repeats what it lacks; or has one chance of each new packet; or new data go before old copies",
    }],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let modes = [("remp", Mode::Remp), ("pinedo", Mode::Pinedo), ("opportunistic", Mode::Opportunistic)];
    Ok(Box::new(Redundant { mode: params.choice("mode", &modes)?, ..Redundant::default() }))
}

#[derive(Clone, Copy, PartialEq, Eq, Default)]
enum Mode {
    #[default]
    Remp,
    Pinedo,
    Opportunistic,
}

#[derive(Clone, Default)]
struct Redundant {
    mode: Mode,
    served: Option<PathId>,
    copies: Copies,
    clones: Clones,
}

/// The copies of the newest packet that are still due.
#[derive(Clone, Default)]
struct Clones {
    packet: Offset,
    due: PathSet,
    asked: Option<PathId>,
}

impl Clones {
    /// The next copy to send. Those of full paths are dropped, unless all paths are full.
    fn next(&mut self, cx: &Context<'_>, flow: &Flow) -> Option<Decision> {
        if flow.una > self.packet {
            self.due = PathSet::EMPTY;
        }
        if self.due.is_empty() || choose::candidates(cx).next().is_none() {
            return None;
        }
        let open = choose::candidates(cx).fold(PathSet::EMPTY, |open, path| open.with(path.id));
        self.due = self.due.and(open);
        self.asked = self.due.iter().next();
        self.asked.map(|path| Decision::Repeat(path, self.packet))
    }

    /// Copies of `sent` are due on `others`.
    fn begin(&mut self, sent: &Receipt, others: PathSet) {
        self.packet = sent.offset;
        self.due = others.without(sent.path);
    }

    fn observe(&mut self, event: &Event) {
        match (*event, self.asked.take()) {
            (Event::Sent(receipt, SendKind::Duplicate), _) => self.due = self.due.without(receipt.path),
            (Event::Sent(..), _) | (_, None) => {}
            // It was asked for and did not go: there is nothing to copy any more.
            (_, Some(path)) => self.due = self.due.without(path),
        }
    }
}

impl Redundant {
    /// The open paths, the one after the last served first.
    fn in_turn<'a>(&self, cx: &Context<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
        let served = self.served;
        let is_after = move |path: &&Path| served.is_none_or(|served| path.id > served);
        let after = choose::candidates(cx).filter(is_after);
        after.chain(choose::candidates(cx).filter(move |path| !is_after(path)))
    }

    fn serve(&mut self, cx: &Context<'_>, path: &Path, flow: &Flow) -> Option<Decision> {
        self.copies.repeat(path, flow).or(cx.packet.map(|_| Decision::Send(path.id)))
    }

    fn reinject(&self, cx: &Context<'_>, carried: PathSet) -> Decision {
        let unused = self.in_turn(cx).find(|path| !carried.contains(path.id));
        choose::send_or_wait(cx, unused.or_else(|| self.in_turn(cx).next()))
    }

    /// Returns what goes once no copy of the newest packet is due.
    fn fresh_or_old(&mut self, cx: &Context<'_>, flow: &Flow) -> Decision {
        let new = match self.mode {
            Mode::Pinedo => choose::min_rtt(cx),
            _ => self.in_turn(cx).next(),
        };
        if cx.packet.is_some() || self.mode == Mode::Pinedo || flow.unsent > Bytes::ZERO {
            return choose::send_or_wait(cx, new);
        }
        self.in_turn(cx).find_map(|path| self.copies.repeat(path, flow)).unwrap_or(Decision::Wait)
    }

    /// The paths that are to copy a new packet.
    fn copying(&self, cx: &Context<'_>) -> PathSet {
        let set = |set: PathSet, path: &Path| set.with(path.id);
        match self.mode {
            Mode::Remp => PathSet::EMPTY,
            Mode::Pinedo => choose::standing(cx).filter(|path| path.is_active()).fold(PathSet::EMPTY, set),
            Mode::Opportunistic => choose::candidates(cx).fold(PathSet::EMPTY, set),
        }
    }
}

impl Scheduler for Redundant {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if let Some(packet) = cx.packet.filter(|packet| packet.reinjection) {
            return self.reinject(cx, packet.carried);
        }
        let flow = cx.flow.copied().unwrap_or_default();
        if self.mode == Mode::Remp {
            let decision = self.in_turn(cx).find_map(|path| self.serve(cx, path, &flow));
            return decision.unwrap_or_else(|| choose::wait(cx));
        }
        self.clones.next(cx, &flow).unwrap_or_else(|| self.fresh_or_old(cx, &flow))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.copies.observe(event);
        self.clones.observe(event);
        if let Event::Sent(receipt, kind) = event {
            self.served = Some(receipt.path);
            if *kind == SendKind::Fresh {
                self.clones.begin(receipt, self.copying(cx));
            }
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (path, flow) = (self.in_turn(cx).next()?, cx.flow?);
        let (pointer, due) = (self.copies.pointer(path, flow), self.clones.due);
        Some(format!(
            "turn of {:?}: it has use for {pointer:?}; sent so far {:?}; copies due on {due:?}",
            path.id, flow.next
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::{Offset, Starved};
    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn a_pointless_stretch_is_skipped() {
        let mut bench = Bench::new(vec![path(0, 100, 10, 0)]);
        bench.flow.next = Offset::new(5 * 1400);
        let mut redundant = Redundant::default();
        let p0 = PathId::new(0);
        assert_eq!(redundant.select(&bench.context()), Decision::Repeat(p0, Offset::ZERO));
        // Nothing went out: the host found nothing to repeat.
        redundant.observe(&bench.context(), &Event::Starved(Starved::Window));
        assert_eq!(redundant.select(&bench.context()), Decision::Send(p0));
    }
}
