//! Packet schedulers on real Multipath QUIC.
//!
//! [`gate`] puts a scheduler into an application that uses noq; [`driver`] owns the connection and runs every scheduler.
//! [`virtual_time`] runs a scenario with it, over simulated links; `udp` has sockets and a clock for it.

pub mod controller;
pub mod driver;
pub mod gate;
pub mod null_crypto;
#[cfg(unix)]
pub mod udp;
pub mod virtual_time;
