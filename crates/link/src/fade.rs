//! Fades: times in which the rate of a link is at most a floor. Floats, because lengths are log-normal; each is rounded
//! to whole nanoseconds (towards zero) before it is used.

use rand_pcg::Pcg32;
use weftway_path::{BitRate, Instant, Span};

use crate::draw::{Chance, Component, Normal, Seeds, uniform, unit};
use crate::{Fade, Rate, Set};

/// The fades of a link, and the rate that it has besides.
#[derive(Clone, Debug)]
pub(crate) struct Fades {
    fade: Fade,
    generator: Pcg32,
    normal: Normal,
    /// Rate without fades.
    rate: Rate,
    /// Floor of the fade that the link is in.
    floor: Option<BitRate>,
    /// End of the fade, or start of the next.
    next: Instant,
}

impl Fades {
    pub(crate) fn new(fade: Fade, rate: Rate, seeds: Seeds) -> Self {
        let generator = seeds.of_group(fade.group, Component::Fade);
        let mut fades = Self { fade, generator, normal: Normal::default(), rate, floor: None, next: Instant::ZERO };
        if !Chance::new(fade.share).draw(&mut fades.generator) {
            fades.next = Instant::ZERO + fades.clear();
        }
        fades
    }

    /// Time of the next change.
    pub(crate) fn next(&self) -> Instant {
        self.next
    }

    /// The rate that the link has from then on.
    pub(crate) fn take(&mut self) -> Set {
        let lasts = if self.floor.is_some() {
            self.floor = None;
            self.clear()
        } else {
            let (low, high) = self.fade.floor;
            self.floor = Some(BitRate::from_bps(uniform(&mut self.generator, low.as_bps(), high.as_bps())));
            if self.next == Instant::ZERO { self.rest() } else { self.length(1.0) }
        };
        self.next += lasts;
        self.set()
    }

    /// Returns what a setting comes to: a rate shows as far as the fade lets it.
    pub(crate) fn cover(&mut self, set: Set) -> Set {
        let Set::Rate(rate) = set else { return set };
        self.rate = rate;
        self.set()
    }

    fn set(&self) -> Set {
        let rate = match (self.floor, &self.rate) {
            (None, rate) => rate.clone(),
            (Some(floor), Rate::Constant(rate)) => Rate::Constant(floor.min(*rate)),
            (Some(floor), Rate::Trace(_)) => Rate::Constant(floor),
        };
        Set::Rate(rate)
    }

    /// A length from the distribution, `times` as long.
    fn length(&mut self, times: f64) -> Span {
        let draw = self.normal.draw(&mut self.generator);
        let length = nanos(self.fade.median) * libm::exp(self.fade.sigma * draw) * times;
        Span::from_nanos((length as u64).max(1))
    }

    /// Remainder of the fade in which the link begins. It is one of those that there are at a moment: long ones are
    /// more often met, in proportion to their length, which makes the logarithm larger by its variance; and any part of
    /// it may be over.
    fn rest(&mut self) -> Span {
        let left = unit(&mut self.generator);
        self.length(libm::exp(self.fade.sigma * self.fade.sigma) * left)
    }

    /// Time until the next fade.
    fn clear(&mut self) -> Span {
        let Fade { share, median, sigma, .. } = self.fade;
        let mean = nanos(median) * libm::exp(sigma * sigma / 2.0) * (1.0 - share) / share;
        let time = -libm::log(unit(&mut self.generator)) * mean;
        Span::from_nanos((time as u64).max(1))
    }
}

