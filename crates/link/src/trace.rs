//! Delivery opportunities in Mahimahi's format: each line is a time in milliseconds at which up to
//! 1500 bytes may depart.
//!
//! As in Mahimahi's link shell (Netravali et al., USENIX ATC 2015): several packets share an
//! opportunity, a packet that does not fit in what is left goes on in the next one and departs with
//! it, an opportunity that nobody uses is lost, and the trace repeats from the time of its last line.
//! Two differences: an opportunity carries 1500 IP bytes, not 1504 with a device header, and time is
//! finer than a millisecond, so a packet that comes at the very instant of an opportunity may use it.

use core::fmt;

use thiserror::Error;
use weftway_path::{BitRate, Bytes, Instant, Span};

/// Bytes that one opportunity carries.
pub const OPPORTUNITY: Bytes = Bytes::new(1500);

/// A trace's rate at one time is that of the next so long.
const AHEAD: Span = Span::from_millis(100);

const NANOS_PER_MS: u64 = 1_000_000;

/// A trace that is not one.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum TraceError {
    /// There are no lines.
    #[error("the trace is empty; expected one time in milliseconds on each line")]
    Empty,
    /// A line is blank.
    #[error("line {line} is blank; expected a time in milliseconds")]
    Blank {
        /// Counted from 1.
        line: usize,
    },
    /// A line is not a whole number.
    #[error("line {line}: `{text}` is not a number; expected a time in whole milliseconds, for example 12")]
    NotANumber {
        /// Counted from 1.
        line: usize,
        /// Text of the line.
        text: String,
    },
    /// A line is a negative number.
    #[error("line {line}: {text} is negative; times start at 0 ms")]
    Negative {
        /// Counted from 1.
        line: usize,
        /// Text of the line.
        text: String,
    },
    /// A time is beyond 2³² ms, about 49 days.
    #[error("line {line}: {text} ms is too late; a trace lasts at most 4294967295 ms")]
    TooLate {
        /// Counted from 1.
        line: usize,
        /// Text of the line.
        text: String,
    },
    /// A time is earlier than the one before it.
    #[error("line {line}: {ms} ms comes after {before} ms; times must not decrease")]
    Decreasing {
        /// Counted from 1.
        line: usize,
        /// The time.
        ms: u32,
        /// The time before it.
        before: u32,
    },
    /// The last time is 0: repeated, the trace would be infinitely fast.
    #[error(
        "the last time is 0 ms, so the trace has no duration; it repeats after its last line, which must be at least 1"
    )]
    NoDuration,
}

/// Delivery opportunities, repeated for ever.
#[derive(Clone, PartialEq, Eq)]
pub struct Trace {
    /// Milliseconds; not empty, not decreasing, the last one positive.
    times: Vec<u32>,
}

impl Trace {
    /// Reads Mahimahi's format.
    pub fn parse(text: &str) -> Result<Self, TraceError> {
        let times = text.lines().enumerate().map(|(at, line)| time(at + 1, line.trim()));
        Self::new(times.collect::<Result<_, _>>()?)
    }

    /// A trace with an opportunity at each of `times`, in milliseconds.
    pub fn new(times: Vec<u32>) -> Result<Self, TraceError> {
        if let Some(at) = times.windows(2).position(|pair| pair[1] < pair[0]) {
            return Err(TraceError::Decreasing { line: at + 2, ms: times[at + 1], before: times[at] });
        }
        match times.last() {
            None => Err(TraceError::Empty),
            Some(0) => Err(TraceError::NoDuration),
            Some(_) => Ok(Self { times }),
        }
    }

    /// The times, in milliseconds.
    pub fn times(&self) -> &[u32] {
        &self.times
    }

    /// After this long it repeats.
    pub fn duration(&self) -> Span {
        Span::from_nanos(self.period())
    }

    /// The rate when every opportunity is used, rounded down.
    pub fn mean_rate(&self) -> BitRate {
        BitRate::of(Bytes::new(OPPORTUNITY.get() * self.times.len() as u64), self.duration())
    }

    /// The rate of the next [`AHEAD`].
    pub(crate) fn rate_soon(&self, now: Instant) -> BitRate {
        let count = self.opportunities_before(now + AHEAD) - self.opportunities_before(now);
        BitRate::of(Bytes::new(count * OPPORTUNITY.get()), AHEAD)
    }

    /// Opportunities before `until`, from time zero on.
    pub fn opportunities_before(&self, until: Instant) -> u64 {
        let (turn, ms) = self.split(until);
        turn.saturating_mul(self.times.len() as u64) + self.times.partition_point(|time| u64::from(*time) < ms) as u64
            // The last line of the turn before falls on the first instant of this one.
            - u64::from(ms == 0) * turn.min(1) * self.at_the_end()
    }

