//! The forward passes of exported networks: float32, additions in a fixed order, no allocation.
//!
//! A dense layer is `y = x·W + b` with W of shape (in, out), row by row: the inner loop runs over
//! outputs, which lie side by side, so that it is vectorised without a change of order.

mod bank;
mod lstm;
mod mlp;
pub(crate) mod mlp_train;
mod stsgat;

pub use bank::Bank;
#[cfg(test)]
pub(crate) use bank::tests::bank_file;
pub(crate) use bank::Condition;
pub use lstm::Lstm;
pub use mlp::Mlp;
pub use stsgat::Stsgat;
use weftway_path::spec::{Param, Params, Spec, SpecError, nearest};

use super::policy_file::{PolicyError, Tensors};

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
    Falcon(Bank),
}

/// What a forward pass writes on its way; made once, by the network that uses it.
#[derive(Clone, Debug)]
pub struct Scratch(Room);

#[derive(Clone, Debug)]
enum Room {
    Mlp(Vec<Vec<f32>>),
    Lstm(Box<lstm::Room>),
    Stsgat(Box<stsgat::Room>),
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
            "falcon" => Bank::read(&Params::new("falcon", bank::PARAMS, &spec.given)?, tensors).map(Self::Falcon),
            _ => {
                let nearest = nearest(&spec.name, NAMES.into_iter());
                Err(SpecError::Unknown { kind: "network", name: spec.name, nearest }.into())
            }
        }
    }

    /// How many numbers go in.
    pub fn inputs(&self) -> usize {
        match self {
            Self::Mlp(mlp) => mlp.inputs(),
            Self::Lstm(lstm) => lstm.inputs(),
            Self::Stsgat(stsgat) => stsgat.inputs(),
            Self::Falcon(bank) => bank.of(0).inputs(),
        }
    }

    /// How many come out.
    pub fn outputs(&self) -> usize {
        match self {
            Self::Mlp(mlp) => mlp.outputs(),
            Self::Lstm(lstm) => lstm.outputs(),
            Self::Stsgat(stsgat) => stsgat.outputs(),
            Self::Falcon(bank) => bank.of(0).outputs(),
        }
    }

    /// Room for the forward passes of this network.
    pub fn scratch(&self) -> Scratch {
        match self {
            Self::Mlp(mlp) => Scratch(Room::Mlp(mlp.room())),
            Self::Lstm(lstm) => Scratch(Room::Lstm(Box::new(lstm.room()))),
            Self::Stsgat(stsgat) => Scratch(Room::Stsgat(Box::new(stsgat.room()))),
            Self::Falcon(bank) => Scratch(Room::Mlp(bank.of(0).room())),
        }
    }

    /// What comes out of `seen`; of a bank, out of its first group.
    pub fn forward(&self, scratch: &mut Scratch, seen: &[f32], out: &mut [f32]) {
        match (self, &mut scratch.0) {
            (Self::Mlp(mlp), Room::Mlp(room)) => mlp.forward(room, seen, out),
            (Self::Lstm(lstm), Room::Lstm(room)) => lstm.forward(room, seen, out),
            (Self::Stsgat(stsgat), Room::Stsgat(room)) => stsgat.forward(room, seen, out),
            (Self::Falcon(bank), Room::Mlp(room)) => bank.of(0).forward(room, seen, out),
            _ => unreachable!("a network is given its own scratch"),
        }
    }
}

/// So many outputs are added up at once, in registers.
const BLOCK: usize = 16;

/// `out = x·W + b`; W is row-major, (x.len(), out.len()). Each sum runs over x in order.
#[inline]
pub(crate) fn dense(x: &[f32], w: &[f32], b: &[f32], out: &mut [f32]) {
    let width = out.len();
    let whole = width - width % BLOCK;
    for at in (0..whole).step_by(BLOCK) {
        let mut sums = [0.0; BLOCK];
        sums.copy_from_slice(&b[at..at + BLOCK]);
        for (x, row) in x.iter().zip(w.chunks_exact(width)) {
            for (sum, w) in sums.iter_mut().zip(&row[at..at + BLOCK]) {
                *sum += x * w;
            }
        }
        out[at..at + BLOCK].copy_from_slice(&sums);
    }
    let rest = &mut out[whole..];
    rest.copy_from_slice(&b[whole..]);
    if rest.is_empty() {
        return;
    }
    for (x, row) in x.iter().zip(w.chunks_exact(width)) {
        for (out, w) in rest.iter_mut().zip(&row[whole..]) {
            *out += x * w;
        }
    }
}
