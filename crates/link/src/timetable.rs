//! Timetable of a link: the configured changes and the redraws, in order of time.

use std::sync::Arc;

use rand_pcg::Pcg32;
use weftway_path::{BitRate, Instant, Span};

use crate::draw::{Component, generator, uniform};
use crate::{Change, LinkConfig, Loss, Redraw, Set};

/// 32-bit numbers in a redraw: rate, delay and loss take two each, whether they have a range or not.
const DRAWS: u64 = 6;

/// The changes still to come.
#[derive(Clone, Debug)]
pub(crate) struct Timetable {
    changes: Arc<[Change]>,
    done: usize,
    redraws: Option<Redraws>,
}

#[derive(Clone, Debug)]
struct Redraws {
    ranges: Redraw,
    generator: Pcg32,
    /// Number of redraws so far.
    done: u64,
    next: Instant,
}

impl Timetable {
    pub(crate) fn new(config: &LinkConfig, seed: u64) -> Self {
        let mut changes = config.changes.clone();
        changes.sort_by_key(|change| change.at);
        let generator = generator(seed, Component::Redraw);
        let redraws = config.redraw.clone().map(|ranges| Redraws { ranges, generator, done: 0, next: Instant::ZERO });
        Self { changes: changes.into(), done: 0, redraws }
    }

    /// Time of the next change.
    pub(crate) fn next(&self) -> Instant {
        self.next_change().min(self.next_redraw())
    }

    /// Settings that change then. Not to be called after the last change.
    pub(crate) fn take(&mut self) -> Vec<Set> {
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
        let until = now.min(self.next_change());
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
}

impl Redraws {
    fn take(&mut self) -> Vec<Set> {
        let Redraw { rate, delay, loss, .. } = self.ranges;
        let bps = rate.map(|(low, high)| (low.as_bps(), high.as_bps()));
        let nanos = delay.map(|(low, high)| (low.as_nanos(), high.as_nanos()));
        let sets = [
            self.draw(bps).map(|bps| Set::Rate(BitRate::from_bps(bps).into())),
            self.draw(nanos).map(|nanos| Set::Delay(Span::from_nanos(nanos))),
            // In steps of 2⁻³², as all probabilities.
            self.draw(loss.map(|(low, high)| (steps(low), steps(high)))).map(|p| Set::Loss(probability(p))),
        ];
        self.done += 1;
        self.next = self.time(self.done);
        sets.into_iter().flatten().collect()
    }

    fn draw(&mut self, range: Option<(u64, u64)>) -> Option<u64> {
        let (low, high) = range.unwrap_or_default();
        let value = uniform(&mut self.generator, low, high);
        range.map(|_| value)
    }

    fn skip(&mut self, until: Instant) {
        let every = self.ranges.every.as_nanos();
        let last = until.as_nanos().checked_div(every).unwrap_or(0);
        if !until.is_never() && last > self.done {
            self.generator.advance((last - self.done).wrapping_mul(DRAWS));
            self.done = last;
            self.next = self.time(last);
        }
    }

    fn time(&self, number: u64) -> Instant {
        let every = self.ranges.every;
        if every.is_zero() && number > 0 { Instant::NEVER } else { Instant::ZERO + every * number }
    }
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

    fn timetable(every: Span) -> Timetable {
        let rate = Some((BitRate::from_mbps(1), BitRate::from_mbps(100)));
        let redraw = Redraw { every, rate, delay: None, loss: Some((0.0, 0.1)) };
        Timetable::new(&LinkConfig { redraw: Some(redraw), ..LinkConfig::default() }, 3)
    }

    #[test]
    fn skipping_draws_what_stepping_draws() {
        let (mut stepped, mut skipped) = (timetable(Span::from_millis(10)), timetable(Span::from_millis(10)));
        let draws: Vec<_> = (0..=7).map(|_| stepped.take()).collect();
        skipped.skip(Instant::from_millis(79));
        assert_eq!(skipped.next(), Instant::from_millis(70));
        assert_eq!(Some(&skipped.take()), draws.last());
        assert_ne!(draws[6], draws[7]);
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
