//! Checks that every decision is paid exactly once.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use weftway_path::{Event, PathId, Receipt};

/// Record of what a [`Bandit`](super::Bandit) was told about its decisions. Clones share the accounts, so that
/// it can be read while the bandit is in the engine.
#[derive(Clone, Default)]
pub struct Ledger(Arc<Mutex<Accounts>>);

#[derive(Default)]
struct Accounts {
    decisions: BTreeMap<u64, Account>,
    faults: Vec<String>,
}

struct Account {
    path: PathId,
    losses: u32,
    acked: bool,
    recalled: bool,
}

/// The state of a [`Ledger`].
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Audit {
    /// Decisions carried out.
    pub sent: usize,
    /// Decisions acknowledged, lost before or not.
    pub acked: usize,
    /// Decisions declared lost and not acknowledged since.
    pub lost: usize,
    /// Decisions declared lost more than once: a retransmission under the same serial was lost too.
    pub lost_again: usize,
    /// Decisions taken back from a path's queue.
    pub recalled: usize,
    /// Decisions without an outcome.
    pub pending: usize,
    /// Breaches: a serial used twice or out of sequence, an outcome without a decision, on another
    /// path, or after the acknowledgement or the recall.
    pub faults: Vec<String>,
}

impl Ledger {
    /// Enters what happened.
    pub(super) fn note(&self, event: &Event) {
        let mut accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        match event {
            Event::Sent(receipt, _) => accounts.open(receipt),
            Event::Acked(receipt) => accounts.settle(receipt, "acknowledged", |account| account.acked = true),
            Event::Lost(receipt) => accounts.settle(receipt, "lost", |account| account.losses += 1),
            Event::Recalled(receipt) => accounts.settle(receipt, "recalled", |account| account.recalled = true),
            _ => {}
        }
    }

    /// The state of the accounts.
    pub fn audit(&self) -> Audit {
        let accounts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let count = |is: fn(&Account) -> bool| accounts.decisions.values().filter(|account| is(account)).count();
        Audit {
            sent: accounts.decisions.len(),
            acked: count(|account| account.acked),
            lost: count(|account| account.losses > 0 && !account.acked),
            lost_again: count(|account| account.losses > 1),
            recalled: count(|account| account.recalled),
            pending: count(|account| account.losses == 0 && !account.acked && !account.recalled),
            faults: accounts.faults.clone(),
        }
    }
}

impl Accounts {
    fn open(&mut self, receipt: &Receipt) {
        let expected = self.decisions.last_key_value().map_or(0, |(serial, _)| serial + 1);
        if receipt.serial != expected {
            self.faults.push(format!("sent as number {}, expected {expected}", receipt.serial));
        }
        let account = Account { path: receipt.path, losses: 0, acked: false, recalled: false };
        self.decisions.insert(receipt.serial, account);
    }

    fn settle(&mut self, receipt: &Receipt, what: &str, enter: impl FnOnce(&mut Account)) {
        let serial = receipt.serial;
        match self.decisions.get_mut(&serial) {
            None => self.faults.push(format!("number {serial} {what} but never sent")),
            Some(account) if account.acked => {
                self.faults.push(format!("number {serial} {what} after it was acknowledged"))
            }
            Some(account) if account.recalled => {
                self.faults.push(format!("number {serial} {what} after it was recalled"));
            }
            Some(account) if account.path != receipt.path => {
                self.faults.push(format!("number {serial} sent on {:?}, {what} on {:?}", account.path, receipt.path));
            }
            Some(account) => enter(account),
        }
    }
}
