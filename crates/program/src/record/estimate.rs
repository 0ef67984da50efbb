//! Estimates from what left and what came: the rate, the delay and the losses of a direction, for each moment.
//!
//! Times are by the clock of the end with the links, in ns from the begin of the recording.

use std::collections::{BTreeMap, BTreeSet};

use super::arrivals::{BIN_NS, MOST_QUEUE_US, Record, What};
use super::channel::RoundTrip;
use super::line::Line;
use super::probes::{self, STEP_NS};
use super::recording::Recorded;
use super::wire::Ns;

/// A share of losses is of so many steps: 80 packets.
const LOSS_STEPS: usize = 10;
/// A train says nothing of the link if its sender took more than this share of the time in which it arrived.
const SLOW_SENDER: f64 = 0.5;
/// Packets, first and last included, between which a train's rate is taken.
const LEAST_OF_TRAIN: u32 = 3;
/// A link has nothing left to do where load waits for less than this.
const EMPTY_QUEUE_US: u32 = 1000;
/// A link was not always full in a step if in more than this share of its time no load waited and none was lost.
const EMPTY_SHARE: f64 = 0.2;

/// Knowledge of one direction of a path.
pub struct Direction<'a> {
    /// In the order in which they came; times from the begin of the recording.
    pub records: Vec<Record>,
    /// Times when the probes of trains left, by their numbers; by any clock, since only differences count.
    pub trains: &'a BTreeMap<u32, Ns>,
    /// Time when the first probe left.
    pub origin_ns: Ns,
    /// Time when each was complete, and how long it took.
    pub round_trips: Vec<(Ns, Ns)>,
}

/// Values of a link from one line to the next.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Step {
    /// Rate of IP bytes.
    pub mbps: Option<f64>,
    /// Delay one way: half a round trip.
    pub delay_ms: Option<f64>,
    /// Share of its packets.
    pub loss_percent: Option<f64>,
}

/// A direction of a path.
#[derive(Debug, Default)]
pub struct Estimate {
    /// Each half second.
    pub steps: Vec<Step>,
    /// Under load: in so many steps the link may have carried more.
    pub not_full: usize,
    /// True if no train left faster than the link carries, so that the link carries at least the rate.
    pub slow: bool,
    /// The median round trip; under load, of the time before it.
    pub rtt_ms: Option<f64>,
    /// Probes that left while the link carried anything.
    pub probes_sent: usize,
    /// Packets of them that did not come.
    pub probes_lost: usize,
}

impl Estimate {
    /// The mean rate: a rate holds until the next one.
    pub fn mean_mbps(&self) -> Option<f64> {
        let mut now = None;
        let known: Vec<_> = self
            .steps
            .iter()
            .filter_map(|step| {
                now = step.mbps.or(now);
                now
            })
            .collect();
        (!known.is_empty()).then(|| known.iter().sum::<f64>() / known.len() as f64)
    }
}

/// Both directions, seen from the end with the links.
pub struct Path {
    /// Interface or address.
    pub name: String,
    /// To the other end.
    pub up: Estimate,
    /// Direction from it.
    pub down: Estimate,
}

impl Path {
    /// Both directions, by name.
    pub fn directions(&self) -> [(&'static str, &Estimate); 2] {
        [("down", &self.down), ("up", &self.up)]
    }
}

/// All paths of a recording, for as many steps as are known of each.
pub fn paths(recorded: &Recorded) -> Vec<Path> {
    let trips = recorded.lines.iter().filter_map(|line| line.channel.as_ref()).flat_map(|channel| &channel.round_trips);
    let offset_ns = clock_offset_ns(trips);
    let sides: Vec<_> =
        recorded.lines.iter().filter_map(|line| Some((line, sides(recorded, line, offset_ns)?))).collect();
    let ends = sides.iter().filter(|(line, _)| !line.is_complete).map(|(_, (up, _))| known(up));
    let (count, load) = (ends.fold(recorded.steps(), usize::min), recorded.plan.load);
    let path = |(line, (up, down)): &(&Line, (Direction<'_>, Direction<'_>))| Path {
        name: line.name.clone(),
        up: estimate(up, count, load),
        down: estimate(down, count, load),
    };
    sides.iter().map(path).collect()
}

/// The other end's clock less this one's, by the shortest round trip: no more than half of it can be wrong.
fn clock_offset_ns<'a>(trips: impl Iterator<Item = &'a RoundTrip>) -> Ns {
    trips.min_by_key(|trip| trip.rtt_ns).map_or(0, |trip| trip.offset_ns)
}

