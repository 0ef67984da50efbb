//! Everything on every path (ReMP): the fast path leads, the others repeat what is not
//! acknowledged yet.
//!
//! Rule: paths are served in turn, starting after the one served last. A path sends the next data
//! it has not carried: with `pointer = max(next it has not carried, una)`, a copy from `pointer`
//! if those data have been sent, else the packet at hand. Data handed back for retransmission go
//! first, on a path that has not carried them.
//! Reference: multipath-tcp/mptcp `mptcp_redundant.c` (v0.90 to v0.96).
//! State: the path served last; per path, how far copying was found to be pointless.
//! Departs from print: where the host knows that everything past the pointer has arrived out of
//! order, the pointer skips it; the kernel only sees DATA_ACKs.

use weftway_path::{Context, Decision, Event, Flow, Path, PathId, PathSet};

use crate::Scheduler;
use crate::choose;
use crate::copies::Copies;
use crate::registry::{Arity, Entry, Needs, Provenance, TransportRules};

pub(crate) static ENTRY: Entry = Entry {
    name: "redundant",
    aliases: &["red", "remp"],
    version: 1,
    summary: "every path carries all data that are not acknowledged yet",
    reference: "multipath-tcp/mptcp net/mptcp/mptcp_redundant.c; Frömmgen et al., ReMP TCP, ICC 2016",
    provenance: Provenance::Code,
    goal: "latency and reliability",
    application: "short messages",
    inputs: &[],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    arity: Arity::Any,
    transport: TransportRules::NONE,
    presets: &[],
    params: &[],
    build: |_| Ok(Box::new(Redundant::default())),
};

#[derive(Clone, Default)]
struct Redundant {
    served: Option<PathId>,
    copies: Copies,
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

    fn resend(&self, cx: &Context<'_>, carried: PathSet) -> Decision {
        let unused = self.in_turn(cx).find(|path| !carried.contains(path.id));
        choose::send_or_wait(cx, unused.or_else(|| self.in_turn(cx).next()))
    }
}

impl Scheduler for Redundant {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        if let Some(packet) = cx.packet.filter(|packet| packet.again) {
            return self.resend(cx, packet.carried);
        }
        let flow = cx.flow.copied().unwrap_or_default();
        let decision = self.in_turn(cx).find_map(|path| self.serve(cx, path, &flow));
        decision.unwrap_or_else(|| choose::wait(cx))
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        self.copies.observe(event);
        if let Event::Sent(receipt, _) = event {
            self.served = Some(receipt.path);
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let (path, flow) = (self.in_turn(cx).next()?, cx.flow?);
        let pointer = self.copies.pointer(path, flow);
        Some(format!("turn of {:?}: it has use for {pointer:?}; sent so far {:?}", path.id, flow.next))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, path};
    use weftway_path::{Offset, Starved};

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
