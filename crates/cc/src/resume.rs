//! A window remembered from an earlier connection: Careful Resume (RFC 9959, draft-ietf-tsvwg-careful-resume), around
//! any controller.
//!
//! ```text
//! reconnaissance   the initial window is out; once as much is acknowledged without congestion, the window was the limit
//!                  and saved_rtt / 2 < srtt < 10 saved_rtt: window = saved_window / 2, pipe = in flight
//! unvalidated      the window stays, and is paced over a round trip; when it is full, a packet of it is acknowledged
//!                  or a round trip is over: window = in flight. Was less than an initial window in flight, the
//!                  application limits the path: window = max(pipe, initial window), and it is over
//! validating       grows as ever; over when the last unvalidated packet is acknowledged
//! safe retreat     congestion before that: window = pipe / 2, where pipe has grown by each acknowledgement; over with
//!                  the last unvalidated packet: ssthresh is at most pipe · 0.7
//! ```
//!
//! Read from implementations of the draft (neqo's and picoquic's), not from the RFC itself. Packets are told apart by
//! when they left. Departures: whoever remembers a window decides how long it is worth something; and QUIC paces a
//! controller without a rate as in slow start, two windows in a round trip.

use weftway_path::{BitRate, Bytes, Instant, Span};

use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Share, Siblings, Signal};

/// Window and round-trip time of a path in an earlier connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Remembered {
    /// Its window.
    pub window: Bytes,
    /// Its round-trip time.
    pub rtt: Span,
}

/// Phase of a resumption.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Reconnaissance {
        acked: Bytes,
    },
    /// Its begin, and the departure of the newest packet.
    Unvalidated {
        since: Instant,
        last: Instant,
    },
    /// Departure of the last unvalidated packet.
    Validating {
        last: Instant,
    },
    Retreat {
        last: Instant,
    },
    Over,
}

#[derive(Clone)]
struct Resumed {
    inner: Box<dyn Controller>,
    remembered: Remembered,
    flavour: Flavour,
    initial_window: Bytes,
    srtt: Option<Span>,
    phase: Phase,
    /// Bytes that the path is known to hold.
    pipe: Bytes,
    /// True if the controller within paces.
    paces: bool,
}

/// Puts the resumption of a remembered window around a controller that was made with `setup`.
pub fn resume(inner: Box<dyn Controller>, remembered: Remembered, setup: &Setup) -> Box<dyn Controller> {
    Box::new(Resumed {
        remembered,
        flavour: setup.flavour,
        initial_window: setup.initial_window,
        srtt: setup.rtt,
        phase: Phase::Reconnaissance { acked: Bytes::ZERO },
        pipe: Bytes::ZERO,
        paces: inner.pacing_rate().is_some(),
        inner,
    })
}

impl Resumed {
    fn jump(&self) -> Bytes {
        self.remembered.window.mul_div(1, 2)
    }

    /// Returns true if the path may be the remembered one.
    fn is_alike(&self, srtt: Span) -> bool {
        let saved = self.remembered.rtt;
        srtt > saved / 2 && srtt < saved * 10
    }

    /// The window while packets of the jump are lost.
    fn retreat(&self) -> Bytes {
        let mss = self.inner.share().mss;
        self.pipe.mul_div(1, 2).max(mss + mss)
    }

    /// Ends the jump, with as much in flight as there is.
    fn validate(&mut self, in_flight: Bytes, last: Instant) {
        self.inner.set_cwnd(in_flight);
        self.phase = Phase::Validating { last };
    }

    /// Lets the window jump, once an initial window has arrived, if it may.
    fn reconnoitre(&mut self, acked: &Acked, total: Bytes) {
        self.phase = Phase::Reconnaissance { acked: total };
        if total < self.initial_window || !acked.cwnd_limited {
            return;
        }
        self.phase = Phase::Over;
        if self.is_alike(acked.srtt) && self.jump() > self.inner.cwnd() {
            self.pipe = acked.bytes_in_flight;
            self.inner.set_cwnd(self.jump());
            self.phase = Phase::Unvalidated { since: acked.now, last: acked.now };
        }
    }

