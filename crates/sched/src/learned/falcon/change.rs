//! Test for a change of the network: Page and Hinkley's test on what is measured of each path.
//!
//! Once in 100 ms each path gives three numbers: srtt, delivery rate, and the fraction lost of the
//! packets whose fate became known. A window in which that was none says nothing of the path.
//! Each stream's number x is set against the mean and the deviation of the stream's numbers since
//! the last change, `z = (x − mean)/deviation` within [−4, 4], and
//!   `up = max(0, up + z − δ)`, `down = max(0, down − z − δ)`;
//! either above λ is an alarm: this is the test's `Σ(z − δ)` less its least value so far. Each
//! stream's first 20 numbers only make its mean. The alarm ends all streams; a path that comes or
//! goes ends its own.
//! Reference: Page, Continuous inspection schemes, 1954; Hinkley, 1971.
//! A deviation counts as no less than a share of the mean (5 % of srtt, 10 % of rate) or one
//! packet lost in a hundred: what varies less than that has not changed.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Counters, Instant, Path, PathId, Span};

use crate::shared::per_path::PerPath;

/// Distance from the mean that counts for nothing. With the 0.05 and λ = 8 of the first specification,
/// steady noise of two paths (normal, 10 and 20 %) gives 2282 alarms in 10⁵ windows, as a mean of 20
/// numbers alone errs by 0.22. With 0.5 and 14 there is none, and of 200 steps to twice the rate the
/// slowest is found in 5 and 8 windows; λ = 12 gives one alarm, λ = 16 takes 9 windows.
pub(crate) const DELTA: Param = Param {
    name: "delta",
    default: "0.5",
    values: "deviations, 0 to 10",
    doc: "by how many deviations a measure may lie off its mean without counting as changed",
};

/// Sum that is a change.
pub(crate) const LAMBDA: Param = Param {
    name: "lambda",
    default: "14",
    values: "deviations, 0 to 1000",
    doc: "how many deviations beyond that, in sum over windows of 100 ms, are a change",
};

/// Between two numbers of a stream.
const WINDOW: Span = Span::from_millis(100);

/// Numbers that make a mean before anything is tested.
const DWELL: u32 = 20;

/// Numbers of a path that are kept for [`Change::recent`].
const KEPT: usize = 20;

/// Farthest that a single number counts: one alone is no change.
const FARTHEST: f64 = 4.0;

/// The least deviation, as a share of the mean and as such: srtt, delivery rate, loss.
const FLOORS: [(f64, f64); STREAMS] = [(0.05, 1e-6), (0.1, 1.0), (0.0, 0.01)];

const STREAMS: usize = 3;

/// Measures of a path in a window.
#[derive(Clone, Copy, PartialEq, Debug, Default)]
pub(crate) struct Sample {
    /// Seconds.
    pub(crate) srtt: f64,
    /// Bits per second.
    pub(crate) rate: f64,
    /// The fraction of packets lost.
    pub(crate) loss: f64,
}

impl Sample {
    /// Measures of `path` now; of loss, the fraction since it began.
    pub(crate) fn of(path: &Path) -> Self {
        let known = (path.acked.packets + path.lost.packets).max(1);
        let loss = path.lost.packets as f64 / known as f64;
        Self { srtt: path.srtt.as_secs_f64(), rate: path.delivery_rate.as_bps() as f64, loss }
    }
}

/// The test's bounds.
#[derive(Clone, Copy, Debug)]
struct Bounds {
    delta: f64,
    lambda: f64,
}

/// The detector of a connection.
#[derive(Clone)]
pub(crate) struct Change {
    bounds: Bounds,
    paths: PerPath<Watch>,
    /// Time at which the window began.
    since: Option<Instant>,
}

/// Watch on one path.
#[derive(Clone, Default)]
struct Watch {
    before: Option<(Counters, Counters)>,
    streams: [Stream; STREAMS],
    newest: [Sample; KEPT],
    /// Number of windows of the network as it is, and the place of the next one.
    filled: usize,
    next: usize,
}

/// Mean and spread of a stream since the last change, and the test's two sums.
#[derive(Clone, Copy, Default, Debug)]
struct Stream {
    count: u32,
    mean: f64,
    squares: f64,
    up: Sum,
    down: Sum,
}

/// A sum that does not fall below 0, and for how many numbers it has not been there.
#[derive(Clone, Copy, Default, Debug)]
struct Sum {
    value: f64,
    run: usize,
}

