//! Peekaboo: a linear bandit learns on line whether a packet waits for the fast path, then plays
//! the better arm most of the time and watches whether the world has changed.
//!
//! Rule: while F is full, with `x` = (cwnd, send window, in flight)/latest RTT of F and of S:
//!   record:  waits, then sends, so many of each, to have seen both;
//!   learn:   the arm of larger `θ_a·x + α·√(x·A_a⁻¹x)`, α = 0.75, S on a tie;
//!   deploy:  the arm of larger `θ_a·x`, waiting with probability 0.7 if it is F, sending with 0.9
//!            if it is S, else the other arm;
//!   monitor: back to record if an arm's mean return over 50 decisions is further than three mean
//!            deviations from what it was, four times in a row.
//! A decision returns `R = Σ γᵏ·r_k`, where r_k is what the k-th packet from its own on achieved
//! within `T_ref = max(2·srtt_F, srtt_S)`: its bytes over the time from the decision to its
//! acknowledgement, in units of the round's first. Then `A_a += x·xᵀ`, `b_a += R·x`.
//! Reference: Wu, Alay, Brunstrom, Ferlin, Caso: Peekaboo, IEEE JSAC 2020, and its released code. Numbers are those of
//! the released code (α, chances) and of a public re-implementation (phases, T_ref).
//! State: arms, phase, counts and means per arm, rewards by packet, open records, meters per path.
//! A transfer of fewer than `2·record` = 4000 decisions is all record: it shows neither learning nor
//! playing. To see them in short ones, set `record` and `learn` smaller.
//! Departs from print: γ, how long the learn phase is, and when to relearn are ours. The chances
//! are fixed, as in the released code; the paper adapts them. Rates in `x` are taken against the path's
//! peak rate and are 4 at most. The re-implementation takes T_ref from the newest samples, and asks anew
//! after each wait; the released code waits until F has room, as `wait_sticky` does.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Bytes, Instant, Path, Receipt};

use crate::Scheduler;
use crate::entry::{Arity, Entry, Input, Learning, Needs, Provenance};
use crate::learned::pair;
use crate::learned::pair::blocked::Blocked;
use crate::learned::pair::context::Rates;
use crate::learned::pair::policy::{self, Policy, Question, Rules};
use crate::learned::pair::records::{Action, Outcome};
use crate::learned::ridge::Arm;
use crate::shared::rng::{PolicyRng, SEED};

mod returns;

use returns::{Monitor, Rewards, Spread};

pub(crate) static ENTRY: Entry = Entry {
    name: "peekaboo",
    aliases: &["peeka-boo"],
    summary: "a bandit that records, learns, deploys and monitors: wait for the full fast path, or use the slow one",
    reference: "Wu, Alay, Brunstrom, Ferlin, Caso: Peekaboo, IEEE JSAC 2020, and its released code",
    provenance: Provenance::Secondary,
    goal: "throughput",
    application: "bulk transfer",
    inputs: &[Input::Rtt, Input::Cwnd, Input::InFlight, Input::Window, Input::Rate],
    needs: Needs { flow: true, events: true, ..Needs::NONE },
    arity: Arity::Pair,
    waits: true,
    learning: Some(Learning {
        year: 2020,
        learner: "linear bandit, then fixed odds, on line",
        state: "window, send window and data in flight over latest round-trip time, of both",
        reward: "throughput until the packet's record closes",
        actions: pair::ACTIONS,
    }),
    params: PARAMS,
    build: |params| build(params, features),
    ..Entry::NEW
};

/// The switches, of M-Peekaboo too.
pub(crate) const PARAMS: &[Param] = &[
    Param {
        name: "both_available",
        default: "fast",
        values: "fast | bandit",
        doc: "with room on both paths F takes the packet, as in the released code, or the bandit is asked as well",
    },
    Param {
        name: "gamma",
        default: "0.9",
        values: "number, 0 to 0.99",
        doc: "discount of the packets after a decision's own in its return; 0: its own alone, as in the released code",
    },
    Param {
        name: "late",
        default: "elapsed",
        values: "elapsed | zero",
        doc: "what a packet earns that is still in flight at T_ref: as if it arrived then, or nothing (T_ref is often S's mean round trip, so that nothing would punish half of S's packets for arriving)",
    },
    Param { name: "alpha", default: "0.75", values: "number, 0 to 10", doc: "weight of uncertainty while learning" },
    Param { name: "p_wait", default: "0.7", values: "probability, 0 to 1", doc: "chance to wait if that looks better" },
    Param { name: "p_send", default: "0.9", values: "probability, 0 to 1", doc: "chance to send if that looks better" },
    Param {
        name: "record",
        default: "2000",
        values: "decisions, 0 to 1000000",
        doc: "how many waits, then as many sends, the first record phase takes: a transfer with fewer decisions than both (a decision falls due while F is full and another path is open) only records, and what the bandit would do is not observed",
    },
    Param { name: "record_again", default: "1000", values: "decisions, 0 to 1000000", doc: "the same in later rounds" },
    Param {
        name: "learn",
        default: "1000",
        values: "decisions, 1 to 1000000",
        doc: "how many decisions the learn phase takes; the re-implementation learns from what it recorded, at once",
    },
    policy::WAIT_STICKY,
    policy::PACED,
    SEED,
];

