//! Policy files: a network with its card, in the safetensors format.
//!
//! The card is the file's metadata: what was trained, on what, and how it is to be used. Required:
//! `format` (`weftway-policy-1`), `algorithm`, `task` and `network` (named as schedulers are),
//! `head` (`greedy`, `sample`, `shares` or `values`), `fallback` (a scheduler, or `off`), `inputs` (the name of
//! each, with commas). The rest tells people where it comes from. Tensors are float32: `low` and `high`, the range of
//! each input in training, and the network's. Anything else is refused, with the place and what would be right.

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::SafeTensors;

use super::nn::Network;
pub use super::tensors::PolicyError;
use super::tensors::{LARGEST, Tensors};

/// The only format there is.
const FORMAT: &str = "weftway-policy-1";

/// Head that makes an action of outputs.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Head {
    /// The choice of the largest output.
    Greedy,
    /// A choice drawn by the softmax of the outputs.
    Sample,
    /// The softmax of the outputs are shares.
    Shares,
    /// The outputs themselves.
    Values,
}

/// A policy, read and checked.
#[derive(Clone, Debug)]
pub struct PolicyFile {
    card: BTreeMap<String, String>,
    /// The smallest value of each input in training.
    pub low: Vec<f32>,
    /// The largest.
    pub high: Vec<f32>,
    /// Head that makes an action of outputs.
    pub head: Head,
    /// By how much the best output has to lead the next, or the fallback decides; 0 if the card has no `margin`.
    pub margin: f32,
    /// The network.
    pub network: Network,
}

impl PolicyFile {
    /// The policy in the file at `path`.
    pub fn read(path: impl AsRef<Path>) -> Result<Self, PolicyError> {
        let about = std::fs::metadata(&path)?;
        if !about.is_file() {
            return Err(std::io::Error::other("this is no regular file").into());
        }
        let size = about.len();
        if size > LARGEST {
            return Err(PolicyError::TooLarge(size));
        }
        Self::parse(&std::fs::read(path)?)
    }

    /// The policy in `bytes`.
    pub fn parse(bytes: &[u8]) -> Result<Self, PolicyError> {
        if bytes.len() as u64 > LARGEST {
            return Err(PolicyError::TooLarge(bytes.len() as u64));
        }
        let (_, metadata) = SafeTensors::read_metadata(bytes)?;
        let card: BTreeMap<_, _> = metadata.metadata().clone().unwrap_or_default().into_iter().collect();
        let tensors = Tensors::new(bytes)?;
        let said = |key: &'static str| card.get(key).map(String::as_str).ok_or(PolicyError::Missing(key));
        let wrong = |key, expected| {
            let value = card.get(key).cloned().unwrap_or_default();
            PolicyError::Card { key, value, expected }
        };
        if said("format")? != FORMAT {
            return Err(wrong("format", FORMAT));
        }
        for key in ["algorithm", "task", "fallback"] {
            said(key)?;
        }
        let head = match said("head")? {
            "greedy" => Head::Greedy,
            "sample" => Head::Sample,
            "shares" => Head::Shares,
            "values" => Head::Values,
            _ => return Err(wrong("head", "greedy, sample, shares or values")),
        };
        let margin = match card.get("margin") {
            None => 0.0,
            Some(text) => text
                .parse()
                .ok()
                .filter(|margin: &f32| *margin >= 0.0)
                .ok_or_else(|| wrong("margin", "a number from 0"))?,
        };
        let names = said("inputs")?;
        let network = Network::read(said("network")?, &tensors)?;
        let (named, inputs) = (names.split(',').filter(|name| !name.trim().is_empty()).count(), network.inputs());
        if named != inputs {
            return Err(PolicyError::Inputs { named, inputs });
        }
        let low = tensors.take("low", &[network.inputs()])?;
        let high = tensors.take("high", &[network.inputs()])?;
        if let Some(at) = low.iter().zip(&high).position(|(low, high)| low > high) {
            let found = format!("{} at {at}, above `high`'s {}", low[at], high[at]);
            return Err(PolicyError::Tensor { name: "low".into(), found, expected: "at most `high`".into() });
        }
        tensors.finish()?;
        Ok(Self { low, high, head, margin, network, card })
    }

