use super::*;
use crate::learned::build_task;
use weftway_path::Instant;
use weftway_vectors::testing::{Bench, packets, path};

const LEN: usize = 4 * 6 * 12 + 2 * 12 + 4;

/// Paths of 20 ms with windows of 10, 20, … packets.
fn bench(paths: u8) -> Bench {
    Bench::new((0..paths).map(|n| path(n, 20, 10 * (u64::from(n) + 1), 0)).collect())
}

/// A message of so many bytes is at hand, at offset `start`.
fn at_hand(bench: &mut Bench, start: u64, bytes: u64) {
    (bench.flow.next, bench.flow.message_start) = (Offset::new(start), Offset::new(start));
    bench.flow.message_end = Offset::new(start + bytes);
    bench.flow.unsent = Bytes::new(64_000);
    bench.refresh();
}

/// Place of feature `c` of slot `n` at step `t`.
fn x(n: usize, c: usize, t: usize) -> usize {
    (n * 6 + c) * 12 + t
}

#[test]
fn what_is_seen_stands_where_the_contract_says() {
    let (_, mut task) = build_task("graph").unwrap();
    let mut bench = bench(2);
    let mut observation = vec![9.0; LEN];
    at_hand(&mut bench, 0, 5_000);
    assert_eq!(task.shape().inputs.len(), LEN);
    assert!(task.question(&bench.context(), &mut observation));
    // srtt 20 of 250 ms, at the newest step only; the peak rate is the delivery rate of path 1,
    // 20·1400 B in 20 ms; its window is 28 kB over 1.4 MB/s · 250 ms = 350 kB.
    assert_eq!((observation[x(1, 5, 11)], observation[x(1, 5, 10)]), (0.08, 0.0));
    assert!((observation[x(1, 2, 11)] - 0.08).abs() < 1e-6);
    // The message is 5 of 10 kB, 64 of 128 kB are unsent; two of the slots are empty.
    let c = 4 * 6 * 12;
    assert_eq!((observation[c + 11], observation[c + 10], observation[c + 23]), (0.5, 0.0, 0.5));
    assert_eq!(observation[c + 24..], [1.0, 1.0, 0.0, 0.0]);
    let names: Vec<&str> = [x(1, 2, 11), c + 11, c + 24].map(|at| task.shape().inputs[at].name.as_str()).into();
    assert_eq!(names, ["cwnd.1.11", "message.11", "alive.0"]);
}

#[test]
fn history_moves_by_a_step_an_interval_and_the_message_at_hand_is_the_newest() {
    let (_, mut task) = build_task("graph").unwrap();
    let mut bench = bench(1);
    let mut observation = vec![0.0; LEN];
    at_hand(&mut bench, 0, 1_000);
    assert!(task.question(&bench.context(), &mut observation));
    bench.now = Instant::from_millis(100);
    bench.paths[0].srtt = Span::from_millis(50);
    task.observe(&bench.context(), &Event::Wake);
    at_hand(&mut bench, 1_000, 10_000);
    assert!(task.question(&bench.context(), &mut observation));
    assert_eq!((observation[x(0, 5, 10)], observation[x(0, 5, 11)]), (0.08, 0.2));
    let c = 4 * 6 * 12;
    assert_eq!((observation[c + 10], observation[c + 11]), (0.1, 1.0));
}

#[test]
fn an_answer_holds_for_its_class_until_the_interval_ends() {
    let (_, mut task) = build_task("graph").unwrap();
    let mut bench = bench(3);
    let mut observation = vec![0.0; LEN];
    for (start, bytes, action) in [(0, 1_000, 2.0), (1_000, 5_000, 0.0), (6_000, 10_000, 1.0)] {
        at_hand(&mut bench, start, bytes);
        assert!(task.question(&bench.context(), &mut observation), "{bytes} B");
        task.answer(&bench.context(), &[action]);
        assert!(!task.question(&bench.context(), &mut observation));
    }
    // 2000 B are of the first class, 7000 of the second, anything above of the third.
    for (bytes, path) in [(2_000, 2), (2_001, 0), (7_000, 0), (7_001, 1), (1_000_000, 1)] {
        at_hand(&mut bench, 16_000, bytes);
        assert!(!task.question(&bench.context(), &mut observation));
        assert_eq!(task.select(&bench.context()), Decision::Send(PathId::new(path)), "{bytes} B");
    }
    bench.now = Instant::from_millis(100);
    assert!(task.question(&bench.context(), &mut observation));
}