impl Sum {
    fn add(&mut self, excess: f64) {
        let value = self.value + excess;
        *self = if value > 0.0 { Self { value, run: self.run + 1 } } else { Self::default() };
    }
}

impl Stream {
    /// Takes the next number in. At an alarm, for how many numbers the change may have lasted.
    fn take(&mut self, x: f64, floor: (f64, f64), bounds: Bounds) -> Option<usize> {
        if self.count >= DWELL {
            let z = self.z(x, floor);
            self.up.add(z - bounds.delta);
            self.down.add(-z - bounds.delta);
        }
        self.count += 1;
        let off = x - self.mean;
        self.mean += off / f64::from(self.count);
        self.squares += off * (x - self.mean);
        [self.up, self.down].iter().find(|sum| sum.value > bounds.lambda).map(|sum| sum.run)
    }

    /// `x` against the numbers before it.
    fn z(&self, x: f64, (share, least): (f64, f64)) -> f64 {
        let deviation = libm::sqrt(self.squares / f64::from(self.count - 1));
        let deviation = deviation.max(share * self.mean).max(least);
        ((x - self.mean) / deviation).clamp(-FARTHEST, FARTHEST)
    }
}

impl Watch {
    /// Returns the measures of `path` since this was last asked; none if nothing became known.
    fn sample(&mut self, path: &Path) -> Option<Sample> {
        let (acked, lost) = self.before.replace((path.acked, path.lost))?;
        let acked = path.acked.packets.saturating_sub(acked.packets);
        let lost = path.lost.packets.saturating_sub(lost.packets);
        if acked + lost == 0 {
            return None;
        }
        Some(Sample { loss: lost as f64 / (acked + lost) as f64, ..Sample::of(path) })
    }

    fn take(&mut self, sample: Sample, bounds: Bounds) -> Option<usize> {
        self.newest[self.next] = sample;
        self.next = (self.next + 1) % KEPT;
        self.filled = (self.filled + 1).min(KEPT);
        let numbers = [sample.srtt, sample.rate, sample.loss];
        let streams = self.streams.iter_mut().zip(numbers).zip(FLOORS);
        streams.filter_map(|((stream, x), floor)| stream.take(x, floor, bounds)).min()
    }

    /// Begins anew; the newest `run` numbers are of the network as it is now.
    fn restart(&mut self, run: usize) {
        self.streams = Default::default();
        self.filled = self.filled.min(run);
    }

    fn mean(&self) -> Option<Sample> {
        let newest = (1..=self.filled).map(|back| self.newest[(self.next + KEPT - back) % KEPT]);
        let sum = newest.fold(Sample::default(), |sum, sample| Sample {
            srtt: sum.srtt + sample.srtt,
            rate: sum.rate + sample.rate,
            loss: sum.loss + sample.loss,
        });
        let count = self.filled as f64;
        (self.filled > 0).then(|| Sample { srtt: sum.srtt / count, rate: sum.rate / count, loss: sum.loss / count })
    }
}

impl Change {
    /// Makes a test that has seen nothing.
    pub(crate) fn new(params: &Params) -> Result<Self, SpecError> {
        let bounds =
            Bounds { delta: params.within("delta", 0.0..=10.0)?, lambda: params.within("lambda", 0.0..=1000.0)? };
        Ok(Self { bounds, paths: PerPath::default(), since: None })
    }

    /// Ends a window if it is time to, and says whether the network has changed.
    pub(crate) fn observe(&mut self, cx: &Context<'_>) -> bool {
        let since = *self.since.get_or_insert(cx.now);
        if cx.now.since(since) < WINDOW {
            return false;
        }
        // The windows end at whole multiples; of those that nobody saw the end, one is made.
        let whole = cx.now.since(since).as_nanos() / WINDOW.as_nanos();
        self.since = Some(since + WINDOW * whole);
        let mut run: Option<usize> = None;
        for path in cx.paths {
            let watch = self.paths.at(path.id);
            let found = watch.sample(path).and_then(|sample| watch.take(sample, self.bounds));
            run = run.into_iter().chain(found).min();
        }
        let Some(run) = run else { return false };
        cx.paths.iter().for_each(|path| self.paths.at(path.id).restart(run));
        true
    }

    /// The mean of what `path` gave in its newest 20 windows, those before the last change left
    /// out; none before the first.
    pub(crate) fn recent(&self, path: PathId) -> Option<Sample> {
        self.paths.get(path).and_then(Watch::mean)
    }

    /// Forgets `path`.
    pub(crate) fn forget(&mut self, path: PathId) {
        self.paths.reset(path);
    }
}

#[cfg(test)]
mod tests;
