//! Options of the rule.

use weftway_path::spec::{Param, Params, SpecError};

use super::insurance::{self, Insurance};
use crate::entry::Needs;

/// Name of the preset for hosts that only send.
pub(super) const EARLIEST_ARRIVAL: &str = "earliest-arrival";

pub(super) const PARAMS: &[Param] = &[
    flag("ahead", "whether a slower path sends ahead of the next data; without it, the next data"),
    flag("waiting", "whether it leaves to the faster paths what they bring sooner"),
    flag("copies", "whether anything is sent twice"),
    Param {
        name: "insure",
        default: "true",
        values: "true | thrifty | false",
        doc: "whether idle paths copy what may be lost: all of it at a load below a quarter, and else within a \
              twentieth of what is sent once; `thrifty`, for data that are paid for: always so, and four times as dear",
    },
];

const fn flag(name: &'static str, doc: &'static str) -> Param {
    Param { name, default: "true", values: "true | false", doc }
}

/// Values of [`PARAMS`].
#[derive(Clone, Copy)]
pub(super) struct Options {
    /// A slower path sends ahead of the next data.
    pub ahead: bool,
    /// Data that the faster paths deliver sooner are left to them.
    pub waiting: bool,
    /// Data may be sent twice.
    pub copies: bool,
    /// Limits within which idle paths copy what may be lost, if they do.
    pub insurance: Option<Insurance>,
}

impl Options {
    pub(super) const DEFAULT: Self =
        Self { ahead: true, waiting: true, copies: true, insurance: Some(Insurance::USUAL) };

    pub(super) fn read(params: &Params) -> Result<Self, SpecError> {
        Ok(Self {
            ahead: params.get("ahead")?,
            waiting: params.get("waiting")?,
            copies: params.get("copies")?,
            insurance: params.choice("insure", insurance::CHOICES)?,
        })
    }

    /// The options of a host that only sends: the preset [`EARLIEST_ARRIVAL`].
    pub(super) const fn arrival_only(self) -> Self {
        Self { ahead: false, waiting: false, copies: false, ..self }
    }

    /// Tells whether an option asks which data are sent and unsent.
    pub(super) const fn reads_flow(&self) -> bool {
        self.ahead || self.waiting || self.copies
    }

    /// Abilities that a host must offer. With lost data at hand fresh data go ahead of them, with and without `ahead`.
    pub(super) const fn needs(&self) -> Needs {
        let flow = self.reads_flow();
        Needs { flow, copies: self.copies, ahead: flow, wake: flow, events: true, ..Needs::NONE }
    }
}

impl Default for Options {
    fn default() -> Self {
        Self::DEFAULT
    }
}
