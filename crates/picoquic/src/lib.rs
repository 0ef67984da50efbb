//! picoquic, a QUIC stack of another author, over the links of a scenario, in virtual time.
//!
//! picoquic is no part of Weftway: its functions are looked up in a shared library when a run is wanted. They do no
//! input or output and are told the time. Both ends of a connection are picoquic's ([`Job`]), or the one that receives
//! what our driver sends ([`Receiver`]); the links are those of [`weftway_quic::virtual_time`], with the same seeds, and
//! the application is the scenario's.
//!
//! Random numbers of picoquic come from the seed of the run. Keys of the handshake do not, but no size or time follows
//! from them. So a run is the same each time. picoquic keeps some of its state for the whole process: runs in one
//! process wait for each other.

mod end;
mod library;
mod measure;
mod peer;
mod random;
#[cfg(feature = "tls")]
mod tls;
mod wake;
mod world;

pub use library::{LoadError, load};
pub use measure::{Job, obstacle};
pub use peer::{Receiver, receiver_obstacle};
pub use world::RunError;
