//! Packet schedulers on real Multipath QUIC.
//!
//! # Where to begin
//!
//! [`driver`] first: its module documentation says how data travel, how a decision is carried out, and when a path is
//! given up. Then [`driver::sender`], the sending half, which implements [`Transport`](weftway_host::Transport).
//! Everything else either drives it or lies below it.
//!
//! | module | what it decides |
//! |---|---|
//! | [`driver`] | which record leaves when, and on which path; which path is up. It has no socket and reads no clock |
//! | [`driver::connection`] | which of noq's paths is which of ours; on which path a datagram and an acknowledgement leave |
//! | [`driver::receiver`] | the limit that the sender is told, from what arrived and what was taken |
//! | [`virtual_time`] | what happens next, and when: it runs a scenario with the driver over simulated links |
//! | [`controller`] | the window and the pacing rate: `weftway-cc`'s controllers behind noq's interface |
//! | [`gate`] | nothing but which path may send: a scheduler in an application that owns its noq connection itself |
//! | [`null_crypto`] | nothing: a session without encryption, for virtual time |
//!
//! # What is decided elsewhere
//!
//! noq detects losses, makes acknowledgements and keeps connection IDs. `weftway-host` asks the scheduler and judges
//! its answer. A file's names, manifest and hashes are those of `weftway-transfer`.

pub mod controller;
pub mod driver;
pub mod gate;
pub mod null_crypto;
pub mod virtual_time;