/// Returns the observation of the policy, from a question.
pub(crate) type Context<const N: usize> = fn(&Question<'_>) -> [f64; N];

/// A scheduler with contexts of `N` numbers.
pub(crate) fn build<const N: usize>(params: &Params, context: Context<N>) -> Result<Box<dyn Scheduler>, SpecError> {
    let mut rules = Rules::new(params)?;
    rules.asks_when_free = params.choice("both_available", &[("fast", false), ("bandit", true)])?;
    Ok(Box::new(Blocked::new(rules, Peekaboo::new(params, context)?)))
}

#[derive(Clone)]
struct Peekaboo<const N: usize> {
    context: Context<N>,
    /// Wait for F, send on S.
    arms: [Arm<N>; 2],
    alpha: f64,
    chances: [f64; 2],
    quotas: [u32; 2],
    learn: u32,
    /// Which phase it is; the monitor runs in the last.
    phase: Phase,
    rounds: u32,
    learned: u32,
    returns: [Spread; 2],
    monitors: [Monitor; 2],
    rewards: Rewards,
    rng: PolicyRng,
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    Record,
    Learn,
    Deploy,
}

impl<const N: usize> Peekaboo<N> {
    fn new(params: &Params, context: Context<N>) -> Result<Self, SpecError> {
        let record = |key| params.within(key, 0..=1_000_000u32);
        let quotas = [record("record")?, record("record_again")?];
        Ok(Self {
            context,
            arms: [Arm::default(), Arm::default()],
            alpha: params.within("alpha", 0.0..=10.0)?,
            chances: [1.0 - params.within("p_wait", 0.0..=1.0)?, params.within("p_send", 0.0..=1.0)?],
            quotas,
            learn: params.within("learn", 1..=1_000_000)?,
            phase: if quotas[0] > 0 { Phase::Record } else { Phase::Learn },
            rounds: 0,
            learned: 0,
            returns: [Spread::default(); 2],
            monitors: [Monitor::default(); 2],
            rewards: Rewards::new(params)?,
            rng: PolicyRng::new(params.get("seed")?),
        })
    }

    fn quota(&self) -> u32 {
        self.quotas[usize::from(self.rounds > 0)]
    }

    fn values(&self, x: &[f64; N]) -> [f64; 2] {
        let alpha = if self.phase == Phase::Learn { self.alpha } else { 0.0 };
        [0, 1].map(|arm: usize| self.arms[arm].bound(x, alpha))
    }

    fn sends(&mut self, x: &[f64; N]) -> bool {
        let [wait, send] = self.values(x);
        match self.phase {
            Phase::Record => self.returns[0].count >= self.quota(),
            Phase::Learn => send >= wait,
            Phase::Deploy => self.rng.flip(self.chances[usize::from(send >= wait)]),
        }
    }

    /// An arm's return while recording or learning.
    fn take_in(&mut self, arm: usize, x: &[f64; N], value: f64) {
        self.arms[arm].learn(x, value);
        self.returns[arm].note(value);
        if self.phase == Phase::Learn {
            self.learned += 1;
            if self.learned >= self.learn {
                self.phase = Phase::Deploy;
            }
        } else if self.returns.iter().all(|spread| spread.count >= self.quota()) {
            self.phase = Phase::Learn;
        }
    }

    /// Forgets what was learned and begins anew.
    fn begin_again(&mut self) {
        self.rounds += 1;
        self.arms = [Arm::default(), Arm::default()];
        self.returns = [Spread::default(); 2];
        self.monitors = [Monitor::default(); 2];
        self.rewards.unit = None;
        self.learned = 0;
        self.phase = if self.quota() > 0 { Phase::Record } else { Phase::Learn };
    }
}

impl<const N: usize> Policy for Peekaboo<N> {
    type Observation = [f64; N];

    fn decide(&mut self, question: &Question<'_>) -> (Action, [f64; N]) {
        let x = (self.context)(question);
        (if self.sends(&x) { Action::Slow } else { Action::Fast }, x)
    }

    fn learn(&mut self, _: &Question<'_>, outcome: &Outcome<[f64; N]>) {
        let value = self.rewards.of(outcome);
        let arm = outcome.choice.action as usize;
        if self.phase != Phase::Deploy {
            self.take_in(arm, &outcome.choice.observation, value);
        } else if self.monitors[arm].note(value, self.returns[arm]) {
            self.begin_again();
        }
    }

    fn keeps_until_deadline(&self) -> bool {
        self.rewards.gamma > 0.0
    }

    fn sent(&mut self, receipt: &Receipt, since: Instant) {
        let serial = receipt.serial;
        if let Some(place) = self.rewards.place(serial) {
            *place = (serial, since, 0.0);
        }
    }

    fn acked(&mut self, receipt: &Receipt, now: Instant) {
        self.rewards.acked(receipt, now);
    }

    fn explain(&self, question: &Question<'_>) -> String {
        let [wait, send] = self.values(&(self.context)(question));
        let (phase, rounds, [waits, sends]) = (self.phase, self.rounds, self.returns.map(|spread| spread.count));
        format!(
            "{phase:?} of round {rounds}, {waits} waits and {sends} sends observed, val_F {wait:.4}, val_S {send:.4}"
        )
    }
}

/// Both paths' rates over their latest round trip; nothing if one has none.
pub(crate) fn rates(question: &Question<'_>) -> Option<[Rates; 2]> {
    let Question { cx, fast, slow, meters } = question;
    if fast.latest_rtt.is_zero() || slow.latest_rtt.is_zero() {
        return None;
    }
    let credit = cx.flow.map_or(Bytes::ZERO, |flow| flow.credit());
    let of = |path: &Path| Rates::of(meters.of(path.id), path, path.latest_rtt, credit);
    Some([of(fast), of(slow)])
}

fn features(question: &Question<'_>) -> [f64; 6] {
    rates(question).map_or([0.0; 6], |[f, s]| [f.window, s.in_flight, f.credit, s.credit, f.in_flight, s.window])
}

#[cfg(test)]
mod tests;
