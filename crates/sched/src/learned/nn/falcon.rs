//! FALCON's meta-models: dense layers with ReLU for each group of network conditions. Tensors
//! `g0.w1`, `g0.b1` and so on; all groups are as wide.

use weftway_path::spec::{Param, Params};

use super::mlp::Mlp;
use crate::learned::tensors::{PolicyError, Tensors};

/// Number of groups of conditions ([`Models::group`]).
pub(crate) const GROUPS: usize = 12;

pub(crate) const PARAMS: &[Param] =
    &[Param { name: "groups", default: "12", values: "12", doc: "how many groups of conditions have a model" }];

/// A lossy path loses as much.
const LOSSY: f64 = 0.005;

/// Models, one per group.
#[derive(Clone, Debug)]
pub struct Models(Vec<Mlp>);

/// Conditions from which the group of a pair of paths follows.
#[derive(Clone, Copy, PartialEq, Debug)]
pub(crate) struct Condition {
    /// Delivery rate of S over F's.
    pub(crate) rate_ratio: f64,
    /// Fraction of lost packets, of the path that loses more.
    pub(crate) loss: f64,
    /// srtt of S over F's.
    pub(crate) rtt_ratio: f64,
}

impl Condition {
    /// The number of its group: rate ratio below 1/3, up to 3 or above it, times 4; loss of 0.5 % or
    /// more, times 2; round-trip times of a ratio of 2 or more.
    pub(crate) fn group(self) -> usize {
        let rate = usize::from(self.rate_ratio >= 1.0 / 3.0) + usize::from(self.rate_ratio > 3.0);
        4 * rate + 2 * usize::from(self.loss >= LOSSY) + usize::from(self.rtt_ratio >= 2.0)
    }
}

impl Models {
    pub(crate) fn read(params: &Params, tensors: &Tensors<'_>) -> Result<Self, PolicyError> {
        params.within("groups", GROUPS..=GROUPS)?;
        let models = (0..GROUPS).map(|group| Mlp::relu_of(tensors, &format!("g{group}.")));
        let models = models.collect::<Result<Vec<_>, _>>()?;
        if let Some(group) = models.iter().position(|model| !model.is_like(&models[0])) {
            let expected = "layers as wide as those of `g0`".to_owned();
            return Err(PolicyError::Tensor {
                name: format!("g{group}.w1"),
                found: "of another network".into(),
                expected,
            });
        }
        Ok(Self(models))
    }

    /// The model of `group`.
    pub(crate) fn of(&self, group: usize) -> &Mlp {
        &self.0[group]
    }
}

#[cfg(test)]
pub(crate) mod tests {
    use super::*;
    use crate::learned::policy_file::PolicyFile;
    use crate::learned::policy_file::tests::{CARD, file};

    /// A dense layer: inputs, W, b.
    pub(crate) type Dense = (usize, Vec<f32>, Vec<f32>);

    /// A file of `models`, one per group, each a list of layers.
    pub(crate) fn models_file(card: &[(&str, &str)], models: &[Vec<Dense>]) -> Vec<u8> {
        let inputs = models[0][0].0;
        let mut tensors = vec![("low".to_owned(), vec![inputs], vec![0.0; inputs])];
        tensors.push(("high".to_owned(), vec![inputs], vec![4.0; inputs]));
        for (group, layers) in models.iter().enumerate() {
            for (at, (inputs, w, b)) in layers.iter().enumerate() {
                tensors.push((format!("g{group}.w{}", at + 1), vec![*inputs, b.len()], w.clone()));
                tensors.push((format!("g{group}.b{}", at + 1), vec![b.len()], b.clone()));
            }
        }
        let tensors: Vec<_> = tensors.iter().map(|(name, shape, all)| (name.as_str(), &shape[..], &all[..])).collect();
        file(card, &tensors)
    }

    fn card(network: &'static str) -> Vec<(&'static str, &'static str)> {
        CARD.map(|(key, value)| if key == "network" { (key, network) } else { (key, value) }).to_vec()
    }

    #[test]
    fn each_group_comes_back_as_it_was_stored() {
        let models: Vec<_> = (0..12u8).map(|n| vec![(1, vec![f32::from(n), 1.0], vec![0.5, -1.0])]).collect();
        let policy = PolicyFile::parse(&models_file(&card("falcon:groups=12"), &models)).unwrap();
        let crate::learned::nn::Network::Falcon(read) = &policy.network else { panic!("{:?}", policy.network) };
        let mut buffers = read.of(0).buffers();
        for group in 0..12u8 {
            let mut out = [0.0; 2];
            read.of(usize::from(group)).forward(&mut buffers, &[2.0], &mut out);
            // 2·n + 0.5, 2·1 − 1.
            assert_eq!(out, [2.0 * f32::from(group) + 0.5, 1.0]);
        }
        let refused =
            |network, models: &[_]| PolicyFile::parse(&models_file(&card(network), models)).unwrap_err().to_string();
        assert_eq!(refused("falcon", &models[..11]), "it has no tensor `g11.w1`");
        assert_eq!(refused("falcon:groups=3", &models), "its card's network: `falcon:groups=3`: expected 12");
        let mut other = models.clone();
        other[5] = vec![(1, vec![0.0; 3], vec![0.0; 3])];
        let found = "its tensor `g5.w1` is of another network; expected layers as wide as those of `g0`";
        assert_eq!(refused("falcon", &other), found);
    }

    #[test]
    fn groups_by_hand() {
        let group = |rate_ratio, loss, rtt_ratio| Condition { rate_ratio, loss, rtt_ratio }.group();
        assert_eq!(group(0.2, 0.0, 1.0), 0);
        assert_eq!(group(0.2, 0.01, 3.0), 3);
        assert_eq!(group(1.0 / 3.0, 0.0, 1.99), 4);
        assert_eq!(group(3.0, 0.005, 2.0), 7);
        assert_eq!(group(3.1, 0.0049, 2.0), 9);
        assert_eq!(group(f64::INFINITY, 1.0, f64::INFINITY), 11);
    }
}
