//! Data that were sent past the first unsent byte ([`weftway_path::Decision::Ahead`]), and the unsent bytes between
//! them.

use std::collections::VecDeque;

use weftway_path::{Bytes, Flow, Offset};

/// Data that were sent without a gap.
#[derive(Clone, Copy)]
struct Run {
    start: Offset,
    end: Offset,
    /// The bytes of all runs before it that were ever kept.
    before: Bytes,
}

/// The runs of data sent ahead, in the order of their offsets, none touching the next.
#[derive(Clone, Default)]
pub(crate) struct SentAhead(VecDeque<Run>);

impl SentAhead {
    /// The data from `start` to `end` have been sent, for the first time.
    pub(crate) fn add(&mut self, flow: &Flow, start: Offset, end: Offset) {
        while self.0.front().is_some_and(|run| run.end <= flow.next) {
            self.0.pop_front();
        }
        if start < flow.next {
            return;
        }
        // Mostly they continue the last run.
        if let Some(last) = self.0.back_mut().filter(|last| last.end == start) {
            last.end = end;
            return;
        }
        let is_last = self.0.back().is_none_or(|run| run.start < start);
        let at = if is_last { self.0.len() } else { self.0.partition_point(|run| run.start < start) };
        let bytes = end.since(start);
        let joins_before = at > 0 && self.0[at - 1].end == start;
        let joins_after = self.0.get(at).is_some_and(|run| run.start == end);
        match (joins_before, joins_after) {
            (true, true) => {
                self.0[at - 1].end = self.0[at].end;
                self.0.remove(at);
            }
            (true, false) => self.0[at - 1].end = end,
            (false, true) => self.0[at].start = start,
            (false, false) => {
                let before = at.checked_sub(1).map(|before| &self.0[before]);
                let before = before.map_or(self.0.front().map_or(Bytes::ZERO, |run| run.before), Run::up_to);
                self.0.insert(at, Run { start, end, before });
            }
        }
        // Everything after has more before it now.
        let first = if joins_before { at } else { at + 1 };
        if first < self.0.len() {
            self.0.range_mut(first..).for_each(|run| run.before += bytes);
        }
    }

    /// The unsent data, `flow` being as it is.
    #[inline(always)]
    pub(crate) fn unsent<'a>(&'a self, flow: &'a Flow) -> Unsent<'a> {
        let mut first = 0;
        while self.0.get(first).is_some_and(|run| run.start < flow.next) {
            first += 1;
        }
        let before = self.0.get(first).map_or(Bytes::ZERO, |run| run.before);
        Unsent { runs: &self.0, first, before, flow }
    }
}

/// The unsent data of a flow.
#[derive(Clone, Copy)]
pub(crate) struct Unsent<'a> {
    runs: &'a VecDeque<Run>,
    /// The first run that is not passed yet, and the bytes of those before it.
    first: usize,
    before: Bytes,
    flow: &'a Flow,
}

impl Unsent<'_> {
    /// Number of unsent bytes below the right edge.
    #[inline(always)]
    pub(crate) fn credit(&self) -> Bytes {
        let &Self { runs, first, before, flow } = self;
        // Mostly all of them are below the edge.
        let all = runs.back().is_none_or(|run| run.start < flow.edge);
        let end = if all { runs.len() } else { runs.partition_point(|run| run.start < flow.edge) };
        let sent = if end > first { runs[end - 1].up_to().saturating_sub(before) } else { Bytes::ZERO };
        flow.credit().saturating_sub(sent)
    }

    /// Offset of the unsent byte that has `skipped` unsent ones before it.
    #[inline(always)]
    pub(crate) fn past(&self, skipped: Bytes) -> Offset {
        let &Self { runs, first, before, flow } = self;
        let at = flow.next.plus(skipped);
        // Mostly the byte lies after most of them.
        for number in (first..runs.len()).rev() {
            let run = &runs[number];
            if run.start <= at.plus(run.before.saturating_sub(before)) {
                return at.plus(run.up_to().saturating_sub(before));
            }
        }
        at
    }
}

impl Run {
    /// The bytes of all runs up to its end.
    fn up_to(&self) -> Bytes {
        self.before.plus(self.end.since(self.start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_sent_ahead_is_passed_over() {
        let at = Offset::new;
        let mut flow = Flow { next: at(100), edge: at(250), ..Flow::default() };
        let mut ahead = SentAhead::default();
        // 140 to 150, 120 to 128, 128 to 130 and 110 to 115 were sent ahead, in this order; 90 to 100 was not ahead.
        [(140, 150), (120, 128), (128, 130), (110, 115), (90, 100)]
            .into_iter()
            .for_each(|(start, end)| ahead.add(&flow, at(start), at(end)));
        let runs: Vec<_> = ahead.0.iter().map(|run| (run.start.get(), run.end.get(), run.before.get())).collect();
        assert_eq!(runs, [(110, 115, 0), (120, 130, 5), (140, 150, 15)]);
        // Unsent are 100 to 110, 115 to 120, 130 to 140, and from 150 on.
        let past = |ahead: &SentAhead, flow: &Flow, n| ahead.unsent(flow).past(Bytes::new(n)).get();
        assert_eq!(
            [0, 9, 10, 14, 15, 24, 25, 30].map(|n| past(&ahead, &flow, n)),
            [100, 109, 115, 119, 130, 139, 150, 155]
        );
        assert_eq!(ahead.unsent(&flow).credit(), Bytes::new(125));
        // 130 to 140 joins its neighbours.
        ahead.add(&flow, at(130), at(140));
        assert_eq!(ahead.0.len(), 2);
        assert_eq!([14, 15].map(|n| past(&ahead, &flow, n)), [119, 150]);
        // Once all before 115 is sent, the first run is passed.
        flow.next = at(115);
        assert_eq!([0, 4, 5].map(|n| past(&ahead, &flow, n)), [115, 119, 150]);
        assert_eq!(ahead.unsent(&flow).credit(), Bytes::new(105));
        ahead.add(&flow, at(160), at(170));
        assert_eq!((ahead.0.len(), past(&ahead, &flow, 15)), (2, 170));
    }

    /// Unsent bytes counted one by one.
    #[test]
    fn many_runs_are_passed_over_as_if_bytes_were_counted() {
        let (mut ahead, mut sent, mut state) = (SentAhead::default(), vec![false; 4000], 11u64);
        let mut draw = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            (state >> 33) % below
        };
        for _ in 0..600 {
            let next = sent.iter().position(|sent| !sent).expect("unsent");
            let start = if draw(3) == 0 { next } else { next + draw(300) as usize };
            let end = start + (start..start + 5).take_while(|at| !sent[*at]).count();
            if start == end {
                continue;
            }
            sent[start..end].iter_mut().for_each(|sent| *sent = true);
            let next = sent.iter().position(|sent| !sent).expect("unsent");
            // No run lies across the edge.
            let edge = (next + 100 + draw(400) as usize..).find(|at| !sent[*at]).expect("unsent");
            let flow = Flow { next: Offset::new(next as u64), edge: Offset::new(edge as u64), ..Flow::default() };
            ahead.add(&flow, Offset::new(start as u64), Offset::new(end as u64));
            let unsent: Vec<_> = (0..sent.len()).filter(|at| !sent[*at]).collect();
            assert_eq!(ahead.unsent(&flow).credit().get() as usize, unsent.iter().filter(|at| **at < edge).count());
            for skipped in [0, 1, draw(50), draw(400)] {
                let past = ahead.unsent(&flow).past(Bytes::new(skipped));
                assert_eq!(past.get() as usize, unsent[skipped as usize]);
            }
        }
    }
}
