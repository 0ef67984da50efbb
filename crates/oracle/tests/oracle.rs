//! The oracle: its formula by hand, its labels over the network of the papers, and whether following them pays.

use crate::setup;
use weftway_link::{Limit, Loss};
use weftway_oracle::{Audit, Basis, FAR, Lab, Plan, Run, Stop, Truth, audit, jain, judge, run};
use weftway_path::{BitRate, Bytes, Instant, PathId, Span};
use weftway_scenario::config::{Buffer, MessageSize, SimConfig, TransportConfig, Workload};
use weftway_sim::measure::Singles;
use weftway_sim::run::Job;

/// Behaviours that take turns.
const MIXED: [&str; 4] = ["oracle", "round-robin", "min-rtt", "uniform"];

/// A path: of `[rate in kbit/s, delay in ms, loss in percent]`.
type Shape = [f64; 3];

/// Table 2 of the papers: 2, 2, 4 and 2 Mbit/s, 10 ms, 3 % loss; MPTCP, buffers of 128 kB.
const TABLE_2: [Shape; 4] = [[2e3, 10.0, 3.0], [2e3, 10.0, 3.0], [4e3, 10.0, 3.0], [2e3, 10.0, 3.0]];

/// Messages of 1, 5 and 10 kB, one each `period` µs, for 20 s. The print gives no load. A mean message of 5333 B is
/// 5645 B on the wire, and 3 % are sent twice: 10 Mbit/s carry 9.16. One each 5.5 ms is 7.76 Mbit/s, 85 % of that.
fn config(paths: &[Shape], period: u64) -> SimConfig {
    let path = |(at, [kbps, ms, percent]): (usize, &Shape)| {
        let mut path = setup::lossy(setup::path(&format!("p{}", at + 1), *kbps as u64, *ms as u64), percent / 100.0);
        path.data.queue.limit = Limit::Bytes(Bytes::new(128_000));
        path
    };
    let buffer = Buffer::Fixed(Bytes::new(128_000));
    let transport = TransportConfig { send_buffer: buffer, receive_buffer: buffer, ..TransportConfig::mptcp_v09x() };
    let workload = Workload::Messages {
        sizes: [1000, 5000, 10_000].map(|bytes| MessageSize::of(Bytes::new(bytes))).to_vec(),
        period: Span::from_micros(period),
        count: 20_000_000 / period,
        deadline: None,
    };
    SimConfig { workload, ..SimConfig::new(transport, paths.iter().enumerate().map(path).collect(), Bytes::ZERO) }
}

fn job(config: &SimConfig, seed: u64) -> Job<'_> {
    Job { config, cc: "bbr1", seed, timing: None }
}

fn plan(task: &str, behaviours: &[&str]) -> Plan {
    Plan {
        task: task.to_owned(),
        behaviours: behaviours.iter().map(|name| (*name).to_owned()).collect(),
        basis: Basis::Message,
    }
}

fn play(config: &SimConfig, seed: u64, task: &str, behaviours: &[&str]) -> Run {
    run(&job(config, seed), &plan(task, behaviours)).unwrap()
}

/// An idle path of 8 Mbit/s and 10 ms, and one of 16 Mbit/s and 20 ms with 20 kB queued that loses every second packet.
fn two() -> [Option<Truth>; 2] {
    let path = |mbps, ms, queue, loss| Truth {
        queue: Bytes::new(queue),
        rate: BitRate::from_mbps(mbps),
        delay: Span::from_millis(ms),
        loss,
        wait: Span::ZERO,
    };
    [Some(path(8, 10, 0, 0.0)), Some(path(16, 20, 20_000, 0.5))]
}

fn near(found: f64, expected: f64) {
    assert!((found - expected).abs() < 1e-9, "{found} is not {expected}");
}

#[test]
fn two_paths_by_hand() {
    // 10 kB in 10 packets. The first: 10 kB at 1 MB/s and 10 ms, 20 ms. The second: 30 kB at 2 MB/s and 20 ms, 35 ms,
    // and with 1 − 2⁻¹⁰ two delays and the queue again, 40 + 10 ms. Whoever takes it has everything: Jain 1/2, worth
    // 0.1 · 100 ms · 1/2 = 5 ms.
    let (bytes, mss) = (Bytes::new(10_000), Bytes::new(1000));
    let judged = judge(&two(), bytes, mss, 0.0, &[0.0, 0.0]).unwrap();
    let second = 0.035 + (1.0 - 1.0 / 1024.0) * 0.050 - 0.005;
    assert_eq!(judged.label, 0);
    near(judged.costs[0], 0.015);
    near(judged.costs[1], second);
    near(judged.margin, second - 0.015);

    // A message before it that is still under way for 100 ms makes both the same: fairness decides. The first path has
    // carried 10 kB: (20, 0) of its megabyte a second is 1/2, (10, 5) is 15²/(2 · 125) = 0.9.
    let judged = judge(&two(), bytes, mss, 0.1, &[10_000.0, 0.0]).unwrap();
    assert_eq!(judged.label, 1);
    near(judged.costs[0], 0.095);
    near(judged.costs[1], 0.091);
    near(jain(&[1.0, 1.0, 2.0, 0.0]), 16.0 / 24.0);
}

