//! Largest amount that a link can carry: the bound against which a transfer is measured. Loss, delay and
//! the queue do not enter. A redrawn rate counts with its mean, and then no other change of the rate
//! does; a constant rate that fades counts with its mean, too: the bound holds on average. Fades of a trace
//! do not enter.

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::{Fade, LinkConfig, OPPORTUNITY, Rate, Set};

/// Bits times 10⁹: what a rate in bits per second does in nanoseconds.
pub(crate) type Work = u128;

pub(crate) const WORK_PER_BYTE: Work = 8_000_000_000;

/// IP bytes that can depart from `from` on and before `to`, rounded down.
pub fn capacity(config: &LinkConfig, from: Instant, to: Instant) -> Bytes {
    let work: Work = segments(config, from).iter().map(|segment| segment.work(to)).sum();
    Bytes::new(u64::try_from(work / WORK_PER_BYTE).unwrap_or(u64::MAX))
}

/// Earliest departure of the last of `bytes`, if the first is ready at `from`;
/// [`Instant::NEVER`] when the link never carries so many.
pub fn time_to_carry(config: &LinkConfig, bytes: Bytes, from: Instant) -> Instant {
    let mut need = Work::from(bytes.get()) * WORK_PER_BYTE;
    if need == 0 {
        return from;
    }
    for segment in segments(config, from) {
        let done = segment.finish(need);
        if done <= segment.end && !done.is_never() {
            return done;
        }
        need -= segment.work(segment.end);
    }
    Instant::NEVER
}

/// A stretch of time with one rate.
#[derive(Debug)]
pub(crate) struct Segment {
    pub(crate) start: Instant,
    pub(crate) end: Instant,
    pub(crate) rate: Rate,
}

/// The link from `from` on.
fn segments(config: &LinkConfig, from: Instant) -> Vec<Segment> {
    let mut changes: Vec<_> = config.changes.iter().collect();
    changes.sort_by_key(|change| change.at);
    let mut segments = Vec::new();
    let (mut rate, mut up, mut start) = (first_rate(config), true, from);
    // When what holds now came, if it came with a change.
    let mut came = None;
    let mut close = |start: Instant, end: Instant, up: bool, rate: &Rate, came: Option<Instant>| {
        // A trace that is replaced at the instant at which it came still has its opportunity of that instant.
        let is_instant = end == start && came == Some(start) && matches!(rate, Rate::Trace(_));
        if end > start || is_instant {
            let rate = if up { faded(rate, config.fade) } else { Rate::Constant(BitRate::ZERO) };
            segments.push(Segment { start, end, rate });
        }
    };
    let redrawn = config.redraw.as_ref().is_some_and(|redraw| redraw.rate.is_some());
    for change in changes {
        let (next, is_up) = match &change.set {
            Set::Rate(next) if !redrawn => (next, up),
            Set::Down if up => (&rate, false),
            Set::Up if !up => (&rate, true),
            _ => continue,
        };
        let next = next.clone();
        close(start, change.at, up, &rate, came);
        (rate, up, start, came) = (next, is_up, start.max(change.at), Some(change.at));
    }
    close(start, Instant::NEVER, up, &rate, came);
    segments
}

fn first_rate(config: &LinkConfig) -> Rate {
    match config.redraw.as_ref().and_then(|redraw| redraw.rate) {
        Some((low, high)) => Rate::Constant(BitRate::from_bps(low.as_bps().midpoint(high.as_bps()))),
        None => config.rate.clone(),
    }
}

/// The mean of a rate, fades included.
fn faded(rate: &Rate, fade: Option<Fade>) -> Rate {
    let (Rate::Constant(rate), Some(Fade { share, floor: (low, high), .. })) = (rate, fade) else {
        return rate.clone();
    };
    let floor = low.as_bps().midpoint(high.as_bps());
    let lost = rate.as_bps().saturating_sub(floor) as f64 * share.clamp(0.0, 1.0);
    Rate::Constant(BitRate::from_bps(rate.as_bps() - (lost as u64).min(rate.as_bps())))
}

impl Segment {
    /// Work that can be done before `to`. A trace's opportunity at the very end of the segment counts: what
    /// departs at the instant of a change has departed.
    pub(crate) fn work(&self, to: Instant) -> Work {
        let to = to.min(self.end);
        if to < self.start {
            return 0;
        }
        match &self.rate {
            Rate::Constant(rate) => Work::from(rate.as_bps()) * Work::from(to.since(self.start).as_nanos()),
            Rate::Trace(trace) => {
                let to = if to == self.end { to + Span::from_nanos(1) } else { to };
                let count = trace.opportunities_before(to) - trace.opportunities_before(self.start);
                Work::from(count) * Work::from(OPPORTUNITY.get()) * WORK_PER_BYTE
            }
        }
    }

