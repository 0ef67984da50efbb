//! Holes: data that were sent ahead of data that are not sent yet.

use std::collections::VecDeque;

use weftway_path::{Bytes, Flow, Offset};

/// Ranges at or after the first unsent byte that have been sent, in order.
#[derive(Clone, Default)]
pub(super) struct Holes(VecDeque<Offset>);

impl Holes {
    /// The data at `offset` have been sent.
    pub(super) fn add(&mut self, flow: &Flow, offset: Offset) {
        while self.0.front().is_some_and(|hole| *hole < flow.next) {
            self.0.pop_front();
        }
        if offset >= flow.next {
            let at = self.0.partition_point(|hole| *hole < offset);
            self.0.insert(at, offset);
        }
    }

    /// Returns the offset of the unsent packet that has `skipped` unsent ones before it.
    pub(super) fn past(&self, flow: &Flow, skipped: u64, mss: Bytes) -> Offset {
        let start = self.0.partition_point(|hole| *hole < flow.next);
        // How many unsent packets lie before the hole of this index.
        let unsent = |at: usize| self.0[at].since(flow.next).packets(mss).saturating_sub((at - start) as u64);
        let (mut low, mut high) = (start, self.0.len());
        while low < high {
            let middle = low + (high - low) / 2;
            if unsent(middle) <= skipped { low = middle + 1 } else { high = middle }
        }
        flow.next + Bytes::new((skipped + (low - start) as u64).saturating_mul(mss.get()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{MSS, packets};

    #[test]
    fn what_was_sent_ahead_is_passed_over() {
        let at = |n| Offset::ZERO + packets(n);
        let mut flow = Flow { next: at(10), ..Flow::default() };
        let mut holes = Holes::default();
        // 14, 12 and 13 were sent ahead, in this order; 9 was not ahead.
        [14, 12, 13, 9].into_iter().for_each(|n| holes.add(&flow, at(n)));
        assert_eq!(holes.0, [at(12), at(13), at(14)]);
        // Unsent are 10, 11, 15, 16.
        let unsent = |holes: &Holes, flow: &Flow| [0, 1, 2, 3].map(|skipped| holes.past(flow, skipped, MSS));
        assert_eq!(unsent(&holes, &flow), [10, 11, 15, 16].map(at));
        // Once 10 to 14 are sent, unsent are 15 to 18; those before are dropped with the next that is added.
        flow.next = at(15);
        assert_eq!(unsent(&holes, &flow), [15, 16, 17, 18].map(at));
        // 15 is the next one itself.
        holes.add(&flow, at(17));
        assert_eq!(holes.0, [at(17)]);
        assert_eq!(unsent(&holes, &flow), [15, 16, 18, 19].map(at));
        holes.add(&flow, at(15));
        holes.add(&flow, at(19));
        assert_eq!(holes.0, [at(15), at(17), at(19)]);
        assert_eq!(unsent(&holes, &flow), [16, 18, 20, 21].map(at));
        // Seven lie between what was sent before 13 and 20.
        let mut holes = Holes::default();
        flow.next = at(12);
        [12, 20].into_iter().for_each(|n| holes.add(&flow, at(n)));
        flow.next = at(13);
        assert_eq!([6, 7].map(|skipped| holes.past(&flow, skipped, MSS)), [19, 21].map(at));
    }
}