    /// Returns what the card says about `key`.
    pub fn card(&self, key: &str) -> Option<&str> {
        self.card.get(key).map(String::as_str)
    }

    /// The whole card.
    pub fn cards(&self) -> impl Iterator<Item = (&str, &str)> {
        self.card.iter().map(|(key, value)| (key.as_str(), value.as_str()))
    }

    /// The task that it decides, with its switches.
    pub fn task(&self) -> &str {
        self.card("task").unwrap_or_default()
    }

    /// Fallback outside the ranges of training: a scheduler, or `off`.
    pub fn fallback(&self) -> &str {
        self.card("fallback").unwrap_or("off")
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use safetensors::tensor::{Dtype, TensorView};

    /// A file of these tensors under this card; inputs that the card does not name are as many as
    /// `low` has numbers.
    pub(crate) fn file(card: &[(&str, &str)], tensors: &[(&str, &[usize], &[f32])]) -> Vec<u8> {
        let inputs = tensors.iter().find(|(name, ..)| *name == "low").map_or(0, |(_, shape, _)| shape[0]);
        let named = (0..inputs).map(|input| format!("x{input}")).collect::<Vec<_>>().join(",");
        let bytes: Vec<Vec<u8>> = tensors
            .iter()
            .map(|(_, _, numbers)| numbers.iter().flat_map(|number| number.to_le_bytes()).collect())
            .collect();
        let views = tensors.iter().zip(&bytes).map(|((name, shape, _), bytes)| {
            (*name, TensorView::new(Dtype::F32, shape.to_vec(), bytes).expect("shape and bytes agree"))
        });
        let given = [("inputs", named.as_str())].into_iter().chain(card.iter().copied());
        let card = given.map(|(key, value)| (key.to_string(), value.to_string())).collect();
        safetensors::serialize(views, Some(card)).expect("a file")
    }

    pub(crate) const CARD: [(&str, &str); 6] = [
        ("format", FORMAT),
        ("algorithm", "dqn"),
        ("task", "wait-or-send"),
        ("network", "mlp"),
        ("head", "greedy"),
        ("fallback", "min-rtt"),
    ];

    /// Two inputs, two outputs: y = x·W + b.
    const TENSORS: [(&str, &[usize], &[f32]); 4] = [
        ("low", &[2], &[0.0, 0.0]),
        ("high", &[2], &[1.0, 2.0]),
        ("w1", &[2, 2], &[1.0, 2.0, 3.0, 4.0]),
        ("b1", &[2], &[0.5, -0.5]),
    ];

    fn refused(card: &[(&str, &str)], tensors: &[(&str, &[usize], &[f32])]) -> String {
        PolicyFile::parse(&file(card, tensors)).unwrap_err().to_string()
    }

    #[test]
    fn a_file_is_read() {
        let policy = PolicyFile::parse(&file(&CARD, &TENSORS)).unwrap();
        assert_eq!((policy.task(), policy.fallback(), policy.head), ("wait-or-send", "min-rtt", Head::Greedy));
        assert_eq!((policy.network.inputs(), policy.network.outputs()), (2, 2));
        let mut out = [0.0; 2];
        policy.network.forward(&mut policy.network.scratch(), &[1.0, 10.0], &mut out);
        // 1·1 + 10·3 + 0.5, 1·2 + 10·4 − 0.5.
        assert_eq!(out, [31.5, 41.5]);
    }

    #[test]
    fn mistakes_say_where_and_what_would_be_right() {
        let with = |key: &'static str, value: &'static str| {
            CARD.map(|(own, old)| if own == key { (key, value) } else { (own, old) })
        };
        assert_eq!(refused(&CARD[1..], &TENSORS), "its card has no `format`; `weft train` writes one");
        let found = refused(&with("head", "best"), &TENSORS);
        assert_eq!(found, "its card says `head = best`; expected greedy, sample, shares or values");
        let found = refused(&with("network", "mpl"), &TENSORS);
        assert_eq!(found, "its card's network: unknown network `mpl`; did you mean `mlp`?");
        let named = |names| refused(&[CARD.as_slice(), &[("inputs", names)]].concat(), &TENSORS);
        assert_eq!(named("srtt"), "its card names 1 inputs; its network has 2");
        assert_eq!(named("srtt,cwnd,rate"), "its card names 3 inputs; its network has 2");
        assert_eq!(named(""), "its card names 0 inputs; its network has 2");
        for margin in ["wide", "-1", "NaN"] {
            let found = refused(&[CARD.as_slice(), &[("margin", margin)]].concat(), &TENSORS);
            assert_eq!(found, format!("its card says `margin = {margin}`; expected a number from 0"));
        }
        assert_eq!(refused(&CARD, &TENSORS[..3]), "it has no tensor `b1`");
        let mut wrong = TENSORS;
        wrong[3] = ("b1", &[3], &[0.0; 3]);
        assert_eq!(refused(&CARD, &wrong), "its tensor `b1` is of shape [3]; expected [2]");
        wrong[3] = ("b1", &[2], &[0.0, f32::NAN]);
        assert_eq!(refused(&CARD, &wrong), "its tensor `b1` is NaN at 1; expected finite numbers");
        wrong = TENSORS;
        wrong[0] = ("low", &[2], &[0.0, 3.0]);
        assert_eq!(refused(&CARD, &wrong), "its tensor `low` is 3 at 1, above `high`'s 2; expected at most `high`");
        let more = [TENSORS.as_slice(), &[("w9", &[1], &[0.0])]].concat();
        assert_eq!(refused(&CARD, &more), "its tensor `w9` belongs to no part of the network that its card names");
    }

    /// Reads parts of `whole`, and copies in which a byte of the header is another: parts are refused,
    /// and what is read all the same runs.
    pub(crate) fn withstands(whole: &[u8]) {
        let header = 8 + u64::from_le_bytes(whole[..8].try_into().unwrap()) as usize;
        for length in (0..header).chain((header..whole.len()).step_by(61)) {
            assert!(PolicyFile::parse(&whole[..length]).is_err(), "{length} bytes of {}", whole.len());
        }
        for (at, bits) in (0..header).flat_map(|at| [(at, 0x01), (at, 0x5a)]) {
            let mut changed = whole.to_vec();
            changed[at] ^= bits;
            // Names on the card may change unnoticed; nothing may panic.
            if let Ok(PolicyFile { network, low, .. }) = PolicyFile::parse(&changed) {
                network.forward(&mut network.scratch(), &low, &mut vec![0.0; network.outputs()]);
            }
        }
    }

    #[test]
    fn a_part_of_a_file_is_refused_and_a_changed_one_does_no_harm() {
        let whole = file(&CARD, &TENSORS);
        withstands(&whole);
        for at in 0..whole.len() {
            let mut changed = whole.clone();
            changed[at] ^= 0x5a;
            // Weights may change unnoticed; nothing may panic.
            let _ = PolicyFile::parse(&changed);
        }
    }

    #[test]
    fn a_margin_of_nothing_and_an_input_that_never_varied_are_sound() {
        let policy = |tensors: &[(&str, &[usize], &[f32])]| {
            PolicyFile::parse(&file(&[CARD.as_slice(), &[("margin", "0")]].concat(), tensors))
        };
        assert_eq!(policy(&TENSORS).unwrap().margin, 0.0);
        let mut still = TENSORS;
        still[0] = ("low", &[2], &[1.0, 0.0]);
        assert_eq!(policy(&still).unwrap().low, [1.0, 0.0]);
    }
}
