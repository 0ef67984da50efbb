//! MuSher: a fixed split between two paths, found again by search when the throughput shifts.
//!
//! Rule: of each 100 segments `r` go on the first path, the others on the second; the turn's owner
//! is waited for when it is full. Every 100 ms (200 ms in a search) the rate sent and the bytes
//! buffered are sampled, against a reference of 5 samples. If for 5 samples the rate is further
//! from it than T, or the buffer is lower by more than B, and 3 s have passed since the last
//! search: try `r + 5`; if that gains more than G, go on while it does not get worse and undo the
//! last step; else try `r − 5` likewise; else restore `r`. What a path has carried goes on another one, whoever's
//! turn it is, and does not count.
//! Reference: Saha, Aggarwal, Koutsonikolas, et al.: MuSher, MobiCom 2019; its kernel module; mptcp_ratio.c.
//! State: r and the pair that it splits, each path's segments of the turn, the reference or the search.
//! Departs from print: T, G, B are 200 and 5 Mbit/s and 75 000 bytes for links of about 800 Mbit/s;
//! `scale=relative` keeps their proportion to the reference rate: 25 %, 0.6 %, 0.75 ms. The
//! buffer is sampled, not averaged. Of more than two paths the first two are used; when they become another pair, the
//! split begins anew with it. A path that returns to its pair finds the ratio as it was.
//! The module's public versions differ in their numbers. In all that we have read, the reference is the mean of four
//! samples; a search that comes too soon after the last one began, or in slow start, is dropped, and a new reference is
//! taken; the transfer begins with a search; and a search ends with a try of half a step to either side.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{BitRate, Bytes, Context, Decision, Event, Instant, Path, PathId, SendKind, Span};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Needs, Preset, Provenance};
use crate::shared::choose;
use crate::shared::per_path::PerPath;

pub(crate) static ENTRY: Entry = Entry {
    name: "musher",
    aliases: &["mu-sher"],
    version: 3,
    summary: "a ratio of two paths, searched again when the throughput shifts",
    reference: "Saha, Aggarwal, Koutsonikolas, et al.: MuSher, MobiCom 2019; its kernel module; mptcp_ratio.c",
    provenance: Provenance::Code,
    goal: "throughput",
    application: "bulk transfer over very fast links",
    inputs: &[Input::Rate, Input::Queue],
    needs: Needs { flow: true, wake: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    presets: &[
        Preset {
            name: "musher-kernel",
            switches: "scale=absolute",
            doc: "with the thresholds of the kernel module, for links of about 800 Mbit/s",
        },
        Preset {
            name: "mptcp-ratio",
            switches: "search=false",
            doc: "`mptcp_ratio.c`: the share `ratio` of each 100 segments on the first path, for good",
        },
    ],
    params: &[
        Param { name: "ratio", default: "50", values: "percent, 5 to 95", doc: "the first path's share at the start" },
        Param {
            name: "scale",
            default: "relative",
            values: "relative | absolute",
            doc: "thresholds in proportion to the rate, or the kernel module's for links of about 800 Mbit/s",
        },
        Param {
            name: "search",
            default: "true",
            values: "true | false",
            doc: "whether the ratio is searched again; false: it stays, as in `mptcp_ratio.c`",
        },
    ],
    build,
    ..Entry::NEW
};

const SAMPLE: Span = Span::from_millis(100);
const SEARCH_SAMPLE: Span = Span::from_millis(200);
const QUIET: Span = Span::from_secs(3);
const REFERENCE_SAMPLES: u64 = 5;
const STEP: i64 = 5;
/// 75 000 bytes at 800 Mbit/s.
const BUFFER_TIME: Span = Span::from_micros(750);

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let absolute = params.choice("scale", &[("relative", false), ("absolute", true)])?;
    Ok(Box::new(Musher::new(params.within("ratio", 5..=95)?, absolute, params.get("search")?)))
}

#[derive(Clone)]
struct Musher {
    /// The ratio of a pair that has not been searched yet.
    first_ratio: i64,
    /// Percent of the segments on the first path of the pair.
    ratio: i64,
    /// Whose ratio that is; nobody's before there are two paths.
    pair: Option<[PathId; 2]>,
    absolute: bool,
    /// True if the ratio moves.
    search: bool,
    /// Segments of the turn that each path has sent.
    used: PerPath<i64>,
    last: Option<(Instant, Bytes)>,
    next: Instant,
    quiet_until: Instant,
    phase: Phase,
}