#[test]
fn what_is_nearer_than_a_microsecond_goes_to_the_smaller_number() {
    let judged = |wait| {
        let mut paths = [two()[0], two()[0]];
        paths[0] = paths[0].map(|truth| Truth { wait: Span::from_nanos(wait), ..truth });
        judge(&paths, Bytes::new(1000), Bytes::new(1000), 0.0, &[0.0, 0.0]).unwrap()
    };
    assert_eq!([judged(0).label, judged(900).label, judged(1100).label], [0, 0, 1]);
    near(judged(1100).margin, 1.1e-6);
}

#[test]
fn a_path_that_is_down_is_far_and_one_that_is_gone_is_none() {
    let [first, second] = two();
    let down = second.map(|truth| Truth { rate: BitRate::ZERO, ..truth });
    let judged = |paths: [Option<Truth>; 2]| judge(&paths, Bytes::new(1000), Bytes::new(1000), 0.0, &[0.0, 0.0]);
    let found = judged([first, down]).unwrap();
    assert!(found.label == 0 && found.margin > FAR - 1.0);
    let found = judged([None, second]).unwrap();
    assert_eq!((found.label, found.costs[0], found.margin), (1, f64::INFINITY, FAR));
    assert!(judged([None, None]).is_none());
}

#[test]
fn the_truth_is_that_of_the_links() {
    let config = config(&[[8e3, 10.0, 3.0], [4e3, 30.0, 0.0]], 5500);
    let mut lab = Lab::new(&config, "bbr1", 1, "graph:slots=2", &[]).unwrap();
    assert_eq!(lab.advance(Instant::NEVER), Stop::Asked);
    let truth = Truth::of(lab.sim(), PathId::new(0));
    let loss = truth.loss;
    assert_eq!(
        truth,
        Truth { queue: Bytes::ZERO, rate: BitRate::from_mbps(8), delay: Span::from_millis(10), loss, wait: Span::ZERO }
    );
    // In steps of 2⁻³².
    assert!((loss - 0.03).abs() < 1e-9);
    // The second subflow has not joined yet.
    assert_eq!(lab.open(), [true, false]);
    while lab.sim().now() < Instant::from_millis(300) {
        let taken = lab.open().iter().rposition(|open| *open).unwrap();
        lab.answer(taken);
        assert_eq!(lab.advance(Instant::NEVER), Stop::Asked);
    }
    // Everything went to the slower path: 7.76 of 4 Mbit/s, so that it has a queue or a full window.
    let truth = Truth::of(lab.sim(), PathId::new(1));
    assert!(truth.queue > Bytes::ZERO || truth.wait > Span::ZERO, "{truth:?}");
}

/// At the first question one path of 8 Mbit/s and 10 ms is there, idle and without loss; it has everything, so that
/// Jain's index takes 10 ms off.
#[test]
fn an_answer_for_an_interval_is_judged_by_what_the_interval_brings() {
    let cost = |basis, period| {
        let sizes = vec![MessageSize::of(Bytes::new(10_000))];
        let workload = Workload::Messages { sizes, period: Span::from_millis(period), count: 100, deadline: None };
        let config = SimConfig { workload, ..config(&[[8e3, 10.0, 0.0], [8e3, 10.0, 0.0]], 5500) };
        let mut lab = Lab::new(&config, "bbr1", 1, "graph:slots=2", &[]).unwrap().judged_by(basis);
        assert_eq!((lab.advance(Instant::NEVER), lab.open()), (Stop::Asked, vec![true, false]));
        lab.judge().unwrap().costs[0]
    };
    // 10 kB at 1 MB/s.
    near(cost(Basis::Message, 20), 0.010);
    // One now and every 20 ms up to the end after 100 ms: 6 messages, 60 kB.
    near(cost(Basis::Interval, 20), 0.060);
    // One every 5 ms would be 210 kB; the path takes 100 kB.
    near(cost(Basis::Interval, 5), 0.100);
}

