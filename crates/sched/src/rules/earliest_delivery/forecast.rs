//! Forecast for a path: its rates, its round trip, and when a packet on it arrives.

use weftway_path::{BitRate, Bytes, Instant, Path, Span};

use super::rates::Rates;

/// Rounds in which a window is taken to double.
const MOST_ROUNDS: u64 = 6;
/// Delay of an acknowledgement, beyond half a round trip, that is no sign of silence.
const GRACE: Span = Span::from_millis(10);

/// Forecast for a path.
#[derive(Clone, Copy, Default)]
pub(super) struct Forecast {
    pub rates: Rates,
    pub rtt: Span,
    /// Time until a packet given to it now arrives, and the round trip, by the rule alone: without a learned estimate,
    /// and without the time for which the pacer keeps it.
    pub own: Span,
    pub own_rtt: Span,
    /// Time until a packet given to it now arrives, if it is not lost.
    pub arrival: Span,
    /// Time until it arrives, with the cost of a loss.
    pub expected: Span,
    /// Time for which an acknowledgement has been overdue.
    pub overdue: Span,
    /// Time that all that it holds takes at the measured rate.
    pub clears: Span,
}

/// Tells whether the window of `path` doubles each round trip. The slow-start threshold tells that until the first loss
/// only, since BBR does not obey it.
pub(super) fn grows(path: &Path) -> bool {
    path.cwnd < path.ssthresh && path.lost.packets == 0
}

impl Forecast {
    /// Rate that the path brings.
    pub(super) fn rate(&self) -> BitRate {
        self.rates.brings
    }

    /// Time for which a packet occupies the path.
    pub(super) fn airtime(&self) -> Span {
        self.rates.airtime
    }

    /// Time for which a copy occupies the path.
    pub(super) fn copy_airtime(&self) -> Span {
        self.rates.copy_airtime
    }

    /// Time after which an acknowledgement is overdue.
    pub(super) fn patience(&self) -> Span {
        self.rtt + self.rtt / 2 + GRACE
    }

    /// Time that a packet on `path` still takes that was to arrive at `eta`, with `front` bytes in flight up to its
    /// end: no less than the path takes for those. The acknowledgements that tell what is in flight are half a round
    /// trip old.
    pub(super) fn left(&self, now: Instant, path: &Path, eta: Instant, front: Bytes) -> Span {
        eta.since(now).max(self.rates.measured.transmission_time(front).saturating_sub(path.min_rtt / 2))
    }

    /// Tells whether an acknowledgement has been overdue for more than a round trip.
    pub(super) fn is_silent(&self) -> bool {
        self.overdue > self.rtt
    }

    /// Bytes that `path` lets go in `time`.
    pub(super) fn delivers(&self, path: &Path, time: Span) -> Bytes {
        if time.is_zero() {
            return Bytes::ZERO;
        }
        let rate = self.rates.drains;
        if !grows(path) || self.rtt.is_zero() {
            return rate.bytes_in(time);
        }
        let rounds = (time.as_nanos() / self.rtt.as_nanos()).min(MOST_ROUNDS);
        let (rest, growth) = (time.saturating_sub(self.rtt * rounds), 1 << rounds);
        rate.bytes_in(self.rtt * (growth - 1)) + rate.bytes_in(rest * growth)
    }

    /// Time by which a copy on `s` should come before a packet on this path that arrives within `eta`, and is lost with
    /// a chance of `loss` thousandths: then 2.5 round trips later.
    pub(super) fn gain(&self, s: &Self, eta: Span, loss: u64) -> Span {
        let kept = eta.saturating_sub(s.expected).mul_div(1000 - loss, 1000);
        kept + (eta + self.rtt * 5 / 2).saturating_sub(s.expected).mul_div(loss, 1000)
    }

    /// Gain of a copy of an overdue packet: as likely as not it is lost.
    pub(super) fn overdue_gain(&self, s: &Self) -> Span {
        self.gain(s, self.arrival.max(self.overdue), 500)
    }
}
