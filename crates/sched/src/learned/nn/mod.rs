//! The forward passes of exported networks: float32, additions in a fixed order, no allocation.

pub(crate) mod dense;
mod exp;
pub(crate) mod falcon;
mod lstm;
pub(crate) mod mlp;
mod stsgat;

pub use falcon::Models;
pub use lstm::Lstm;
pub use mlp::Mlp;
pub use stsgat::Stsgat;
use weftway_path::spec::{Param, Params, Spec, SpecError, nearest};

use super::tensors::{PolicyError, Tensors};

/// A network.
#[derive(Clone, Debug)]
pub enum Network {
    /// Dense layers.
    Mlp(Mlp),
    /// LSTM layers, then dense ones.
    Lstm(Lstm),
    /// Attention over paths and steps.
    Stsgat(Stsgat),
    /// Dense layers for each group of conditions; FALCON picks.
    Falcon(Models),
}

/// Scratch memory of a forward pass; made once, by the network that uses it.
#[derive(Clone, Debug)]
pub struct Scratch(Buffers);

#[derive(Clone, Debug)]
enum Buffers {
    Mlp(Vec<Vec<f32>>),
    Lstm(Box<lstm::Buffers>),
    Stsgat(Box<stsgat::Buffers>),
}

/// The networks' names.
const NAMES: [&str; 4] = ["mlp", "lstm", "stsgat", "falcon"];

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
            "lstm" => {
                Params::new("lstm", &[], &spec.given)?;
                Lstm::read(tensors).map(Self::Lstm)
            }
            "stsgat" => Stsgat::read(&Params::new("stsgat", stsgat::PARAMS, &spec.given)?, tensors).map(Self::Stsgat),
            "falcon" => Models::read(&Params::new("falcon", falcon::PARAMS, &spec.given)?, tensors).map(Self::Falcon),
            _ => {
                let nearest = nearest(&spec.name, NAMES.into_iter());
                Err(SpecError::Unknown { kind: "network", name: spec.name, nearest }.into())
            }
        }
    }

    /// Number of inputs.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Mlp(mlp) => mlp.inputs(),
            Self::Lstm(lstm) => lstm.inputs(),
            Self::Stsgat(stsgat) => stsgat.inputs(),
            Self::Falcon(models) => models.of(0).inputs(),
        }
    }

    /// Number of outputs.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Mlp(mlp) => mlp.outputs(),
            Self::Lstm(lstm) => lstm.outputs(),
            Self::Stsgat(stsgat) => stsgat.outputs(),
            Self::Falcon(models) => models.of(0).outputs(),
        }
    }

    /// The buffers that forward passes of this network write.
    pub fn scratch(&self) -> Scratch {
        match self {
            Self::Mlp(mlp) => Scratch(Buffers::Mlp(mlp.buffers())),
            Self::Lstm(lstm) => Scratch(Buffers::Lstm(Box::new(lstm.buffers()))),
            Self::Stsgat(stsgat) => Scratch(Buffers::Stsgat(Box::new(stsgat.buffers()))),
            Self::Falcon(models) => Scratch(Buffers::Mlp(models.of(0).buffers())),
        }
    }

    /// Returns the outputs for `observation`; of several models, out of the first group's.
    pub fn forward(&self, scratch: &mut Scratch, observation: &[f32], out: &mut [f32]) {
        match (self, &mut scratch.0) {
            (Self::Mlp(mlp), Buffers::Mlp(buffers)) => mlp.forward(buffers, observation, out),
            (Self::Lstm(lstm), Buffers::Lstm(buffers)) => lstm.forward(buffers, observation, out),
            (Self::Stsgat(stsgat), Buffers::Stsgat(buffers)) => stsgat.forward(buffers, observation, out),
            (Self::Falcon(models), Buffers::Mlp(buffers)) => models.of(0).forward(buffers, observation, out),
            _ => unreachable!("a network is given its own scratch"),
        }
    }
}
