//! Uniformly random: the baseline that a policy which learned something has to beat.
//!
//! Rule: of the n paths that may carry the packet now, each with probability 1/n, independently
//! from packet to packet. Data sent before: of those that they need not avoid, else of all.
//! Reference: none: the uniform policy; Gymnasium and others compare against the same.
//! State: the generator, and one number that is drawn ahead. It is kept until a packet is sent, so
//! that asking twice moves nothing.
//! Departs from print: nothing is in print.

use weftway_path::spec::{Params, SpecError};
use weftway_path::{Context, Decision, Event, Path, PathSet};

use crate::Scheduler;
use crate::entry::{Entry, Needs, Provenance};
use crate::shared::choose;
use crate::shared::rng::{PolicyRng, SEED};

pub(crate) static ENTRY: Entry = Entry {
    name: "random",
    summary: "any path with room, with equal probability: a baseline for what learns",
    reference: "none: the uniform policy",
    provenance: Provenance::Reconstructed,
    goal: "yardstick of the learned",
    application: "testing",
    inputs: &[],
    needs: Needs { events: true, ..Needs::NONE },
    params: &[SEED],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let mut rng = PolicyRng::new(params.get("seed")?);
    let draw = rng.unit();
    Ok(Box::new(Random { rng, draw }))
}

#[derive(Clone)]
struct Random {
    rng: PolicyRng,
    /// In [0, 1): where the next packet falls among the paths that may carry it.
    draw: f64,
}

impl Random {
    /// The path that the draw falls on, of those not to `avoid`.
    fn fallen<'a>(&self, cx: &Context<'a>, avoid: PathSet) -> Option<&'a Path> {
        let open = || choose::candidates(cx).filter(|path| !avoid.contains(path.id));
        let count = open().count();
        // A draw is a multiple of 2⁻³² below 1: the product is exact in f64 and below `count`.
        open().nth((self.draw * count as f64) as usize)
    }
}

impl Scheduler for Random {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let avoid = cx.packet.map_or(PathSet::EMPTY, |packet| packet.avoid);
        let path = self.fallen(cx, avoid).or_else(|| self.fallen(cx, PathSet::EMPTY));
        choose::send_or_wait(cx, path)
    }

    fn observe(&mut self, _: &Context<'_>, event: &Event) {
        if let Event::Sent(..) = event {
            self.draw = self.rng.unit();
        }
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        Some(format!("{:.3} is drawn, among {} open paths", self.draw, choose::candidates(cx).count()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::{PathId, Receipt, SendKind};

    use weftway_vectors::testing::{Bench, path};

    fn random() -> Box<dyn Scheduler> {
        build(&Params::new("random", ENTRY.params, &[]).unwrap()).unwrap()
    }

    /// Returns how often each of `n` open paths is drawn for 30 000 packets.
    fn counts(n: u8) -> Vec<u32> {
        let (mut rule, bench) = (random(), Bench::new((0..n).map(|id| path(id, 20, 10, 0)).collect()));
        let mut counts = vec![0; usize::from(n)];
        for _ in 0..30_000 {
            let answer = rule.select(&bench.context());
            assert_eq!(rule.select(&bench.context()), answer, "asking twice moves nothing");
            let Decision::Send(path) = answer else { panic!("{answer:?}") };
            counts[path.index()] += 1;
            let receipt = Receipt { path, offset: Default::default(), bytes: Default::default(), serial: 0 };
            rule.observe(&bench.context(), &Event::Sent(receipt, SendKind::Fresh));
        }
        counts
    }

    #[test]
    fn each_open_path_is_as_likely_as_another() {
        // Binomial: sd √(30000·p·(1−p)) is 87 for p = 1/2, 82 for 1/3, 61 for 1/7; five of them are allowed.
        for (n, mean, allowed) in [(1, 30_000, 0), (2, 15_000, 433), (3, 10_000, 408), (7, 4_286, 303)] {
            for count in counts(n) {
                assert!(u32::abs_diff(count, mean) <= allowed, "{count} of {n} paths, expected {mean}");
            }
        }
    }

    #[test]
    fn a_draw_is_kept_until_a_packet_is_sent() {
        let mut rule = random();
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 20, 10, 0)]);
        let answer = rule.select(&bench.context());
        for _ in 0..20 {
            rule.observe(&bench.context(), &Event::Wake);
            assert_eq!(rule.select(&bench.context()), answer);
        }
        // With one path left the same draw falls on it, and back on the other when that returns.
        let Decision::Send(first) = answer else { panic!("{answer:?}") };
        let full = bench.paths[first.index()].clone();
        bench.paths[first.index()].bytes_in_flight = full.cwnd;
        bench.refresh();
        let other = PathId::new(1 - first.index() as u8);
        assert_eq!(rule.select(&bench.context()), Decision::Send(other));
        bench.paths[first.index()] = full;
        assert_eq!(rule.select(&bench.context()), answer);
    }
}
