use super::*;
use crate::FallbackTally;
use crate::learned::build_task;
use crate::learned::policy_file::tests::{CARD, file};
use weftway_path::{PathId, Starved};
use weftway_vectors::testing::{Bench, packets, path};

const S: Decision = Decision::Send(PathId::new(1));

/// A policy for `task` with so many inputs, whose network says `says` whatever it is shown. Training saw inputs
/// within [0, 4], as all are.
fn policy(task: &'static str, inputs: usize, says: &[f32]) -> PolicyFile {
    let card = CARD.map(|(key, value)| (key, if key == "task" { task } else { value }));
    let (low, high, w) = (vec![0.0; inputs], vec![4.0; inputs], vec![0.0; inputs * says.len()]);
    let tensors: [(&str, &[usize], &[f32]); 4] = [
        ("low", &[inputs], &low),
        ("high", &[inputs], &high),
        ("w1", &[inputs, says.len()], &w),
        ("b1", &[says.len()], says),
    ];
    PolicyFile::parse(&file(&card, &tensors)).unwrap()
}

/// `file` with this scheduler to fall back on.
fn deployed(file: PolicyFile, fallback: &str) -> Deployed {
    let entry = &crate::learned::dqn::ENTRY;
    let params = Params::new(entry.name, entry.params, &[("fallback".to_owned(), fallback.to_owned())]).unwrap();
    let fallback = Fallback::new(&params, &file).unwrap();
    let (_, task) = build_task(file.task()).unwrap();
    Deployed::new(file, task, fallback, PolicyRng::new(1)).unwrap()
}

/// Wait for F with the first of `says`, send on S with the second.
fn waits_or_sends(says: [f32; 2]) -> PolicyFile {
    policy("wait-or-send", 6, &says)
}

/// F is path 0 and full; S is path 1. Min-RTT sends on S.
fn bench() -> Bench {
    Bench::new(vec![path(0, 20, 10, 10), path(1, 50, 10, 0)])
}

fn near(found: &[f32], expected: &[f32]) -> bool {
    found.len() == expected.len() && found.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-6)
}

#[test]
fn the_greedy_choice_is_the_first_of_the_largest_whose_place_is_open() {
    let pick = |mut outputs: [f32; 3], open: [bool; 3]| pick(Head::Greedy, &mut outputs, &open, &mut PolicyRng::new(1));
    assert_eq!(pick([1.0, 3.0, 3.0], [true; 3]), 1);
    assert_eq!(pick([1.0, 2.0, 3.0], [true; 3]), 2);
    assert_eq!(pick([9.0, 1.0, 2.0], [false, true, true]), 2);
}

#[test]
fn the_sampled_choice_has_the_chances_of_the_softmax() {
    let mut rng = PolicyRng::new(3);
    let mut counts = [0; 4];
    for _ in 0..10_000 {
        let mut outputs = [0.2_f32.ln(), 0.5_f32.ln(), 7.0, 0.3_f32.ln()];
        counts[pick(Head::Sample, &mut outputs, &[true, true, false, true], &mut rng)] += 1;
    }
    // The closed one never; of the others the deviation is at most √(10⁴/4) = 50.
    assert_eq!(counts[2], 0);
    let expected = [2000, 5000, 0, 3000];
    assert!(counts.iter().zip(expected).all(|(found, chance): (&i32, i32)| (found - chance).abs() < 250), "{counts:?}");
}

#[test]
fn the_softmax_by_hand_and_of_large_numbers() {
    for (mut values, expected) in [([0.0, 3.0_f32.ln()], [0.25, 0.75]), ([1000.0, 1000.0], [0.5, 0.5])] {
        softmax(&mut values);
        assert!(near(&values, &expected), "{values:?}");
    }
}

#[test]
fn the_lead_is_of_the_largest_over_the_next() {
    assert_eq!([lead(&[1.0, 4.0, 2.5]), lead(&[3.0, 1.0, 3.0]), lead(&[4.0, 2.5, 1.0])], [1.5, 0.0, 1.5]);
    assert_eq!(lead(&[f32::NEG_INFINITY, 2.0]), f32::INFINITY);
}

#[test]
fn a_choice_that_does_not_lead_by_the_margin_is_the_fallbacks() {
    // Waiting leads by 0.25, by the margin of 0.5, by more.
    for (wait, fallback, answer) in [
        (1.25, "min-rtt", S),
        (1.5, "min-rtt", Decision::Wait),
        (2.0, "min-rtt", Decision::Wait),
        (1.25, "off", Decision::Wait),
    ] {
        let mut file = waits_or_sends([wait, 1.0]);
        file.margin = 0.5;
        let mut deployed = deployed(file, fallback);
        let bench = bench();
        // Asked again there is no question, and the answer is the same.
        for _ in 0..3 {
            assert_eq!(deployed.select(&bench.context()), answer, "{wait} and {fallback}");
        }
        let reason = deployed.explain(&bench.context()).unwrap();
        assert_eq!(reason.starts_with("the fallback decides: no choice leads by enough"), answer == S, "{reason}");
    }
    // Without a margin, the network decides however little it leads.
    assert_eq!(deployed(waits_or_sends([1.25, 1.0]), "min-rtt").select(&bench().context()), Decision::Wait);
}

