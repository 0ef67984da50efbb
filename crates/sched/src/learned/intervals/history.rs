//! Observations of each slot in the last intervals, for networks with a memory.

use weftway_path::spec::Param;
use weftway_path::{Context, PathId};

use crate::learned::intervals::slots;
use crate::learned::task::Input;
use crate::shared::choose;

/// Number of the last intervals that are seen.
pub(crate) const HISTORY: Param = Param {
    name: "history",
    default: "8",
    values: "intervals, 1 to 64",
    doc: "how many of the last intervals are seen",
};

/// A table with a row per interval, the oldest first; a row has so many numbers per slot.
#[derive(Clone)]
pub(crate) struct History<const FEATURES: usize> {
    table: Vec<f32>,
    /// Which path has which slot.
    at: Vec<Option<PathId>>,
    before: Vec<Option<PathId>>,
    standing: Vec<PathId>,
}

impl<const FEATURES: usize> History<FEATURES> {
    /// An empty one.
    pub(crate) fn new(intervals: usize, slots: usize) -> Self {
        let standing = Vec::with_capacity(PathId::MAX_PATHS);
        let (at, before) = (vec![None; slots], vec![None; slots]);
        Self { table: vec![0.0; intervals * slots * FEATURES], at, before, standing }
    }

    /// Inputs: `feature.slot@age`, the age in intervals.
    pub(crate) fn inputs(&self, names: [&str; FEATURES]) -> Vec<Input> {
        let intervals = self.table.len() / self.width();
        let row = |age: usize| {
            let of = move |slot| names.map(|name| Input::normalised(format!("{name}.{slot}@{age}")));
            (0..self.at.len()).flat_map(of)
        };
        (0..intervals).rev().flat_map(row).collect()
    }

    fn width(&self) -> usize {
        self.at.len() * FEATURES
    }

    /// The whole table, row after row.
    pub(crate) fn table(&self) -> &[f32] {
        &self.table
    }

    /// Which path has which slot.
    pub(crate) fn slots(&self) -> &[Option<PathId>] {
        &self.at
    }

    /// Returns true if any slot has a path.
    pub(crate) fn has_paths(&self) -> bool {
        self.at.iter().any(Option::is_some)
    }

    /// Gives the paths their slots anew; of more than there are slots, those of smallest srtt have
    /// one. A slot whose path is another forgets.
    pub(crate) fn assign(&mut self, cx: &Context<'_>) {
        self.standing.clear();
        self.standing.extend(choose::standing(cx).map(|path| path.id));
        if self.standing.len() > self.at.len() {
            self.standing.sort_by_key(|id| cx.path(*id).map(|path| path.srtt));
            self.standing.truncate(self.at.len());
        }
        self.before.copy_from_slice(&self.at);
        slots::assign(&mut self.at, &self.standing);
        let width = self.width();
        for slot in (0..self.at.len()).filter(|slot| self.at[*slot] != self.before[*slot]) {
            let rows = self.table.chunks_exact_mut(width);
            rows.for_each(|row| row[slot * FEATURES..][..FEATURES].fill(0.0));
        }
    }

    /// Adds a row of what `see` gives for each path that has a slot, and drops the oldest.
    pub(crate) fn push(&mut self, mut see: impl FnMut(PathId) -> [f64; FEATURES]) {
        let width = self.width();
        self.table.copy_within(width.., 0);
        let newest = self.table.len() - width;
        for (path, cells) in self.at.iter().zip(self.table[newest..].chunks_exact_mut(FEATURES)) {
            let observation = path.map_or([0.0; FEATURES], &mut see);
            cells.copy_from_slice(&observation.map(|value| value as f32));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn rows_move_up_and_a_slot_forgets_its_former_path() {
        let mut history = History::<1>::new(2, 2);
        let names: Vec<_> = history.inputs(["x"]).into_iter().map(|input| input.name).collect();
        assert_eq!(names, ["x.0@1", "x.1@1", "x.0@0", "x.1@0"]);
        let bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 40, 10, 0)]);
        history.assign(&bench.context());
        history.push(|id| [f64::from(id.get()) + 1.0]);
        history.push(|id| [f64::from(id.get()) + 3.0]);
        assert_eq!(history.table(), [1.0, 2.0, 3.0, 4.0]);
        let bench = Bench::new(vec![path(0, 20, 10, 0)]);
        history.assign(&bench.context());
        assert_eq!(history.table(), [1.0, 0.0, 3.0, 0.0]);
    }

    #[test]
    fn of_too_many_paths_the_fastest_have_slots() {
        let mut history = History::<1>::new(1, 2);
        let bench = Bench::new(vec![path(0, 90, 10, 0), path(1, 40, 10, 0), path(2, 20, 10, 0)]);
        history.assign(&bench.context());
        // Number 2 has no slot of its own, so both go by order.
        assert_eq!(history.slots(), [Some(PathId::new(1)), Some(PathId::new(2))]);
    }

    #[test]
    fn a_slot_forgets_all_that_was_seen_of_its_former_path_and_nothing_else() {
        let mut history = History::<2>::new(2, 3);
        assert!(!history.has_paths());
        let bench = Bench::new((0..3).map(|n| path(n, 20, 10, 0)).collect());
        history.assign(&bench.context());
        assert!(history.has_paths());
        (0..2).for_each(|_| history.push(|id| [1.0, 2.0].map(|value| value + 10.0 * f64::from(id.get()))));
        assert_eq!(history.table()[..6], [1.0, 2.0, 11.0, 12.0, 21.0, 22.0]);
        let bench = Bench::new(vec![path(0, 20, 10, 0), path(2, 20, 10, 0)]);
        history.assign(&bench.context());
        assert_eq!(history.table(), [[1.0, 2.0, 0.0, 0.0, 21.0, 22.0]; 2].concat());
    }
}
