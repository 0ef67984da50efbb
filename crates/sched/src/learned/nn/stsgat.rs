//! STSGAT: attention over the paths and their own past.
//!
//! What is seen: X (N, C, T), packet features c (Cp, T), alive (N), one after the other. With H₀ the
//! embedded and projected steps (T, N, F), each of M modules turns windows of three successive steps into one:
//!   `e_ij = LeakyReLU(dst·W h_i + src·W h_j)`, `α = softmax_j e`, `h_i' = ELU(Σ_j α_ij W h_j)`,
//! K heads side by side, L layers; j runs over the paths of the same step and over path i one step
//! before and after. The largest of the L outputs of the middle step is kept, so T becomes T − 2.
//! A readout shared by the paths gives one score each; a path that is not alive gets −10⁹ and is
//! nobody's neighbour but its own.
//! Reference: PDASTSGAT, Algorithm 1, equations 1 to 3; Veličković et al., "Graph Attention
//! Networks" (2018).
//! Departs from print: embeddings have the width of their inputs, unconnected pairs are skipped
//! and do not end the loop, a layer reads what the layer before wrote, and only that.
//! Of a window's 3N nodes, what no kept output depends on is not computed. Without the tensor
//! `semb` the network does not know paths by their number.

use weftway_path::spec::{Param, Params};

use super::dense::dense_rows;
use super::exp::{exp, expm1};
use crate::learned::tensors::{PolicyError, Tensors};

/// Below zero, LeakyReLU's slope.
const SLOPE: f32 = 0.2;

/// A score that no softmax weighs.
const DEAD: f32 = -1e9;

/// Heads of a layer, and numbers that it gives per node (F), at most.
const MOST_HEADS: usize = 64;
const WIDEST: usize = 512;

/// Steps of a window.
const WINDOW: usize = 3;

pub(super) const PARAMS: &[Param] = &[
    Param { name: "paths", default: "4", values: "paths, 1 to 64", doc: "nodes, N" },
    Param { name: "steps", default: "12", values: "steps, 3 to 64", doc: "history, T" },
    Param { name: "features", default: "6", values: "numbers, 1 to 64", doc: "of a path per step, C" },
    Param { name: "packet_features", default: "2", values: "numbers, 0 to 64", doc: "of the packet per step, Cp" },
    Param { name: "heads", default: "4", values: "heads, 1 to 64", doc: "of a layer, K" },
    Param { name: "modules", default: "2", values: "modules, 1 to 16", doc: "each takes two steps away, M" },
    Param { name: "layers", default: "3", values: "layers, 1 to 16", doc: "of a module, L" },
];

/// The network.
#[derive(Clone, Debug)]
pub struct Stsgat {
    paths: usize,
    steps: usize,
    features: usize,
    packet_features: usize,
    heads: usize,
    hidden: usize,
    /// (C + Cp, T).
    temb: Vec<f32>,
    /// (N, C + Cp), if paths are known by their number.
    semb: Option<Vec<f32>>,
    fc_w: Vec<f32>,
    fc_b: Vec<f32>,
    modules: Vec<Vec<Layer>>,
    out_w: Vec<f32>,
    out_b: f32,
}

#[derive(Clone, Debug)]
struct Layer {
    /// (F, F): all heads side by side.
    w: Vec<f32>,
    /// (F): of each head, side by side.
    src: Vec<f32>,
    dst: Vec<f32>,
}

/// Nodes of one step as attention sees them.
#[derive(Clone, Debug, Default)]
struct Nodes {
    /// W h: (N, F).
    u: Vec<f32>,
    /// dst·W h and src·W h: (N, K).
    dst: Vec<f32>,
    src: Vec<f32>,
}

/// Result of attention for the nodes of one step.
#[derive(Clone, Debug, Default)]
struct Attended {
    /// Weights of one node: α of each neighbour and head, (neighbours, K).
    weights: Vec<f32>,
    /// (N, F).
    h: Vec<f32>,
}