/// Both directions of a path that was greeted, up and down.
fn sides<'a>(recorded: &Recorded, line: &'a Line, offset_ns: Ns) -> Option<(Direction<'a>, Direction<'a>)> {
    let (channel, begin_ns) = (line.channel.as_ref()?, recorded.begin_ns);
    let round_trips: Vec<_> = channel.round_trips.iter().map(|trip| (trip.at_ns - begin_ns, trip.rtt_ns)).collect();
    let shift_ns = offset_ns + begin_ns;
    let down = Direction {
        records: shifted(&channel.arrivals.records, begin_ns),
        trains: &channel.trains,
        origin_ns: line.other_begin_ns - shift_ns,
        round_trips: round_trips.clone(),
    };
    let up = Direction {
        records: shifted(&line.records, shift_ns),
        trains: &channel.probes_sent_ns,
        origin_ns: channel.begin_ns - begin_ns,
        round_trips,
    };
    Some((up, down))
}

/// Number of steps of which it is known what came, of a direction whose last records did not arrive.
fn known(up: &Direction<'_>) -> usize {
    let last = up.records.iter().map(|one| one.arrived_ns).max().unwrap_or(0);
    usize::try_from(last.div_euclid(STEP_NS)).unwrap_or(0)
}

fn shifted(records: &[Record], by_ns: Ns) -> Vec<Record> {
    records.iter().map(|one| Record { arrived_ns: one.arrived_ns - by_ns, ..*one }).collect()
}

/// Values of the link in each of the first `count` steps.
fn estimate(direction: &Direction<'_>, count: usize, under_load: bool) -> Estimate {
    let (mut carried, mut came) = (vec![0.0; count], vec![false; count]);
    for record in &direction.records {
        spread(record, &mut carried, &mut came);
    }
    let (rates, delays, losses, mut made);
    if under_load {
        rates = carried.iter().map(|bytes| Some(bytes * 8e3 / STEP_NS as f64)).collect();
        let before: Vec<_> = direction.round_trips.iter().filter(|(at, _)| *at < 0).map(|(_, rtt)| *rtt).collect();
        // Probes that wait behind our own load tell neither the delay nor the losses of the link.
        let quiet = median(before.iter().copied().take((before.len() / 2).max(1)).collect());
        delays = (0..count).map(|step| quiet.filter(|_| step == 0).map(|rtt| rtt / 2e6)).collect();
        losses = vec![None; count];
        let rtt_ms = quiet.map(|rtt| rtt / 1e6);
        made = Estimate { not_full: not_full(direction, count), rtt_ms, ..Estimate::default() };
    } else {
        made = Estimate::default();
        (rates, made.slow) = train_rates(direction, &came);
        delays = steps_delays(direction, count);
        (losses, made.probes_sent, made.probes_lost) = steps_losses(direction, &came);
        let trips = direction.round_trips.iter().filter(|(at, _)| step_of(*at, count).is_some());
        made.rtt_ms = median(trips.map(|(_, rtt)| *rtt).collect()).map(|rtt| rtt / 1e6);
    }
    let values = begun(rates).into_iter().zip(begun(delays)).zip(begun(losses));
    made.steps = values.map(|((mbps, delay_ms), loss_percent)| Step { mbps, delay_ms, loss_percent }).collect();
    made
}

/// The step in which a moment is, if it is one of the first `count`.
fn step_of(at_ns: Ns, count: usize) -> Option<usize> {
    usize::try_from(at_ns.div_euclid(STEP_NS)).ok().filter(|step| *step < count)
}

/// Adds the bytes of a record to the steps in which they came: those of a bin evenly.
fn spread(record: &Record, carried: &mut [f64], came: &mut [bool]) {
    let took = if record.what == What::Bin { BIN_NS } else { 0 };
    let rest = record.arrived_ns.rem_euclid(STEP_NS);
    let later = if took > 0 { (rest + took - STEP_NS).max(0) as f64 / took as f64 } else { 0.0 };
    for (at_ns, share) in [(record.arrived_ns, 1.0 - later), (record.arrived_ns + STEP_NS, later)] {
        if let Some(at) = step_of(at_ns, carried.len()).filter(|_| share > 0.0) {
            carried[at] += share * f64::from(record.size);
            came[at] = true;
        }
    }
}

/// Rate that each step's train reached, 0 where nothing came at all; true: all left too slowly to say more.
fn train_rates(direction: &Direction<'_>, came: &[bool]) -> (Vec<Option<f64>>, bool) {
    let mut trains: BTreeMap<u32, Vec<Record>> = BTreeMap::new();
    for record in direction.records.iter().filter(|record| record.what == What::Probe) {
        if let Some(train) = probes::in_train(record.number) {
            trains.entry(train).or_default().push(*record);
        }
    }
    let mut clean: Vec<_> = came.iter().map(|came| if *came { None } else { Some(0.0) }).collect();
    let mut every = clean.clone();
    for some in trains.values_mut() {
        some.sort_by_key(|record| record.number);
        let at = some.first().and_then(|first| step_of(first.arrived_ns, came.len()));
        let (Some(at), Some((mbps, left_fast))) = (at, train_mbps(some, direction.trains)) else { continue };
        every[at] = Some(mbps);
        if left_fast {
            clean[at] = Some(mbps);
        }
    }
    let any = |rates: &[Option<f64>]| rates.iter().flatten().any(|mbps| *mbps > 0.0);
    let is_slow = !any(&clean) && any(&every);
    (if is_slow { every } else { clean }, is_slow)
}

