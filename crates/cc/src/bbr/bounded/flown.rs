//! Packets in flight, and packets lost, when a packet left: so that losses are set against
//! the flight that they come from (`tx.in_flight`, `tx.lost` of Linux).

use std::collections::VecDeque;

use weftway_path::Instant;

/// Moment of sending; all in packets.
#[derive(Clone, Copy, Debug)]
struct Moment {
    at: Instant,
    in_flight: u64,
    lost: u64,
}

/// The moments at which the packets left that are not acknowledged, the oldest first.
#[derive(Clone, Debug, Default)]
pub(super) struct Flown {
    moments: VecDeque<Moment>,
    lost: u64,
}

impl Flown {
    /// A packet left, `in_flight` with it.
    pub(super) fn sent(&mut self, at: Instant, in_flight: u64) {
        match self.moments.back_mut().filter(|last| last.at >= at) {
            Some(last) => last.in_flight = in_flight,
            None => self.moments.push_back(Moment { at, in_flight, lost: self.lost }),
        }
    }

    /// Packets were declared lost, with `in_flight` left. That is a moment as well: what is sent
    /// again leaves without notice.
    pub(super) fn lose(&mut self, at: Instant, packets: u64, in_flight: u64) {
        self.lost = self.lost.saturating_add(packets);
        self.sent(at, in_flight);
        if let Some(last) = self.moments.back_mut() {
            last.lost = self.lost;
        }
    }

    /// Packets in flight when the packet sent at `at` left, itself included, and how many were
    /// lost since. Forgets what left before.
    pub(super) fn since(&mut self, at: Instant) -> (u64, u64) {
        while self.moments.get(1).is_some_and(|next| next.at <= at) {
            self.moments.pop_front();
        }
        self.moments.front().map_or((0, 0), |moment| (moment.in_flight, self.lost - moment.lost))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(at: u64) -> Instant {
        Instant::from_millis(at)
    }

    #[test]
    fn a_packet_finds_its_own_flight() {
        let mut flown = Flown::default();
        flown.sent(ms(1), 1);
        flown.sent(ms(2), 2);
        flown.sent(ms(2), 3);
        flown.sent(ms(3), 4);
        // Two packets left at 2 ms: the later one saw three in flight.
        assert_eq!(flown.since(ms(2)), (3, 0));
        flown.lose(ms(40), 2, 1);
        // Of the packets since 3 ms two were lost; one sent at 40 ms or later has lost none yet.
        assert_eq!(flown.since(ms(3)), (4, 2));
        assert_eq!(flown.since(ms(41)), (1, 0));
    }

    #[test]
    fn an_older_packet_than_remembered_counts_as_the_oldest() {
        let mut flown = Flown::default();
        flown.sent(ms(5), 7);
        assert_eq!(flown.since(ms(4)), (7, 0));
        assert_eq!(Flown::default().since(ms(4)), (0, 0));
    }
}