    /// Takes the arrival of the first packet of the jump.
    fn arrived(&mut self, acked: &Acked, last: Instant) {
        self.pipe += acked.bytes;
        if acked.prior_in_flight < self.initial_window {
            self.inner.set_cwnd(self.pipe.max(self.initial_window));
            self.phase = Phase::Over;
        } else {
            self.validate(acked.prior_in_flight, last);
        }
    }

    /// Ends the retreat: the last unvalidated packet has arrived.
    fn settle(&mut self) {
        let cwnd = self.inner.cwnd();
        self.inner.set_cwnd(self.pipe.mul_div(7, 10));
        self.inner.leave_slow_start();
        self.inner.set_cwnd(cwnd);
        self.phase = Phase::Over;
    }
}

impl Controller for Resumed {
    fn on_sent(&mut self, sent: &Sent) {
        if let Phase::Unvalidated { since, .. } = self.phase {
            let mss = self.inner.share().mss;
            let is_late = self.srtt.is_some_and(|srtt| sent.now.since(since) > srtt);
            self.phase = Phase::Unvalidated { since, last: sent.now };
            if is_late || sent.bytes_in_flight + mss > self.inner.cwnd() {
                self.validate(sent.bytes_in_flight, sent.now);
            }
        }
        self.inner.on_sent(sent);
    }

    fn on_acked(&mut self, acked: &Acked, siblings: Siblings<'_>) {
        self.srtt = Some(acked.srtt);
        match self.phase {
            Phase::Over => self.inner.on_acked(acked, siblings),
            Phase::Reconnaissance { acked: before } => {
                self.inner.on_acked(acked, siblings);
                self.reconnoitre(acked, before + acked.bytes);
            }
            Phase::Unvalidated { since, last } => {
                self.inner.on_acked(&Acked { cwnd_limited: false, ..*acked }, siblings);
                if acked.newest_sent >= since {
                    self.arrived(acked, last);
                } else {
                    self.inner.set_cwnd(self.jump());
                }
            }
            Phase::Validating { last } => {
                self.pipe += acked.bytes;
                self.inner.on_acked(acked, siblings);
                if acked.newest_sent >= last {
                    self.phase = Phase::Over;
                }
            }
            Phase::Retreat { last } => {
                self.pipe += acked.bytes;
                self.inner.on_acked(&Acked { cwnd_limited: false, ..*acked }, siblings);
                if acked.newest_sent >= last {
                    self.settle();
                }
            }
        }
    }

    fn ignores(&self, congestion: &Congestion) -> bool {
        self.inner.ignores(congestion)
    }

    fn on_congestion(&mut self, congestion: &Congestion, siblings: Siblings<'_>) {
        self.inner.on_congestion(congestion, siblings);
        self.phase = match self.phase {
            Phase::Reconnaissance { .. } | Phase::Over => Phase::Over,
            // The path was silent: nothing of what it showed counts.
            _ if matches!(congestion.signal, Signal::Timeout | Signal::Persistent) => Phase::Over,
            Phase::Unvalidated { last, .. } | Phase::Validating { last } | Phase::Retreat { last } => {
                self.inner.set_cwnd(self.retreat().min(self.inner.cwnd()));
                Phase::Retreat { last }
            }
        };
    }

    fn on_spurious(&mut self, now: Instant) {
        self.inner.on_spurious(now);
        if matches!(self.phase, Phase::Retreat { .. }) {
            self.phase = Phase::Over;
        }
    }

    fn on_recovered(&mut self, now: Instant) {
        self.inner.on_recovered(now);
    }

    fn on_penalty(&mut self) {
        self.inner.on_penalty();
    }

    fn leave_slow_start(&mut self) {
        self.inner.leave_slow_start();
    }

    fn cwnd(&self) -> Bytes {
        self.inner.cwnd()
    }

    fn set_cwnd(&mut self, cwnd: Bytes) {
        self.inner.set_cwnd(cwnd);
    }

    fn ssthresh(&self) -> Bytes {
        match self.phase {
            Phase::Retreat { .. } => self.retreat().min(self.inner.ssthresh()),
            _ => self.inner.ssthresh(),
        }
    }

