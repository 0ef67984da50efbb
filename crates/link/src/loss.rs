//! Which packets the wire loses.

use std::sync::Arc;

use rand_pcg::Pcg32;
use weftway_path::Instant;

use crate::Loss;
use crate::draw::{Chance, Component, generator};

/// The losses of one link.
#[derive(Clone, Debug)]
pub(crate) struct Losses {
    model: Model,
    generator: Pcg32,
}

#[derive(Clone, Debug)]
enum Model {
    Never,
    Bernoulli(Chance),
    GilbertElliott { leave: [Chance; 2], lose: [Chance; 2], bad: bool },
    Packets { numbers: Arc<[u64]>, next: usize },
    Windows { windows: Arc<[(Instant, Instant)]>, next: usize },
}

impl Losses {
    pub(crate) fn new(loss: &Loss, seed: u64) -> Self {
        Self { model: Model::new(loss), generator: generator(seed, Component::Loss) }
    }

    /// Switches to another model; the draws go on.
    pub(crate) fn set(&mut self, loss: &Loss) {
        self.model = Model::new(loss);
    }

    /// Returns true if packet `number` of the link, which departs at `departure`, is lost. Packets come in order.
    #[inline]
    pub(crate) fn take(&mut self, number: u64, departure: Instant) -> bool {
        match &mut self.model {
            Model::Never => false,
            Model::Bernoulli(chance) => chance.draw(&mut self.generator),
            _ => self.take_other(number, departure),
        }
    }

    /// Probability that packet `number`, the next, is lost if it departs at `departure`: 0 or 1 for losses that are
    /// listed.
    pub(crate) fn probability(&self, number: u64, departure: Instant) -> f64 {
        match &self.model {
            Model::Never => 0.0,
            Model::Bernoulli(chance) => chance.probability(),
            Model::GilbertElliott { leave, lose, bad } => {
                let here = usize::from(*bad);
                let leave = leave[here].probability();
                leave * lose[1 - here].probability() + (1.0 - leave) * lose[here].probability()
            }
            Model::Packets { numbers, .. } => f64::from(u8::from(numbers.binary_search(&number).is_ok())),
            Model::Windows { windows, .. } => {
                let holds = windows.iter().any(|(start, end)| *start <= departure && departure < *end);
                f64::from(u8::from(holds))
            }
        }
    }

    #[cold]
    fn take_other(&mut self, number: u64, departure: Instant) -> bool {
        match &mut self.model {
            Model::Never | Model::Bernoulli(_) => unreachable!("handled by take"),
            Model::GilbertElliott { leave, lose, bad } => {
                *bad ^= leave[usize::from(*bad)].draw(&mut self.generator);
                lose[usize::from(*bad)].draw(&mut self.generator)
            }
            Model::Packets { numbers, next } => {
                *next += numbers[*next..].iter().take_while(|listed| **listed < number).count();
                numbers.get(*next) == Some(&number)
            }
            Model::Windows { windows, next } => {
                *next += windows[*next..].iter().take_while(|(_, end)| *end <= departure).count();
                windows.get(*next).is_some_and(|(start, _)| *start <= departure)
            }
        }
    }
}

impl Model {
    fn new(loss: &Loss) -> Self {
        match loss {
            Loss::None => Self::Never,
            Loss::Bernoulli(p) => Self::Bernoulli(Chance::new(*p)),
            Loss::GilbertElliott { to_bad, to_good, loss_good, loss_bad } => Self::GilbertElliott {
                leave: [Chance::new(*to_bad), Chance::new(*to_good)],
                lose: [Chance::new(*loss_good), Chance::new(*loss_bad)],
                bad: false,
            },
            Loss::Packets(numbers) => {
                let mut numbers = numbers.clone();
                numbers.sort_unstable();
                Self::Packets { numbers: numbers.into(), next: 0 }
            }
            Loss::Windows(windows) => Self::Windows { windows: disjoint(windows).into(), next: 0 },
        }
    }
}

/// The windows in order, overlapping ones joined, so that a cursor finds the one that counts.
fn disjoint(windows: &[(Instant, Instant)]) -> Vec<(Instant, Instant)> {
    let mut sorted = windows.to_vec();
    sorted.sort_unstable();
    let mut joined: Vec<(Instant, Instant)> = Vec::with_capacity(sorted.len());
    for (start, end) in sorted {
        match joined.last_mut() {
            Some(last) if start <= last.1 => last.1 = last.1.max(end),
            _ => joined.push((start, end)),
        }
    }
    joined
}

#[cfg(test)]
mod tests {
    use super::*;

    fn losses(loss: &Loss, packets: usize) -> Vec<bool> {
        let mut losses = Losses::new(loss, 42);
        (0..packets).map(|number| losses.take(number as u64, Instant::ZERO)).collect()
    }

    fn share(lost: &[bool]) -> f64 {
        lost.iter().filter(|lost| **lost).count() as f64 / lost.len() as f64
    }

    /// p = 0.02, n = 10⁶: sd √(0.02·0.98/10⁶) = 0.00014. Four deviations: 0.00056.
    #[test]
    fn bernoulli_loses_its_share() {
        let share = share(&losses(&Loss::Bernoulli(0.02), 1_000_000));
        assert!((share - 0.02).abs() < 0.000_56, "{share}");
    }

    /// Good → bad 0.01, bad → good 0.2: bad for 0.01/0.21 = 1/21 of the packets, so with loss 0.5 in
    /// bad 1/42 = 0.02381 are lost. Neighbouring states correlate by 1 − 0.21 = 0.79, so the variance
    /// of the number of bad packets is (1.79/0.21) · n · (1/21)(20/21); n = 10⁶ gives a share with sd
    /// √(8.52 · 0.04535 / 10⁶) = 0.00062, halved by the loss, plus the draw's own
    /// √(0.25/21/10⁶) = 0.00011: 0.00033 in all. Four deviations: 0.0013.
    #[test]
    fn gilbert_elliott_loses_its_share_in_bursts() {
        let model = Loss::GilbertElliott { to_bad: 0.01, to_good: 0.2, loss_good: 0.0, loss_bad: 0.5 };
        let lost = losses(&model, 1_000_000);
        assert!((share(&lost) - 1.0 / 42.0).abs() < 0.0013, "{}", share(&lost));

        // After a loss the state is bad: the next packet is lost with 0.8 · 0.5 = 0.4. About 23 800
        // losses: sd √(0.24/23800) = 0.0032, four are 0.013.
        let after: Vec<bool> = lost.windows(2).filter(|pair| pair[0]).map(|pair| pair[1]).collect();
        assert!((share(&after) - 0.4).abs() < 0.013, "{}", share(&after));
    }

    #[test]
    fn listed_packets_are_lost_in_any_order_of_listing() {
        assert_eq!(losses(&Loss::Packets(vec![3, 1, 1]), 5), [false, true, false, true, false]);
    }

    #[test]
    fn windows_are_half_open_and_may_overlap() {
        let at = Instant::from_millis;
        let mut losses = Losses::new(&Loss::Windows(vec![(at(5), at(7)), (at(1), at(3)), (at(2), at(4))]), 0);
        let lost: Vec<bool> = (0..8).map(|ms| losses.take(ms, at(ms))).collect();
        assert_eq!(lost, [false, true, true, true, false, true, true, false]);
    }
}
