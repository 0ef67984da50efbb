//! Which paths share a bottleneck: as somebody knows, or as their round-trip times tell.
//!
//! Paths through one queue see it grow and shrink together, whatever else their delays are. At the end of each interval
//! a path's mean round-trip time is compared with that of the interval before: it rose, fell, or stayed. Of 64
//! intervals that makes two words for each path.
//!
//! ```text
//! x = +1, 0, −1                    for each interval in which the mean rose, stayed, fell
//! r = cov(x_i, x_j) / √(var(x_i) · var(x_j))
//! one group                        while r ≥ 1/2; once together, while r ≥ 1/3
//! ```
//!
//! A path is compared with the first path of each group, by counting bits; also with either of them an interval later,
//! since a path with a longer way back hears of the queue later. A group has the number of its first path.
//! Nothing is known of a path before it has been watched for half of the memory.
//!
//! Reference: the aim and the means, round-trip times summed up over intervals, are those of RFC 8382 (shared
//! bottleneck detection). It compares how the delays of flows are distributed; we compare when they change, since two
//! paths with bottlenecks of their own, but alike, have delays that are distributed alike.
//! State: two words and a mean for each path; the sums are those that every path keeps.
//! `docs/explanation/shared-bottlenecks.md` says how often it is wrong.

use weftway_path::{Instant, Path, PathId, Span};

use super::Views;

/// Long against the differences between the paths' delays, short against the swings of a queue.
const INTERVAL: Span = Span::from_millis(200);
/// Intervals that are remembered, and those without which nothing is said.
const MEMORY: u32 = u64::BITS;
const LEAST: u32 = MEMORY / 2;
/// Bound that r² must reach, as one over this: 1/2 to join a group, 1/3 to stay in it.
const JOIN: i64 = 4;
const STAY: i64 = 9;
/// A change below this part of the mean change is none.
const STILL: u64 = 4;

/// Knowledge that a connection has of its paths' bottlenecks.
#[derive(Clone, Debug)]
pub struct Groups {
    of: Vec<Option<u8>>,
    /// Time to look again; never, unless it is to be found out.
    due: Instant,
    traces: Vec<Trace>,
}

impl Groups {
    /// As `of` says, for each path: for good.
    pub fn given(of: Vec<Option<u8>>) -> Self {
        Self { of, due: Instant::NEVER, traces: Vec::new() }
    }

    /// To be found out for `paths` paths.
    pub fn detected(paths: usize) -> Self {
        Self { of: vec![None; paths], due: Instant::ZERO, traces: vec![Trace::default(); paths] }
    }

    /// The bottleneck of a path, if it is known.
    pub fn of(&self, path: PathId) -> Option<u8> {
        self.of[path.index()]
    }

    /// Returns true if an interval is over.
    #[inline]
    pub fn is_due(&self, now: Instant) -> bool {
        self.due <= now
    }

    /// An interval is over: groups the paths anew.
    pub fn look(&mut self, now: Instant, views: &mut Views) {
        self.due = now + INTERVAL;
        for (at, trace) in self.traces.iter_mut().enumerate() {
            trace.look(views.get(PathId::new(at as u8)));
        }
        for at in 0..self.traces.len() {
            let group = self.place(at);
            self.of[at] = group;
            views.get_mut(PathId::new(at as u8)).bottleneck = group;
        }
    }

    /// The group of path `at`, when those of the paths before it are known.
    fn place(&self, at: usize) -> Option<u8> {
        let trace = &self.traces[at];
        if trace.watched < LEAST {
            return None;
        }
        let leads = |&first: &usize| self.of[first] == Some(first as u8);
        let alike = |&first: &usize| {
            let least = if self.of[at] == Some(first as u8) { STAY } else { JOIN };
            trace.is_alike(&self.traces[first], least)
        };
        let first = (0..at).filter(leads).find(alike);
        Some(first.unwrap_or(at) as u8)
    }
}

/// Moves of one path's round-trip time.
#[derive(Clone, Debug, Default)]
struct Trace {
    /// The path's sums at the end of the last interval.
    sum: Span,
    samples: u64,
    /// The mean of the last interval, and the smoothed change from one to the next.
    mean: Option<Span>,
    change: Span,
    /// The intervals in which it rose, and in which it fell; the last one in the lowest bit.
    rose: u64,
    fell: u64,
    watched: u32,
}

