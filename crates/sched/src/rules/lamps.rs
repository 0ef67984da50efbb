//! Loss-aware: rank paths by the time a packet takes including its likely repair; a path that
//! loses too much only repeats what others sent.
//!
//! Rule: with `L` bytes between losses and `p = mss/L`,
//!   `tt = srtt/2 · (1 + p)/(1 − p) = srtt/2 · (L + mss)/(L − mss)`, `srtt/2` before any loss and
//! never if `L ≤ mss`; the smallest `tt` wins. A path with `L·thresh < 100·mss` (p above 5 %) is
//! redundant: it sends copies from its pointer, and new data only if every path is redundant.
//! `L` is the distance of the last two losses, four times that for the first, and at least what
//! has been acknowledged since the last.
//! Reference: Dong et al.: LAMPS, LCN 2017; vkirany/mptcp-kau mptcp_lamp.c.
//! State: `L` and the place of the last loss, in bytes acknowledged on the path; copying pointers.
//! Departs from print: new data go to the other paths before copies are made, so that a copy never
//! holds them up. In the module the smallest `tt` decides alone: a redundant path whose turn it is sends
//! from its pointer, unsent data, too, which other paths then send once more; and nobody sends while it
//! has nothing to send. Its pointer is after the newest data that the path sent in its turn, here after
//! all that it has carried. `L` counts what selective acknowledgements cover, there `snd_una` does.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Event, Path, PathId};

use crate::Scheduler;
use crate::entry::{Entry, Input, Needs, Provenance, TransportRules};
use crate::shared::choose;
use crate::shared::copies::Copies;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "lamps",
    aliases: &["lamp", "loss-aware"],
    version: 2,
    summary: "the path of shortest delivery time including losses; very lossy paths only repeat",
    reference: "Dong et al.: LAMPS, LCN 2017; vkirany/mptcp-kau mptcp_lamp.c",
    provenance: Provenance::Code,
    goal: "completion time under loss",
    application: "streaming over lossy links",
    inputs: &[Input::Rtt, Input::Mss, Input::Loss],
    needs: Needs { flow: true, copies: true, events: true, ..Needs::NONE },
    waits: true,
    transport: TransportRules::RP,
    params: &[
        Param {
            name: "thresh",
            default: "5",
            values: "percent, 1 to 100",
            doc: "from which loss rate a path only repeats",
        },
        Param {
            name: "alpha",
            default: "0",
            values: "shift, 0 to 16",
            doc: "smoothing of the loss interval, as a power of two; 0: the last interval alone",
        },
    ],
    build,
    ..Entry::NEW
};

/// The delivery time of a path that loses every packet.
const NEVER: u64 = u64::MAX >> 1;

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Lamps {
        threshold: params.within("thresh", 1..=100)?,
        alpha: params.within("alpha", 0..=16)?,
        losses: PerPath::default(),
        copies: Copies::default(),
    }))
}

#[derive(Clone)]
struct Lamps {
    threshold: u64,
    alpha: u32,
    losses: PerPath<Losses>,
    copies: Copies,
}

#[derive(Clone, Default)]
struct Losses {
    /// Bytes between losses; none before the first.
    interval: Option<u64>,
    /// Bytes acknowledged at the last loss.
    last: u64,
}

impl Losses {
    fn note(&mut self, acked: u64, mss: u64, alpha: u32) {
        if self.interval.is_some() && acked == self.last {
            return;
        }
        let sample = acked.saturating_sub(self.last) + mss;
        let smooth = |old: u64| old - (old >> alpha) + (sample >> alpha);
        self.interval = Some(self.current(acked).map_or(sample * 4, smooth));
        self.last = acked;
    }

    /// The interval to count with: a long run without loss raises it.
    fn current(&self, acked: u64) -> Option<u64> {
        self.interval.map(|interval| interval.max(acked.saturating_sub(self.last)))
    }
}

