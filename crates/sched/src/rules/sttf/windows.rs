//! The windows that a path will have, and what they hold, without counting packet by packet.

use weftway_path::{Bytes, Path};

/// Windows and queues in packets are cut off here, so that squares of their sums fit in 64 bits.
pub(super) const MOST: u64 = 1 << 30;

/// Growth of the window in slow start.
#[derive(Clone, Copy)]
pub(super) enum Growth {
    UpToThreshold,
    PastThreshold,
}

/// Windows to come, in packets.
#[derive(Clone, Copy)]
pub(super) struct Windows {
    /// The newest.
    last: u64,
    threshold: u64,
    growth: Growth,
}

impl Windows {
    pub(super) fn of(path: &Path, growth: Growth) -> Self {
        let packets = |bytes: Bytes| bytes.packets(path.mss).min(MOST);
        Self { last: packets(path.cwnd), threshold: packets(path.ssthresh), growth }
    }

    /// The next window of slow start.
    pub(super) fn double(&mut self) -> Option<u64> {
        let doubled = (2 * self.last).max(1);
        let next = match self.growth {
            Growth::UpToThreshold if self.last < self.threshold => doubled.min(self.threshold),
            Growth::PastThreshold if self.last <= self.threshold => doubled,
            _ => return None,
        };
        self.last = next.min(MOST);
        (self.last < MOST).then_some(self.last)
    }

    /// Returns how many packets `rounds` windows hold, or `limit` if that is less.
    pub(super) fn hold(mut self, mut rounds: u64, limit: u64) -> u64 {
        let mut held = 0;
        while rounds > 0 && held < limit {
            let Some(window) = self.double() else {
                // w + 1, w + 2, …
                let rounds = rounds.min(MOST);
                let grown = rounds * self.last + rounds * (rounds + 1) / 2;
                return (held + grown).min(limit);
            };
            held += window;
            rounds -= 1;
        }
        held.min(limit)
    }

    /// Returns how many windows it takes for `packets`, at least one.
    pub(super) fn rounds(mut self, packets: u64) -> u64 {
        let (mut left, mut rounds) = (packets.clamp(1, MOST), 0);
        while let Some(window) = self.double() {
            rounds += 1;
            if left <= window {
                return rounds;
            }
            left -= window;
        }
        // The least r with r·w + r·(r + 1)/2 ≥ left.
        if left <= self.last + 1 {
            return rounds + 1;
        }
        let b = 2 * self.last + 1;
        let r = ((b * b + 8 * left).isqrt() - b) / 2;
        let held = r * self.last + r * (r + 1) / 2;
        rounds + r + u64::from(held < left)
    }
}