impl Trace {
    fn look(&mut self, path: &Path) {
        if path.rtt_samples < self.samples || path.rtt_sum < self.sum {
            // It came up anew.
            *self = Self::default();
        }
        let samples = path.rtt_samples - self.samples;
        let mean = (samples > 0).then(|| (path.rtt_sum - self.sum) / samples);
        let (rose, fell) = self.moved(mean);
        self.rose = self.rose << 1 | u64::from(rose);
        self.fell = self.fell << 1 | u64::from(fell);
        (self.sum, self.samples) = (path.rtt_sum, path.rtt_samples);
        self.watched = match self.watched {
            // The first interval has nothing before it.
            0 if mean.is_none() => 0,
            watched => (watched + 1).min(MEMORY),
        };
        self.mean = mean;
    }

    fn moved(&mut self, mean: Option<Span>) -> (bool, bool) {
        let (Some(now), Some(before)) = (mean, self.mean) else { return (false, false) };
        let change = now.abs_diff(before);
        self.change = (self.change * 7 + change) / 8;
        let counts = change > self.change / STILL;
        (counts && now > before, counts && now < before)
    }

    /// Returns true if r² with `other` is at least one over `least`, and r above zero, where either hears of the queue
    /// in the same interval or one of them an interval later.
    fn is_alike(&self, other: &Self, least: i64) -> bool {
        let later = |late: u32, other_late: u32| {
            let intervals = self.watched.min(other.watched) - late.max(other_late);
            correlate(self.signs(late), other.signs(other_late), intervals, least)
        };
        later(0, 0) || later(1, 0) || later(0, 1)
    }

    /// In which intervals it rose and fell, but for the last `late`.
    fn signs(&self, late: u32) -> (u64, u64) {
        (self.rose >> late, self.fell >> late)
    }
}

/// Returns true if the last `intervals` signs of two paths have r² of at least one over `least`, and r above zero.
fn correlate(one: (u64, u64), other: (u64, u64), intervals: u32, least: i64) -> bool {
    let mask = u64::MAX >> (MEMORY - intervals);
    let n = i64::from(intervals);
    let count = |bits: u64| i64::from((bits & mask).count_ones());
    let sums = |signs: (u64, u64)| (count(signs.0) - count(signs.1), count(signs.0 | signs.1));
    let ((sum, squares), (other_sum, other_squares)) = (sums(one), sums(other));
    let same = count(one.0 & other.0) + count(one.1 & other.1);
    let opposite = count(one.0 & other.1) + count(one.1 & other.0);
    let covariance = n * (same - opposite) - sum * other_sum;
    let variance = (n * squares - sum * sum, n * other_squares - other_sum * other_sum);
    // At most 64⁴ · 9.
    covariance > 0 && covariance * covariance * least >= variance.0 * variance.1
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Bytes;

    /// Up and down in turn, for ever.
    const SWINGS: (u64, u64) = (0x5555_5555_5555_5555, 0xaaaa_aaaa_aaaa_aaaa);

    #[test]
    fn signs_that_agree_correlate() {
        assert!(correlate(SWINGS, SWINGS, 64, 1));
        // r is −1.
        assert!(!correlate(SWINGS, (SWINGS.1, SWINGS.0), 64, STAY));
        // Of 64 signs 16 are opposite: r = (48 − 16) / 64 = 1/2.
        let turned = 0xffff_u64;
        let other = (SWINGS.0 ^ turned, SWINGS.1 ^ turned);
        assert!(correlate(SWINGS, other, 64, JOIN) && !correlate(SWINGS, other, 64, JOIN - 1));
    }

    #[test]
    fn what_only_rises_tells_nothing() {
        assert!(!correlate((u64::MAX, 0), (u64::MAX, 0), 64, STAY));
        assert!(!correlate((0, 0), SWINGS, 32, STAY));
    }

    #[test]
    fn a_path_that_comes_up_anew_is_watched_anew() {
        let mut path = Path::new(PathId::new(0), Bytes::new(1), Bytes::new(1));
        let mut trace = Trace::default();
        for ms in [40, 60, 50] {
            path.rtt_sum += Span::from_millis(ms);
            path.rtt_samples += 1;
            trace.look(&path);
        }
        // Up by 20 ms, down by 10 ms.
        assert_eq!((trace.rose & 3, trace.fell & 3, trace.watched), (2, 1, 3));
        (path.rtt_sum, path.rtt_samples) = (Span::from_millis(30), 1);
        trace.look(&path);
        assert_eq!((trace.rose, trace.fell, trace.watched), (0, 0, 1));
    }
}
