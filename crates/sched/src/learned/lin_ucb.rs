//! LinUCB ("UCB"): two linear arms estimate what waiting and sending are worth; a coin decides.
//!
//! Rule: while F is full, with `x = (cwnd, rwnd, in flight)/srtt` of F and S, `val_a = θ_a·x`:
//!   `val_S < val_F`: S with probability 0.3, else wait for F;
//!   `val_S ≥ val_F`: S with probability 0.9, else wait.
//! When a decision's record closes with reward `r = a·Σ thr − b·Σ srtt`: `A_a += x·xᵀ`, `b_a += r·x`,
//! `θ_a = A_a⁻¹·b_a`, from `A = I`, `b = 0`.
//! Reference: MPQUIC schedulers under BBR and CUBIC: min-RTT, ECF, BLEST, Q-learning, DQN, UCB; section 4.3. The fixed
//! odds are those of Peekaboo's public code after learning.
//! State: A⁻¹ and b per arm, open records, meters per path.
//! Departs from print: the printed step adds `lr·(r − val)` to every coordinate of θ, lacks the
//! feature, and would be overwritten by the next θ = A⁻¹b; that A and b move is never said. The
//! ridge update mends all three; `sgd=feature` and `sgd=literal` take steps on θ instead, and A stays
//! I. The upper confidence of the name is absent in print: `alpha`. "Send on F" when F is full is to
//! wait. Rates in `x` are taken against the path's peak rate and are 4 at most. S is a path with room.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Path};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Learning, Needs, Provenance};
use crate::learned::pair;
use crate::learned::pair::blocked::Blocked;
use crate::learned::pair::context::Rates;
use crate::learned::pair::policy::{self, Policy, Question, Rules};
use crate::learned::pair::records::{Action, Outcome};
use crate::learned::pair::reward::{self, Delivery};
use crate::learned::ridge::Arm;
use crate::shared::rng::{PolicyRng, SEED};

pub(crate) static ENTRY: Entry = Entry {
    name: "lin-ucb",
    aliases: &["linucb", "ucb"],
    summary: "two linear estimates and a coin: wait for the full fast path, or use the slow one",
    reference: "MPQUIC schedulers under BBR and CUBIC: min-RTT, ECF, BLEST, Q-learning, DQN, UCB; section 4.3",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Queue, Input::Window, Input::Rate],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2025,
        learner: "linear bandit with random choices, on line",
        state: "window, peer's window and data in flight over srtt, of both",
        reward: pair::REWARD,
        actions: pair::ACTIONS,
    }),
    params: &[
        Param {
            name: "sgd",
            default: "off",
            values: "off | feature | literal",
            doc: "ridge regression; or gradient steps on θ, with the feature or, as printed, without it",
        },
        Param { name: "lr", default: "0.01", values: "number, 0 to 1", doc: "step of sgd=feature and sgd=literal" },
        Param {
            name: "alpha",
            default: "0",
            values: "number, 0 to 10",
            doc: "weight of an arm's uncertainty in its value; 0 as printed, 0.75 in Peekaboo's learning mode",
        },
        Param {
            name: "coin",
            default: "paper",
            values: "paper | none",
            doc: "chances of 0.3 and 0.9 to send on S, or always the arm of larger value",
        },
        reward::A,
        reward::B,
        reward::D0,
        policy::WAIT_STICKY,
        policy::PACED,
        SEED,
    ],
    build,
    ..Entry::NEW
};

/// The chance of S if waiting looks better, and if S does.
const CHANCES: [f64; 2] = [0.3, 0.9];

const FEATURES: usize = 6;
type Features = [f64; FEATURES];

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    Ok(Box::new(Blocked::new(Rules::new(params)?, LinUcb::new(params)?)))
}

#[derive(Clone)]
struct LinUcb {
    /// Wait for F, send on S.
    arms: [Arm<FEATURES>; 2],
    step: Step,
    alpha: f64,
    chances: [f64; 2],
    reward: Delivery,
    rng: PolicyRng,
}

#[derive(Clone, Copy)]
enum Step {
    Ridge,
    Feature(f64),
    Literal(f64),
}

impl LinUcb {
    fn new(params: &Params) -> Result<Self, SpecError> {
        let lr = params.within("lr", 0.0..=1.0)?;
        let steps = [("off", Step::Ridge), ("feature", Step::Feature(lr)), ("literal", Step::Literal(lr))];
        Ok(Self {
            arms: Default::default(),
            step: params.choice("sgd", &steps)?,
            alpha: params.within("alpha", 0.0..=10.0)?,
            chances: params.choice("coin", &[("paper", CHANCES), ("none", [0.0, 1.0])])?,
            reward: Delivery::new(params)?,
            rng: PolicyRng::new(params.get("seed")?),
        })
    }

    fn values(&self, x: &Features) -> [f64; 2] {
        [0, 1].map(|arm: usize| self.arms[arm].bound(x, self.alpha))
    }