#[test]
fn a_choice_that_does_not_lead_is_over_with_its_packet_and_the_next_one_is_the_networks_again() {
    let mut file = waits_or_sends([1.0, 1.25]);
    file.margin = 0.5;
    let (mut deployed, mut bench) = (deployed(file, "min-rtt"), bench());
    for (margin, falls_back) in [(0.5, true), (0.25, false), (0.5, true)] {
        deployed.margin = margin;
        let answer = deployed.select(&bench.context());
        assert_eq!((answer, deployed.fallback.is_on()), (S, falls_back), "{margin}");
        let sent = bench.carry(answer).unwrap();
        deployed.observe(&bench.context(), &sent);
    }
    assert_eq!(deployed.task.ledger().decisions(), 3);
}

#[test]
fn what_training_did_not_see_is_the_fallbacks_and_is_counted() {
    let tally = |decided, differs| Some(FallbackTally { decided, differs });
    // F's window of 14 kB is 0.14 of 100 kB or less: below a range that begins at 1, above one that ends at 0.
    for (low, high, answer, counted) in
        [(0.0, 4.0, Decision::Wait, tally(0, 1)), (1.0, 4.0, S, tally(1, 0)), (0.0, 0.0, S, tally(1, 0))]
    {
        let mut file = waits_or_sends([1.0, 0.0]);
        file.low.fill(low);
        file.high.fill(high);
        let (mut deployed, bench) = (deployed(file, "min-rtt"), bench());
        assert_eq!(deployed.select(&bench.context()), answer, "{low} to {high}");
        deployed.decided(&bench.context(), answer);
        assert_eq!(deployed.report().fallback, counted, "{low} to {high}");
        let reason = deployed.explain(&bench.context()).unwrap();
        assert_eq!(
            reason.starts_with("the fallback decides: the observation left the ranges"),
            answer == S,
            "{reason}"
        );
    }
    // Where both send alike nothing differs; without a fallback nothing is counted, and nothing is too far off.
    let mut agrees = deployed(waits_or_sends([0.0, 1.0]), "min-rtt");
    assert_eq!(agrees.select(&bench().context()), S);
    agrees.decided(&bench().context(), S);
    assert_eq!(agrees.report().fallback, tally(0, 0));
    let mut file = waits_or_sends([1.0, 0.0]);
    file.low.fill(1.0);
    let mut alone = deployed(file, "off");
    assert_eq!(alone.select(&bench().context()), Decision::Wait);
    alone.decided(&bench().context(), Decision::Wait);
    assert_eq!(alone.report().fallback, None);
}

#[test]
fn the_fallback_hears_everything() {
    // Round robin takes the open paths 1 and 2 in turn, if it hears what was sent.
    let mut file = waits_or_sends([1.0, 0.0]);
    file.low.fill(1.0);
    let mut deployed = deployed(file, "round-robin");
    let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 50, 10, 0), path(2, 60, 10, 0)]);
    for n in [1, 2, 1, 2] {
        let answer = deployed.select(&bench.context());
        assert_eq!(answer, Decision::Send(PathId::new(n)));
        let sent = bench.carry(answer).unwrap();
        deployed.observe(&bench.context(), &sent);
    }
}

#[test]
fn the_next_time_is_the_tasks_or_the_fallbacks() {
    // An interval of 100 ms. MuSher, which wants to be asked at once, as it has sampled nothing.
    let (mut by_task, bench) = (deployed(policy("path", 20, &[1.0, 0.0, 0.0]), "min-rtt"), bench());
    let _ = by_task.select(&bench.context());
    assert_eq!(by_task.wake(), Some(Instant::from_millis(100)));
    let mut by_fallback = deployed(waits_or_sends([1.0, 0.0]), "musher");
    let _ = by_fallback.select(&bench.context());
    assert_eq!(by_fallback.wake(), Some(Instant::ZERO));
    assert_eq!(deployed(waits_or_sends([1.0, 0.0]), "min-rtt").wake(), None);
}

#[test]
fn an_interval_is_decided_when_it_begins_and_only_then() {
    let (mut deployed, mut bench) = (deployed(policy("path", 20, &[1.0, 0.0, 0.0]), "min-rtt"), bench());
    // The first begins with a wake-up. Other news at 100 ms decide nothing: `select` does.
    for (ms, event, decisions) in
        [(0, Event::Wake, 1), (100, Event::Starved(Starved::Window), 1), (150, Event::Wake, 2)]
    {
        bench.now = Instant::from_millis(ms);
        deployed.observe(&bench.context(), &event);
        assert_eq!(deployed.task.ledger().decisions(), decisions, "at {ms} ms");
    }
}

