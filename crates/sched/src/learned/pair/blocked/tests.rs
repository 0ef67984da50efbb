use super::*;
use weftway_path::{BlockedReason, Span};
use weftway_vectors::testing::{Bench, MSS, packets, path};

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
    type Observation = usize;

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

/// A packet's number, sent on `path` under `serial`.
fn receipt(path: PathId, number: u64, serial: u64) -> Receipt {
    Receipt { path, offset: Offset::ZERO + packets(number), bytes: MSS, serial }
}

fn hear(blocked: &mut Blocked<Script>, bench: &Bench, events: &[Event]) {
    events.iter().for_each(|event| blocked.observe(&bench.context(), event));
}

fn learned(blocked: &Blocked<Script>) -> Vec<usize> {
    blocked.policy.learned.iter().map(|learned| learned.0).collect()
}

#[test]
fn every_answer_that_a_subflow_still_paces_is_kept() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Slow]);
    let first = bench.packet.unwrap();
    for n in 0..3 {
        bench.packet = Some(Packet { offset: first.offset + packets(n), ..first });
        assert_eq!(blocked.select(&bench.context()), Decision::Send(S));
    }
    // Packets 2, 3 and 4 of the connection.
    for n in 2..5 {
        hear(&mut blocked, &bench, &[Event::Sent(receipt(S, n, n), SendKind::Fresh), Event::Acked(receipt(S, n, n))]);
    }
    assert_eq!(learned(&blocked), [1, 2, 3]);
}

#[test]
fn an_answer_is_paid_by_its_own_packet_on_its_own_path() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Slow]);
    // Packet 2 for S; then 0, which F lost, goes on S, and 2 itself on F.
    assert_eq!(blocked.select(&bench.context()), Decision::Send(S));
    hear(
        &mut blocked,
        &bench,
        &[
            Event::Sent(receipt(S, 0, 2), SendKind::Reinjection),
            Event::Acked(receipt(S, 0, 2)),
            Event::Sent(receipt(F, 2, 3), SendKind::Reinjection),
            Event::Acked(receipt(F, 2, 3)),
        ],
    );
    assert_eq!(learned(&blocked), Vec::<usize>::new());
    // The same once another answer has come after it.
    bench.packet.as_mut().unwrap().offset += packets(1);
    assert_eq!(blocked.select(&bench.context()), Decision::Send(S));
    hear(
        &mut blocked,
        &bench,
        &[
            Event::Sent(receipt(S, 0, 4), SendKind::Reinjection),
            Event::Acked(receipt(S, 0, 4)),
            Event::Sent(receipt(S, 2, 5), SendKind::Fresh),
            Event::Acked(receipt(S, 2, 5)),
        ],
    );
    assert_eq!(learned(&blocked), [1]);
}

#[test]
fn an_answer_for_s_that_f_s_room_overtook_earns_nothing() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Slow]);
    assert_eq!(blocked.select(&bench.context()), Decision::Send(S));
    ack(&mut blocked, &mut bench, F, 10);
    step(&mut blocked, &mut bench, Decision::Send(F));
    // F loses packet 2, and S repeats it.
    hear(&mut blocked, &bench, &[Event::Sent(receipt(S, 2, 9), SendKind::Reinjection), Event::Acked(receipt(S, 2, 9))]);
    assert_eq!((blocked.policy.asked, learned(&blocked)), (1, vec![]));
}

/// F is full, 1 and 2 are open; the policy answers as told.
fn of_three(actions: &[Action]) -> (Blocked<Script>, Bench) {
    let (blocked, mut bench) = scripted(true, actions);
    bench.add(path(2, 90, 10, 0));
    (blocked, bench)
}

#[test]
fn an_answer_for_one_s_is_none_for_another() {
    let (mut blocked, mut bench) = of_three(&[Action::Slow, Action::Fast]);
    assert_eq!(blocked.select(&bench.context()), Decision::Send(S));
    // Path 1 fills up before the packet goes: 2 is S now, and the policy is asked about it, once.
    bench.paths[1].bytes_in_flight = packets(10);
    bench.refresh();
    for _ in 0..3 {
        assert_eq!(blocked.select(&bench.context()), Decision::Wait);
    }
    assert_eq!(blocked.policy.asked, 2);
}

#[test]
fn decisions_about_a_path_that_comes_or_goes_are_forgotten_and_others_stay() {
    // Packet 2 is answered with S and queued, then 3 for S. What comes up is F, S, or a third.
    for (up, known) in [(F, vec![]), (S, vec![]), (PathId::new(2), vec![1, 2])] {
        let (mut blocked, mut bench) = of_three(&[Action::Slow]);
        for _ in 0..2 {
            assert_eq!(blocked.select(&bench.context()), Decision::Send(S));
            bench.packet.as_mut().unwrap().offset += packets(1);
        }
        hear(&mut blocked, &bench, &[Event::PathUp(up)]);
        for n in [2, 3] {
            hear(
                &mut blocked,
                &bench,
                &[Event::Sent(receipt(S, n, n), SendKind::Fresh), Event::Acked(receipt(S, n, n))],
            );
        }
        assert_eq!(learned(&blocked), known, "{up:?}");
    }
    // A wait that is over, and that F's next packet would pay.
    for (up, known) in [(F, vec![]), (S, vec![]), (PathId::new(2), vec![1])] {
        let (mut blocked, mut bench) = of_three(&[Action::Fast]);
        step(&mut blocked, &mut bench, Decision::Wait);
        ack(&mut blocked, &mut bench, F, 10);
        hear(&mut blocked, &bench, &[Event::PathUp(up)]);
        step(&mut blocked, &mut bench, Decision::Send(F));
        ack(&mut blocked, &mut bench, F, 20);
        ack(&mut blocked, &mut bench, F, 30);
        assert_eq!(learned(&blocked), known, "{up:?}");
    }
}

#[test]
fn a_wait_closes_at_t_ref_and_not_after_it() {
    let (mut blocked, mut bench) = scripted(true, &[Action::Fast]);
    step(&mut blocked, &mut bench, Decision::Wait);
    for (ms, known) in [(59, vec![]), (60, vec![1])] {
        bench.now = Instant::from_millis(ms);
        hear(&mut blocked, &bench, &[Event::Wake]);
        assert_eq!(learned(&blocked), known, "at {ms} ms");
    }
}

#[test]
fn it_says_beforehand_whether_the_policy_will_be_asked() {
    let next = |asks_when_paced: bool, change: &dyn Fn(&mut Bench)| {
        let (mut blocked, mut bench) = scripted(true, &[Action::Slow]);
        blocked.rules.asks_when_paced = asks_when_paced;
        change(&mut bench);
        let says = blocked.asks(&bench.context()).is_some();
        let _ = blocked.select(&bench.context());
        assert_eq!(says, blocked.policy.asked == 1);
        // It is answered now.
        assert!(blocked.asks(&bench.context()).is_none());
        says
    };
    let paced = |bench: &mut Bench| bench.paths[0].blocked = BlockedReason::Pacing;
    let again = |carried: weftway_path::PathSet, reinjection: bool| {
        move |bench: &mut Bench| {
            let packet = bench.packet.as_mut().unwrap();
            (packet.carried, packet.reinjection) = (carried, reinjection);
        }
    };
    let nobody = weftway_path::PathSet::EMPTY;
    assert!(next(true, &|_| {}) && next(false, &|_| {}));
    assert!(next(true, &paced) && !next(false, &paced));
    assert!(!next(true, &again(nobody, true)) && !next(true, &again(nobody.with(F), false)));
    assert!(!next(true, &|bench| bench.paths[0].blocked = BlockedReason::None));
}
