use proptest::prelude::*;
use weftway_path::{BitRate, Bytes, Counters, PathId, Span};

use super::*;
use crate::FallbackTally;
use crate::learned::build_task;
use crate::learned::nn::falcon::tests::models_file;
use crate::learned::task::Earned;
use weftway_vectors::testing::{Bench, packets, path};

const TASK: &str = "wait-or-send:state=credit:reward=bytes";

fn card(fallback: &'static str) -> Vec<(&'static str, &'static str)> {
    let format = ("format", "weftway-policy-1");
    vec![
        format,
        ("algorithm", "falcon"),
        ("task", TASK),
        ("network", "falcon:groups=12"),
        ("head", "greedy"),
        ("fallback", fallback),
    ]
}

/// A file whose group k says 0 or 1 always, as `says`: no weights, only the last biases.
fn file(fallback: &'static str, says: impl Fn(usize) -> usize) -> Vec<u8> {
    let model = |group: usize| {
        let last = if says(group) == 1 { vec![0.0, 0.5] } else { vec![0.5, 0.0] };
        // Weights that differ, so that hidden layers may learn.
        let drawn = |count: usize| (0..count).map(|n| ((n * 37 + group) % 19) as f32 / 19.0 - 0.5).collect::<Vec<_>>();
        vec![(7, drawn(7 * 64), vec![0.0; 64]), (64, drawn(64 * 64), vec![0.0; 64]), (64, vec![0.0; 128], last)]
    };
    models_file(&card(fallback), &(0..12).map(model).collect::<Vec<_>>())
}

fn falcon(given: &[(&str, &str)], bytes: &[u8]) -> Falcon {
    let given: Vec<_> = given.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    let params = Params::new(ENTRY.name, ENTRY.params, &given).unwrap();
    Falcon::new(&params, PolicyFile::parse(bytes).unwrap(), build_task(TASK).unwrap().1).unwrap()
}

/// F is path 0, 20 ms and full; S is path 1, 50 ms. Rates are equal.
fn bench() -> Bench {
    let mut bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 50, 25, 10)]);
    bench.paths.iter_mut().for_each(|path| path.delivery_rate = BitRate::from_mbps(5));
    bench
}

#[test]
fn the_group_of_the_start_decides() {
    // Rates 1:1, no loss, 50 ms over 20: group 4·1 + 1. It alone sends.
    let bytes = file("off", |group| usize::from(group == 5));
    let mut at_start = falcon(&[("adapt", "off")], &bytes);
    let mut bench = bench();
    assert_eq!(at_start.select(&bench.context()), Decision::Send(PathId::new(1)));
    assert_eq!(at_start.group, Some(5));
    // A tenth of F's rate: group 1.
    bench.paths[1].delivery_rate = BitRate::from_bps(500_000);
    let mut other = falcon(&[("adapt", "off")], &bytes);
    assert_eq!((other.select(&bench.context()), other.group), (Decision::Wait, Some(1)));
}

#[test]
fn a_card_says_whether_its_models_go_on_learning() {
    let bytes =
        |more: Vec<_>| models_file(&[card("off"), more].concat(), &vec![vec![(7, vec![0.0; 14], vec![0.5, 0.0])]; 12]);
    let adapts = |given: &[(&str, &str)], more| falcon(given, &bytes(more)).adapts;
    assert!(adapts(&[], vec![]) && adapts(&[], vec![("adapt", "on")]));
    assert!(!adapts(&[], vec![("adapt", "off")]) && adapts(&[("adapt", "on")], vec![("adapt", "off")]));
    let params = Params::new(ENTRY.name, ENTRY.params, &[]).unwrap();
    let file = PolicyFile::parse(&bytes(vec![("adapt", "often")])).unwrap();
    let said = Falcon::new(&params, file, build_task(TASK).unwrap().1).err().unwrap().to_string();
    assert!(said.contains("its card says `adapt = often`; expected on or off"), "{said}");
}

#[test]
fn a_file_is_built_by_name_and_mistakes_are_said() {
    let place = std::env::temp_dir().join(format!("weftway-falcon-{}.safetensors", std::process::id()));
    let make = |bytes: &[u8], key: &str, value: &str| {
        std::fs::write(&place, bytes).unwrap();
        let policy = ("policy".to_owned(), place.display().to_string());
        ENTRY.make(&[policy, (key.to_owned(), value.to_owned())]).map(|_| ()).map_err(|error| error.to_string())
    };
    let bytes = file("min-rtt", |_| 0);
    assert_eq!(make(&bytes, "adapt", "off"), Ok(()));
    assert!(make(&bytes, "steps", "11").unwrap_err().contains("expected gradient steps, 0 to 10"));
    let wrong = models_file(&card("off"), &(0..12).map(|_| vec![(6, vec![0.0; 12], vec![0.0; 2])]).collect::<Vec<_>>());
    let said = make(&wrong, "adapt", "on").unwrap_err();
    assert!(said.contains("its models have 6 inputs and 2 outputs; its task has 7 and 2"), "{said}");
    std::fs::remove_file(&place).unwrap();
}