    /// The most opportunities that lie within a stretch of time so long, wherever it begins; both ends count.
    pub(crate) fn most_within(&self, span: Span) -> u64 {
        let lines = self.times.len() as u64;
        let mut most = 0;
        let mut end = 0;
        for first in 0..lines {
            let last = self.opportunity(first) + span;
            // Whole repetitions need no counting.
            end = end.max(first + (span.as_nanos() / self.period()).saturating_mul(lines));
            while self.opportunity(end) <= last {
                end += 1;
            }
            most = most.max(end - first);
        }
        most
    }

    /// Time of the opportunity with this number, the first one having number 0.
    pub fn opportunity(&self, number: u64) -> Instant {
        let lines = self.times.len() as u64;
        let ms = u64::from(self.times[(number % lines) as usize]);
        Instant::from_nanos((number / lines).saturating_mul(self.period()).saturating_add(ms * NANOS_PER_MS))
    }

    /// Which repetition `at` is in, and how far into it, in milliseconds rounded up.
    fn split(&self, at: Instant) -> (u64, u64) {
        (at.as_nanos() / self.period(), (at.as_nanos() % self.period()).div_ceil(NANOS_PER_MS))
    }

    fn period(&self) -> u64 {
        u64::from(self.times[self.times.len() - 1]) * NANOS_PER_MS
    }

    /// Number of opportunities that share the time of the last line.
    fn at_the_end(&self) -> u64 {
        let last = self.times[self.times.len() - 1];
        (self.times.len() - self.times.partition_point(|time| *time < last)) as u64
    }
}

/// Reads one line.
fn time(line: usize, text: &str) -> Result<u32, TraceError> {
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    match text {
        "" => Err(TraceError::Blank { line }),
        _ if digits(text) => text.parse().map_err(|_| TraceError::TooLate { line, text: text.to_owned() }),
        _ if text.strip_prefix('-').is_some_and(digits) => Err(TraceError::Negative { line, text: text.to_owned() }),
        _ => Err(TraceError::NotANumber { line, text: text.to_owned() }),
    }
}

/// Mahimahi's format, which [`Trace::parse`] reads back.
impl fmt::Display for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.times.iter().try_for_each(|time| writeln!(f, "{time}"))
    }
}

impl fmt::Debug for Trace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Trace({} opportunities in {})", self.times.len(), self.duration())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn complaint(text: &str) -> String {
        Trace::parse(text).unwrap_err().to_string()
    }

    #[test]
    fn reads_and_writes_the_format() {
        let trace = Trace::parse("1\n1\r\n12\n").unwrap();
        assert_eq!(trace.times(), [1, 1, 12]);
        assert_eq!(trace.to_string(), "1\n1\n12\n");
        assert_eq!(trace.duration(), Span::from_millis(12));
        // 3 · 12 000 bits in 12 ms.
        assert_eq!(trace.mean_rate(), BitRate::from_mbps(3));
    }

    #[test]
    fn mistakes_name_the_line_and_what_would_be_right() {
        assert_eq!(complaint(""), "the trace is empty; expected one time in milliseconds on each line");
        assert_eq!(complaint("1\n\n2"), "line 2 is blank; expected a time in milliseconds");
        assert_eq!(
            complaint("1\n2.5"),
            "line 2: `2.5` is not a number; expected a time in whole milliseconds, for example 12"
        );
        assert_eq!(complaint("-3"), "line 1: -3 is negative; times start at 0 ms");
        assert_eq!(complaint("7\n9\n8"), "line 3: 8 ms comes after 9 ms; times must not decrease");
        assert_eq!(
            complaint("1\n4294967296"),
            "line 2: 4294967296 ms is too late; a trace lasts at most 4294967295 ms"
        );
        assert_eq!(
            complaint("0\n0"),
            "the last time is 0 ms, so the trace has no duration; it repeats after its last line, which must be at least 1"
        );
    }

    /// 0, 5, 10, 10, then 10, 15, 20, 20, then 20, …
    #[test]
    fn opportunities_are_numbered_through_the_repetitions() {
        let trace = Trace::new(vec![0, 5, 10, 10]).unwrap();
        let times: Vec<u64> = (0..9).map(|number| trace.opportunity(number).as_micros() / 1_000).collect();
        assert_eq!(times, [0, 5, 10, 10, 10, 15, 20, 20, 20]);
        let before = |us| trace.opportunities_before(Instant::from_micros(us));
        assert_eq!([0, 1, 5_000, 5_001, 10_000, 10_001, 20_000, 20_001].map(before), [0, 1, 1, 2, 2, 5, 6, 9]);
    }

    #[test]
    fn ten_years_do_not_overflow() {
        let trace = Trace::new(vec![1]).unwrap();
        let ms = 10 * 365 * 86_400 * 1_000;
        assert_eq!(trace.opportunities_before(Instant::from_millis(ms)), ms - 1);
        assert_eq!(trace.opportunity(ms - 1), Instant::from_millis(ms));
        assert!(trace.opportunity(u64::MAX).is_never());
    }
}
