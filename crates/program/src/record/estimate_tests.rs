use super::*;

const MS: Ns = 1_000_000;

fn direction<'a>(records: Vec<Record>, trips: &[(Ns, Ns)], trains: &'a BTreeMap<u32, Ns>) -> Direction<'a> {
    Direction { records, trains, origin_ns: 0, round_trips: trips.to_vec() }
}

/// Each probe leaves as many ns after the begin as its number says.
fn trains() -> BTreeMap<u32, Ns> {
    (0..100).map(|number| (number, Ns::from(number))).collect()
}

fn probe(number: u32, at_ms: f64, size: u32) -> Record {
    Record::probe((at_ms * 1e6).round() as Ns, size, number)
}

fn bin(at_ms: Ns, size: u32, queue_us: u32, lost: u16) -> Record {
    Record { what: What::Bin, arrived_ns: at_ms * MS, size, number: queue_us, lost }
}

fn assert_near(found: impl IntoIterator<Item = Option<f64>>, expected: &[f64]) {
    let found: Vec<_> = found.into_iter().map(|value| value.unwrap()).collect();
    let is_near = |(one, other): (&f64, &f64)| (one - other).abs() < 1e-6 * other.abs().max(1e-6);
    assert!(found.len() == expected.len() && found.iter().zip(expected).all(is_near), "{found:?}");
}

#[test]
fn the_clock_is_that_of_the_shortest_round_trip() {
    let trips = [(0, 80, 990), (1, 40, 1001)].map(|(at_ns, rtt, offset)| RoundTrip {
        at_ns,
        rtt_ns: rtt * MS,
        offset_ns: offset * MS,
    });
    assert_eq!(clock_offset_ns(trips.iter()), 1001 * MS);
}

/// Three packets of 1228 bytes after the first, one each ms: 9.824 Mbit/s; of a gap only the length counts.
#[test]
fn a_train_tells_the_rate_at_which_it_arrived() {
    let whole: Vec<_> = (0..4).map(|number| probe(number, 20.0 + f64::from(number), 1228)).collect();
    let at_once: BTreeMap<_, _> = (0..4).map(|number| (number, 0)).collect();
    // The last one left at 2 ms of the 3 ms in which it arrived: that is the sender's rate.
    let slowly = BTreeMap::from([(0, 0), (3, 2 * MS)]);
    for (train, left, fast) in
        [(whole.clone(), &at_once, true), (vec![whole[0], whole[3]], &at_once, true), (whole.clone(), &slowly, false)]
    {
        let found = train_mbps(&train, left);
        assert_near([found.map(|(mbps, _)| mbps)], &[9.824]);
        assert_eq!(found.map(|(_, fast)| fast), Some(fast));
    }
    assert_eq!(train_mbps(&whole[..2], &at_once), None, "two packets are too few");
    assert_eq!(train_mbps(&[], &at_once), None);
}

/// Four steps of 8 probes, each 30 ms on its way. In the second one packet is lost; in the third all are.
#[test]
fn probes_tell_delay_loss_and_outages() {
    let there = (0..32).filter(|number| *number != 13 && !(16..24).contains(number));
    let later = |number: u32| if number % 8 < 4 { 0.1 * f64::from(number % 8) } else { 0.0 };
    let at_ms = |number| probes::due_ns(number) as f64 / 1e6 + 30.0 + later(number);
    let records = there.map(|number| probe(number, at_ms(number), 1228)).collect();
    let trips = [(100 * MS, 60 * MS), (200 * MS, 64 * MS), (700 * MS, 80 * MS)];
    let trains = trains();
    let found = estimate(&direction(records, &trips, &trains), 4, false);
    // 1228 bytes in 0.1 ms. Nothing came in the third step; its probes are an outage, and not losses.
    assert_near(found.steps.iter().map(|step| step.mbps), &[98.24, 98.24, 0.0, 98.24]);
    assert_eq!((found.probes_sent, found.probes_lost), (24, 1));
    let losses: Vec<_> = found.steps.iter().map(|step| step.loss_percent).collect();
    assert_eq!(losses, [Some(100.0 / 24.0), None, None, None]);
    // Half of 62 and of 80 ms; then nothing is known.
    let delays: Vec<_> = found.steps.iter().map(|step| step.delay_ms).collect();
    assert_eq!(delays, [Some(31.0), Some(40.0), None, None]);
    assert_eq!(found.rtt_ms, Some(64.0));
}

/// 62 500 bytes in 0.5 s are 1 Mbit/s. The bin at 495 ms lies half in the second step.
#[test]
fn under_load_the_rate_is_what_arrived_in_the_step() {
    let records = vec![bin(100, 62_500, 5000, 0), bin(495, 62_500, 5000, 0), probe(3, 600.0, 31_250)];
    let trips = [(-900, 40), (-800, 44), (-100, 300), (-50, 300), (200, 500)].map(|(at, rtt)| (at * MS, rtt * MS));
    let trains = trains();
    let found = estimate(&direction(records, &trips, &trains), 2, true);
    assert_near(found.steps.iter().map(|step| step.mbps), &[1.5, 1.0]);
    // The delay is of the time before the load.
    let rest: Vec<_> = found.steps.iter().map(|step| (step.delay_ms, step.loss_percent)).collect();
    assert_eq!((rest, found.not_full), (vec![(Some(21.0), None), (None, None)], 0));
    assert_near([found.mean_mbps()], &[1.25]);
}

#[test]
fn a_link_that_was_idle_under_load_is_told() {
    let trains = trains();
    let found = |records| estimate(&direction(records, &[], &trains), 2, true).not_full;
    assert_eq!(found((0..100).map(|at| bin(at * 10, 1000, if at < 30 { 0 } else { 5000 }, 0)).collect()), 1);
    assert_eq!(found((0..100).map(|at| bin(at * 10, 1000, 0, 1)).collect()), 0);
}

#[test]
fn trains_that_left_slowly_are_the_least_that_a_link_carries() {
    let records = (0..4).map(|number| probe(number, 20.0 + f64::from(number), 1228)).collect();
    let slowly = (0..4).map(|number| (number, Ns::from(number) * MS)).collect();
    let found = estimate(&direction(records, &[], &slowly), 1, false);
    assert!(found.slow);
    assert_near(found.steps.iter().map(|step| step.mbps), &[9.824]);
    assert_eq!(estimate(&direction(Vec::new(), &[], &slowly), 0, false).mean_mbps(), None);
}