/// No choice leads, so that min-RTT decides. Its path, F, is full: in the mode in which only one path sends, nothing is
/// sent for the rest of the interval; in the other S stands in.
#[test]
fn a_fallback_keeps_to_the_mode_of_the_task() {
    for (mode, answer) in [("exclusive", Decision::Wait), ("preferred", S)] {
        let task: &'static str = if mode == "exclusive" { "path:mode=exclusive" } else { "path:mode=preferred" };
        let (mut deployed, mut bench) = (deployed(policy(task, 20, &[1.0, 1.0, 1.0]), "min-rtt"), bench());
        deployed.margin = 0.5;
        bench.paths[0].bytes_in_flight = packets(0);
        bench.refresh();
        assert_eq!(deployed.select(&bench.context()), Decision::Send(PathId::new(0)), "{mode}");
        assert!(deployed.fallback.is_on());
        bench.paths[0].bytes_in_flight = packets(10);
        bench.refresh();
        assert_eq!(deployed.select(&bench.context()), answer, "{mode}");
    }
}

#[test]
fn a_network_of_other_inputs_or_other_outputs_is_refused() {
    let refused = |inputs, says: &[f32]| {
        let file = policy("wait-or-send", inputs, says);
        let entry = &crate::learned::dqn::ENTRY;
        let fallback = Fallback::new(&Params::new(entry.name, entry.params, &[]).unwrap(), &file).unwrap();
        let (_, task) = build_task("wait-or-send").unwrap();
        Deployed::new(file, task, fallback, PolicyRng::new(1)).map(|_| ())
    };
    assert_eq!(refused(6, &[0.0, 1.0]), Ok(()));
    for (inputs, says) in [(5, &[0.0, 1.0][..]), (6, &[0.0, 1.0, 2.0])] {
        let found = format!("{inputs} inputs and {} outputs", says.len());
        assert_eq!(refused(inputs, says), Err(format!("its network has {found}; its task has 6 and 2")));
    }
}

#[test]
fn a_mode_that_is_asked_for_takes_the_place_of_the_cards() {
    let file = policy("path:slots=4:mode=exclusive:a=1", 20, &[1.0, 0.0, 0.0]);
    let entry = &crate::learned::rlds::ENTRY;
    let task = |mode: &str| {
        let given = [("mode".to_owned(), mode.to_owned())];
        spec(&Params::new(entry.name, entry.params, &given).unwrap(), &file)
    };
    assert_eq!(task("card"), "path:slots=4:mode=exclusive:a=1");
    assert_eq!(task("preferred"), "path:slots=4:a=1:mode=preferred");
}

#[test]
fn shares_are_the_softmax_of_the_outputs() {
    // Three times as much on path 0: of four packets A A B A, as the credits of `shares` say.
    let three = 3.0_f32.ln();
    let mut file = policy("shares:slots=2:history=1", 10, &[three, 0.0]);
    file.head = Head::Shares;
    let mut deployed = deployed(file, "off");
    let mut bench = Bench::new(vec![path(0, 20, 100, 0), path(1, 50, 100, 0)]);
    let mut sent = [0; 2];
    for _ in 0..40 {
        let answer = deployed.select(&bench.context());
        let Some(event @ Event::Sent(receipt, _)) = bench.carry(answer) else { panic!("{answer:?} sends nothing") };
        sent[receipt.path.index()] += 1;
        deployed.observe(&bench.context(), &event);
    }
    assert!((29..=31).contains(&sent[0]), "{sent:?}");
    assert_eq!(packets(40), bench.flow.next.since(weftway_path::Offset::ZERO));
}

/// A file whose card names itself, another file that ends, and what is no file at all.
#[test]
fn a_fallback_that_leads_back_to_itself_is_refused() {
    let folder = std::env::temp_dir().join(format!("weftway-fallback-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let write = |name: &str, fallback: &str| {
        let card = CARD.map(|(key, value)| (key, if key == "fallback" { fallback } else { value }));
        let (low, high, w) = ([0.0; 6], [4.0; 6], [0.0; 12]);
        let tensors: [(&str, &[usize], &[f32]); 4] =
            [("low", &[6], &low), ("high", &[6], &high), ("w1", &[6, 2], &w), ("b1", &[2], &[1.0, 0.0])];
        let path = folder.join(name);
        std::fs::write(&path, file(&card, &tensors)).unwrap();
        format!("dqn:policy={}", path.display())
    };
    let ends = write("ends", "min-rtt");
    assert!(crate::build(&write("through", &ends)).is_ok());
    let own = format!("dqn:policy={}", folder.join("own").display());
    let error = crate::build(&write("own", &own)).err().unwrap().to_string();
    assert!(error.contains("leads from policy file to policy file"), "{error}");
    assert!(crate::build(&format!("{own}:fallback=off")).is_ok());
    let error = crate::build("dqn:policy=/dev/zero").err().unwrap().to_string();
    assert!(error.contains("this is no regular file"), "{error}");
    std::fs::remove_dir_all(folder).unwrap();
}
