use super::*;
use crate::learned::build_task;
use crate::shared::rng::PolicyRng;
use weftway_path::{BitRate, Counters, Instant};
use weftway_vectors::testing::{Bench, packets, path};

fn wide(paths: u8) -> Bench {
    Bench::new((0..paths).map(|n| path(n, 20 + u64::from(n), 1_000_000, 0)).collect())
}

fn answered(bench: &Bench, shares: &[f32]) -> Box<dyn Task> {
    let (_, mut task) = build_task("shares").unwrap();
    assert!(task.question(&bench.context(), &mut [0.0; 160]));
    task.answer(&bench.context(), shares);
    task
}

/// Sends `count` packets, and how far each path was from its share, in packets, at worst.
fn worst(bench: &mut Bench, task: &mut dyn Task, wanted: &[f64], count: u32) -> f64 {
    let (mut sent, mut worst) = (vec![0.0; wanted.len()], 0.0_f64);
    for total in 1..=count {
        let decision = task.select(&bench.context());
        assert_eq!(task.select(&bench.context()), decision);
        let event = bench.carry(decision).unwrap();
        task.observe(&bench.context(), &event);
        let Event::Sent(receipt, _) = event else { unreachable!() };
        sent[receipt.path.index()] += 1.0;
        let off = sent.iter().zip(wanted).map(|(sent, share)| (sent - share * f64::from(total)).abs());
        worst = off.fold(worst, f64::max);
    }
    worst
}

#[test]
fn bytes_follow_the_shares_within_a_packet() {
    let mut rng = PolicyRng::new(7);
    for round in 0..60 {
        let n = 2 + round % 3;
        let weights: Vec<f64> = (0..n).map(|_| rng.unit()).collect();
        let sum: f64 = weights.iter().sum();
        let wanted: Vec<f64> = weights.iter().map(|weight| weight / sum).collect();
        let mut bench = wide(n);
        let shares: Vec<f32> = wanted.iter().map(|share| *share as f32).collect();
        let mut task = answered(&bench, &shares);
        // f32 shares of 3000 packets are off by less than a thousandth of a packet.
        let worst = worst(&mut bench, &mut *task, &wanted, 3000);
        assert!(worst <= 1.001, "{n} paths: {worst} packets off {wanted:?}");
    }
}

#[test]
fn shares_of_absent_slots_go_to_the_others_in_proportion() {
    // 0.5 of slot 3 is nobody's: 0.1, 0.1, 0.3 become 0.2, 0.2, 0.6.
    let mut bench = wide(3);
    let mut task = answered(&bench, &[0.1, 0.1, 0.3, 0.5]);
    assert!(worst(&mut bench, &mut *task, &[0.2, 0.2, 0.6], 1000) <= 1.001);
    // The third path leaves between two answers.
    let down = bench.remove(PathId::new(2)).unwrap();
    task.observe(&bench.context(), &down);
    while bench.packet.is_some_and(|packet| packet.reinjection) {
        let event = bench.carry(Decision::Send(PathId::new(0))).unwrap();
        task.observe(&bench.context(), &event);
    }
    // Up to a packet from before, and one of its own.
    assert!(worst(&mut bench, &mut *task, &[0.5, 0.5], 1000) <= 2.001);
}

#[test]
fn a_share_is_its_paths_though_another_has_its_slot_by_now() {
    // Number 5 has no slot of its own, so that slots go by order: 0.2 is 0's, 0.6 is 1's, 0.2 is 5's.
    let mut bench = Bench::new([0, 1, 5].map(|n| path(n, 20 + u64::from(n), 1_000_000, 0)).to_vec());
    let mut task = answered(&bench, &[0.2, 0.6, 0.2, 0.0]);
    // 0 leaves, and the others move up: 0.75 of what is left is still 1's.
    let down = bench.remove(PathId::new(0)).unwrap();
    task.observe(&bench.context(), &down);
    assert!(worst(&mut bench, &mut *task, &[0.0, 0.75, 0.0, 0.0, 0.0, 0.25], 1000) <= 1.001);
    // One that comes takes the share of its slot if that was nobody's: here the last, of nothing.
    let up = bench.add(path(3, 30, 1_000_000, 0)).unwrap();
    task.observe(&bench.context(), &up);
    assert!(worst(&mut bench, &mut *task, &[0.0, 0.75, 0.0, 0.0, 0.0, 0.25], 1000) <= 2.001);
}

#[test]
fn a_path_that_comes_takes_the_share_of_its_slot() {
    let mut bench = wide(1);
    let mut task = answered(&bench, &[0.25, 0.75, 0.0, 0.0]);
    let up = bench.add(path(1, 30, 1_000_000, 0)).unwrap();
    task.observe(&bench.context(), &up);
    assert!(worst(&mut bench, &mut *task, &[0.25, 0.75], 1000) <= 1.001);
}

#[test]
fn a_full_path_leaves_the_packet_to_the_next_and_is_not_repaid_more_than_a_packet() {
    let mut bench = Bench::new(vec![path(0, 20, 1, 1), path(1, 40, 1000, 0)]);
    let mut task = answered(&bench, &[0.9, 0.1, 0.0, 0.0]);
    for _ in 0..20 {
        assert_eq!(task.select(&bench.context()), Decision::Send(PathId::new(1)));
        let event = bench.carry(Decision::Send(PathId::new(1))).unwrap();
        task.observe(&bench.context(), &event);
    }
    (bench.paths[0].cwnd, bench.paths[0].bytes_in_flight) = (packets(1000), Default::default());
    bench.now = Instant::from_millis(60);
    bench.refresh();
    assert!(task.question(&bench.context(), &mut [0.0; 160]));
    task.answer(&bench.context(), &[0.5, 0.5, 0.0, 0.0]);
    // 18 packets of credit have become one: path 0 is two packets ahead of the half at most.
    assert!(worst(&mut bench, &mut *task, &[0.5, 0.5], 100) <= 2.0);
}

