//! The switches of wVegas.

use weftway_path::spec::{Param, Params, SpecError};

pub(super) const PARAMS: &[Param] = &[
    Param {
        name: "initial_alpha",
        default: "2",
        values: "packets, 1 to 1000",
        doc: "what a path keeps queued until its share is known",
    },
    Param {
        name: "total_alpha",
        default: "10",
        values: "packets, 1 to 1000",
        doc: "what all paths together keep queued",
    },
    Param { name: "gamma", default: "1", values: "packets, 0 to 1000", doc: "the queue that ends slow start" },
    Param {
        name: "queued",
        default: "whole",
        values: "whole | exact",
        doc: "whether the queue and its target are cut to whole packets, as in the kernel, so that the window rests",
    },
    Param {
        name: "drain",
        default: "full",
        values: "full | kernel",
        doc: "which queues are drained once they have doubled: those that have reached their target, or any",
    },
];

/// The switches; amounts in packets.
#[derive(Clone, Copy, Debug)]
pub(super) struct Switches {
    pub(super) initial_alpha: u64,
    pub(super) total_alpha: u64,
    pub(super) gamma: u64,
    pub(super) is_whole: bool,
    pub(super) drains_any: bool,
}

impl Switches {
    pub(super) fn new(params: &Params) -> Result<Self, SpecError> {
        Ok(Self {
            initial_alpha: params.within("initial_alpha", 1..=1000)?,
            total_alpha: params.within("total_alpha", 1..=1000)?,
            gamma: params.within("gamma", 0..=1000)?,
            is_whole: params.choice("queued", &[("whole", true), ("exact", false)])?,
            drains_any: params.choice("drain", &[("full", false), ("kernel", true)])?,
        })
    }
}
