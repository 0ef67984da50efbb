//! Memory of XQUIC for a path's recent losses.

use weftway_path::{Instant, Span};

/// Packets sent and lost in the span at hand and in the one before.
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

    /// Returns true if more than `percent` of a span's packets were lost. What is two spans old is not recent: a path
    /// that is not used sends nothing that would bring a new one.
    pub(super) fn lost_more(&self, percent: u64, now: Instant, srtt: Span) -> bool {
        let is_recent = self.since.is_some_and(|since| now < since + srtt * 10);
        is_recent && self.spans.iter().any(|span| span.sent > 0 && span.lost * 100 > span.sent * percent)
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

    #[test]
    fn a_span_is_over_after_five_round_trips_and_counts_what_it_sent() {
        let (srtt, ms) = (Span::from_millis(20), Instant::from_millis);
        let mut recent = Recent::default();
        // Two packets until 100 ms, one of them lost; then one, which ends the next span at 200 ms.
        recent.note_sent(ms(0), srtt);
        recent.note_lost();
        recent.note_sent(ms(100), srtt);
        // Half of two is more than 49 % and not more than 50. A loss in a span that has sent nothing is no share.
        recent.note_lost();
        assert_eq!([49, 50].map(|percent| recent.lost_more(percent, ms(150), srtt)), [true, false]);
        recent.spans[0] = Tally::default();
        recent.note_sent(ms(200), srtt);
        assert!(!recent.lost_more(10, ms(201), srtt));
    }
}
