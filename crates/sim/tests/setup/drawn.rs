//! Links of worlds that are drawn.

use std::sync::Arc;

use weftway_link::{Arq, Change, Distribution, Fade, Jitter, Limit, LinkConfig, Loss, Rate, Redraw, Set, Trace};
use weftway_path::{BitRate, Instant, Span};
use weftway_scenario::mix;

/// Numbers for a world.
pub struct Draws {
    seed: u64,
    drawn: u64,
}

impl Draws {
    /// Numbers that follow from `seed`.
    pub fn of(seed: u64) -> Self {
        Self { seed, drawn: 0 }
    }

    /// A number below `limit`.
    pub fn below(&mut self, limit: u64) -> u64 {
        self.drawn += 1;
        mix(self.seed, self.drawn) % limit
    }

    /// A number from `low` to `high`.
    pub fn between(&mut self, low: u64, high: u64) -> u64 {
        low + self.below(high - low + 1)
    }

    /// True once in `n` times.
    pub fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// So many milliseconds.
pub fn ms(n: u64) -> Span {
    Span::from_millis(n)
}

/// So many kbit/s.
pub fn kbps(n: u64) -> BitRate {
    BitRate::from_bps(n * 1000)
}

fn changes(draws: &mut Draws) -> Vec<Change> {
    let mut changes = Vec::new();
    for _ in 0..draws.below(4) {
        let at = Instant::from_millis(draws.between(50, 2_000));
        let set = match draws.below(3) {
            0 => Set::Rate(kbps(draws.between(500, 40_000)).into()),
            1 => Set::Delay(ms(draws.between(1, 80))),
            _ => {
                changes.push(Change { at: at + ms(draws.between(20, 600)), set: Set::Up });
                Set::Down
            }
        };
        changes.push(Change { at, set });
    }
    changes
}

fn noise(draws: &mut Draws, link: &mut LinkConfig) {
    if draws.one_in(3) {
        let distribution = match draws.below(3) {
            0 => Distribution::Uniform { half_width: ms(draws.between(1, 20)) },
            1 => Distribution::Normal { sd: ms(draws.between(1, 4)) },
            _ => Distribution::Correlated { sd: ms(draws.between(1, 4)), over: ms(100) },
        };
        link.jitter = Some(Jitter { distribution, reorder: draws.one_in(2) });
    }
    link.loss = match draws.below(6) {
        0 => Loss::Bernoulli(0.02),
        1 => Loss::GilbertElliott { to_bad: 0.01, to_good: 0.3, loss_good: 0.0, loss_bad: 0.5 },
        2 => Loss::Windows(vec![(Instant::from_millis(200), Instant::from_millis(draws.between(250, 500)))]),
        _ => Loss::None,
    };
    link.arq = draws.one_in(5).then_some(Arq { hides: 0.7, delay: ms(8), retry_loss: 0.1 });
}

/// A link of any kind.
pub fn drawn_link(draws: &mut Draws) -> LinkConfig {
    let mut link = super::link(draws.between(600, 40_000), draws.between(1, 90));
    link.queue.limit = Limit::Packets(draws.between(5, 300));
    match draws.below(6) {
        0 => {
            let times = (1..=draws.between(3, 60)).map(|n| (n * 7 + draws.below(7)) as u32).collect();
            link.rate = Rate::Trace(Arc::new(Trace::new(times).expect("a trace")));
        }
        1 => {
            let rate = Some((kbps(800), kbps(draws.between(1_000, 30_000))));
            let delay = draws.one_in(2).then_some((ms(5), ms(60)));
            link.redraw = Some(Redraw { every: ms(draws.between(30, 400)), rate, delay, ..Redraw::default() });
        }
        2 | 3 => link.changes = changes(draws),
        _ => {}
    }
    noise(draws, &mut link);
    if draws.one_in(4) {
        let floor = (BitRate::ZERO, kbps(draws.between(100, 3_000)));
        let median = ms(draws.between(10, 300));
        link.fade = Some(Fade { share: 0.2, median, sigma: 0.5, floor, group: draws.below(2) });
    }
    link
}