/// Bit rate sent and bytes buffered.
#[derive(Clone, Copy, Default)]
struct Sample {
    rate: u64,
    buffered: u64,
}

#[derive(Clone)]
enum Phase {
    /// Adds up the reference.
    Reference { samples: u64, sum: Sample },
    /// Counts the samples in a row that are off.
    Watch { reference: Sample, shifted: u64, drained: u64 },
    /// Has changed the ratio by `step` and looks what came of it.
    Search { home: i64, step: i64, climbing: bool, rate: u64 },
}

impl Default for Phase {
    fn default() -> Self {
        Self::Reference { samples: 0, sum: Sample::default() }
    }
}

/// The two paths that the data are split between; only one while the others are away.
fn pair<'a>(cx: &Context<'a>) -> [Option<&'a Path>; 2] {
    let mut paths = choose::standing(cx);
    [paths.next(), paths.next()]
}

impl Musher {
    fn new(ratio: i64, absolute: bool, search: bool) -> Self {
        Self {
            first_ratio: ratio,
            ratio,
            pair: None,
            absolute,
            search,
            used: PerPath::default(),
            last: None,
            next: Instant::ZERO,
            quiet_until: Instant::ZERO,
            phase: Phase::default(),
        }
    }

    /// Returns true if `pair` is another one than the ratio belongs to.
    fn is_other(&self, pair: [PathId; 2]) -> bool {
        self.pair.is_some_and(|known| known != pair)
    }

    /// The segments of the turn that `path` has sent.
    fn used(&self, path: PathId) -> i64 {
        self.used.get(path).copied().unwrap_or(0)
    }

    /// Returns true if each path of `pair` has sent its share. Of another pair than before none has sent anything.
    fn have_sent(&self, pair: [PathId; 2]) -> [bool; 2] {
        let shares = [self.ratio, 100 - self.ratio];
        [0, 1].map(|side| !self.is_other(pair) && self.used(pair[side]) >= shares[side])
    }

    /// Whose turn it is; when both have had theirs, the first begins again.
    fn owner<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        match pair(cx) {
            [Some(first), Some(second)] if self.have_sent([first.id, second.id]) == [true, false] => Some(second),
            [first, _] => first,
        }
    }

    fn note_sent(&mut self, cx: &Context<'_>, path: PathId, segments: i64) {
        if let [Some(first), Some(second)] = pair(cx)
            && self.have_sent([first.id, second.id]) == [true, true]
        {
            [first.id, second.id].into_iter().for_each(|path| self.used.reset(path));
        }
        *self.used.at(path) += segments;
    }

    /// Two other paths are the pair: nothing is known of how to split between them.
    fn look_at_pair(&mut self, cx: &Context<'_>) {
        let [Some(first), Some(second)] = pair(cx) else { return };
        let pair = [first.id, second.id];
        if self.is_other(pair) {
            self.used = PerPath::default();
            self.settle(self.first_ratio);
        }
        self.pair = Some(pair);
    }

    fn sample(&mut self, cx: &Context<'_>) {
        let total = cx.paths.iter().fold(Bytes::ZERO, |sum, path| sum + path.sent.bytes);
        let buffered = cx.flow.map_or(0, |flow| flow.end.since(flow.una).get());
        if let Some((then, before)) = self.last {
            let rate = BitRate::of(total.saturating_sub(before), cx.now.since(then)).as_bps();
            self.learn(cx.now, Sample { rate, buffered });
        }
        self.last = Some((cx.now, total));
        self.next = cx.now + if let Phase::Search { .. } = self.phase { SEARCH_SAMPLE } else { SAMPLE };
    }

    fn learn(&mut self, now: Instant, sample: Sample) {
        match self.phase {
            Phase::Reference { samples, sum } => self.phase = add_up(samples + 1, sum, sample),
            Phase::Watch { reference, shifted, drained } => {
                let shift = sample.rate.abs_diff(reference.rate) > self.rate_shift(reference);
                let drain = sample.buffered + self.buffer_drop(reference) < reference.buffered;
                let shifted = if shift { shifted + 1 } else { 0 };
                let drained = if drain { drained + 1 } else { 0 };
                self.phase = Phase::Watch { reference, shifted, drained };
                if shifted.max(drained) >= REFERENCE_SAMPLES && now >= self.quiet_until {
                    self.search(self.ratio, STEP, sample.rate);
                }
            }
            Phase::Search { home, step, climbing, rate } => {
                let gain = if climbing { 0 } else { self.gain(rate) + 1 };
                match () {
                    () if sample.rate >= rate + gain => self.climb(home, step, sample.rate),
                    () if climbing => self.settle(self.ratio - step),
                    () if step > 0 => self.search(home, -STEP, rate),
                    () => self.settle(home),
                }
                if !matches!(self.phase, Phase::Search { .. }) {
                    self.quiet_until = now + QUIET;
                }
            }
        }
    }

    /// Tries the ratio one step from `home`; at the edge the other side, if it is left.
    fn search(&mut self, home: i64, step: i64, rate: u64) {
        match home + step {
            ratio @ 5..=95 => {
                self.ratio = ratio;
                self.phase = Phase::Search { home, step, climbing: false, rate };
            }
            _ if step > 0 => self.search(home, -step, rate),
            _ => self.settle(home),
        }
    }

    fn climb(&mut self, home: i64, step: i64, rate: u64) {
        match self.ratio + step {
            ratio @ 5..=95 => {
                self.ratio = ratio;
                self.phase = Phase::Search { home, step, climbing: true, rate };
            }
            _ => self.settle(self.ratio),
        }
    }

    fn settle(&mut self, ratio: i64) {
        self.ratio = ratio;
        self.phase = Phase::default();
    }

    fn rate_shift(&self, reference: Sample) -> u64 {
        if self.absolute { 200_000_000 } else { reference.rate / 4 }
    }

    fn gain(&self, rate: u64) -> u64 {
        if self.absolute { 5_000_000 } else { rate / 1000 * 6 }
    }

    fn buffer_drop(&self, reference: Sample) -> u64 {
        let relative = || BitRate::from_bps(reference.rate).bytes_in(BUFFER_TIME).get();
        if self.absolute { 75_000 } else { relative() }
    }
}