#[test]
fn the_guard_decides_what_training_did_not_see() {
    // Group 5 would wait; the range of every input ends at 4, but F's window is 0.014 of it and
    // S's srtt 0.2: nothing is outside. A file whose ranges start at 1 has all outside.
    let bytes = file("min-rtt", |_| 0);
    assert_eq!(falcon(&[("adapt", "off")], &bytes).select(&bench().context()), Decision::Wait);
    let mut parsed = PolicyFile::parse(&bytes).unwrap();
    parsed.low.fill(1.0);
    let params = Params::new(ENTRY.name, ENTRY.params, &[("adapt".to_owned(), "on".to_owned())]).unwrap();
    let mut cautious = Falcon::new(&params, parsed, build_task(TASK).unwrap().1).unwrap();
    let mut bench = bench();
    let answer = cautious.select(&bench.context());
    assert_eq!(answer, Decision::Send(PathId::new(1)));
    cautious.decided(&bench.context(), answer);
    let sent = bench.carry(answer).unwrap();
    cautious.observe(&bench.context(), &sent);
    assert_eq!((cautious.report().fallback, cautious.decisions), (Some(FallbackTally { decided: 1, differs: 0 }), 0));
}

/// Group 5, which `bench` is of, lost in training. Its model waits always, and no step moves it: what decides tells
/// who.
#[test]
fn a_group_that_lost_in_training_learns_from_the_guard_and_then_decides() {
    let lost = || {
        let models: Vec<_> = (0..12).map(|_| vec![(7, vec![0.0; 14], vec![0.5, 0.0])]).collect();
        models_file(&[card("min-rtt"), vec![("fallback_groups", "5")]].concat(), &models)
    };
    let play = |given: &[(&str, &str)]| {
        let (mut falcon, mut bench) = (falcon(given, &lost()), bench());
        let mut sent = [0; 2];
        for n in 0..200 {
            let answer = falcon.select(&bench.context());
            sent[usize::from(n >= 100)] += u32::from(answer == Decision::Send(PathId::new(1)));
            bench.now += Span::from_millis(1);
            // A packet that waits goes on F when it has room; F is then full again.
            let answer = if answer == Decision::Wait {
                let acked = bench.ack(PathId::new(0), None);
                acked.iter().for_each(|event| falcon.observe(&bench.context(), event));
                bench.paths[0].bytes_in_flight = packets(9);
                bench.refresh();
                falcon.select(&bench.context())
            } else {
                answer
            };
            falcon.decided(&bench.context(), answer);
            for event in [bench.carry(answer), bench.ack(PathId::new(1), None)].iter().flatten() {
                falcon.observe(&bench.context(), event);
            }
        }
        (
            sent,
            falcon.decisions,
            falcon.learner.stage() == Stage::Fresh,
            falcon.report().fallback.map(|tally| tally.decided),
        )
    };
    let still = [("steps", "0"), ("lr", "0"), ("eps_first", "0"), ("eps", "0")];
    // The fallback is min-RTT, which sends on S whenever F is full. From the 33rd decision the copy decides, and waits.
    let (sent, decisions, is_fresh, fallback) = play(&still);
    assert!((33..100).contains(&sent[0]), "{sent:?}");
    assert_eq!((sent[1], is_fresh), (0, false));
    assert_eq!((decisions, fallback), (200, Some(u64::from(sent[0]))));
    // What does not adapt stays with the fallback.
    let (sent, decisions, is_fresh, fallback) = play(&[&still[..], &[("adapt", "off")]].concat());
    assert_eq!((sent, decisions, is_fresh, fallback), ([100, 100], 0, true, Some(200)));
}

/// S over F of a group: rate ratio 1/6, 1 or 6; 3 % of S's packets lost or none; srtt ratio 1.2 or 3.
fn set(bench: &mut Bench, group: usize) {
    let (rate, loss, rtt) = ([1.0 / 6.0, 1.0, 6.0][group / 4], [0.0, 0.03][group / 2 % 2], [1.2, 3.0][group % 2]);
    let natures = [(20.0, 5.0, 0.0), (20.0 * rtt, 5.0 * rate, loss)];
    for (path, (ms, mbps, loss)) in bench.paths.iter_mut().zip(natures) {
        path.srtt = Span::from_secs_f64(ms / 1e3);
        path.delivery_rate = BitRate::from_bps((mbps * 1e6) as u64);
        let lost = (loss * 100.0) as u64;
        path.acked =
            Counters { bytes: path.acked.bytes + packets(100 - lost), packets: path.acked.packets + 100 - lost };
        path.lost = Counters { bytes: Bytes::ZERO, packets: path.lost.packets + lost };
    }
}

