use super::*;
use crate::testing::{Bench, MSS, packets, path};
use weftway_path::Span;

const F: PathId = PathId::new(0);
const S: PathId = PathId::new(1);

/// Does what it is told, in a circle, and keeps what it learns.
#[derive(Clone)]
struct Script {
    actions: Vec<Action>,
    asked: usize,
    learned: Vec<(usize, Fate, Span)>,
}

impl Policy for Script {
    type Seen = usize;

    fn decide(&mut self, _: &Question<'_>) -> (Action, usize) {
        self.asked += 1;
        (self.actions[(self.asked - 1) % self.actions.len()], self.asked)
    }

    fn learn(&mut self, _: &Question<'_>, outcome: &Outcome<usize>) {
        self.learned.push((outcome.choice.observation, outcome.fate, outcome.after));
    }

    fn explain(&self, _: &Question<'_>) -> String {
        format!("asked {}", self.asked)
    }
}

fn scripted(sticky: bool, actions: &[Action]) -> (Blocked<Script>, Bench) {
    let rules = Rules { sticky, asks_when_paced: true, asks_when_free: false };
    let policy = Script { actions: actions.to_vec(), asked: 0, learned: Vec::new() };
    // F is full; srtt 20 and 60 ms: T_ref is 60 ms.
    let mut bench = Bench::new(vec![path(0, 20, 2, 0), path(1, 60, 10, 0)]);
    let mut blocked = Blocked::new(rules, policy);
    step(&mut blocked, &mut bench, Decision::Send(F));
    step(&mut blocked, &mut bench, Decision::Send(F));
    (blocked, bench)
}

/// Asks three times, expects `answer` and carries it out.
fn step(blocked: &mut Blocked<Script>, bench: &mut Bench, answer: Decision) {
    for _ in 0..3 {
        assert_eq!(blocked.select(&bench.context()), answer);
    }
    if let Some(event) = bench.carry(answer) {
        blocked.observe(&bench.context(), &event);
    }
}

fn ack(blocked: &mut Blocked<Script>, bench: &mut Bench, path: PathId, at_ms: u64) {
    bench.now = Instant::from_millis(at_ms);
    let event = bench.ack(path, None).unwrap();
    blocked.observe(&bench.context(), &event);
}

#[test]
fn a_wait_holds_until_f_has_room_and_is_paid_by_the_next_packet_there() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Slow, Action::Fast]);
    step(&mut blocked, &mut bench, Decision::Send(S));
    bench.now = Instant::from_millis(5);
    step(&mut blocked, &mut bench, Decision::Wait);
    ack(&mut blocked, &mut bench, S, 30);
    step(&mut blocked, &mut bench, Decision::Wait);
    assert_eq!(blocked.policy.asked, 2);
    assert_eq!(blocked.policy.learned, [(1, Fate::Acked, Span::from_millis(30))]);
    // F's first packet comes back at 40 ms; the third goes out then, and comes back at 62 ms,
    // after the fourth's question. The clock of the wait started at 5 ms.
    ack(&mut blocked, &mut bench, F, 40);
    step(&mut blocked, &mut bench, Decision::Send(F));
    step(&mut blocked, &mut bench, Decision::Send(S));
    ack(&mut blocked, &mut bench, F, 50);
    ack(&mut blocked, &mut bench, F, 62);
    assert_eq!(blocked.policy.learned[1..], [(2, Fate::Acked, Span::from_millis(57))]);
}

#[test]
fn a_wait_that_is_not_sticky_is_drawn_anew_after_an_event_and_stays_one_decision() {
    let (mut blocked, mut bench) = scripted(false, &[Action::Slow, Action::Fast, Action::Fast, Action::Slow]);
    step(&mut blocked, &mut bench, Decision::Send(S));
    step(&mut blocked, &mut bench, Decision::Wait);
    ack(&mut blocked, &mut bench, S, 10);
    step(&mut blocked, &mut bench, Decision::Wait);
    assert_eq!(blocked.policy.asked, 3);
    blocked.observe(&bench.context(), &Event::Wake);
    step(&mut blocked, &mut bench, Decision::Send(S));
    // The wait of the second decision is still to be paid, by F's next packet.
    ack(&mut blocked, &mut bench, F, 20);
    step(&mut blocked, &mut bench, Decision::Send(F));
    ack(&mut blocked, &mut bench, F, 30);
    ack(&mut blocked, &mut bench, F, 40);
    let of_second: Vec<_> = blocked.policy.learned.iter().filter(|learned| learned.0 == 2).collect();
    assert_eq!(of_second, [&(2, Fate::Acked, Span::from_millis(40))]);
}