/// Scratch memory of a pass.
#[derive(Clone, Debug, Default)]
pub(super) struct Buffers {
    h: Vec<f32>,
    next: Vec<f32>,
    /// Inputs of one step, (N, C + Cp).
    input: Vec<f32>,
    /// The first layer's view of every step.
    all: Vec<Nodes>,
    window: [Nodes; WINDOW],
    given: [Attended; WINDOW],
    zeros: Vec<f32>,
}

impl Stsgat {
    pub(super) fn read(params: &Params, tensors: &Tensors<'_>) -> Result<Self, PolicyError> {
        let count = |key: &str, least: usize, most: usize| params.within(key, least..=most);
        let (paths, steps) = (count("paths", 1, 64)?, count("steps", 3, 64)?);
        let (features, packet_features) = (count("features", 1, 64)?, count("packet_features", 0, 64)?);
        let (heads, modules, layers) =
            (count("heads", 1, MOST_HEADS)?, count("modules", 1, 16)?, count("layers", 1, 16)?);
        if steps <= 2 * modules {
            return Err(params.bad("modules").into());
        }
        let channels = features + packet_features;
        let [hidden] = tensors.dimensions("fc_b")?.ok_or_else(|| PolicyError::NoTensor("fc_b".to_owned()))?;
        if hidden > WIDEST || !hidden.is_multiple_of(heads) {
            let (name, found) = ("fc_b".to_owned(), format!("of {hidden} numbers"));
            return Err(PolicyError::Tensor {
                name,
                found,
                expected: format!("a multiple of {heads} heads, at most {WIDEST}"),
            });
        }
        let size = hidden / heads;
        let layer = |m: usize, l: usize| {
            Ok(Layer {
                w: tensors.take(&format!("m{m}.l{l}.w"), &[hidden, hidden])?,
                src: tensors.take(&format!("m{m}.l{l}.src"), &[heads, size])?,
                dst: tensors.take(&format!("m{m}.l{l}.dst"), &[heads, size])?,
            })
        };
        let module = |m| (0..layers).map(|l| layer(m, l)).collect::<Result<Vec<_>, PolicyError>>();
        let semb = tensors.shape("semb").map(|_| tensors.take("semb", &[1, paths, channels, 1])).transpose()?;
        Ok(Self {
            temb: tensors.take("temb", &[1, 1, channels, steps])?,
            fc_w: tensors.take("fc_w", &[channels, hidden])?,
            fc_b: tensors.take("fc_b", &[hidden])?,
            modules: (0..modules).map(module).collect::<Result<_, _>>()?,
            out_w: tensors.take("out_w", &[(steps - 2 * modules) * hidden, 1])?,
            out_b: tensors.take("out_b", &[1])?[0],
            semb,
            paths,
            steps,
            features,
            packet_features,
            heads,
            hidden,
        })
    }

    pub(super) fn inputs(&self) -> usize {
        (self.paths * self.features + self.packet_features) * self.steps + self.paths
    }

    pub(super) fn outputs(&self) -> usize {
        self.paths
    }

    pub(super) fn buffers(&self) -> Buffers {
        let (nodes, size) = (self.paths, self.paths * self.hidden);
        let observation =
            || Nodes { u: vec![0.0; size], dst: vec![0.0; nodes * self.heads], src: vec![0.0; nodes * self.heads] };
        // The paths of the step, and itself before and after.
        let given = || Attended { weights: vec![0.0; (nodes + WINDOW - 1) * self.heads], h: vec![0.0; size] };
        Buffers {
            h: vec![0.0; self.steps * size],
            next: vec![0.0; self.steps * size],
            input: vec![0.0; nodes * (self.features + self.packet_features)],
            all: (0..self.steps).map(|_| observation()).collect(),
            window: [observation(), observation(), observation()],
            given: [given(), given(), given()],
            zeros: vec![0.0; self.hidden],
        }
    }

