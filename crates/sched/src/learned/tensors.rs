//! The tensors of a policy file, and why such a file is refused.

use std::cell::RefCell;
use std::collections::BTreeSet;

use safetensors::tensor::Dtype;
use safetensors::{SafeTensorError, SafeTensors};
use thiserror::Error;
use weftway_path::spec::SpecError;

/// A network of this project is far smaller.
pub(super) const LARGEST: u64 = 16 << 20;

/// Names that a switch `policy` may take, for messages.
const EXPECTED: &str = if cfg!(feature = "policies") {
    "a shipped policy's name or a file is expected"
} else {
    "a file is expected, since this program comes without policies"
};

/// Why a policy file is refused.
#[derive(Debug, Error)]
pub enum PolicyError {
    /// The file cannot be read.
    #[error("{0}; {EXPECTED}")]
    File(#[from] std::io::Error),
    /// The file is too large to be a policy.
    #[error("{0} bytes are no policy: at most {LARGEST} are read")]
    TooLarge(u64),
    /// The file is not safetensors, or only a part of it.
    #[error("not a whole safetensors file: {0}")]
    Format(#[from] SafeTensorError),
    /// The card lacks something.
    #[error("its card has no `{0}`; `weft train` writes one")]
    Missing(&'static str),
    /// The card says something that is not understood.
    #[error("its card says `{key} = {value}`; expected {expected}")]
    Card {
        /// The key.
        key: &'static str,
        /// Its value.
        value: String,
        /// Shape that would be right.
        expected: &'static str,
    },
    /// The card names more or fewer inputs than the network has.
    #[error("its card names {named} inputs; its network has {inputs}")]
    Inputs {
        /// Number of names.
        named: usize,
        /// Number of inputs.
        inputs: usize,
    },
    /// The network's name or switches make no sense.
    #[error("its card's network: {0}")]
    Network(#[from] SpecError),
    /// The network needs a tensor.
    #[error("it has no tensor `{0}`")]
    NoTensor(String),
    /// A tensor is not what the network needs.
    #[error("its tensor `{name}` is {found}; expected {expected}")]
    Tensor {
        /// The tensor.
        name: String,
        /// Shape that it has.
        found: String,
        /// Shape that it should have.
        expected: String,
    },
    /// A tensor that nothing reads: the network is another than the card says.
    #[error("its tensor `{0}` belongs to no part of the network that its card names")]
    Unread(String),
}

/// The tensors of a file, each to be taken once.
pub(crate) struct Tensors<'a> {
    all: SafeTensors<'a>,
    unread: RefCell<BTreeSet<String>>,
}

impl<'a> Tensors<'a> {
    pub(super) fn new(bytes: &'a [u8]) -> Result<Self, PolicyError> {
        let all = SafeTensors::deserialize(bytes)?;
        let unread = RefCell::new(all.names().into_iter().map(str::to_owned).collect());
        Ok(Self { all, unread })
    }

    /// The dimensions of `name`; none without such a tensor.
    pub(crate) fn shape(&self, name: &str) -> Option<Vec<usize>> {
        self.all.tensor(name).ok().map(|tensor| tensor.shape().to_vec())
    }

    /// The dimensions of `name`, which must be D, none of them 0; none without such a tensor. Their
    /// product is less than the file has bits, so a few times one of them is still a number.
    pub(crate) fn dimensions<const D: usize>(&self, name: &str) -> Result<Option<[usize; D]>, PolicyError> {
        let Some(shape) = self.shape(name) else {
            return Ok(None);
        };
        match <[usize; D]>::try_from(shape.as_slice()) {
            Ok(dimensions) if !shape.contains(&0) => Ok(Some(dimensions)),
            _ => {
                let (found, expected) = (format!("of shape {shape:?}"), format!("{D} dimensions, none of them 0"));
                Err(PolicyError::Tensor { name: name.to_owned(), found, expected })
            }
        }
    }

    /// The numbers of tensor `name`, row-major, which must have this shape.
    pub(crate) fn take(&self, name: &str, shape: &[usize]) -> Result<Vec<f32>, PolicyError> {
        let tensor = self.all.tensor(name).map_err(|_| PolicyError::NoTensor(name.to_owned()))?;
        let wrong = |found: String, expected: String| PolicyError::Tensor { name: name.to_owned(), found, expected };
        if tensor.dtype() != Dtype::F32 {
            return Err(wrong(format!("of {:?}", tensor.dtype()), "F32".to_owned()));
        }
        if tensor.shape() != shape {
            return Err(wrong(format!("of shape {:?}", tensor.shape()), format!("{shape:?}")));
        }
        let number = |bytes: &[u8]| f32::from_le_bytes(bytes.try_into().expect("four bytes"));
        let numbers: Vec<f32> = tensor.data().chunks_exact(4).map(number).collect();
        if let Some(at) = numbers.iter().position(|number| !number.is_finite()) {
            return Err(wrong(format!("{} at {at}", numbers[at]), "finite numbers".to_owned()));
        }
        self.unread.borrow_mut().remove(name);
        Ok(numbers)
    }

    pub(super) fn finish(&self) -> Result<(), PolicyError> {
        self.unread.borrow().first().map_or(Ok(()), |name| Err(PolicyError::Unread(name.clone())))
    }
}
