//! Free window, in packets or in bytes.

use weftway_path::Path;
use weftway_path::spec::{Param, Params, SpecError};

/// Switch for the unit in which free window counts.
pub(crate) const UNIT: Param = Param {
    name: "unit",
    default: "packets",
    values: "packets | bytes",
    doc: "in what free window counts: whole packets as TCP counts its window, or bytes",
};

/// Unit in which free window counts.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Unit {
    Packets,
    Bytes,
}

impl Unit {
    /// Reads the switch [`UNIT`].
    pub(crate) fn of(params: &Params) -> Result<Self, SpecError> {
        params.choice(UNIT.name, &[("packets", Self::Packets), ("bytes", Self::Bytes)])
    }

    /// Free window of `path`. An open path takes one at least.
    #[inline]
    pub(crate) fn space(self, path: &Path) -> u64 {
        let space = path.space();
        match self {
            Self::Packets => space.packets(path.mss).max(1),
            Self::Bytes => space.get().max(1),
        }
    }

    /// Name of the unit, as the switch has it.
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Packets => "packets",
            Self::Bytes => "bytes",
        }
    }
}