/// 100 ms of `group`; whether that ended with an alarm.
fn window(falcon: &mut Falcon, bench: &mut Bench, group: usize) -> bool {
    bench.now += Span::from_millis(100);
    set(bench, group);
    falcon.observe(&bench.context(), &Event::Wake);
    falcon.group.is_none()
}

#[test]
fn after_an_alarm_the_group_is_that_of_the_new_condition() {
    let bytes = file("off", |_| 1);
    for before in 0..12 {
        for after in (0..12).filter(|after| *after != before) {
            // The model sends, so that the next packet is asked about again.
            let (mut falcon, mut bench) = (falcon(&[("adapt", "off")], &bytes), bench());
            set(&mut bench, before);
            let answer = falcon.select(&bench.context());
            assert_eq!(falcon.group, Some(before));
            for _ in 0..40 {
                assert!(!window(&mut falcon, &mut bench, before));
            }
            let found = (1..=20).find(|_| window(&mut falcon, &mut bench, after));
            // Loss alone moves by 3 deviations of a hundredth, and a little less as their mean follows:
            // 2.5·n > 14 with n = 6.
            assert!(found.is_some_and(|windows| windows <= 7), "{before} to {after}: {found:?}");
            let sent = bench.carry(answer).unwrap();
            falcon.observe(&bench.context(), &sent);
            assert_eq!(falcon.select(&bench.context()), answer);
            assert_eq!(falcon.group, Some(after), "from {before}");
        }
    }
}

/// A learner of two inputs whose model is nothing but biases (0.5, 0).
fn learner(gamma: f32) -> (Learner, Falcon) {
    learner_at([1e-3, 5e-4], gamma)
}

/// Makes a learner at these `rates`.
fn learner_at(rates: [f32; 2], gamma: f32) -> (Learner, Falcon) {
    let falcon = falcon(&[], &file("off", |_| 0));
    let settings = Settings { steps: 10, rates, gamma };
    (Learner::new(falcon.models.of(0), settings, PolicyRng::new(1)), falcon)
}

const SEEN: [f32; 7] = [0.1, 0.3, 0.2, 0.4, 0.1, 0.2, 1.0];

/// Decision `number` is `number % 2`; 1 earns 2, 0 earns nothing.
fn live(learner: &mut Learner, number: u64) {
    learner.decide(number, &SEEN, (number % 2) as usize);
    learner.learn(std::iter::once(Earned { decision: number, reward: 2.0 * (number % 2) as f32 }));
}

#[test]
fn ten_steps_move_values_toward_rewards_and_learning_on_reaches_them() {
    let (mut learner, _) = learner(0.0);
    let mut values = [0.0; 2];
    // The reward of decision 32 closes no record: 31 is the 32nd whose next one is known.
    (0..32).for_each(|number| live(&mut learner, number));
    assert_eq!(learner.stage(), Stage::Fresh);
    learner.values(&SEEN, &mut values);
    assert_eq!(values, [0.5, 0.0]);
    live(&mut learner, 32);
    assert_eq!(learner.stage(), Stage::Adapted { due: 64 });
    let mut adapted = [0.0; 2];
    learner.values(&SEEN, &mut adapted);
    // Ten steps of Adam at 1e-3 move the last bias alone by about 0.01, and more through 64 weights.
    assert!(adapted[1] > 0.05 && adapted[0] < 0.45, "{adapted:?}");
    let mut last = adapted;
    for round in 0..50 {
        (0..320).for_each(|n| live(&mut learner, 33 + 320 * round + n));
        learner.values(&SEEN, &mut values);
        assert!(values[1] > last[1] - 0.05, "{last:?}, then {values:?}");
        last = values;
    }
    assert!((values[1] - 2.0).abs() < 0.1 && values[0].abs() < 0.1, "{values:?}");
}

#[test]
fn with_a_discount_values_settle_at_the_sum_of_what_follows() {
    // Every other decision earns 2; the best of what follows is always 1's value v = 2 + γ·v, and
    // that of 0 is γ·v: with γ = 0.5, 4 and 2.
    let (mut learner, _) = learner_at([3e-3; 2], 0.5);
    (0..15_000).for_each(|number| live(&mut learner, number));
    let mut values = [0.0; 2];
    learner.values(&SEEN, &mut values);
    assert!((values[1] - 4.0).abs() < 0.2 && (values[0] - 2.0).abs() < 0.2, "{values:?}");
}

