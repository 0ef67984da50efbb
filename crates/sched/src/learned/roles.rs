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

/// S beside `fast`.
#[inline]
pub(crate) fn slow<'a>(cx: &Context<'a>, fast: &Path) -> Option<&'a Path> {
    let fast = fast.id;
    choose::least(choose::candidates(cx).filter(move |path| path.id != fast), |path| path.srtt)
}

/// The open path without a round-trip sample that has sent the fewest packets: nothing is known
/// about it until it is used.
#[inline]
pub(crate) fn unprobed<'a>(cx: &Context<'a>) -> Option<&'a Path> {
    choose::least(choose::candidates(cx).filter(|path| path.srtt.is_zero()), |path| path.sent.packets)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::{Bench, path};

    #[test]
    fn f_may_be_full_and_s_may_not() {
        let bench = Bench::new(vec![path(0, 30, 10, 0), path(1, 10, 10, 10), path(2, 20, 10, 10)]);
        let cx = bench.context();
        let f = fast(&cx).unwrap();
        assert_eq!(f.id.get(), 1);
        assert_eq!(slow(&cx, f).map(|s| s.id.get()), Some(0));
        assert!(unprobed(&cx).is_none());
    }
}