    pub(super) fn forward(&self, buffers: &mut Buffers, observation: &[f32], out: &mut [f32]) {
        let (x, rest) = observation.split_at(self.paths * self.features * self.steps);
        let (c, alive) = rest.split_at(self.packet_features * self.steps);
        self.embed(buffers, x, c);
        let mut steps = self.steps;
        for layers in &self.modules {
            self.module(buffers, layers, steps, alive);
            std::mem::swap(&mut buffers.h, &mut buffers.next);
            steps -= WINDOW - 1;
        }
        for (node, out) in out.iter_mut().enumerate() {
            *out = if alive[node] == 0.0 { DEAD } else { self.read_out(&buffers.h, steps, node) };
        }
    }

    /// The inputs with their embeddings, through the dense layer, into `h` (T, N, F).
    fn embed(&self, buffers: &mut Buffers, x: &[f32], c: &[f32]) {
        let channels = self.features + self.packet_features;
        for step in 0..self.steps {
            for node in 0..self.paths {
                for channel in 0..channels {
                    let value = match channel.checked_sub(self.features) {
                        None => x[(node * self.features + channel) * self.steps + step],
                        Some(own) => c[own * self.steps + step],
                    };
                    let known = self.semb.as_ref().map_or(0.0, |semb| semb[node * channels + channel]);
                    buffers.input[node * channels + channel] = value + self.temb[channel * self.steps + step] + known;
                }
            }
            let size = self.paths * self.hidden;
            dense_rows(&buffers.input, &self.fc_w, &self.fc_b, &mut buffers.h[step * size..][..size]);
        }
    }

    /// `h` (steps, N, F) becomes `next` (steps − 2, N, F).
    fn module(&self, buffers: &mut Buffers, layers: &[Layer], steps: usize, alive: &[f32]) {
        let size = self.paths * self.hidden;
        for (step, observation) in buffers.all.iter_mut().enumerate().take(steps) {
            self.see(&layers[0], &buffers.h[step * size..][..size], &buffers.zeros, observation);
        }
        for window in 0..=steps - WINDOW {
            let kept = &mut buffers.next[window * size..][..size];
            let last = layers.len() - 1;
            for (at, _) in layers.iter().enumerate() {
                let observation: [&Nodes; WINDOW] =
                    if at == 0 { std::array::from_fn(|q| &buffers.all[window + q]) } else { buffers.window.each_ref() };
                for q in 0..WINDOW {
                    // Of the last layer, only the middle step is kept.
                    if at < last || q == 1 {
                        self.attend(&observation, q, alive, &mut buffers.given[q]);
                    }
                }
                keep(kept, &buffers.given[1].h, at == 0);
                if let Some(following) = layers.get(at + 1) {
                    for (observation, given) in buffers.window.iter_mut().zip(&buffers.given) {
                        self.see(following, &given.h, &buffers.zeros, observation);
                    }
                }
            }
        }
    }

    /// Projects a step's nodes and adds up both halves of their scores.
    fn see(&self, layer: &Layer, h: &[f32], zeros: &[f32], observation: &mut Nodes) {
        let size = self.hidden / self.heads;
        dense_rows(h, &layer.w, zeros, &mut observation.u);
        let halves = observation.dst.iter_mut().zip(&mut observation.src);
        for (at, (u, (dst, src))) in observation.u.chunks_exact(size).zip(halves).enumerate() {
            let head = at % self.heads * size;
            *dst = dot(u, &layer.dst[head..][..size]);
            *src = dot(u, &layer.src[head..][..size]);
        }
    }

