//! Fades: times in which the rate of a link is at most a floor. Floats, because lengths are log-normal; each is rounded to
//! whole nanoseconds (towards zero) before it is used.

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

    /// What becomes of a setting: a rate shows as far as the fade lets it.
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

    /// What is left of the fade in which the link begins. It is one of those that there are at a moment: long ones are
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
