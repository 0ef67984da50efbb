//! Strict priority: the first path of a given order that can take the packet.
//!
//! Rule: the first path in `order` that is not blocked: full ones give way to the next of the order. With `full=wait`
//! the next one serves only while those before it are away.
//! Data sent before: off the paths to avoid first, in the same order.
//! Reference: Bonaventure, Piraux, De Coninck, et al.: draft-bonaventure-iccrg-schedulers-02, section 4.3.
//! State: none.
//! Departs from print: there each path has a priority; the default order, the paths' numbers, and `full=wait` are ours.
//! Backups rest while an active path lives; the draft has active paths alone.

use weftway_path::spec::{Param, Params, SpecError};
use weftway_path::{Context, Decision, Path, PathId};

use crate::Scheduler;
use crate::entry::{Entry, Preset, Provenance};
use crate::shared::choose;

pub(crate) static ENTRY: Entry = Entry {
    name: "strict-priority",
    aliases: &["strict", "priority-order"],
    version: 3,
    summary: "the first path of a given order that has room",
    reference: "Bonaventure, Piraux, De Coninck, et al.: draft-bonaventure-iccrg-schedulers",
    provenance: Provenance::Paper,
    goal: "use of preferred paths",
    application: "metered or unequal links",
    waits: true,
    presets: &[
        Preset {
            name: "atsss-active-standby",
            switches: "full=wait",
            doc: "3GPP's active-standby: all on the first path of the order, on the next one while it is away",
        },
        Preset {
            name: "atsss-priority-based",
            switches: "full=next",
            doc: "3GPP's priority-based: the first path of the order, and the next one for what it has no room for",
        },
    ],
    params: &[
        Param {
            name: "order",
            default: "number",
            values: "number, or path numbers with - between: 2-0-1",
            doc: "the order of the paths; those that are not listed follow by their numbers",
        },
        Param {
            name: "full",
            default: "next",
            values: "next | wait",
            doc: "while the first path is full: the next one goes, or new data wait for the first",
        },
    ],
    build,
    ..Entry::NEW
};

fn build(params: &Params) -> Result<Box<dyn Scheduler>, SpecError> {
    let mut rank = core::array::from_fn(|n| (PathId::MAX_PATHS + n) as u8);
    let text: String = params.get("order")?;
    if text != "number" {
        for (place, number) in text.split('-').enumerate() {
            let listed = number.parse::<usize>().ok().and_then(|n| rank.get_mut(n));
            match listed {
                Some(rank) if usize::from(*rank) >= PathId::MAX_PATHS => *rank = place as u8,
                _ => return Err(params.bad("order")),
            }
        }
    }
    Ok(Box::new(StrictPriority { rank, waits: params.choice("full", &[("next", false), ("wait", true)])? }))
}

#[derive(Clone)]
struct StrictPriority {
    /// The place of each path: 0 to 63 listed, 64 and more not.
    rank: [u8; PathId::MAX_PATHS],
    /// The next path does not go while the first is only full.
    waits: bool,
}

impl StrictPriority {
    fn pick<'a>(&self, cx: &Context<'a>) -> Option<&'a Path> {
        let rank = |path: &Path| self.rank[path.id.index()];
        if !self.waits {
            return choose::pick_least(cx, rank);
        }
        let first = choose::least(choose::standing(cx), rank)?.id;
        choose::pick_among(cx, |path| path.id == first, |_| true, choose::by(rank))
    }
}

impl Scheduler for StrictPriority {
    fn select(&mut self, cx: &Context<'_>) -> Decision {
        choose::send_or_wait(cx, self.pick(cx))
    }

    fn explain(&self, cx: &Context<'_>) -> Option<String> {
        let path = self.pick(cx)?;
        Some(format!("{:?} is the first that has room, rank {}", path.id, self.rank[path.id.index()]))
    }
}
