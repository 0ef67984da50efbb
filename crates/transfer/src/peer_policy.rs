//! The policy of the other end's links, as it tells it: this end sends by it.

use weftway_host::sending::{Policy, Terms};
use weftway_path::{Bytes, PathId, Thresholds, Tier};
use weftway_quic::driver::record::OVERHEAD;
use weftway_quic::driver::{Sender, Source};

use super::setting::RECORD;
use super::wire::PathTerms;

/// What IPv6 and UDP take, and QUIC and the record beside its data.
const PACKET_OVERHEAD: u64 = 48 + OVERHEAD;
/// It is told what was sent when that has grown by so much at least.
const LEAST_REPORT: u64 = 2 << 10;

/// What the other end has said.
#[derive(Default)]
pub(super) struct PeerPolicy {
    said: Vec<PathTerms>,
    /// What this end keeps to on each of its paths.
    kept: Vec<Option<Kept>>,
}

/// A path of the other end's policy.
#[derive(Clone, Copy)]
struct Kept {
    number: u32,
    credit: Option<u64>,
    reported: u64,
}

impl PeerPolicy {
    /// It says this from now on.
    pub fn set(&mut self, said: Vec<PathTerms>) {
        self.said = said;
    }

    /// The sender keeps to it. What it has sent, where the other end should know: number of the path, bytes.
    pub fn attend<S: Source>(&mut self, sender: &mut Sender<S>) -> Vec<(u32, u64)> {
        if self.said.is_empty() && self.kept.is_empty() {
            return Vec::new();
        }
        let paths: Vec<PathId> = sender.connection.paths().collect();
        if self.kept.is_empty() {
            self.kept = vec![None; paths.len()];
            let (mss, overhead) = (Bytes::new(RECORD), Bytes::new(PACKET_OVERHEAD));
            // Of a path that was not told yet nothing is known but that others come first.
            let unknown = Terms { tier: Tier::Backup, left: None };
            sender.set_policy(Some(Policy::new(&vec![unknown; paths.len()], Thresholds::default(), mss, overhead)));
        }
        paths.into_iter().filter_map(|id| self.keep(sender, id)).collect()
    }

    fn keep<S: Source>(&mut self, sender: &mut Sender<S>, id: PathId) -> Option<(u32, u64)> {
        let number = sender.connection.number(id)?;
        let said = self.said.iter().find(|terms| terms.number == number).copied();
        let kept = &mut self.kept[id.index()];
        let policy = sender.policy_mut()?;
        let Some(said) = said else {
            policy.set_terms(id, Terms { tier: Tier::Backup, left: None });
            *kept = None;
            return None;
        };
        let known = kept.filter(|kept| kept.number == number && kept.credit.is_some() == said.credit.is_some());
        let before = known.and_then(|kept| kept.credit).unwrap_or(0);
        let left = policy.left(id).filter(|_| known.is_some()).unwrap_or(Bytes::ZERO);
        let left = said.credit.map(|credit| left + Bytes::new(credit.saturating_sub(before)));
        policy.set_terms(id, Terms { tier: said.tier.into(), left });
        let mut reported = known.map_or(0, |kept| kept.reported);
        let spent = said.credit.zip(left).map_or(0, |(credit, left)| credit.saturating_sub(left.get()));
        let given = said.credit.unwrap_or(0);
        let is_due = spent - reported.min(spent) >= LEAST_REPORT.max(given.saturating_sub(reported) / 4);
        if is_due {
            reported = spent;
        }
        *kept = Some(Kept { number, credit: said.credit, reported });
        is_due.then_some((number, spent))
    }
}
