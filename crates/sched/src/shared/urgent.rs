//! Urgent packets, and the paths that the others leave to them.

use weftway_path::spec::Param;
use weftway_path::{Context, Path};

use crate::shared::choose;

/// Which classes count as urgent.
pub(crate) const URGENT: Param = Param {
    name: "urgent",
    default: "0",
    values: "class, 0 to 255",
    doc: "the least urgent class that is still urgent",
};

/// Returns true if the packet at hand is of class `urgent` or a more urgent one.
#[inline]
pub(crate) fn is_urgent(cx: &Context<'_>, urgent: u8) -> bool {
    cx.flow.map_or(0, |flow| flow.class) <= urgent
}

/// The path of smallest srtt other than `best`; `best` if no other may send.
#[inline]
pub(crate) fn away_from<'a>(cx: &Context<'a>, best: Option<&'a Path>) -> Option<&'a Path> {
    let others = choose::candidates(cx).filter(|path| best.is_none_or(|best| path.id != best.id));
    choose::least(others, |path| path.srtt).or_else(|| best.filter(|path| path.is_open()))
}