    /// The jump is paced over a round trip. TCP, which paces no window, paces all along, as Linux does where it paces:
    /// two windows in a round trip in slow start, a fifth more than one after it.
    fn pacing_rate(&self) -> Option<BitRate> {
        let inner = self.inner.pacing_rate();
        if !self.paces && self.flavour == Flavour::Quic {
            return None;
        }
        let is_jump = matches!(self.phase, Phase::Unvalidated { .. });
        if self.paces && !is_jump {
            return inner;
        }
        let percent = match () {
            () if is_jump => 100,
            () if self.inner.cwnd() < self.inner.ssthresh() => 200,
            () => 120,
        };
        let own = BitRate::of(self.inner.cwnd().mul_div(percent, 100), self.srtt.unwrap_or(Span::from_millis(1)));
        Some(own.max(inner.unwrap_or(BitRate::ZERO)))
    }

    fn send_memory_windows(&self) -> u64 {
        self.inner.send_memory_windows()
    }

    fn owns_recovery(&self) -> bool {
        self.inner.owns_recovery()
    }

    fn share(&self) -> Share {
        self.inner.share()
    }

    fn snapshot(&self) -> String {
        format!("{:?} {}", self.phase, self.inner.snapshot())
    }
}

#[cfg(test)]
mod tests {
    use weftway_path::{PathId, Recovery};

    use super::*;

    const MSS: u64 = 1000;
    const RTT: Span = Span::from_millis(100);

    fn packets(count: u64) -> Bytes {
        Bytes::new(count * MSS)
    }

    /// NewReno with ten packets, and 200 remembered at 100 ms.
    fn resumed(flavour: Flavour) -> Box<dyn Controller> {
        let setup = Setup {
            path: PathId::new(0),
            mss: Bytes::new(MSS),
            initial_window: packets(10),
            flavour,
            seed: 1,
            now: Instant::ZERO,
            rtt: Some(RTT),
        };
        let inner = crate::build("newreno", &setup).unwrap();
        resume(inner, Remembered { window: packets(200), rtt: RTT }, &setup)
    }

    fn acked(ms: u64, count: u64, in_flight: u64, sent_ms: u64) -> Acked {
        Acked {
            now: Instant::from_millis(ms),
            bytes: packets(count),
            lost: Bytes::ZERO,
            prior_in_flight: packets(in_flight + count),
            bytes_in_flight: packets(in_flight),
            rtt: Some(RTT),
            srtt: RTT,
            min_rtt: RTT,
            newest_sent: Instant::from_millis(sent_ms),
            delivered: Bytes::ZERO,
            prior_delivered: Bytes::ZERO,
            rate: None,
            interval: RTT,
            app_limited: false,
            cwnd_limited: true,
            recovery: Recovery::Open,
            reducing: false,
        }
    }

    fn sent(ms: u64, in_flight: u64) -> Sent {
        Sent {
            now: Instant::from_millis(ms),
            bytes: packets(1),
            bytes_in_flight: packets(in_flight),
            after_idle: false,
            app_limited: false,
        }
    }

    fn lost(ms: u64, sent_ms: u64) -> Congestion {
        Congestion {
            now: Instant::from_millis(ms),
            signal: Signal::Loss,
            bytes_in_flight: packets(30),
            lost: packets(1),
            lost_sent: Instant::from_millis(sent_ms),
            srtt: RTT,
        }
    }

    fn window(cc: &dyn Controller) -> u64 {
        cc.cwnd().get() / MSS
    }

    /// Half of 200 packets, once the ten of the initial window have arrived; then as in slow start: 100 + 99 + 1.
    #[test]
    fn half_of_what_is_remembered_follows_an_initial_window_and_is_validated() {
        let mut cc = resumed(Flavour::Quic);
        cc.on_acked(&acked(100, 8, 2, 0), &[]);
        assert_eq!(window(&*cc), 18, "eight packets have arrived: slow start");
        cc.on_acked(&acked(101, 2, 0, 0), &[]);
        assert_eq!(window(&*cc), 100);
        (1..=100).for_each(|count| cc.on_sent(&sent(102, count)));
        assert_eq!(window(&*cc), 100);
        cc.on_acked(&acked(202, 99, 1, 102), &[]);
        cc.on_acked(&acked(203, 1, 0, 102), &[]);
        assert_eq!(window(&*cc), 200);
    }

