//! What was sent ahead of data that are not sent yet.

use std::collections::VecDeque;

use weftway_path::{Bytes, Flow, Offset};

/// Where data at or after the first unsent byte have been sent, in order.
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

    /// Where the unsent packet lies that has `skipped` unsent ones before it.
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
