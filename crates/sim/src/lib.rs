//! The simulator: a multipath transport connection over emulated links, as a value to step.
//!
//! [`Sim`] runs until a packet scheduler must decide, and stops there: a Rust scheduler, a Python
//! scheduler or a learning environment answers with [`Sim::apply`]. The same configuration and
//! seed give the same packets, byte for byte.

mod arrivals;
mod calendar;
mod capture;
mod connection;
mod cross;
mod ends;
mod episode;
mod head_of_line;
mod lifecycle;
pub mod log;
pub mod measure;
mod meta;
mod net;
pub mod oracle;
mod path_manager;
mod port;
mod receiver;
mod rtt;
pub mod run;
mod sender;
mod sim;
mod tally;
mod tap;
mod ticks;
mod wire;
mod writer;

pub use connection::Connection;
pub use episode::Episode;
pub use receiver::Reassembly;
pub use sim::{Pause, Sim};
pub use tally::{PathTally, Tally};
pub use tap::{Listener, Note};
pub use weftway_host::Host;
pub use weftway_scenario::Verdict;
