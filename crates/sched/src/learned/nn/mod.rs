//! The forward passes of exported networks: float32, additions in a fixed order, no allocation.
//!
//! A dense layer is `y = x·W + b` with W of shape (in, out), row by row: the inner loop runs over
//! outputs, which lie side by side, so that it is vectorised without a change of order.

mod mlp;

pub(crate) use mlp::Mlp;
use weftway_path::spec::{Param, Params, Spec, SpecError, nearest};

use super::policy_file::{PolicyError, Tensors};

/// A network.
#[derive(Clone, Debug)]
pub enum Network {
    /// Dense layers.
    Mlp(Mlp),
}

/// What a forward pass writes on its way; made once per network.
#[derive(Clone, Debug, Default)]
pub struct Scratch(Vec<Vec<f32>>);

const MLP: &[Param] = &[Param {
    name: "activation",
    default: "relu",
    values: "relu | tanh",
    doc: "what follows each layer but the last",
}];

impl Network {
    /// The network that `spec` names, of these tensors.
    pub(crate) fn read(spec: &str, tensors: &Tensors<'_>) -> Result<Self, PolicyError> {
        let spec: Spec = spec.parse()?;
        match spec.name.as_str() {
            "mlp" => Mlp::read(&Params::new("mlp", MLP, &spec.given)?, tensors).map(Self::Mlp),
            _ => {
                let nearest = nearest(&spec.name, ["mlp"].into_iter());
                Err(SpecError::Unknown { kind: "network", name: spec.name, nearest }.into())
            }
        }
    }

    /// How many numbers go in.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Mlp(mlp) => mlp.inputs(),
        }
    }

    /// How many come out.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Mlp(mlp) => mlp.outputs(),
        }
    }

    /// Room for the forward passes of this network.
    pub fn scratch(&self) -> Scratch {
        match self {
            Self::Mlp(mlp) => mlp.scratch(),
        }
    }

    /// What comes out of `seen`.
    pub fn forward(&self, scratch: &mut Scratch, seen: &[f32], out: &mut [f32]) {
        match self {
            Self::Mlp(mlp) => mlp.forward(scratch, seen, out),
        }
    }
}

/// `out = x·W + b`; W is row-major, (x.len(), out.len()).
#[inline]
pub(crate) fn dense(x: &[f32], w: &[f32], b: &[f32], out: &mut [f32]) {
    out.copy_from_slice(b);
    for (x, row) in x.iter().zip(w.chunks_exact(out.len())) {
        for (out, w) in out.iter_mut().zip(row) {
            *out += x * w;
        }
    }
}
