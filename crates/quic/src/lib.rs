//! Packet schedulers on real Multipath QUIC.
//!
//! [`gate`] puts a scheduler into an application that uses noq; [`driver`] owns the connection and runs every scheduler.

pub mod controller;
pub mod driver;
pub mod gate;