#[test]
fn a_restart_brings_the_groups_weights_back() {
    let (mut learner, falcon) = learner(0.0);
    (0..100).for_each(|number| live(&mut learner, number));
    learner.restart(falcon.models.of(0));
    let mut values = [0.0; 2];
    learner.values(&SEEN, &mut values);
    assert_eq!((values, learner.stage()), ([0.5, 0.0], Stage::Fresh));
}

#[test]
fn exploration_is_by_the_decisions_since_the_change() {
    // The model always waits, so that sends on S are exploration: half of the draws of ε.
    let mut falcon = falcon(&[("steps", "0"), ("lr", "0")], &file("off", |_| 0));
    let mut sent = [0, 0];
    for n in 0..4000 {
        let mut fresh = bench();
        fresh.flow.next += packets(n);
        fresh.refresh();
        let number = falcon.decisions;
        let is_slow = {
            falcon.learner.values(&SEEN, &mut falcon.values);
            falcon.observation.copy_from_slice(&SEEN);
            falcon.group = Some(0);
            falcon.choose(&fresh.context()) == 1
        };
        falcon.decisions = number + 1;
        sent[usize::from(n >= 100)] += u64::from(is_slow);
    }
    // 100·0.15 ± 4·3.6, and 3900·0.025 ± 4·9.8.
    assert!((1..30).contains(&sent[0]) && (58..137).contains(&sent[1]), "{sent:?}");
}

/// Event of the connection.
#[derive(Clone, Debug)]
enum Op {
    Ask,
    Pass(u64),
    Acked(u8),
    Lost(u8),
    Srtt(u8, u64),
    Window(u8, u64),
    Rate(u8, u64),
    Toggle(u8, u64),
}

fn op() -> impl Strategy<Value = Op> {
    let on = 0..3u8;
    prop_oneof![
        12 => Just(Op::Ask),
        4 => (0..400u64).prop_map(Op::Pass),
        10 => on.clone().prop_map(Op::Acked),
        1 => on.clone().prop_map(Op::Lost),
        1 => (on.clone(), 0..300u64).prop_map(|(path, ms)| Op::Srtt(path, ms)),
        1 => (on.clone(), 0..40u64).prop_map(|(path, packets)| Op::Window(path, packets)),
        1 => (on.clone(), 0..100u64).prop_map(|(path, mbps)| Op::Rate(path, mbps)),
        1 => (on, 0..300u64).prop_map(|(path, ms)| Op::Toggle(path, ms)),
    ]
}

/// Changes the connection; what its scheduler hears of it.
fn happen(bench: &mut Bench, op: &Op) -> Option<Event> {
    fn of(bench: &mut Bench, id: u8) -> Option<&mut Path> {
        bench.paths.iter_mut().find(|path| path.id == PathId::new(id))
    }
    match *op {
        Op::Ask => return None,
        Op::Pass(ms) => bench.now += Span::from_millis(ms),
        Op::Acked(id) => return bench.ack(PathId::new(id), None),
        Op::Lost(id) => return bench.lose(PathId::new(id), None),
        Op::Srtt(id, ms) => of(bench, id)?.srtt = Span::from_millis(ms),
        Op::Window(id, n) => of(bench, id)?.cwnd = packets(n),
        Op::Rate(id, n) => of(bench, id)?.delivery_rate = BitRate::from_mbps(n),
        Op::Toggle(id, _) if of(bench, id).is_some() => return bench.remove(PathId::new(id)),
        Op::Toggle(id, ms) => return bench.add(path(id, ms, 10, 0)),
    }
    bench.refresh();
    Some(Event::Wake)
}

