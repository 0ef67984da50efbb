//! The window that loss-based controllers share: slow start, additive increase, reduction, undo.
//!
//! ```text
//! slow start             cwnd += acked, up to ssthresh
//! congestion avoidance   one packet for each `per` bytes acknowledged (Reno: per = cwnd)
//! congestion             ssthresh = max(target, 2 packets); QUIC also cwnd = ssthresh
//! undo                   cwnd = max(cwnd, prior), ssthresh = max(ssthresh, prior)
//! ```
//!
//! Linux: everything counts whole packets (`tcp_slow_start`, `tcp_cong_avoid_ai`,
//! `tcp_reno_undo_cwnd`), and the engine moves the window during an episode. QUIC: everything
//! counts bytes (RFC 9002 §7.3 and appendix B). The coupled controllers of MPTCP v0.9x count
//! acknowledgements ([`Count`]).
//! Departures: an ACK that crosses `ssthresh` is divided there under QUIC as well, where RFC 9002
//! lets the whole of it count for slow start. Linux counts each short packet as one; we know
//! bytes, and round up once for each ACK.

use weftway_path::spec::Param;
use weftway_path::{BitRate, Bytes, Instant, PathId, Span};

use crate::{Acked, Congestion, Flavour, Setup, Share, Signal};

/// No window grows beyond 2^40 bytes: over 80 s at 100 Gbit/s. It keeps products in range.
pub(crate) const LARGEST: u64 = 1 << 40;

/// Never reduced below this many packets (`tcp_reno_ssthresh`; RFC 9002 §7.2). Only a timeout
/// takes a Linux window lower.
const LEAST_PACKETS: u64 = 2;

/// Unit that counts towards the next step of a coupled controller under Linux. QUIC counts bytes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Count {
    Acks,
    Packets,
}

impl Count {
    pub(crate) const CHOICES: &[(&str, Self)] = &[("acks", Self::Acks), ("packets", Self::Packets)];

    /// The switch.
    pub(crate) const PARAM: Param = Param {
        name: "count",
        default: "acks",
        values: "acks | packets",
        doc: "what counts towards an increase under MPTCP: acknowledgements, as in the kernel's modules, or the packets \
              that they acknowledge; QUIC counts bytes",
    };
}

#[derive(Clone, Debug)]
pub(crate) struct Window {
    flavour: Flavour,
    path: PathId,
    mss: u64,
    cwnd: u64,
    ssthresh: u64,
    /// Amount acknowledged towards the next step. Linux: bytes of whole packets
    /// (`snd_cwnd_cnt`). QUIC: bytes times mss, what is left after division.
    credit: u64,
    /// QUIC: when the current recovery began. Packets sent before do not grow the window.
    recovery_start: Option<Instant>,
    /// The window and threshold before the last reduction.
    prior: Option<(u64, u64)>,
}

impl Window {
    pub(crate) fn new(setup: &Setup) -> Self {
        let mut window = Self {
            flavour: setup.flavour,
            path: setup.path,
            mss: setup.mss.get().clamp(1, LARGEST >> 8),
            cwnd: 0,
            ssthresh: u64::MAX,
            credit: 0,
            recovery_start: None,
            prior: None,
        };
        window.set(setup.initial_window.get());
        window
    }

    #[inline]
    pub(crate) fn cwnd(&self) -> u64 {
        self.cwnd
    }

    #[inline]
    pub(crate) fn ssthresh(&self) -> u64 {
        self.ssthresh
    }

    #[inline]
    pub(crate) fn mss(&self) -> u64 {
        self.mss
    }

    #[inline]
    pub(crate) fn packets(&self) -> u64 {
        self.cwnd / self.mss
    }

    /// Number of whole packets in `bytes`: nearly always two.
    #[inline]
    pub(crate) fn packets_in(&self, bytes: u64) -> u64 {
        if bytes == 2 * self.mss { 2 } else { bytes / self.mss }
    }

    /// Amount that an acknowledgement of `bytes` counts for, in whole grains.
    #[inline]
    fn counted(&self, bytes: Bytes) -> u64 {
        let bytes = bytes.get();
        if bytes == 2 * self.mss { bytes } else { bytes.min(LARGEST).next_multiple_of(self.grain()) }
    }

