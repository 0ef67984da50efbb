//! Bytes that copies may take: a share of what was sent once in the last second.

use weftway_path::{Bytes, Instant, Span};

/// Parts of the second that is remembered, and how long one is.
const PARTS: usize = 8;
const PART: Span = Span::from_millis(125);

/// Bytes sent in the last second.
#[derive(Clone, Default)]
pub(super) struct Budget {
    /// Bytes sent once, and bytes of copies, in each part.
    parts: [[Bytes; 2]; PARTS],
    /// Number of the newest part since time zero.
    part: u64,
}

impl Budget {
    fn turn(&mut self, now: Instant) -> &mut [Bytes; 2] {
        let part = now.since(Instant::ZERO).as_nanos() / PART.as_nanos();
        for gone in (self.part + 1..=part).take(PARTS) {
            self.parts[gone as usize % PARTS] = Default::default();
        }
        self.part = self.part.max(part);
        &mut self.parts[self.part as usize % PARTS]
    }

    /// Takes a packet that left and is no copy.
    pub(super) fn sent_once(&mut self, now: Instant, bytes: Bytes) {
        self.turn(now)[0] += bytes;
    }

    /// Takes a copy that left.
    pub(super) fn copied(&mut self, now: Instant, bytes: Bytes) {
        self.turn(now)[1] += bytes;
    }

    /// Bytes that were sent once.
    pub(super) fn once(&mut self, now: Instant) -> Bytes {
        self.turn(now);
        self.parts.iter().fold(Bytes::ZERO, |sum, part| sum + part[0])
    }

    /// Tells whether a copy of so many bytes keeps copies within so many thousandths of what was sent once.
    pub(super) fn allows(&mut self, now: Instant, bytes: Bytes, permille: u64) -> bool {
        let once = self.once(now);
        let copies = self.parts.iter().fold(Bytes::ZERO, |sum, part| sum + part[1]);
        copies + bytes <= once.mul_div(permille, 1000)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 10 packets of 1000 B allow 3 copies at 30 %; after a second they are forgotten.
    #[test]
    fn copies_are_a_share_of_what_was_sent_in_the_last_second() {
        let (at, packet) = (Instant::from_millis, Bytes::new(1000));
        let mut budget = Budget::default();
        assert!(!budget.allows(at(0), packet, 300));
        (0..10).for_each(|_| budget.sent_once(at(5000), packet));
        for _ in 0..3 {
            assert!(budget.allows(at(5100), packet, 300));
            budget.copied(at(5100), packet);
        }
        assert!(!budget.allows(at(5100), packet, 300) && !budget.allows(at(5990), packet, 300));
        budget.sent_once(at(5990), Bytes::new(3334));
        assert!(budget.allows(at(5990), packet, 300));
        // Of the first ten and their copies nothing counts any more: 30 % of 3334 B are left.
        assert!(budget.allows(at(6000), packet, 300));
        budget.copied(at(6000), packet);
        assert!(!budget.allows(at(6000), packet, 300));
    }
}
