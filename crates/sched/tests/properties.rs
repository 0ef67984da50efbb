//! Properties of single rules that hold for any numbers.

use proptest::prelude::*;
use weftway_path::{Bytes, Decision, Instant, Offset, PathId, Span};
use weftway_vectors::testing::{Bench, packets, path};

const FAST: PathId = PathId::new(0);
const SLOW: PathId = PathId::new(1);

/// F full, S open.
fn pair(fast_ms: u64, slow_ms: u64, fast_cwnd: u64, slow_cwnd: u64) -> Bench {
    Bench::new(vec![path(0, fast_ms, fast_cwnd, fast_cwnd), path(1, slow_ms, slow_cwnd, 0)])
}

proptest! {
    /// 2·rtt·cwnd ≥ 1.25·cwnd·(rtt + δ) while δ ≤ 0.6·rtt: the first test fails, waiting or not.
    #[test]
    fn ecf_never_waits_at_equal_times(
        ms in 1..2000u64, percent in 0..=60u64, windows in (1..5000u64, 1..5000u64), unsent in vec_of_counts(),
    ) {
        let mut ecf = weftway_sched::build("ecf:delta=rttvar").unwrap();
        let mut bench = pair(ms, ms, windows.0, windows.1);
        bench.paths[1].rttvar = Span::from_millis(ms).mul_div(percent, 100);
        for count in unsent {
            bench.flow.unsent = packets(count);
            prop_assert_eq!(ecf.select(&bench.context()), Decision::Send(SLOW));
        }
    }

    /// 2·rtt·cwnd ≥ cwnd·(rtt + δ) while δ ≤ rtt: the first test fails as long as nothing is waited for.
    #[test]
    fn ecf_does_not_begin_to_wait_at_equal_times(
        ms in 1..2000u64, percent in 0..=100u64, windows in (1..5000u64, 1..5000u64), unsent in vec_of_counts(),
    ) {
        let mut ecf = weftway_sched::build("ecf:delta=rttvar").unwrap();
        let mut bench = pair(ms, ms, windows.0, windows.1);
        bench.paths[1].rttvar = Span::from_millis(ms).mul_div(percent, 100);
        for count in unsent {
            bench.flow.unsent = packets(count);
            prop_assert_eq!(ecf.select(&bench.context()), Decision::Send(SLOW));
        }
    }

    /// A window that never fills is never blocked.
    #[test]
    fn blest_never_waits_for_an_unbounded_window(
        times in (1..500u64, 1..5000u64), windows in (1..100_000u64, 1..100_000u64), ssthresh in 1..200_000u64, paper in any::<bool>(),
    ) {
        let mut blest = weftway_sched::build(if paper { "blest:form=paper" } else { "blest" }).unwrap();
        let mut bench = pair(times.0, times.0 + times.1, windows.0, windows.1);
        bench.paths[0].ssthresh = if ssthresh > 100_000 { Bytes::MAX } else { packets(ssthresh) };
        bench.flow.edge = Offset::new(u64::MAX);
        prop_assert_eq!(blest.select(&bench.context()), Decision::Send(SLOW));
    }

    /// Past four times the fast path's round trip the slow one is never used instead of it.
    #[test]
    fn prs_never_uses_a_path_four_times_slower(
        fast in 1..500u64, more in 1..1000u64, windows in (1..100u64, 1..100u64), again in (0..50u64, 0..50u64), prose in any::<bool>(),
    ) {
        let mut prs = weftway_sched::build(if prose { "prs:mode=prose" } else { "prs" }).unwrap();
        let mut bench = pair(fast, 4 * fast + more, windows.0, windows.1);
        for (path, again) in bench.paths.iter_mut().zip([again.0, again.1]) {
            path.sent.packets = 1000;
            path.retransmitted.packets = again;
        }
        prop_assert_eq!(prs.select(&bench.context()), Decision::Wait);
    }

    /// With any number of paths: while F is full, nothing goes on a path that is more than four times slower.
    #[test]
    fn prs_never_uses_one_of_many_paths_four_times_slower(
        fast in 1..100u64,
        others in prop::collection::vec((0..1000u64, 1..50u64, 0..60u64, 0..50u64), 2..8),
        variant in prop::sample::select(vec!["prs", "prs:le=true", "prs-prose", "prs-max-rtt"]),
    ) {
        let mut prs = weftway_sched::build(variant).unwrap();
        let rows = others.iter().enumerate().map(|(n, &(more, cwnd, in_flight, again))| {
            let mut path = path(n as u8 + 1, fast + more, cwnd, in_flight.min(cwnd));
            (path.sent.packets, path.retransmitted.packets) = (1000, again);
            path
        });
        let bench = Bench::new([path(0, fast, 10, 10)].into_iter().chain(rows).collect());
        if let Decision::Send(id) = prs.select(&bench.context()) {
            let srtt = bench.paths[id.index()].srtt;
            prop_assert!(id != FAST && srtt <= Span::from_millis(4 * fast), "{:?} at {}", id, srtt);
        }
    }

    /// Numbers are normal variables without deviation.
    #[test]
    fn s_edpf_without_spread_is_edpf(
        paths in prop::collection::vec((1..300u64, 1..40u64, 0..50u64), 2..6),
        steps in prop::collection::vec((0..8u8, 0..4u8, 0..40u64), 1..150),
    ) {
        let mut both = ["edpf", "s-edpf:spread=0"].map(|spec| weftway_sched::build(spec).unwrap());
        let rows = paths.iter().enumerate().map(|(n, &(ms, cwnd, var))| {
            let mut path = path(n as u8, ms, cwnd, 0);
            path.rttvar = Span::from_millis(var);
            path
        });
        let mut bench = Bench::new(rows.collect());
        for (path, kind, ms) in steps {
            bench.now += Span::from_millis(ms);
            let path = PathId::new(path % paths.len() as u8);
            let event = match kind {
                0 | 1 => {
                    let answers = both.each_mut().map(|one| one.select(&bench.context()));
                    prop_assert_eq!(answers[0], answers[1]);
                    bench.carry(answers[0])
                }
                2 => bench.ack(path, None),
                _ => bench.lose(path, None),
            };
            for one in &mut both {
                event.iter().for_each(|event| one.observe(&bench.context(), event));
            }
        }
    }

    /// Goodput counts in proportion: the same choice in other units.
    #[test]
    fn llhd_does_not_depend_on_the_unit_of_goodput(
        paths in prop::collection::vec((1..100u64, 0..1_000_000u64), 2..6), factor in 2..1000u64,
    ) {
        let choice = |factor: u64| {
            let mut llhd = weftway_sched::build("llhd").unwrap();
            let rows = paths.iter().enumerate().map(|(n, &(ms, _))| path(n as u8, ms, 10, 0));
            let mut bench = Bench::new(rows.collect());
            for path in (0..paths.len()).map(|n| PathId::new(n as u8)) {
                let sent = bench.carry(Decision::Send(path)).unwrap();
                llhd.observe(&bench.context(), &sent);
            }
            bench.now = Instant::from_millis(100);
            for (n, &(_, bytes)) in paths.iter().enumerate() {
                let acked = bench.ack(PathId::new(n as u8), None).unwrap();
                bench.paths[n].acked.bytes = Bytes::new(bytes * factor);
                llhd.observe(&bench.context(), &acked);
            }
            llhd.select(&bench.context())
        };
        prop_assert_eq!(choice(1), choice(factor));
    }

    /// While every window is open, no path is more than a quota ahead of another.
    #[test]
    fn round_robin_is_even(
        paths in 1..20u8,
        quota in 1..5u64,
        rounds in 1..200usize,
        order in prop::sample::select(vec!["first", "kernel", "next", "fewest"]),
    ) {
        let mut rr = weftway_sched::build(&format!("rr:num_segments={quota}:rr_order={order}")).unwrap();
        let mut bench = Bench::new((0..paths).map(|n| path(n, 10, 10_000, 0)).collect());
        for _ in 0..rounds {
            let sent = bench.carry(rr.select(&bench.context())).unwrap();
            rr.observe(&bench.context(), &sent);
            let counts = || bench.paths.iter().map(|path| path.sent.packets);
            prop_assert!(counts().max().unwrap() - counts().min().unwrap() <= quota);
        }
    }

    /// In as many packets as all windows hold together, each path carries what its own holds.
    #[test]
    fn weighted_round_robin_shares_by_window(windows in prop::collection::vec(1..20u64, 1..9), cycles in 1..4u64) {
        let mut wrr = weftway_sched::build("wrr").unwrap();
        let rows = windows.iter().enumerate().map(|(n, &cwnd)| path(n as u8, 10, cwnd, 0));
        let mut bench = Bench::new(rows.collect());
        for _ in 0..cycles * windows.iter().sum::<u64>() {
            let sent = bench.carry(wrr.select(&bench.context())).unwrap();
            wrr.observe(&bench.context(), &sent);
            let weftway_path::Event::Sent(receipt, _) = sent else { unreachable!() };
            bench.ack(receipt.path, None);
        }
        for (path, window) in bench.paths.iter().zip(windows) {
            prop_assert_eq!(path.sent.packets, cycles * window);
        }
    }

    /// On equal paths without losses redundancy delivers what one of them would.
    #[test]
    fn redundant_is_as_fast_as_one_of_equal_paths(
        paths in 1..8u8,
        window in 1..20u64,
        rounds in 1..10u64,
        mode in prop::sample::select(vec!["remp", "pinedo", "opportunistic"]),
    ) {
        let mut redundant = weftway_sched::build(&format!("redundant:mode={mode}")).unwrap();
        let mut bench = Bench::new((0..paths).map(|n| path(n, 20, window, 0)).collect());
        for _ in 0..rounds {
            while let Some(event) = bench.carry(redundant.select(&bench.context())) {
                redundant.observe(&bench.context(), &event);
            }
            for path in (0..paths).map(PathId::new) {
                while let Some(event) = bench.ack(path, None) {
                    redundant.observe(&bench.context(), &event);
                }
            }
        }
        prop_assert_eq!(bench.flow.una, Offset::ZERO + packets(rounds * window));
    }

    /// Whatever is acknowledged in whatever order, every path ends up with everything that was not
    /// acknowledged when its turn came, and nothing twice.
    #[test]
    fn redundant_repeats_nothing_on_one_path(acks in prop::collection::vec(0..3u8, 1..100)) {
        let mut redundant = weftway_sched::build("redundant").unwrap();
        let mut bench = Bench::new((0..3).map(|n| path(n, 10 + u64::from(n), 4, 0)).collect());
        let mut carried = std::collections::BTreeSet::new();
        for ack in acks {
            while let Some(event) = bench.carry(redundant.select(&bench.context())) {
                let weftway_path::Event::Sent(receipt, _) = event else { unreachable!() };
                prop_assert!(carried.insert((receipt.path.get(), receipt.offset)), "{:?} twice", receipt);
                redundant.observe(&bench.context(), &event);
            }
            if let Some(event) = bench.ack(PathId::new(ack), None) {
                redundant.observe(&bench.context(), &event);
            }
        }
    }
}

fn vec_of_counts() -> impl Strategy<Value = Vec<u64>> {
    prop::collection::vec(1..1_000_000u64, 1..8)
}

#[test]
fn ecf_waits_when_it_should() {
    // The property above holds for lack of a reason to wait, not for lack of waiting:
    // 20·(15 + 10)/10 = 50 < 100 and 100 ≥ 40.
    let mut ecf = weftway_sched::build("ecf:delta=rttvar").unwrap();
    let mut bench = pair(20, 100, 10, 20);
    bench.flow.unsent = packets(15);
    assert_eq!(ecf.select(&bench.context()), Decision::Wait);
    bench.paths[0].bytes_in_flight = packets(9);
    bench.refresh();
    assert_eq!(ecf.select(&bench.context()), Decision::Send(FAST));
}
