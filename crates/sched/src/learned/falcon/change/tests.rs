use super::*;
use crate::shared::rng::PolicyRng;
use weftway_path::{BitRate, Bytes};
use weftway_vectors::testing::{Bench, packets, path};

const SWITCHES: &[Param] = &[DELTA, LAMBDA];

fn detector(given: &[(&str, &str)]) -> Change {
    let given: Vec<_> = given.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
    Change::new(&Params::new("falcon", SWITCHES, &given).unwrap()).unwrap()
}

/// Nature of a path; each measure varies by `spread` of itself, evenly in variance.
#[derive(Clone, Copy)]
struct Nature {
    srtt_ms: f64,
    mbps: f64,
    loss: f64,
    spread: f64,
}

const PLAIN: [Nature; 2] = [
    Nature { srtt_ms: 30.0, mbps: 20.0, loss: 0.01, spread: 0.1 },
    Nature { srtt_ms: 80.0, mbps: 10.0, loss: 0.0, spread: 0.2 },
];

/// Two paths, and windows of noise.
struct World {
    bench: Bench,
    rng: PolicyRng,
}

impl World {
    fn new(seed: u64) -> Self {
        Self { bench: Bench::new(vec![path(0, 30, 10, 0), path(1, 80, 10, 0)]), rng: PolicyRng::new(seed) }
    }

    /// Near normal: the sum of twelve even draws has variance 1.
    fn normal(&mut self) -> f64 {
        (0..12).map(|_| self.rng.unit()).sum::<f64>() - 6.0
    }

    /// 100 ms of `natures`: whether that is an alarm.
    fn window(&mut self, change: &mut Change, natures: &[Nature; 2]) -> bool {
        self.bench.now += Span::from_millis(100);
        for (at, nature) in natures.iter().enumerate() {
            let factor = |world: &mut Self| (1.0 + nature.spread * world.normal()).max(0.05);
            let (srtt, rate) = (nature.srtt_ms * factor(self), nature.mbps * factor(self));
            // What a path carries in 100 ms: 1 Mbit/s is 9 packets of 1400 bytes.
            let count = (9.0 * nature.mbps) as u64;
            let lost = (0..count).filter(|_| self.rng.flip(nature.loss)).count() as u64;
            let path = &mut self.bench.paths[at];
            path.srtt = Span::from_secs_f64(srtt / 1e3);
            path.delivery_rate = BitRate::from_bps((rate * 1e6) as u64);
            path.acked = Counters {
                bytes: path.acked.bytes + packets(count - lost),
                packets: path.acked.packets + count - lost,
            };
            path.lost = Counters { bytes: Bytes::ZERO, packets: path.lost.packets + lost };
        }
        change.observe(&self.bench.context())
    }

    fn alarms(&mut self, change: &mut Change, natures: &[Nature; 2], windows: usize) -> usize {
        (0..windows).filter(|_| self.window(change, natures)).count()
    }
}

#[test]
fn noise_is_no_change() {
    // The bound is 10 in 10 windows to the fourth; there is none for any of these seeds.
    for seed in 0..5 {
        assert_eq!(World::new(seed).alarms(&mut detector(&[]), &PLAIN, 10_000), 0, "seed {seed}");
    }
}

#[test]
fn bounds_of_0_05_and_8_alarm_on_noise() {
    // A sum without a drift to speak of walks to 8 deviations within 8² = 64 numbers; there are 12
    // sums, and 20 windows of rest after each alarm.
    let alarms = World::new(1).alarms(&mut detector(&[("delta", "0.05"), ("lambda", "8")]), &PLAIN, 10_000);
    assert!(alarms > 100, "{alarms}");
}

/// Number of windows from a change at window 200 to the alarm, for `natures` then.
fn delay(seed: u64, natures: &[Nature; 2]) -> Option<usize> {
    let (mut world, mut change) = (World::new(seed), detector(&[]));
    assert_eq!(world.alarms(&mut change, &PLAIN, 200), 0);
    (1..=50).find(|_| world.window(&mut change, natures))
}