    #[inline]
    pub(crate) fn in_slow_start(&self) -> bool {
        self.cwnd < self.ssthresh
    }

    /// The smallest step: a packet (Linux), a byte (QUIC).
    pub(crate) fn grain(&self) -> u64 {
        match self.flavour {
            Flavour::Linux => self.mss,
            Flavour::Quic => 1,
        }
    }

    /// The smallest window.
    fn least(&self) -> u64 {
        match self.flavour {
            Flavour::Linux => self.mss,
            Flavour::Quic => LEAST_PACKETS * self.mss,
        }
    }

    /// Sets the window to `bytes`, rounded up to its grain and kept in its limits.
    pub(crate) fn set(&mut self, bytes: u64) {
        self.cwnd = bytes.min(LARGEST).next_multiple_of(self.grain()).max(self.least());
    }

    /// Ends slow start here.
    pub(crate) fn leave_slow_start(&mut self) {
        self.ssthresh = self.cwnd;
    }

    /// Puts the threshold a packet below the window, unless it is lower.
    pub(crate) fn pass_slow_start(&mut self) {
        let below = self.cwnd.saturating_sub(self.mss).max(LEAST_PACKETS * self.mss);
        self.ssthresh = self.ssthresh.min(below);
    }

    /// Keeps the threshold at 3/4 of the window or above (`tcp_current_ssthresh`).
    pub(crate) fn raise_threshold(&mut self) {
        let least = self.cwnd / 4 * 3 / self.grain() * self.grain();
        self.ssthresh = self.ssthresh.max(least);
    }

    /// Returns true if the window was used and nothing forbids it to grow.
    fn may_grow(&self, acked: &Acked) -> bool {
        acked.cwnd_limited && !acked.reducing && self.recovery_start.is_none_or(|start| acked.newest_sent > start)
    }

    /// Grows in slow start; returns the bytes of this ACK that count for congestion avoidance.
    #[inline]
    pub(crate) fn grow(&mut self, acked: &Acked) -> u64 {
        if !self.may_grow(acked) {
            return 0;
        }
        let counted = self.counted(acked.bytes);
        if !self.in_slow_start() {
            return counted;
        }
        let step = counted.min(self.ssthresh - self.cwnd);
        self.cwnd = (self.cwnd + step).min(LARGEST);
        counted - step
    }

    /// Grows in slow start by only one packet for each `divisor` acknowledged (RFC 9406's CSS).
    pub(crate) fn grow_slower(&mut self, acked: &Acked, divisor: u64) {
        if self.may_grow(acked) {
            self.increase(self.counted(acked.bytes), divisor * self.mss);
            self.cwnd = self.cwnd.min(self.ssthresh);
        }
    }

    /// Grows by one packet for each `per` bytes of `acked`.
    #[inline]
    pub(crate) fn increase(&mut self, acked: u64, per: u64) {
        let per = per.max(1);
        let grown = match self.flavour {
            Flavour::Linux => self.whole_packets(acked, per),
            Flavour::Quic => self.fraction(acked, per),
        };
        if grown > 0 {
            self.cwnd = self.cwnd.saturating_add(grown).min(LARGEST).max(self.least());
        }
    }

    /// Grows in slow start; returns what of this ACK counts for congestion avoidance: of acknowledgements, one packet.
    #[inline]
    pub(crate) fn grow_counting(&mut self, acked: &Acked, count: Count) -> u64 {
        let slow_start = self.in_slow_start();
        match self.grow(acked) {
            0 => 0,
            _ if self.counts_acks(count) && slow_start => 0,
            _ if self.counts_acks(count) => self.mss,
            bytes => bytes,
        }
    }

    /// Returns true if each acknowledgement counts as one packet.
    pub(crate) fn counts_acks(&self, count: Count) -> bool {
        count == Count::Acks && self.flavour == Flavour::Linux
    }

    /// Grows by one packet for each `per` bytes of what [`Window::grow_counting`] returned. The modules of MPTCP v0.9x
    /// first compare and then count, so that one acknowledgement more is needed, and the rest is dropped.
    #[inline]
    pub(crate) fn increase_counting(&mut self, counted: u64, per: u64, count: Count) {
        if !self.counts_acks(count) {
            self.increase(counted, per);
        } else if self.credit >= per / self.mss * self.mss {
            self.credit = 0;
            self.shift(1);
        } else {
            self.credit += self.mss;
        }
    }

