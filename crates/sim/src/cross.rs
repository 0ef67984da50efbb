//! Traffic without feedback.

use rand_pcg::Pcg64Mcg;
use weftway_path::{Bytes, Instant, PathId, Span};
use weftway_scenario::config::CrossTraffic;
use weftway_scenario::draw;

use crate::net::Net;
use crate::wire::{Datagram, Load};

/// A source of cross traffic.
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
        draw::exponential(&mut self.rng, mean)
    }

    fn wait(&mut self) -> Span {
        let gap = self.gap;
        if self.poisson { self.exponential(gap) } else { gap }
    }

    /// Time at which it acts next.
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
        let datagram = Datagram { conn: 0, path: PathId::new(0), epoch: 0, marked: false, load: Load::Cross };
        let _ = net.send(now, self.link, self.bytes, datagram);
        self.next = now + self.wait().max(Span::from_nanos(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_link::{Link, LinkConfig};
    use weftway_path::BitRate;
    use weftway_scenario::config::CrossLink;

    /// Packets of 1500 B at 12 Mbit/s, one a millisecond while on, in the first ten seconds; and how
    /// many different gaps there were.
    fn sent(poisson: bool, on_off: Option<(Span, Span)>) -> (u64, usize) {
        let traffic = CrossTraffic {
            on: CrossLink::Shared(0),
            rate: BitRate::from_mbps(12),
            packet: Bytes::new(1500),
            on_off,
            poisson,
        };
        let mut source = CrossSource::new(&traffic, 0, 7);
        let mut net = Net::new(vec![Link::new(&LinkConfig::default(), 1)], 1);
        let mut gaps = std::collections::BTreeSet::new();
        while source.next() <= Instant::from_millis(10_000) {
            let now = source.next();
            source.run(&mut net, now);
            gaps.insert(source.next().since(now));
        }
        (net.links[0].counts().pushed, gaps.len())
    }

    #[test]
    fn equal_gaps_are_equal() {
        assert_eq!(sent(false, None), (10_000, 1));
    }

    /// A Poisson count of mean 10 000 has a standard deviation of 100; five of them.
    #[test]
    fn poisson_gaps_vary_about_the_same_mean() {
        let (packets, gaps) = sent(true, None);
        assert!(packets.abs_diff(10_000) <= 500 && gaps > 9_000, "{packets} packets, {gaps} gaps");
    }

    /// On and off for 100 ms each on the mean: on for 5 s of 10, with a standard deviation of
    /// √(2·10·10·10 / 20³) = 0.5 s; four of them are 2000 packets.
    #[test]
    fn a_source_that_is_half_the_time_off_sends_half() {
        let half = Span::from_millis(100);
        let (packets, _) = sent(false, Some((half, half)));
        assert!(packets.abs_diff(5_000) <= 2_000, "{packets} packets");
    }
}
