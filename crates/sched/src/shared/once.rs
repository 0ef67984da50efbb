//! The packets in flight that went out once: those that a rule may send a second time, on another path.

use std::collections::VecDeque;

use weftway_path::{Instant, Offset, Receipt};

/// A path's packets in flight that went out once, oldest first, each with what a rule wants to know of it.
#[derive(Clone)]
pub(crate) struct Once<T = ()>(VecDeque<Record<T>>);

/// Such a packet.
#[derive(Clone, Copy)]
pub(crate) struct Record<T> {
    pub(crate) serial: u64,
    pub(crate) offset: Offset,
    pub(crate) sent: Instant,
    pub(crate) about: T,
    is_gone: bool,
}

impl<T> Default for Once<T> {
    fn default() -> Self {
        Self(VecDeque::new())
    }
}

impl<T> Once<T> {
    /// The oldest.
    pub(crate) fn first(&self) -> Option<&Record<T>> {
        self.0.front()
    }

    pub(crate) fn push(&mut self, now: Instant, receipt: &Receipt, about: T) {
        // A repair on the same path under its old number is no new packet.
        if self.0.back().is_none_or(|newest| newest.serial < receipt.serial) {
            let Receipt { serial, offset, .. } = *receipt;
            self.0.push_back(Record { serial, offset, sent: now, about, is_gone: false });
        }
    }

    /// The oldest has had its second time.
    pub(crate) fn pass(&mut self) {
        self.0.pop_front();
        self.skip_gone();
    }

    /// Packet `serial` is acknowledged or lost.
    pub(crate) fn remove(&mut self, serial: u64) {
        if let Ok(at) = self.0.binary_search_by_key(&serial, |record| record.serial) {
            self.0[at].is_gone = true;
            self.skip_gone();
        }
    }

    fn skip_gone(&mut self) {
        while self.0.front().is_some_and(|record| record.is_gone) {
            self.0.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_packet_that_goes_again_under_its_number_is_no_new_one() {
        let receipt = |serial| Receipt {
            serial,
            ..Receipt { path: Default::default(), offset: Default::default(), bytes: Default::default(), serial }
        };
        let mut once = Once::default();
        [4, 5, 5, 4, 6].into_iter().for_each(|serial| once.push(Instant::ZERO, &receipt(serial), ()));
        assert_eq!(once.0.iter().map(|record| record.serial).collect::<Vec<_>>(), [4, 5, 6]);
    }
}