    /// 50 ms are not more than half of 100, and 1000 not less than ten times as much. The window doubles, as ever.
    #[test]
    fn another_round_trip_is_another_path() {
        for (ms, expected) in [(50, 20), (51, 100), (999, 100), (1000, 20)] {
            let mut cc = resumed(Flavour::Quic);
            let srtt = Span::from_millis(ms);
            cc.on_acked(&Acked { srtt, ..acked(100, 10, 0, 0) }, &[]);
            assert_eq!(window(&*cc), expected, "{ms} ms");
        }
    }

    #[test]
    fn what_the_application_limits_or_a_loss_cuts_does_not_jump() {
        let mut cc = resumed(Flavour::Quic);
        cc.on_acked(&Acked { cwnd_limited: false, ..acked(100, 10, 0, 0) }, &[]);
        assert_eq!(window(&*cc), 10);
        let mut cc = resumed(Flavour::Quic);
        cc.on_congestion(&lost(90, 0), &[]);
        cc.on_acked(&acked(100, 10, 0, 95), &[]);
        assert!(window(&*cc) < 10);
    }

    /// Five of 100 packets leave; the first comes back: the path is known to hold one, and the initial window is more.
    #[test]
    fn a_jump_that_is_not_used_is_taken_back() {
        let mut cc = resumed(Flavour::Quic);
        cc.on_acked(&acked(100, 10, 0, 0), &[]);
        (1..=5).for_each(|count| cc.on_sent(&sent(101, count)));
        cc.on_acked(&acked(201, 1, 4, 101), &[]);
        assert_eq!(window(&*cc), 10);
    }

    /// 31 packets have left when a round trip is over: as many are in flight.
    #[test]
    fn a_jump_lasts_a_round_trip() {
        let mut cc = resumed(Flavour::Quic);
        cc.on_acked(&acked(100, 10, 0, 0), &[]);
        (1..=30).for_each(|count| cc.on_sent(&sent(101, count)));
        assert_eq!(window(&*cc), 100);
        cc.on_sent(&sent(201, 31));
        assert_eq!(window(&*cc), 31);
    }

    /// 50 packets leave, 20 arrive, so the path holds 20: a loss leaves ten. By the end 48 have arrived: the threshold
    /// is 48 · 0.7 = 33.6 packets at most, and NewReno's own, half of the 50 in flight at the loss, is less: 25.
    #[test]
    fn a_loss_leaves_half_of_what_the_path_is_known_to_hold() {
        let mut cc = resumed(Flavour::Quic);
        cc.on_acked(&acked(100, 10, 0, 0), &[]);
        (1..=50).for_each(|count| cc.on_sent(&sent(101, count)));
        cc.on_acked(&acked(201, 20, 30, 101), &[]);
        assert_eq!(window(&*cc), 50);
        cc.on_congestion(&lost(202, 101), &[]);
        assert_eq!(window(&*cc), 10);
        cc.on_acked(&acked(203, 18, 10, 100), &[]);
        assert_eq!((window(&*cc), cc.ssthresh()), (10, packets(19)), "half of 38 packets");
        cc.on_acked(&acked(204, 10, 0, 101), &[]);
        assert_eq!((window(&*cc), cc.ssthresh()), (10, packets(25)));
    }

    /// 100 packets in 100 ms are 8 Mbit/s. TCP then paces as in slow start, QUIC leaves pacing to its window.
    #[test]
    fn a_jump_is_paced_over_a_round_trip() {
        let mut cc = resumed(Flavour::Linux);
        assert_eq!(cc.pacing_rate(), Some(BitRate::from_bps(1_600_000)), "two times ten packets");
        cc.on_acked(&acked(100, 10, 0, 0), &[]);
        assert_eq!(cc.pacing_rate(), Some(BitRate::from_mbps(8)));
        (1..=100).for_each(|count| cc.on_sent(&sent(101, count)));
        assert_eq!(cc.pacing_rate(), Some(BitRate::from_mbps(16)));
        assert_eq!(resumed(Flavour::Quic).pacing_rate(), None);
    }
}