#[test]
fn an_interval_is_three_round_trips_and_earns_by_hand() {
    let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 50, 10, 5)]);
    for path in &mut bench.paths {
        path.delivery_rate = BitRate::of(packets(100), Span::from_millis(100));
    }
    let mut task = answered(&bench, &[0.5, 0.5, 0.0, 0.0]);
    task.ledger().open();
    assert_eq!(task.wake(), Some(Instant::from_millis(60)));
    bench.now = Instant::from_millis(60);
    bench.paths[0].acked = Counters { bytes: packets(42), packets: 42 };
    (bench.paths[0].rtt_sum, bench.paths[0].rtt_samples) = (Span::from_millis(20 + 120), 5);
    bench.paths[1].acked = Counters { bytes: packets(6), packets: 6 };
    bench.paths[1].lost = Counters { bytes: packets(2), packets: 2 };
    let mut observation = [0.0; 160];
    assert!(task.question(&bench.context(), &mut observation));
    // 48 of the 120 packets that the peaks allow in 60 ms; means of 30 and 50 ms, weighted 7 to 1;
    // 2 of 50 lost.
    let expected = 0.4 - 0.5 * (0.03 * 7.0 + 0.05) / 8.0 / 0.25 - 0.04 / 0.1;
    assert!((task.ledger().earned()[0].reward - expected as f32).abs() < 1e-4);
    // The newest row: scale 1.4 MB/s, 350 kB in 250 ms.
    let row = [0.7, 0.04, 0.12, 0.0, 0.0, 0.1, 0.04, 0.2, 0.02, 2.5];
    assert!(observation[140..150].iter().zip(row).all(|(a, b)| (a - b).abs() < 1e-4), "{:?}", &observation[140..]);
    assert_eq!(observation[150..], [0.0; 10]);
}

/// Which paths carry the next packets.
fn order(bench: &mut Bench, task: &mut dyn Task, count: usize) -> Vec<u8> {
    let mut next = || {
        let Some(event @ Event::Sent(sent, _)) = bench.carry(task.select(&bench.context())) else { panic!("waits") };
        task.observe(&bench.context(), &event);
        sent.path.get()
    };
    (0..count).map(|_| next()).collect()
}

#[test]
fn credits_by_hand() {
    // Three quarters and one. With what the packet would bring, in packets: 0.75 and 0.25, so 0, which leaves −0.25
    // and 0.25; 0.5 and 0.5, the first of equals; 0.25 and 0.75; 1 and 0. Then both are at 0 again.
    let mut bench = wide(2);
    let mut task = answered(&bench, &[0.75, 0.25, 0.0, 0.0]);
    assert_eq!(order(&mut bench, &mut *task, 8), [0, 0, 1, 0, 0, 0, 1, 0]);
    // All of a share that is nobody's: equal ones.
    let mut bench = wide(2);
    let mut task = answered(&bench, &[0.0, 0.0, 1.0, 0.0]);
    assert_eq!(order(&mut bench, &mut *task, 4), [0, 1, 0, 1]);
}

#[test]
fn without_shares_and_for_old_data_it_is_min_rtt() {
    let [first, second] = [0, 1].map(|n| Decision::Send(PathId::new(n)));
    let mut bench = Bench::new(vec![path(0, 40, 10, 0), path(1, 20, 10, 0)]);
    bench.masks = false;
    // Nobody has answered.
    assert_eq!(build_task("shares").unwrap().1.select(&bench.context()), second);
    let mut task = answered(&bench, &[1.0, 0.0, 0.0, 0.0]);
    assert_eq!(task.select(&bench.context()), first);
    // Handed back, though nobody carries it now; carried, though not handed back.
    let fresh = bench.packet.unwrap();
    for (reinjection, carried) in
        [(true, weftway_path::PathSet::EMPTY), (false, weftway_path::PathSet::of(PathId::new(0)))]
    {
        bench.packet = Some(weftway_path::Packet { reinjection, carried, ..fresh });
        assert_eq!(task.select(&bench.context()), second);
    }
    // There is one slot, for 1. It may have failed: 0 has none, and sends all the same.
    bench.packet = Some(fresh);
    let (_, mut task) = build_task("shares:slots=1:history=1").unwrap();
    assert!(task.question(&bench.context(), &mut [0.0; 5]));
    task.answer(&bench.context(), &[1.0]);
    assert_eq!(task.select(&bench.context()), second);
    bench.paths[1].health = weftway_path::Health::Suspect;
    assert_eq!(task.select(&bench.context()), first);
}

#[test]
fn an_interval_in_which_nothing_arrives_weighs_the_paths_alike() {
    let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 50, 10, 5)]);
    let mut task = answered(&bench, &[0.5, 0.5, 0.0, 0.0]);
    task.ledger().open();
    bench.now = Instant::from_millis(60);
    let mut observation = [9.0; 160];
    task.finish(&bench.context(), &mut observation);
    // Nothing delivered or lost; a mean of 35 ms of 250, times a half.
    let earned = task.ledger().earned();
    assert!(earned.len() == 1 && (earned[0].reward + 0.07).abs() < 1e-6, "{earned:?}");
    // Two rows so far, of which the newest is at the end.
    assert!(observation[..120].iter().all(|value| *value == 0.0), "{observation:?}");
    assert!((observation[142] - 0.08).abs() < 1e-6 && (observation[147] - 0.2).abs() < 1e-6, "{observation:?}");
}
