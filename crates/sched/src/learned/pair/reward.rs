//! Reward of Q-learning, DQN and UCB: throughput less round-trip time, over the pair.
//!
//! `r = a·Σ thr_i/R0_i − b·Σ min(srtt_i/D0, 1)`, read when the decision's record closes. Each
//! throughput is within [0, 1] of the path's peak rate R0, so that r lies in [−2b, 2a]. A lost
//! packet earns no throughput; the round-trip times are charged all the same.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Path, Span};

use super::policy::Question;
use super::records::Fate;

/// Weight of throughput.
pub(crate) const A: Param =
    Param { name: "a", default: "1", values: "number, 0 to 10", doc: "weight of the throughputs in the reward" };
/// Weight of time.
pub(crate) const B: Param = Param {
    name: "b",
    default: "0.5",
    values: "number, 0 to 10",
    doc: "weight of the round-trip times in the reward; the paper leaves both open",
};
/// The scale of round-trip times.
pub(crate) const D0: Param = Param {
    name: "d0_ms",
    default: "250",
    values: "milliseconds, 1 to 10000",
    doc: "the round-trip time that counts as 1 in the reward",
};

/// The reward's constants.
#[derive(Clone, Copy)]
pub(crate) struct Delivery {
    a: f64,
    b: f64,
    /// In seconds.
    d0: f64,
}

impl Delivery {
    /// As the switches say.
    pub(crate) fn new(params: &Params) -> Result<Self, SpecError> {
        let (a, b) = (params.within("a", 0.0..=10.0)?, params.within("b", 0.0..=10.0)?);
        Ok(Self { a, b, d0: Span::from_millis(params.within("d0_ms", 1..=10_000)?).as_secs_f64() })
    }

    /// Returns the reward of a decision whose record closes at `at_close`.
    #[inline]
    pub(crate) fn of(&self, at_close: &Question<'_>, fate: Fate) -> f64 {
        let Question { fast, slow, meters, .. } = at_close;
        let throughput = meters.of(fast.id).throughput() + meters.of(slow.id).throughput();
        let time = self.time(fast) + self.time(slow);
        let earned = if fate == Fate::Lost { 0.0 } else { throughput };
        self.a * earned - self.b * time
    }

    #[inline]
    fn time(&self, path: &Path) -> f64 {
        (path.srtt.as_secs_f64() / self.d0).min(1.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::pair::meters::Meters;
    use weftway_path::{Counters, Instant};
    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn throughput_is_earned_and_time_is_charged() {
        let mut bench = Bench::new(vec![path(0, 25, 10, 10), path(1, 50, 10, 0)]);
        let mut meters = Meters::default();
        bench.paths.iter().for_each(|path| meters.update(Instant::ZERO, path));
        // F delivers 5 of its 10 packets in a round trip of 25 ms.
        bench.paths[0].acked = Counters { bytes: weftway_vectors::testing::packets(5), packets: 5 };
        meters.update(Instant::from_millis(25), &bench.paths[0]);
        let cx = bench.context();
        let at_close = Question { cx: &cx, fast: &bench.paths[0], slow: &bench.paths[1], meters: &meters };
        let reward = Delivery { a: 1.0, b: 0.5, d0: 0.25 };
        // 0.5 + 0 − 0.5·(0.1 + 0.2); a lost packet earns nothing.
        assert!((reward.of(&at_close, Fate::Acked) - 0.35).abs() < 1e-9);
        assert!((reward.of(&at_close, Fate::Lost) + 0.15).abs() < 1e-9);
    }
}