fn add_up(samples: u64, sum: Sample, sample: Sample) -> Phase {
    let sum = Sample { rate: sum.rate + sample.rate, buffered: sum.buffered + sample.buffered };
    if samples < REFERENCE_SAMPLES {
        return Phase::Reference { samples, sum };
    }
    let reference = Sample { rate: sum.rate / samples, buffered: sum.buffered / samples };
    Phase::Watch { reference, shifted: 0, drained: 0 }
}

impl Scheduler for Musher {
    fn needs(&self) -> Needs {
        ENTRY.needs
    }

    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let path = match cx.packet {
            Some(packet) if !packet.avoid.is_empty() => choose::pick(cx, |_, _| false),
            _ => self.owner(cx).filter(|path| path.is_open()),
        };
        choose::send_or_wait(cx, path)
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.look_at_pair(cx);
        match *event {
            Event::Sent(receipt, SendKind::Fresh) => {
                if let Some(path) = pair(cx).into_iter().flatten().find(|path| path.id == receipt.path) {
                    let segments = receipt.bytes.get().div_ceil(path.mss.get().max(1));
                    self.note_sent(cx, path.id, segments as i64);
                }
            }
            Event::PathUp(path) | Event::PathDown(path) => self.used.reset(path),
            _ => {}
        }
        if self.search && cx.now >= self.next {
            self.sample(cx);
        }
    }

    fn wake(&self) -> Option<Instant> {
        self.search.then_some(self.next)
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let owner = self.owner(cx)?.id;
        let sent: Vec<_> = pair(cx).into_iter().flatten().map(|path| (path.id, self.used(path.id))).collect();
        Some(format!("turn of {owner:?}: sent {sent:?}, first path's share {} %", self.ratio))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn watching(ratio: &str) -> Musher {
        let mut musher = Musher::new(ratio.parse().unwrap(), true, true);
        (0..5).for_each(|_| musher.learn(Instant::ZERO, Sample { rate: 800_000_000, buffered: 100_000 }));
        musher
    }

    #[test]
    fn a_search_at_the_edge_goes_left_and_comes_back() {
        let mut musher = watching("95");
        // Five samples 300 Mbit/s off, more than 200.
        let low = Sample { rate: 500_000_000, buffered: 100_000 };
        (0..5).for_each(|_| musher.learn(Instant::ZERO, low));
        assert_eq!(musher.ratio, 90);
        // 505 Mbit/s do not exceed 500 + 5.
        musher.learn(Instant::from_millis(1000), Sample { rate: 505_000_000, ..low });
        assert_eq!(musher.ratio, 95);
        assert_eq!(musher.quiet_until, Instant::from_millis(4000));
    }

    #[test]
    fn one_sample_as_before_starts_the_count_again() {
        let mut musher = watching("50");
        let (usual, drained) = (100_000, 24_999);
        for buffered in [drained, drained, drained, drained, usual, drained, drained, drained, drained] {
            musher.learn(Instant::ZERO, Sample { rate: 800_000_000, buffered });
        }
        assert_eq!(musher.ratio, 50);
        musher.learn(Instant::ZERO, Sample { rate: 800_000_000, buffered: drained });
        assert_eq!(musher.ratio, 55);
    }

    #[test]
    fn thresholds_are_in_proportion_to_the_rate_or_the_kernels() {
        let mut musher = watching("50");
        let at = |mbps: u64| Sample { rate: 1_000_000 * mbps, buffered: 0 };
        // 200 and 5 Mbit/s and 75 kB at 800 Mbit/s, whatever the rate; or 25 %, 0.6 % and 0.75 ms of 80 Mbit/s.
        let of = |musher: &Musher| [musher.rate_shift(at(80)), musher.gain(80_000_000), musher.buffer_drop(at(80))];
        assert_eq!(of(&musher), [200_000_000, 5_000_000, 75_000]);
        musher.absolute = false;
        assert_eq!(of(&musher), [20_000_000, 480_000, 7_500]);
    }

    #[test]
    fn what_is_just_at_a_threshold_is_no_shift() {
        // 200 Mbit/s off, 75 kB less: neither is more. A little more of either is, five times in a row.
        for (rate, buffered, ratio) in [
            (600_000_000, 25_000, 50),
            (599_999_999, 25_000, 55),
            (1_000_000_001, 25_000, 55),
            (600_000_000, 24_999, 55),
        ] {
            let mut musher = watching("50");
            (0..5).for_each(|_| musher.learn(Instant::ZERO, Sample { rate, buffered }));
            assert_eq!(musher.ratio, ratio, "{rate} and {buffered}");
        }
    }

    #[test]
    fn a_search_waits_until_the_quiet_time_is_over() {
        let mut musher = watching("50");
        musher.quiet_until = Instant::from_millis(3000);
        let low = Sample { rate: 500_000_000, buffered: 100_000 };
        (0..9).for_each(|_| musher.learn(Instant::from_millis(2999), low));
        assert_eq!(musher.ratio, 50);
        musher.learn(Instant::from_millis(3000), low);
        assert_eq!(musher.ratio, 55);
        // As good as before does not gain 5 Mbit/s: to the left, and as that is worse, back.
        musher.learn(Instant::from_millis(3200), low);
        assert_eq!(musher.ratio, 45);
        musher.learn(Instant::from_millis(3400), Sample { rate: 505_000_000, ..low });
        assert_eq!((musher.ratio, musher.quiet_until), (50, Instant::from_millis(6400)));
    }

    #[test]
    fn a_reference_is_the_mean_of_five_samples_and_a_gain_is_more_than_its_threshold() {
        let mut musher = watching("50");
        musher.phase = Phase::default();
        for (n, mbps) in [600, 700, 800, 900, 1000].into_iter().enumerate() {
            assert!(matches!(musher.phase, Phase::Reference { samples, .. } if samples == n as u64));
            musher.learn(Instant::ZERO, Sample { rate: 1_000_000 * mbps, buffered: 1000 * mbps });
        }
        let Phase::Watch { reference, .. } = musher.phase else { panic!("five samples are a reference") };
        assert_eq!((reference.rate, reference.buffered), (800_000_000, 800_000));
        // 5 Mbit/s and a bit more are a gain: on to 60. As good as that is no worse: on to 65.
        musher.search(50, STEP, 500_000_000);
        for (rate, ratio) in [(505_000_001, 60), (505_000_001, 65), (505_000_000, 60)] {
            musher.learn(Instant::ZERO, Sample { rate, buffered: 0 });
            assert_eq!(musher.ratio, ratio);
        }
    }
}