/// The rate at which a train arrived; true: it left at twice that rate or more.
fn train_mbps(train: &[Record], left_ns: &BTreeMap<u32, Ns>) -> Option<(f64, bool)> {
    let (first, last) = (train.first()?, train.last()?);
    let took = last.arrived_ns - first.arrived_ns;
    let between = last.number - first.number;
    if between + 1 < LEAST_OF_TRAIN || took <= 0 {
        return None;
    }
    // What is lost between them was on the link, too.
    let bits = f64::from(between) * f64::from(last.size) * 8.0;
    let sent = match (left_ns.get(&first.number), left_ns.get(&last.number)) {
        (Some(first), Some(last)) => last - first,
        _ => took,
    };
    Some((bits * 1e3 / took as f64, sent as f64 <= SLOW_SENDER * took as f64))
}

/// The share that is lost of the probes of some steps; without the steps in which the link carried nothing.
fn steps_losses(direction: &Direction<'_>, came: &[bool]) -> (Vec<Option<f64>>, usize, usize) {
    let probes = direction.records.iter().filter(|record| record.what == What::Probe);
    let there: BTreeSet<_> = probes.map(|record| record.number).collect();
    let mut found = vec![None; came.len()];
    let (mut all_sent, mut all_lost) = (0, 0);
    for begin in (0..came.len()).step_by(LOSS_STEPS) {
        let steps = (begin..came.len().min(begin + LOSS_STEPS)).filter(|step| came[*step]);
        let left: Vec<_> = steps.flat_map(|step| left_in(direction, step)).collect();
        let lost = left.iter().filter(|number| !there.contains(number)).count();
        all_sent += left.len();
        all_lost += lost;
        if !left.is_empty() {
            found[begin] = Some(100.0 * lost as f64 / left.len() as f64);
        }
    }
    (found, all_sent, all_lost)
}

fn left_in(direction: &Direction<'_>, step: usize) -> std::ops::Range<u32> {
    let begin_ns = time_of(step) - direction.origin_ns;
    probes::between(begin_ns, begin_ns + STEP_NS)
}

fn time_of(step: usize) -> Ns {
    Ns::try_from(step).unwrap_or(0).saturating_mul(STEP_NS)
}

fn steps_delays(direction: &Direction<'_>, count: usize) -> Vec<Option<f64>> {
    let mut by_step = vec![Vec::new(); count];
    for (at, rtt) in &direction.round_trips {
        if let Some(step) = step_of(*at, count) {
            by_step[step].push(*rtt);
        }
    }
    by_step.into_iter().map(|some| median(some).map(|rtt| rtt / 2e6)).collect()
}

/// Number of steps in which load came, and the link had nothing left to do for a while.
fn not_full(direction: &Direction<'_>, count: usize) -> usize {
    let (mut bins, mut empty) = (vec![0usize; count], vec![0usize; count]);
    let is_of_load = |one: &&Record| one.what == What::Bin && one.number < MOST_QUEUE_US;
    for one in direction.records.iter().filter(is_of_load) {
        if let Some(step) = step_of(one.arrived_ns, count) {
            bins[step] += 1;
            empty[step] += usize::from(one.number < EMPTY_QUEUE_US && one.lost == 0);
        }
    }
    let is_not_full = |(all, empty): &(usize, usize)| *empty as f64 > EMPTY_SHARE * (*all).max(1) as f64;
    bins.into_iter().zip(empty).filter(is_not_full).count()
}

/// A drive begins with a value: the first that was measured.
fn begun(mut values: Vec<Option<f64>>) -> Vec<Option<f64>> {
    let first = values.iter().flatten().next().copied();
    if let Some(begin) = values.first_mut() {
        *begin = first;
    }
    values
}

fn median(mut values: Vec<Ns>) -> Option<f64> {
    values.sort_unstable();
    let middle = values.len() / 2;
    let upper = *values.get(middle)? as f64;
    Some(if values.len() % 2 == 1 { upper } else { (values[middle - 1] as f64 + upper) / 2.0 })
}

#[cfg(test)]
#[path = "estimate_tests.rs"]
mod tests;
