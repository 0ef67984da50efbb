use super::returns::WINDOW;
use super::*;
use crate::learned::pair::meters::Meters;
use crate::learned::pair::records::{Choice, Fate};
use weftway_path::{Context, PathId, Span};
use weftway_vectors::testing::{Bench, MSS, path};

fn policy(given: &[(&str, &str)]) -> Peekaboo<6> {
    let given: Vec<_> = given.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Peekaboo::new(&Params::new(ENTRY.name, ENTRY.params, &given).unwrap(), features).unwrap()
}

const SHORT: [(&str, &str); 4] = [("record", "3"), ("record_again", "2"), ("learn", "4"), ("gamma", "0")];

/// A pair whose F has one srtt of 20 ms, and S one of 60 ms.
struct Place {
    bench: Bench,
    meters: Meters,
}

impl Place {
    fn new() -> Self {
        Self { bench: Bench::new(vec![path(0, 20, 10, 10), path(1, 60, 10, 0)]), meters: Meters::default() }
    }

    fn context(&self) -> Context<'_> {
        self.bench.context()
    }

    fn question<'a>(&'a self, cx: &'a Context<'a>) -> Question<'a> {
        let paths = &self.bench.paths;
        Question { cx, fast: &paths[0], slow: &paths[1], meters: &self.meters }
    }

    /// Decides, and lets the outcome be known `after_ms(action)` later.
    fn round(&self, policy: &mut Peekaboo<6>, after_ms: impl Fn(Action) -> u64) -> Action {
        let cx = self.context();
        let question = self.question(&cx);
        let (action, observation) = policy.decide(&question);
        policy.learn(&question, &self.outcome((action, observation), after_ms(action)));
        action
    }

    fn outcome(&self, decided: (Action, [f64; 6]), after_ms: u64) -> Outcome<[f64; 6]> {
        let choice = Choice::new(Instant::ZERO, &self.bench.paths[0], &self.bench.paths[1], decided);
        Outcome { choice, serial: Some(0), bytes: MSS, fate: Fate::Acked, after: Span::from_millis(after_ms) }
    }
}

#[test]
fn the_phases_follow_one_another() {
    let (place, mut policy) = (Place::new(), policy(&SHORT));
    let actions: Vec<_> = (0..6).map(|_| place.round(&mut policy, |_| 30)).collect();
    assert_eq!(actions, [[Action::Fast; 3], [Action::Slow; 3]].concat());
    assert_eq!(policy.phase, Phase::Learn);
    (0..4).for_each(|_| {
        place.round(&mut policy, |_| 30);
    });
    assert_eq!(policy.phase, Phase::Deploy);
}

#[test]
fn learning_finds_the_faster_arm_and_deploying_keeps_its_chances() {
    for (waiting, sending, share) in [(25, 100, 0.3), (100, 25, 0.9)] {
        let mut policy = policy(&[("record", "50"), ("learn", "100"), ("gamma", "0")]);
        let place = Place::new();
        let time = |action| if action == Action::Fast { waiting } else { sending };
        (0..200).for_each(|_| {
            place.round(&mut policy, time);
        });
        assert_eq!(policy.phase, Phase::Deploy);
        let sent = (0..100_000).filter(|_| place.round(&mut policy, time) == Action::Slow).count();
        // A standard deviation of at most 0.0014.
        assert!((sent as f64 / 1e5 - share).abs() < 0.01, "{sent} of 100000");
        assert_eq!(policy.rounds, 0);
    }
}

#[test]
fn a_tie_sends() {
    let (place, mut policy) = (Place::new(), policy(&[("record", "0")]));
    // A = I for both arms: equal bounds.
    assert_eq!(policy.decide(&place.question(&place.context())).0, Action::Slow);
}

#[test]
fn an_arm_that_changes_for_four_windows_begins_a_shorter_round() {
    let (place, mut policy) = (Place::new(), policy(&SHORT));
    (0..10).for_each(|_| {
        place.round(&mut policy, |_| 30);
    });
    assert_eq!(policy.phase, Phase::Deploy);
    let x = features(&place.question(&place.context()));
    let mut learn = |after_ms: u64, times: u32| {
        let outcome = place.outcome((Action::Slow, x), after_ms);
        (0..times).for_each(|_| policy.learn(&place.question(&place.context()), &outcome));
        (policy.phase, policy.rounds)
    };
    // Returns were all alike, so that any change is further off than three deviations; four
    // windows of 50 decide.
    assert_eq!(learn(60, 199), (Phase::Deploy, 0));
    assert_eq!(learn(60, 1), (Phase::Record, 1));
    assert_eq!(policy.quota(), 2);
}