/// The share of each path in what the labels send, by bytes.
fn by_bytes(runs: &[Run]) -> [f64; 4] {
    let mut bytes = [0.0; 4];
    let samples = runs.iter().flat_map(|run| &run.samples);
    samples.for_each(|sample| bytes[sample.judgement.label] += sample.message as f64);
    bytes.map(|own| own / bytes.iter().sum::<f64>())
}

fn entropy(runs: &[Run]) -> f64 {
    let mut counts = [0.0; 4];
    runs.iter().flat_map(|run| &run.samples).for_each(|sample| counts[sample.judgement.label] += 1.0);
    let sum: f64 = counts.iter().sum();
    counts.iter().filter(|count| **count > 0.0).map(|count| -count / sum * (count / sum).log2()).sum()
}

/// 4 of 10 Mbit/s: the third path carries 40 % of the bytes when the oracle decides about each message, not all.
#[test]
fn labels_follow_capacity() {
    let config = config(&TABLE_2, 5500);
    let runs: Vec<Run> =
        (1..=5).map(|seed| play(&config, seed, "graph:mode=exclusive:hold=message", &["oracle"])).collect();
    let shares = by_bytes(&runs);
    eprintln!("labels by bytes {shares:.3?}, entropy {:.2} bit", entropy(&runs));
    assert!((shares[2] - 0.4).abs() < 0.05, "{shares:?}");
    [0, 1, 3].iter().for_each(|at| assert!((shares[*at] - 0.2).abs() < 0.05, "{shares:?}"));
}

/// A number in [low, high) for instance `at`: the fraction of multiples of the golden ratio, spread evenly.
fn spread(at: usize, low: f64, high: f64) -> f64 {
    low + (at as f64 * 0.618_033_988_749_895).fract() * (high - low)
}

/// Table 2 with rates times 0.5 to 2, delays times 0.5 to 3, losses from 0 to 5 %.
fn instance(at: usize) -> Vec<Shape> {
    let path = |path: usize| {
        let n = 1 + 12 * at + 3 * path;
        let factor = spread(n, -1.0, 1.0).exp2();
        [TABLE_2[path][0] * factor, 10.0 * spread(n + 1, 0.5, 3.0), spread(n + 2, 0.0, 5.0)]
    };
    (0..4).map(path).collect()
}

#[test]
fn labels_of_the_mixed_set_are_spread_over_the_paths() {
    for task in ["graph", "graph:mode=exclusive", "graph:hold=message", "graph:mode=exclusive:hold=message"] {
        let runs: Vec<Run> = (0..24).map(|at| play(&config(&instance(at), 5500), at as u64, task, &MIXED)).collect();
        let entropy = entropy(&runs);
        eprintln!("{task}: entropy {entropy:.3} bit, labels by bytes {:.2?}", by_bytes(&runs));
        assert!(entropy > 0.8 * 2.0, "{task}: {entropy} bit");
    }
}

/// Figures of a behaviour with each seed: p50 and p95 of messages in ms, goodput in Mbit/s.
fn figures(config: &SimConfig, task: &str, behaviour: &str) -> Vec<[f64; 3]> {
    figures_by(config, &plan(task, &[behaviour]))
}

fn figures_by(config: &SimConfig, plan: &Plan) -> Vec<[f64; 3]> {
    let of = |seed| {
        let job = job(config, seed);
        let row = job.row(&run(&job, plan).unwrap().finished, &Singles::default());
        ["message_p50_ms", "message_p95_ms", "goodput_mbps"].map(|name| row[name].as_f64().unwrap_or(f64::NAN))
    };
    (1..=20).map(of).collect()
}

/// The mean of paired differences and the half-width of its 95 % interval: t with 19 degrees of freedom is 2.093.
fn paired(ours: &[[f64; 3]], theirs: &[[f64; 3]], figure: usize) -> (f64, f64) {
    let differences: Vec<f64> = ours.iter().zip(theirs).map(|(a, b)| a[figure] - b[figure]).collect();
    let n = differences.len() as f64;
    let mean = differences.iter().sum::<f64>() / n;
    let variance = differences.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / (n - 1.0);
    (mean, 2.093 * (variance / n).sqrt())
}

/// Whoever decides about each message by what is true delivers sooner, and more, than who takes turns or takes the
/// least round-trip time. Exclusive, so that it is the choice that counts: where full paths are stood in for, all
/// paths are busy whatever is chosen.
#[test]
fn following_the_oracle_pays() {
    let config = config(&TABLE_2, 5500);
    let task = "graph:mode=exclusive:hold=message";
    let oracle = figures(&config, task, "oracle");
    for other in ["round-robin", "min-rtt"] {
        let theirs = figures(&config, task, other);
        let [p50, p95, goodput] = [0, 1, 2].map(|figure| paired(&oracle, &theirs, figure));
        eprintln!("oracle − {other}: p50 {p50:.1?} ms, p95 {p95:.1?} ms, goodput {goodput:.2?} Mbit/s");
        assert!(p95.0 + p95.1 < 0.0, "{other}: p95 {p95:?} ms");
        assert!(goodput.0 - goodput.1 > 0.0, "{other}: goodput {goodput:?} Mbit/s");
    }
}

