//! Traffic without feedback.

use rand_core::Rng;
use rand_pcg::Pcg64Mcg;
use weftway_path::{Bytes, Instant, PathId, Span};

use crate::config::CrossTraffic;
use crate::net::Net;
use crate::wire::{Load, Parcel};

/// One source.
#[derive(Clone, Debug)]
pub struct CrossSource {
    link: usize,
    bytes: Bytes,
    gap: Span,
    poisson: bool,
    on_off: Option<(Span, Span)>,
    on: bool,
    switch_at: Instant,
    next: Instant,
    rng: Pcg64Mcg,
}

impl CrossSource {
    /// A source that sends on `link`.
    pub fn new(traffic: &CrossTraffic, link: usize, seed: u64) -> Self {
        let mut source = Self {
            link,
            bytes: traffic.packet,
            gap: traffic.rate.transmission_time(traffic.packet),
            poisson: traffic.poisson,
            on_off: traffic.on_off,
            on: true,
            switch_at: Instant::NEVER,
            next: Instant::ZERO,
            rng: Pcg64Mcg::new(u128::from(seed) | 1),
        };
        if let Some((on, _)) = traffic.on_off {
            source.switch_at = Instant::ZERO + source.exponential(on);
        }
        source.next = Instant::ZERO + source.wait();
        source
    }

    /// An exponential draw with the given mean.
    fn exponential(&mut self, mean: Span) -> Span {
        // 53 random bits, never zero.
        let uniform = ((self.rng.next_u64() >> 11) + 1) as f64 / (1u64 << 53) as f64;
        Span::from_nanos((-libm::log(uniform) * mean.as_nanos() as f64) as u64)
    }

    fn wait(&mut self) -> Span {
        let gap = self.gap;
        if self.poisson { self.exponential(gap) } else { gap }
    }

    /// When it acts next.
    pub fn next(&self) -> Instant {
        self.next
    }

    /// Sends a packet, or sleeps until it is on again.
    pub fn run(&mut self, net: &mut Net, now: Instant) {
        while self.switch_at <= now {
            let Some((on, off)) = self.on_off else { break };
            self.on = !self.on;
            let mean = if self.on { on } else { off };
            let span = self.exponential(mean).max(Span::from_nanos(1));
            self.switch_at += span;
        }
        if !self.on {
            self.next = self.switch_at;
            return;
        }
        let parcel = Parcel { conn: 0, path: PathId::new(0), epoch: 0, marked: false, load: Load::Cross };
        let _ = net.send(now, self.link, self.bytes, parcel);
        self.next = now + self.wait().max(Span::from_nanos(1));
    }
}