#[test]
fn a_usual_window_begins_the_count_again() {
    let usual = Spread { count: 10, mean: 1.0, deviation: 0.1 };
    let mut monitor = Monitor::default();
    for (value, windows) in [(0.5, 3), (1.29, 1), (0.5, 3)] {
        for _ in 0..windows * WINDOW {
            // 0.5 is off by 5 deviations, 1.29 by 2.9.
            assert!(!monitor.note(value, usual));
        }
    }
    let changed = (0..WINDOW).filter(|_| monitor.note(0.5, usual)).count();
    assert_eq!(changed, 1);
}

#[test]
fn a_return_by_hand() {
    let params = Params::new(ENTRY.name, ENTRY.params, &[]).unwrap();
    let mut rewards = Rewards::new(&params).unwrap();
    let at = Instant::from_millis;
    let receipt = |serial| Receipt { path: PathId::new(0), offset: Default::default(), bytes: MSS, serial };
    for serial in 1..=3 {
        *rewards.place(serial).unwrap() = (serial, at(0), 0.0);
    }
    // Packet 1 takes 20 ms, packet 3 takes 80 ms, packet 2 is lost; the decision's own, 0, took 40.
    rewards.acked(&receipt(1), at(20));
    rewards.acked(&receipt(3), at(80));
    rewards.unit = Some(1400.0 / 0.020);
    let outcome = Place::new().outcome((Action::Slow, [0.0; 6]), 40);
    // In units of 70 000 B/s: 1/2 + 0.9·1 + 0.81·0 + 0.729·1/4.
    let expected = 0.5 + 0.9 + 0.729 / 4.0;
    assert!((rewards.of(&outcome) - expected).abs() < 1e-9);
    // Still in flight at T_ref = 60 ms, or lost, or never sent.
    let late = Outcome { fate: Fate::Late, after: Span::from_millis(60), serial: Some(900), ..outcome };
    assert!((rewards.of(&late) - 1.0 / 3.0).abs() < 1e-9);
    assert_eq!(rewards.of(&Outcome { fate: Fate::Lost, ..late }), 0.0);
    rewards.late_counts = false;
    assert_eq!(rewards.of(&late), 0.0);
}

#[test]
fn a_missing_round_trip_time_leaves_nothing_to_see() {
    let mut place = Place::new();
    assert!(
        features(&place.question(&place.context()))
            .iter()
            .all(|feature| *feature > 0.0 || place.bench.paths[1].unacked() == Bytes::ZERO)
    );
    place.bench.paths[1].latest_rtt = Span::ZERO;
    assert_eq!(features(&place.question(&place.context())), [0.0; 6]);
}

#[test]
fn what_was_sent_and_acknowledged_counts_if_there_is_a_discount() {
    let receipt = Receipt { path: PathId::new(0), offset: Default::default(), bytes: MSS, serial: 7 };
    let mut policy = policy(&[("gamma", "0.5")]);
    assert!(policy.keeps_until_deadline() && !self::policy(&[("gamma", "0")]).keeps_until_deadline());
    policy.sent(&receipt, Instant::from_millis(10));
    policy.acked(&receipt, Instant::from_millis(30));
    // 1400 bytes in 20 ms.
    assert_eq!(policy.rewards.place(7), Some(&mut (7, Instant::from_millis(10), 70e3)));
}

#[test]
fn uncertainty_counts_while_learning_alone_and_a_tie_is_s_s_in_deployment_too() {
    let mut policy = policy(&[("alpha", "0.5"), ("p_wait", "1"), ("p_send", "1")]);
    // Nothing is known: √(x·x) = 2, times 0.5.
    let x = [1.0, 1.0, 1.0, 1.0, 0.0, 0.0];
    for (phase, value) in [(Phase::Record, 0.0), (Phase::Learn, 1.0), (Phase::Deploy, 0.0)] {
        policy.phase = phase;
        assert_eq!(policy.values(&x), [value; 2], "{phase:?}");
    }
    assert!(policy.sends(&x));
}