impl Lamps {
    fn interval(&self, path: &Path) -> Option<u64> {
        self.losses.get(path.id)?.current(path.acked.bytes.get())
    }

    fn is_redundant(&self, path: &Path) -> bool {
        self.interval(path).is_some_and(|interval| interval.saturating_mul(self.threshold) < 100 * path.mss.get())
    }

    /// Delivery time in nanoseconds, below 2⁶³.
    fn time(&self, path: &Path) -> u64 {
        let (half, mss) = (path.srtt / 2, path.mss.get());
        match self.interval(path) {
            None => half.as_nanos().min(NEVER),
            Some(interval) if interval <= mss => NEVER,
            Some(interval) => half.mul_div(interval + mss, interval - mss).as_nanos().min(NEVER),
        }
    }

    /// The best path; redundant ones rank behind all others.
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        choose::pick_least(cx, |path| self.time(path) | u64::from(self.is_redundant(path)) << 63)
    }

    /// The copy that the best redundant path with something to repeat sends.
    fn copy(&mut self, cx: &Context<'_>) -> Option<Decision> {
        let flow = cx.flow?;
        let due = |path: &&Path| self.is_redundant(path) && self.copies.pointer(path, flow) < flow.next;
        let path = choose::least(choose::candidates(cx).filter(due), |path| self.time(path))?;
        self.copies.repeat(path, flow)
    }
}

impl Scheduler for Lamps {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let Some(packet) = cx.packet else { return self.copy(cx).unwrap_or(Decision::Wait) };
        let pick = self.pick(cx);
        if let Some(path) = pick.filter(|path| packet.reinjection || !self.is_redundant(path)) {
            return Decision::Send(path.id);
        }
        if let Some(copy) = self.copy(cx) {
            return copy;
        }
        let all_redundant = choose::standing(cx).all(|path| self.is_redundant(path));
        choose::send_or_wait(cx, pick.filter(|_| all_redundant))
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.copies.observe(event);
        match *event {
            Event::Congestion(id) => self.note_loss(cx, id),
            Event::PathUp(path) => self.losses.reset(path),
            _ => {}
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        let (time, redundant) = (self.time(path) as f64 / 1e6, self.is_redundant(path));
        Some(format!("{:?}: {time} ms, {:?} bytes between losses, redundant {redundant}", path.id, self.interval(path)))
    }
}

impl Lamps {
    fn note_loss(&mut self, cx: &Context<'_>, id: PathId) {
        if let Some(path) = cx.path(id) {
            self.losses.at(id).note(path.acked.bytes.get(), path.mss.get(), self.alpha);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_interval_counts_four_times_and_a_long_run_raises_it() {
        let mut losses = Losses::default();
        losses.note(5_000, 1_000, 0);
        // 4 · (5000 − 0 + 1000); at the same place nothing changes.
        assert_eq!(losses.interval, Some(24_000));
        losses.note(5_000, 1_000, 0);
        assert_eq!(losses.interval, Some(24_000));
        losses.note(8_000, 1_000, 0);
        assert_eq!(losses.interval, Some(4_000));
        assert_eq!(losses.current(18_000), Some(10_000));
    }

    #[test]
    fn the_distance_of_losses_is_smoothed_by_the_share_that_is_asked_for() {
        // The first counts four times; then 4200 bytes: an eighth of it, and seven of 5600.
        let mut losses = Losses::default();
        losses.note(0, 1400, 3);
        losses.note(2800, 1400, 3);
        assert_eq!(losses.interval, Some(5600 - 700 + 525));
        // Another at the same place says nothing.
        losses.note(2800, 1400, 3);
        assert_eq!(losses.interval, Some(5425));
        // A run of 14,000 bytes has raised it by the next loss: seven eighths of 14,000, and one of 15,400.
        losses.note(16_800, 1400, 3);
        assert_eq!(losses.interval, Some(14_000 - 1750 + 1925));
    }
}