#[test]
fn losses_and_silence_close_records() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Slow]);
    step(&mut blocked, &mut bench, Decision::Send(S));
    step(&mut blocked, &mut bench, Decision::Send(S));
    bench.now = Instant::from_millis(9);
    let lost = bench.lose(S, None).unwrap();
    blocked.observe(&bench.context(), &lost);
    assert_eq!(blocked.policy.learned, [(1, Fate::Lost, Span::from_millis(9))]);
    bench.now = Instant::from_millis(75);
    blocked.observe(&bench.context(), &Event::Wake);
    assert_eq!(blocked.policy.learned[1..], [(2, Fate::Late, Span::from_millis(60))]);
}

#[test]
fn a_wait_in_vain_closes_at_t_ref() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Fast]);
    step(&mut blocked, &mut bench, Decision::Wait);
    // F has room, but the application has nothing more.
    ack(&mut blocked, &mut bench, F, 20);
    bench.now = Instant::from_millis(60);
    blocked.observe(&bench.context(), &Event::Wake);
    assert_eq!(blocked.policy.learned, [(1, Fate::Unsent, Span::from_millis(60))]);
}

#[test]
fn a_wait_longer_than_t_ref_closes_once_and_goes_on() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Fast, Action::Slow]);
    step(&mut blocked, &mut bench, Decision::Wait);
    for ms in [59, 60, 70] {
        bench.now = Instant::from_millis(ms);
        blocked.observe(&bench.context(), &Event::Wake);
        step(&mut blocked, &mut bench, Decision::Wait);
    }
    ack(&mut blocked, &mut bench, F, 80);
    step(&mut blocked, &mut bench, Decision::Send(F));
    step(&mut blocked, &mut bench, Decision::Send(S));
    ack(&mut blocked, &mut bench, F, 90);
    ack(&mut blocked, &mut bench, F, 100);
    assert_eq!(blocked.policy.learned, [(1, Fate::Unsent, Span::from_millis(60))]);
}

#[test]
fn packets_that_a_subflow_paces_find_their_decisions_late() {
    let (mut blocked, bench) = scripted(true, &[Action::Slow]);
    let mut cx_packet = bench.packet.unwrap();
    let mut bench = bench;
    // Two answers, and only then the news that both were sent.
    let mut sent = Vec::new();
    for serial in [2, 3] {
        bench.packet = Some(cx_packet);
        assert_eq!(blocked.select(&bench.context()), Decision::Send(S));
        sent.push(Receipt { path: S, offset: cx_packet.offset, bytes: MSS, serial });
        cx_packet.offset += packets(1);
    }
    assert_eq!(blocked.policy.asked, 2);
    for receipt in &sent {
        blocked.observe(&bench.context(), &Event::Sent(*receipt, SendKind::Fresh));
    }
    bench.now = Instant::from_millis(50);
    blocked.observe(&bench.context(), &Event::Acked(sent[1]));
    blocked.observe(&bench.context(), &Event::Acked(sent[0]));
    assert_eq!(blocked.policy.learned.iter().map(|learned| learned.0).collect::<Vec<_>>(), [2, 1]);
}

#[test]
fn data_sent_before_ask_nobody() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Fast]);
    bench.reinject(0, weftway_path::PathSet::of(F));
    step(&mut blocked, &mut bench, Decision::Send(S));
    assert_eq!(blocked.policy.asked, 0);
}

#[test]
fn a_paced_f_counts_as_blocked_unless_told_otherwise() {
    for (asks, answer) in [(true, Decision::Wait), (false, Decision::Send(S))] {
        let (mut blocked, mut bench) = scripted(true, &[Action::Fast]);
        blocked.rules.asks_when_paced = asks;
        bench.paths[0].blocked = BlockedReason::Pacing;
        step(&mut blocked, &mut bench, answer);
    }
}
