//! Files and directories over several links: [`send`] and [`receive`], which are `weft send` and `weft recv`; and both
//! ends of `weft proxy`, `weft tunnel`, `weft pipe` and `weft relay`.
//!
//! # What travels
//!
//! The data are one stream of bytes: the files of the manifest one after the other, less what the receiver has already.
//! They travel as the driver's records, so every scheduler of the registry runs. Everything else travels on an ordinary
//! QUIC stream as messages ([`wire`]): token and role, the manifest, what the receiver has, the hash of each file, and
//! that all files are there.
//!
//! # What is kept
//!
//! The receiver writes a file below a hidden directory of the target ([`store`]) and renames it when its BLAKE3 hash is
//! the sender's. What was written stays there when either end stops, and the next transfer goes on behind it.
//!
//! # Who may
//!
//! The end that listens shows a certificate, the end that connects a token ([`weftway_udp::tls`]). Nothing is told to
//! an end that has not shown the token. The end that connects may be the sender or the receiver.
//!
//! # Where to begin
//!
//! [`wire`] has all messages in their order. `files::sending` and `files::receiving` are the two ends of a transfer,
//! `programs::proxying` and `programs::relaying` those of a connection that carries programs: a loop each.
//!
//! | module | contents |
//! |---|---|
//! | `options` | options of each program |
//! | `files` | `weft send` and `weft recv` |
//! | `programs` | `weft proxy`, `weft tunnel`, `weft pipe` and `weft relay` |
//! | `connection` | sockets, the other end and the user, for all of them |
//! | `links` | links that are open to data, and how much each may still carry |
//! | `tree` | files and folders on a machine's disk |
//! | `setting` | settings of the driver over sockets, and of the scheduler |
//! | `progress`, `seen`, `failure` | messages to the user |
//! | [`doctor`] | interfaces and sockets of this machine |
//!
//! Which path carries a record, and when a path is given up, is the driver's matter ([`weftway_quic::driver`]).

#![cfg(unix)]

mod connection;
pub mod doctor;
mod failure;
mod files;
mod links;
mod options;
mod programs;
mod progress;
mod seen;
mod setting;
mod tree;
pub mod wire;

pub use failure::Failure;
pub use files::outcome::Report;
pub use files::receiving::receive;
pub use files::sending::send;
pub use links::terms::{Cap, Link, LinkProgress, LinkTerms, Period};
pub use options::{
    Connect, Links, Listen, Lookup, OtherEnd, ProxyOptions, ReceiveOptions, RelayOptions, SendOptions, Times,
};
pub use programs::client_rules::ClientRules;
pub use programs::piping::pipe;
pub use programs::proxying::proxy;
pub use programs::relaying::relay;
#[cfg(all(target_os = "linux", feature = "tunnel"))]
pub use programs::tunnelling::tunnel;
pub use progress::{Progress, State, Watch};
pub use seen::{
    ByClass, ClientProgress, Connections, FlowPath, FlowProgress, LastPacket, LinkHealth, PathProgress, PipeLink,
    PipeProgress, PipeRate, Unread, UnreadFlow,
};
pub use setting::{INITIAL_WINDOW, LARGEST_INITIAL_WINDOW, Scheduling};
pub use tree::found::{FailedFile, Skipped};
pub use tree::manifest::{self, Entry, Manifest};
pub use tree::store;
