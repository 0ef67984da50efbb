//! A contextual bandit (LinUCB) with one arm per path that learns from every packet's own delayed
//! reward. It schedules passably; its purpose is to prove that a host counts decisions right: each
//! reward must find the decision that earned it.

use std::collections::{BTreeMap, VecDeque};

use weftway_path::{BlockedReason, Context, Decision, Event, Health, Path, PathId, Receipt};

use super::ledger::Ledger;
use super::min_rtt;
use weftway_sched::Scheduler;

const FEATURES: usize = 3;
type Vector = [f64; FEATURES];
type Matrix = [Vector; FEATURES];

/// Weight of an arm's uncertainty.
const ALPHA: f64 = 0.5;

/// Chooses an arm per packet and learns when that packet is acknowledged or lost.
#[derive(Clone)]
pub struct Bandit {
    arms: BTreeMap<PathId, Arm>,
    /// Scheduler that answers where no arm may be chosen.
    otherwise: Box<dyn Scheduler>,
    /// Path and features of the last answer, to learn from if it is carried out.
    asked: Option<(PathId, Vector)>,
    /// Paths and features of unrewarded decisions, by serial from `first` on.
    waiting: VecDeque<Option<(PathId, Vector)>>,
    first: u64,
    ledger: Ledger,
}

/// Ridge regression, with the inverse of its matrix kept up to date.
#[derive(Clone)]
struct Arm {
    inverse: Matrix,
    reward: Vector,
}

impl Default for Arm {
    fn default() -> Self {
        let row = |at: usize| core::array::from_fn(|column| f64::from(u8::from(column == at)));
        Self { inverse: core::array::from_fn(row), reward: Vector::default() }
    }
}

impl Arm {
    /// Upper confidence bound of the reward: `θ·x + α·√(x·A⁻¹x)` with `θ = A⁻¹b`.
    fn bound(&self, x: &Vector) -> f64 {
        let ax = times(&self.inverse, x);
        dot(&ax, &self.reward) + ALPHA * libm::sqrt(dot(x, &ax))
    }

    /// `A += x·xᵀ` by Sherman and Morrison's formula, `b += reward·x`.
    fn learn(&mut self, x: &Vector, reward: f64) {
        let ax = times(&self.inverse, x);
        let scale = 1.0 + dot(x, &ax);
        for (row, a) in self.inverse.iter_mut().zip(ax) {
            row.iter_mut().zip(ax).for_each(|(cell, b)| *cell -= a * b / scale);
        }
        self.reward.iter_mut().zip(x).for_each(|(sum, x)| *sum += reward * x);
    }
}

fn dot(a: &Vector, b: &Vector) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn times(matrix: &Matrix, x: &Vector) -> Vector {
    matrix.map(|row| dot(&row, x))
}

/// A constant, the round-trip time against 100 ms, the used share of the window.
fn features(path: &Path) -> Vector {
    let used = path.unacked().get() as f64 / path.cwnd.get().max(1) as f64;
    [1.0, path.srtt.as_millis_f64() / 100.0, used]
}

/// Order in which paths serve: active ones, then backups, then those that may have failed.
fn rank(path: &Path) -> u8 {
    match path.health {
        Health::Good if path.is_active() => 0,
        Health::Good => 1,
        Health::Suspect | Health::Stale => 2,
    }
}

/// The open paths of the first rank that has a path.
fn candidates<'a>(cx: &Context<'a>) -> impl Iterator<Item = &'a Path> + use<'a> {
    let ready = cx.paths.iter().filter(|path| path.blocked != BlockedReason::Validation);
    let first = ready.map(rank).min();
    cx.sendable().filter(move |path| Some(rank(path)) == first)
}

impl Bandit {
    /// A bandit that knows nothing, and the ledger of its decisions.
    pub fn new() -> (Self, Ledger) {
        let ledger = Ledger::default();
        let bandit = Self {
            arms: BTreeMap::new(),
            otherwise: min_rtt(),
            asked: None,
            waiting: VecDeque::new(),
            first: 0,
            ledger: ledger.clone(),
        };
        (bandit, ledger)
    }

    fn bound(&self, path: &Path) -> f64 {
        let x = features(path);
        self.arms.get(&path.id).map_or_else(|| Arm::default().bound(&x), |arm| arm.bound(&x))
    }

    fn remember(&mut self, sent: &Receipt) {
        let asked = self.asked.take().filter(|(path, _)| *path == sent.path);
        let end = self.first + self.waiting.len() as u64;
        for _ in end..sent.serial {
            self.waiting.push_back(None);
        }
        self.waiting.push_back(asked);
    }

    /// Pays the decision `serial`, once.
    fn reward(&mut self, serial: u64, reward: f64) {
        if let Some((path, x)) = self.settle(serial) {
            self.arms.entry(path).or_default().learn(&x, reward);
        }
    }

    /// Takes the path and the features of the decision `serial`, if it is unrewarded.
    fn settle(&mut self, serial: u64) -> Option<(PathId, Vector)> {
        let at = serial.checked_sub(self.first).map(|at| at as usize);
        let seen = at.and_then(|at| self.waiting.get_mut(at)).and_then(Option::take);
        while let Some(None) = self.waiting.front() {
            self.waiting.pop_front();
            self.first += 1;
        }
        seen
    }
}

impl Scheduler for Bandit {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        let path = candidates(cx).reduce(|best, path| if self.bound(path) > self.bound(best) { path } else { best });
        self.asked = path.map(|path| (path.id, features(path)));
        match path {
            Some(path) if cx.packet.is_some() => Decision::Send(path.id),
            _ => self.otherwise.select(cx),
        }
    }

    fn observe(&mut self, cx: &Context<'_>, event: &Event) {
        self.ledger.note(event);
        match event {
            Event::Sent(receipt, _) => self.remember(receipt),
            Event::Acked(receipt) => {
                let rtt = cx.path(receipt.path).map_or(0.0, |path| path.latest_rtt.as_millis_f64());
                self.reward(receipt.serial, 1.0 / (1.0 + rtt / 100.0));
            }
            Event::Lost(receipt) => self.reward(receipt.serial, -1.0),
            Event::Recalled(receipt) => drop(self.settle(receipt.serial)),
            _ => {}
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, path};

    #[test]
    fn each_reward_finds_its_decision() {
        let (mut bandit, ledger) = Bandit::new();
        let mut bench = Bench::new(vec![path(0, 20, 4, 0), path(1, 40, 4, 0)]);
        let mut sent = 0;
        loop {
            let decision = bandit.select(&bench.context());
            let Some(event) = bench.carry(decision) else { break };
            bandit.observe(&bench.context(), &event);
            sent += 1;
        }
        // Both windows hold 4 packets.
        assert_eq!(sent, 8);
        let lost = bench.lose(PathId::new(0), None).unwrap();
        bandit.observe(&bench.context(), &lost);
        while let Some(event) = bench.ack(PathId::new(1), None) {
            bandit.observe(&bench.context(), &event);
        }
        let audit = ledger.audit();
        assert_eq!((audit.sent, audit.acked, audit.lost, audit.pending), (8, 4, 1, 3));
        assert!(audit.faults.is_empty());
        // A second acknowledgement of number 0 or of one already paid is a breach.
        let twice = Receipt { path: PathId::new(1), offset: Default::default(), bytes: Default::default(), serial: 99 };
        bandit.observe(&bench.context(), &Event::Acked(twice));
        assert_eq!(ledger.audit().faults, ["number 99 acknowledged but never sent"]);
    }
}