#[test]
fn twice_or_half_the_bandwidth_is_found_within_ten_windows() {
    for seed in 0..20 {
        for (at, factor) in [(0, 2.0), (1, 2.0), (0, 0.5), (1, 0.5)] {
            let mut natures = PLAIN;
            natures[at].mbps *= factor;
            let delay = delay(seed, &natures);
            assert!(delay.is_some_and(|delay| delay <= 10), "seed {seed}, path {at} times {factor}: {delay:?}");
        }
    }
}

#[test]
fn longer_round_trips_and_loss_are_found_too() {
    for seed in 0..20 {
        let mut natures = PLAIN;
        natures[0].srtt_ms *= 2.0;
        assert!(delay(seed, &natures).is_some_and(|delay| delay <= 10));
        natures = PLAIN;
        natures[1].loss = 0.05;
        assert!(delay(seed, &natures).is_some_and(|delay| delay <= 10));
    }
}

#[test]
fn after_an_alarm_means_are_of_what_is_new_and_nothing_is_tested_for_20_windows() {
    let (mut world, mut change) = (World::new(3), detector(&[]));
    let still = PLAIN.map(|nature| Nature { spread: 0.0, loss: 0.0, ..nature });
    assert_eq!(change.recent(PathId::new(0)), None);
    assert_eq!(world.alarms(&mut change, &still, 50), 0);
    let mut doubled = still;
    doubled[0].mbps = 40.0;
    // z is held at 4, so that (4 − 0.5)·n exceeds 14 with n = 5.
    assert_eq!((1..=50).find(|_| world.window(&mut change, &doubled)), Some(5));
    let recent = change.recent(PathId::new(0)).unwrap();
    assert!((recent.rate - 40e6).abs() < 1.0 && (recent.srtt - 0.030).abs() < 1e-9, "{recent:?}");
    assert!((change.recent(PathId::new(1)).unwrap().rate - 10e6).abs() < 1.0);
    // 20 of rest: the mean is of 15 that were as before and 5 of half the rate; nothing more follows.
    let mut halved = still;
    halved[0].mbps = 20.0;
    assert_eq!(world.alarms(&mut change, &doubled, 19), 0);
    assert_eq!(world.alarms(&mut change, &halved, 1), 0);
}

#[test]
fn a_silent_path_and_a_long_pause_say_nothing() {
    let (mut world, mut change) = (World::new(4), detector(&[]));
    assert_eq!(world.alarms(&mut change, &PLAIN, 50), 0);
    let kept = change.recent(PathId::new(0));
    world.bench.now += Span::from_secs(60);
    world.bench.paths[0].delivery_rate = BitRate::from_bps(1);
    assert!(!change.observe(&world.bench.context()));
    assert_eq!(change.recent(PathId::new(0)), kept);
    change.forget(PathId::new(0));
    assert_eq!(change.recent(PathId::new(0)), None);
}

#[test]
fn sums_by_hand() {
    // Twenty numbers of 10 and 12 in turn: mean 11, variance 20/19; then 14 each time.
    let mut stream = Stream::default();
    let bounds = Bounds { delta: 0.5, lambda: 3.0 };
    for n in 0..20 {
        assert_eq!(stream.take(10.0 + 2.0 * f64::from(n % 2), (0.0, 0.0), bounds), None);
    }
    // z = 3/√(20/19) = 2.9240: the sum is 2.4240.
    assert_eq!(stream.take(14.0, (0.0, 0.0), bounds), None);
    assert!((stream.up.value - 2.424_04).abs() < 1e-4 && stream.down.value == 0.0, "{stream:?}");
    // Mean 11 + 3/21, squares 20 + 3·(3 − 1/7): z = 2.8571/√(28.5714/20) = 2.3905; the sum 4.3145.
    assert_eq!(stream.take(14.0, (0.0, 0.0), bounds), Some(2));
}

