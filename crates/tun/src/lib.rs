//! TUN devices: a network device on one side, a descriptor that gives and takes IP packets on the other.
//!
//! A device lands in the namespace of the thread that opens it and goes away with its descriptor.

#![cfg(target_os = "linux")]

mod device;
mod error;

pub use device::Tun;
pub use error::{TunError, is_absent};
