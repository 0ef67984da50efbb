//! Training of dense layers by temporal differences, one small step at a time, without allocation.
//!
//! A step takes a batch of transitions `(s, a, r, s')` and moves the weights against the gradient
//! of the mean over it of `huber(Q(s, a) − y)`, `y = r + γ·max Q'(s', ·)`, Q' a network that the
//! step does not move. Huber's loss is `e²/2` up to 1 and `|e| − 1/2` beyond. The step is Adam's:
//!   `m = β₁m + (1 − β₁)g`, `v = β₂v + (1 − β₂)g²`,
//!   `w −= lr·(m/(1 − β₁ᵗ))/(√(v/(1 − β₂ᵗ)) + ε)`.
//! Reference: Kingma and Ba, Adam, 2015, algorithm 1 with its constants.

use crate::learned::nn::dense::dense;
use crate::learned::nn::mlp::{Layer, Mlp};

const BETA_1: f32 = 0.9;
const BETA_2: f32 = 0.999;
const EPSILON: f32 = 1e-8;

/// Transition between two decisions.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Transition<'a> {
    pub(crate) observation: &'a [f32],
    pub(crate) action: usize,
    pub(crate) reward: f32,
    /// Observation at the next decision.
    pub(crate) following: &'a [f32],
}

/// Scratch memory of training.
#[derive(Clone)]
pub(crate) struct Trainer {
    gradients: Vec<Layer>,
    /// Adam's m and v.
    moments: [Vec<Layer>; 2],
    /// `β₁ᵗ` and `β₂ᵗ`.
    powers: [f32; 2],
    /// The outputs of each layer, and the loss's derivatives by what they are before activation.
    outputs: Vec<Vec<f32>>,
    errors: Vec<Vec<f32>>,
    buffers: Vec<Vec<f32>>,
    values: Vec<f32>,
    /// Transitions in the batch so far.
    count: u32,
}

impl Trainer {
    /// For `mlp` and networks as wide.
    pub(crate) fn new(mlp: &Mlp) -> Self {
        let mut zeros = mlp.layers.clone();
        zeros.iter_mut().for_each(clear);
        let outputs: Vec<_> = mlp.layers.iter().map(|layer| vec![0.0; layer.b.len()]).collect();
        Self {
            gradients: zeros.clone(),
            moments: [zeros.clone(), zeros],
            powers: [1.0; 2],
            errors: outputs.clone(),
            outputs,
            buffers: mlp.buffers(),
            values: vec![0.0; mlp.outputs()],
            count: 0,
        }
    }

    /// Forgets the steps before: another network begins.
    pub(crate) fn reset(&mut self) {
        self.moments.iter_mut().flatten().for_each(clear);
        self.gradients.iter_mut().for_each(clear);
        (self.powers, self.count) = ([1.0; 2], 0);
    }

    /// `r + γ·max Q'(s', ·)`, where `target` is Q'.
    pub(crate) fn wanted(&mut self, target: &Mlp, transition: &Transition<'_>, gamma: f32) -> f32 {
        target.forward(&mut self.buffers, transition.following, &mut self.values);
        let best = self.values.iter().copied().fold(f32::NEG_INFINITY, f32::max);
        transition.reward + gamma * best
    }

    /// Adds a transition whose value should be `wanted` to the batch; its loss.
    pub(crate) fn add(&mut self, mlp: &Mlp, transition: &Transition<'_>, wanted: f32) -> f32 {
        self.forward(mlp, transition.observation);
        let last = self.outputs.len() - 1;
        let error = self.outputs[last][transition.action] - wanted;
        self.errors[last].fill(0.0);
        self.errors[last][transition.action] = error.clamp(-1.0, 1.0);
        self.backward(mlp, transition.observation);
        self.count += 1;
        if error.abs() <= 1.0 { error * error / 2.0 } else { error.abs() - 0.5 }
    }

