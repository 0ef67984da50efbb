//! Q-learning: a table of nine states says whether a packet waits for the fast path.
//!
//! Rule: while F is full, action 1 or 2 with the larger `Q(s, a)`: the pair's first or second path
//! by number; the action that names F waits for it. With probability ε one of the two is drawn
//! instead. The state is `3·c₁ + c₂`, each path's class low 0, mid 1, high 2:
//!   low  if `srtt ≥ 3·min srtt`, or 2 probe timeouts in a second, or 3 % lost;
//!   mid  if `srtt ≥ 1.5·min srtt`, or `cwnd/srtt < ¼ of the other's`, or 0.5 % lost, or 1 timeout;
//!   high otherwise; the first that fits.
//! `Q(s, a) += lr·(r + γ·max Q(s', ·) − Q(s, a))` when the decision's record closes, with `r =
//! a·Σ thr − b·Σ srtt`, normalised.
//! Reference: MPQUIC schedulers under BBR and CUBIC: min-RTT, ECF, BLEST, Q-learning, DQN, UCB; section 4.1.
//! State: the table, how many decisions were made, open records, meters per path.
//! Departs from print: the classes' bounds, the constants and ε are ours, as the paper gives words
//! only. Actions name paths, but one that names a full path means to wait: else only one of them
//! could be carried out, and the rule were min-RTT.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Path, Span};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Learning, Needs, Provenance};
use crate::learned::pair;
use crate::learned::pair::blocked::Blocked;
use crate::learned::pair::meters::Meter;
use crate::learned::pair::policy::{self, Policy, Question, Rules};
use crate::learned::pair::records::{Action, Outcome};
use crate::learned::pair::reward::{self, Delivery};
use crate::shared::rng::{PolicyRng, SEED};

pub(crate) static ENTRY: Entry = Entry {
    name: "q-learning",
    aliases: &["qlearning", "q-table"],
    summary: "a table learned while sending: wait for the full fast path, or use the slow one",
    reference: "MPQUIC schedulers under BBR and CUBIC: min-RTT, ECF, BLEST, Q-learning, DQN, UCB; section 4.1",
    provenance: Provenance::Reconstructed,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Rate],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2025,
        learner: "a table, on line",
        state: "a class of each path by round-trip time, loss and timeouts: nine states",
        reward: pair::REWARD,
        actions: pair::ACTIONS,
    }),
    params: &[
        Param { name: "lr", default: "0.1", values: "number, 0 to 1", doc: "learning rate" },
        Param { name: "gamma", default: "0.9", values: "number, 0 to 0.999", doc: "discount of what follows" },
        Param { name: "eps", default: "0.1", values: "probability, 0 to 1", doc: "exploration at first" },
        Param { name: "eps_end", default: "0.01", values: "probability, 0 to 1", doc: "exploration at last" },
        Param {
            name: "eps_decisions",
            default: "5000",
            values: "decisions, 1 to 1000000000",
            doc: "after how many decisions exploration has fallen, linearly, to its last value",
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

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let policy = QLearning {
        table: [[0.0; 2]; STATES],
        lr: params.within("lr", 0.0..=1.0)?,
        gamma: params.within("gamma", 0.0..=0.999)?,
        eps: [params.within("eps", 0.0..=1.0)?, params.within("eps_end", 0.0..=1.0)?],
        eps_decisions: params.within("eps_decisions", 1..=1_000_000_000)?,
        decisions: 0,
        reward: Delivery::new(params)?,
        rng: PolicyRng::new(params.get("seed")?),
    };
    Ok(Box::new(Blocked::new(Rules::new(params)?, policy)))
}

/// Two paths of three classes.
const STATES: usize = 9;

#[derive(Clone)]
struct QLearning {
    /// By state, then by action: the first path, the second.
    table: [[f64; 2]; STATES],
    lr: f64,
    gamma: f64,
    eps: [f64; 2],
    eps_decisions: u64,
    decisions: u64,
    reward: Delivery,
    rng: PolicyRng,
}

/// Place of a decision: state and action of the table.
#[derive(Clone, Copy)]
struct TableCell {
    state: usize,
    action: usize,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Class {
    Low = 0,
    Mid = 1,
    High = 2,
}

/// Measurements by which a path is classed.
#[derive(Clone, Copy)]
struct PathMeasures {
    srtt: f64,
    rate: f64,
    loss: f64,
    timeouts: u32,
}

impl PathMeasures {
    fn of(path: &Path, meter: &Meter, timeouts: u32) -> Self {
        let srtt = path.srtt.max(Span::from_nanos(1)).as_secs_f64();
        Self { srtt, rate: path.cwnd.get() as f64 / srtt, loss: meter.loss, timeouts }
    }

    fn class(&self, other: &Self) -> Class {
        let slowness = self.srtt / self.srtt.min(other.srtt);
        if slowness >= 3.0 || self.timeouts >= 2 || self.loss >= 0.03 {
            Class::Low
        } else if slowness >= 1.5 || self.rate < 0.25 * other.rate || self.loss >= 0.005 || self.timeouts == 1 {
            Class::Mid
        } else {
            Class::High
        }
    }
}

/// Which action names `path`: 0 the first of the pair by number, 1 the second.
fn naming(path: &Path, other: &Path) -> usize {
    usize::from(path.id > other.id)
}

fn state(question: &Question<'_>) -> usize {
    let Question { cx, fast, slow, meters } = question;
    let [f, s] = [fast, slow].map(|path| {
        let meter = meters.of(path.id);
        PathMeasures::of(path, meter, meter.timeouts(cx.now))
    });
    let (class_f, class_s) = (f.class(&s) as usize, s.class(&f) as usize);
    if naming(fast, slow) == 0 { 3 * class_f + class_s } else { 3 * class_s + class_f }
}

impl QLearning {
    fn epsilon(&self) -> f64 {
        let [first, last] = self.eps;
        first + (last - first) * (self.decisions as f64 / self.eps_decisions as f64).min(1.0)
    }

    fn update(&mut self, TableCell { state, action }: TableCell, reward: f64, next: usize) {
        let best = self.table[next][0].max(self.table[next][1]);
        let value = &mut self.table[state][action];
        *value += self.lr * (reward + self.gamma * best - *value);
    }
}

impl Policy for QLearning {
    type Observation = TableCell;

    fn decide(&mut self, question: &Question<'_>) -> (Action, TableCell) {
        let state = state(question);
        let slow = naming(question.slow, question.fast);
        // Equal values send: nothing speaks for waiting.
        let mut takes_slow = self.table[state][slow] >= self.table[state][1 - slow];
        if self.rng.flip(self.epsilon()) {
            takes_slow = self.rng.flip(0.5);
        }
        self.decisions += 1;
        let action = if takes_slow { Action::Slow } else { Action::Fast };
        (action, TableCell { state, action: if takes_slow { slow } else { 1 - slow } })
    }

    fn learn(&mut self, at_close: &Question<'_>, outcome: &Outcome<TableCell>) {
        let reward = self.reward.of(at_close, outcome.fate);
        self.update(outcome.choice.observation, reward, state(at_close));
    }

    fn explain(&self, question: &Question<'_>) -> String {
        let state = state(question);
        let [first, second] = self.table[state];
        format!("state {state}, Q {first:.4} and {second:.4}, epsilon {:.4}", self.epsilon())
    }
}

#[cfg(test)]
mod tests;