    fn update(&mut self, arm: usize, x: &Features, reward: f64) {
        let arm = &mut self.arms[arm];
        let error = reward - arm.expected(x);
        match self.step {
            Step::Ridge => arm.learn(x, reward),
            Step::Feature(lr) => arm.shift(&x.map(|x| lr * error * x)),
            Step::Literal(lr) => arm.shift(&[lr * error; FEATURES]),
        }
    }
}

fn features(question: &Question<'_>) -> Features {
    let credit = question.cx.flow.map_or(Bytes::ZERO, |flow| flow.window());
    let rates = |path: &Path| Rates::of(question.meters.of(path.id), path, path.srtt, credit);
    let (f, s) = (rates(question.fast), rates(question.slow));
    [f.window, f.credit, f.in_flight, s.window, s.credit, s.in_flight]
}

impl Policy for LinUcb {
    type Observation = Features;

    fn decide(&mut self, question: &Question<'_>) -> (Action, Features) {
        let x = features(question);
        let [wait, send] = self.values(&x);
        let chance = self.chances[usize::from(send >= wait)];
        (if self.rng.flip(chance) { Action::Slow } else { Action::Fast }, x)
    }

    fn learn(&mut self, at_close: &Question<'_>, outcome: &Outcome<Features>) {
        let reward = self.reward.of(at_close, outcome.fate);
        self.update(outcome.choice.action as usize, &outcome.choice.observation, reward);
    }

    fn explain(&self, question: &Question<'_>) -> String {
        let [wait, send] = self.values(&features(question));
        let [theta_wait, theta_send] = [0, 1].map(|arm: usize| self.arms[arm].theta());
        format!("val_F {wait:.4}, val_S {send:.4}, θ_F {theta_wait:.3?}, θ_S {theta_send:.3?}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::learned::pair::meters::Meters;
    use weftway_vectors::testing::{Bench, path};

    fn policy(given: &[(&str, &str)]) -> LinUcb {
        let given: Vec<_> = given.iter().map(|(key, value)| (key.to_string(), value.to_string())).collect();
        LinUcb::new(&Params::new(ENTRY.name, ENTRY.params, &given).unwrap()).unwrap()
    }

    /// The share of S in 10⁵ decisions.
    fn share(policy: &mut LinUcb) -> f64 {
        let bench = Bench::new(vec![path(0, 20, 10, 10), path(1, 60, 10, 0)]);
        let meters = Meters::default();
        let question = Question { cx: &bench.context(), fast: &bench.paths[0], slow: &bench.paths[1], meters: &meters };
        let sent = (0..100_000).filter(|_| policy.decide(&question).0 == Action::Slow).count();
        sent as f64 / 100_000.0
    }

    #[test]
    fn the_coins_have_their_chances() {
        // A standard deviation of √(0.3·0.7/10⁵) = 0.0014 and 0.0009.
        let mut even = policy(&[]);
        assert!((share(&mut even) - 0.9).abs() < 0.01);
        let mut waits = policy(&[]);
        waits.arms[0].shift(&[1.0; FEATURES]);
        assert!((share(&mut waits) - 0.3).abs() < 0.01);
        let mut certain = policy(&[("coin", "none")]);
        assert_eq!(share(&mut certain), 1.0);
    }

    #[test]
    fn steps_by_hand() {
        let x = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0];
        // val = 0, r = 2, lr = 0.1: 0.2·x, or 0.2 everywhere.
        let theta = |sgd| {
            let mut policy = policy(&[("sgd", sgd), ("lr", "0.1")]);
            policy.update(1, &x, 2.0);
            *policy.arms[1].theta()
        };
        assert_eq!(theta("feature"), [0.2, 0.4, 0.0, 0.0, 0.0, 0.0]);
        assert_eq!(theta("literal"), [0.2; FEATURES]);
        // (I + x·xᵀ)⁻¹·2x = 2x/(1 + 5).
        let ridge = theta("off");
        assert!((ridge[0] - 1.0 / 3.0).abs() < 1e-12 && (ridge[1] - 2.0 / 3.0).abs() < 1e-12);
    }

    #[test]
    fn uncertainty_counts_with_alpha_only() {
        let x = [1.0; FEATURES];
        let mut policy = policy(&[("alpha", "0.75")]);
        (0..10).for_each(|_| policy.update(1, &x, 0.0));
        // 0.75·√6 for the arm that was never tried, 0.75·√(6/61) for the other.
        let [wait, send] = policy.values(&x);
        assert!((wait - 0.75 * 6f64.sqrt()).abs() < 1e-9 && (send - 0.75 * (6f64 / 61.0).sqrt()).abs() < 1e-9);
        policy.alpha = 0.0;
        assert_eq!(policy.values(&x), [0.0, 0.0]);
    }

    #[test]
    fn a_step_goes_by_what_was_expected() {
        // θ = (0.2, 0.4): θ·x = 1 of a reward of 2. Another 0.1·1·x.
        let x = [1.0, 2.0, 0.0, 0.0, 0.0, 0.0];
        let mut policy = policy(&[("sgd", "feature"), ("lr", "0.1")]);
        (0..2).for_each(|_| policy.update(1, &x, 2.0));
        let expected = [0.3, 0.6, 0.0, 0.0, 0.0, 0.0];
        assert!(policy.arms[1].theta().iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12));
    }
}