/// Run with `--ignored --nocapture`: what bounds cost, from which the defaults are chosen.
#[test]
#[ignore = "a table, half a minute"]
fn bounds_and_what_they_cost() {
    for (delta, lambda) in [("0.05", "8"), ("0.25", "20"), ("0.5", "12"), ("0.5", "14"), ("0.5", "16"), ("0.75", "10")]
    {
        let given = [("delta", delta), ("lambda", lambda)];
        let alarms: usize = (0..10).map(|seed| World::new(seed).alarms(&mut detector(&given), &PLAIN, 10_000)).sum();
        let slowest = |at: usize| {
            let mut natures = PLAIN;
            natures[at].mbps *= 2.0;
            let delay = |seed: u64| {
                let (mut world, mut change) = (World::new(seed), detector(&given));
                world.alarms(&mut change, &PLAIN, 200);
                (1..=50).find(|_| world.window(&mut change, &natures))
            };
            (0..200).map(delay).max_by_key(|delay| delay.unwrap_or(99)).flatten()
        };
        println!(
            "{delta} {lambda}: {alarms} alarms in 1e5 windows, twice the rate after {:?}",
            [slowest(0), slowest(1)]
        );
    }
}

#[test]
fn a_sample_and_a_mean_by_hand() {
    // One of four lost since the path began.
    let mut sampled = path(0, 30, 10, 0);
    (sampled.acked.packets, sampled.lost.packets) = (3, 1);
    assert_eq!(Sample::of(&sampled).loss, 0.25);
    // Then two windows: as many lost as acknowledged, then 1 of 4.
    let mut watch = Watch::default();
    let bounds = Bounds { delta: 0.5, lambda: 14.0 };
    assert_eq!(watch.sample(&sampled), None);
    for (acked, lost, loss) in [(5, 3, 0.5), (8, 4, 0.25)] {
        (sampled.acked.packets, sampled.lost.packets) = (acked, lost);
        let sample = watch.sample(&sampled).unwrap();
        assert_eq!(sample.loss, loss);
        watch.take(sample, bounds);
    }
    // (0.5 + 0.25)/2 of loss, and what both windows had of the rest.
    let mean = watch.mean().unwrap();
    assert!((mean.loss - 0.375).abs() < 1e-12 && (mean.srtt - 0.03).abs() < 1e-12, "{mean:?}");
    assert_eq!(watch.sample(&sampled), None, "nothing became known");
}

#[test]
fn a_sum_that_falls_to_0_has_no_run_and_one_that_reaches_the_bound_is_no_alarm() {
    let mut sum = Sum::default();
    [0.5, -0.5, 1.0].into_iter().for_each(|excess| sum.add(excess));
    assert_eq!((sum.value, sum.run), (1.0, 1));
    // Numbers far off count as 4 deviations, 3.5 beyond δ: two make 7, which is not above 7. The third lies
    // 20/22 off a mean of 2/22, the deviation √(2·(20/22)² + 20·(2/22)²)/√21 = 0.294: 3.09 deviations, 2.59 more.
    let mut stream = Stream::default();
    let bounds = Bounds { delta: 0.5, lambda: 7.0 };
    (0..20).for_each(|_| assert_eq!(stream.take(0.0, (0.0, 1.0), bounds), None));
    assert_eq!([1e9; 3].map(|x| stream.take(x, (0.0, 1.0), bounds)), [None, None, Some(3)]);
}

#[test]
fn windows_end_at_whole_multiples_after_a_pause_too() {
    let (mut bench, mut change) = (Bench::new(vec![path(0, 30, 10, 0)]), detector(&[]));
    // From 0 on. At 250 ms one window ends, for the two that nobody saw the end of; the next ends at 300 ms.
    for (ms, is_known) in [(0, false), (250, false), (299, false), (300, true)] {
        bench.now = weftway_path::Instant::from_millis(ms);
        bench.paths[0].acked.packets += 1;
        change.observe(&bench.context());
        assert_eq!(change.recent(PathId::new(0)).is_some(), is_known, "at {ms} ms");
    }
}
