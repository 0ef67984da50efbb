//! Timetable of a link: the configured changes, the redraws and the fades, in order of time.

use std::sync::Arc;

use rand_pcg::Pcg32;
use weftway_path::{BitRate, Instant, Span};

use crate::draw::{Chance, Component, Seeds, generator, uniform};
use crate::fade::Fades;
use crate::{Change, Common, LinkConfig, Loss, Redraw, Set};

/// 32-bit numbers in a redraw: rate, delay and loss take two each, whether they have a range or not.
const DRAWS: u64 = 6;

/// The changes still to come.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    changes: Arc<[Change]>,
    done: usize,
    redraws: Option<Redraws>,
    fades: Option<Fades>,
}

#[derive(Clone, Debug)]
struct Redraws {
    ranges: Redraw,
    generator: Pcg32,
    shared: Option<Shared>,
    /// Number of redraws so far.
    done: u64,
    next: Instant,
}

/// What a link draws in common with others.
#[derive(Clone, Debug)]
struct Shared {
    /// Chance of a redraw to be that of the group.
    chance: Chance,
    own: Pcg32,
    group: Pcg32,
}

impl Timetable {
    pub(crate) fn new(config: &LinkConfig, seeds: Seeds) -> Self {
        let mut changes = config.changes.clone();
        changes.sort_by_key(|change| change.at);
        let generator = generator(seeds.own, Component::Redraw);
        let shared = |common| Shared::new(common, seeds);
        let redraws = config.redraw.clone().map(|ranges| {
            let shared = ranges.common.map(shared);
            Redraws { ranges, generator, shared, done: 0, next: Instant::ZERO }
        });
        let fades = config.fade.map(|fade| Fades::new(fade, config.rate.clone(), seeds));
        Self { changes: changes.into(), done: 0, redraws, fades }
    }

    /// Time of the next change.
    pub(crate) fn next(&self) -> Instant {
        self.next_change().min(self.next_redraw()).min(self.next_fade())
    }

    /// Settings that change then. Not to be called after the last change.
    pub(crate) fn take(&mut self) -> Vec<Set> {
        let Some(fades) = &self.fades else { return self.take_set() };
        let is_fade = fades.next() < self.next_change().min(self.next_redraw());
        let sets = if is_fade { Vec::new() } else { self.take_set() };
        let Some(fades) = &mut self.fades else { return sets };
        if is_fade { vec![fades.take()] } else { sets.into_iter().map(|set| fades.cover(set)).collect() }
    }

    /// Settings of the next redraw or change.
    fn take_set(&mut self) -> Vec<Set> {
        if self.next_redraw() <= self.next_change()
            && let Some(redraws) = &mut self.redraws
        {
            return redraws.take();
        }
        let set = self.changes[self.done].set.clone();
        self.done += 1;
        vec![set]
    }

    /// Passes over redraws that the next one up to `now` overrides. Only for an idle link.
    pub(crate) fn skip(&mut self, now: Instant) {
        let until = now.min(self.next_change()).min(self.next_fade());
        if let Some(redraws) = &mut self.redraws {
            redraws.skip(until);
        }
    }

    fn next_change(&self) -> Instant {
        self.changes.get(self.done).map_or(Instant::NEVER, |change| change.at)
    }

    fn next_redraw(&self) -> Instant {
        self.redraws.as_ref().map_or(Instant::NEVER, |redraws| redraws.next)
    }

    fn next_fade(&self) -> Instant {
        self.fades.as_ref().map_or(Instant::NEVER, Fades::next)
    }
}

impl Shared {
    fn new(common: Common, seeds: Seeds) -> Self {
        Self {
            chance: Chance::new(libm::sqrt(common.correlation)),
            own: generator(seeds.own, Component::Common),
            group: seeds.of_group(common.group, Component::Common),
        }
    }

    /// The group's generator, for a redraw of the link that is that of the group; and that of the redraw after.
    fn take(&mut self) -> Option<Pcg32> {
        let draws = self.group.clone();
        self.group.advance(DRAWS);
        self.chance.draw(&mut self.own).then_some(draws)
    }

    fn skip(&mut self, redraws: u64) {
        self.group.advance(redraws.wrapping_mul(DRAWS));
        self.own.advance(redraws);
    }
}

impl Redraws {
    fn take(&mut self) -> Vec<Set> {
        let Redraw { rate, delay, loss, .. } = self.ranges;
        let bps = rate.map(|(low, high)| (low.as_bps(), high.as_bps()));
        let nanos = delay.map(|(low, high)| (low.as_nanos(), high.as_nanos()));
        let mut draws = self.generator.clone();
        self.generator.advance(DRAWS);
        if let Some(common) = self.shared.as_mut().and_then(Shared::take) {
            draws = common;
        }
        let sets = [
            draw(&mut draws, bps).map(|bps| Set::Rate(BitRate::from_bps(bps).into())),
            draw(&mut draws, nanos).map(|nanos| Set::Delay(Span::from_nanos(nanos))),
            // In steps of 2⁻³², as all probabilities.
            draw(&mut draws, loss.map(|(low, high)| (steps(low), steps(high)))).map(|p| Set::Loss(probability(p))),
        ];
        self.done += 1;
        self.next = self.time(self.done);
        sets.into_iter().flatten().collect()
    }