fn nanos(span: Span) -> f64 {
    span.as_nanos() as f64
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use weftway_path::Bytes;

    use super::*;
    use crate::{Change, Link, LinkConfig, Redraw, Supply, Trace};

    const SATELLITE: Fade = Fade {
        share: 0.165,
        median: Span::from_secs(2),
        // 95 of 100 within 43 s: ln (43 / 2) / 1.645.
        sigma: 1.865_3,
        floor: (BitRate::ZERO, BitRate::from_bps(900_000)),
        group: 7,
    };

    fn at(ms: u64) -> Instant {
        Instant::from_millis(ms)
    }

    fn mbps(rate: u64) -> Rate {
        Rate::Constant(BitRate::from_mbps(rate))
    }

    fn fades(fade: Fade, seed: u64) -> Fades {
        Fades::new(fade, mbps(100), seed.into())
    }

    /// The lengths in seconds of the first fades that are wholly seen, and the share of the time that the link was in a
    /// fade.
    fn seen(fade: Fade, seed: u64, count: usize) -> (Vec<f64>, f64) {
        let mut fades = fades(fade, seed);
        let (mut lengths, mut faded) = (Vec::new(), 0.0);
        while lengths.len() < count {
            let begin = fades.next();
            if fades.take() == Set::Rate(mbps(100)) {
                continue;
            }
            let length = fades.next().since(begin).as_secs_f64();
            faded += length;
            lengths.extend((begin > Instant::ZERO).then_some(length));
        }
        (lengths, faded / fades.next().since(Instant::ZERO).as_secs_f64())
    }

    /// Lengths of 2000 fades of each of 50 seeds. The logarithm of the median has a deviation of 1.25·σ/√10⁵ = 0.0074, that of the
    /// 95th percentile σ·√(0.0475/10⁵)/0.103 = 0.0125. A length has a deviation of √(e^σ² − 1) = 5.6 times its mean,
    /// so that the share has 0.165·0.835·5.6/√10⁵ = 0.0024. Four deviations each.
    #[test]
    fn lengths_and_share_are_as_asked() {
        let all: Vec<_> = (0..50).map(|seed| seen(SATELLITE, seed, 2000)).collect();
        let mut lengths: Vec<f64> = all.iter().flat_map(|(lengths, _)| lengths.iter().copied()).collect();
        lengths.sort_by(f64::total_cmp);
        let (median, p95) = (lengths[50_000], lengths[95_000]);
        assert!((libm::log(median / 2.0)).abs() < 0.03, "median {median}");
        assert!((libm::log(p95 / 43.0)).abs() < 0.05, "95th percentile {p95}");
        // By time, not by seed: a seed with long fades takes longer.
        let time = |(lengths, share): &(Vec<f64>, f64)| lengths.iter().sum::<f64>() / share;
        let (faded, whole) = all.iter().fold((0.0, 0.0), |sum, one| (sum.0 + one.1 * time(one), sum.1 + time(one)));
        assert!((faded / whole - 0.165).abs() < 0.01, "share {}", faded / whole);
    }

    fn is_faded(fade: Fade, seed: u64, when: Instant) -> bool {
        let mut fades = fades(fade, seed);
        let mut set = Set::Rate(mbps(100));
        while fades.next() <= when {
            set = fades.take();
        }
        set != Set::Rate(mbps(100))
    }

    /// Deviation of 10⁴ links: √(0.165·0.835/10⁴) = 0.0037. Four of them. If each began without a fade, or with a whole
    /// one, the share would first have to settle.
    #[test]
    fn the_share_holds_from_the_start() {
        let alike = Fade { sigma: 0.0, ..SATELLITE };
        for fade in [SATELLITE, alike] {
            for when in [0, 300, 1_500, 2_500, 20_000, 90_000] {
                let faded = (0..10_000).filter(|&seed| is_faded(fade, seed, at(when))).count();
                assert!((faded as f64 / 1e4 - 0.165).abs() < 0.015, "{faded} of 10 000 at {when} ms");
            }
        }
    }

    #[test]
    fn without_a_spread_all_are_equally_long() {
        let (lengths, _) = seen(Fade { sigma: 0.0, ..SATELLITE }, 3, 20);
        assert!(lengths.iter().all(|&length| length == 2.0), "{lengths:?}");
    }

    #[test]
    fn floors_fill_their_range() {
        let mut fades = fades(SATELLITE, 5);
        let mut floor = || match fades.take() {
            Set::Rate(Rate::Constant(rate)) => rate.as_bps(),
            other => panic!("{other:?}"),
        };
        let floors: Vec<u64> = (0..2_000).map(|_| floor()).filter(|&rate| rate < 100_000_000).collect();
        assert_eq!(floors.len(), 1_000);
        assert!(floors.iter().all(|&floor| floor <= 900_000));
        // 0.45 Mbit/s within four times 0.9/√12/√1000 = 0.0082.
        let mean = floors.iter().sum::<u64>() as f64 / 1e9;
        assert!((mean - 0.45).abs() < 0.033, "{mean}");
    }

    /// Each direction of a path has a seed of its own, and what blocks a radio link blocks both.
    #[test]
    fn links_of_a_group_fade_together_and_others_do_not() {
        let times = |fade, own, run| {
            let mut fades = Fades::new(fade, mbps(100), Seeds { own, run });
            (0..50).map(|_| (fades.take(), fades.next())).collect::<Vec<_>>()
        };
        assert_eq!(times(SATELLITE, 1, 9), times(SATELLITE, 2, 9));
        assert_ne!(times(SATELLITE, 1, 9), times(SATELLITE, 1, 10));
        assert_ne!(times(SATELLITE, 1, 9), times(Fade { group: 8, ..SATELLITE }, 1, 9));
    }

    /// A fade from the start that does not end.
    fn long(mbps: u64) -> Fade {
        let floor = BitRate::from_mbps(mbps);
        Fade { share: 1.0, median: Span::from_secs(1_000_000), sigma: 0.0, floor: (floor, floor), group: 0 }
    }

    /// 1250 B take 10 ms at the floor of 1 Mbit/s, whatever the link has above it: 10 Mbit/s, 20 after a change, or a
    /// trace of 12; and 20 ms at 0.5 Mbit/s, which is below.
    #[test]
    fn a_rate_shows_below_the_floor_only() {
        let trace = Rate::Trace(Arc::new(Trace::new(vec![1]).unwrap()));
        let half = Rate::Constant(BitRate::from_bps(500_000));
        for (rate, changed, arrival) in [
            (mbps(10), mbps(10), 60),
            (mbps(10), mbps(20), 60),
            (trace.clone(), trace, 60),
            (mbps(10), half.clone(), 70),
            (half.clone(), half, 70),
        ] {
            let changes = vec![Change { at: at(50), set: Set::Rate(changed) }];
            let config = LinkConfig { rate, changes, fade: Some(long(1)), ..LinkConfig::default() };
            let mut link = Link::new(&config, 3);
            let _ = link.push(at(50), Bytes::new(1250), ());
            let mut next = link.next_event();
            while link.pop(next).is_none() {
                next = link.next_event();
            }
            assert_eq!(next, at(arrival), "{config:?}");
        }
    }

    /// What was drawn or scheduled meanwhile holds when the fade is over.
    #[test]
    fn after_a_fade_the_rate_is_the_one_of_then() {
        let rate = Some((BitRate::from_mbps(20), BitRate::from_mbps(90)));
        let redraw = Redraw { every: Span::from_millis(700), rate, ..Redraw::default() };
        let fade = Fade { share: 0.3, floor: (BitRate::from_mbps(1), BitRate::from_mbps(2)), ..SATELLITE };
        let plain = LinkConfig { redraw: Some(redraw), ..LinkConfig::default() };
        let fading = LinkConfig { fade: Some(fade), ..plain.clone() };
        let (mut with, mut without) = (Link::<u8>::new(&fading, 7), Link::<u8>::new(&plain, 7));
        let supply = Supply::new(&fading, 7.into(), at(300_000), crate::SURE);
        let mut faded = 0;
        for turn in 0..3_000 {
            let now = at(turn * 100);
            for link in [&mut with, &mut without] {
                let _ = link.push(now, Bytes::new(1), 0);
                while link.next_event() <= now {
                    let _ = link.pop(now);
                }
            }
            let (rate, other) = (with.outlook(now).rate, without.outlook(now).rate);
            assert!(rate == other || rate <= BitRate::from_mbps(2), "{rate:?}, {other:?} at {now:?}");
            faded += u64::from(rate != other);
            // What the bound counts is what the link has: 1 ns at this rate.
            let bits = u128::from(rate.as_bps());
            assert_eq!(supply.work(now, now), bits, "{now:?}");
        }
        assert!((300..2_000).contains(&faded), "{faded}");
    }
}
