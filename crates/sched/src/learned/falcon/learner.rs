//! The weights in use: a copy of a group's, adapted to the network as it is, then learning on.

use super::experience::Experience;
use super::trainer::Trainer;
use crate::learned::nn::Mlp;
use crate::learned::task::Earned;
use crate::shared::rng::PolicyRng;

/// Transitions in a gradient step, and between two steps.
const BATCH: u64 = 32;

/// Steps from one copy of the target network to the next, as in training.
const TARGET: u64 = 100;

/// Settings of learning.
#[derive(Clone, Copy, Debug)]
pub(super) struct Settings {
    /// Steps of adaptation.
    pub(super) steps: u32,
    /// Learning rate of adaptation, and after it.
    pub(super) rates: [f32; 2],
    /// Discount of what follows.
    pub(super) gamma: f32,
}

/// Network with the present weights.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(super) enum Stage {
    /// The group's.
    Fresh,
    /// Adapted, and learning on: the next step is due at so many transitions.
    Adapted {
        /// Transitions since the weights were copied.
        due: u64,
    },
}

/// The network in use, and what moves it.
#[derive(Clone)]
pub(super) struct Learner {
    settings: Settings,
    model: Mlp,
    target: Mlp,
    stage: Stage,
    trainer: Trainer,
    experience: Experience,
    buffers: Vec<Vec<f32>>,
    rng: PolicyRng,
    steps: u64,
}

impl Learner {
    /// Makes a learner that begins with `model`; `rng` draws its batches.
    pub(super) fn new(model: &Mlp, settings: Settings, rng: PolicyRng) -> Self {
        Self {
            settings,
            model: model.clone(),
            target: model.clone(),
            stage: Stage::Fresh,
            trainer: Trainer::new(model),
            experience: Experience::new(model.inputs()),
            buffers: model.buffers(),
            rng,
            steps: 0,
        }
    }

    /// Begins anew with `model`.
    pub(super) fn restart(&mut self, model: &Mlp) {
        self.model.copy_from(model);
        self.target.copy_from(model);
        self.trainer.reset();
        self.forget();
        (self.stage, self.steps) = (Stage::Fresh, 0);
    }

    /// Learns nothing from what was decided before.
    pub(super) fn forget(&mut self) {
        self.experience.clear();
        self.stage = Stage::Fresh;
    }

    /// The value of each action, having seen `seen`.
    pub(super) fn values(&mut self, observation: &[f32], values: &mut [f32]) {
        self.model.forward(&mut self.buffers, observation, values);
    }

    /// Decision `number` was `action`.
    pub(super) fn decide(&mut self, number: u64, observation: &[f32], action: usize) {
        self.experience.decide(number, observation, action);
    }

    /// Takes in what decisions earned, and the steps that are due then.
    pub(super) fn learn(&mut self, earned: impl Iterator<Item = Earned>) {
        for earned in earned {
            self.experience.pay(earned);
        }
        let closed = self.experience.closed();
        if self.stage == Stage::Fresh && closed >= BATCH {
            (0..self.settings.steps).for_each(|_| self.step(self.settings.rates[0]));
            self.target.copy_from(&self.model);
            (self.stage, self.steps) = (Stage::Adapted { due: closed + BATCH }, 0);
        }
        while let Stage::Adapted { due } = self.stage
            && due <= closed
        {
            self.step(self.settings.rates[1]);
            self.stage = Stage::Adapted { due: due + BATCH };
            if self.steps.is_multiple_of(TARGET) {
                self.target.copy_from(&self.model);
            }
        }
    }

    /// A gradient step on a batch drawn from the newest transitions.
    fn step(&mut self, rate: f32) {
        for _ in 0..BATCH {
            let transition = self.experience.draw(self.rng.unit());
            let wanted = self.trainer.wanted(&self.target, &transition, self.settings.gamma);
            self.trainer.add(&self.model, &transition, wanted);
        }
        self.trainer.step(&mut self.model, rate);
        self.steps += 1;
    }

    /// Network with the present weights.
    pub(super) fn stage(&self) -> Stage {
        self.stage
    }
}
