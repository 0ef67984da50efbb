//! Which terms of the rule count: each is a parameter, so that what it is worth can be measured.

use weftway_path::spec::{Param, Params, SpecError};

use super::insurance::{self, Insurance};
use crate::entry::Needs;

/// The preset for hosts that only send.
pub(super) const EARLIEST_ARRIVAL: &str = "earliest-arrival";

const INSURE: Param = Param {
    name: "insure",
    default: "true",
    values: "true | thrifty | false",
    doc: "whether idle paths copy what may be lost; `thrifty`, for data that are paid for: four times as dear, and within \
          an eighth of what is sent once",
};

/// Makes the parameters, the struct that holds them, and its reading.
macro_rules! terms {
    ($($name:ident: $doc:literal,)*) => {
        /// The parameters.
        pub(super) const PARAMS: &[Param] =
            &[$(Param { name: stringify!($name), default: "true", values: "true | false", doc: $doc },)* INSURE];

        /// Which terms count.
        #[derive(Clone, Copy, Default)]
        pub(super) struct Terms {
            $(#[doc = $doc] pub $name: bool,)*
            /// How freely idle paths copy what may be lost, if they do.
            pub insure: Option<Insurance>,
        }

        impl Terms {
            /// All of them.
            pub(super) const ALL: Self = Self { $($name: true,)* insure: Some(Insurance::USUAL) };

            pub(super) fn read(params: &Params) -> Result<Self, SpecError> {
                let insure = params.choice(INSURE.name, insurance::CHOICES)?;
                Ok(Self { $($name: params.get(stringify!($name))?,)* insure })
            }
        }
    };
}

terms! {
    ahead: "whether a slower path sends ahead of the next data; without it, the next data",
    waiting: "whether it leaves to the faster paths what they bring sooner",
    edge: "whether it sends nothing that would shut the peer's window on the faster paths",
    announced: "whether it sends nothing beyond the edge that the peer has announced, where the transport would",
    again: "whether lost data go on a slower path if the faster ones are full and bring less than is lost",
    copies: "whether anything is sent twice",
    urgent: "whether copies of what blocks the message at hand go before fresh data",
    overdue: "whether what is overdue is copied at even odds that it is lost",
    buffer: "whether what arrived on a path that fell silent is copied where it fills the send buffer, for want of an acknowledgement",
    revise: "whether packets in flight are expected anew, from what is in flight before them",
    probe: "whether a copy asks a path that is not used, and had a queue when it was last heard, what a round trip takes now",
    backlog: "whether the round trip counts what the path holds; without it, srtt",
    window: "whether a path is taken to bring no more than its window in a least round trip",
    queue: "whether a path with a standing queue is taken to bring what was measured, and no more",
    busy: "whether a path is taken to bring no more than it did while a queue stood there",
    loss: "whether losses count in the expected arrival",
    present: "whether the arrival on a path with a queue counts what the last 100 ms of busy time brought, and what is overdue now",
    stall: "whether silence counts in it",
    clock: "whether full windows open when their acknowledgements should come; without it, evenly",
    late: "whether an acknowledgement that is late by more than an eighth of a round trip is not counted on",
    odds: "whether late packets count as lost where a copy is weighed, and 2 % at least; without it, losses alone",
    batch: "whether, without a view of the data, packets go in a row on a path that is hardly later than the first",
}

impl Terms {
    /// Whether any of them asks what is sent and unsent.
    pub(super) const fn reads_flow(&self) -> bool {
        self.ahead || self.waiting || self.copies
    }

    /// What a host must offer. With lost data at hand fresh data go ahead of them, with and without `ahead`.
    pub(super) const fn needs(&self) -> Needs {
        let flow = self.reads_flow();
        Needs { flow, copies: self.copies, ahead: flow, wake: flow, events: true, ..Needs::NONE }
    }
}
