//! Dense layers: `y = act(x·W1 + b1)·W2 + b2 …`, the last one linear. Tensors `w1` (in, out), `b1`
//! (out), `w2`, `b2` and so on.

use weftway_path::spec::Params;

use super::dense::dense;
use crate::learned::tensors::{PolicyError, Tensors};

/// Dense layers.
#[derive(Clone, Debug)]
pub struct Mlp {
    pub(crate) layers: Vec<Layer>,
    activation: Activation,
}

/// `x·W + b`, W row-major of shape (inputs, outputs).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Layer {
    pub(crate) inputs: usize,
    pub(crate) w: Vec<f32>,
    pub(crate) b: Vec<f32>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Activation {
    Relu,
    Tanh,
}

impl Activation {
    pub(crate) fn apply(self, values: &mut [f32]) {
        match self {
            Self::Relu => values.iter_mut().for_each(|value| *value = value.max(0.0)),
            Self::Tanh => values.iter_mut().for_each(|value| *value = libm::tanhf(*value)),
        }
    }

    /// Its derivative where it gives `value`.
    pub(crate) fn slope(self, value: f32) -> f32 {
        match self {
            Self::Relu => f32::from(u8::from(value > 0.0)),
            Self::Tanh => 1.0 - value * value,
        }
    }
}

impl Mlp {
    pub(crate) fn read(params: &Params, tensors: &Tensors<'_>) -> Result<Self, PolicyError> {
        let activation = params.choice("activation", &[("relu", Activation::Relu), ("tanh", Activation::Tanh)])?;
        Self::layers(tensors, "", activation)
    }

    /// Reads the layers of `tensors`, with ReLU between them.
    pub(crate) fn relu(tensors: &Tensors<'_>) -> Result<Self, PolicyError> {
        Self::layers(tensors, "", Activation::Relu)
    }

    /// Reads the layers of `tensors` whose names begin with `prefix`, with ReLU between them.
    pub(crate) fn relu_of(tensors: &Tensors<'_>, prefix: &str) -> Result<Self, PolicyError> {
        Self::layers(tensors, prefix, Activation::Relu)
    }

    fn layers(tensors: &Tensors<'_>, prefix: &str, activation: Activation) -> Result<Self, PolicyError> {
        let mut layers: Vec<Layer> = Vec::new();
        for number in 1.. {
            let (w, b) = (format!("{prefix}w{number}"), format!("{prefix}b{number}"));
            let Some(shape) = tensors.shape(&w) else { break };
            let [inputs, outputs] = shape[..] else {
                let (found, expected) = (format!("of shape {shape:?}"), "two dimensions, (in, out)".to_owned());
                return Err(PolicyError::Tensor { name: w, found, expected });
            };
            let inputs = layers.last().map_or(inputs, |last| last.b.len());
            if inputs == 0 || outputs == 0 {
                let (found, expected) = ("empty".to_owned(), "at least one input and one output".to_owned());
                return Err(PolicyError::Tensor { name: w, found, expected });
            }
            layers.push(Layer { inputs, w: tensors.take(&w, &[inputs, outputs])?, b: tensors.take(&b, &[outputs])? });
        }
        if layers.is_empty() {
            return Err(PolicyError::NoTensor(format!("{prefix}w1")));
        }
        Ok(Self { layers, activation })
    }

    /// Function after each layer but the last.
    pub(crate) fn activation(&self) -> Activation {
        self.activation
    }

    /// Takes the weights of `other`, whose layers are as wide.
    pub(crate) fn copy_from(&mut self, other: &Self) {
        for (mine, theirs) in self.layers.iter_mut().zip(&other.layers) {
            mine.w.copy_from_slice(&theirs.w);
            mine.b.copy_from_slice(&theirs.b);
        }
    }

    /// Returns true if the layers of `other` are as wide.
    pub(crate) fn is_like(&self, other: &Self) -> bool {
        let widths = |mlp: &Self| mlp.layers.iter().map(|layer| (layer.inputs, layer.b.len())).collect::<Vec<_>>();
        widths(self) == widths(other)
    }

    pub(crate) fn inputs(&self) -> usize {
        self.layers[0].inputs
    }

    pub(crate) fn outputs(&self) -> usize {
        self.layers[self.layers.len() - 1].b.len()
    }

    /// A buffer for what each layer gives.
    pub(crate) fn buffers(&self) -> Vec<Vec<f32>> {
        self.layers.iter().map(|layer| vec![0.0; layer.b.len()]).collect()
    }

    pub(crate) fn forward(&self, buffers: &mut [Vec<f32>], observation: &[f32], out: &mut [f32]) {
        let last = self.layers.len() - 1;
        for (at, layer) in self.layers.iter().enumerate() {
            let (before, here) = buffers.split_at_mut(at);
            let x = before.last().map_or(observation, Vec::as_slice);
            if at == last {
                dense(x, &layer.w, &layer.b, out);
            } else {
                dense(x, &layer.w, &layer.b, &mut here[0]);
                self.activation.apply(&mut here[0]);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::learned::policy_file::PolicyFile;
    use crate::learned::policy_file::tests::{CARD, file};

    #[test]
    fn two_layers_by_hand() {
        let tensors: [(&str, &[usize], &[f32]); 6] = [
            ("low", &[1], &[0.0]),
            ("high", &[1], &[1.0]),
            ("w1", &[1, 2], &[2.0, -3.0]),
            ("b1", &[2], &[1.0, 1.0]),
            ("w2", &[2, 1], &[10.0, 100.0]),
            ("b2", &[1], &[0.25]),
        ];
        let policy = PolicyFile::parse(&file(&CARD, &tensors)).unwrap();
        let mut out = [0.0];
        policy.network.forward(&mut policy.network.scratch(), &[2.0], &mut out);
        // (5, −5) becomes (5, 0); 50 + 0.25.
        assert_eq!(out, [50.25]);
    }

    /// Makes a layer of so many inputs and outputs.
    fn layer(inputs: usize, outputs: usize, weight: f32) -> super::Mlp {
        let layer = super::Layer { inputs, w: vec![weight; inputs * outputs], b: vec![weight; outputs] };
        super::Mlp { layers: vec![layer], activation: super::Activation::Relu }
    }

    #[test]
    fn slopes_by_hand() {
        // Where tanh gives 0.5 it rises by 1 − 0.25; ReLU gives 0 on its flat side.
        use super::Activation::{Relu, Tanh};
        assert_eq!([Relu.slope(0.0), Relu.slope(2.0), Tanh.slope(0.5), Tanh.slope(0.0)], [0.0, 1.0, 0.75, 1.0]);
    }

    #[test]
    fn weights_are_taken_over_and_widths_compared() {
        let (mut mine, theirs) = (layer(2, 3, 1.0), layer(2, 3, 5.0));
        mine.copy_from(&theirs);
        assert_eq!(mine.layers, theirs.layers);
        assert!(mine.is_like(&theirs) && !mine.is_like(&layer(3, 3, 5.0)) && !mine.is_like(&layer(2, 2, 5.0)));
    }
}
