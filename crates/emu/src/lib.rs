//! Links in real time, and Linux TCP and MPTCP over them.
//!
//! The simulator steps a [`Link`](weftway_link::Link) in virtual time. Here a thread steps the same value by the clock
//! on the wall, between devices of which each is one end of a path: what is sent into the one comes out of the other
//! when the link says so, or not at all. From the ground up:
//!
//! - [`Namespace`] and [`Tun`]: the places and devices. Both are descriptors and have no name, so nothing is left of
//!   them when the process ends, however it ends. [`probe`] says whether they can be had, and which right is missing.
//! - [`Emulator`]: the thread. It also says how late it was: see [`Lateness`].
//! - [`Lab`]: a client, a server and the paths between them, with addresses and routes.
//! - [`record`]: the packet log and captures.
//! - [`spawn`] and [`Session`]: ordinary commands at both ends, of which nothing survives either.
//! - [`kernel`]: a transfer by the running kernel, and what the kernel says about it; [`netlink`], with which paths are
//!   set up and connections asked.
//! - [`steer`]: a scheduler that sets which subflows of the kernel are backups.
//!
//! # Where to begin
//!
//! `emulator` is the loop that carries packets, and `lab` the place where it runs. [`kernel`] begins at
//! [`kernel::KernelRun`], [`steer`] at [`steer::Steering`]. What is decided where:
//!
//! - what happens to a packet: its [`Link`](weftway_link::Link), not this crate, which only keeps the time;
//! - what is sent when: `kernel::workload`, from a scenario; which segment leaves on which path: the kernel's own
//!   scheduler;
//! - whether a run is fit for use: [`Lateness`], by how late the thread was; a run that was late is repeated.
//!
//! A packet takes 10 ms and the time of its bits:
//!
//! ```no_run
//! use std::net::UdpSocket;
//!
//! use weftway_emu::{Lab, LabPath, LabPlan, Way, client_address, server_address};
//! use weftway_link::LinkConfig;
//! use weftway_path::{BitRate, Span};
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let rate = BitRate::from_mbps(10).into();
//! let link = LinkConfig { rate, delay: Span::from_millis(10), ..LinkConfig::default() };
//! let way = |seed: u64| Way { link: link.clone(), seeds: seed.into(), via: None };
//! let wifi = LabPath { name: "wifi".to_owned(), up: way(1), down: way(2), presence: Vec::new() };
//! let lab = Lab::build(&LabPlan { paths: vec![wifi], shared: Vec::new() })?.start(None)?;
//!
//! // A socket belongs to the namespace in which it is made, and can be used from anywhere.
//! let bound = |address| move || Ok(UdpSocket::bind((address, 9000)));
//! let client = lab.client.within(bound(client_address(0)))??;
//! let server = lab.server.within(bound(server_address(0)))??;
//! client.send_to(b"hello", (server_address(0), 9000))?;
//! let (bytes, from) = server.recv_from(&mut [0; 100])?;
//! assert_eq!((bytes, from.ip()), (5, client_address(0).into()));
//!
//! let (_, report) = lab.emulator.finish()?;
//! assert_eq!(report.links[0].delivered, 1);
//! println!("on the mean {} late, fit for use: {}", report.lateness.mean(), report.lateness.is_fit());
//! # Ok(())
//! # }
//! ```

mod clock;
mod commands;
mod ecn;
mod emulator;
mod entry;
mod error;
mod journal;
pub mod kernel;
mod lab;
mod lateness;
mod namespace;
pub mod netlink;
mod pcap;
mod plan;
mod pool;
mod priority;
mod probe;
mod record;
mod session;
pub mod steer;
#[cfg(test)]
mod testing;
mod watch;

pub use clock::Clock;
pub use commands::{Command, Exit, Running, spawn};
pub use emulator::{Emulator, EmulatorReport, LinkId, Next, Port, ReadyEmulator, Wire};
pub use entry::{Fate, Record, Subject, Traffic};
pub use error::EmuError;
pub use kernel::{
    Connection, Counters, Ends, Opener, Outcome, ReadyTransfer, Sample, Subflow, Transfer, Work, available_controllers,
    mptcp_enabled, transfer,
};
pub use lab::{Lab, LabPath, LabPlan, Ready as ReadyLab, Running as RunningLab, Way, client_address, server_address};
pub use lateness::{BINS_US, LATE, Lateness};
pub use namespace::Namespace;
pub use probe::{Absence, Part, Probe, probe};
pub use record::{Recorder, Recording, record};
pub use session::{Finished, Order, Session};
pub use watch::{LinkState, Moment};
pub use weftway_tun::Tun;
