//! Links in real time, and Linux MPTCP over them.

mod clock;
mod commands;
mod ecn;
mod emulator;
mod error;
mod journal;
pub mod kernel;
mod lab;
mod lateness;
mod namespace;
pub mod netlink;
mod pcap;
mod pool;
mod priority;
mod probe;
mod record;
mod session;
mod tun;

pub use clock::Clock;
pub use commands::{Command, Exit, Running, spawn};
pub use emulator::{Emulator, LinkId, Next, Port, Report, Wire};
pub use error::EmuError;
pub use kernel::{
    Connection, Counters, Ends, Opener, Outcome, Sample, Subflow, Transfer, Work, available_controllers, mptcp_enabled,
    transfer,
};
pub use lab::{Lab, LabPath, LabPlan, Running as RunningLab, Way, client_address, server_address};
pub use lateness::{BINS_US, LATE, Lateness};
pub use namespace::Namespace;
pub use probe::{Absence, Part, Probe, probe};
pub use record::{Fate, Record, Recorder, Recording, Subject, Traffic, record};
pub use session::{Finished, Order, Session};
pub use tun::Tun;