#[test]
fn an_answer_may_hold_for_its_message_alone() {
    let (_, mut task) = build_task("graph:hold=message").unwrap();
    let mut bench = bench(2);
    let mut observation = vec![0.0; LEN];
    at_hand(&mut bench, 0, 5_000);
    assert!(task.question(&bench.context(), &mut observation));
    task.answer(&bench.context(), &[1.0]);
    bench.flow.next = Offset::new(1_400);
    bench.refresh();
    assert!(!task.question(&bench.context(), &mut observation), "it is the same message");
    at_hand(&mut bench, 5_000, 5_000);
    assert!(task.question(&bench.context(), &mut observation));
}

#[test]
fn a_full_choice_is_waited_for_or_stood_in_for_and_empty_slots_are_closed() {
    for (mode, answer) in [("exclusive", Decision::Wait), ("preferred", Decision::Send(PathId::new(0)))] {
        let (_, mut task) = build_task(&format!("graph:mode={mode}")).unwrap();
        let mut bench = bench(2);
        let mut observation = vec![0.0; LEN];
        at_hand(&mut bench, 0, 5_000);
        assert!(task.question(&bench.context(), &mut observation));
        let mut open = [false; 4];
        task.mask(&bench.context(), &mut open);
        assert_eq!(open, [true, true, false, false]);
        task.answer(&bench.context(), &[1.0]);
        bench.paths[1].bytes_in_flight = bench.paths[1].cwnd;
        bench.refresh();
        assert_eq!(task.select(&bench.context()), answer);
    }
}

#[test]
fn the_decisions_of_an_interval_share_what_it_earns() {
    let (_, mut task) = build_task("graph").unwrap();
    let mut bench = bench(2);
    let mut observation = vec![0.0; LEN];
    task.ledger().open();
    for (start, bytes) in [(0, 1_000), (1_000, 5_000)] {
        at_hand(&mut bench, start, bytes);
        assert!(task.question(&bench.context(), &mut observation));
        task.answer(&bench.context(), &[0.0]);
    }
    bench.paths[1].acked.bytes = packets(40);
    bench.now = Instant::from_millis(100);
    task.observe(&bench.context(), &Event::Wake);
    // ln(561/125) of 40 packets of 1400 B in 100 ms, and ln(1/125); half for each of two decisions.
    let expected = (4.488_f64.ln() + (1.0_f64 / 125.0).ln()) as f32 / 2.0;
    let earned = task.ledger().earned().clone();
    assert_eq!(earned.iter().map(|earned| earned.decision).collect::<Vec<_>>(), [0, 1]);
    assert!(earned.iter().all(|earned| (earned.reward - expected).abs() < 1e-5), "{earned:?}");
}

#[test]
fn an_interval_lasts_100_ms_and_one_that_is_cut_short_earns_and_shows_what_it_came_to() {
    let (_, mut task) = build_task("graph").unwrap();
    task.ledger().open();
    let mut bench = bench(1);
    let mut observation = vec![0.0; LEN];
    at_hand(&mut bench, 0, 1_000);
    assert!(task.question(&bench.context(), &mut observation));
    task.answer(&bench.context(), &[0.0]);
    assert_eq!(task.wake(), Some(Instant::from_millis(100)));
    // 24 900 bytes in 50 ms are 498 kB/s: ln((498 + 1)/125).
    bench.now = Instant::from_millis(50);
    bench.paths[0].acked.bytes = Bytes::new(24_900);
    bench.paths[0].srtt = Span::from_millis(50);
    task.finish(&bench.context(), &mut observation);
    let earned = task.ledger().earned().clone();
    assert!(earned.len() == 1 && (earned[0].reward - (499.0_f32 / 125.0).ln()).abs() < 1e-5, "{earned:?}");
    assert_eq!((observation[x(0, 5, 10)], observation[x(0, 5, 11)]), (0.08, 0.2));
}

#[test]
fn old_data_ask_nobody() {
    let (_, mut task) = build_task("graph").unwrap();
    let mut bench = bench(2);
    at_hand(&mut bench, 0, 5_000);
    let fresh = bench.packet.unwrap();
    let (nobody, first) = (weftway_path::PathSet::EMPTY, weftway_path::PathSet::of(PathId::new(0)));
    for (reinjection, carried, is_asked) in [(true, nobody, false), (false, first, false), (false, nobody, true)] {
        bench.packet = Some(weftway_path::Packet { reinjection, carried, ..fresh });
        assert_eq!(task.question(&bench.context(), &mut vec![0.0; LEN]), is_asked, "{reinjection}, {carried:?}");
    }
}
