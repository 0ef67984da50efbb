//! Coupled BBR: BBRv1 on each path, cruising so slowly that all paths together take what the best one would.
//!
//! ```text
//! bw_i    this path's estimate        bw_max   the largest of the paths that are coupled
//! β_i   = bw_i · bw_max / Σ_j bw_j²                       so that Σ_i β_i · bw_i = bw_max
//! α_i   = (L · β_i − 2) / (L − 2)                         the cruising gain at which a cycle of L averages β_i
//!
//! cruising, with all coupled paths past their start:
//!     α_i > 0     pacing_gain = α_i
//!     α_i ≤ 0     cwnd = 4 packets
//! ```
//!
//! A cycle is one phase at 5/4, one at 3/4, and L − 2 that cruise; the two first sum to 2. L is drawn from 2 to 8 for
//! each cycle; at 2, or without another path, it is BBRv1.
//!
//! Reference: Han et al., arXiv 2002.06284; SoonyangZhang/DrainQueueCongestion `couple_bbr_sender.cc`, from which the
//! rule is read.
//! State: BBRv1's.
//! Switches: `scope` couples all paths, or only those that share a bottleneck; paths of which that is not known are
//! then coupled with one another. `cycle`: `whole` makes every cycle eight phases long.
//! Departures: gains are 256ths. The draining phase ends after a round trip at the latest, as in Linux; the source
//! drains for as long as it takes. While α ≤ 0 the pacing gain is 1; the source keeps that of the ACK before.

use weftway_path::spec::Param;
use weftway_path::{BitRate, PathId};

use crate::bbr::{UNIT, Version};
use crate::bbr1::{Bbr1, Cruise, Cycles, LINUX};
use crate::registry::Entry;
use crate::{Controller, Setup, Share, Siblings};

pub(crate) const ENTRY: Entry = Entry {
    name: "coupled-bbr",
    aliases: &["couple-bbr", "cbbr"],
    version: 2,
    summary: "BBRv1 whose paths together take what the best of them would take alone",
    reference: "Han et al., arXiv 2002.06284; SoonyangZhang/DrainQueueCongestion couple_bbr_sender.cc",
    coupled: true,
    paced: true,
    params: &[
        Param {
            name: "scope",
            default: "all",
            values: "all | bottleneck",
            doc: "which paths are coupled: all, or those that share a bottleneck (those of which that is not known, with one another)",
        },
        Param {
            name: "cycle",
            default: "varied",
            values: "varied | whole",
            doc: "how long a cycle of PROBE_BW is: two to eight phases, drawn each time, or always eight",
        },
    ],
    build: |params, setup| {
        let scope = params.choice("scope", &[("all", Scope::All), ("bottleneck", Scope::Alike)])?;
        let cycles = params.choice("cycle", &[("varied", Cycles::Varied), ("whole", Cycles::Whole)])?;
        Ok(coupled(scope, cycles, setup))
    },
};

/// Phases of a cycle that do not cruise; their gains sum to as many.
const OUTER_PHASES: u64 = 2;
/// No estimate counts for more: a Tbit/s, whose square still leaves room to multiply.
const MOST: BitRate = BitRate::from_bps(1 << 40);

/// Which paths are coupled.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Scope {
    /// All.
    All,
    /// Paths of which the same is known.
    Alike,
    /// Paths that are known to share a bottleneck.
    Known,
}

/// The paths that are coupled, as far as the rule needs them.
#[derive(Clone, Copy, Default)]
struct Group {
    count: u32,
    max: u64,
    /// Sum of the squared estimates.
    squares: u128,
    /// True if all of them are past their start.
    steady: bool,
}

/// With whom the controller of a path is coupled.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Coupling {
    path: PathId,
    scope: Scope,
}

/// BBRv1 coupled with the paths of `scope`.
pub(crate) fn coupled(scope: Scope, cycles: Cycles, setup: &Setup) -> Box<dyn Controller> {
    Box::new(Bbr1::new(LINUX, cycles, Coupling { path: setup.path, scope }, setup))
}

impl Coupling {
    fn group(&self, bbr: &Bbr1<Self>, siblings: Siblings<'_>) -> Group {
        let own = siblings.iter().find(|share| share.path == self.path).map(|share| share.bottleneck);
        // A path that its host does not list is alone.
        let Some(own) = own else { return Group::default() };
        let coupled = |share: &&Share| match self.scope {
            Scope::All => true,
            Scope::Alike => share.bottleneck == own,
            Scope::Known => own.is_some() && share.bottleneck == own,
        };
        let mut group = Group { steady: true, ..Group::default() };
        for share in siblings.iter().filter(|share| share.usable).filter(coupled) {
            // Our own entry may be as old as our last event.
            let own = share.path == self.path;
            let bw = if own { bbr.bandwidth() } else { share.bandwidth }.min(MOST).as_bps();
            group.count += 1;
            group.max = group.max.max(bw);
            group.squares += u128::from(bw) * u128::from(bw);
            group.steady &= own || share.steady;
        }
        group
    }
}

impl Cruise for Coupling {
    fn gain(&self, bbr: &Bbr1<Self>, siblings: Siblings<'_>) -> Option<i64> {
        let phases = bbr.cruising()?;
        if phases <= OUTER_PHASES {
            return None;
        }
        let group = self.group(bbr, siblings);
        if group.count < 2 || !group.steady || group.squares == 0 {
            return None;
        }
        let share = u128::from(bbr.bandwidth().min(MOST).as_bps()) * u128::from(group.max);
        let above = (share * u128::from(phases)) as i128 - (group.squares * u128::from(OUTER_PHASES)) as i128;
        let below = (group.squares * u128::from(phases - OUTER_PHASES)) as i128;
        // Rounded to the nearest.
        Some(((above * i128::from(UNIT) * 2 + below).div_euclid(below * 2)) as i64)
    }
}
