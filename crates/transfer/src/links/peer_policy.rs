//! The policy of the other end's links, as it tells it: this end sends by it.

use weftway_host::sending::{Policy, Terms};
use weftway_path::{Bytes, PathId, Thresholds, Tier};
use weftway_quic::driver::{Sender, Source};

use crate::setting::{PACKET_OVERHEAD, RECORD};
use crate::wire::PathTerms;

/// It is told what was sent and is not under way any more when that has grown by so much at least.
const LEAST_REPORT: u64 = 2 << 10;

/// Terms of a path of which nothing was said, and not who pays for it: nothing is sent there.
const UNKNOWN: Terms = Terms { tier: Tier::Never, left: None };
/// A path that has not been opened may be any: a backup waits a little for those that come up.
const ABSENT: Terms = Terms { tier: Tier::Primary, left: None };

/// Terms that the other end has said.
pub(crate) struct PeerPolicy {
    /// True if it has a policy.
    is_there: bool,
    said: Vec<PathTerms>,
    /// True if the sender is to keep to it as from the beginning.
    begins: bool,
    /// Terms that this end keeps to on each of its paths.
    kept: Vec<Option<KeptTerms>>,
}

/// A path of the other end's policy.
#[derive(Clone, Copy)]
struct KeptTerms {
    number: u32,
    credit: Option<u64>,
    reported: u64,
}

impl PeerPolicy {
    /// It has a policy, or none that is known of.
    pub fn new(is_there: bool) -> Self {
        Self { is_there, said: Vec::new(), begins: true, kept: Vec::new() }
    }

    /// It says this from now on.
    pub fn set(&mut self, said: Vec<PathTerms>) {
        // While nothing was said, every tier was needed and none was open.
        self.begins |= self.said.is_empty();
        (self.is_there, self.said) = (true, said);
    }

    /// The sender keeps to it. What it has sent, where the other end should know: number of the path, bytes. What is
    /// under way is not told yet: the other end has not counted it, and would give its credit away a second time.
    pub fn attend<S: Source>(&mut self, sender: &mut Sender<S>) -> Vec<(u32, u64)> {
        if !self.is_there {
            return Vec::new();
        }
        let paths: Vec<PathId> = sender.connection.paths().collect();
        if std::mem::take(&mut self.begins) {
            self.kept = vec![None; paths.len()];
            let (mss, overhead) = (Bytes::new(RECORD), Bytes::new(PACKET_OVERHEAD));
            let unknown = vec![UNKNOWN; paths.len()];
            sender.set_policy(Some(Policy::new(&unknown, Thresholds::default(), mss, overhead)));
        }
        paths.into_iter().filter_map(|id| self.keep(sender, id)).collect()
    }

    fn keep<S: Source>(&mut self, sender: &mut Sender<S>, id: PathId) -> Option<(u32, u64)> {
        let (number, under_way) = (sender.connection.number(id), on_the_wire(sender.view(id).unacked()));
        let said = self.said.iter().find(|terms| Some(terms.number) == number).copied();
        let kept = &mut self.kept[id.index()];
        let policy = sender.policy_mut()?;
        let Some((number, said)) = number.zip(said) else {
            policy.set_terms(id, if number.is_some() { UNKNOWN } else { ABSENT });
            *kept = None;
            return None;
        };
        let known = kept.filter(|kept| kept.number == number && kept.credit.is_some() == said.credit.is_some());
        let before = known.and_then(|kept| kept.credit).unwrap_or(0);
        let left = policy.left(id).filter(|_| known.is_some()).unwrap_or(Bytes::ZERO);
        let left = said.credit.map(|credit| left + Bytes::new(credit.saturating_sub(before)));
        policy.set_terms(id, Terms { tier: said.tier.into(), left });
        let mut reported = known.map_or(0, |kept| kept.reported);
        let spent = said.credit.zip(left).map_or(0, |(credit, left)| spent(credit, left.get(), under_way));
        let given = said.credit.unwrap_or(0);
        let is_due = spent - reported.min(spent) >= LEAST_REPORT.max(given.saturating_sub(reported) / 4);
        if is_due {
            reported = spent;
        }
        *kept = Some(KeptTerms { number, credit: said.credit, reported });
        is_due.then_some((number, spent))
    }
}

/// Bytes of `credit` that were sent and are not under way any more. The other end may say any number.
fn spent(credit: u64, left: u64, under_way: u64) -> u64 {
    credit.saturating_sub(left.saturating_add(under_way))
}

/// IP bytes of so many bytes in records, with their packets' heads.
fn on_the_wire(bytes: Bytes) -> u64 {
    bytes.get() + bytes.get().div_ceil(RECORD) * PACKET_OVERHEAD
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_credit_may_be_any_number() {
        assert_eq!(spent(1000, 300, 200), 500);
        assert_eq!((spent(u64::MAX, u64::MAX - 500, 200), spent(u64::MAX, u64::MAX - 100, 200)), (300, 0));
    }
}
