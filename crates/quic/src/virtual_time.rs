//! Scenarios on real QUIC packets, in virtual time.
//!
//! Two endpoints of noq exchange datagrams over the links of a scenario ([`weftway_link::Link`], the same that the
//! simulator uses, with the same seeds). Nothing reads a clock: time is what the next event says. Random numbers come
//! from the seed, and so do connection IDs. A run is therefore the same each time, on every machine. Another stack may
//! be the end that receives the data ([`Peer`]).

mod measure;
mod nat;
mod obstacle;
mod pair;
mod setup;
mod world;

pub use measure::{Job, row};
pub use obstacle::obstacle;
pub use pair::Pair;
pub use setup::{Crypto, HEADERS};
pub use world::network::{Carried, Datagram, Network, WireTally};
pub use world::peer::Peer;
pub use world::{Finished, RunError, World};