    /// Adds up what each node of step `q` takes from the paths of its step, and from itself beside it.
    fn attend(&self, observation: &[&Nodes; WINDOW], q: usize, alive: &[f32], given: &mut Attended) {
        let (heads, size) = (self.heads, self.hidden / self.heads);
        let steps = [q.checked_sub(1), (q + 1 < WINDOW).then_some(q + 1)];
        for (node, h) in given.h.chunks_exact_mut(self.hidden).enumerate() {
            let here = (0..self.paths).filter(|&other| other == node || alive[other] != 0.0).map(|other| (q, other));
            let among = here.chain(steps.into_iter().flatten().map(|step| (step, node)));
            let dst = &observation[q].dst[node * heads..][..heads];
            let mut count = 0;
            for ((step, other), weights) in among.clone().zip(given.weights.chunks_exact_mut(heads)) {
                let src = &observation[step].src[other * heads..][..heads];
                weights.iter_mut().zip(dst).zip(src).for_each(|((weight, dst), src)| *weight = leaky(dst + src));
                count += 1;
            }
            let weights = &mut given.weights[..count * heads];
            softmax(weights, heads);
            h.fill(0.0);
            for ((step, other), weights) in among.zip(weights.chunks_exact(heads)) {
                let u = &observation[step].u[other * self.hidden..][..self.hidden];
                for ((h, u), weight) in h.chunks_exact_mut(size).zip(u.chunks_exact(size)).zip(weights) {
                    h.iter_mut().zip(u).for_each(|(h, u)| *h += weight * u);
                }
            }
            h.iter_mut().for_each(|h| *h = elu(*h));
        }
    }

    fn read_out(&self, h: &[f32], steps: usize, node: usize) -> f32 {
        let mut z = self.out_b;
        for step in 0..steps {
            let h = &h[(step * self.paths + node) * self.hidden..][..self.hidden];
            let w = &self.out_w[step * self.hidden..][..self.hidden];
            z += dot(h, w);
        }
        z
    }
}

/// The larger of what was kept and `output`; the first is kept as it is.
fn keep(kept: &mut [f32], output: &[f32], is_first: bool) {
    if is_first {
        kept.copy_from_slice(output);
    } else {
        kept.iter_mut().zip(output).for_each(|(kept, output)| *kept = kept.max(*output));
    }
}

/// The softmax of each column of `scores`, (neighbours, heads).
fn softmax(scores: &mut [f32], heads: usize) {
    let (mut most, mut total) = ([f32::NEG_INFINITY; MOST_HEADS], [0.0; MOST_HEADS]);
    for scores in scores.chunks_exact(heads) {
        most.iter_mut().zip(scores).for_each(|(most, score)| *most = if *score > *most { *score } else { *most });
    }
    for scores in scores.chunks_exact_mut(heads) {
        scores.iter_mut().zip(&most).for_each(|(score, most)| *score -= most);
    }
    scores.iter_mut().for_each(|score| *score = exp(*score));
    for scores in scores.chunks_exact(heads) {
        total.iter_mut().zip(scores).for_each(|(total, score)| *total += score);
    }
    for scores in scores.chunks_exact_mut(heads) {
        scores.iter_mut().zip(&total).for_each(|(score, total)| *score /= total);
    }
}

/// Number of sums of a dot product that run side by side; they are added in their order.
const LANES: usize = 8;

fn dot(a: &[f32], b: &[f32]) -> f32 {
    let mut sums = [0.0; LANES];
    let whole = a.len() - a.len() % LANES;
    for (a, b) in a[..whole].chunks_exact(LANES).zip(b[..whole].chunks_exact(LANES)) {
        for lane in 0..LANES {
            sums[lane] += a[lane] * b[lane];
        }
    }
    let rest: f32 = a[whole..].iter().zip(&b[whole..]).map(|(a, b)| a * b).sum();
    sums.iter().sum::<f32>() + rest
}

#[inline]
fn leaky(score: f32) -> f32 {
    if score < 0.0 { SLOPE * score } else { score }
}

#[inline]
fn elu(value: f32) -> f32 {
    let below = expm1(if value < 0.0 { value } else { 0.0 });
    if value < 0.0 { below } else { value }
}

#[cfg(test)]
mod tests;
