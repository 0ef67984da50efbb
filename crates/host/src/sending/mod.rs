//! What a sender of data keeps, whatever carries its packets: the data and which of them are acknowledged, the packets
//! in flight on each path, delivery rates, pacing, the paths as schedulers see them and which of them share a bottleneck.

mod bottleneck;
mod flight;
mod outbox;
mod pacer;
mod ranges;
mod rate;
mod views;

pub use bottleneck::Groups;
pub use flight::{Assigned, Flight, SentPacket};
pub use outbox::{Chunk, Outbox};
pub use pacer::{Pacer, implied_rate};
pub use ranges::RangeSet;
pub use rate::{RateSampler, Sample};
pub use views::Views;
