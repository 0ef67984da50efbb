//! The driver of `weftway-quic` over UDP sockets and the wall clock, and who the peer is (certificate, token). For
//! Unix; elsewhere the crate is empty.
//!
//! [`Net`] owns one socket for each local path and noq's endpoint. It takes datagrams in, sends what connections have
//! in their outgoing queues, and waits. It decides nothing: paths, schedulers and controllers are the driver's.
//!
//! # Addresses
//!
//! noq tells paths apart by their addresses. Two modems often give out the same private address, so an end that
//! connects names each of its sockets to noq by an address of its own ([`net`]); the kernel still chooses the one on
//! the wire. An end that listens names paths by the address at which a datagram arrived.

#![cfg(unix)]

pub mod batch;
pub mod moderation;
pub mod net;
pub mod settings;
pub mod socket;
pub mod tls;
pub mod token;

pub use batch::Batch;
pub use net::{Arrival, Net};
pub use socket::Local;
