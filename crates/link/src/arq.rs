//! Losses that the link itself repairs.

use rand_pcg::Pcg32;
use weftway_path::Span;

use crate::Arq;
use crate::draw::{Chance, Component, generator};

/// More retries than any radio makes: bounds the work when every retry fails.
const MOST_RETRIES: u64 = 32;

/// The link-layer retransmission of one link.
#[derive(Clone, Debug)]
pub(crate) struct Repairs {
    hides: Chance,
    delay: Span,
    retry_loss: Chance,
    generator: Pcg32,
}

impl Repairs {
    pub(crate) fn new(arq: Arq, seed: u64) -> Self {
        Self {
            hides: Chance::new(arq.hides),
            delay: arq.delay,
            retry_loss: Chance::new(arq.retry_loss),
            generator: generator(seed, Component::Arq),
        }
    }

    /// The share of the losses that is hidden.
    pub(crate) fn hides(&self) -> f64 {
        self.hides.probability()
    }

    /// Delay with which a lost packet arrives after all; `None` when it stays lost.
    pub(crate) fn repair(&mut self) -> Option<Span> {
        if !self.hides.draw(&mut self.generator) {
            return None;
        }
        let mut retries = 1;
        if !self.retry_loss.is_zero() {
            while retries < MOST_RETRIES && self.retry_loss.draw(&mut self.generator) {
                retries += 1;
            }
        }
        Some(self.delay * retries)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn repairs(arq: Arq) -> Vec<Option<Span>> {
        let mut repairs = Repairs::new(arq, 9);
        (0..100_000).map(|_| repairs.repair()).collect()
    }

    /// Hidden with 0.7, n = 10⁵: sd √(0.21/10⁵) = 0.00145. Retries are geometric with failure 0.25:
    /// mean 4/3, variance 0.25/0.75² = 0.444, over 70 000 sd 0.0025. Four deviations each.
    #[test]
    fn hides_its_share_and_retries_geometrically() {
        let results = repairs(Arq { hides: 0.7, delay: Span::from_millis(8), retry_loss: 0.25 });
        let delays: Vec<f64> = results.iter().flatten().map(|delay| delay.as_millis_f64() / 8.0).collect();
        assert!((delays.len() as f64 / 1e5 - 0.7).abs() < 0.0058);
        let mean = delays.iter().sum::<f64>() / delays.len() as f64;
        assert!((mean - 4.0 / 3.0).abs() < 0.0101, "{mean}");
    }

    #[test]
    fn hopeless_retries_end() {
        let results = repairs(Arq { hides: 1.0, delay: Span::from_millis(1), retry_loss: 1.0 });
        assert!(results.iter().all(|delay| *delay == Some(Span::from_millis(32))));
    }
}