    /// `tcp_cong_avoid_ai`: credit that was saved for a larger `per` is worth one packet.
    fn whole_packets(&mut self, acked: u64, per: u64) -> u64 {
        let mut packets = 0;
        if self.credit >= per {
            self.credit = 0;
            packets = 1;
        }
        self.credit += acked;
        if self.credit >= per {
            packets += self.credit / per;
            self.credit %= per;
        }
        if packets == 0 { 0 } else { packets.min(LARGEST / self.mss) * self.mss }
    }

    /// RFC 9002 §7.3.3, without losing what division leaves.
    fn fraction(&mut self, acked: u64, per: u64) -> u64 {
        let credit = u128::from(acked) * u128::from(self.mss) + u128::from(self.credit);
        // A typical ACK fits 64 bits, whose division is several times cheaper.
        let (grown, left) = match u64::try_from(credit) {
            Ok(credit) => (credit / per, credit % per),
            Err(_) => ((credit / u128::from(per)).min(u128::from(LARGEST)) as u64, (credit % u128::from(per)) as u64),
        };
        self.credit = left;
        grown
    }

    /// Grows, or shrinks, by `steps` grains.
    pub(crate) fn shift(&mut self, steps: i64) {
        let change = steps.unsigned_abs().saturating_mul(self.grain());
        let cwnd = if steps < 0 { self.cwnd.saturating_sub(change) } else { self.cwnd.saturating_add(change) };
        self.cwnd = cwnd.min(LARGEST).max(self.least());
    }

    /// Returns true if this starts a new episode: QUIC ignores losses of packets sent before the last one.
    pub(crate) fn is_new(&self, congestion: &Congestion) -> bool {
        self.recovery_start.is_none_or(|start| congestion.lost_sent > start)
    }

    /// Starts an episode: the window is to fall to `target` bytes.
    pub(crate) fn reduce(&mut self, congestion: &Congestion, target: u64) {
        // Linux remembers no threshold below 3/4 of the window (`tcp_current_ssthresh`).
        self.prior = Some((self.cwnd, self.ssthresh.max(self.cwnd / 4 * 3)));
        self.ssthresh = (target / self.grain() * self.grain()).max(LEAST_PACKETS * self.mss);
        self.credit = 0;
        if self.flavour == Flavour::Quic {
            self.cwnd = self.ssthresh;
            self.recovery_start = Some(congestion.now);
        }
    }

    /// After a timeout or persistent congestion a QUIC window falls to its least (RFC 9002 §7.6.2);
    /// under Linux the engine sets it.
    pub(crate) fn collapse(&mut self, signal: Signal) {
        if self.flavour == Flavour::Quic && is_timeout(signal) {
            self.cwnd = self.least();
            self.recovery_start = None;
        }
    }

    /// Takes the last reduction back.
    pub(crate) fn undo(&mut self) {
        if let Some((cwnd, ssthresh)) = self.prior.take() {
            self.cwnd = self.cwnd.max(cwnd);
            self.ssthresh = self.ssthresh.max(ssthresh);
            self.recovery_start = None;
        }
    }

    /// MPTCP v0.9x penalisation (`mptcp_rcv_buf_optimization`).
    pub(crate) fn penalise(&mut self) {
        let prior = self.cwnd;
        self.cwnd = (prior / 2 / self.grain() * self.grain()).max(self.least());
        if prior >= self.ssthresh {
            self.ssthresh = (self.ssthresh / 2 / self.grain() * self.grain()).max(LEAST_PACKETS * self.mss);
        }
    }

    /// Values for the siblings.
    pub(crate) fn share(&self) -> Share {
        Share {
            path: self.path,
            cwnd: Bytes::new(self.cwnd),
            mss: Bytes::new(self.mss),
            srtt: Span::ZERO,
            inter_loss: Bytes::ZERO,
            bandwidth: BitRate::ZERO,
            link_rate: BitRate::ZERO,
            steady: false,
            bottleneck: None,
            contended: false,
            usable: true,
        }
    }
}

