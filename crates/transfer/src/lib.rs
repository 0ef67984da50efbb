//! Files and directories over several links: [`send`] and [`receive`].
//!
//! # What travels
//!
//! The data are one stream of bytes: the files of the manifest one after the other, less what the receiver has already.
//! They travel as the driver's records, so every scheduler of the registry runs. Everything else is said on an ordinary
//! QUIC stream ([`wire`]): who is there and may be there, the manifest, what the receiver has, the hash of each file, and
//! that all is well.
//!
//! # What is kept
//!
//! The receiver writes a file below a hidden directory of the target ([`store`]) and renames it when its BLAKE3 hash is
//! the sender's. What was written stays there when either end stops, and the next transfer goes on behind it.
//!
//! # Who may
//!
//! The end that listens shows a certificate, the end that connects a token ([`weftway_quic::udp::tls`]). Nothing is told to an
//! end that has not shown the token. The end that connects may be the sender or the receiver.

#![cfg(unix)]

mod control_stream;
mod disk;
pub mod doctor;
mod files;
mod listener;
pub mod live;
pub mod manifest;
mod opening;
mod options;
mod outcome;
mod qlog;
mod receiving;
mod sending;
mod session;
mod setting;
mod source;
pub mod store;
pub mod wire;
mod writer;

pub use files::{FailedFile, Skipped};
pub use manifest::{Entry, Manifest};
pub use options::{Failure, Options, OtherEnd, PathProgress, Progress, Report, Watch};
pub use receiving::receive;
pub use sending::send;
pub use setting::OFFERS;