    /// Moves `mlp` by the batch, and begins the next.
    pub(crate) fn step(&mut self, mlp: &mut Mlp, rate: f32) {
        self.powers = [self.powers[0] * BETA_1, self.powers[1] * BETA_2];
        let adam = Adam {
            scale: 1.0 / self.count.max(1) as f32,
            rate: rate / (1.0 - self.powers[0]),
            spread: 1.0 / (1.0 - self.powers[1]),
        };
        let [first, second] = &mut self.moments;
        let moments = first.iter_mut().zip(second);
        for ((layer, gradient), (m, v)) in mlp.layers.iter_mut().zip(&mut self.gradients).zip(moments) {
            adam.step(&mut layer.w, &gradient.w, [&mut m.w, &mut v.w]);
            adam.step(&mut layer.b, &gradient.b, [&mut m.b, &mut v.b]);
            clear(gradient);
        }
        self.count = 0;
    }

    fn forward(&mut self, mlp: &Mlp, observation: &[f32]) {
        let last = self.outputs.len() - 1;
        for (at, layer) in mlp.layers.iter().enumerate() {
            let (before, here) = self.outputs.split_at_mut(at);
            dense(before.last().map_or(observation, Vec::as_slice), &layer.w, &layer.b, &mut here[0]);
            if at < last {
                mlp.activation().apply(&mut here[0]);
            }
        }
    }

    /// Adds the gradient of the newest forward pass, from the last layer's error.
    fn backward(&mut self, mlp: &Mlp, observation: &[f32]) {
        for at in (0..mlp.layers.len()).rev() {
            let (before, here) = self.errors.split_at_mut(at);
            let (error, gradient) = (&here[0], &mut self.gradients[at]);
            let x = if at == 0 { observation } else { &self.outputs[at - 1] };
            gradient.b.iter_mut().zip(error).for_each(|(sum, error)| *sum += error);
            for (row, x) in gradient.w.chunks_exact_mut(error.len()).zip(x).filter(|(_, x)| **x != 0.0) {
                row.iter_mut().zip(error).for_each(|(sum, error)| *sum += x * error);
            }
            let Some(earlier) = before.last_mut() else { continue };
            let rows = mlp.layers[at].w.chunks_exact(error.len());
            for ((earlier, row), x) in earlier.iter_mut().zip(rows).zip(x) {
                let slope = mlp.activation().slope(*x);
                *earlier = if slope == 0.0 { 0.0 } else { slope * dot(row, error) };
            }
        }
    }
}

fn clear(layer: &mut Layer) {
    layer.w.fill(0.0);
    layer.b.fill(0.0);
}

/// Number of sums that run side by side, in a fixed order.
const LANES: usize = 8;

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let whole = a.len() - a.len() % LANES;
    for (a, b) in a[..whole].chunks_exact(LANES).zip(b[..whole].chunks_exact(LANES)) {
        for (sum, (a, b)) in sums.iter_mut().zip(a.iter().zip(b)) {
            *sum += a * b;
        }
    }
    let rest: f32 = a[whole..].iter().zip(&b[whole..]).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

/// A step's numbers.
struct Adam {
    /// Inverse of the size of the batch.
    scale: f32,
    /// The learning rate over `1 − β₁ᵗ`.
    rate: f32,
    /// Inverse of `1 − β₂ᵗ`.
    spread: f32,
}

impl Adam {
    fn step(&self, weights: &mut [f32], gradients: &[f32], [m, v]: [&mut [f32]; 2]) {
        for ((w, g), (m, v)) in weights.iter_mut().zip(gradients).zip(m.iter_mut().zip(v)) {
            let g = g * self.scale;
            *m = BETA_1 * *m + (1.0 - BETA_1) * g;
            *v = BETA_2 * *v + (1.0 - BETA_2) * g * g;
            *w -= self.rate * *m / ((*v * self.spread).sqrt() + EPSILON);
        }
    }
}

#[cfg(test)]
mod tests;
