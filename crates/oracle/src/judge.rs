//! O1: which path brings a message soonest, and treats the paths fairly where it does not matter.
//!
//! `D_i = max(t_i, when the message before has arrived)`; the best path is that of least
//! `D_i − λ·D0·Jain_i`, with Jain's index of the paths' loads over their rates if i takes the message.

use weftway_path::Bytes;

use crate::truth::{FAR, Truth};

/// λ: Jain's index from 0 to 1 is worth this much of [`D0`].
pub const LAMBDA: f64 = 0.1;

/// D0: the delay that counts as 1, in seconds.
pub const D0: f64 = 0.1;

/// Difference in seconds below which costs are equal: the path of smaller number is taken.
const TIE: f64 = 1e-6;

/// Judgement of the oracle on each path.
#[derive(Clone, Debug, PartialEq)]
pub struct Judgement {
    /// The best path.
    pub label: usize,
    /// By how many seconds the second is worse; [`FAR`] if there is none.
    pub margin: f64,
    /// Cost of each path, in seconds: its delay less its fairness. Infinite where it cannot be taken.
    pub costs: Vec<f64>,
}

/// Judges a message of `bytes`, in packets of `mss`, before which everything has arrived in `release` seconds.
/// `loads` are the bytes that each path has carried of late. `None`: the path cannot be taken.
pub fn judge(truths: &[Option<Truth>], bytes: Bytes, mss: Bytes, release: f64, loads: &[f64]) -> Option<Judgement> {
    let packets = bytes.get().div_ceil(mss.get().max(1));
    let cost = |at: usize| {
        let Some(truth) = truths[at] else { return f64::INFINITY };
        truth.arrival(bytes, packets).max(release) - LAMBDA * D0 * jain_after(truths, loads, at, bytes)
    };
    let costs: Vec<f64> = (0..truths.len()).map(cost).collect();
    let least = costs.iter().copied().fold(f64::INFINITY, f64::min);
    let label = costs.iter().position(|cost| *cost < least + TIE).filter(|_| least.is_finite())?;
    let others = costs.iter().enumerate().filter(|(at, _)| *at != label).map(|(_, cost)| *cost);
    let margin = (others.fold(f64::INFINITY, f64::min) - costs[label]).clamp(0.0, FAR);
    Some(Judgement { label, margin, costs })
}

/// Jain's index of loads over rates, if path `taken` gets `bytes` more.
fn jain_after(truths: &[Option<Truth>], loads: &[f64], taken: usize, bytes: Bytes) -> f64 {
    let of = |(at, truth): (usize, &Option<Truth>)| {
        let rate = truth.map_or(0.0, |truth| truth.rate.as_bps() as f64 / 8.0);
        let more = if at == taken { bytes.get() as f64 } else { 0.0 };
        (rate > 0.0).then(|| (loads[at] + more) / rate)
    };
    jain(&truths.iter().enumerate().filter_map(of).collect::<Vec<_>>())
}

/// Jain's index, from 1/n, one has everything, to 1, all have the same; 1 if there is nothing to share.
pub fn jain(values: &[f64]) -> f64 {
    let (sum, squares) = values.iter().fold((0.0, 0.0), |(sum, squares), x| (sum + x, squares + x * x));
    if squares > 0.0 { sum * sum / (values.len() as f64 * squares) } else { 1.0 }
}