    /// Time at which `need` would be done if this segment did not end.
    fn finish(&self, need: Work) -> Instant {
        match &self.rate {
            Rate::Constant(BitRate::ZERO) => Instant::NEVER,
            Rate::Constant(rate) => {
                let nanos = need.div_ceil(Work::from(rate.as_bps()));
                Instant::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX).saturating_add(self.start.as_nanos()))
            }
            Rate::Trace(trace) => {
                let count = need.div_ceil(Work::from(OPPORTUNITY.get()) * WORK_PER_BYTE);
                let last = Work::from(trace.opportunities_before(self.start)) + count - 1;
                trace.opportunity(u64::try_from(last).unwrap_or(u64::MAX))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::{Change, Redraw, Trace};

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn link(mbps: u64, changes: Vec<(u64, Set)>) -> LinkConfig {
        let changes = changes.into_iter().map(|(ms, set)| Change { at: at(ms), set }).collect();
        LinkConfig { rate: BitRate::from_mbps(mbps).into(), changes, ..LinkConfig::default() }
    }

    fn both_ways(config: &LinkConfig, bytes: u64, from: Instant, to: Instant) {
        assert_eq!(capacity(config, from, to), Bytes::new(bytes));
        assert_eq!(time_to_carry(config, Bytes::new(bytes), from), to);
    }

    /// 10 Mbit/s are 1250 B a millisecond.
    #[test]
    fn constant() {
        both_ways(&link(10, vec![]), 12_500, at(5), at(15));
    }

    /// 1250 B/ms until 10 ms, 2500 B/ms until 20 ms, nothing until 30 ms, then 2500 B/ms again: from 8
    /// to 31 ms 2500 + 25 000 + 2500 B.
    #[test]
    fn schedule_with_a_failure() {
        let double = Set::Rate(BitRate::from_mbps(20).into());
        both_ways(&link(10, vec![(20, Set::Down), (30, Set::Up), (10, double)]), 30_000, at(8), at(31));
    }

    /// Opportunities at 5, 7, 10, 15, 17, 20 ms, …: 7, 10, 15 and 17 are before 20 and not before 7.
    #[test]
    fn trace() {
        let trace = Trace::new(vec![5, 7, 10]).unwrap();
        let config = LinkConfig { rate: Rate::Trace(Arc::new(trace)), ..LinkConfig::default() };
        assert_eq!(capacity(&config, at(7), at(20)), Bytes::new(4 * 1500));
        assert_eq!(time_to_carry(&config, Bytes::new(4 * 1500), at(7)), at(17));
        // One byte more needs the next opportunity.
        assert_eq!(time_to_carry(&config, Bytes::new(4 * 1500 + 1), at(7)), at(20));
    }

    #[test]
    fn a_trace_that_is_replaced_at_once_has_one_opportunity() {
        let trace = |every| Set::Rate(Rate::Trace(Arc::new(Trace::new(vec![every]).unwrap())));
        let slow = Set::Rate(BitRate::from_bps(12_000).into());
        // Nothing until 18 ms, one opportunity there, then 1500 B a second.
        let config = link(0, vec![(18, trace(9)), (18, slow.clone())]);
        assert_eq!(time_to_carry(&config, Bytes::new(1500), at(0)), at(18));
        assert_eq!(time_to_carry(&config, Bytes::new(3000), at(0)), at(1018));
        // What changes no rate between them adds none.
        let config = link(0, vec![(18, trace(9)), (18, Set::Up), (18, Set::Delay(Span::ZERO)), (18, slow)]);
        assert_eq!(capacity(&config, at(0), at(1018)), Bytes::new(3000));
    }

    /// A fifth of the time 2 Mbit/s in the mean instead of 10: 8.4 Mbit/s; a rate below the floor is as it was.
    #[test]
    fn a_rate_that_fades_counts_with_its_mean() {
        let floor = (BitRate::from_mbps(1), BitRate::from_mbps(3));
        let fade = Some(Fade { share: 0.2, median: Span::from_secs(1), sigma: 1.0, floor, group: 0 });
        let carried = |mbps| capacity(&LinkConfig { fade, ..link(mbps, vec![]) }, at(0), at(1000)).get();
        assert_eq!((carried(10), carried(1)), (1_050_000, 125_000));
    }

    /// Between 8 and 12 Mbit/s: 10 on average.
    #[test]
    fn redrawn() {
        let rate = Some((BitRate::from_mbps(8), BitRate::from_mbps(12)));
        let redraw = Redraw { every: Span::from_millis(100), rate, ..Redraw::default() };
        both_ways(&LinkConfig { redraw: Some(redraw), ..link(1, vec![]) }, 1250, at(0), at(1));
    }

    #[test]
    fn a_link_that_fails_for_good_never_carries_the_rest() {
        let config = link(10, vec![(1, Set::Down)]);
        assert_eq!(capacity(&config, at(0), at(1_000_000)), Bytes::new(1250));
        assert_eq!(time_to_carry(&config, Bytes::new(1250), at(0)), at(1));
        assert!(time_to_carry(&config, Bytes::new(1251), at(0)).is_never());
    }

    /// 1 Tbit/s for ten years is 3.9 · 10¹⁹ bytes, more than 64 bits hold; 1 Gbit/s 3.9 · 10¹⁶.
    #[test]
    fn ten_years_do_not_overflow() {
        let years = Instant::ZERO + Span::from_secs(10 * 365 * 86_400);
        assert_eq!(capacity(&link(1_000_000, vec![]), at(0), years), Bytes::MAX);
        both_ways(&link(1_000, vec![]), 315_360_000 * 125_000_000, at(0), years);
    }
}
