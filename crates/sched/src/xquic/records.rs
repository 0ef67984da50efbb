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

    /// Whether more than `percent` of a span's packets were lost.
    pub(super) fn lost_more(&self, percent: u64) -> bool {
        self.spans.iter().any(|span| span.sent > 0 && span.lost * 100 > span.sent * percent)
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