/// Returns true if the path was silent, rather than short of a packet.
pub(crate) fn is_timeout(signal: Signal) -> bool {
    matches!(signal, Signal::Timeout | Signal::Persistent)
}

/// The methods of [`crate::Controller`] that only pass on to the field `window`.
macro_rules! window_methods {
    () => {
        fn on_penalty(&mut self) {
            self.window.penalise();
        }

        fn leave_slow_start(&mut self) {
            if self.window.in_slow_start() {
                self.window.leave_slow_start();
            }
        }

        fn cwnd(&self) -> weftway_path::Bytes {
            weftway_path::Bytes::new(self.window.cwnd())
        }

        fn set_cwnd(&mut self, cwnd: weftway_path::Bytes) {
            self.window.set(cwnd.get());
        }

        fn ssthresh(&self) -> weftway_path::Bytes {
            weftway_path::Bytes::new(self.window.ssthresh())
        }
    };
}
pub(crate) use window_methods;

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: u64 = 1400;

    fn window(flavour: Flavour, packets: u64) -> Window {
        let mss = Bytes::new(MSS);
        let (path, now) = (PathId::new(0), Instant::ZERO);
        Window::new(&Setup { path, mss, initial_window: Bytes::new(packets * MSS), flavour, seed: 1, now, rtt: None })
    }

    fn loss() -> Congestion {
        let (now, signal, srtt) = (Instant::from_millis(100), Signal::Loss, Span::from_millis(20));
        let (bytes_in_flight, lost) = (Bytes::new(20 * MSS), Bytes::new(MSS));
        Congestion { now, signal, bytes_in_flight, lost, lost_sent: Instant::from_millis(90), srtt }
    }

    /// Three quarters of 14 packets are 10.5; Linux counts whole ones (14/2 + 14/4), QUIC bytes.
    #[test]
    fn the_threshold_is_raised_to_three_quarters_in_whole_grains() {
        for (flavour, least) in [(Flavour::Linux, 10 * MSS), (Flavour::Quic, 10 * MSS + MSS / 2)] {
            let mut window = window(flavour, 14);
            window.ssthresh = 2 * MSS;
            window.raise_threshold();
            assert_eq!(window.ssthresh, least, "{flavour:?}");
            window.ssthresh = 30 * MSS;
            window.raise_threshold();
            assert_eq!(window.ssthresh, 30 * MSS, "{flavour:?}: never lowered");
        }
    }

    /// A window of 20 packets above a threshold of 5 falls to 10. Taken back, the window is 20 again, and the threshold
    /// not 5 but 15: none below three quarters of the window is remembered (`tcp_current_ssthresh`).
    #[test]
    fn a_reduction_that_is_taken_back_leaves_three_quarters_as_threshold() {
        for flavour in [Flavour::Linux, Flavour::Quic] {
            let mut window = window(flavour, 20);
            window.ssthresh = 5 * MSS;
            window.reduce(&loss(), 10 * MSS);
            assert_eq!(window.ssthresh, 10 * MSS, "{flavour:?}");
            // Under Linux the engine brings the window down, by proportional rate reduction.
            assert_eq!(window.cwnd, if flavour == Flavour::Quic { 10 * MSS } else { 20 * MSS }, "{flavour:?}");
            window.undo();
            assert_eq!((window.cwnd, window.ssthresh), (20 * MSS, 15 * MSS), "{flavour:?}");
            window.reduce(&loss(), MSS / 2);
            assert_eq!(window.ssthresh, 2 * MSS, "{flavour:?}: never below two packets");
        }
    }

    /// RFC 9002 §7.3.3 adds mss · acked / cwnd: 1400 · 1400 / 3000 = 653 and 1000 left over, which count the next time:
    /// (1 960 000 + 1 000) / 3000 = 653 and 2000; then 654 and 0.
    #[test]
    fn what_a_division_leaves_is_not_lost() {
        let mut window = window(Flavour::Quic, 10);
        let grown = [(); 3].map(|()| window.fraction(MSS, 3000));
        assert_eq!((grown, window.credit), ([653, 653, 654], 0));
    }
}
