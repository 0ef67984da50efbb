//! What XQUIC remembers of a path's packets.

use std::collections::VecDeque;

use weftway_path::{Instant, Offset, Receipt, Span};

/// What was sent and lost in the span at hand and in the one before.
#[derive(Clone, Default)]
pub(super) struct Recent {
    since: Option<Instant>,
    spans: [Tally; 2],
}

#[derive(Clone, Copy, Default)]
struct Tally {
    sent: u64,
    lost: u64,
}

impl Recent {
    /// Counts a packet; a span of five srtt that is over makes room for the next.
    pub(super) fn note_sent(&mut self, now: Instant, srtt: Span) {
        self.spans[0].sent += 1;
        if now >= *self.since.get_or_insert(now) + srtt * 5 {
            self.since = Some(now);
            self.spans = [Tally::default(), self.spans[0]];
        }
    }

    pub(super) fn note_lost(&mut self) {
        self.spans[0].lost += 1;
    }

    /// Whether more than `percent` of a span's packets were lost. What is two spans old is not recent: a path that is
    /// not used sends nothing that would bring a new one.
    pub(super) fn lost_more(&self, percent: u64, now: Instant, srtt: Span) -> bool {
        let is_recent = self.since.is_some_and(|since| now < since + srtt * 10);
        is_recent && self.spans.iter().any(|span| span.sent > 0 && span.lost * 100 > span.sent * percent)
    }
}

/// A path's packets in flight that went out once, oldest first.
#[derive(Clone, Default)]
pub(super) struct Once(VecDeque<Record>);

#[derive(Clone, Copy)]
pub(super) struct Record {
    pub(super) serial: u64,
    pub(super) offset: Offset,
    pub(super) sent: Instant,
    is_gone: bool,
}

impl Once {
    /// The oldest.
    pub(super) fn first(&self) -> Option<&Record> {
        self.0.front()
    }

    pub(super) fn push(&mut self, now: Instant, receipt: &Receipt) {
        // A repair on the same path under its old number is no new packet.
        if self.0.back().is_none_or(|newest| newest.serial < receipt.serial) {
            self.0.push_back(Record { serial: receipt.serial, offset: receipt.offset, sent: now, is_gone: false });
        }
    }

    /// The oldest has had its second time.
    pub(super) fn pass(&mut self) {
        self.0.pop_front();
        self.skip_gone();
    }

    /// Packet `serial` is acknowledged or lost.
    pub(super) fn remove(&mut self, serial: u64) {
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
    fn an_unused_path_does_not_keep_its_losses_for_ever() {
        let srtt = Span::from_millis(20);
        let mut recent = Recent::default();
        for ms in 0..5 {
            recent.note_sent(Instant::from_millis(ms), srtt);
        }
        recent.note_lost();
        // One of five; two spans of 100 ms later it is no longer recent.
        assert!(recent.lost_more(10, Instant::from_millis(199), srtt));
        assert!(!recent.lost_more(10, Instant::from_millis(200), srtt));
    }
}