    fn skip(&mut self, until: Instant) {
        let every = self.ranges.every.as_nanos();
        let last = until.as_nanos().checked_div(every).unwrap_or(0);
        if !until.is_never() && last > self.done {
            self.generator.advance((last - self.done).wrapping_mul(DRAWS));
            if let Some(shared) = &mut self.shared {
                shared.skip(last - self.done);
            }
            self.done = last;
            self.next = self.time(last);
        }
    }

    fn time(&self, number: u64) -> Instant {
        let every = self.ranges.every;
        if every.is_zero() && number > 0 { Instant::NEVER } else { Instant::ZERO + every * number }
    }
}

fn draw(generator: &mut Pcg32, range: Option<(u64, u64)>) -> Option<u64> {
    let (low, high) = range.unwrap_or_default();
    let value = uniform(generator, low, high);
    range.map(|_| value)
}

fn steps(p: f64) -> u64 {
    (p.clamp(0.0, 1.0) * 4_294_967_296.0 + 0.5) as u64
}

fn probability(steps: u64) -> Loss {
    Loss::Bernoulli(steps as f64 / 4_294_967_296.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GROUP: Common = Common { group: 5, correlation: 0.4 };

    fn timetable(every: Span) -> Timetable {
        redrawn(every, None, 3.into())
    }

    fn redrawn(every: Span, common: Option<Common>, seeds: Seeds) -> Timetable {
        let rate = Some((BitRate::from_mbps(1), BitRate::from_mbps(100)));
        let redraw = Redraw { every, rate, delay: None, loss: Some((0.0, 0.1)), common };
        Timetable::new(&LinkConfig { redraw: Some(redraw), ..LinkConfig::default() }, seeds)
    }

    #[test]
    fn skipping_draws_what_stepping_draws() {
        skipping_is_stepping(|| timetable(Span::from_millis(10)));
        let common = Common { correlation: 0.25, ..GROUP };
        skipping_is_stepping(|| redrawn(Span::from_millis(10), Some(common), 3.into()));
    }

    fn skipping_is_stepping(new: impl Fn() -> Timetable) {
        let (mut stepped, mut skipped) = (new(), new());
        let draws: Vec<_> = (0..=7).map(|_| stepped.take()).collect();
        skipped.skip(Instant::from_millis(79));
        assert_eq!(skipped.next(), Instant::from_millis(70));
        assert_eq!(Some(&skipped.take()), draws.last());
        assert_ne!(draws[6], draws[7]);
    }

    /// Mean product of the deviations of 20 000 pairs, in units of their variance: sd about 1/√20 000 = 0.007.
    fn correlation(common: [Option<Common>; 2], runs: [u64; 2]) -> f64 {
        let rates = |at: usize| {
            let seeds = Seeds { own: 11 + at as u64, run: runs[at] };
            let mut timetable = redrawn(Span::from_millis(10), common[at], seeds);
            let next = move |_| match timetable.take()[0] {
                Set::Rate(crate::Rate::Constant(rate)) => (rate.as_bps() as f64 - 50.5e6) / 99e6,
                _ => unreachable!("the rate is drawn first"),
            };
            (0..20_000).map(next)
        };
        rates(0).zip(rates(1)).map(|(one, other)| one * other).sum::<f64>() / 20_000.0 * 12.0
    }

    /// Four deviations each. Without the root, 0.4 would be 0.16.
    #[test]
    fn links_of_a_group_are_correlated_as_they_say() {
        for wanted in [0.3, 0.4, 0.5, 1.0] {
            let common = Some(Common { correlation: wanted, ..GROUP });
            let found = correlation([common; 2], [8, 8]);
            assert!((found - wanted).abs() < 0.03, "{found} instead of {wanted}");
        }
        // Another group, another run, or a link without a group.
        let other = Some(Common { group: 6, ..GROUP });
        for (common, runs) in
            [([Some(GROUP), other], [8, 8]), ([Some(GROUP); 2], [8, 9]), ([Some(GROUP), None], [8, 8])]
        {
            assert!(correlation(common, runs).abs() < 0.03);
        }
    }

    /// A link that draws alone draws as it did before there were groups.
    #[test]
    fn a_group_leaves_the_links_own_draws_alone() {
        let mut alone = timetable(Span::from_millis(10));
        let mut together = redrawn(Span::from_millis(10), Some(Common { correlation: 0.0, ..GROUP }), 3.into());
        assert!((0..50).all(|_| alone.take() == together.take()));
    }

    #[test]
    fn a_period_of_zero_draws_once() {
        let mut once = timetable(Span::ZERO);
        assert_eq!(once.next(), Instant::ZERO);
        assert_eq!(once.take().len(), 2);
        assert!(once.next().is_never());
    }

    /// 3 · 10¹¹ redraws in between would take hours one by one.
    #[test]
    fn ten_idle_years_are_skipped() {
        let mut timetable = timetable(Span::from_millis(1));
        let years = Instant::ZERO + Span::from_secs(10 * 365 * 86_400);
        timetable.skip(years);
        assert_eq!(timetable.next(), years);
    }
}
