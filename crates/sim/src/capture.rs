//! Figures of a capture tool at the receiver of one subflow: the counts that the PRS paper reports (§6 there;
//! Wireshark's TCP analysis). It sees TCP sequence numbers and knows nothing of the connection's, so that reordering
//! between subflows does not show.

use weftway_path::{Instant, Span};

/// A duplicate acknowledgement makes what follows within this time a fast retransmission.
const FAST: Span = Span::from_millis(20);
/// Stands for the initial round-trip time where the capture has no handshake.
const UNKNOWN_RTT: Span = Span::from_millis(3);

/// The tags of one subflow.
#[derive(Clone, Debug, Default)]
pub struct Capture {
    /// The highest next expected number, and when it was reached.
    top: u64,
    top_at: Instant,
    last_ack: u64,
    duplicates: u32,
    last_duplicate: Instant,
    initial_rtt: Option<Span>,
    /// Packets tagged "out of order".
    pub out_of_order: u64,
    /// Packets tagged "retransmission" or "fast retransmission".
    pub retransmissions: u64,
}

impl Capture {
    /// A handshake is seen: numbers start afresh, counts go on.
    pub fn start(&mut self, rtt: Span) {
        let (out_of_order, retransmissions) = (self.out_of_order, self.retransmissions);
        *self = Self { initial_rtt: Some(rtt), out_of_order, retransmissions, ..Self::default() };
    }

    /// Packet `index` is seen.
    #[inline]
    pub fn data(&mut self, now: Instant, index: u64) {
        if index >= self.top {
            self.top = index + 1;
            self.top_at = now;
        } else {
            self.tag(now, index);
        }
    }

    fn tag(&mut self, now: Instant, index: u64) {
        let asked_for = self.duplicates >= 2 && index == self.last_ack && now.since(self.last_duplicate) <= FAST;
        let soon = now.since(self.top_at) < self.initial_rtt.unwrap_or(UNKNOWN_RTT);
        if !asked_for && soon { self.out_of_order += 1 } else { self.retransmissions += 1 }
    }

    /// An acknowledgement of everything below `cum` is seen.
    #[inline]
    pub fn ack(&mut self, now: Instant, cum: u64) {
        if cum == self.last_ack {
            self.duplicates += 1;
            self.last_duplicate = now;
        } else {
            self.last_ack = cum;
            self.duplicates = 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    /// Packet 1 is missing while 2 and 3 arrive and are answered with duplicates of 1.
    fn hole() -> Capture {
        let mut capture = Capture::default();
        capture.start(Span::from_millis(40));
        capture.data(at(0), 0);
        capture.ack(at(0), 1);
        for index in [2, 3] {
            capture.data(at(index), index);
            capture.ack(at(index), 1);
        }
        capture
    }

    #[test]
    fn an_answer_to_two_duplicates_is_a_fast_retransmission() {
        let mut capture = hole();
        capture.data(at(23), 1);
        assert_eq!((capture.out_of_order, capture.retransmissions), (0, 1));
    }

    #[test]
    fn later_than_that_but_within_a_round_trip_it_is_out_of_order() {
        let mut capture = hole();
        capture.data(at(24), 1);
        assert_eq!((capture.out_of_order, capture.retransmissions), (1, 0));
    }

    #[test]
    fn after_a_round_trip_it_is_a_retransmission() {
        let mut capture = hole();
        capture.data(at(43), 1);
        assert_eq!((capture.out_of_order, capture.retransmissions), (0, 1));
    }
}
