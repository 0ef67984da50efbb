//! NewReno: a packet for each window acknowledged, half the window for each loss.
//!
//! ```text
//! ACK, cwnd < ssthresh    cwnd += acked
//! ACK, otherwise          cwnd += mss · acked / cwnd
//! loss, ECN mark          ssthresh = max(cwnd / 2, 2 packets); cwnd = ssthresh
//! timeout, persistent     the same threshold; the window falls to its least
//! spurious                cwnd = max(cwnd, cwnd before); the threshold likewise
//! ```
//!
//! Reference: RFC 9002 §7 and appendix B (QUIC); RFC 5681, RFC 6582 and `tcp_cong.c` (Linux).
//! State: the shared window, nothing else. Departures: those of `window.rs`.

use weftway_path::Instant;

use crate::registry::Entry;
use crate::window::{Window, window_methods};
use crate::{Acked, Congestion, Controller, Share, Siblings};

pub(crate) const ENTRY: Entry = Entry {
    name: "newreno",
    aliases: &["reno", "new-reno"],
    version: 1,
    summary: "adds a packet each round trip and halves the window on loss",
    reference: "RFC 9002 §7; RFC 5681; Linux net/ipv4/tcp_cong.c",
    coupled: false,
    paced: false,
    params: &[],
    build: |_, setup| Ok(Box::new(NewReno { window: Window::new(setup) })),
};

#[derive(Clone, Debug)]
struct NewReno {
    window: Window,
}

impl Controller for NewReno {
    fn on_acked(&mut self, acked: &Acked, _: Siblings<'_>) {
        let left = self.window.grow(acked);
        if left > 0 {
            self.window.increase(left, self.window.cwnd());
        }
    }

    fn on_congestion(&mut self, congestion: &Congestion, _: Siblings<'_>) {
        if self.window.is_new(congestion) {
            self.window.reduce(congestion, self.window.cwnd() / 2);
        }
        self.window.collapse(congestion.signal);
    }

    fn on_spurious(&mut self, _: Instant) {
        self.window.undo();
    }

    window_methods!();

    fn share(&self) -> Share {
        self.window.share()
    }

    fn snapshot(&self) -> String {
        format!("cwnd {} ssthresh {}", self.window.cwnd(), self.window.ssthresh())
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{Bytes, PathId, Recovery, Span};

    use super::*;
    use crate::{Flavour, Setup, Signal};

    const MSS: Bytes = Bytes::new(1000);
    const RTT: Span = Span::from_millis(100);

    fn acked(now: Instant, delivered: Bytes) -> Acked {
        Acked {
            now,
            bytes: MSS,
            lost: Bytes::ZERO,
            prior_in_flight: MSS,
            bytes_in_flight: MSS,
            rtt: Some(RTT),
            srtt: RTT,
            min_rtt: RTT,
            newest_sent: now - RTT,
            delivered,
            prior_delivered: delivered,
            rate: None,
            interval: RTT,
            app_limited: false,
            cwnd_limited: true,
            recovery: Recovery::Open,
            reducing: false,
        }
    }

    /// With one loss in each 1/p packets the window climbs from W/2 to W in W/2 round trips, during
    /// which 3/8 W² = 1/p packets pass: on average 3/4 W = sqrt(1.5 / p), 12.25 at 1 %. As the
    /// formula does, the toy repairs a loss at once: no round trip is spent in recovery.
    #[test]
    fn the_window_follows_the_square_root_of_the_loss_rate() {
        let setup = Setup {
            path: PathId::new(0),
            mss: MSS,
            initial_window: Bytes::new(10_000),
            flavour: Flavour::Linux,
            seed: 0,
            now: Instant::ZERO,
            rtt: None,
        };
        let mut reno = NewReno { window: Window::new(&setup) };
        let (mut now, mut packets, mut windows) = (Instant::ZERO, 0, 0);
        let rounds = 2000;
        for _ in 0..rounds {
            now += RTT;
            let flight = reno.window.packets();
            windows += flight;
            for _ in 0..flight {
                packets += 1;
                if packets % 100 == 0 {
                    reno.on_congestion(&loss(now), &[]);
                    reno.set_cwnd(reno.ssthresh());
                } else {
                    reno.on_acked(&acked(now, Bytes::new(packets * 1000)), &[]);
                }
            }
        }
        let mean = windows as f64 / f64::from(rounds);
        assert!((mean / 12.25 - 1.0).abs() < 0.1, "{mean}");
    }

    fn loss(now: Instant) -> Congestion {
        Congestion { now, signal: Signal::Loss, bytes_in_flight: MSS, lost: MSS, lost_sent: now - RTT, srtt: RTT }
    }
}
