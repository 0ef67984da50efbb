//! A toy pipe for the tests of BBR: a link of 12 Mbit/s, a 40 ms round trip, an unbounded queue
//! unless one is set, an ACK for each packet. A packet has 1250 B of payload and is 1500 B on the
//! wire: it takes 1 ms, the pipe holds 40, and the link brings 10 Mbit/s of payload. Windows, rates
//! and the pacer count payload, the link counts what is on the wire.

use std::collections::VecDeque;

use weftway_path::{BitRate, Bytes, Instant, PathId, Recovery, Span};

use crate::{Acked, Congestion, Controller, Flavour, Sent, Setup, Signal};

/// The payload of a packet, and its size on the wire.
pub(crate) const MSS: Bytes = Bytes::new(1250);
const WIRE: Bytes = Bytes::new(1500);
const LINK: BitRate = BitRate::from_mbps(12);
/// Rate of payload over the link.
pub(crate) const RATE: BitRate = BitRate::from_mbps(10);
pub(crate) const RTT: Span = Span::from_millis(40);

pub(crate) struct Packet {
    sent: Instant,
    acked: Instant,
    lost: bool,
    delivered: Bytes,
    delivered_at: Instant,
    first_sent: Instant,
}

pub(crate) struct Pipe<C> {
    pub(crate) bbr: C,
    pub(crate) now: Instant,
    pub(crate) in_flight: VecDeque<Packet>,
    pub(crate) delivered: Bytes,
    /// Packets that left.
    pub(crate) sent: u64,
    /// By how much the round trip grows each second.
    pub(crate) drift: Span,
    /// Longest wait in the queue; a packet that would wait longer is lost.
    pub(crate) patience: Span,
    /// Every so many packets one is lost.
    pub(crate) lost_every: Option<u64>,
    free: Instant,
    release: Instant,
    delivered_at: Instant,
    first_sent: Instant,
    recovery_start: Option<Instant>,
}

/// Setup of the controllers in tests.
pub(crate) fn setup(seed: u64) -> Setup {
    Setup {
        path: PathId::new(0),
        mss: MSS,
        initial_window: Bytes::new(10 * 1250),
        flavour: Flavour::Linux,
        seed,
        now: Instant::ZERO,
        rtt: Some(RTT),
    }
}

impl<C: Controller> Pipe<C> {
    pub(crate) fn new(bbr: C) -> Self {
        Self {
            bbr,
            now: Instant::ZERO,
            in_flight: VecDeque::new(),
            delivered: Bytes::ZERO,
            drift: Span::ZERO,
            patience: Span::MAX,
            lost_every: None,
            free: Instant::ZERO,
            release: Instant::ZERO,
            delivered_at: Instant::ZERO,
            first_sent: Instant::ZERO,
            sent: 0,
            recovery_start: None,
        }
    }

    fn outstanding(&self) -> Bytes {
        Bytes::new(self.in_flight.len() as u64 * MSS.get())
    }

    /// Sends or acknowledges one packet, whichever comes first.
    pub(crate) fn step(&mut self) {
        let may_send = self.outstanding() < self.bbr.cwnd();
        let send = if may_send { self.release.max(self.now) } else { Instant::NEVER };
        let ack = self.in_flight.front().map_or(Instant::NEVER, |packet| packet.acked);
        self.now = send.min(ack);
        if send < ack { self.send() } else { self.acknowledge() }
    }

