//! M-Peekaboo: Peekaboo without the send window, for paths of 5G with windows of megabytes.
//!
//! Rule: as `peekaboo`, with `x` = (cwnd, in flight)/latest RTT of F and of S.
//! Reference: Wu et al.: multipath scheduling in 5G networks (M-Peekaboo), 2021, as the MPQUIC comparison's table 1
//! lists its state.
//! State: as `peekaboo`.
//! Departs from print: as `peekaboo`; that all else is the same is a secondary source's word.

use super::peekaboo::{PARAMS, build, rates};
use crate::entry::{Arity, Entry, Input, Learning, Needs, Provenance};
use crate::learned::pair;
use crate::learned::pair::policy::Question;

pub(crate) static ENTRY: Entry = Entry {
    name: "m-peekaboo",
    aliases: &["mpeekaboo"],
    summary: "Peekaboo that does not look at the send window, for paths with large windows",
    reference: "Wu et al.: multipath scheduling in 5G networks (M-Peekaboo), 2021",
    provenance: Provenance::Secondary,
    goal: "throughput",
    application: "bulk transfer over 5G",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Window, Input::Rate],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2021,
        learner: "linear bandit, then fixed odds, on line",
        state: "window and data in flight over latest round-trip time, of both",
        reward: "throughput until the packet's record closes",
        actions: pair::ACTIONS,
    }),
    params: PARAMS,
    build: |params| build(params, features),
    ..Entry::NEW
};

fn features(question: &Question<'_>) -> [f64; 4] {
    rates(question).map_or([0.0; 4], |[f, s]| [f.window, f.in_flight, s.window, s.in_flight])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::pair::meters::Meters;
    use weftway_path::Instant;
    use weftway_vectors::testing::{Bench, packets, path};

    #[test]
    fn the_send_window_does_not_count_and_the_scale_is_the_paths_own() {
        // At a gigabit as at a megabit: the window is one peak rate's round trip, half of S in use.
        for factor in [1, 1000] {
            let mut bench =
                Bench::new(vec![path(0, 20, 10 * factor, 10 * factor), path(1, 50, 20 * factor, 10 * factor)]);
            let mut meters = Meters::default();
            for ms in [0, 50] {
                bench.paths.iter().for_each(|path| meters.update(Instant::from_millis(ms), path));
            }
            bench.flow.edge = bench.flow.next + packets(1);
            let question =
                Question { cx: &bench.context(), fast: &bench.paths[0], slow: &bench.paths[1], meters: &meters };
            let x = features(&question);
            assert!(x.iter().zip([1.0, 1.0, 1.0, 0.5]).all(|(x, expected)| (x - expected).abs() < 1e-6), "{x:?}");
        }
    }
}
