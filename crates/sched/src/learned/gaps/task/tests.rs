use weftway_path::{BitRate, BlockedReason, Counters, Instant};

use super::*;
use crate::learned::build_task;
use weftway_vectors::testing::{Bench, packets, path};

const F: PathId = PathId::new(0);
const S: PathId = PathId::new(1);

/// F: 20 ms and 20 packets, one per millisecond. S: 100 ms and 20 packets, one in five.
fn bench() -> Bench {
    Bench::new(vec![path(0, 20, 20, 0), path(1, 100, 20, 0)])
}

fn at(n: u64) -> Offset {
    Offset::ZERO + packets(n)
}

/// Answers `action` for every slot, if asked.
fn answer(task: &mut dyn Task, bench: &Bench, action: f32) {
    if task.question(&bench.context(), &mut [0.0; 192]) {
        task.answer(&bench.context(), &[action; 4]);
    }
}

fn gap(spec: &str, bench: &mut Bench, actions: &[f32]) -> Decision {
    let (_, mut task) = build_task(spec).unwrap();
    for (turn, action) in actions.iter().enumerate() {
        bench.now = Instant::from_millis(200 * turn as u64);
        assert!(task.question(&bench.context(), &mut [0.0; 192]));
        task.answer(&bench.context(), &[*action; 4]);
    }
    bench.paths[0].bytes_in_flight = bench.paths[0].cwnd;
    bench.refresh();
    task.select(&bench.context())
}

#[test]
fn the_gap_starts_at_the_formula_and_moves_by_the_answers() {
    // 20·(100 − 20)/(2·20) = 40 packets.
    assert_eq!(gap("gap", &mut bench(), &[2.0]), Decision::Ahead(S, at(40)));
    assert_eq!(gap("gap", &mut bench(), &[2.0; 5]), Decision::Ahead(S, at(40)));
    assert_eq!(gap("gap", &mut bench(), &[4.0, 3.0, 2.0, 1.0, 1.0]), Decision::Ahead(S, at(46)));
    // Never below 0: then the packet at hand goes.
    assert_eq!(gap("gap", &mut bench(), &[0.0; 6]), Decision::Send(S));
    assert_eq!(gap("gap", &mut bench(), &[0.0, 0.0, 0.0, 0.0, 0.0, 0.0, 3.0]), Decision::Ahead(S, at(2)));
}

#[test]
fn the_gap_stays_within_what_is_unsent_and_the_window() {
    let mut short = bench();
    short.flow.unsent = packets(30);
    assert_eq!(gap("gap", &mut short, &[2.0]), Decision::Ahead(S, at(29)));
    let mut narrow = bench();
    narrow.flow.edge = at(10);
    assert_eq!(gap("gap", &mut narrow, &[2.0]), Decision::Ahead(S, at(9)));
}

#[test]
fn a_tracked_base_follows_the_window_and_a_first_one_does_not() {
    for (spec, ahead) in [("gap", 42), ("gap:base=tracked", 22)] {
        let (_, mut task) = build_task(spec).unwrap();
        let mut bench = bench();
        answer(&mut *task, &bench, 3.0);
        // Half the window: 10·80/40 = 20 packets.
        bench.paths[0].cwnd = packets(10);
        bench.paths[0].bytes_in_flight = packets(10);
        bench.now = Instant::from_millis(200);
        bench.refresh();
        answer(&mut *task, &bench, 2.0);
        assert_eq!(task.select(&bench.context()), Decision::Ahead(S, at(ahead)), "{spec}");
    }
}

/// Both paths at constant rates for 2 s: the largest number of packets that waited at the receiver
/// in the second half, and the rewards.
fn waiting(first_answer: f32) -> (usize, Vec<f32>) {
    let (_, mut task) = build_task("gap").unwrap();
    task.ledger().open();
    let mut bench = bench();
    let mut flying: Vec<(u64, Receipt)> = Vec::new();
    let (mut arrived, mut next, mut most) = (std::collections::BTreeSet::new(), 0, 0);
    for ms in 0..2000 {
        bench.now = Instant::from_millis(ms);
        // One way takes 10 or 50 ms, and the acknowledgement as long again.
        for (sent, receipt) in &flying {
            let way = if receipt.path == F { 10 } else { 50 };
            if sent + way == ms {
                arrived.insert(receipt.offset.get() / 1400);
            } else if sent + 2 * way == ms {
                let event = bench.ack(receipt.path, Some(receipt.offset)).unwrap();
                task.observe(&bench.context(), &event);
            }
        }
        while arrived.remove(&next) {
            next += 1;
        }
        most = if ms < 1000 { 0 } else { most.max(arrived.len()) };
        for (at, every) in [(0, 1), (1, 5)] {
            bench.paths[0].blocked = BlockedReason::Pacing;
            bench.paths[1].blocked = BlockedReason::Pacing;
            bench.paths[at].blocked = if ms % every == 0 { BlockedReason::None } else { BlockedReason::Pacing };
            bench.refresh();
            answer(&mut *task, &bench, if ms == 0 { first_answer } else { 2.0 });
            let decision = task.select(&bench.context());
            if let Some(Event::Sent(receipt, kind)) = bench.carry(decision) {
                task.observe(&bench.context(), &Event::Sent(receipt, kind));
                flying.push((ms, receipt));
            }
        }
    }
    (most, task.ledger().earned().iter().map(|earned| earned.reward).collect())
}