    fn send(&mut self) {
        let idle = self.in_flight.is_empty();
        if idle {
            (self.delivered_at, self.first_sent) = (self.now, self.now);
        }
        self.sent += 1;
        let lost = self.lost_every.is_some_and(|every| self.sent.is_multiple_of(every))
            || self.free.since(self.now) > self.patience;
        if !lost {
            self.free = self.free.max(self.now) + LINK.transmission_time(WIRE);
        }
        let rtt = RTT + self.drift.mul_div(self.now.as_nanos(), 1_000_000_000);
        // The time on the link is part of the round trip. A loss shows with the next ACK.
        let acked = self.free.max(self.now) + rtt.saturating_sub(LINK.transmission_time(WIRE));
        self.in_flight.push_back(Packet {
            sent: self.now,
            acked,
            lost,
            delivered: self.delivered,
            delivered_at: self.delivered_at,
            first_sent: self.first_sent,
        });
        let (now, bytes_in_flight) = (self.now, self.outstanding());
        self.bbr.on_sent(&Sent { now, bytes: MSS, bytes_in_flight, after_idle: idle, app_limited: false });
        let pacing = self.bbr.pacing_rate().expect("BBR paces");
        self.release = self.now + pacing.transmission_time(MSS);
    }

    fn acknowledge(&mut self) {
        let prior_in_flight = self.outstanding();
        let (mut lost, mut lost_sent) = (Bytes::ZERO, Instant::ZERO);
        while self.in_flight.front().is_some_and(|packet| packet.lost) {
            let packet = self.in_flight.pop_front().expect("it is at the front");
            lost += MSS;
            lost_sent = packet.sent;
        }
        let Some(packet) = self.in_flight.pop_front() else { return };
        self.recover(packet.sent, (lost, lost_sent), prior_in_flight);
        self.delivered += MSS;
        (self.delivered_at, self.first_sent) = (self.now, packet.sent);
        let interval = packet.sent.since(packet.first_sent).max(self.now.since(packet.delivered_at));
        let rtt = self.now.since(packet.sent);
        let sample = Bytes::new(self.delivered.get() - packet.delivered.get());
        let acked = Acked {
            lost,
            prior_in_flight,
            bytes_in_flight: self.outstanding(),
            rtt: Some(rtt),
            srtt: rtt,
            newest_sent: packet.sent,
            delivered: self.delivered,
            prior_delivered: packet.delivered,
            rate: (interval >= RTT).then(|| BitRate::of(sample, interval)),
            interval,
            cwnd_limited: prior_in_flight >= self.bbr.cwnd(),
            recovery: if self.recovery_start.is_some() { Recovery::Recovery } else { Recovery::Open },
            ..blank(self.now)
        };
        self.bbr.on_acked(&acked, &[]);
    }

    /// A recovery lasts until a packet sent since its start is acknowledged.
    fn recover(&mut self, acked_sent: Instant, lost: (Bytes, Instant), bytes_in_flight: Bytes) {
        if self.recovery_start.is_some_and(|start| acked_sent > start) {
            self.recovery_start = None;
        }
        if lost.0 > Bytes::ZERO && self.recovery_start.is_none() {
            self.recovery_start = Some(self.now);
            self.bbr.on_congestion(
                &Congestion {
                    now: self.now,
                    signal: Signal::Loss,
                    bytes_in_flight,
                    lost: lost.0,
                    lost_sent: lost.1,
                    srtt: RTT,
                },
                &[],
            );
        }
    }

    /// Runs on until `end`; returns the share of the link's payload that was delivered meanwhile.
    pub(crate) fn used_until(&mut self, end: Instant) -> f64 {
        let (began, before) = (self.now, self.delivered);
        self.run_until(end);
        let most = RATE.bytes_in(self.now.since(began));
        self.delivered.saturating_sub(before).get() as f64 / most.get() as f64
    }

    pub(crate) fn run_until(&mut self, end: Instant) {
        while self.now < end {
            self.step();
        }
    }
}

/// An ACK for a packet that tells nothing.
pub(crate) fn blank(now: Instant) -> Acked {
    Acked {
        now,
        bytes: MSS,
        lost: Bytes::ZERO,
        prior_in_flight: Bytes::ZERO,
        bytes_in_flight: Bytes::ZERO,
        rtt: Some(RTT),
        srtt: RTT,
        min_rtt: RTT,
        newest_sent: now - RTT,
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