/// Who judges an answer that holds for an interval by all that its class brings in it, delivers more and sooner than
/// who takes turns, where the message at hand alone says too little.
#[test]
fn following_the_oracle_pays_where_an_answer_holds_for_an_interval() {
    for period in [5500, 8000] {
        let config = config(&TABLE_2, period);
        let task = "graph:mode=exclusive";
        let ours = figures_by(&config, &Plan { basis: Basis::Interval, ..plan(task, &["oracle"]) });
        for other in ["round-robin", "min-rtt"] {
            let theirs = figures(&config, task, other);
            let [p50, p95, goodput] = [0, 1, 2].map(|figure| paired(&ours, &theirs, figure));
            eprintln!("{period} µs, oracle − {other}: p50 {p50:.1?} ms, p95 {p95:.1?} ms, {goodput:.2?} Mbit/s");
            assert!(p95.0 + p95.1 < 0.0, "{period} µs, {other}: p95 {p95:?} ms");
            assert!(goodput.0 - goodput.1 > 0.0, "{period} µs, {other}: {goodput:?} Mbit/s");
        }
    }
}

/// Audits of four seeds.
fn audits(config: &SimConfig) -> Vec<Audit> {
    let plan = plan("graph:mode=exclusive:hold=message", &MIXED);
    (1..=4).flat_map(|seed| audit(&job(config, seed), &plan, 47).unwrap()).collect()
}

/// By how many ms the message comes later than on the best path, if `path` carries it.
fn regret(audit: &Audit, path: usize) -> f64 {
    let delay =
        |at: usize| audit.futures[at].and_then(|future| future.delay).map_or(1e3, |delay| delay.as_millis_f64());
    delay(path) - (0..4).filter(|at| audit.futures[*at].is_some()).map(delay).fold(f64::INFINITY, f64::min)
}

/// Without chance, O1 foresees what comes: its path brings the message within a millisecond of the best one. With 3 %
/// loss, which packet is lost is nobody's to foresee, and on average it is still better than any path.
#[test]
fn what_comes_is_what_was_foreseen() {
    for (loss, share) in [(0.0, 0.85), (0.03, 0.0)] {
        let mut config = config(&TABLE_2, 5500);
        config.paths.iter_mut().for_each(|path| path.data.loss = Loss::Bernoulli(loss));
        let audits = audits(&config);
        let n = audits.len() as f64;
        let ours: Vec<f64> = audits.iter().map(|audit| regret(audit, audit.judgement.label)).collect();
        let any: f64 = audits.iter().flat_map(|audit| (0..4).map(|path| regret(audit, path) / 4.0)).sum::<f64>() / n;
        let within = ours.iter().filter(|regret| **regret < 1.0).count() as f64 / n;
        let mean = ours.iter().sum::<f64>() / n;
        let by_value =
            audits.iter().filter(|audit| audit.best_value() == Some(audit.judgement.label)).count() as f64 / n;
        eprintln!(
            "loss {loss}: {n} audits, within 1 ms {within:.3}, later by {mean:.2} ms, any path by {any:.2} ms; same as J {by_value:.3}"
        );
        assert!(within >= share && mean < any, "loss {loss}: {within}, {mean} ms, {any} ms");
    }
}

#[test]
fn equal_seeds_give_equal_labels() {
    let config = config(&instance(3), 5500);
    let [first, again, other] = [5, 5, 6].map(|seed| play(&config, seed, "graph", &MIXED).samples);
    assert!(first == again && first != other);
    // The first second has another behaviour than a later one, and all of them had a turn in 20 s.
    let mut behaviours: Vec<usize> = first.iter().map(|sample| sample.behaviour).collect();
    behaviours.sort_unstable();
    behaviours.dedup();
    assert_eq!(behaviours, [0, 1, 2, 3]);
}

#[test]
fn more_paths_than_slots_and_other_tasks_are_refused() {
    let config = config(&TABLE_2, 5500);
    let refused = |task: &str| run(&job(&config, 1), &plan(task, &["oracle"])).err().unwrap().to_string();
    assert!(refused("graph:slots=3").contains("a slot for each path"), "{}", refused("graph:slots=3"));
    assert!(refused("path").contains("graph"));
}
