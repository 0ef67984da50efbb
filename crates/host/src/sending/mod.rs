//! State and duties of a sender of data, whatever carries its packets. Read `dispatch` first: it is where a scheduler's
//! decisions become packets. Around it: the data and which of them are acknowledged (`outbox`), the question to the
//! scheduler, the paths as schedulers see them (`views`), the packets in flight on each path (`flight`), delivery
//! rates, pacing, silent paths (`silence`), which paths share a bottleneck, and which paths a policy offers (`policy`).

mod bottleneck;
mod dispatch;
mod flight;
mod outbox;
mod pacer;
mod policy;
mod question;
mod ranges;
mod rate;
mod silence;
mod views;

pub use bottleneck::Groups;
pub use dispatch::{Carrier, Data, Dispatch, PROBE_AFTER, assign, prepare, write_up};
pub use flight::{Assigned, Flight, SentPacket};
pub use outbox::{Chunk, Outbox};
pub use pacer::{Pace, PacedBy, Pacer};
pub use policy::{Policy, Terms};
pub use question::Question;
pub use ranges::RangeSet;
pub use rate::{RateSampler, Sample};
pub use silence::{Offered, may_offer, silent_at};
pub use views::Views;
