//! Free window, in packets or in bytes.

use weftway_path::Path;
use weftway_path::spec::Param;

/// In what free window counts.
pub(crate) const UNIT: Param = Param {
    name: "unit",
    default: "packets",
    values: "packets | bytes",
    doc: "in what free window counts: whole packets as TCP counts its window, or bytes",
};

/// Free window in packets or bytes. An open path takes one at least.
#[inline]
pub(crate) fn space(path: &Path, bytes: bool) -> u64 {
    let space = path.space();
    if bytes { space.get().max(1) } else { space.packets(path.mss).max(1) }
}
