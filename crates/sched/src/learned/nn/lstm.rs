//! LSTM layers over a history, then dense layers on the last hidden state.
//!
//! `(i, f, g, o) = x·Wx + h·Wh + b`, `c = σ(f)·c + σ(i)·tanh(g)`, `h = σ(o)·tanh(c)`, from zero. What
//! is seen are the steps one after the other, the oldest first. Tensors `l0.wx` (in, 4H), `l0.wh`
//! (H, 4H), `l0.b` (4H), `l1.wx` …, then those of the dense layers. How many steps there are
//! follows from how many numbers are seen.
//! Reference: Hochreiter and Schmidhuber (1997), with a forget gate (Gers et al., 2000).

use super::dense::dense;
use super::mlp::Mlp;
use crate::learned::tensors::{PolicyError, Tensors};

/// Numbers in a layer's state; a network of this project has 64.
const WIDEST: usize = 512;

/// The network.
#[derive(Clone, Debug)]
pub struct Lstm {
    steps: usize,
    cells: Vec<Cell>,
    head: Mlp,
}

#[derive(Clone, Debug)]
struct Cell {
    inputs: usize,
    hidden: usize,
    wx: Vec<f32>,
    wh: Vec<f32>,
    b: Vec<f32>,
}

/// Scratch memory of a pass.
#[derive(Clone, Debug)]
pub(super) struct Buffers {
    cells: Vec<State>,
    head: Vec<Vec<f32>>,
}

#[derive(Clone, Debug)]
struct State {
    h: Vec<f32>,
    c: Vec<f32>,
    gates: Vec<f32>,
    from_h: Vec<f32>,
    zeros: Vec<f32>,
}

impl Lstm {
    pub(super) fn read(tensors: &Tensors<'_>) -> Result<Self, PolicyError> {
        let mut cells: Vec<Cell> = Vec::new();
        for number in 0.. {
            let name = |part: &str| format!("l{number}.{part}");
            let (wx, wh) = (tensors.dimensions::<2>(&name("wx"))?, tensors.dimensions::<2>(&name("wh"))?);
            let (Some([observation, _]), Some([hidden, _])) = (wx, wh) else {
                break;
            };
            if hidden > WIDEST {
                let (found, expected) = (format!("for a state of {hidden}"), format!("at most {WIDEST}"));
                return Err(PolicyError::Tensor { name: name("wh"), found, expected });
            }
            let inputs = cells.last().map_or(observation, |below| below.hidden);
            let wx = tensors.take(&name("wx"), &[inputs, 4 * hidden])?;
            let wh = tensors.take(&name("wh"), &[hidden, 4 * hidden])?;
            cells.push(Cell { inputs, hidden, wx, wh, b: tensors.take(&name("b"), &[4 * hidden])? });
        }
        let (Some(first), Some(last)) = (cells.first(), cells.last()) else {
            return Err(PolicyError::NoTensor("l0.wx".to_owned()));
        };
        let head = Mlp::relu(tensors)?;
        let [inputs] = tensors.dimensions("low")?.ok_or_else(|| PolicyError::NoTensor("low".to_owned()))?;
        let steps = inputs / first.inputs;
        if !inputs.is_multiple_of(first.inputs) {
            let (name, found) = ("low".to_owned(), format!("of {inputs} numbers"));
            let expected = format!("some steps of {} inputs", first.inputs);
            return Err(PolicyError::Tensor { name, found, expected });
        }
        if head.inputs() != last.hidden {
            let (name, found) = ("w1".to_owned(), format!("for {} inputs", head.inputs()));
            return Err(PolicyError::Tensor { name, found, expected: format!("the last layer's {}", last.hidden) });
        }
        Ok(Self { steps, cells, head })
    }

    pub(super) fn inputs(&self) -> usize {
        self.steps * self.cells[0].inputs
    }

    pub(super) fn outputs(&self) -> usize {
        self.head.outputs()
    }

    pub(super) fn buffers(&self) -> Buffers {
        let state = |cell: &Cell| {
            let zeros = |count| vec![0.0; count];
            let (h, gates) = (cell.hidden, 4 * cell.hidden);
            State { h: zeros(h), c: zeros(h), gates: zeros(gates), from_h: zeros(gates), zeros: zeros(gates) }
        };
        let cells = self.cells.iter().map(state).collect();
        Buffers { cells, head: self.head.buffers() }
    }

    pub(super) fn forward(&self, buffers: &mut Buffers, observation: &[f32], out: &mut [f32]) {
        for state in &mut buffers.cells {
            state.h.fill(0.0);
            state.c.fill(0.0);
        }
        for x in observation.chunks_exact(self.cells[0].inputs) {
            for (at, cell) in self.cells.iter().enumerate() {
                let (before, here) = buffers.cells.split_at_mut(at);
                cell.step(before.last().map_or(x, |below| &below.h), &mut here[0]);
            }
        }
        if let Some(last) = buffers.cells.last() {
            self.head.forward(&mut buffers.head, &last.h, out);
        }
    }
}

impl Cell {
    fn step(&self, x: &[f32], state: &mut State) {
        dense(x, &self.wx, &self.b, &mut state.gates);
        dense(&state.h, &self.wh, &state.zeros, &mut state.from_h);
        state.gates.iter_mut().zip(&state.from_h).for_each(|(gate, more)| *gate += more);
        let (i, rest) = state.gates.split_at(self.hidden);
        let (f, rest) = rest.split_at(self.hidden);
        let (g, o) = rest.split_at(self.hidden);
        for at in 0..self.hidden {
            state.c[at] = sigmoid(f[at]) * state.c[at] + sigmoid(i[at]) * libm::tanhf(g[at]);
            state.h[at] = sigmoid(o[at]) * libm::tanhf(state.c[at]);
        }
    }
}

#[inline]
fn sigmoid(value: f32) -> f32 {
    1.0 / (1.0 + libm::expf(-value))
}

#[cfg(test)]
mod tests;
