use super::*;
use proptest::prelude::*;
use weftway_vectors::testing::{Bench, packets, path};

fn sttf(with: &str) -> Sttf {
    let growth = if with == "v1" { Growth::PastThreshold } else { Growth::UpToThreshold };
    Sttf {
        growth,
        plan: Plan::Virtual,
        near: 0,
        first_rtts: PerPath::default(),
        holes: Holes::default(),
        rounds: Rounds::default(),
    }
}

/// The rule, window by window.
fn step_by_step(path: &Path, growth: Growth) -> Span {
    let (mut queue, free, threshold) = (waiting(path) + 1, free(path), path.ssthresh.packets(path.mss));
    let (mut window, mut time) = (path.cwnd.packets(path.mss), rtt(path) / 2);
    if queue <= free {
        return time;
    }
    queue -= free;
    loop {
        window = match growth {
            Growth::UpToThreshold if window < threshold => (2 * window).clamp(1, threshold),
            Growth::PastThreshold if window <= threshold => (2 * window).max(1),
            _ => window + 1,
        };
        time += rtt(path);
        if queue <= window {
            return time;
        }
        queue -= window;
    }
}

#[test]
fn transfer_times() {
    let mut path = path(0, 20, 10, 10);
    for (threshold, queued, ms) in [
        (10, 0, 30),
        (10, 10, 30),
        (10, 11, 50),
        (10, 30, 70),
        (10, 60, 110),
        (99, 0, 30),
        (99, 19, 30),
        (99, 20, 50),
        (99, 60, 70),
    ] {
        (path.ssthresh, path.queued) = (packets(threshold), packets(queued));
        assert_eq!(sttf("v2").transfer(&path), Span::from_millis(ms), "{queued} queued");
    }
}

fn any_path(n: u8) -> impl Strategy<Value = Path> {
    (1..20_u64, 0..6_u64, 0..8_u64, 0..12_u64, 0..12_u64, 0..3_u64).prop_map(
        move |(srtt, cwnd, flight, threshold, queued, hold)| {
            let mut path = path(n, 10 * srtt, cwnd, flight);
            (path.ssthresh, path.queued) = (packets(threshold), packets(queued));
            path.blocked = if path.space() < path.mss {
                BlockedReason::Congestion
            } else if hold == 0 {
                BlockedReason::Pacing
            } else {
                BlockedReason::None
            };
            path
        },
    )
}

proptest! {
    /// The closed forms find what the rule finds packet by packet.
    #[test]
    fn the_first_packet_for_an_open_path(a in any_path(0), b in any_path(1), c in any_path(2), v1: bool) {
        let sttf = sttf(if v1 { "v1" } else { "v2" });
        let mut paths = [a, b, c];
        for path in &paths {
            prop_assert_eq!(sttf.transfer(path), step_by_step(path, sttf.growth));
        }
        let mut bench = Bench::new(Vec::new());
        bench.paths = paths.to_vec();
        let cx = bench.context();
        let Some(open) = choose::least(choose::candidates(&cx), |path| sttf.transfer(path)) else { return Ok(()) };
        let (open, skipped) = (open.id, sttf.elsewhere(&cx, open, 400));
        for number in 0..400 {
            let next = paths.iter_mut().reduce(|best, path| if sttf.transfer(path) < sttf.transfer(best) { path } else { best });
            let next = next.expect("there are three");
            if next.is_open() {
                prop_assert_eq!((next.id, number), (open, skipped));
                return Ok(());
            }
            next.queued += next.mss;
        }
        prop_assert_eq!(skipped, 400);
    }
}
