//! The two roles of a path. The published rules know two paths; of more, F and S are the pair.
//!
//! F is the path with the smallest srtt, full or not. S is the one with the smallest srtt among
//! the others that may send. Both are taken from the tier that new data use.

use weftway_path::{Context, Path, PathId, PathSet};

use crate::shared::choose::{self, Tier};

/// [`Context::path`] with the search out of line, where it costs the usual case nothing.
#[inline]
pub(crate) fn path<'a>(cx: &Context<'a>, id: PathId) -> Option<&'a Path> {
    match cx.paths.get(id.index()) {
        Some(path) if path.id == id => Some(path),
        _ => search(cx, id),
    }
}

#[cold]
#[inline(never)]
fn search<'a>(cx: &Context<'a>, id: PathId) -> Option<&'a Path> {
    cx.path(id)
}

/// F.
#[inline]
pub(crate) fn fast<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    choose::fastest(cx)
}

/// S beside `fast`.
#[inline(always)]
pub(crate) fn slow<'a>(cx: &Context<'a>, fast: &Path) -> Option<&'a Path> {
    let others = cx.open.without(fast.id);
    if others.is_empty() {
        return None;
    }
    // A tier that is known is quicker to look for.
    match choose::tier(fast) {
        Some(Tier::Active) => least_of(cx, others, Tier::Active),
        Some(tier) => least_of_rare(cx, others, tier),
        None => None,
    }
}

/// The path of `set` and of `tier` with the smallest srtt.
#[inline(always)]
fn least_of<'a>(cx: &Context<'a>, set: PathSet, tier: Tier) -> Option<&'a Path> {
    let mut least: Option<&Path> = None;
    for path in set.iter().filter_map(|id| path(cx, id)) {
        if choose::tier(path) == Some(tier) && least.is_none_or(|least| path.srtt < least.srtt) {
            least = Some(path);
        }
    }
    least
}

#[cold]
#[inline(never)]
fn least_of_rare<'a>(cx: &Context<'a>, set: PathSet, tier: Tier) -> Option<&'a Path> {
    least_of(cx, set, tier)
}

/// F, and the open path without a round-trip sample that has sent the fewest packets: nothing is known about it until
/// it is used.
#[inline]
pub(crate) fn fast_and_unprobed<'a>(cx: &Context<'a>) -> (Option<&'a Path>, Option<&'a Path>) {
    // Nearly always an active path is there: then no other tier serves.
    let active = cx.paths.iter().filter(|path| choose::tier(path) == Some(Tier::Active));
    match choose::least(active, |path| path.srtt) {
        // Without a sample srtt is zero, so that F has none if any path has none.
        Some(fast) if !fast.srtt.is_zero() => (Some(fast), None),
        _ => with_unprobed(cx),
    }
}

#[cold]
fn with_unprobed<'a>(cx: &Context<'a>) -> (Option<&'a Path>, Option<&'a Path>) {
    let unprobed = choose::standing(cx).filter(|path| path.srtt.is_zero() && path.is_open());
    (choose::fastest(cx), choose::least(unprobed, |path| path.sent.packets))
}

/// The paths that a rule of two looks at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Roles<'a> {
    /// F.
    pub(crate) fast: Option<&'a Path>,
    /// S beside it.
    pub(crate) slow: Option<&'a Path>,
    /// The path that is to be tried first.
    pub(crate) unprobed: Option<&'a Path>,
}

impl<'a> Roles<'a> {
    /// Roles of the paths now. Among equals the first.
    pub(crate) fn of(cx: &Context<'a>) -> Self {
        let (fast, unprobed) = fast_and_unprobed(cx);
        Self { fast, slow: fast.and_then(|fast| slow(cx, fast)), unprobed }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use weftway_path::Span;
    use weftway_vectors::testing::{Bench, path};

    #[test]
    fn f_may_be_full_and_s_may_not() {
        let bench = Bench::new(vec![path(0, 30, 10, 0), path(1, 10, 10, 10), path(2, 20, 10, 10)]);
        let cx = bench.context();
        let roles = Roles::of(&cx);
        assert_eq!(fast(&cx).map(|f| f.id.get()), Some(1));
        assert_eq!(
            [roles.fast, roles.slow, roles.unprobed].map(|path| path.map(|path| path.id.get())),
            [Some(1), Some(0), None]
        );
    }

    #[test]
    fn an_open_f_is_not_s_and_equals_go_by_number() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 20, 10, 0), path(2, 30, 10, 0)]);
        let ids = |bench: &Bench| {
            let roles = Roles::of(&bench.context());
            [roles.fast, roles.slow, roles.unprobed].map(|path| path.map(|path| path.id.get()))
        };
        assert_eq!(ids(&bench), [Some(0), Some(1), None]);
        // Nothing is known of two: the one that has sent less.
        (bench.paths[1].srtt, bench.paths[2].srtt) = (Span::ZERO, Span::ZERO);
        (bench.paths[1].sent.packets, bench.paths[2].sent.packets) = (2, 1);
        assert_eq!(ids(&bench), [Some(1), Some(2), Some(2)]);
    }

    #[test]
    fn of_paths_of_which_nothing_is_known_the_first_is_tried() {
        let mut bench = Bench::new(vec![path(0, 20, 10, 0), path(1, 0, 10, 0), path(2, 0, 10, 0)]);
        (bench.paths[1].sent.packets, bench.paths[2].sent.packets) = (2, 2);
        assert_eq!(Roles::of(&bench.context()).unprobed.map(|path| path.id.get()), Some(1));
    }
}