/// Asked once and asked three times: the same answers, and the same weights at the end.
fn play(given: &[(&str, &str)], bytes: &[u8], ops: &[Op]) -> Result<usize, TestCaseError> {
    let mut once = falcon(given, bytes);
    let mut thrice = once.clone();
    let mut bench = Bench::new(vec![path(0, 20, 4, 0), path(1, 60, 6, 0), path(2, 0, 4, 0)]);
    let mut adapted = 0;
    for op in ops {
        let event = if let Op::Ask = op {
            let answer = once.select(&bench.context());
            for _ in 0..3 {
                prop_assert_eq!(thrice.select(&bench.context()), answer);
                let _ = thrice.explain(&bench.context());
            }
            if let Decision::Send(path) = answer {
                prop_assert!(bench.context().path(path).is_some_and(Path::is_open), "{path:?} has no room");
            }
            bench.carry(answer)
        } else {
            happen(&mut bench, op)
        };
        let Some(event) = event else { continue };
        let before = once.learner.stage();
        once.observe(&bench.context(), &event);
        thrice.observe(&bench.context(), &event);
        adapted += usize::from(once.learner.stage() != before && before == Stage::Fresh);
        prop_assert_eq!((once.group, once.fallback.is_on()), (thrice.group, thrice.fallback.is_on()));
        prop_assert_eq!(once.learner.stage(), thrice.learner.stage());
    }
    let mut values = [[f32::NAN; 2]; 2];
    once.learner.values(&SEEN, &mut values[0]);
    thrice.learner.values(&SEEN, &mut values[1]);
    prop_assert!(values[0] == values[1] && values[0].iter().all(|value| value.is_finite()), "{values:?}");
    Ok(adapted)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn asking_three_times_is_asking_once(ops in prop::collection::vec(op(), 1..400)) {
        let bytes = file("min-rtt", |group| group % 2);
        for given in [&[][..], &[("adapt", "off")], &[("fallback", "off"), ("eps", "0.5")]] {
            play(given, &bytes, &ops)?;
        }
    }
}

#[test]
fn a_long_connection_adapts_and_is_the_same_asked_three_times() {
    // Nothing but packets back and forth on two steady paths, a window of four and one of six.
    let turn = [Op::Ask, Op::Ask, Op::Ask, Op::Pass(7), Op::Acked(0), Op::Acked(1)];
    let ops: Vec<_> = std::iter::once(&Op::Toggle(2, 0)).chain(turn.iter().cycle().take(3000)).cloned().collect();
    let adapted = play(&[("eps_first", "0.5")], &file("off", |_| 1), &ops).unwrap();
    assert!(adapted > 0);
}

/// Run with `--ignored --nocapture` in release: what a question and an event cost.
#[test]
#[ignore = "measures time"]
fn cost() {
    for adapt in ["off", "on"] {
        let mut falcon = falcon(&[("adapt", adapt), ("eps_first", "0"), ("eps", "0")], &file("off", |_| 1));
        let mut bench = Bench::new(vec![path(0, 20, 4, 4), path(1, 50, 8, 4)]);
        bench.paths.iter_mut().for_each(|path| path.delivery_rate = BitRate::from_mbps(5));
        let (mut asked, mut heard, mut longest, rounds) = (0.0, 0.0, 0.0f64, 20_000);
        for _ in 0..rounds {
            let start = std::time::Instant::now();
            let answer = falcon.select(&bench.context());
            asked += start.elapsed().as_secs_f64();
            bench.now += Span::from_millis(1);
            falcon.decided(&bench.context(), answer);
            for event in [bench.carry(answer), bench.ack(PathId::new(1), None)].iter().flatten() {
                let start = std::time::Instant::now();
                falcon.observe(&bench.context(), event);
                let took = start.elapsed().as_secs_f64();
                (heard, longest) = (heard + took, longest.max(took));
            }
        }
        let [asked, heard] = [asked, heard].map(|all| all * 1e6 / f64::from(rounds));
        println!(
            "adapt {adapt}: a question {asked:.2} us, its two events {heard:.2} us, longest {:.0} us",
            longest * 1e6
        );
    }
}

#[test]
fn a_ratio_is_one_while_either_is_unknown() {
    assert_eq!([ratio(3.0, 2.0), ratio(0.0, 2.0), ratio(3.0, 0.0), ratio(0.0, 0.0)], [1.5, 1.0, 1.0, 1.0]);
}

#[test]
fn a_learner_that_begins_anew_has_nothing_to_learn_from() {
    let mut falcon = falcon(&[], &file("off", |_| 1));
    for number in 0..1000 {
        falcon.learner.decide(number, &[0.5; 7], 0);
        falcon.learner.learn([Earned { decision: number, reward: 1.0 }].into_iter());
    }
    assert_ne!(falcon.learner.stage(), Stage::Fresh);
    falcon.learner.restart(falcon.models.of(0));
    falcon.learner.learn(std::iter::empty());
    assert_eq!(falcon.learner.stage(), Stage::Fresh);
}

#[test]
fn the_next_time_is_the_fallbacks() {
    // MuSher wants to be asked at once, as it has sampled nothing.
    assert_eq!(falcon(&[("fallback", "musher")], &file("off", |_| 1)).wake(), Some(Instant::ZERO));
    assert_eq!(falcon(&[], &file("off", |_| 1)).wake(), None);
}