#[test]
fn at_constant_rates_the_formula_keeps_everything_in_order() {
    // A packet on S leaves at t and arrives at t + 50; F reaches it after 40 packets of its own, at
    // t + 40, and its next one arrives at t + 51: nothing waits longer than the millisecond's tie.
    let (most, rewards) = waiting(2.0);
    assert!(most <= 1, "{most} packets waited");
    // 1.2 packets a millisecond are what the paths' rates allow; the queue and the steps cost nothing.
    let last = rewards[rewards.len() - 1];
    assert!((last - 1.0).abs() < 0.02, "{last}");
}

#[test]
fn eight_packets_too_near_wait_as_long_as_f_sends_eight() {
    // F reaches a packet of S 8 ms before it arrives: 8 packets of F wait, at times 9 with the tie, and
    // a packet of S among them.
    let (most, _) = waiting(0.0);
    assert!((7..=10).contains(&most), "{most} packets waited");
}

#[test]
fn an_interval_earns_by_hand() {
    let (_, mut task) = build_task("gap").unwrap();
    task.ledger().open();
    let mut bench = bench();
    for path in &mut bench.paths {
        path.delivery_rate = BitRate::of(packets(100), Span::from_millis(100));
    }
    bench.flow.edge = at(100);
    answer(&mut *task, &bench, 4.0);
    // Packets 0 and 1 on F; 1 is acknowledged first: one packet out of order, then none.
    for _ in 0..2 {
        let event = bench.carry(Decision::Send(F)).unwrap();
        task.observe(&bench.context(), &event);
    }
    for number in [1, 0] {
        let event = bench.ack(F, Some(at(number))).unwrap();
        task.observe(&bench.context(), &event);
    }
    bench.paths[0].acked = Counters { bytes: packets(40), packets: 40 };
    // The peer's window slid with the two packets.
    bench.flow.edge = at(102);
    bench.now = Instant::from_millis(200);
    answer(&mut *task, &bench, 2.0);
    // 40 of 400 packets; half a packet of a window of 100; 8 of 8.
    let expected = 0.1 - 0.5 * 0.005 - 0.1;
    assert!((task.ledger().earned()[0].reward - expected).abs() < 1e-6, "{:?}", task.ledger().earned());
}

#[test]
fn an_interval_is_two_of_the_longest_round_trips() {
    // 2·100 ms; 2·3 ms are less than 10; 2·1500 ms are more than 2 s.
    for (srtt, ms) in [(100, 200), (3, 10), (1500, 2000)] {
        let (_, mut task) = build_task("gap").unwrap();
        let bench = Bench::new(vec![path(0, 2, 20, 0), path(1, srtt, 20, 0)]);
        answer(&mut *task, &bench, 2.0);
        assert_eq!(task.wake(), Some(Instant::from_millis(ms)));
    }
}

#[test]
fn an_interval_that_is_cut_short_earns_and_shows_what_it_came_to() {
    let (_, mut task) = build_task("gap:history=1").unwrap();
    task.ledger().open();
    let mut bench = bench();
    for path in &mut bench.paths {
        path.delivery_rate = BitRate::of(packets(100), Span::from_millis(100));
        path.rttvar = path.srtt / 4;
    }
    bench.paths[1].bytes_in_flight = packets(5);
    assert!(task.question(&bench.context(), &mut [0.0; 24]));
    // Eight more for S, and no change of F's own: the mean is of S alone.
    task.answer(&bench.context(), &[4.0; 4]);
    bench.paths[0].acked = Counters { bytes: packets(20), packets: 20 };
    bench.now = Instant::from_millis(100);
    let mut observation = [9.0; 24];
    task.finish(&bench.context(), &mut observation);
    // 20 of 200 packets; 8 of 8.
    assert!((task.ledger().earned()[0].reward - (0.1 - 0.1)).abs() < 1e-6, "{:?}", task.ledger().earned());
    // 1.4 MB/s for 250 ms are 350 kB. F: 20 ms, 5 ms, 28 kB, 0, 0, no gap; S: 100 ms, 25 ms, 28 kB, 7 kB, 0, 48
    // packets.
    let expected = [0.08, 0.02, 0.08, 0.0, 0.0, 0.0, 0.4, 0.1, 0.08, 0.02, 0.0, 0.192];
    assert!(observation.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6), "{observation:?}");
    assert_eq!(observation[12..], [0.0; 12]);
}

#[test]
fn old_data_go_where_min_rtt_sends_them() {
    let (_, mut task) = build_task("gap").unwrap();
    let mut bench = bench();
    bench.masks = false;
    answer(&mut *task, &bench, 2.0);
    bench.paths[0].bytes_in_flight = bench.paths[0].cwnd;
    bench.refresh();
    assert_eq!(task.select(&bench.context()), Decision::Ahead(S, at(40)));
    let fresh = bench.packet.unwrap();
    for (reinjection, carried) in [(true, weftway_path::PathSet::EMPTY), (false, weftway_path::PathSet::of(F))] {
        bench.packet = Some(weftway_path::Packet { reinjection, carried, ..fresh });
        assert_eq!(task.select(&bench.context()), Decision::Send(S));
    }
}
