//! The two roles of a path. The published rules know two paths; of more, F and S are the pair.
//!
//! F is the path with the smallest srtt, full or not. S is the one with the smallest srtt among
//! the others that may send. Both are taken from the tier that new data use.

use weftway_path::{Context, Path};

use crate::choose;

/// F.
#[inline]
pub(crate) fn fast<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    choose::fastest(cx)
}

/// The paths that a rule of two looks at.
#[derive(Clone, Copy, Default)]
pub(crate) struct Roles<'a> {
    /// F.
    pub(crate) fast: Option<&'a Path>,
    /// S beside it.
    pub(crate) slow: Option<&'a Path>,
    /// The open path without a round-trip sample that has sent the fewest packets: nothing is known
    /// about it until it is used.
    pub(crate) unprobed: Option<&'a Path>,
}

impl<'a> Roles<'a> {
    /// Who has them now. Among equals the first.
    #[inline]
    pub(crate) fn of(cx: &Context<'a>) -> Self {
        let mut roles = Self::default();
        // The two open paths of smallest srtt: F may be one of them.
        let mut open: [Option<&Path>; 2] = [None; 2];
        for path in choose::standing(cx) {
            let beats = |other: Option<&Path>| other.is_none_or(|other| path.srtt < other.srtt);
            if beats(roles.fast) {
                roles.fast = Some(path);
            }
            if !path.is_open() {
                continue;
            }
            if beats(open[0]) {
                open = [Some(path), open[0]];
            } else if beats(open[1]) {
                open[1] = Some(path);
            }
            let is_newer = |other: &Path| path.sent.packets < other.sent.packets;
            if path.srtt.is_zero() && roles.unprobed.is_none_or(is_newer) {
                roles.unprobed = Some(path);
            }
        }
        let is_fast = |path: &Path| roles.fast.is_some_and(|fast| fast.id == path.id);
        roles.slow = if open[0].is_some_and(is_fast) { open[1] } else { open[0] };
        roles
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, path};
    use weftway_path::Span;

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
