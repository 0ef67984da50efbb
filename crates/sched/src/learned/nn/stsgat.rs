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

use super::dense;
use crate::learned::policy_file::{PolicyError, Tensors};

/// Below zero, LeakyReLU's slope.
const SLOPE: f32 = 0.2;

/// A score that no softmax weighs.
const DEAD: f32 = -1e9;

/// Steps of a window.
const WINDOW: usize = 3;

pub(super) const PARAMS: &[Param] = &[
    Param { name: "paths", default: "4", values: "paths, 1 to 64", doc: "nodes, N" },
    Param { name: "steps", default: "12", values: "steps, 3 to 1000", doc: "history, T" },
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

/// One step's nodes as attention sees them.
#[derive(Clone, Debug, Default)]
struct Seen {
    /// W h: (N, F).
    u: Vec<f32>,
    /// dst·W h and src·W h: (N, K).
    dst: Vec<f32>,
    src: Vec<f32>,
}

/// What a pass writes.
#[derive(Clone, Debug, Default)]
pub(super) struct Room {
    h: Vec<f32>,
    next: Vec<f32>,
    input: Vec<f32>,
    /// The first layer's view of every step.
    all: Vec<Seen>,
    window: [Seen; WINDOW],
    output: [Vec<f32>; WINDOW],
    zeros: Vec<f32>,
}

impl Stsgat {
    pub(super) fn read(params: &Params, tensors: &Tensors<'_>) -> Result<Self, PolicyError> {
        let count = |key: &str, least: usize, most: usize| params.within(key, least..=most);
        let (paths, steps) = (count("paths", 1, 64)?, count("steps", 3, 1000)?);
        let (features, packet_features) = (count("features", 1, 64)?, count("packet_features", 0, 64)?);
        let (heads, modules, layers) = (count("heads", 1, 64)?, count("modules", 1, 16)?, count("layers", 1, 16)?);
        if steps <= 2 * modules {
            return Err(params.bad("modules").into());
        }
        let channels = features + packet_features;
        let hidden = tensors.shape("fc_b").and_then(|shape| shape.first().copied()).unwrap_or(0);
        if hidden == 0 || hidden % heads != 0 {
            let (name, found) = ("fc_b".to_owned(), format!("of {hidden} numbers"));
            return Err(PolicyError::Tensor { name, found, expected: format!("a multiple of {heads} heads") });
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

    pub(super) fn room(&self) -> Room {
        let (nodes, size) = (self.paths, self.paths * self.hidden);
        let seen =
            || Seen { u: vec![0.0; size], dst: vec![0.0; nodes * self.heads], src: vec![0.0; nodes * self.heads] };
        Room {
            h: vec![0.0; self.steps * size],
            next: vec![0.0; self.steps * size],
            input: vec![0.0; self.features + self.packet_features],
            all: (0..self.steps).map(|_| seen()).collect(),
            window: [seen(), seen(), seen()],
            output: [vec![0.0; size], vec![0.0; size], vec![0.0; size]],
            zeros: vec![0.0; self.hidden],
        }
    }

    pub(super) fn forward(&self, room: &mut Room, seen: &[f32], out: &mut [f32]) {
        let (x, rest) = seen.split_at(self.paths * self.features * self.steps);
        let (c, alive) = rest.split_at(self.packet_features * self.steps);
        self.embed(room, x, c);
        let mut steps = self.steps;
        for layers in &self.modules {
            self.module(room, layers, steps, alive);
            std::mem::swap(&mut room.h, &mut room.next);
            steps -= WINDOW - 1;
        }
        for (node, out) in out.iter_mut().enumerate() {
            *out = if alive[node] == 0.0 { DEAD } else { self.read_out(&room.h, steps, node) };
        }
    }

    /// The inputs with their embeddings, through the dense layer, into `h` (T, N, F).
    fn embed(&self, room: &mut Room, x: &[f32], c: &[f32]) {
        let channels = self.features + self.packet_features;
        for step in 0..self.steps {
            for node in 0..self.paths {
                for channel in 0..channels {
                    let value = match channel.checked_sub(self.features) {
                        None => x[(node * self.features + channel) * self.steps + step],
                        Some(own) => c[own * self.steps + step],
                    };
                    let known = self.semb.as_ref().map_or(0.0, |semb| semb[node * channels + channel]);
                    room.input[channel] = value + self.temb[channel * self.steps + step] + known;
                }
                let place = (step * self.paths + node) * self.hidden;
                dense(&room.input, &self.fc_w, &self.fc_b, &mut room.h[place..][..self.hidden]);
            }
        }
    }

    /// `h` (steps, N, F) becomes `next` (steps − 2, N, F).
    fn module(&self, room: &mut Room, layers: &[Layer], steps: usize, alive: &[f32]) {
        let size = self.paths * self.hidden;
        for (step, seen) in room.all.iter_mut().enumerate().take(steps) {
            self.see(&layers[0], &room.h[step * size..][..size], &room.zeros, seen);
        }
        for window in 0..=steps - WINDOW {
            let kept = &mut room.next[window * size..][..size];
            let last = layers.len() - 1;
            for (at, _) in layers.iter().enumerate() {
                let seen: [&Seen; WINDOW] =
                    if at == 0 { std::array::from_fn(|q| &room.all[window + q]) } else { room.window.each_ref() };
                for q in 0..WINDOW {
                    // Of the last layer, only the middle step is kept.
                    if at < last || q == 1 {
                        self.attend(&seen, q, alive, &mut room.output[q]);
                    }
                }
                keep(kept, &room.output[1], at == 0);
                if let Some(following) = layers.get(at + 1) {
                    for (seen, output) in room.window.iter_mut().zip(&room.output) {
                        self.see(following, output, &room.zeros, seen);
                    }
                }
            }
        }
    }

    /// Projects a step's nodes and adds up both halves of their scores.
    fn see(&self, layer: &Layer, h: &[f32], zeros: &[f32], seen: &mut Seen) {
        let size = self.hidden / self.heads;
        for node in 0..self.paths {
            let u = &mut seen.u[node * self.hidden..][..self.hidden];
            dense(&h[node * self.hidden..][..self.hidden], &layer.w, zeros, u);
            for head in 0..self.heads {
                let part = head * size..(head + 1) * size;
                let dot = |a: &[f32]| u[part.clone()].iter().zip(&a[part.clone()]).map(|(u, a)| u * a).sum::<f32>();
                seen.dst[node * self.heads + head] = dot(&layer.dst);
                seen.src[node * self.heads + head] = dot(&layer.src);
            }
        }
    }

    /// What each node of step `q` takes from the paths of its step, and from itself beside it.
    fn attend(&self, seen: &[&Seen; WINDOW], q: usize, alive: &[f32], out: &mut [f32]) {
        let size = self.hidden / self.heads;
        for node in 0..self.paths {
            for head in 0..self.heads {
                let dst = seen[q].dst[node * self.heads + head];
                let score = |step: usize, other: usize| leaky(dst + seen[step].src[other * self.heads + head]);
                let beside = [q.checked_sub(1), (q + 1 < WINDOW).then_some(q + 1)];
                let here =
                    (0..self.paths).filter(|&other| other == node || alive[other] != 0.0).map(|other| (q, other));
                let among = here.chain(beside.into_iter().flatten().map(|step| (step, node)));
                let most = among.clone().map(|(step, other)| score(step, other)).fold(f32::NEG_INFINITY, f32::max);
                let part = node * self.hidden + head * size;
                let out = &mut out[part..][..size];
                out.fill(0.0);
                let mut total = 0.0;
                for (step, other) in among {
                    let weight = libm::expf(score(step, other) - most);
                    total += weight;
                    let u = &seen[step].u[other * self.hidden + head * size..][..size];
                    out.iter_mut().zip(u).for_each(|(out, u)| *out += weight * u);
                }
                out.iter_mut().for_each(|out| *out = elu(*out / total));
            }
        }
    }

    fn read_out(&self, h: &[f32], steps: usize, node: usize) -> f32 {
        let mut z = self.out_b;
        for step in 0..steps {
            let h = &h[(step * self.paths + node) * self.hidden..][..self.hidden];
            let w = &self.out_w[step * self.hidden..][..self.hidden];
            z += h.iter().zip(w).map(|(h, w)| h * w).sum::<f32>();
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

#[inline]
fn leaky(score: f32) -> f32 {
    if score < 0.0 { SLOPE * score } else { score }
}

#[inline]
fn elu(value: f32) -> f32 {
    if value < 0.0 { libm::expm1f(value) } else { value }
}
