//! The simulator: a multipath transport connection over emulated links, as a value to step.
//!
//! [`Sim`] runs until a packet scheduler must decide, and stops there: a Rust scheduler, a Python
//! scheduler or a learning environment answers with [`Sim::apply`]. The same configuration and
//! seed give the same packets, byte for byte.
//!
//! # Where to begin
//!
//! `sim` is the clock: one loop over events and turns. `connection` is one connection, both ends. Which packet is next
//! and what a decision means is not decided here but in [`weftway_host::sending::Dispatch`]; `port` carries its
//! packets.
//!
//! | module | decides |
//! |---|---|
//! | `arrivals` | what follows from a packet, an acknowledgement, a timer |
//! | `lifecycle`, `path_manager` | when paths shake hands, come up, are given up and return |
//! | `sender` (`tcp`, `quic`) | what is lost, when a timer fires, when a path may send |
//! | `receiver` | what is acknowledged when, and the receive window |
//! | `writer` | how far the application's data have come to the sender |
//! | `meta`, `head_of_line` | what MPTCP repeats as a connection: stale subflows, opportunistic retransmission, penalties |
//! | `held` | what a window is that an oracle sets, for reports |
//! | `clairvoyant` | what a run would be with sight of its future, for reports |
//! | `ticks` | on which tick of the host's clock a timer fires |
//! | `net`, `calendar` | what happens next |
//! | `measure`, `tally`, `listeners`, `log` | nothing: they count and write down |
//!
//! Links themselves are [`weftway_link`]'s, windows and rates the controllers' ([`weftway_cc`]).

mod arrivals;
mod calendar;
mod capture;
pub mod clairvoyant;
mod connection;
mod cross;
mod ends;
mod episode;
mod head_of_line;
mod held;
mod lifecycle;
mod listeners;
pub mod log;
pub mod measure;
mod meta;
mod net;
mod path_manager;
mod port;
mod receiver;
mod rtt;
pub mod run;
mod sender;
mod sim;
mod tally;
mod ticks;
pub mod wire;
mod writer;

pub use connection::Connection;
pub use episode::Episode;
pub use listeners::{Listener, Note};
pub use receiver::Reassembly;
pub use sim::{Pause, Sim};
pub use tally::{PathTally, Tally};
pub use weftway_host::Host;
pub use weftway_scenario::Verdict;
