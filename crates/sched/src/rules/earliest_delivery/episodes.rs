//! How often a path has lost something.

use weftway_path::{Instant, Path};

/// How often a path has lost something. What it loses within a round trip counts once.
#[derive(Clone, Copy, Default)]
pub(super) struct Episodes {
    count: u64,
    last: Instant,
}

impl Episodes {
    /// The path has lost a packet.
    pub(super) fn note(&mut self, now: Instant, path: &Path) {
        if self.count == 0 || now.since(self.last) > path.srtt {
            (self.count, self.last) = (self.count + 1, now);
        }
    }

    /// Whether it counts: what slow start has lost does not.
    pub(super) fn counts(self) -> bool {
        self.count > 1
    }

    /// The chance that one of `packets` is lost, in thousandths.
    pub(super) fn chance(self, packets: u64, path: &Path) -> u64 {
        let lost = packets.saturating_mul(self.count.saturating_sub(1)).saturating_mul(1000);
        lost.checked_div(path.sent.packets).unwrap_or(0).min(1000)
    }
}
